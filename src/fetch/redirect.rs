//! Where a request may go, with which credentials, and what a redirect makes of it (R17).

use http::header::LOCATION;
use http::{HeaderMap, Method};
use url::{Origin, Url};

use super::transport::place;
use crate::config::{Redirects, SourceConfig};

/// The most redirects that one attempt follows.
pub(super) const MAX_HOPS: usize = 10;

/// What a client knows about where its credentials may go.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    home: Origin,
    home_place: String,
    follow: Redirects,
    /// Whether there are credentials to protect: `auth`, or fixed headers named like a secret.
    pub(super) has_credentials: bool,
}

impl Guard {
    pub(super) fn new(config: &SourceConfig, has_credentials: bool) -> Self {
        Self {
            home: config.base_url.origin(),
            home_place: place(&config.base_url),
            follow: config.http.follow_redirects,
            has_credentials,
        }
    }

    /// Whether credentials go there: scheme, host and port are those of `base-url`.
    pub(super) fn trusts(&self, url: &Url) -> bool {
        url.origin() == self.home
    }

    /// Whether a request may be sent at all. Fails before anything is.
    pub(super) fn check_request(&self, url: &Url) -> Result<(), String> {
        if self.trusts(url) || !self.has_credentials || self.follow == Redirects::Any {
            return Ok(());
        }
        Err(self.elsewhere("the next page is", url))
    }

    /// Whether a redirect may be followed.
    pub(super) fn check_redirect(&self, from: &Url, to: &Url) -> Result<(), String> {
        match self.follow {
            Redirects::Any => Ok(()),
            Redirects::Never => Err(format!("the API redirects to {}, and http.follow-redirects is never", place(to))),
            Redirects::SameOrigin if to.origin() == from.origin() => Ok(()),
            Redirects::SameOrigin => Err(self.elsewhere("the API redirects to what is", to)),
        }
    }

    fn elsewhere(&self, what: &str, url: &Url) -> String {
        let (there, here) = (place(url), &self.home_place);
        let note = if there == *here { format!(", over {}", url.scheme()) } else { String::new() };
        format!(
            "{what} at {there}{note}, another origin than base-url ({here}): nothing was sent there; if that is \
             intended, change base-url, or set http.follow-redirects = any to go there without credentials"
        )
    }
}

/// One request of a chain of redirects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Hop {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) body: Option<String>,
}

impl Hop {
    /// The request that a redirect asks for; `None` if the status is no redirect.
    pub(super) fn next(&self, status: u16, headers: &HeaderMap) -> Option<Result<Self, String>> {
        matches!(status, 301 | 302 | 303 | 307 | 308).then(|| {
            let url = self.target(headers).map_err(|why| format!("the API answered {status} {why}"))?;
            let becomes_get = status == 303 || (matches!(status, 301 | 302) && self.method == Method::POST);
            Ok(if becomes_get { Self { method: Method::GET, url, body: None } } else { Self { url, ..self.clone() } })
        })
    }

    fn target(&self, headers: &HeaderMap) -> Result<Url, String> {
        let line = headers.get(LOCATION).ok_or("without a Location")?;
        let text = std::str::from_utf8(line.as_bytes()).map_err(|_| "with a Location that is no text")?;
        let mut url = self.url.join(text).map_err(|e| format!("with a Location that is no URL: {e}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("with a Location that is neither http nor https: {}:", url.scheme()));
        }
        url.set_fragment(None);
        Ok(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(method: Method, url: &str) -> Hop {
        let body = (method == Method::POST).then(|| "{}".to_owned());
        Hop { method, url: Url::parse(url).unwrap(), body }
    }

    fn to(location: &str) -> HeaderMap {
        [(LOCATION, location.parse().unwrap())].into_iter().collect()
    }

    fn guard(follow: Redirects, has_credentials: bool) -> Guard {
        let home = Url::parse("https://api.test/v1").unwrap();
        Guard { home: home.origin(), home_place: place(&home), follow, has_credentials }
    }

    #[test]
    fn r17_a_redirect_keeps_or_drops_method_and_body_as_the_status_says() {
        for (status, method, becomes) in [
            (301, Method::POST, Method::GET),
            (302, Method::POST, Method::GET),
            (303, Method::POST, Method::GET),
            (303, Method::GET, Method::GET),
            (307, Method::POST, Method::POST),
            (308, Method::POST, Method::POST),
        ] {
            let next = hop(method, "http://a.test/x?y=1").next(status, &to("z?q=2#f")).unwrap().unwrap();
            assert_eq!(next, hop(becomes, "http://a.test/z?q=2"), "{status}");
        }
        assert!(hop(Method::GET, "http://a.test/").next(304, &to("/x")).is_none());
    }

    #[test]
    fn r17_a_redirect_to_nowhere_is_an_error() {
        let here = hop(Method::GET, "http://a.test/");
        assert!(here.next(302, &HeaderMap::new()).unwrap().unwrap_err().contains("without a Location"));
        assert!(here.next(302, &to("file:///etc/passwd")).unwrap().is_err());
        assert!(here.next(302, &to("http://")).unwrap().is_err());
    }

    #[test]
    fn r17_credentials_stay_at_home() {
        let url = |text: &str| Url::parse(text).unwrap();
        let home = url("https://api.test:443/v2/x");
        for other in ["http://api.test/x", "https://api.test:444/", "https://evil.test/", "https://api.test@evil.test/"]
        {
            let other = url(other);
            assert!(!guard(Redirects::SameOrigin, true).trusts(&other), "{other}");
            let refused = guard(Redirects::SameOrigin, true).check_request(&other).unwrap_err();
            assert!(refused.contains(&place(&other)), "{refused}");
            assert!(guard(Redirects::SameOrigin, false).check_request(&other).is_ok());
            assert!(guard(Redirects::Any, true).check_request(&other).is_ok());
            assert!(guard(Redirects::SameOrigin, false).check_redirect(&home, &other).is_err());
            assert!(guard(Redirects::Any, true).check_redirect(&home, &other).is_ok());
        }
        assert!(guard(Redirects::SameOrigin, true).check_request(&home).is_ok());
        assert!(guard(Redirects::SameOrigin, true).check_redirect(&home, &home).is_ok());
        assert!(guard(Redirects::Never, false).check_redirect(&home, &home).is_err());
    }
}
