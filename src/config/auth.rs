//! Reads the `auth` block.

use std::path::Path;

use url::Url;

use super::section::Section;
use super::{Auth, ClientAuth, OAuth2, keys, urls};

/// The types of `auth` and the keys each of them knows.
const TYPES: [(&str, &[&str]); 6] = [
    ("none", &[]),
    ("bearer", &["token", "token-file"]),
    ("basic", &["username", "password"]),
    ("header", &["header-name", "header-value"]),
    ("query", &["query-param", "query-value"]),
    ("oauth2_client", &["client-id", "client-secret", "token-url", "scope", "audience", "client-auth", "token"]),
];

/// Reads the credentials; `directory` is that of the configuration.
pub(super) fn read(section: &Section<'_>, directory: &Path) -> Option<Auth> {
    let Some((name, own)) = section.choice("type", &TYPES.map(|(name, own)| (name, (name, own)))) else {
        check_types(section);
        return None;
    };
    for key in keys::AUTH.iter().filter(|k| **k != "type" && !own.contains(k) && section.sets(k)) {
        section.problem(key, format!("is no key of auth.type = {name}; that has {}", list(own)));
    }
    let client_auth = section.choice("client-auth", &[("body", ClientAuth::Body), ("basic", ClientAuth::Basic)]);
    let why = format!(" with auth.type = {name}");
    let need = |keys: &[&str]| keys.iter().for_each(|key| section.require(key, &why));
    match name {
        "none" => Some(Auth::None),
        "bearer" => bearer(section, directory),
        "basic" => {
            need(own);
            // An empty password is one that some APIs ask for: the user name is the key.
            let password = section.text("password").map(crate::secret::Secret::new);
            let username = section.text("username");
            if username.as_ref().is_some_and(|name| name.contains(':')) {
                section.problem("username", "must not have a colon (RFC 7617)");
            }
            Some(Auth::Basic { username: username?, password: password? })
        }
        "header" => {
            need(own);
            let (name, value) = (section.name("header-name"), section.secret("header-value"));
            let (name, value) = (name?, value?);
            if http::HeaderName::try_from(&name).is_err() {
                section.problem("header-name", "is not a valid header name");
            }
            if http::HeaderValue::try_from(value.expose()).is_err() {
                section.problem("header-value", "is not a valid header value");
            }
            Some(Auth::Header { name, value })
        }
        "query" => {
            need(own);
            let (param, value) = (section.name("query-param"), section.secret("query-value"));
            Some(Auth::Query { param: param?, value: value? })
        }
        _ if section.sets("token") => section.secret("token").map(Auth::Bearer),
        _ => {
            need(&["client-id", "client-secret", "token-url"]);
            oauth2(section, client_auth)
        }
    }
}

/// What can be checked without knowing the type: all problems at once (R11).
fn check_types(section: &Section<'_>) {
    for key in keys::AUTH.iter().filter(|key| !matches!(**key, "type" | "client-auth" | "token-url")) {
        section.text(key);
    }
    section.choice("client-auth", &[("body", ()), ("basic", ())]);
    section.text("token-url").and_then(|text| token_url(section, &text));
}

fn bearer(section: &Section<'_>, directory: &Path) -> Option<Auth> {
    match (section.sets("token"), section.sets("token-file")) {
        (true, true) => section.problem("token-file", "cannot stand beside token; one of them is the token"),
        (false, false) => section.problem("token", "token or token-file is required with auth.type = bearer"),
        (true, false) => {
            let token = section.secret("token")?;
            if http::HeaderValue::try_from(token.expose()).is_err() {
                section.problem("token", "has characters that no header can carry");
            }
            return Some(Auth::Bearer(token));
        }
        (false, true) => return section.name("token-file").map(|file| Auth::BearerFile(directory.join(file))),
    }
    None
}

fn oauth2(section: &Section<'_>, client_auth: Option<ClientAuth>) -> Option<Auth> {
    let (client_id, client_secret) = (section.name("client-id"), section.secret("client-secret"));
    let token_url = section.text("token-url").and_then(|text| token_url(section, &text));
    let (scope, audience) = (section.text("scope"), section.text("audience"));
    Some(Auth::OAuth2(OAuth2 {
        client_id: client_id?,
        client_secret: client_secret?,
        token_url: token_url?,
        scope,
        audience,
        client_auth: client_auth?,
    }))
}

fn token_url(section: &Section<'_>, text: &str) -> Option<Url> {
    match urls::http_url(text) {
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            section.problem("token-url", "must not hold a user name or password");
            None
        }
        Ok(url) => Some(url),
        Err(said) => {
            section.problem("token-url", said);
            None
        }
    }
}

fn list(keys: &[&str]) -> String {
    if keys.is_empty() { "no further keys".into() } else { keys.join(", ") }
}
