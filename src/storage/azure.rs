//! Opens Azure storage: `fs.azure.*`, those of one account first, then the variables of Azure, then the machine's.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use object_store::azure::{AzureConfigKey as Key, MicrosoftAzureBuilder};
use url::Url;

use super::client::{self, Manner};
use super::location::Remote;
use super::settings::Settings;
use super::{Objects, Problems, prefix, refused};

/// The properties of one account.
struct Account<'a> {
    name: String,
    /// What stands before `.dfs.` or `.blob.`: the name, and a zone where there are zones.
    host: String,
    /// What follows.
    domain: String,
    container: &'a str,
    settings: &'a Settings,
}

/// What authorises requests, as the builder knows it.
struct Credentials {
    kind: &'static str,
    values: Vec<(Key, String)>,
    /// A token is asked for somewhere else.
    asks: bool,
}

const PUBLIC: &str = "core.windows.net";

impl<'a> Account<'a> {
    fn of(remote: &'a Remote, settings: &'a Settings) -> Result<Self, String> {
        if let Some(container) = remote.container() {
            let authority = remote.authority();
            let (host, domain) = authority
                .split_once(".dfs.")
                .or_else(|| authority.split_once(".blob."))
                .filter(|(_, domain)| !domain.is_empty())
                .ok_or("the account must be written account.dfs.core.windows.net")?;
            let name = host.split('.').next().unwrap_or(host).to_owned();
            return Ok(Self { name, host: host.to_owned(), domain: domain.to_owned(), container, settings });
        }
        let names = ["AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"];
        let var = || names.into_iter().find_map(|name| settings.var(name));
        let name = settings.property("fs.azure.account.name").or_else(var).ok_or_else(|| {
            format!(
                "names no account: write container@account.dfs.{PUBLIC}, or set fs.azure.account.name or \
                 AZURE_STORAGE_ACCOUNT_NAME"
            )
        })?;
        let container = remote.authority();
        Ok(Self { name: name.to_owned(), host: name.to_owned(), domain: PUBLIC.to_owned(), container, settings })
    }

    /// How names of properties may end: for this account, then for all.
    fn suffixes(&self) -> [String; 4] {
        let (host, domain) = (&self.host, &self.domain);
        [format!(".{host}.dfs.{domain}"), format!(".{host}.blob.{domain}"), format!(".{}", self.name), String::new()]
    }

    /// A property of this account, with its whole name.
    fn find(&self, key: &str) -> Option<(String, &'a str)> {
        self.suffixes().iter().find_map(|suffix| {
            let name = format!("fs.azure.{key}{suffix}");
            let value = self.settings.property(&name)?;
            Some((name, value))
        })
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.find(key).map(|(_, value)| value)
    }

    /// A property, else a variable.
    fn or_var(&self, key: &str, vars: &[&str]) -> Option<String> {
        let var = || vars.iter().find_map(|name| self.settings.var(name));
        self.get(key).or_else(var).map(str::to_owned)
    }

    /// A variable that belongs to one account, unless it is that of another one.
    fn own_var(&self, names: &[&str]) -> Option<&'a str> {
        let other = ["AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"];
        let is_other = other.into_iter().find_map(|name| self.settings.var(name)).is_some_and(|a| a != self.name);
        names.iter().find_map(|name| self.settings.var(name)).filter(|_| !is_other)
    }

    /// How a property of this account is called in messages.
    fn named(&self, key: &str) -> String {
        format!("fs.azure.{key}.{}.dfs.{}", self.host, self.domain)
    }
}

/// Opens a directory of a container.
pub(super) fn open(remote: &Remote, settings: &Settings) -> Result<Objects, Vec<String>> {
    let account = Account::of(remote, settings).map_err(|said| vec![said])?;
    let mut problems = Problems::default();
    let credentials = choose(&account).map_err(|said| problems.add(said)).ok();
    let endpoint = endpoint(&mut problems, &account);
    let retries = account.find("io.retry.max.retries").and_then(|(name, text)| {
        problems.take(&name, text.parse::<usize>().map_err(|_| "expected a whole number".to_owned()))
    });
    let prefix = prefix(remote).map_err(|said| problems.add(said)).ok();
    let (credentials, endpoint, prefix) =
        problems.or(credentials.zip(endpoint).zip(prefix).map(|((c, e), p)| (c, e, p)))?;

    let has_http_authority =
        credentials.values.iter().any(|(key, value)| *key == Key::AuthorityHost && value.starts_with("http://"));
    let has_http = endpoint.scheme() == "http" || has_http_authority;
    let manner = Manner { retries, has_http, is_plain: !credentials.asks, ..Manner::default() };
    let options = variables(settings).fold(manner.options(), |options, (key, value)| options.with_config(key, value));
    let mut builder = MicrosoftAzureBuilder::new()
        .with_account(&account.name)
        .with_container_name(account.container)
        .with_endpoint(client::base(&endpoint))
        .with_client_options(options)
        .with_http_connector(client::Connector)
        .with_retry(manner.retry());
    if credentials.kind == "anonymous" {
        builder = builder.with_skip_signature(true);
    } else {
        builder = builder.with_config(Key::CredentialType, credentials.kind);
    }
    builder = credentials.values.into_iter().fold(builder, |builder, (key, value)| builder.with_config(key, value));
    let store = builder.build().map_err(|e| vec![refused(&e)])?;
    Ok(Objects { store: Arc::new(store), prefix, secrets: Vec::new() })
}

/// What `AZURE_*` variables say about the client.
fn variables(settings: &Settings) -> impl Iterator<Item = (object_store::ClientConfigKey, &str)> {
    settings.vars("AZURE_").filter_map(|(name, value)| match name.to_ascii_lowercase().parse() {
        Ok(Key::Client(key)) if key != object_store::ClientConfigKey::AllowHttp => Some((key, value)),
        _ => None,
    })
}

/// The blob service of the account. An emulator has the account in its path: requests are signed for that path.
fn endpoint(problems: &mut Problems, account: &Account<'_>) -> Option<Url> {
    let vars = ["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"];
    let var = vars.into_iter().find_map(|name| Some((name.to_owned(), account.own_var(&[name])?)));
    let (name, text) = account.find("endpoint").or(var).unwrap_or_default();
    if name.is_empty() {
        let text = format!("https://{}.blob.{}", account.host, account.domain);
        return problems.take("the account", client::endpoint(&text, true));
    }
    problems.take(&name, client::endpoint(text, true))
}

fn choose(account: &Account<'_>) -> Result<Credentials, String> {
    match account.find("account.auth.type") {
        None => by_presence(account),
        Some((name, kind)) => match kind.to_ascii_lowercase().as_str() {
            "sharedkey" => shared_key(account)?.ok_or_else(|| missing(account, &account.named("account.key"))),
            "sas" => sas(account)?.ok_or_else(|| missing(account, &account.named("sas.fixed.token"))),
            "oauth" => oauth(account),
            _ => Err(format!("{name}: {kind} is not supported; supported: SharedKey, OAuth, SAS")),
        },
    }
}

/// Why a credential that must be there is not.
fn missing(account: &Account<'_>, name: &str) -> String {
    let provider = ["account.keyprovider", "sas.token.provider.type"].into_iter().find_map(|key| account.find(key));
    match (provider, account.settings.credential_provider()) {
        (Some((provider, _)), _) => format!("{provider} is not supported: set {name}"),
        (None, Some(said)) => said,
        (None, None) => format!("{name}: required"),
    }
}

/// Without a type, what is there tells it: first of the properties, then of the variables.
fn by_presence(account: &Account<'_>) -> Result<Credentials, String> {
    let has = |key: &str| account.find(key).is_some();
    if has("account.key") {
        shared_key(account)?.ok_or_else(|| missing(account, &account.named("account.key")))
    } else if property_sas(account).is_some() {
        sas(account)?.ok_or_else(|| missing(account, &account.named("sas.fixed.token")))
    } else if has("account.oauth.provider.type") || has("account.oauth2.client.id") {
        oauth(account)
    } else if account.settings.flag_var("AZURE_SKIP_SIGNATURE") {
        Ok(Credentials { kind: "anonymous", values: Vec::new(), asks: false })
    } else if let Some(token) = account.own_var(&["AZURE_STORAGE_TOKEN"]) {
        Ok(Credentials { kind: "bearer_token", values: vec![(Key::Token, token.to_owned())], asks: false })
    } else if let Some(found) = shared_key(account)? {
        Ok(found)
    } else if let Some(found) = sas(account)? {
        Ok(found)
    } else if account.settings.var("AZURE_FEDERATED_TOKEN_FILE").is_some() {
        workload_identity(account)
    } else if client_secret(account).is_some() {
        client_credentials(account)
    } else if account.settings.flag_var("AZURE_USE_AZURE_CLI") {
        Ok(Credentials { kind: "azure_cli", values: Vec::new(), asks: true })
    } else if let Some(said) = account.settings.credential_provider() {
        Err(said)
    } else {
        Ok(managed_identity(account))
    }
}

fn shared_key(account: &Account<'_>) -> Result<Option<Credentials>, String> {
    let vars = ["AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY"];
    let var = || vars.into_iter().find_map(|name| Some((name.to_owned(), account.own_var(&[name])?)));
    let Some((name, key)) = account.find("account.key").or_else(var) else { return Ok(None) };
    if STANDARD.decode(key).is_err() {
        return Err(format!("{name}: must be a key in base64"));
    }
    Ok(Some(Credentials { kind: "access_key", values: vec![(Key::AccessKey, key.to_owned())], asks: false }))
}

/// A shared access signature of the container, or of the account.
fn property_sas<'a>(account: &Account<'a>) -> Option<(String, &'a str)> {
    let own = format!("sas.{}", account.container);
    // Without a suffix this would be the name of another property.
    let own = account.suffixes().into_iter().filter(|suffix| !suffix.is_empty()).find_map(|suffix| {
        let name = format!("fs.azure.{own}{suffix}");
        let value = account.settings.property(&name)?;
        Some((name, value))
    });
    own.or_else(|| account.find("sas.fixed.token"))
}

fn sas(account: &Account<'_>) -> Result<Option<Credentials>, String> {
    let vars = ["AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY"];
    let var = || vars.into_iter().find_map(|name| Some((name.to_owned(), account.own_var(&[name])?)));
    let Some((name, token)) = property_sas(account).or_else(var) else { return Ok(None) };
    let mut pairs = token.trim_start_matches('?').split('&');
    if !pairs.any(|pair| pair.strip_prefix("sig=").is_some_and(|signature| !signature.is_empty())) {
        return Err(format!("{name}: must be a shared access signature, which has a sig="));
    }
    Ok(Some(Credentials { kind: "sas_token", values: vec![(Key::SasKey, token.to_owned())], asks: false }))
}

fn oauth(account: &Account<'_>) -> Result<Credentials, String> {
    let Some((name, class)) = account.find("account.oauth.provider.type") else { return client_credentials(account) };
    match class.rsplit(['.', '$']).next().unwrap_or(class) {
        "ClientCredsTokenProvider" => client_credentials(account),
        "MsiTokenProvider" => Ok(managed_identity(account)),
        "WorkloadIdentityTokenProvider" => workload_identity(account),
        other => Err(format!(
            "{name}: {other} is not supported; supported: ClientCredsTokenProvider, MsiTokenProvider, \
             WorkloadIdentityTokenProvider"
        )),
    }
}

fn client_id(account: &Account<'_>) -> Option<String> {
    account.or_var("account.oauth2.client.id", &["AZURE_STORAGE_CLIENT_ID", "AZURE_CLIENT_ID"])
}

fn client_secret(account: &Account<'_>) -> Option<String> {
    account.or_var("account.oauth2.client.secret", &["AZURE_STORAGE_CLIENT_SECRET", "AZURE_CLIENT_SECRET"])
}

fn tenant(account: &Account<'_>) -> Option<String> {
    account.or_var("account.oauth2.msi.tenant", &["AZURE_STORAGE_TENANT_ID", "AZURE_TENANT_ID"])
}

/// The host that tenants stand below, without the slash at its end that some write.
fn authority(account: &Account<'_>) -> Option<(Key, String)> {
    let vars = ["AZURE_STORAGE_AUTHORITY_HOST", "AZURE_AUTHORITY_HOST"];
    let text = account.or_var("account.oauth2.msi.authority", &vars)?;
    Some((Key::AuthorityHost, text.trim_end_matches('/').to_owned()))
}

fn client_credentials(account: &Account<'_>) -> Result<Credentials, String> {
    let required = |key: &str| format!("{}: required", account.named(key));
    let id = client_id(account).ok_or_else(|| required("account.oauth2.client.id"))?;
    let secret =
        client_secret(account).ok_or_else(|| missing(account, &account.named("account.oauth2.client.secret")))?;
    let mut values = vec![(Key::ClientId, id), (Key::ClientSecret, secret)];
    if let Some((name, text)) = account.find("account.oauth2.client.endpoint") {
        let (host, tenant) = token_endpoint(text).map_err(|said| format!("{name}: {said}"))?;
        values.extend([(Key::AuthorityHost, host), (Key::AuthorityId, tenant)]);
    } else {
        let tenant = tenant(account).ok_or_else(|| required("account.oauth2.client.endpoint"))?;
        values.push((Key::AuthorityId, tenant));
        values.extend(authority(account));
    }
    Ok(Credentials { kind: "client_secret", values, asks: true })
}

/// Authority and tenant of `https://login.microsoftonline.com/<tenant>/oauth2/token`.
fn token_endpoint(text: &str) -> Result<(String, String), String> {
    let url = client::endpoint(text, true)?;
    let expected = "must be https://login.microsoftonline.com/TENANT/oauth2/token";
    let segments: Vec<&str> = url.path_segments().into_iter().flatten().filter(|s| !s.is_empty()).collect();
    let tenant = match segments.as_slice() {
        [tenant, "oauth2", "token"] | [tenant, "oauth2", "v2.0", "token"] | [tenant] => (*tenant).to_owned(),
        _ => return Err(expected.into()),
    };
    Ok((url.origin().ascii_serialization(), tenant))
}

fn managed_identity(account: &Account<'_>) -> Credentials {
    let vars = ["AZURE_MSI_ENDPOINT", "AZURE_IDENTITY_ENDPOINT", "IDENTITY_ENDPOINT", "MSI_ENDPOINT"];
    let id = client_id(account).map(|id| (Key::ClientId, id));
    let endpoint = account.or_var("account.oauth2.msi.endpoint", &vars).map(|url| (Key::MsiEndpoint, url));
    let of_var = |name: &str, key: Key| account.settings.var(name).map(|value| (key, value.to_owned()));
    let object = of_var("AZURE_OBJECT_ID", Key::ObjectId);
    let resource = of_var("AZURE_MSI_RESOURCE_ID", Key::MsiResourceId);
    let values = [id, endpoint, object, resource].into_iter().flatten().collect();
    Credentials { kind: "managed_identity", values, asks: true }
}

fn workload_identity(account: &Account<'_>) -> Result<Credentials, String> {
    let required = |key: &str, var: &str| format!("{} or {var}: required", account.named(key));
    let id = client_id(account).ok_or_else(|| required("account.oauth2.client.id", "AZURE_CLIENT_ID"))?;
    let tenant = tenant(account).ok_or_else(|| required("account.oauth2.msi.tenant", "AZURE_TENANT_ID"))?;
    let (key, var) = ("account.oauth2.token.file", "AZURE_FEDERATED_TOKEN_FILE");
    let file = account.or_var(key, &[var]).ok_or_else(|| required(key, var))?;
    std::fs::File::open(&file).map_err(|e| format!("{key}: cannot read {file}: {e}"))?;
    let mut values = vec![(Key::ClientId, id), (Key::AuthorityId, tenant), (Key::FederatedTokenFile, file)];
    values.extend(authority(account));
    Ok(Credentials { kind: "workload_identity", values, asks: true })
}
