//! A scripted server over raw sockets, and a client for it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use url::Url;

use crate::config::{Auth, FixedHeader, HttpConfig, Method, Redirects, ResponseFormat, SourceConfig};
use crate::fetch::{Client, Failure, Incoming, Outgoing, Transport};
use crate::plan::Request;
use crate::secret::{Redactor, Secret, names_a_secret};

/// What a server does with one request.
#[derive(Clone)]
pub(super) enum Act {
    /// Writes this and closes.
    Say(Vec<u8>),
    /// Writes this a byte at a time.
    Drip(Vec<u8>),
    /// Writes this and says nothing more.
    Stall(Vec<u8>),
    /// Writes this and resets the connection.
    Reset(Vec<u8>),
}

/// A reply with these header lines and this body.
pub(super) fn reply(status: u16, headers: &[&str], body: impl AsRef<[u8]>) -> Act {
    let body = body.as_ref();
    let mut lines: Vec<String> = headers.iter().map(|&line| line.to_owned()).collect();
    lines.push(format!("Content-Length: {}", body.len()));
    Act::Say([head(status, &lines), body.to_vec()].concat())
}

/// Status line and header lines, with `Connection: close`.
pub(super) fn head(status: u16, lines: &[String]) -> Vec<u8> {
    format!("HTTP/1.1 {status} X\r\nConnection: close\r\n{}\r\n\r\n", lines.join("\r\n")).into_bytes()
}

pub(super) fn json(body: &str) -> Act {
    reply(200, &["Content-Type: application/json"], body)
}

/// A server on loopback that records the text of every request.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

/// A transport without sockets, for tests with a paused clock: `script` gets each request and gives a body.
pub(super) struct Canned<F>(pub(super) F);

impl<F> std::fmt::Debug for Canned<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Canned")
    }
}

impl<F: Fn(&Outgoing) -> String + Send + Sync> Transport for Canned<F> {
    fn send(&self, request: Outgoing) -> BoxFuture<'_, Result<Incoming, Failure>> {
        let body = Box::pin(futures::stream::iter([Ok((self.0)(&request).into())]));
        async { Ok(Incoming { status: StatusCode::OK, headers: HeaderMap::new(), body }) }.boxed()
    }
}

impl Server {
    /// `script` gets the number of the request, from 0, and its text.
    pub(super) async fn start(script: impl Fn(usize, &str) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (script, log) = (Arc::new(script), seen.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (script, log) = (script.clone(), log.clone());
                tokio::spawn(async move {
                    let text = read_request(&mut stream).await;
                    if text.is_empty() {
                        return;
                    }
                    let number = {
                        let mut log = log.lock().unwrap();
                        log.push(text.clone());
                        log.len() - 1
                    };
                    perform(stream, script(number, &text)).await;
                });
            }
        });
        Self { address, seen }
    }

    /// A server that answers in order; the last answer repeats.
    pub(super) async fn in_order(acts: Vec<Act>) -> Self {
        Self::start(move |n, _| acts[n.min(acts.len() - 1)].clone()).await
    }

    pub(super) fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}{path}", self.address)).unwrap()
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// The first lines of the requests, without the protocol.
    pub(super) fn lines(&self) -> Vec<String> {
        let first = |text: &String| text.lines().next().unwrap_or("").trim_end_matches(" HTTP/1.1").to_owned();
        self.requests().iter().map(first).collect()
    }
}

async fn read_request(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let n = stream.read(&mut buffer).await.unwrap_or(0);
        text.extend_from_slice(&buffer[..n]);
        let so_far = String::from_utf8_lossy(&text).into_owned();
        if let Some((head, body)) = so_far.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return so_far;
            }
        }
        if n == 0 {
            return so_far;
        }
    }
}

async fn perform(mut stream: TcpStream, act: Act) {
    match act {
        Act::Say(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
            let _ = stream.read(&mut [0; 1]).await;
        }
        Act::Drip(bytes) => {
            for byte in bytes {
                if stream.write_all(&[byte]).await.is_err() {
                    return;
                }
                sleep(Duration::from_millis(10)).await;
            }
        }
        Act::Stall(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.read(&mut [0; 1]).await;
        }
        Act::Reset(bytes) => {
            let _ = stream.write_all(&bytes).await;
            sleep(Duration::from_millis(20)).await;
            stream.set_zero_linger().unwrap();
        }
    }
}

/// A source at a server, with short back-off and time-outs that no busy machine meets by chance.
pub(super) fn source(server: &Server) -> SourceConfig {
    source_at(server.url(""))
}

/// A source anywhere.
pub(super) fn source_at(base_url: Url) -> SourceConfig {
    SourceConfig {
        openapi: None,
        file: PathBuf::new(),
        base_url,
        auth: Auth::None,
        http: HttpConfig {
            timeout: Duration::from_secs(20),
            idle_timeout: Duration::from_secs(20),
            page_timeout: Duration::from_secs(20),
            max_retries: 0,
            max_backoff: Duration::from_millis(5),
            max_retry_after: Duration::from_mins(5),
            rate_limit: None,
            read_ahead: 1,
            compression: true,
            response_format: ResponseFormat::Json,
            max_body_bytes: 1 << 20,
            follow_redirects: Redirects::SameOrigin,
            headers: Vec::new(),
        },
        storage: crate::storage::Settings::default(),
        tables: Vec::new(),
        warnings: Vec::new(),
    }
}

pub(super) fn client(config: &SourceConfig) -> Client {
    Client::new(config, Redactor::default()).unwrap()
}

pub(super) fn get(url: Url) -> Request {
    Request { method: Method::Get, url, body: None, is_link: false }
}

pub(super) fn link(url: Url) -> Request {
    Request { is_link: true, ..get(url) }
}

pub(super) fn fixed(name: &str, value: &str) -> FixedHeader {
    FixedHeader { name: name.into(), value: Secret::new(value), is_secret: names_a_secret(name) }
}

/// The value of a header in a recorded request.
pub(super) fn header(request: &str, name: &str) -> Option<String> {
    request.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(": ")?;
        key.eq_ignore_ascii_case(name).then(|| value.to_owned())
    })
}
