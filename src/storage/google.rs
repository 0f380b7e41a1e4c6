//! Opens Google Cloud Storage: `fs.gs.*`, then the variables and files of Google, then the machine's own account.

use std::path::Path;
use std::sync::Arc;

use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use serde_json::Value;
use url::Url;

use super::client::{self, Manner};
use super::location::Remote;
use super::settings::{Settings, is_true};
use super::{Objects, Problems, prefix, refused};
use crate::secret::Secret;

/// What authorises requests.
enum Credentials {
    Anonymous,
    Bearer(String),
    File(KeyFile),
    /// The metadata server of the machine.
    Machine,
}

/// A file of credentials, checked.
struct KeyFile {
    is_user: bool,
    path: String,
    text: String,
    /// A stand-in for the service that the file names.
    base_url: Option<String>,
    secrets: Vec<Secret>,
}

const WHAT_TO_SET: &str = "fs.gs.auth.service.account.json.keyfile in the hadoop block, GOOGLE_APPLICATION_CREDENTIALS, \
                           or for a public bucket fs.gs.auth.type = UNAUTHENTICATED";

/// Opens a directory of a bucket.
pub(super) fn open(remote: &Remote, settings: &Settings) -> Result<Objects, Vec<String>> {
    let mut problems = Problems::default();
    let credentials = choose(settings).map_err(|said| problems.add(said)).ok();
    let from_file = match &credentials {
        Some(Credentials::File(file)) => file.base_url.as_deref(),
        _ => None,
    };
    let given = [
        ("fs.gs.storage.root.url", settings.property("fs.gs.storage.root.url")),
        ("GOOGLE_BASE_URL", settings.var("GOOGLE_BASE_URL")),
        ("gcs_base_url of the key file", from_file),
    ];
    let given = given.into_iter().find_map(|(name, text)| Some((name, text?)));
    let endpoint = given.and_then(|(name, text)| problems.take(name, client::endpoint(text, true)));
    let manner = manner(&mut problems, settings);
    let prefix = prefix(remote).map_err(|said| problems.add(said)).ok();
    let (credentials, prefix, mut manner) =
        problems.or(credentials.zip(prefix).map(|(credentials, prefix)| (credentials, prefix, manner)))?;

    manner.has_http = endpoint.as_ref().is_some_and(|url: &Url| url.scheme() == "http");
    manner.is_plain = matches!(credentials, Credentials::Anonymous | Credentials::Bearer(_));
    let options = variables(settings).fold(manner.options(), |options, (key, value)| options.with_config(key, value));
    let mut builder = GoogleCloudStorageBuilder::new()
        .with_bucket_name(remote.authority())
        .with_client_options(options)
        .with_http_connector(client::Connector)
        .with_retry(manner.retry());
    if let Some(endpoint) = &endpoint {
        builder = builder.with_base_url(&client::base(endpoint));
    }
    let mut secrets = Vec::new();
    builder = match credentials {
        // With a token of its own the builder looks for no file.
        Credentials::Anonymous => builder.with_bearer_token("").with_skip_signature(true),
        Credentials::Bearer(token) => builder.with_bearer_token(token),
        Credentials::File(file) => {
            secrets = file.secrets;
            if file.is_user {
                builder.with_application_credentials(file.path)
            } else {
                builder.with_service_account_key(file.text)
            }
        }
        Credentials::Machine => builder,
    };
    let store = builder.build().map_err(|e| vec![refused(&e)])?;
    Ok(Objects { store: Arc::new(store), prefix, secrets })
}

/// What `GOOGLE_*` variables say about the client.
fn variables(settings: &Settings) -> impl Iterator<Item = (object_store::ClientConfigKey, &str)> {
    settings.vars("GOOGLE_").filter_map(|(name, value)| match name.to_ascii_lowercase().parse() {
        Ok(GoogleConfigKey::Client(key)) if key != object_store::ClientConfigKey::AllowHttp => Some((key, value)),
        _ => None,
    })
}

/// A property of authorisation under its newer or its older name.
fn auth<'a>(settings: &'a Settings, key: &str) -> Option<(String, &'a str)> {
    ["fs.gs.auth.", "google.cloud.auth."].iter().find_map(|prefix| {
        let name = format!("{prefix}{key}");
        let value = settings.property(&name)?;
        Some((name, value))
    })
}

fn choose(settings: &Settings) -> Result<Credentials, String> {
    let keyfile = auth(settings, "service.account.json.keyfile");
    let kind = auth(settings, "type");
    let no_auth = auth(settings, "null.enable").is_some_and(|(_, text)| is_true(text) == Some(true));
    match kind.as_ref().map(|(name, kind)| (name, kind.to_ascii_uppercase())) {
        Some((name, kind)) => match kind.as_str() {
            "UNAUTHENTICATED" => Ok(Credentials::Anonymous),
            "COMPUTE_ENGINE" => machine(settings),
            "APPLICATION_DEFAULT" => by_default(settings),
            "SERVICE_ACCOUNT_JSON_KEYFILE" => {
                let (name, path) =
                    keyfile.ok_or_else(|| format!("{name}: {kind} needs fs.gs.auth.service.account.json.keyfile"))?;
                read(&name, path)
            }
            _ => Err(format!(
                "{name}: {kind} is not supported; supported: SERVICE_ACCOUNT_JSON_KEYFILE, APPLICATION_DEFAULT, \
                 COMPUTE_ENGINE, UNAUTHENTICATED"
            )),
        },
        None if no_auth => Ok(Credentials::Anonymous),
        None => match keyfile {
            Some((name, path)) => read(&name, path),
            None => by_default(settings),
        },
    }
}

/// The variables, the file that the command line of Google leaves, the machine.
fn by_default(settings: &Settings) -> Result<Credentials, String> {
    if settings.flag_var("GOOGLE_SKIP_SIGNATURE") {
        return Ok(Credentials::Anonymous);
    }
    for name in ["GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH"] {
        if let Some(path) = settings.var(name) {
            return read(name, path);
        }
    }
    if let Some(text) = settings.var("GOOGLE_SERVICE_ACCOUNT_KEY") {
        return check("GOOGLE_SERVICE_ACCOUNT_KEY", "", text.to_owned());
    }
    if let Some(token) = settings.var("GOOGLE_BEARER_TOKEN") {
        return Ok(Credentials::Bearer(token.to_owned()));
    }
    let left = settings.home().map(|home| home.join(".config/gcloud/application_default_credentials.json"));
    match left.filter(|path| path.exists()) {
        Some(path) => read("the application default credentials", &path.to_string_lossy()),
        None => machine(settings),
    }
}

fn machine(settings: &Settings) -> Result<Credentials, String> {
    if let Some(said) = settings.credential_provider() {
        return Err(said);
    }
    if settings.flag_var("NO_GCE_CHECK") {
        return Err(format!("no credential is found, and NO_GCE_CHECK is set; set {WHAT_TO_SET}"));
    }
    Ok(Credentials::Machine)
}

fn read(name: &str, path: &str) -> Result<Credentials, String> {
    let text = std::fs::read_to_string(Path::new(path)).map_err(|e| format!("{name}: cannot read {path}: {e}"))?;
    check(name, path, text)
}

/// Says what is wrong with a key, without a word of it (R23).
fn check(name: &str, path: &str, text: String) -> Result<Credentials, String> {
    let wrong = |said: &str| Err(format!("{name}: {said}"));
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(&text) else {
        return wrong("is no JSON document of a key");
    };
    let get = |key: &str| fields.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (is_user, needs): (bool, &[&str]) = match get("type") {
        Some("authorized_user") if !path.is_empty() => (true, &["client_id", "client_secret", "refresh_token"]),
        None | Some("service_account") => (false, &["private_key", "private_key_id", "client_email"]),
        Some(other) => {
            return wrong(&format!("a key of the type {other:?} is not supported; supported: service_account"));
        }
    };
    // A stand-in that asks for no credential may leave them empty.
    let is_open = fields.get("disable_oauth").and_then(Value::as_bool) == Some(true);
    if let Some(missing) = needs.iter().find(|key| get(key).is_none() && !(is_open && fields.contains_key(**key))) {
        return wrong(&format!("has no {missing}"));
    }
    let secrets = ["private_key", "client_secret", "refresh_token"].into_iter().filter_map(get);
    let secrets = secrets.map(Secret::new).collect();
    let base_url = get("gcs_base_url").filter(|_| !is_user).map(str::to_owned);
    Ok(Credentials::File(KeyFile { is_user, path: path.to_owned(), base_url, secrets, text }))
}

fn manner(problems: &mut Problems, settings: &Settings) -> Manner {
    let whole = |text: &str| text.parse::<usize>().map_err(|_| "expected a whole number".to_owned());
    let (address, retries) = ("fs.gs.proxy.address", "fs.gs.http.max.retry");
    let user = settings.property("fs.gs.proxy.username").zip(settings.property("fs.gs.proxy.password"));
    Manner {
        time_out: time(problems, settings, "fs.gs.http.read-timeout"),
        connect_time_out: time(problems, settings, "fs.gs.http.connect-timeout"),
        retries: settings.property(retries).and_then(|text| problems.take(retries, whole(text))),
        proxy: settings
            .property(address)
            .and_then(|text| problems.take(address, client::proxy(text, None, user, false))),
        ..Manner::default()
    }
}

fn time(problems: &mut Problems, settings: &Settings, name: &str) -> Option<std::time::Duration> {
    settings.property(name).and_then(|text| problems.take(name, client::time(text)))
}
