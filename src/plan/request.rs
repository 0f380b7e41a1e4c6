//! One request as a value: what a paginator asks for and a client sends. Never a credential.

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::config::{Method, TableConfig};

/// One request, without credentials and fixed headers: the client adds those.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `GET` or `POST`.
    pub method: Method,
    /// The whole URL; every query value is percent-encoded once (R18).
    pub url: Url,
    /// The JSON body of a `POST`.
    pub body: Option<String>,
    /// A link the API handed out: followed verbatim, pinned to the origin (R17).
    pub is_link: bool,
}

impl Request {
    /// What makes two requests the same (R15): method, URL and body, as a hash.
    pub fn identity(&self) -> [u8; 32] {
        Sha256::new()
            .chain_update(self.method.as_str())
            .chain_update([0])
            .chain_update(self.url.as_str())
            .chain_update([0])
            .chain_update(self.body.as_deref().unwrap_or(""))
            .finalize()
            .into()
    }

    /// A link found in an answer, resolved against the URL that returned it (RFC 3986 section 5, R17).
    pub fn link(base: &Url, target: &str) -> Result<Self, String> {
        let mut url = base.join(target).map_err(|e| format!("the link {target:?} is no URL: {e}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("the link {target:?} is neither http nor https"));
        }
        url.set_fragment(None);
        Ok(Self { method: Method::Get, url, body: None, is_link: true })
    }
}

/// The fixed part of a table's requests; paginators add their parameters to it.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestTemplate {
    method: Method,
    url: Url,
    params: Vec<(String, String)>,
    body: Option<Value>,
    is_link: bool,
}

impl RequestTemplate {
    /// The template of a table; `extra` parameters (a stored timestamp or token) go on every request that is built.
    pub fn new(table: &TableConfig, extra: Vec<(String, String)>) -> Self {
        let mut params = table.params.clone();
        params.extend(extra);
        Self { method: table.method, url: table.url.clone(), params, body: table.body.clone(), is_link: false }
    }

    /// A template without any parameters.
    #[cfg(test)]
    pub(crate) fn bare(url: Url) -> Self {
        Self { method: Method::Get, url, params: Vec::new(), body: None, is_link: false }
    }

    /// The template of a stored URL token: the link itself, then the link with paging parameters (R4).
    pub fn from_link(url: Url) -> Self {
        Self { method: Method::Get, url, params: Vec::new(), body: None, is_link: true }
    }

    /// The stored link, to be followed verbatim; `None` for a request that is built.
    pub fn link(&self) -> Option<Request> {
        self.is_link.then(|| Request { method: Method::Get, url: self.url.clone(), body: None, is_link: true })
    }

    /// The request with some more query parameters.
    pub fn with_params(&self, more: &[(&str, &str)]) -> Request {
        self.build(more, self.body.clone())
    }

    /// The request with a value put into its JSON body at `path`; missing parents are created (R18: a JSON string).
    pub fn with_body_value(
        &self,
        path: &jsonptr::Pointer,
        value: &str,
        more: &[(&str, &str)],
    ) -> Result<Request, String> {
        let mut body = self.body.clone().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        path.assign(&mut body, Value::String(value.to_owned()))
            .map_err(|e| format!("the body has no place for a cursor at {path}: {e}"))?;
        Ok(self.build(more, Some(body)))
    }

    fn build(&self, more: &[(&str, &str)], body: Option<Value>) -> Request {
        let mut url = self.url.clone();
        if self.is_link {
            // A link brings its own paging parameters; each is sent once.
            let query = url.query().unwrap_or("").to_owned();
            url.set_query(Some(&more.iter().fold(query, |query, (name, _)| query_without(&query, name))));
        }
        let fixed = self.params.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        set_query(&mut url, fixed.chain(more.iter().copied()));
        Request { method: self.method, url, body: body.map(|b| b.to_string()), is_link: self.is_link }
    }
}

/// The URL with `{name}` of its path replaced by a value, as one encoded segment (R18). `None` where no URL can carry
/// it: it would lead elsewhere.
pub(crate) fn in_path(url: &Url, name: &str, value: &str) -> Option<Url> {
    if matches!(value, "." | "..") {
        return None;
    }
    let mut filled = url.clone();
    // As the path writes it.
    filled.set_path(&format!("{{{name}}}"));
    // What stands before the endpoint may have braces of its own.
    let (before, after) = url.path().rsplit_once(filled.path().trim_start_matches('/'))?;
    let path = encode(value).fold(before.to_owned(), |path, part| path + part) + after;
    filled.set_path(&path);
    (filled.path() == path).then_some(filled)
}

/// Appends query parameters, each name and value percent-encoded once, a space as `%20` (R18).
pub fn set_query<'a>(url: &mut Url, pairs: impl Iterator<Item = (&'a str, &'a str)>) {
    let mut query = url.query().unwrap_or("").to_owned();
    for (name, value) in pairs {
        if !query.is_empty() {
            query.push('&');
        }
        query.extend(encode(name));
        query.push('=');
        query.extend(encode(value));
    }
    url.set_query(if query.is_empty() { None } else { Some(&query) });
}

/// A URL text without user info; everything else stays as it was written (R23).
pub fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, after) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{after}")
}

/// A URL text without the query parameter `name`; everything else stays as it was written (R23).
pub fn without_param(url: &str, name: &str) -> String {
    let (rest, fragment) = url.split_at(url.find('#').unwrap_or(url.len()));
    let Some((path, query)) = rest.split_once('?') else { return url.to_owned() };
    match query_without(query, name).as_str() {
        "" => format!("{path}{fragment}"),
        kept => format!("{path}?{kept}{fragment}"),
    }
}

/// A query without the pairs of a name; the others stay as they were written.
pub(crate) fn query_without(query: &str, name: &str) -> String {
    query.split('&').filter(|pair| !is_named(pair, name)).collect::<Vec<_>>().join("&")
}

/// Whether a pair of a query has this name, however it is encoded.
pub(crate) fn is_named(pair: &str, name: &str) -> bool {
    decoded(pair.split_once('=').map_or(pair, |(name, _)| name)) == name
}

/// A name or value of a query as it was before it was encoded.
pub(crate) fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

/// RFC 3986 unreserved characters stay; everything else is encoded.
fn encode(text: &str) -> impl Iterator<Item = &str> {
    const KEPT: percent_encoding::AsciiSet =
        percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    percent_encoding::utf8_percent_encode(text, &KEPT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r18_a_value_in_a_path_is_one_segment_or_refused() {
        let filled = |template: &str, value: &str| {
            in_path(&Url::parse(template).unwrap(), "a key", value).map(|url| url.as_str().to_owned())
        };
        for (template, value, want) in [
            ("http://h/x/{a key}/y", "a/b", "http://h/x/a%2Fb/y"),
            ("http://h/x/{a key}", "?q#f", "http://h/x/%3Fq%23f"),
            ("http://h/x/{a key}.json", "%2e%2e", "http://h/x/%252e%252e.json"),
            ("http://h/{b}/{a key}", "ü \\", "http://h/%7Bb%7D/%C3%BC%20%5C"),
            ("http://h/{a key}/x", "//evil.test", "http://h/%2F%2Fevil.test/x"),
            ("http://h/x{a key}/y", "...", "http://h/x.../y"),
            ("http://h/{a key}/y", "{a key}", "http://h/%7Ba%20key%7D/y"),
        ] {
            assert_eq!(filled(template, value).as_deref(), Some(want), "{template} {value}");
        }
        for (template, value) in [
            ("http://h/x/{a key}/y", "."),
            ("http://h/x/{a key}/y", ".."),
            ("http://h/x/v{a key}/y", ".."),
            ("http://h/x/.{a key}/y", "."),
            ("http://h/x/%2e{a key}/y", "."),
        ] {
            assert_eq!(filled(template, value), None, "{template} {value}");
        }
    }

    proptest::proptest! {
        #[test]
        fn r18_no_value_changes_the_rest_of_a_path(value in "\\PC{0,12}|[./%2e{}\\\\?#]{1,6}") {
            let url = Url::parse("http://h/v1/x/{k}/y").unwrap();
            if let Some(filled) = in_path(&url, "k", &value) {
                let segments: Vec<_> = filled.path_segments().unwrap().collect();
                proptest::prop_assert_eq!((segments.len(), segments[0], segments[1], segments[3]), (4, "v1", "x", "y"));
                proptest::prop_assert_eq!(percent_encoding::percent_decode_str(segments[2]).decode_utf8().unwrap(), value);
                proptest::prop_assert_eq!((filled.query(), filled.fragment()), (None, None));
            } else {
                proptest::prop_assert!(matches!(value.as_str(), "." | ".."));
            }
        }
    }
}
