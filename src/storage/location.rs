//! Reads a path of the configuration or the command line: the local file system or a store (R9). Pure text, no I/O.

use std::fmt;
use std::path::PathBuf;

/// Where files stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A local directory; a relative path in a configuration is relative to the file.
    Local(PathBuf),
    /// A directory of a store.
    Remote(Remote),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(dir) => write!(f, "{}", dir.display()),
            Self::Remote(remote) => remote.fmt(f),
        }
    }
}

/// A directory of a store. It holds no credential: a path with one is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// In lower case.
    scheme: &'static str,
    kind: Kind,
    /// What stands before the `@`: the container of Azure.
    container: Option<String>,
    /// Bucket, account, or `host[:port]`; empty where the properties name it.
    authority: String,
    /// Absolute, without `//` and without a slash at its end; `/` is the root.
    path: String,
}

/// What kind of store a scheme leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Hdfs,
    Viewfs,
    S3,
    Google,
    Azure,
    Dbfs,
}

const SCHEMES: [(&str, Kind); 11] = [
    ("hdfs", Kind::Hdfs),
    ("viewfs", Kind::Viewfs),
    ("s3", Kind::S3),
    ("s3a", Kind::S3),
    ("s3n", Kind::S3),
    ("gs", Kind::Google),
    ("abfs", Kind::Azure),
    ("abfss", Kind::Azure),
    ("wasb", Kind::Azure),
    ("wasbs", Kind::Azure),
    ("dbfs", Kind::Dbfs),
];

impl Remote {
    /// The scheme in lower case, such as `s3a`.
    pub fn scheme(&self) -> &str {
        self.scheme
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn container(&self) -> Option<&str> {
        self.container.as_deref()
    }

    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }
}

impl Location {
    /// The directory of a file of a store, and its name there; `None` for a file of this machine, and for no file.
    pub fn remote_file(&self) -> Option<(Self, &str)> {
        let Self::Remote(file) = self else { return None };
        let (dir, name) = file.path.rsplit_once('/').filter(|(_, name)| !name.is_empty())?;
        let path = if dir.is_empty() { "/" } else { dir };
        Some((Self::Remote(Remote { path: path.to_owned(), ..file.clone() }), name))
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.scheme)?;
        match (&self.container, self.authority.as_str()) {
            (Some(container), account) => write!(f, "//{container}@{account}")?,
            (None, "") => {}
            (None, authority) => write!(f, "//{authority}")?,
        }
        f.write_str(&self.path)
    }
}

impl std::str::FromStr for Location {
    type Err = String;

    /// Reads a path as `checkpoint.path` has it. The error says what cannot be right.
    fn from_str(text: &str) -> Result<Self, String> {
        parse(text)
    }
}

/// Reads a path of the configuration or the command line.
pub(crate) fn parse(text: &str) -> Result<Location, String> {
    if text.is_empty() || text.contains('\0') {
        return Err("must be a directory".into());
    }
    let Some((scheme, rest)) = scheme(text) else { return Ok(Location::Local(text.into())) };
    let scheme = scheme.to_ascii_lowercase();
    if scheme == "file" {
        return file(rest).map(Location::Local);
    }
    let Some((scheme, kind)) = SCHEMES.iter().find(|(name, _)| *name == scheme) else {
        let known: Vec<&str> = SCHEMES.iter().map(|(name, _)| *name).collect();
        return Err(format!("unknown scheme {scheme}:; known: file, {}", known.join(", ")));
    };
    remote(scheme, *kind, rest).map(Location::Remote)
}

/// The scheme of a path and what follows it; a single letter is a drive.
fn scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let begins = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    let holds = scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    (scheme.len() > 1 && begins && holds).then_some((scheme, rest))
}

/// The path of `file:/dir` or `file:///dir`.
fn file(rest: &str) -> Result<PathBuf, String> {
    let path = match rest.strip_prefix("//") {
        Some(named) => named.strip_prefix("localhost").unwrap_or(named),
        None => rest,
    };
    if !path.starts_with('/') {
        return Err("a file: path must be absolute and without a host: file:///directory".into());
    }
    let decoded = percent_encoding::percent_decode_str(path).decode_utf8();
    decoded.map(|p| PathBuf::from(p.as_ref())).map_err(|_| "a file: path must be UTF-8".into())
}

/// What a path of this scheme looks like.
fn example(scheme: &str, kind: Kind) -> String {
    match kind {
        Kind::Hdfs => "hdfs://host:port/directory or hdfs:///directory".into(),
        Kind::Viewfs => "viewfs://cluster/directory or viewfs:///directory".into(),
        Kind::S3 | Kind::Google => format!("{scheme}://bucket/directory"),
        Kind::Azure if scheme.starts_with("abfs") => {
            format!("{scheme}://container@account.dfs.core.windows.net/directory")
        }
        Kind::Azure => format!("{scheme}://container@account.blob.core.windows.net/directory"),
        Kind::Dbfs => "dbfs:/directory".into(),
    }
}

/// Messages of this function show no part of the text: it may hold a credential by mistake (R23).
fn remote(scheme: &'static str, kind: Kind, rest: &str) -> Result<Remote, String> {
    let write = example(scheme, kind);
    // By hand, not with a URL parser: buckets may have names that are no host, and `%` stands for itself, as in Hadoop.
    if rest.contains(['?', '#']) {
        return Err(format!(
            "must have no ? and no #: {write}; a token of a shared access signature goes into the hadoop block"
        ));
    }
    if rest.chars().any(char::is_control) {
        return Err("must hold no control characters".into());
    }
    let (authority, path) = match rest.strip_prefix("//") {
        Some(named) => named.find('/').map_or((named, ""), |at| named.split_at(at)),
        None if rest.starts_with('/') => ("", rest),
        None => return Err(format!("must be absolute: {write}")),
    };
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let container = match user {
        None => None,
        Some(user) if user.contains(':') => {
            return Err(format!("must hold no credential: write {write}, and the credential into the hadoop block"));
        }
        Some(container) if kind == Kind::Azure => Some(container.to_owned()),
        Some(_) => return Err(format!("must have nothing before an @: {write}")),
    };
    let is_right = match kind {
        Kind::Hdfs => host.is_empty() || is_host(host),
        Kind::Viewfs => host.is_empty() || is_name(host),
        Kind::S3 | Kind::Google => is_name(host),
        Kind::Azure => container.as_deref().is_none_or(is_name) && is_name(host),
        Kind::Dbfs => host.is_empty(),
    };
    if !is_right {
        return Err(match kind {
            Kind::S3 | Kind::Google | Kind::Azure if host.is_empty() => format!("names no {}: {write}", what(kind)),
            _ => format!("does not read as {write}"),
        });
    }
    let segments: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).collect();
    if segments.iter().any(|s| matches!(*s, "." | "..")) {
        return Err("must have no . or .. between slashes".into());
    }
    let path = format!("/{}", segments.join("/"));
    Ok(Remote { scheme, kind, container, authority: host.to_owned(), path })
}

fn what(kind: Kind) -> &'static str {
    if kind == Kind::Azure { "container" } else { "bucket" }
}

/// A bucket, container, account or cluster; `$root` and `$web` are containers.
fn is_name(text: &str) -> bool {
    let plain = text.strip_prefix('$').unwrap_or(text);
    let inner = plain.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    inner && plain.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
}

/// `host`, `host:port`, or `[address]:port`.
fn is_host(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => (address.parse::<std::net::Ipv6Addr>().is_ok(), rest.strip_prefix(':').or(Some(rest))),
        None => match text.split_once(':') {
            Some((host, port)) => (is_name(host), Some(port)),
            None => (is_name(text), None),
        },
    };
    host && port.is_none_or(|port| port.is_empty() && text.ends_with(']') || port.parse::<u16>().is_ok_and(|p| p > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(text: &str) -> Remote {
        match parse(text) {
            Ok(Location::Remote(remote)) => remote,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn r09_paths_without_a_scheme_are_local() {
        for text in ["ckpt", "/Volumes/a/b", "./x", "C:\\ckpt", "c:/ckpt", "/odd:name", "-x:y"] {
            assert_eq!(parse(text), Ok(Location::Local(text.into())), "{text}");
        }
        for text in ["file:/tmp/a b", "file:///tmp/a%20b", "file://localhost/tmp/a b", "FILE:/tmp/a b"] {
            assert_eq!(parse(text), Ok(Location::Local("/tmp/a b".into())), "{text}");
        }
    }

    #[test]
    fn r09_paths_with_a_scheme_lead_to_its_store() {
        for (text, scheme, container, authority, path) in [
            ("s3a://bucket/x/y/", "s3a", None, "bucket", "/x/y"),
            ("S3A://Bucket_1.a", "s3a", None, "Bucket_1.a", "/"),
            ("s3://b//x///y", "s3", None, "b", "/x/y"),
            ("s3n://b/a%20b/c d", "s3n", None, "b", "/a%20b/c d"),
            ("s3a://b/a@b", "s3a", None, "b", "/a@b"),
            ("gs://my_bucket/x", "gs", None, "my_bucket", "/x"),
            ("hdfs:/x", "hdfs", None, "", "/x"),
            ("hdfs:///x", "hdfs", None, "", "/x"),
            ("hdfs://nn:9000/x", "hdfs", None, "nn:9000", "/x"),
            ("hdfs://[::1]:9000/x", "hdfs", None, "[::1]:9000", "/x"),
            ("hdfs://name_service", "hdfs", None, "name_service", "/"),
            ("viewfs://cluster/data", "viewfs", None, "cluster", "/data"),
            ("abfss://c@a.dfs.core.windows.net/x", "abfss", Some("c"), "a.dfs.core.windows.net", "/x"),
            ("wasb://$root@a.blob.core.windows.net/x", "wasb", Some("$root"), "a.blob.core.windows.net", "/x"),
            ("abfs://container/x", "abfs", None, "container", "/x"),
            ("dbfs:/x", "dbfs", None, "", "/x"),
            ("dbfs:///x", "dbfs", None, "", "/x"),
        ] {
            let r = remote(text);
            assert_eq!((r.scheme(), r.container(), r.authority(), r.path()), (scheme, container, authority, path));
        }
        assert_eq!(remote("S3A://b/x/").to_string(), "s3a://b/x");
        assert_eq!(remote("hdfs:///x").to_string(), "hdfs:/x");
        assert_eq!(remote("abfs://c@a.dfs.x/y").to_string(), "abfs://c@a.dfs.x/y");
    }

    #[test]
    fn r09_what_cannot_be_right_is_refused() {
        for (text, word) in [
            ("", "directory"),
            ("s3x://bucket/x", "known: file, hdfs, viewfs, s3, s3a"),
            ("file:relative", "absolute"),
            ("file://host/x", "without a host"),
            ("s3a:///x", "names no bucket"),
            ("s3a:/x", "names no bucket"),
            ("s3a:bucket/x", "absolute"),
            ("s3a://b/x/../y", ".."),
            ("s3a://b/./y", ". or .."),
            ("s3a://b/x?y=1", "no ?"),
            ("s3a://b/x#y", "no #"),
            ("s3a://user@b/x", "before an @"),
            ("s3a://b:80/x", "s3a://bucket/directory"),
            ("s3a://b c/x", "s3a://bucket/directory"),
            ("gs://b/x\ny", "control"),
            ("hdfs://u@nn/x", "before an @"),
            ("hdfs://nn:port/x", "hdfs://host:port"),
            ("hdfs://nn:0/x", "hdfs://host:port"),
            ("hdfs://nn:/x", "hdfs://host:port"),
            ("hdfs://[x]:1/x", "hdfs://host:port"),
            ("hdfs:x", "absolute"),
            ("abfs:///x", "names no container"),
            ("abfs://c@/x", "names no container"),
            ("abfs://@a.dfs.x/x", "abfs://container@account"),
            ("dbfs://host/x", "dbfs:/directory"),
        ] {
            let said = parse(text).expect_err(text);
            assert!(said.contains(word), "{text}: {said}");
        }
    }

    #[test]
    fn r23_a_credential_in_a_path_is_refused_and_not_shown() {
        for text in [
            "s3a://AKID:S3CR3T@bucket/x",
            "s3a://AKID:S3CR3T/y@bucket/x",
            "abfs://c:S3CR3T@a.dfs.core.windows.net/x",
            "hdfs://u:S3CR3T@nn/x",
            "wasbs://c@a.blob.core.windows.net/x?sig=S3CR3T",
        ] {
            let said = parse(text).expect_err(text);
            assert!(!said.contains("S3CR3T"), "{said}");
        }
    }
}
