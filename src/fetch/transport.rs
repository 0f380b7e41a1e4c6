//! The seam to the network: one request out, one answer in. Only this file names reqwest.

use std::error::Error as StdError;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::{HeaderMap, Method, StatusCode};
use url::Url;

use crate::error::{Error, ErrorKind, Result};

/// What every request says it is.
pub(super) const USER_AGENT: &str = concat!("restmark/", env!("CARGO_PKG_VERSION"));

/// One request as it goes on the wire, credentials included: so it has no `Debug`.
pub struct Outgoing {
    /// The method.
    pub method: Method,
    /// The URL, with the query credential.
    pub url: Url,
    /// All headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Option<Bytes>,
}

/// One answer as it came off the wire: any status, redirects and compression untouched.
pub struct Incoming {
    /// The status.
    pub status: StatusCode,
    /// All header lines.
    pub headers: HeaderMap,
    /// The body as sent. It must fail when it is cut short.
    pub body: BoxStream<'static, Result<Bytes, Failure>>,
}

/// Why nothing, or not everything, came back.
#[derive(Debug, Clone)]
pub struct Failure {
    /// One line that names the host and the cause.
    pub message: String,
    /// Whether asking again may help (R19).
    pub is_passing: bool,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Failure {}

/// Sends one request once: no retry, no redirect, no decompression, no cookies. The client above does the rest.
pub trait Transport: fmt::Debug + Send + Sync {
    /// The answer as soon as its headers are there. Dropping the future or the body gives the request up.
    fn send(&self, request: Outgoing) -> BoxFuture<'_, Result<Incoming, Failure>>;
}

/// Real sockets: one pool for http, one for https, which is made when it is needed.
#[derive(Debug)]
pub(super) struct Sockets {
    connect_timeout: Duration,
    plain: reqwest::Client,
    secure: OnceLock<Result<reqwest::Client, Failure>>,
}

impl Sockets {
    /// Pools of connections. `needs_tls`: a machine without root certificates is an error now, not at the first link.
    pub(super) fn new(connect_timeout: Duration, needs_tls: bool) -> Result<Self> {
        // The process we are embedded in may have chosen a provider before us: then that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let unable = |failure: Failure| Error::new(ErrorKind::Config, failure.message);
        let plain = build(builder(connect_timeout).tls_certs_only([])).map_err(unable)?;
        let sockets = Self { connect_timeout, plain, secure: OnceLock::new() };
        if needs_tls {
            sockets.secure().map_err(unable)?;
        }
        Ok(sockets)
    }

    fn secure(&self) -> Result<&reqwest::Client, Failure> {
        self.secure.get_or_init(|| build(builder(self.connect_timeout))).as_ref().map_err(Clone::clone)
    }
}

fn build(builder: reqwest::ClientBuilder) -> Result<reqwest::Client, Failure> {
    builder.build().map_err(|e| {
        let message = format!("no HTTP client can be made here: {}", innermost(&e));
        Failure { message, is_passing: false }
    })
}

fn builder(connect_timeout: Duration) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .user_agent(USER_AGENT)
        .connect_timeout(connect_timeout)
}

impl Transport for Sockets {
    fn send(&self, request: Outgoing) -> BoxFuture<'_, Result<Incoming, Failure>> {
        Box::pin(async move {
            let place = place(&request.url);
            let client = if request.url.scheme() == "https" { self.secure()? } else { &self.plain };
            let mut wire = reqwest::Request::new(request.method, request.url);
            *wire.headers_mut() = request.headers;
            *wire.body_mut() = request.body.map(reqwest::Body::from);
            let answer = client.execute(wire).await.map_err(|e| no_answer(&e, &place))?;
            Ok(Incoming {
                status: answer.status(),
                headers: answer.headers().clone(),
                body: Box::pin(answer.bytes_stream().map_err(move |e| cut_short(&e, &place))),
            })
        })
    }
}

/// `host:port` of a URL.
pub(super) fn place(url: &Url) -> String {
    let host = url.host_str().unwrap_or("");
    url.port_or_known_default().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn no_answer(error: &reqwest::Error, place: &str) -> Failure {
    let what = if error.is_dns() {
        "cannot resolve"
    } else if error.is_connect() {
        "cannot connect to"
    } else {
        "no answer from"
    };
    Failure { message: format!("{what} {place}: {}", innermost(error)), is_passing: !error.is_builder() }
}

fn cut_short(error: &reqwest::Error, place: &str) -> Failure {
    Failure { message: format!("the body from {place} was cut short: {}", innermost(error)), is_passing: true }
}

/// The text of the first cause: the outer ones only say that there is an inner one.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    let mut text = None;
    while let Some(inner) = cause {
        text = Some(inner.to_string());
        cause = inner.source();
    }
    // Without a cause the text is reqwest's own, which may end with the URL and its credential.
    text.unwrap_or_else(|| if error.is_builder() { "it is no valid request".into() } else { "unknown cause".into() })
}
