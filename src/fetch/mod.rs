//! One request becomes one response: auth, then the rate limit, then retries, then the transport.
//!
//! `Client::page` is what a page read needs; `Client::open` starts a streamed body.

mod address;
mod answer;
mod auth;
mod body;
mod codec;
mod document;
mod rate;
mod redirect;
mod retry;
#[cfg(test)]
mod tests;
mod token;
mod transport;
mod unpack;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use http::{Method, StatusCode};
use tokio::time::{Instant, timeout, timeout_at};
use url::Url;

pub use answer::{Large, Response, Streamed};
pub use retry::Attempts;
pub use transport::{Failure, Incoming, Outgoing, Transport};

use crate::config::{FixedHeader, HttpConfig, ResponseFormat, SourceConfig};
use crate::counts::Meter;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::{Request, Share};
use crate::secret::Redactor;
use answer::{Collected, Place};
use auth::{Authenticator, Credential};
use rate::RateLimiter;
use redirect::{Guard, Hop, MAX_HOPS};
use retry::{is_retried, passing, seconds};
use transport::Sockets;

/// The sender of one source's requests. Clones share connections, rate limit and token.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    limiter: Option<Arc<RateLimiter>>,
    guard: Guard,
    fixed: Arc<[FixedHeader]>,
    meter: Arc<Meter>,
}

struct Shared {
    transport: Arc<dyn Transport>,
    auth: Authenticator,
    has_auth: bool,
    http: HttpConfig,
    redactor: Redactor,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("transport", &self.shared.transport).finish_non_exhaustive()
    }
}

impl Client {
    /// The client of a source over real sockets. Sends nothing; `redactor` learns all its secrets (R23).
    ///
    /// # Errors
    /// Kind `Config`, when a credential cannot be sent or this machine has no root certificates for https.
    pub fn new(config: &SourceConfig, redactor: Redactor) -> Result<Self> {
        let is_plain = config.base_url.scheme() == "http";
        let sockets = Sockets::new(config.http.timeout, !is_plain)?;
        Self::with_transport(config, redactor, Arc::new(sockets))
    }

    /// The client of a source over a transport of your own.
    ///
    /// # Errors
    /// Kind `Config`, when a credential cannot be sent.
    pub fn with_transport(config: &SourceConfig, redactor: Redactor, transport: Arc<dyn Transport>) -> Result<Self> {
        auth::learn(config, &redactor);
        let shared = Shared {
            transport,
            auth: Authenticator::new(&config.auth, &redactor)?,
            has_auth: config.auth.is_some(),
            http: config.http.clone(),
            redactor,
        };
        let fixed: Arc<[FixedHeader]> = config.http.headers.clone().into();
        let guard = Guard::new(config, shared.has_auth || has_secrets(&fixed));
        let limiter = config.http.rate_limit.map(|rate| Arc::new(RateLimiter::new(rate)));
        Ok(Self { shared: Arc::new(shared), limiter, guard, fixed, meter: Arc::default() })
    }

    /// The same client for one table and one read: its fixed headers, and where requests are counted.
    ///
    /// A header of the table replaces those of the source with the same name.
    #[must_use]
    pub fn for_read(&self, headers: &[FixedHeader], meter: Arc<Meter>) -> Self {
        let is_replaced = |h: &&FixedHeader| !headers.iter().any(|mine| mine.name.eq_ignore_ascii_case(&h.name));
        let fixed: Arc<[FixedHeader]> = self.fixed.iter().filter(is_replaced).chain(headers).cloned().collect();
        headers.iter().filter(|h| h.is_secret).for_each(|h| auth::learn_header(&h.value, self.redactor()));
        let mut guard = self.guard.clone();
        guard.has_credentials = self.shared.has_auth || has_secrets(&fixed);
        Self { shared: self.shared.clone(), limiter: self.limiter.clone(), guard, fixed, meter }
    }

    /// The same client with a part of the rate limit to itself: the other parts are used in other processes (R21).
    #[must_use]
    pub fn with_share(self, share: Option<Share>) -> Self {
        let parts = share.zip(self.shared.http.rate_limit);
        let of = parts.map(|(share, rate)| Arc::new(RateLimiter::of(rate, share, SystemTime::now())));
        Self { limiter: of.or(self.limiter), ..self }
    }

    /// What removes secrets from texts.
    pub fn redactor(&self) -> &Redactor {
        &self.shared.redactor
    }

    /// A URL for messages: without user info, known secrets and the values of parameters named like one (R23).
    pub fn shown(&self, url: &Url) -> String {
        address::shown(url, self.redactor())
    }

    /// The budget of one page (R19).
    pub fn attempts(&self) -> Attempts {
        Attempts::new(&self.shared.http, self.meter.clone())
    }

    /// Sends a request and collects its body, retrying within one budget (R19).
    ///
    /// # Errors
    /// `Http` for a status, the network, a time-out, a refused origin or redirect; `Auth` for 401, 403 and tokens;
    /// `Decode` for a body that is larger than `max-body-bytes` or cannot be unpacked. All are scrubbed (R23).
    pub async fn page(&self, request: &Request) -> Result<Response> {
        match self.arrive(request, self.attempts(), u64::MAX).await? {
            Arrived::Whole(response) => Ok(*response),
            Arrived::Large(_) => Err(Error::new(ErrorKind::Bug, "a page was to be held whatever its size")),
        }
    }

    /// [`Client::page`], where a body of more than `hold` bytes is left to the caller as it comes in.
    ///
    /// On an error of [`Large::chunk`] before the first row was handed on: pass it to [`Attempts::again`] and come back
    /// with the same attempts. After the first row the read fails (R19).
    pub async fn arrive(&self, request: &Request, mut attempts: Attempts, hold: u64) -> Result<Arrived> {
        loop {
            match self.page_once(request, &mut attempts, hold).await {
                Ok(Collected::Whole(response)) => return Ok(Arrived::Whole(Box::new(response))),
                Ok(Collected::Beginning(head, rest)) => {
                    let limits = (self.shared.http.page_timeout, self.shared.http.max_body_bytes);
                    return Ok(Arrived::Large(Box::new(Large::new(head, rest, limits, attempts))));
                }
                Err(error) => attempts.again(error).await?,
            }
        }
    }

    /// Sends a request once and hands out its body as it comes in.
    ///
    /// On an error, of this or of [`Streamed::chunk`], before the first row was handed on: pass it to
    /// [`Attempts::again`] and open anew. After the first row the read fails (R19).
    ///
    /// # Errors
    /// As [`Client::page`].
    pub async fn open(&self, request: &Request, attempts: &mut Attempts) -> Result<Streamed> {
        self.exchange(request, attempts, self.shared.http.timeout).await
    }

    async fn page_once(&self, request: &Request, attempts: &mut Attempts, hold: u64) -> Result<Collected> {
        let answer = self.exchange(request, attempts, self.headers_within()).await?;
        let (asked, place) = (answer.asked, answer.place().clone());
        self.within_page(asked, answer.collect(self.shared.http.max_body_bytes, hold), &place).await
    }

    /// One attempt: a credential, the request and its redirects; after a 401 once more with a new credential (R22).
    async fn exchange(&self, request: &Request, attempts: &mut Attempts, within: Duration) -> Result<Streamed> {
        let start = Hop::first(request);
        self.guard.check_request(&start.url).map_err(|why| self.place(&start.url).error(ErrorKind::Http, why))?;
        let mut is_renewal = false;
        loop {
            let credential = self.shared.auth.credential(self).await?;
            if !is_renewal {
                attempts.begin();
            }
            let answer = self.follow(start.clone(), &credential, within).await?;
            let is_denied = answer.status == 401 && self.guard.trusts(&answer.url) && !attempts.is_renewed();
            if is_denied && self.shared.auth.renew(self, &credential).await? {
                tracing::debug!("the credential was renewed after a 401");
                attempts.renew();
                is_renewal = true;
                continue;
            }
            // 206 is a part of a page that nobody asked for.
            if (200..300).contains(&answer.status) && answer.status != 206 {
                return Ok(answer);
            }
            return Err(self.refused(answer, "the API", |status| matches!(status, 401 | 403)).await);
        }
    }

    /// The request and the redirects it meets, each with the credentials its origin may see (R17).
    async fn follow(&self, start: Hop, credential: &Credential, within: Duration) -> Result<Streamed> {
        let mut seen = HashSet::new();
        let mut hop = start;
        loop {
            let answer = self.send(self.outgoing(&hop, credential)?, self.bare(&hop.url), within).await?;
            let refuse = |why: String| answer.place().error(ErrorKind::Http, why);
            let Some(next) = hop.next(answer.status, &answer.headers) else { return Ok(answer) };
            let next = next.map_err(refuse)?;
            self.guard.check_redirect(&hop.url, &next.url).map_err(refuse)?;
            tracing::debug!(to = %self.shown(&next.url), "redirected");
            seen.insert(std::mem::replace(&mut hop, next));
            if seen.contains(&hop) {
                return Err(refuse("the API's redirects go round in a circle".into()));
            }
            if seen.len() > MAX_HOPS {
                return Err(refuse(format!("the API redirects more than {MAX_HOPS} times")));
            }
        }
    }

    /// One request on the wire: a permit, then the transport, until the headers are there (R20, R21).
    async fn send(&self, outgoing: Outgoing, url: Url, within: Duration) -> Result<Streamed> {
        if let Some(limiter) = &self.limiter {
            limiter.permit().await;
        }
        Meter::add(&self.meter.requests, 1);
        let place = self.place(&url);
        let asked = Instant::now();
        let (method, shown) = (outgoing.method.clone(), self.shown(&url));
        match timeout(within, self.shared.transport.send(outgoing)).await {
            Ok(Ok(incoming)) => {
                let (status, took) = (incoming.status.as_u16(), asked.elapsed());
                tracing::info!(%method, url = %shown, status, ms = took.as_millis(), "answered");
                Streamed::new(incoming, url, asked, self.shared.http.idle_timeout, place)
            }
            Ok(Err(failure)) => Err(place.failed(failure)),
            Err(_) => {
                let message = format!("no answer from {} within {}", transport::place(&url), seconds(within));
                Err(place.passing(ErrorKind::Http, "no answer in time", message))
            }
        }
    }

    /// A hop with headers, and with credentials if it goes home.
    fn outgoing(&self, hop: &Hop, credential: &Credential) -> Result<Outgoing> {
        let is_home = self.guard.trusts(&hop.url);
        let mut headers = self.headers(is_home)?;
        let mut url = hop.url.clone();
        address::strip_user(&mut url);
        if is_home {
            credential.apply(&mut url, &mut headers);
        } else {
            self.shared.auth.strip(&mut url);
            if self.redactor().finds(url.as_str()) {
                let message = "the URL would carry a credential to another origin: nothing was sent there";
                return Err(self.place(&url).error(ErrorKind::Http, message));
            }
        }
        if hop.body.is_some() {
            headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        }
        Ok(Outgoing { method: hop.method.clone(), url, headers, body: hop.body.clone().map(Bytes::from) })
    }

    /// What every request says, then the fixed headers, which may say otherwise.
    fn headers(&self, is_home: bool) -> Result<HeaderMap> {
        let accept = match self.shared.http.response_format {
            ResponseFormat::Json => "application/json, application/*+json;q=0.9, */*;q=0.5",
            ResponseFormat::Ndjson => "application/x-ndjson, application/jsonl;q=0.9, */*;q=0.5",
            ResponseFormat::Sse => "text/event-stream, */*;q=0.5",
            ResponseFormat::Csv => "text/csv, */*;q=0.5",
        };
        let encodings = if self.shared.http.compression { "gzip, deflate, br, zstd" } else { "identity" };
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static(transport::USER_AGENT));
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(encodings));
        for fixed in self.fixed.iter().filter(|fixed| is_home || !fixed.is_secret) {
            let mut value = auth::header_value(&fixed.name, fixed.value.expose())?;
            value.set_sensitive(fixed.is_secret);
            headers.insert(auth::header_name(&fixed.name)?, value);
        }
        Ok(headers)
    }

    /// The error that a status is, with the beginning of its body.
    async fn refused(&self, mut answer: Streamed, who: &str, is_auth: impl Fn(u16) -> bool) -> Error {
        let status = answer.status;
        let asked_to_wait = retry::retry_after(&answer.headers, SystemTime::now());
        let name = StatusCode::from_u16(status).ok().and_then(|s| s.canonical_reason()).unwrap_or("");
        let (kind, verb) =
            if is_auth(status) { (ErrorKind::Auth, "refused our credentials:") } else { (ErrorKind::Http, "answered") };
        let excerpt = answer.excerpt().await;
        let colon = if excerpt.is_empty() { "" } else { ": " };
        let message = format!("{who} {verb} {status} {name}").trim_end().to_owned() + colon + &excerpt;
        let error = answer.place().error(kind, message).with_status(status);
        if is_retried(status) { passing(error, status.to_string(), asked_to_wait) } else { error }
    }

    /// How long the headers of a page that is not streamed may take.
    fn headers_within(&self) -> Duration {
        self.shared.http.timeout.min(self.shared.http.page_timeout)
    }

    /// Collects within what is left of `page-timeout` (R20).
    async fn within_page<T>(&self, asked: Instant, body: impl Future<Output = Result<T>>, place: &Place) -> Result<T> {
        let limit = self.shared.http.page_timeout;
        let Some(deadline) = asked.checked_add(limit) else { return body.await };
        timeout_at(deadline, body).await.unwrap_or_else(|_| {
            let message = format!("the page took longer than {} (http.page-timeout)", seconds(limit));
            Err(place.passing(ErrorKind::Http, "a slow page", message))
        })
    }

    /// A URL without user info and query credential: what links resolve against.
    fn bare(&self, url: &Url) -> Url {
        let mut url = url.clone();
        address::strip_user(&mut url);
        self.shared.auth.strip(&mut url);
        url
    }

    fn place(&self, url: &Url) -> Place {
        Place::new(url, self.redactor())
    }
}

/// What came for one request.
#[derive(Debug)]
pub enum Arrived {
    /// The whole answer.
    Whole(Box<Response>),
    /// An answer that is larger than was to be held.
    Large(Box<Large>),
}

impl Hop {
    fn first(request: &Request) -> Self {
        let method = match request.method {
            crate::config::Method::Get => Method::GET,
            crate::config::Method::Post => Method::POST,
        };
        Self { method, url: request.url.clone(), body: request.body.clone() }
    }
}

fn has_secrets(headers: &[FixedHeader]) -> bool {
    headers.iter().any(|header| header.is_secret)
}
