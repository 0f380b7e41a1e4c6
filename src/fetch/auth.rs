//! The credential of a source: fixed ones are made once, tokens are kept fresh by `token.rs` (R22).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::token::{TokenSource, Tokens};
use super::{Client, address};
use crate::config::{Auth, SourceConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::secret::{Redactor, Secret};

/// Where credentials come from.
pub(super) enum Authenticator {
    None,
    Header(HeaderName, HeaderValue),
    Query { param: String, value: Secret },
    Tokens(Box<Tokens>),
}

/// What one request carries.
#[derive(Default)]
pub(super) struct Credential {
    header: Option<(HeaderName, HeaderValue)>,
    query: Option<(String, Secret)>,
    /// Which token it is, so that only a failure of the newest one renews it.
    generation: u64,
}

impl Credential {
    /// Puts it on a request to the source's own origin. `auth` wins over a fixed header of the same name.
    pub(super) fn apply(&self, url: &mut Url, headers: &mut HeaderMap) {
        if let Some((name, value)) = &self.header {
            headers.insert(name.clone(), value.clone());
        }
        if let Some((param, value)) = &self.query {
            address::add_param(url, param, value.expose());
        }
    }
}

impl Authenticator {
    pub(super) fn new(auth: &Auth, redactor: &Redactor) -> Result<Self> {
        Ok(match auth {
            Auth::None => Self::None,
            Auth::Bearer(token) => Self::Header(AUTHORIZATION, bearer(token)?),
            Auth::BearerFile(path) => Self::Tokens(Box::new(Tokens::new(TokenSource::File(path.clone())))),
            Auth::Basic { username, password } => Self::Header(AUTHORIZATION, basic(username, password, redactor)?),
            Auth::Header { name, value } => Self::Header(header_name(name)?, header_value(name, value.expose())?),
            Auth::Query { param, value } => Self::Query { param: param.clone(), value: value.clone() },
            Auth::OAuth2(client) => Self::Tokens(Box::new(Tokens::new(TokenSource::OAuth2(client.clone())))),
        })
    }

    /// The credential for the next request; fetches a token if none is fresh.
    pub(super) async fn credential(&self, client: &Client) -> Result<Credential> {
        Ok(match self {
            Self::None => Credential::default(),
            Self::Header(name, value) => {
                Credential { header: Some((name.clone(), value.clone())), ..Credential::default() }
            }
            Self::Query { param, value } => {
                Credential { query: Some((param.clone(), value.clone())), ..Credential::default() }
            }
            Self::Tokens(tokens) => {
                let (value, generation) = tokens.current(client).await?;
                Credential { header: Some((AUTHORIZATION, value)), query: None, generation }
            }
        })
    }

    /// After a 401: whether there is another credential now than the one that was `used`.
    pub(super) async fn renew(&self, client: &Client, used: &Credential) -> Result<bool> {
        match self {
            Self::Tokens(tokens) => tokens.renew(client, used.generation).await,
            _ => Ok(false),
        }
    }

    /// Takes the query credential out of a URL.
    pub(super) fn strip(&self, url: &mut Url) {
        if let Self::Query { param, .. } = self {
            address::strip_param(url, param);
        }
    }
}

/// Tells the redactor every secret of `auth`, of the fixed headers and of the stores (R23).
pub(super) fn learn(config: &SourceConfig, redactor: &Redactor) {
    match &config.auth {
        Auth::None | Auth::BearerFile(_) => {}
        Auth::Bearer(secret) | Auth::Basic { password: secret, .. } | Auth::Query { value: secret, .. } => {
            redactor.learn(secret);
        }
        Auth::Header { value, .. } => learn_header(value, redactor),
        Auth::OAuth2(client) => redactor.learn(&client.client_secret),
    }
    config.http.headers.iter().filter(|h| h.is_secret).for_each(|h| learn_header(&h.value, redactor));
    config.storage.secrets().iter().for_each(|secret| redactor.learn(secret));
}

/// A header value is secret as a whole and in its longer parts (`Token abc...`, `session=abc...; other=...`).
pub(super) fn learn_header(value: &Secret, redactor: &Redactor) {
    redactor.learn(value);
    let parts = value.expose().split([' ', ';', ',']).flat_map(|part| [Some(part), part.split_once('=').map(|p| p.1)]);
    parts.flatten().filter(|part| part.len() >= 8).for_each(|part| redactor.learn(&Secret::new(part)));
}

/// `Bearer <token>`.
pub(super) fn bearer(token: &Secret) -> Result<HeaderValue> {
    header_value("Authorization", &format!("Bearer {}", token.expose()))
}

/// `Basic <base64>` (RFC 7617); the redactor learns the encoded pair.
pub(super) fn basic(username: &str, password: &Secret, redactor: &Redactor) -> Result<HeaderValue> {
    let pair = STANDARD.encode(format!("{username}:{}", password.expose()));
    redactor.learn(&Secret::new(&pair));
    header_value("Authorization", &format!("Basic {pair}"))
}

pub(super) fn header_name(name: &str) -> Result<HeaderName> {
    name.parse().map_err(|_| Error::new(ErrorKind::Config, format!("{name:?} is no valid header name")))
}

/// A header value that never prints.
pub(super) fn header_value(name: &str, value: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| {
        let message = format!("the value of the header {name} holds a line break or another character it cannot carry");
        Error::new(ErrorKind::Config, message)
    })?;
    value.set_sensitive(true);
    Ok(value)
}
