//! A scripted API on loopback: routes and replies, the requests it saw, and what happens at request k.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use url::form_urlencoded;

use super::PATIENCE;

/// A running API; it stops when dropped.
pub(crate) struct Api {
    address: SocketAddr,
    state: Arc<State>,
}

/// Which request a reply belongs to: method, path, the whole query in any order, and the JSON body where one is given.
#[derive(Clone)]
pub(crate) struct Route {
    method: &'static str,
    path: String,
    query: Vec<(String, String)>,
    body: Option<Value>,
    reply: Reply,
}

/// A reply.
#[derive(Clone)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    end: End,
}

#[derive(Clone, Copy)]
enum End {
    Whole,
    /// This many bytes of the body are sent, then the connection is reset.
    CutAfter(usize),
    /// Not a byte comes.
    Hang,
}

/// What happens at one request instead of its reply.
pub(crate) enum Trap {
    /// Another reply.
    Reply(Reply),
    /// The connection is reset before a byte is sent.
    Reset,
    /// The reply stops in the middle of its body, and the connection is reset.
    Cut,
    /// The request is held back until the API stops; the sender is told that it is there.
    Hold(Sender<()>),
    /// This is done first; then comes the reply.
    First(Box<dyn FnOnce() + Send>),
}

/// A request that came in.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// `GET` or `POST`.
    pub(crate) method: String,
    /// Path and query as they were sent.
    pub(crate) target: String,
    /// Names in lower case.
    pub(crate) headers: HashMap<String, String>,
    /// The body.
    pub(crate) body: Vec<u8>,
}

#[derive(Default)]
struct State {
    script: Mutex<Script>,
    stopped: Condvar,
}

#[derive(Default)]
struct Script {
    routes: Vec<Route>,
    traps: HashMap<usize, Trap>,
    seen: Vec<Request>,
    stop: bool,
}

/// `GET target` answered by a JSON document.
pub(crate) fn get(target: &str, json: &Value) -> Route {
    Route::new("GET", target, Reply::json(json))
}

impl Route {
    /// A route for a path with a query.
    pub(crate) fn new(method: &'static str, target: &str, reply: Reply) -> Self {
        let (path, query) = split(target);
        Self { method, path, query, body: None, reply }
    }

    /// Only for this JSON body.
    pub(crate) fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    fn answers(&self, request: &Request) -> bool {
        let (path, query) = split(&request.target);
        self.method == request.method
            && self.path == path
            && self.query == query
            && self
                .body
                .as_ref()
                .is_none_or(|body| serde_json::from_slice::<Value>(&request.body).ok().as_ref() == Some(body))
    }
}

fn split(target: &str) -> (String, Vec<(String, String)>) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    pairs.sort();
    (path.to_owned(), pairs)
}

impl Reply {
    /// 200 with a JSON document.
    pub(crate) fn json(json: &Value) -> Self {
        Self::text(&json.to_string()).header("Content-Type", "application/json")
    }

    /// 200 with a text.
    pub(crate) fn text(text: &str) -> Self {
        Self { status: 200, headers: vec![], body: text.as_bytes().to_vec(), end: End::Whole }
    }

    /// The same with another status.
    pub(crate) fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// Another status, with an empty JSON object.
    pub(crate) fn status(status: u16) -> Self {
        Self { status, ..Self::json(&serde_json::json!({})) }
    }

    /// One more header line.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The body compressed, and said to be.
    pub(crate) fn gzip(mut self) -> Self {
        let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        encoder.write_all(&self.body).expect("memory");
        self.body = encoder.finish().expect("memory");
        self.header("Content-Encoding", "gzip")
    }

    /// Nothing comes at all.
    pub(crate) fn hang() -> Self {
        Self { end: End::Hang, ..Self::text("") }
    }

    fn cut_in_half(mut self) -> Self {
        self.end = End::CutAfter(self.body.len() / 2);
        self
    }
}

impl Api {
    /// An API with these routes; a request that none answers gets a 599.
    pub(crate) fn new(routes: Vec<Route>) -> Self {
        Self::with_base(|_| routes)
    }

    /// An API whose routes need to know where it is.
    pub(crate) fn with_base(routes: impl FnOnce(&str) -> Vec<Route>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State::default());
        let api = Self { address, state: Arc::clone(&state) };
        api.script(routes(&api.base()));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if state.lock().stop {
                    break;
                }
                let (Ok(stream), state) = (stream, Arc::clone(&state)) else { continue };
                std::thread::spawn(move || state.converse(stream));
            }
        });
        api
    }

    /// `http://127.0.0.1:port`.
    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on these routes; what was seen is forgotten and requests count from one again.
    pub(crate) fn script(&self, routes: Vec<Route>) {
        let mut script = self.state.lock();
        script.routes = routes;
        script.traps.clear();
        script.seen.clear();
    }

    /// What happens at the `k`th request from now (the first is 1).
    pub(crate) fn at(&self, k: usize, trap: Trap) {
        let mut script = self.state.lock();
        let k = script.seen.len() + k;
        script.traps.insert(k, trap);
    }

    /// Holds the `k`th request from now back; what is returned waits until it is there.
    pub(crate) fn hold_at(&self, k: usize) -> impl FnOnce() + use<> {
        let (sender, receiver): (_, Receiver<()>) = channel();
        self.at(k, Trap::Hold(sender));
        move || receiver.recv_timeout(PATIENCE).expect("the request that is waited for")
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.state.lock().seen.clone()
    }

    /// The requests so far as `METHOD target`.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.requests().iter().map(|request| format!("{} {}", request.method, request.target)).collect()
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.state.lock().stop = true;
        self.state.stopped.notify_all();
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Script> {
        self.script.lock().expect("a lock")
    }

    /// Answers the requests of one connection.
    fn converse(&self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let mut stream = BufReader::new(stream);
        while let Some(request) = receive(&mut stream) {
            let (reply, trap) = {
                let mut script = self.lock();
                let reply = script.routes.iter().find(|route| route.answers(&request)).map(|route| route.reply.clone());
                script.seen.push(request);
                let k = script.seen.len();
                (reply.unwrap_or_else(|| Reply::status(599)), script.traps.remove(&k))
            };
            let reply = match trap {
                None => reply,
                Some(Trap::Reply(other)) => other,
                Some(Trap::Cut) => reply.cut_in_half(),
                Some(Trap::Reset) => return reset(stream),
                Some(Trap::First(act)) => {
                    act();
                    reply
                }
                Some(Trap::Hold(sender)) => {
                    let _ = sender.send(());
                    self.until_stopped();
                    return;
                }
            };
            match reply.end {
                End::Hang => return self.until_stopped(),
                End::CutAfter(n) => {
                    send(stream.get_mut(), &reply, n);
                    return reset(stream);
                }
                End::Whole => send(stream.get_mut(), &reply, usize::MAX),
            }
        }
    }

    fn until_stopped(&self) {
        let limit = Duration::from_mins(10);
        let _ = self.stopped.wait_timeout_while(self.lock(), limit, |script| !script.stop);
    }
}

/// Reads a request; `None` at the end of the connection.
pub(super) fn receive(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|n| *n > 0)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|n| *n > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(Request { method, target, headers, body })
}

/// Sends the head, which declares the whole body, and at most the first `n` bytes of the body.
pub(super) fn send(stream: &mut TcpStream, reply: &Reply, n: usize) {
    let mut bytes = format!("HTTP/1.1 {} X\r\nContent-Length: {}\r\n", reply.status, reply.body.len()).into_bytes();
    for (name, value) in &reply.headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(&reply.body[..n.min(reply.body.len())]);
    let _ = stream.write_all(&bytes);
}

/// Closes the connection so that the other side sees a reset rather than an end.
fn reset(stream: BufReader<TcpStream>) {
    let stream = stream.into_inner();
    let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
}
