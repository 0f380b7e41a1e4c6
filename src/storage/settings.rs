//! The properties and variables that open a store: the `hadoop` block over the Hadoop files, and the environment.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};

use super::site;
use crate::secret::{Secret, names_a_secret};

/// Which variables of the environment stores know.
const PREFIXES: [&str; 6] = ["AWS_", "AZURE_", "GOOGLE_", "HADOOP_", "IDENTITY_", "MSI_"];
const NAMES: [&str; 5] = ["HOME", "USER", "APPDATA", "NO_GCE_CHECK", "KRB5CCNAME"];
/// `${...}` inside a value is looked up so often, as in Hadoop.
const MAX_SUBSTITUTIONS: usize = 20;

/// What opens a store. `Debug` shows names only, never a value (R23).
#[derive(Clone, Default)]
pub struct Settings {
    properties: BTreeMap<String, String>,
    env: BTreeMap<String, String>,
    /// Why the Hadoop files could not be read; said when a store needs them.
    broken: Option<String>,
    /// Where Databricks mounts `dbfs:`, if it is not `/dbfs`.
    dbfs: Option<PathBuf>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (properties, env): (Vec<_>, Vec<_>) = (self.properties.keys().collect(), self.env.keys().collect());
        f.debug_struct("Settings").field("properties", &properties).field("env", &env).finish_non_exhaustive()
    }
}

impl Settings {
    /// The `hadoop` block over the files of `HADOOP_CONF_DIR`, and the variables that stores know.
    ///
    /// Broken files are no problem before a store is opened: a configuration of local paths does not need them.
    #[allow(clippy::implicit_hasher, reason = "the configuration is loaded with this one")]
    pub fn new(hadoop: BTreeMap<String, String>, env: &HashMap<String, String>) -> Self {
        let known = |name: &str| NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        let variables = env.iter().filter(|(name, _)| known(name)).map(|(n, v)| (n.clone(), v.clone())).collect();
        let set = |name: &str| env.get(name).filter(|value| !value.is_empty());
        let dir = set("HADOOP_CONF_DIR").map(PathBuf::from);
        let dir = dir.or_else(|| Some(Path::new(set("HADOOP_HOME")?).join("etc/hadoop")));
        let (mut properties, broken) = match dir.map(|dir| site::read(&dir)) {
            Some(Ok(properties)) => (properties, None),
            Some(Err(said)) => (BTreeMap::new(), Some(said)),
            None => (BTreeMap::new(), None),
        };
        let lost = set("HADOOP_CONF_DIR").filter(|dir| !Path::new(dir).is_dir());
        let broken = broken.or_else(|| lost.map(|dir| format!("HADOOP_CONF_DIR names {dir}, which is no directory")));
        properties.extend(hadoop);
        let values = properties.values().map(|value| substitute(value, &properties, env)).collect::<Vec<_>>();
        let properties = properties.into_keys().zip(values).collect();
        Self { properties, env: variables, broken, dbfs: None }
    }

    /// Every credential value: of properties and variables that are named like one.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        let both = self.properties.iter().chain(&self.env);
        let mut secrets: Vec<Secret> = Vec::new();
        for (_, value) in both.filter(|(name, value)| holds_a_secret(name, value)) {
            // Of a shared access signature the signature itself may show up alone.
            let signature = value.trim_start_matches('?').split('&').find_map(|pair| pair.strip_prefix("sig="));
            if let Some(signature) = signature {
                let decoded = percent_encoding::percent_decode_str(signature).decode_utf8_lossy();
                secrets.extend([Secret::new(signature), Secret::new(decoded)]);
            }
            secrets.push(Secret::new(value.trim()));
        }
        secrets
    }

    /// A property, trimmed; an empty one counts as not set.
    pub(super) fn property(&self, name: &str) -> Option<&str> {
        self.properties.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// All properties.
    pub(super) fn properties(&self) -> &BTreeMap<String, String> {
        &self.properties
    }

    /// A variable, trimmed; an empty one counts as not set.
    pub(super) fn var(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// The variables that begin so, without the empty ones, in order.
    pub(super) fn vars(&self, prefix: &str) -> impl Iterator<Item = (&str, &str)> {
        let all = self.env.iter().map(|(name, value)| (name.as_str(), value.trim()));
        all.filter(move |(name, value)| name.starts_with(prefix) && !value.is_empty())
    }

    /// Whether a variable says yes.
    pub(super) fn flag_var(&self, name: &str) -> bool {
        self.var(name).is_some_and(|value| is_true(value) == Some(true))
    }

    /// What is wrong with the Hadoop files.
    pub(super) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// The home directory.
    pub(super) fn home(&self) -> Option<&Path> {
        self.var("HOME").map(Path::new)
    }

    /// Where `dbfs:` is mounted.
    pub(super) fn dbfs(&self) -> &Path {
        self.dbfs.as_deref().unwrap_or(Path::new("/dbfs"))
    }

    /// Why a credential that is kept in a file of a credential provider is not found.
    pub(super) fn credential_provider(&self) -> Option<String> {
        let names = ["hadoop.security.credential.provider.path", "fs.s3a.security.credential.provider.path"];
        let name = names.into_iter().find(|name| self.property(name).is_some())?;
        Some(format!("{name} (jceks) is not supported: put the credential into the hadoop block, as ${{VARIABLE}}"))
    }

    /// These settings with `dbfs:` mounted elsewhere.
    #[cfg(test)]
    pub(super) fn with_dbfs(self, dir: &Path) -> Self {
        Self { dbfs: Some(dir.to_owned()), ..self }
    }
}

/// `true` and `false` as Hadoop and the clouds write them.
pub(super) fn is_true(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// Words at the end of a name that tell a setting of a credential from the credential itself.
const NO_SECRET: [&str; 16] = [
    "algorithm",
    "class",
    "dir",
    "enable",
    "enabled",
    "endpoint",
    "file",
    "interval",
    "keyfile",
    "keytab",
    "lifetime",
    "path",
    "provider",
    "type",
    "uri",
    "url",
];

/// Whether a property or variable holds a credential: its name says so, and it is no switch, class, number or path.
pub(crate) fn holds_a_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // What an account is called decides nothing.
    let surely = ["fs.azure.account.key.", "fs.azure.sas."].iter().any(|start| name.starts_with(start));
    let may = names_a_secret(&name) || name.contains("_sas_") || name == "identity_header";
    let name = name.split(".dfs.").next().and_then(|name| name.split(".blob.").next()).unwrap_or_default();
    let is_setting = name.rsplit(['.', '_']).take(2).any(|word| NO_SECRET.contains(&word));
    let value = value.trim();
    (surely || may && !is_setting)
        && value.len() >= 4
        && is_true(value).is_none()
        && !value.chars().all(|c| c.is_ascii_digit())
        && !value.starts_with("org.apache.")
}

/// `${name}` and `${env.NAME}`, as Hadoop replaces them: one that is not set stays as it is.
fn substitute(text: &str, properties: &BTreeMap<String, String>, env: &HashMap<String, String>) -> String {
    let mut text = text.to_owned();
    for _ in 0..MAX_SUBSTITUTIONS {
        let Some((range, value)) = next(&text, properties, env) else { break };
        text.replace_range(range, &value);
    }
    text
}

/// The first `${...}` that has a value, and the value.
fn next(
    text: &str,
    properties: &BTreeMap<String, String>,
    env: &HashMap<String, String>,
) -> Option<(std::ops::Range<usize>, String)> {
    let starts = text.match_indices("${").map(|(at, _)| at);
    starts.into_iter().find_map(|start| {
        let end = start + text[start..].find('}')?;
        let name = &text[start + 2..end];
        let value = match name.strip_prefix("env.") {
            Some(variable) => {
                let (variable, default) = match variable.split_once(":-").or_else(|| variable.split_once('-')) {
                    Some((variable, default)) => (variable, Some(default.to_owned())),
                    None => (variable, None),
                };
                env.get(variable).cloned().or(default)
            }
            None => match (properties.get(name), name) {
                (Some(value), _) => Some(value.clone()),
                (None, "user.name") => env.get("USER").cloned(),
                (None, "user.home") => env.get("HOME").cloned(),
                _ => None,
            },
        };
        value.filter(|value| value.len() <= 1 << 16).map(|value| (start..end + 1, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(properties: &[(&str, &str)], env: &[(&str, &str)]) -> Settings {
        let own = |pair: &(&str, &str)| (pair.0.to_owned(), pair.1.to_owned());
        Settings::new(properties.iter().map(own).collect(), &env.iter().map(own).collect())
    }

    #[test]
    fn r09_the_hadoop_block_wins_over_the_files_of_hadoop() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("etc/hadoop")).unwrap();
        let xml = "<configuration><property><name>a</name><value>file</value><final>true</final></property>\
                   <property><name>b</name><value>${a}/${env.WHO}/${env.NO:-x}/${none}</value></property></configuration>";
        std::fs::write(dir.path().join("etc/hadoop/core-site.xml"), xml).unwrap();
        let home = dir.path().to_str().unwrap();
        let settings = gather(&[("a", "block")], &[("HADOOP_HOME", home), ("WHO", "me")]);
        assert_eq!(settings.property("a"), Some("block"));
        assert_eq!(settings.property("b"), Some("block/me/x/${none}"));
        let conf = dir.path().join("etc/hadoop");
        let settings = gather(&[], &[("HADOOP_CONF_DIR", conf.to_str().unwrap()), ("HADOOP_HOME", "/no/such")]);
        assert_eq!(settings.property("a"), Some("file"));
        assert_eq!(settings.property("c"), None);
    }

    #[test]
    fn r09_substitutions_end() {
        let settings = gather(&[("a", "${a}x"), ("b", "${c}"), ("c", "${b}"), ("d", "${"), ("e", "${}")], &[]);
        assert_eq!((settings.property("b"), settings.property("d")), (Some("${c}"), Some("${")));
        assert!(settings.property("a").is_some_and(|text| text.len() < 100));
    }

    #[test]
    fn r23_settings_show_names_and_know_their_secrets() {
        let settings = gather(
            &[
                ("fs.s3a.secret.key", "S3CR3T-a"),
                ("fs.s3a.bucket.path-files.session.token", "S3CR3T-b"),
                ("fs.azure.account.key.files.dfs.core.windows.net", "S3CR3T-c"),
                ("fs.azure.sas.c.acct.blob.core.windows.net", "?sv=1&sig=S3CR3T%2Bd&se=2"),
                ("fs.azure.account.oauth2.client.secret", "S3CR3T-e"),
                ("fs.s3a.proxy.password", "S3CR3T-f"),
                ("dfs.encryption.key.provider.uri", "kms://http@h:1/kms"),
                ("fs.azure.account.oauth2.token.file.acct.dfs.core.windows.net", "/run/token"),
                ("dfs.block.access.token.enable", "true"),
                ("dfs.block.access.key.update.interval", "600"),
                ("dfs.client.keytab.file", "/etc/me.keytab"),
                ("fs.azure.account.auth.type", "SharedKey"),
            ],
            &[
                ("AWS_SECRET_ACCESS_KEY", "S3CR3T-g"),
                ("AZURE_STORAGE_SAS_TOKEN", "sig=S3CR3T-h"),
                ("AWS_WEB_IDENTITY_TOKEN_FILE", "/run/token"),
                ("API_TOKEN", "not of a store"),
            ],
        );
        let mut secrets: Vec<String> = settings.secrets().iter().map(|s| s.expose().to_owned()).collect();
        secrets.sort();
        let expected = [
            "?sv=1&sig=S3CR3T%2Bd&se=2",
            "S3CR3T%2Bd",
            "S3CR3T+d",
            "S3CR3T-a",
            "S3CR3T-b",
            "S3CR3T-c",
            "S3CR3T-e",
            "S3CR3T-f",
            "S3CR3T-g",
            "S3CR3T-h",
            "S3CR3T-h",
            "sig=S3CR3T-h",
        ];
        assert_eq!(secrets, expected);
        let debug = format!("{settings:?}");
        assert!(debug.contains("fs.s3a.secret.key") && !debug.contains("S3CR3T") && !debug.contains("API_TOKEN"));
    }
}
