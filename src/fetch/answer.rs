//! What came back: a whole page, or a body that is still coming in, decoded on the way.

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use tokio::time::{Instant, timeout};
use url::Url;

use super::address;
use super::body::{Decoder, Undecodable};
use super::retry::passing;
use super::transport::{Failure, Incoming};
use super::unpack::{Ahead, Unpacking};
use crate::error::{Error, ErrorKind, Result};
use crate::secret::Redactor;
use crate::text::{cut, one_line};

/// One whole answer: status 2xx, body decompressed and in UTF-8 without a leading BOM.
#[derive(Debug, Clone)]
pub struct Response {
    /// The HTTP status, 200..=299.
    pub status: u16,
    /// All header lines.
    pub headers: HeaderMap,
    /// The URL that answered, after redirects, without the query credential: links resolve against it.
    pub url: Url,
    /// The decoded body; empty for 204 and for an empty answer. Bytes that are no UTF-8 are left to the reader.
    pub body: Bytes,
    /// When it was asked for.
    pub asked: Instant,
}

/// What was collected of a body.
pub(super) enum Collected {
    Whole(Response),
    Beginning(Bytes, Streamed),
}

/// A page that is larger than was to be held: its beginning is here, the rest is still coming in.
#[derive(Debug)]
pub struct Large {
    /// Bytes that were collected and not handed out yet.
    head: Bytes,
    /// What is left of `page-timeout`: time that the consumer takes is not the server's (R20).
    patience: Duration,
    /// Bytes that may still come (R26).
    room: u64,
    rest: Streamed,
    /// The budget of the page, for asking again before its first row was handed on (R19).
    pub attempts: super::Attempts,
}

impl Large {
    pub(super) fn new(head: Bytes, rest: Streamed, limits: (Duration, u64), attempts: super::Attempts) -> Self {
        let patience = limits.0.saturating_sub(rest.asked.elapsed());
        Self { room: limits.1.saturating_sub(head.len() as u64), head, patience, rest, attempts }
    }

    /// The next bytes, decompressed and in UTF-8; `None` at the end of a body that came in whole.
    ///
    /// # Errors
    /// As [`Streamed::chunk`]; also when the page is larger than `max-body-bytes`, or took longer than `page-timeout`.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>> {
        if !self.head.is_empty() {
            return Ok(Some(std::mem::take(&mut self.head)));
        }
        let begun = Instant::now();
        let Ok(chunk) = timeout(self.patience, self.rest.chunk()).await else {
            let message = "the page took longer than http.page-timeout";
            return Err(self.rest.place.passing(ErrorKind::Http, "a slow page", message));
        };
        self.patience = self.patience.saturating_sub(begun.elapsed());
        let chunk = chunk?;
        let length = chunk.as_ref().map_or(0, |bytes| bytes.len() as u64);
        self.room = self.room.checked_sub(length).ok_or_else(|| self.rest.too_large_here())?;
        Ok(chunk)
    }

    /// Status, headers and URL, without the body.
    pub fn response(&self) -> Response {
        self.rest.response()
    }
}

/// An answer whose body is still coming in.
pub struct Streamed {
    /// The HTTP status, 200..=299.
    pub status: u16,
    /// All header lines.
    pub headers: HeaderMap,
    /// The URL that answered, after redirects, without the query credential.
    pub url: Url,
    pub(super) asked: Instant,
    /// The body, until a task of its own unpacks it.
    body: Option<Unpacking>,
    ahead: Option<Ahead>,
    idle: Duration,
    place: Place,
}

impl fmt::Debug for Streamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streamed").field("status", &self.status).field("url", &self.place.url).finish_non_exhaustive()
    }
}

/// Where an error happened, and what must not be in it.
#[derive(Clone)]
pub(super) struct Place {
    redactor: Redactor,
    url: String,
}

impl Place {
    pub(super) fn new(url: &Url, redactor: &Redactor) -> Self {
        Self { redactor: redactor.clone(), url: address::shown(url, redactor) }
    }

    /// A scrubbed error that names the URL (R23).
    pub(super) fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::new(kind, message).with("url", &self.url).scrubbed(|text| one_line(&self.redactor.scrub(text)))
    }

    /// The same for something that may pass.
    pub(super) fn passing(&self, kind: ErrorKind, why: &str, message: impl Into<String>) -> Error {
        passing(self.error(kind, message), why, None)
    }

    pub(super) fn failed(&self, failure: Failure) -> Error {
        if failure.is_passing {
            self.passing(ErrorKind::Http, "the connection failed", failure.message)
        } else {
            self.error(ErrorKind::Http, failure.message)
        }
    }

    pub(super) fn undecodable(&self, problem: Undecodable) -> Error {
        if problem.is_passing {
            self.passing(ErrorKind::Decode, "a damaged body", problem.message)
        } else {
            self.error(ErrorKind::Decode, problem.message)
        }
    }
}

/// How much of an error body is read, shown, and dropped where the reading stopped.
const EXCERPT_READ: usize = 64 * 1024;
const EXCERPT_SHOWN: usize = 200;
const LONGEST_SECRET: usize = 8 * 1024;

/// The most that is set aside for a body because its header says so.
const PRESIZE_MAX: u64 = 8 << 20;

/// How much smaller compressed JSON is, by experience.
const PACKED: u64 = 10;

impl Streamed {
    pub(super) fn new(incoming: Incoming, url: Url, asked: Instant, idle: Duration, place: Place) -> Result<Self> {
        let decoder = Decoder::new(&incoming.headers).map_err(|e| place.undecodable(e))?;
        Ok(Self {
            status: incoming.status.as_u16(),
            headers: incoming.headers,
            body: Some(Unpacking::new(incoming.body, decoder, idle, place.clone())),
            ahead: None,
            url,
            asked,
            idle,
            place,
        })
    }

    /// The next bytes, decompressed and in UTF-8; `None` at the end of a body that came in whole. What has to be
    /// unpacked is unpacked elsewhere from now on, while the caller works on what it got.
    ///
    /// # Errors
    /// After silence of `idle-timeout`, when the body is cut short or its compression is damaged: these are marked as
    /// passing, [`super::Attempts::again`] decides (R19). A malformed legacy charset is not.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>> {
        if let Some(unpacking) = self.body.take_if(|body| body.is_work()) {
            self.ahead = Some(Ahead::start(unpacking));
        }
        self.next().await
    }

    async fn next(&mut self) -> Result<Option<Bytes>> {
        match (&mut self.body, &mut self.ahead) {
            (Some(body), _) => body.chunk().await,
            (None, Some(ahead)) => ahead.chunk().await,
            (None, None) => Err(Error::new(ErrorKind::Bug, "a body is nowhere")),
        }
    }

    /// The body, if it is no larger than `max` (R26); where it is larger than `hold`, its beginning and the rest.
    pub(super) async fn collect(mut self, max: u64, hold: u64) -> Result<Collected> {
        let (declared, expected) = self.lengths();
        if declared > max {
            return Err(self.too_large(max));
        }
        let mut body = BytesMut::new();
        while let Some(bytes) = self.next().await? {
            if (body.len() + bytes.len()) as u64 > max {
                return Err(self.too_large(max));
            }
            if body.is_empty() {
                body.reserve(usize::try_from(expected.min(PRESIZE_MAX)).unwrap_or(0).max(bytes.len()));
            }
            body.extend_from_slice(&bytes);
            if body.len() as u64 > hold {
                return Ok(Collected::Beginning(body.freeze(), self));
            }
        }
        Ok(Collected::Whole(Response {
            status: self.status,
            headers: self.headers,
            url: self.url,
            body: body.freeze(),
            asked: self.asked,
        }))
    }

    /// The answer without its body.
    pub fn response(&self) -> Response {
        let Self { status, headers, url, asked, .. } = self;
        Response { status: *status, headers: headers.clone(), url: url.clone(), body: Bytes::new(), asked: *asked }
    }

    /// The length that is declared for a body that is sent as it is, and the one to expect; 0 if unknown.
    fn lengths(&self) -> (u64, u64) {
        let length = self.headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.trim().parse::<u64>().ok());
        match length.unwrap_or(0) {
            packed if self.headers.contains_key(CONTENT_ENCODING) => (0, packed.saturating_mul(PACKED)),
            length => (length, length),
        }
    }

    fn too_large_here(&self) -> Error {
        let message = "the page is larger than http.max-body-bytes: ask for smaller pages, or raise the limit";
        self.place.error(ErrorKind::Decode, message)
    }

    fn too_large(&self, max: u64) -> Error {
        let message = format!(
            "the page is larger than {max} bytes (http.max-body-bytes): ask for smaller pages, or raise the limit"
        );
        self.place.error(ErrorKind::Decode, message)
    }

    /// The beginning of an error body: scrubbed before it is cut, on one line. What cannot be read is left out.
    pub(super) async fn excerpt(&mut self) -> String {
        let mut body = Vec::new();
        let within = self.idle;
        let read = async {
            while body.len() < EXCERPT_READ {
                match self.next().await {
                    Ok(Some(bytes)) => body.extend_from_slice(&bytes),
                    _ => return true,
                }
            }
            false
        };
        let is_whole = timeout(within, read).await.unwrap_or(false);
        let mut text = self.place.redactor.scrub(&String::from_utf8_lossy(&body));
        if !is_whole {
            // The last bytes may be the beginning of a secret, which nothing recognises.
            let keep = text.len().saturating_sub(LONGEST_SECRET);
            text.truncate((0..=keep).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0));
        }
        cut(&one_line(text.trim()), EXCERPT_SHOWN)
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }
}
