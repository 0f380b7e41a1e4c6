//! A small paginated API on loopback: just enough HTTP/1.1 to be read, and to fail when told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use url::Url;

use crate::error::{Error, ErrorKind, Result};

/// Records, as the API would send them.
const EVENTS: &str = include_str!("../../../fixtures/demo/events.json");

/// Never reached: every request is answered well.
const NEVER: usize = usize::MAX;

/// The API; it stops when it is dropped.
pub(super) struct Api {
    state: Arc<State>,
    port: u16,
    server: JoinHandle<()>,
}

struct State {
    events: Vec<Box<RawValue>>,
    visible: AtomicUsize,
    requests: AtomicUsize,
    broken_from: AtomicUsize,
}

impl Api {
    /// Serves the first `visible` events on a free port.
    pub(super) async fn start(visible: usize) -> Result<Self> {
        let failed = |e: std::io::Error| Error::new(ErrorKind::Store, format!("no port on loopback: {e}"));
        let events = serde_json::from_str(EVENTS)
            .map_err(|e| Error::new(ErrorKind::Bug, format!("the events of the demo do not read: {e}")))?;
        let state = Arc::new(State {
            events,
            visible: AtomicUsize::new(visible),
            requests: AtomicUsize::new(0),
            broken_from: AtomicUsize::new(NEVER),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let server = tokio::spawn(serve(listener, Arc::clone(&state)));
        Ok(Self { state, port, server })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// How many events there are in all.
    pub(super) fn len(&self) -> usize {
        self.state.events.len()
    }

    /// Everything is there now.
    pub(super) fn show_all(&self) {
        self.state.visible.store(self.len(), Ordering::SeqCst);
    }

    /// The `page`-th request from now on, and those after it, are answered with 500.
    pub(super) fn break_at(&self, page: usize) {
        self.state.broken_from.store(self.state.requests.load(Ordering::SeqCst) + page, Ordering::SeqCst);
    }

    /// Every request is answered well again.
    pub(super) fn mend(&self) {
        self.state.broken_from.store(NEVER, Ordering::SeqCst);
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        // A client that goes away is no concern of a demo.
        tokio::spawn(answer(stream, Arc::clone(&state)));
    }
}

async fn answer(mut stream: TcpStream, state: Arc<State>) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut part).await? {
            0 => return Ok(()),
            n => head.extend_from_slice(&part[..n]),
        }
    }
    let target = String::from_utf8_lossy(&head).split(' ').nth(1).unwrap_or_default().to_owned();
    let (status, body) = state.page(&target);
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

impl State {
    /// One page: `limit` events from `cursor` on, and the cursor of the next page if there is one.
    fn page(&self, target: &str) -> (&'static str, String) {
        let number = self.requests.fetch_add(1, Ordering::SeqCst) + 1;
        if number >= self.broken_from.load(Ordering::SeqCst) {
            return ("500 Internal Server Error", r#"{"error":"the database is away"}"#.to_owned());
        }
        let Ok(url) = Url::parse("http://demo").and_then(|base| base.join(target)) else {
            return ("400 Bad Request", "{}".to_owned());
        };
        let query = |name: &str| url.query_pairs().find(|(key, _)| key == name).and_then(|(_, v)| v.parse().ok());
        let visible = self.visible.load(Ordering::SeqCst);
        let from = query("cursor").unwrap_or(0).min(visible);
        let to = from.saturating_add(query("limit").unwrap_or(visible)).min(visible);
        let events: Vec<&str> = self.events[from..to].iter().map(|event| event.get()).collect();
        let next = if to < visible { format!("\"{to}\"") } else { "null".to_owned() };
        ("200 OK", format!("{{\"events\":[{}],\"next\":{next}}}", events.join(",")))
    }
}
