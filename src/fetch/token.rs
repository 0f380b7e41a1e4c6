//! Tokens that change: fetched once for all who wait, refreshed before they expire and after a 401 (R22).

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::auth::{basic, bearer};
use super::transport::{self, Outgoing};
use super::{Attempts, Client};
use crate::config::{ClientAuth, OAuth2};
use crate::error::{Error, ErrorKind, Result};
use crate::secret::{Redactor, Secret};

/// A token is renewed this long before it expires, or a tenth of its life, whichever is less.
const EARLY: Duration = Duration::from_secs(30);

/// The largest answer of a token endpoint.
const MAX_ANSWER: u64 = 1 << 20;

/// Where a token comes from.
pub(super) enum TokenSource {
    /// A file, read at first use and again after a 401.
    File(PathBuf),
    /// RFC 6749 section 4.4.
    OAuth2(OAuth2),
}

/// Holds the token of a source. While one request fetches, the others wait and take what it got, success or failure.
pub(super) struct Tokens {
    source: TokenSource,
    fetches: AtomicU64,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    token: Option<Token>,
    failure: Option<(ErrorKind, String)>,
    generation: u64,
}

struct Token {
    text: Secret,
    value: HeaderValue,
    fresh_until: Option<Instant>,
}

impl Held {
    fn is_fresh(&self) -> bool {
        let until = self.token.as_ref().map(|token| token.fresh_until);
        self.failure.is_none() && until.is_some_and(|until| until.is_none_or(|until| Instant::now() < until))
    }

    fn outcome(&self) -> Result<(HeaderValue, u64)> {
        match (&self.failure, &self.token) {
            (None, Some(token)) => Ok((token.value.clone(), self.generation)),
            (Some((kind, message)), _) => Err(Error::new(*kind, message.clone())),
            (None, None) => Err(Error::new(ErrorKind::Bug, "no token was fetched")),
        }
    }
}

impl Tokens {
    pub(super) fn new(source: TokenSource) -> Self {
        Self { source, fetches: AtomicU64::new(0), held: Mutex::default() }
    }

    /// The token to use now, and which one it is.
    pub(super) async fn current(&self, client: &Client) -> Result<(HeaderValue, u64)> {
        let before = self.fetches.load(Ordering::SeqCst);
        let mut held = self.held.lock().await;
        let has_landed = self.fetches.load(Ordering::SeqCst) != before;
        if !has_landed && !held.is_fresh() {
            self.fetch(&mut held, client).await;
        }
        held.outcome()
    }

    /// After a 401 for token number `used`: whether there is another one now.
    pub(super) async fn renew(&self, client: &Client, used: u64) -> Result<bool> {
        let before = self.fetches.load(Ordering::SeqCst);
        let mut held = self.held.lock().await;
        let has_landed = self.fetches.load(Ordering::SeqCst) != before;
        if !has_landed && held.generation == used {
            self.fetch(&mut held, client).await;
        }
        held.outcome().map(|(_, generation)| generation != used)
    }

    async fn fetch(&self, held: &mut Held, client: &Client) {
        let fetched = match &self.source {
            TokenSource::File(path) => read(path, client.redactor()).await,
            TokenSource::OAuth2(oauth2) => ask(oauth2, client).await,
        };
        match fetched {
            Ok(token) => {
                let is_same_file = matches!(self.source, TokenSource::File(_))
                    && held.token.as_ref().is_some_and(|old| old.text == token.text);
                held.generation += u64::from(!is_same_file);
                held.token = Some(token);
                held.failure = None;
            }
            Err(error) => held.failure = Some((error.kind(), error.to_string())),
        }
        self.fetches.fetch_add(1, Ordering::SeqCst);
    }
}

/// The token in a file, without the white space around it.
async fn read(path: &Path, redactor: &Redactor) -> Result<Token> {
    let refuse = |why: String| Error::new(ErrorKind::Config, format!("auth.token-file {}: {why}", path.display()));
    let text = tokio::fs::read_to_string(path).await.map_err(|e| refuse(e.to_string()))?;
    if text.trim().is_empty() {
        return Err(refuse("the file is empty".into()));
    }
    let text = Secret::new(text.trim());
    redactor.learn(&text);
    let value = bearer(&text).map_err(|_| refuse("it holds more than one line".into()))?;
    Ok(Token { text, value, fresh_until: None })
}

/// Asks the token endpoint with a budget of its own; its last failure is final for the page too.
async fn ask(oauth2: &OAuth2, client: &Client) -> Result<Token> {
    let mut attempts = client.attempts();
    loop {
        match ask_once(oauth2, client, &mut attempts).await {
            Ok(token) => return Ok(token),
            Err(error) => attempts.again(error).await?,
        }
    }
}

async fn ask_once(oauth2: &OAuth2, client: &Client, attempts: &mut Attempts) -> Result<Token> {
    let outgoing = form(oauth2, client.redactor())?;
    attempts.begin();
    let answer = client.send(outgoing, oauth2.token_url.clone(), client.headers_within()).await?;
    if !(200..300).contains(&answer.status) {
        return Err(client.refused(answer, "the token endpoint", |status| matches!(status, 400..=403)).await);
    }
    let place = answer.place().clone();
    let asked = answer.asked;
    let super::Collected::Whole(super::Response { body, .. }) =
        client.within_page(asked, answer.collect(MAX_ANSWER, MAX_ANSWER), &place).await?
    else {
        return Err(place.error(ErrorKind::Auth, "the token server's answer is too large"));
    };
    // The answer itself is never shown: it may hold a token under another name.
    let no_token =
        || place.error(ErrorKind::Auth, "the token endpoint's answer is no JSON object with an access_token");
    let granted: Granted = serde_json::from_slice(&body).map_err(|_| no_token())?;
    if granted.access_token.is_empty() {
        return Err(no_token());
    }
    let text = Secret::new(granted.access_token);
    client.redactor().learn(&text);
    let value = bearer(&text).map_err(|_| no_token())?;
    let fresh_until =
        lifetime(granted.expires_in.as_ref()).and_then(|life| asked.checked_add(life.saturating_sub(early(life))));
    Ok(Token { text, value, fresh_until })
}

/// RFC 6749 section 5.1, as far as it matters.
#[derive(Deserialize)]
struct Granted {
    access_token: String,
    expires_in: Option<Value>,
}

/// `expires_in` as a number or as text; what says nothing usable is no limit, and a 401 will tell.
fn lifetime(expires_in: Option<&Value>) -> Option<Duration> {
    let seconds = match expires_in? {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok().filter(|life| !life.is_zero())
}

fn early(life: Duration) -> Duration {
    EARLY.min(life / 10)
}

/// The token request (RFC 6749 section 4.4.2); the client's credentials in the body or in a header (section 2.3.1).
fn form(oauth2: &OAuth2, redactor: &Redactor) -> Result<Outgoing> {
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static(transport::USER_AGENT));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    let mut body = Serializer::new(String::new());
    body.append_pair("grant_type", "client_credentials");
    match oauth2.client_auth {
        ClientAuth::Body => {
            body.append_pair("client_id", &oauth2.client_id);
            body.append_pair("client_secret", oauth2.client_secret.expose());
        }
        ClientAuth::Basic => {
            let quoted = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
            let secret = Secret::new(quoted(oauth2.client_secret.expose()));
            headers.insert(AUTHORIZATION, basic(&quoted(&oauth2.client_id), &secret, redactor)?);
        }
    }
    let optional = [("scope", &oauth2.scope), ("audience", &oauth2.audience)];
    for (name, value) in optional {
        if let Some(value) = value {
            body.append_pair(name, value);
        }
    }
    let body = Some(Bytes::from(body.finish()));
    Ok(Outgoing { method: Method::POST, url: oauth2.token_url.clone(), headers, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r22_expires_in_is_a_number_or_its_text() {
        let life = |text: &str| lifetime(Some(&serde_json::from_str(text).unwrap())).map(|d| d.as_secs_f64());
        assert_eq!(life("3600"), Some(3600.0));
        assert_eq!(life("\" 3600 \""), Some(3600.0));
        assert_eq!(life("1.5"), Some(1.5));
        for nothing in ["null", "\"soon\"", "0", "-1", "[]", "1e300"] {
            assert_eq!(life(nothing), None, "{nothing}");
        }
        assert_eq!(early(Duration::from_hours(1)), Duration::from_secs(30));
        assert_eq!(early(Duration::from_secs(2)), Duration::from_millis(200));
    }
}
