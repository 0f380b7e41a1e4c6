//! One request becomes one response: auth, then the rate limit, then retries, then the transport.
//!
//! `Client::page` is what a page read needs; `Client::open` starts a streamed body.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use url::Url;

use crate::config::{FixedHeader, SourceConfig};
use crate::counts::Meter;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::Request;
use crate::secret::Redactor;

/// One whole answer: status 2xx, body decompressed and in UTF-8 without a leading BOM.
#[derive(Debug, Clone)]
pub struct Response {
    /// The HTTP status, 200..=299.
    pub status: u16,
    /// All header lines.
    pub headers: HeaderMap,
    /// The URL that answered, after redirects, without the query credential: links resolve against it.
    pub url: Url,
    /// The decoded body; empty for 204 and for an empty answer.
    pub body: Bytes,
}

/// The sender of one source's requests. Clones share connections, rate limit and token.
#[derive(Debug, Clone)]
pub struct Client {
    redactor: Redactor,
}

impl Client {
    /// The client of a source over real sockets.
    pub fn new(_config: &SourceConfig, redactor: Redactor) -> Result<Self> {
        Ok(Self { redactor })
    }

    /// The same client for one table and one read: its fixed headers, and where requests are counted.
    #[must_use]
    pub fn for_read(&self, _headers: &[FixedHeader], _meter: Arc<Meter>) -> Self {
        self.clone()
    }

    /// What removes secrets from texts.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Sends a request and collects its body, retrying within one budget (R19).
    pub async fn page(&self, _request: &Request) -> Result<Response> {
        Err(Error::new(ErrorKind::Bug, "not built"))
    }
}

/// stub
pub struct Attempts;
impl Attempts {
    /// stub
    pub async fn again(&mut self, e: Error) -> Result<()> {
        Err(e)
    }
}
/// stub
pub struct Streamed;
impl Streamed {
    /// stub
    pub async fn chunk(&mut self) -> Result<Option<Bytes>> {
        Ok(None)
    }
    /// stub
    pub fn into_response(self) -> Response {
        todo!()
    }
}
impl Client {
    /// stub
    pub fn attempts(&self) -> Attempts {
        Attempts
    }
    /// stub
    pub async fn open(&self, _r: &Request, _a: &mut Attempts) -> Result<Streamed> {
        Ok(Streamed)
    }
}
