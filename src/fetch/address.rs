//! URLs as they are shown and as they are sent: secrets out of the one, the query credential into the other.

use url::Url;

use crate::plan::request::{decoded, is_named, query_without, set_query};
use crate::secret::{REDACTED, Redactor, names_a_secret};
use crate::text::cut;

/// The longest URL in a message, in characters.
const SHOWN_MAX: usize = 500;

/// The URL for messages: without user info, known secrets and the values of parameters named like a secret (R23).
pub(super) fn shown(url: &Url, redactor: &Redactor) -> String {
    let mut url = url.clone();
    strip_user(&mut url);
    let masked = url.query().map(|query| {
        let pairs = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name, _)) if names_a_secret(&decoded(name)) => format!("{name}={REDACTED}"),
            _ => pair.to_owned(),
        });
        pairs.collect::<Vec<_>>().join("&")
    });
    url.set_query(masked.as_deref());
    cut(&redactor.scrub(url.as_str()), SHOWN_MAX)
}

/// Removes user info: it would be a credential that nobody configured.
pub(super) fn strip_user(url: &mut Url) {
    // Both fail only for URLs that cannot have user info.
    let _ = url.set_username("");
    let _ = url.set_password(None);
}

/// Adds a parameter unless the query has it (R17: never twice); everything else stays verbatim.
pub(super) fn add_param(url: &mut Url, name: &str, value: &str) {
    if !url.query().unwrap_or("").split('&').any(|pair| is_named(pair, name)) {
        set_query(url, std::iter::once((name, value)));
    }
}

/// Removes a parameter; everything else stays verbatim.
pub(super) fn strip_param(url: &mut Url, name: &str) {
    let Some(query) = url.query() else { return };
    if query.split('&').any(|pair| is_named(pair, name)) {
        let rest = query_without(query, name);
        url.set_query(Some(rest.as_str()).filter(|rest| !rest.is_empty()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn r17_the_query_credential_is_added_once_and_the_rest_stays_verbatim() {
        let mut link = url("http://a.test/x?page_info=a%2Bb%3D&q=a+b");
        add_param(&mut link, "api key", "K/3 Y");
        assert_eq!(link.as_str(), "http://a.test/x?page_info=a%2Bb%3D&q=a+b&api%20key=K%2F3%20Y");
        let before = link.clone();
        add_param(&mut link, "api key", "other");
        assert_eq!(link, before);
        strip_param(&mut link, "api key");
        assert_eq!(link.as_str(), "http://a.test/x?page_info=a%2Bb%3D&q=a+b");
        let mut only = url("http://a.test/x?k=1");
        strip_param(&mut only, "k");
        assert_eq!(only.as_str(), "http://a.test/x");
    }

    #[test]
    fn r23_a_shown_url_holds_no_secret() {
        let redactor = Redactor::default();
        redactor.learn(&Secret::new("S3CR3T/x"));
        let link = url("http://me:pw@a.test/S3CR3T%2Fx?a=1&api%5Fkey=unknown&b=2&flag");
        assert_eq!(shown(&link, &redactor), "http://a.test/***?a=1&api%5Fkey=***&b=2&flag");
    }
}
