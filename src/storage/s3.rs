//! Opens S3 and what speaks like it: `fs.s3a.*`, those of one bucket first, then the variables of AWS.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use url::Url;

use super::client::{self, Manner};
use super::location::Remote;
use super::s3_credentials::{self, Credentials};
use super::settings::{Settings, is_true};
use super::{Objects, Problems, prefix, profile, refused};

/// The properties of one bucket.
pub(super) struct Bucket<'a> {
    name: &'a str,
    schemes: &'static [&'static str],
    settings: &'a Settings,
}

impl<'a> Bucket<'a> {
    fn new(remote: &'a Remote, settings: &'a Settings) -> Self {
        let schemes: &[&str] = match remote.scheme() {
            "s3" => &["s3", "s3a"],
            "s3n" => &["s3n", "s3a"],
            _ => &["s3a"],
        };
        Self { name: remote.authority(), schemes, settings }
    }

    /// What names begin with: those of this bucket first.
    pub(super) fn layers(&self) -> Vec<String> {
        let own = self.schemes.iter().map(|scheme| format!("fs.{scheme}.bucket.{}.", self.name));
        own.chain(self.schemes.iter().map(|scheme| format!("fs.{scheme}."))).collect()
    }

    /// A property of one layer with its whole name.
    pub(super) fn at(&self, layer: &str, key: &str) -> Option<(String, &'a str)> {
        let name = format!("{layer}{key}");
        let value = self.settings.property(&name)?;
        Some((name, value))
    }

    /// The first property there is, with its whole name. The keys are names of the same thing.
    pub(super) fn find(&self, keys: &[&str]) -> Option<(String, &'a str)> {
        self.layers().iter().find_map(|layer| keys.iter().find_map(|key| self.at(layer, key)))
    }

    fn read<T>(&self, problems: &mut Problems, keys: &[&str], read: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let (name, text) = self.find(keys)?;
        problems.take(&name, read(text))
    }

    fn flag(&self, problems: &mut Problems, key: &str) -> Option<bool> {
        self.read(problems, &[key], |text| is_true(text).ok_or_else(|| "expected true or false".to_owned()))
    }
}

/// Opens a directory of a bucket.
pub(super) fn open(remote: &Remote, settings: &Settings) -> Result<Objects, Vec<String>> {
    let mut problems = Problems::default();
    let bucket = Bucket::new(remote, settings);
    let credentials = match s3_credentials::choose(&bucket, settings) {
        Ok(credentials) => Some(credentials),
        Err(said) => {
            problems.0.extend(said);
            None
        }
    };
    let place = Place::read(&mut problems, &bucket);
    let manner = manner(&mut problems, &bucket);
    let encryption = encryption(&mut problems, &bucket);
    let requester_pays = bucket.flag(&mut problems, "requester.pays.enabled");
    let prefix = prefix(remote).map_err(|said| problems.add(said)).ok();

    let (credentials, place, prefix, encryption, mut manner) =
        problems.or(credentials.zip(place).zip(prefix).map(|((c, l), p)| (c, l, p, encryption, manner)))?;
    let is_http = |url: &Url| url.scheme() == "http";
    manner.has_http = place.endpoint.as_ref().is_some_and(is_http);
    manner.is_plain = matches!(credentials, Credentials::Keys { .. } | Credentials::Anonymous);
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(bucket.name)
        .with_region(&place.region)
        .with_client_options(manner.options())
        .with_http_connector(client::Connector)
        .with_retry(manner.retry())
        .with_virtual_hosted_style_request(place.is_virtual)
        .with_conditional_put(S3ConditionalPut::ETagMatch);
    if let Some(endpoint) = &place.endpoint {
        builder = builder.with_endpoint(client::base(endpoint));
    }
    builder = with_variables(builder, settings, encryption.is_some());
    for (key, value) in encryption.into_iter().flatten() {
        builder = builder.with_config(key, value);
    }
    if let Some(pays) = requester_pays {
        builder = builder.with_request_payer(pays);
    }
    let secrets = credentials.secrets();
    let store = with_credentials(builder, credentials, &place.region).build().map_err(|e| vec![refused(&e)])?;
    Ok(Objects { store: Arc::new(store), prefix, secrets })
}

/// Where the bucket is.
struct Place {
    /// With the bucket in its host name, if `is_virtual`; `None` is AWS itself.
    endpoint: Option<Url>,
    is_virtual: bool,
    region: String,
}

impl Place {
    fn read(problems: &mut Problems, bucket: &Bucket<'_>) -> Option<Self> {
        let settings = bucket.settings;
        let profile = profile::read(settings).ok().flatten().unwrap_or_default();
        let secure = bucket.flag(problems, "connection.ssl.enabled").unwrap_or(true);
        let given = bucket.find(&["endpoint"]).or_else(|| {
            let names = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
            let var = names.into_iter().find_map(|name| Some((name.to_owned(), settings.var(name)?)));
            var.or_else(|| Some(("endpoint_url of the AWS profile".to_owned(), profile.get("endpoint_url")?)))
        });
        let endpoint = match given {
            Some((name, text)) => Some(problems.take(&name, client::endpoint(text, secure))?),
            None => None,
        };
        let aws = endpoint.as_ref().and_then(|url| url.host_str()).and_then(aws_region);
        let named = bucket.find(&["endpoint.region"]).map(|(_, region)| region.to_owned());
        let region = named.or(aws.clone().flatten()).or_else(|| {
            let var = settings.var("AWS_REGION").or_else(|| settings.var("AWS_DEFAULT_REGION"));
            var.or_else(|| profile.get("region")).map(str::to_owned)
        });
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        if !region.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            problems.add("the region must be of letters, digits and hyphens");
            return None;
        }
        // `s3.amazonaws.com` serves one region only: the host of the bucket's region is asked instead.
        let is_general = matches!(aws, Some(None)) && endpoint.as_ref().is_some_and(|url| url.scheme() == "https");
        let endpoint = endpoint.filter(|_| !is_general);
        // China has a domain of its own.
        let endpoint = match endpoint {
            None if region.starts_with("cn-") => Url::parse(&format!("https://s3.{region}.amazonaws.com.cn")).ok(),
            endpoint => endpoint,
        };
        let path_style = bucket.flag(problems, "path.style.access");
        let is_virtual = path_style.map_or_else(|| settings.flag_var("AWS_VIRTUAL_HOSTED_STYLE_REQUEST"), |path| !path);
        let endpoint = match endpoint {
            Some(url) if is_virtual => Some(with_bucket(url, bucket.name).map_err(|said| problems.add(said)).ok()?),
            endpoint => endpoint,
        };
        Some(Self { endpoint, is_virtual, region })
    }
}

/// An endpoint with the bucket in its host name, as requests to virtual hosts have it.
fn with_bucket(mut url: Url, bucket: &str) -> Result<Url, String> {
    let host = url.host_str().unwrap_or_default().to_owned();
    if host.starts_with(&format!("{bucket}.")) {
        return Ok(url);
    }
    let wrong = "path.style.access = false needs an endpoint with a host name that buckets can stand before";
    if host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
        return Err(wrong.into());
    }
    url.set_host(Some(&format!("{bucket}.{host}"))).map_err(|_| wrong.to_owned())?;
    Ok(url)
}

/// The region in a host name of AWS; `Some(None)` is one without a region.
#[allow(clippy::option_option, reason = "no host of AWS, one without a region, one with a region")]
fn aws_region(host: &str) -> Option<Option<String>> {
    let inner = host.strip_suffix(".amazonaws.com").or_else(|| host.strip_suffix(".amazonaws.com.cn"))?;
    let last = inner.strip_suffix(".vpce").unwrap_or(inner).rsplit('.').next()?;
    let region = last.strip_prefix("s3-").unwrap_or(last);
    let has_region = !matches!(region, "s3" | "accelerate" | "dualstack" | "s3-accelerate" | "external-1" | "fips");
    Some(has_region.then(|| region.to_owned()))
}

fn manner(problems: &mut Problems, bucket: &Bucket<'_>) -> Manner {
    let retries = |text: &str| text.parse::<usize>().map_err(|_| "expected a whole number".to_owned());
    Manner {
        time_out: bucket.read(problems, &["connection.timeout"], client::time),
        connect_time_out: bucket.read(problems, &["connection.establish.timeout"], client::time),
        retries: bucket.read(problems, &["attempts.maximum"], retries),
        proxy: proxy(problems, bucket),
        ..Manner::default()
    }
}

fn proxy(problems: &mut Problems, bucket: &Bucket<'_>) -> Option<String> {
    let port =
        bucket.read(problems, &["proxy.port"], |text| text.parse::<u16>().map_err(|_| "expected a port".to_owned()));
    let secure = bucket.flag(problems, "proxy.ssl.enabled").unwrap_or(false);
    let value = |key: &str| bucket.find(&[key]).map(|(_, value)| value);
    let user = match (value("proxy.username"), value("proxy.password")) {
        (Some(user), Some(password)) => Some((user, password)),
        (None, None) => None,
        _ => {
            problems.add("proxy.username and proxy.password are set together or not at all");
            None
        }
    };
    if let Some((name, host)) = bucket.find(&["proxy.host"]) {
        return problems.take(&name, client::proxy(host, port, user, secure));
    }
    if port.is_some() {
        problems.add("proxy.port is set without proxy.host");
    }
    None
}

/// The settings of encryption, if the properties name one.
fn encryption(problems: &mut Problems, bucket: &Bucket<'_>) -> Option<Vec<(AmazonS3ConfigKey, String)>> {
    let (name, algorithm) = bucket.find(&["encryption.algorithm", "server-side-encryption-algorithm"])?;
    let found = bucket.find(&["encryption.key", "server-side-encryption.key", "server-side-encryption-key"]);
    let key = found.map(|(_, key)| key.to_owned());
    let (kind, key) = match (algorithm, key) {
        ("AES256", None) => ("AES256", None),
        ("AES256", Some(_)) => {
            problems.add(format!("{name}: AES256 takes no key; with one it is SSE-C or SSE-KMS"));
            return None;
        }
        ("SSE-KMS", key) => ("aws:kms", key.map(|key| ("aws_sse_kms_key_id", key))),
        ("DSSE-KMS", key) => ("aws:kms:dsse", key.map(|key| ("aws_sse_kms_key_id", key))),
        ("SSE-C", Some(key)) if STANDARD.decode(&key).is_ok_and(|bytes| bytes.len() == 32) => {
            ("sse-c", Some(("aws_sse_customer_key_base64", key)))
        }
        ("SSE-C", _) => {
            problems.add(format!("{name}: SSE-C needs encryption.key, 32 bytes in base64"));
            return None;
        }
        (other, _) => {
            let can = "AES256, SSE-KMS, DSSE-KMS and SSE-C";
            problems.add(format!("{name}: {other:?} is not supported; supported: {can}"));
            return None;
        }
    };
    let pairs = [Some(("aws_server_side_encryption", kind.to_owned())), key];
    Some(pairs.into_iter().flatten().filter_map(|(key, value)| Some((key.parse().ok()?, value))).collect())
}

/// What else the variables of AWS say; credentials, region and endpoint are settled before.
fn with_variables(builder: AmazonS3Builder, settings: &Settings, is_encrypted: bool) -> AmazonS3Builder {
    use AmazonS3ConfigKey as Key;
    let wanted = |key: &Key| match key {
        Key::ImdsV1Fallback
        | Key::MetadataEndpoint
        | Key::UnsignedPayload
        | Key::Checksum
        | Key::StsEndpoint
        | Key::DisableTagging
        | Key::DisableBulkDelete
        | Key::S3Express
        | Key::RequestPayer => true,
        Key::Client(key) => *key != object_store::ClientConfigKey::AllowHttp,
        Key::Encryption(_) => !is_encrypted,
        _ => false,
    };
    let builder = match settings.var("AWS_EC2_METADATA_SERVICE_ENDPOINT") {
        Some(endpoint) => builder.with_metadata_endpoint(endpoint),
        None => builder,
    };
    settings.vars("AWS_").fold(builder, |builder, (name, value)| match name.to_ascii_lowercase().parse() {
        Ok(key) if wanted(&key) => builder.with_config(key, value),
        _ => builder,
    })
}

fn with_credentials(builder: AmazonS3Builder, credentials: Credentials, region: &str) -> AmazonS3Builder {
    use AmazonS3ConfigKey as Key;
    match credentials {
        Credentials::Keys { id, secret, token } => {
            let builder = builder.with_access_key_id(id).with_secret_access_key(secret);
            token.into_iter().fold(builder, AmazonS3Builder::with_token)
        }
        Credentials::Anonymous => builder.with_skip_signature(true),
        Credentials::WebIdentity { token_file, role, session } => {
            let builder = builder.with_config(Key::WebIdentityTokenFile, token_file).with_config(Key::RoleArn, role);
            let builder = session.into_iter().fold(builder, |b, session| b.with_config(Key::RoleSessionName, session));
            match builder.get_config_value(&Key::StsEndpoint) {
                None if region.starts_with("cn-") => {
                    builder.with_config(Key::StsEndpoint, format!("https://sts.{region}.amazonaws.com.cn"))
                }
                _ => builder,
            }
        }
        Credentials::ContainerRelative(uri) => builder.with_config(Key::ContainerCredentialsRelativeUri, uri),
        Credentials::ContainerFull { uri, token_file } => builder
            .with_config(Key::ContainerCredentialsFullUri, uri)
            .with_config(Key::ContainerAuthorizationTokenFile, token_file),
        Credentials::Instance => builder,
    }
}
