//! Where a path of a checkpoint or an output leads: the local file system or a store (R9).

use std::path::PathBuf;

use super::Location;

/// Schemes of stores that are known, and built later.
const LATER: &[&str] = &["hdfs", "viewfs", "s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "dbfs"];

/// Why a path is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The scheme is known; its store is built later.
    Later(String),
    /// It cannot be right.
    Wrong(String),
}

/// Reads a path of the configuration or the command line.
pub(crate) fn parse(text: &str) -> Result<Location, Refused> {
    if text.is_empty() || text.contains('\0') {
        return Err(Refused::Wrong("must be a directory".into()));
    }
    let Some((scheme, rest)) = scheme(text) else { return Ok(Location::Local(text.into())) };
    match scheme.to_ascii_lowercase().as_str() {
        "file" => file(rest).map(Location::Local).map_err(Refused::Wrong),
        known if LATER.contains(&known) => Err(Refused::Later(format!("{known}:"))),
        unknown => Err(Refused::Wrong(format!("unknown scheme {unknown}:; known: file, {}", LATER.join(", ")))),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn r09_other_schemes_are_known_or_refused_by_name() {
        assert_eq!(parse("s3a://bucket/x"), Err(Refused::Later("s3a:".into())));
        assert_eq!(parse("hdfs:/x"), Err(Refused::Later("hdfs:".into())));
        assert!(matches!(parse("s3x://bucket/x"), Err(Refused::Wrong(said)) if said.contains("s3x")));
        assert!(matches!(parse("file:relative"), Err(Refused::Wrong(_))));
        assert!(matches!(parse("file://host/x"), Err(Refused::Wrong(_))));
        assert!(matches!(parse(""), Err(Refused::Wrong(_))));
    }
}
