//! Where files stand: a path of the configuration and the properties that open it (R9). Opening asks nobody anything.

mod azure;
pub(crate) mod cause;
mod client;
mod google;
mod hdfs;
pub(crate) mod hdfs_files;
pub(crate) mod location;
pub(crate) mod object_files;
mod profile;
mod s3;
mod s3_credentials;
mod settings;
pub mod shelf;
mod site;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use object_store::ObjectStore;

use crate::effect::Effects;
use crate::error::{Error, ErrorKind};
use crate::secret::{Redactor, Secret};
use hdfs_files::HdfsFiles;
use location::Kind;
pub use location::{Location, Remote};
use object_files::ObjectFiles;
pub use settings::Settings;
pub(crate) use settings::holds_a_secret;

/// What a location leads to, ready to be used.
#[derive(Debug)]
pub(crate) enum Opened {
    /// A local directory.
    Local(PathBuf),
    /// A directory of an object store.
    Objects(Objects),
    /// A directory of HDFS, whose client is still to be made.
    Hdfs(HdfsOptions),
}

/// A file of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// In bytes.
    pub(crate) size: u64,
    /// When it was last written, in milliseconds since 1970; 0 where the store does not say.
    pub(crate) modified: i64,
}

/// The files of a location, ready to be read and written.
pub(crate) enum Files {
    Local(PathBuf),
    Objects(ObjectFiles),
    Hdfs(HdfsFiles),
}

/// A directory of an object store.
#[derive(Clone)]
pub(crate) struct Objects {
    /// The whole bucket or container.
    pub(crate) store: Arc<dyn ObjectStore>,
    /// The directory in it.
    pub(crate) prefix: object_store::path::Path,
    /// Credentials that came from files, besides those of [`Settings::secrets`].
    pub(crate) secrets: Vec<Secret>,
}

impl fmt::Debug for Objects {
    /// The store's own `Debug` shows credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Objects({}, {:?})", self.store, self.prefix.as_ref())
    }
}

/// What the client of HDFS is made of.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct HdfsOptions {
    /// `hdfs://host:port` or `hdfs://nameservice`.
    pub(crate) url: String,
    /// Absolute.
    pub(crate) dir: String,
    /// All properties: the client needs no file.
    pub(crate) config: BTreeMap<String, String>,
    /// The Kerberos principal, if it is not that of the ticket cache.
    pub(crate) principal: Option<String>,
    /// The file of its key.
    pub(crate) keytab: Option<String>,
}

impl fmt::Debug for HdfsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.config.keys().collect();
        f.debug_struct("HdfsOptions")
            .field("url", &self.url)
            .field("dir", &self.dir)
            .field("config", &names)
            .finish_non_exhaustive()
    }
}

/// Opens a location: every problem at once, without a network and without a runtime.
pub(crate) fn open(location: &Location, settings: &Settings) -> Result<Opened, Vec<String>> {
    let remote = match location {
        Location::Local(dir) => return Ok(Opened::Local(dir.clone())),
        Location::Remote(remote) => remote,
    };
    // What follows from files that could not be read is said by that.
    if let Some(broken) = settings.broken().filter(|_| remote.kind() != Kind::Dbfs) {
        return Err(vec![broken.to_owned()]);
    }
    let opened = match remote.kind() {
        Kind::S3 => s3::open(remote, settings).map(Opened::Objects),
        Kind::Google => google::open(remote, settings).map(Opened::Objects),
        Kind::Azure => azure::open(remote, settings).map(Opened::Objects),
        Kind::Hdfs => hdfs::open(remote, settings).map(Opened::Hdfs),
        Kind::Viewfs => hdfs::resolve(remote, settings).and_then(|target| open(&target, settings)),
        Kind::Dbfs => dbfs(remote, settings).map_err(|said| vec![said]),
    };
    let redactor = Redactor::default();
    settings.secrets().iter().for_each(|secret| redactor.learn(secret));
    opened.map_err(|problems| problems.iter().map(|said| redactor.scrub(said)).collect())
}

/// [`open`], for those who read and write there. Everything that keeps the location from being opened is one error of kind
/// `Config`.
pub(crate) fn files(location: &Location, settings: &Settings, effects: &Effects) -> Result<Files, Error> {
    let opened = open(location, settings).map_err(|problems| {
        Error::new(ErrorKind::Config, format!("{location}: {}", problems.join("; "))).with("path", location)
    })?;
    let (shown, effects) = (location.to_string(), effects.clone());
    Ok(match opened {
        Opened::Local(dir) => Files::Local(dir),
        Opened::Hdfs(options) => Files::Hdfs(HdfsFiles::new(options, shown, effects)),
        Opened::Objects(objects) => {
            let redactor = Redactor::default();
            settings.secrets().iter().chain(&objects.secrets).for_each(|secret| redactor.learn(secret));
            Files::Objects(ObjectFiles::new(objects, shown, redactor, effects))
        }
    })
}

/// `dbfs:/dir` is a directory that Databricks mounts.
fn dbfs(remote: &Remote, settings: &Settings) -> Result<Opened, String> {
    let mount = settings.dbfs();
    if !mount.is_dir() {
        return Err(format!("dbfs: is the directory {}, which is not mounted here", mount.display()));
    }
    Ok(Opened::Local(mount.join(remote.path().trim_start_matches('/'))))
}

/// The directory of a path in a bucket.
fn prefix(remote: &Remote) -> Result<object_store::path::Path, String> {
    object_store::path::Path::parse(remote.path()).map_err(|_| "cannot be a directory of an object store".into())
}

/// Why a builder refused what it was given.
fn refused(error: &object_store::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    // The outer texts often end before the reason.
    while let Some(inner) = cause {
        let said = inner.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = inner.source();
    }
    format!("cannot be opened: {text}")
}

/// Problems, collected.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    /// What a property says; a problem with it names the property.
    fn take<T>(&mut self, name: &str, read: Result<T, String>) -> Option<T> {
        read.map_err(|said| self.0.push(format!("{name}: {said}"))).ok()
    }

    fn add(&mut self, said: impl Into<String>) {
        self.0.push(said.into());
    }

    /// The value, unless there are problems.
    fn or<T>(self, value: Option<T>) -> Result<T, Vec<String>> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => Err(self.0),
        }
    }
}

#[cfg(test)]
mod tests;
