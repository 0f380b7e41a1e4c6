//! A proxy in front of a real server, which remembers what the server was asked.

use std::io::{BufRead as _, BufReader, Write as _, copy};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use url::form_urlencoded;

use super::servers::Server;

/// A running proxy of requests without bodies; it stops when dropped.
pub(crate) struct Proxy {
    address: SocketAddr,
    targets: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
}

impl Proxy {
    /// A proxy in front of a server.
    pub(crate) fn before(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let proxy = Self { address, targets: Arc::default(), stop: Arc::default() };
        let (targets, stop) = (Arc::clone(&proxy.targets), Arc::clone(&proxy.stop));
        let behind = server.base().strip_prefix("http://").expect("a base").to_owned();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let (targets, server) = (Arc::clone(&targets), TcpStream::connect(&behind).expect("the server"));
                std::thread::spawn(move || forward(&stream, &server, &targets));
            }
        });
        proxy
    }

    /// `http://127.0.0.1:port`.
    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The query of each request since the last call, decoded and in order, without the parameters of these names.
    pub(crate) fn take_queries(&self, without: &[&str]) -> Vec<Vec<(String, String)>> {
        let targets = std::mem::take(&mut *self.targets.lock().expect("a lock"));
        let query = |target: String| {
            let text = target.split_once('?').map(|(_, query)| query.to_owned()).unwrap_or_default();
            let pairs = form_urlencoded::parse(text.as_bytes()).into_owned();
            pairs.filter(|(name, _)| !without.contains(&name.as_str())).collect()
        };
        targets.into_iter().map(query).collect()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

/// Answers go back as they are; of requests the first line is kept. An end on one side is one on the other.
fn forward(client: &TcpStream, server: &TcpStream, targets: &Mutex<Vec<String>>) {
    let (mut back, mut to) = (server.try_clone().expect("a handle"), client.try_clone().expect("a handle"));
    std::thread::spawn(move || {
        let _ = copy(&mut back, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut lines, mut server, mut head) = (BufReader::new(client), server, String::new());
    while let Ok(1..) = lines.read_line(&mut head) {
        if !head.ends_with("\r\n\r\n") {
            continue;
        }
        targets.lock().expect("a lock").extend(head.split(' ').nth(1).map(str::to_owned));
        if server.write_all(head.as_bytes()).is_err() {
            break;
        }
        head.clear();
    }
    let _ = server.shutdown(Shutdown::Both);
}
