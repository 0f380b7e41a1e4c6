//! An API of any number of pages that notes when each request arrived.

use std::io::BufReader;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::json;
use url::form_urlencoded;

use super::api::{Reply, receive, send};

/// A running API; it stops when dropped.
///
/// `?offset=N` answers one record and the total, whatever else is asked for.
pub(crate) struct Clocked {
    address: SocketAddr,
    arrivals: Arc<Mutex<Vec<Instant>>>,
    stop: Arc<AtomicBool>,
}

impl Clocked {
    /// An API of `pages` pages.
    pub(crate) fn new(pages: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let api = Self { address, arrivals: Arc::default(), stop: Arc::default() };
        let (arrivals, stop) = (Arc::clone(&api.arrivals), Arc::clone(&api.stop));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let arrivals = Arc::clone(&arrivals);
                std::thread::spawn(move || converse(stream, pages, &arrivals));
            }
        });
        api
    }

    /// `http://127.0.0.1:port`.
    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// When each request so far arrived, in order.
    pub(crate) fn arrivals(&self) -> Vec<Instant> {
        let mut arrivals = self.arrivals.lock().expect("a lock").clone();
        arrivals.sort();
        arrivals
    }
}

impl Drop for Clocked {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

fn converse(stream: TcpStream, pages: u64, arrivals: &Mutex<Vec<Instant>>) {
    let _ = stream.set_nodelay(true);
    let mut stream = BufReader::new(stream);
    while let Some(request) = receive(&mut stream) {
        arrivals.lock().expect("a lock").push(Instant::now());
        let (_, query) = request.target.split_once('?').expect("a query");
        let offset = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "offset").expect("an offset").1;
        let reply = Reply::json(&json!({ "items": [{ "id": offset }], "total": pages }));
        send(stream.get_mut(), &reply, usize::MAX);
    }
}

/// How late the machine lets a thread wake: what of the times above is not the sender's doing.
pub(crate) struct Hiccups {
    stop: Arc<AtomicBool>,
    worst: JoinHandle<Duration>,
}

impl Hiccups {
    /// Watches from now on.
    pub(crate) fn watch() -> Self {
        let stop = Arc::<AtomicBool>::default();
        let seen = Arc::clone(&stop);
        let worst = std::thread::spawn(move || {
            let (nap, mut worst) = (Duration::from_millis(1), Duration::ZERO);
            while !seen.load(Ordering::Relaxed) {
                let before = Instant::now();
                std::thread::sleep(nap);
                worst = worst.max(before.elapsed().saturating_sub(nap));
            }
            worst
        });
        Self { stop, worst }
    }

    /// The worst since then.
    pub(crate) fn worst(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.worst.join().expect("the watch")
    }
}
