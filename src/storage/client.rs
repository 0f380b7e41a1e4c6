//! What all object stores share: time-outs, retries, endpoints and times as Hadoop writes them.

use std::time::Duration;

use object_store::client::{HttpClient, HttpConnector};
use object_store::{BackoffConfig, ClientConfigKey as Key, ClientOptions, RetryConfig};
use url::Url;

const USER_AGENT: &str = concat!("restmark/", env!("CARGO_PKG_VERSION"));
const TIME_OUT: Duration = Duration::from_secs(30);
const CONNECT_TIME_OUT: Duration = Duration::from_secs(5);
const MAX_RETRIES: usize = 5;
/// No retry begins later than this after the first attempt.
const RETRY_TIME_OUT: Duration = Duration::from_mins(1);

/// How a store is talked to, as far as its properties say.
#[derive(Default)]
pub(super) struct Manner {
    pub(super) time_out: Option<Duration>,
    pub(super) connect_time_out: Option<Duration>,
    pub(super) retries: Option<usize>,
    /// With its user and password.
    pub(super) proxy: Option<String>,
    /// Something that was written out as `http://` is asked.
    pub(super) has_http: bool,
    /// Nothing is asked over https, so that no root certificates are loaded.
    pub(super) is_plain: bool,
}

/// Makes clients as their options say, but ones that follow no redirect and name no referer: both would carry
/// credentials to where the answer points.
///
/// Each client has options of its own: that of a machine's metadata, where tokens come from, may use http.
#[derive(Debug)]
pub(super) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed = |e: reqwest::Error| object_store::Error::Generic { store: "HTTP", source: Box::new(e) };
        let says = |key| options.get_config_value(&key);
        let flag = |key| says(key).is_some_and(|value| value == "true");
        // Written as `1m 30s`.
        let limit = |key, or| {
            let sum = |text: String| text.split_whitespace().map(time).sum::<Result<Duration, String>>().ok();
            says(key).and_then(sum).unwrap_or(or)
        };
        let mut builder = reqwest::Client::builder()
            .user_agent(USER_AGENT)
            .timeout(limit(Key::Timeout, TIME_OUT))
            .connect_timeout(limit(Key::ConnectTimeout, CONNECT_TIME_OUT))
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .https_only(!flag(Key::AllowHttp))
            .tls_danger_accept_invalid_certs(flag(Key::AllowInvalidCertificates))
            .http1_only();
        if let Some(url) = says(Key::ProxyUrl) {
            let besides = says(Key::ProxyExcludes).and_then(|hosts| reqwest::NoProxy::from_string(&hosts));
            builder = builder.proxy(reqwest::Proxy::all(url).map_err(failed)?.no_proxy(besides));
        }
        if flag(Key::NoSystemCertificates) {
            builder = builder.tls_certs_only([]);
        }
        Ok(HttpClient::new(builder.build().map_err(failed)?))
    }
}

impl Manner {
    pub(super) fn options(&self) -> ClientOptions {
        // reqwest is built without a provider of its own. One that was chosen before us is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let has_secure_proxy = self.proxy.as_ref().is_some_and(|proxy| proxy.starts_with("https:"));
        let options = ClientOptions::new()
            .with_timeout(self.time_out.unwrap_or(TIME_OUT))
            .with_connect_timeout(self.connect_time_out.unwrap_or(CONNECT_TIME_OUT))
            .with_allow_http(self.has_http)
            .with_no_system_certificates(self.has_http && self.is_plain && !has_secure_proxy);
        match &self.proxy {
            Some(proxy) => options.with_proxy_url(proxy),
            None => options,
        }
    }

    pub(super) fn retry(&self) -> RetryConfig {
        RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: self.retries.unwrap_or(MAX_RETRIES),
            retry_timeout: RETRY_TIME_OUT,
        }
    }
}

/// An endpoint without a slash at its end: a URL, or a host for which `secure` chooses the scheme.
pub(super) fn endpoint(text: &str, secure: bool) -> Result<Url, String> {
    let is_url = text.contains("://");
    let full = if is_url { text.to_owned() } else { format!("{}://{text}", if secure { "https" } else { "http" }) };
    // The text is not shown: it may hold a credential.
    let url = Url::parse(&full).map_err(|e| format!("is no URL and no host: {e}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("must be an http or https URL, or a host".into());
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        return Err("must have no user, query or fragment".into());
    }
    Ok(url)
}

/// The text of an endpoint as the stores want it.
pub(super) fn base(url: &Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}

/// A proxy of host, port, user and password.
pub(super) fn proxy(host: &str, port: Option<u16>, user: Option<(&str, &str)>, secure: bool) -> Result<String, String> {
    let mut url = endpoint(host, secure)?;
    let wrong = |()| "cannot be a proxy".to_owned();
    if port.is_some() {
        url.set_port(port).map_err(wrong)?;
    }
    if let Some((user, password)) = user {
        url.set_username(user).map_err(wrong)?;
        url.set_password(Some(password)).map_err(wrong)?;
    }
    Ok(url.to_string())
}

/// A time as Hadoop writes it: milliseconds, or with one of the units ns, us, ms, s, m, h, d.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let expected = || "expected milliseconds, or a number with one of ms, s, m, h".to_owned();
    let number: u64 = number.parse().map_err(|_| expected())?;
    let time = match unit.trim().to_ascii_lowercase().as_str() {
        "ns" => Duration::from_nanos(number),
        "us" => Duration::from_micros(number),
        "" | "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.saturating_mul(60)),
        "h" => Duration::from_secs(number.saturating_mul(3600)),
        "d" => Duration::from_secs(number.saturating_mul(86400)),
        _ => return Err(expected()),
    };
    // For Hadoop nothing is for ever; here every call ends.
    if time.is_zero() { Err("must be longer than nothing".into()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r09_endpoints_are_hosts_or_urls() {
        let of = |text: &str, secure: bool| endpoint(text, secure).map(|url| base(&url));
        assert_eq!(of("minio:9000", true).as_deref(), Ok("https://minio:9000"));
        assert_eq!(of("127.0.0.1:9000", false).as_deref(), Ok("http://127.0.0.1:9000"));
        assert_eq!(of("http://h/a/", true).as_deref(), Ok("http://h/a"));
        for wrong in ["ftp://h", "http://", "h:port", "http://u:S3CR3T@h", "http://h/?S3CR3T"] {
            assert!(of(wrong, true).is_err_and(|said| !said.contains("S3CR3T")), "{wrong}");
        }
        let proxy = proxy("p", Some(3128), Some(("u", "a:b@/")), false).unwrap();
        assert_eq!(proxy, "http://u:a%3Ab%40%2F@p:3128/");
    }

    #[test]
    fn r09_times_are_read_as_hadoop_does() {
        assert_eq!(time("5000"), Ok(Duration::from_secs(5)));
        assert_eq!(time("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(time("2 m"), Ok(Duration::from_mins(2)));
        for wrong in ["", "s", "-1", "1.5s", "1 week", "0", "99999999999999999999"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_wrong_endpoint_fails_in_bounded_time() {
        let retry = Manner::default().retry();
        assert_eq!((retry.max_retries, retry.retry_timeout), (5, Duration::from_mins(1)));
        let options = Manner::default().options();
        let of = |key: Key| options.get_config_value(&key);
        assert_eq!(of(Key::Timeout).as_deref(), Some("30s"));
        assert_eq!(of(Key::ConnectTimeout).as_deref(), Some("5s"));
        assert_eq!(of(Key::AllowHttp).as_deref(), Some("false"));
    }
}
