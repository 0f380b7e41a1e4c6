//! A directory of files, wherever it stands: what ledgers and outputs need of a store, and no more.

mod hdfs;
mod local;
mod object;
#[cfg(any(test, feature = "testing"))]
pub mod suite;

use std::fs::File;
use std::path::Path;

use bytes::Bytes;
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _};

use super::{Entry, Files, Location, Settings, files};
use crate::effect::Effects;
use crate::error::{Error, ErrorKind, Result};

/// A directory of files. It is made with its first file.
///
/// A call that fails may have done its work all the same: the answer may be what was lost. Each may be repeated.
#[derive(Debug, Clone)]
pub(crate) enum Shelf {
    Local(local::Local),
    Objects(object::Objects),
    Hdfs(hdfs::Hdfs),
}

/// The same call on whichever kind it is.
macro_rules! each {
    ($shelf:expr, $files:ident => $call:expr) => {
        match $shelf {
            Shelf::Local($files) => $call,
            Shelf::Objects($files) => $call,
            Shelf::Hdfs($files) => $call,
        }
    };
}

impl Shelf {
    /// A shelf at a location. Nothing is contacted before it is used.
    ///
    /// # Errors
    /// Kind `Config` with everything that keeps the location from being opened.
    pub(crate) fn open(location: &Location, settings: &Settings, effects: Effects) -> Result<Self> {
        Ok(match files(location, settings, &effects)? {
            Files::Local(dir) => Self::Local(local::Local::new(dir, effects)),
            Files::Objects(files) => Self::Objects(object::Objects(files)),
            Files::Hdfs(files) => Self::Hdfs(hdfs::Hdfs::new(files)),
        })
    }

    /// The shelf of this name on this one.
    pub(crate) fn below(&self, dir: &str) -> Self {
        match self {
            Self::Local(files) => Self::Local(files.below(dir)),
            Self::Objects(files) => Self::Objects(object::Objects(files.0.below(dir))),
            Self::Hdfs(files) => Self::Hdfs(files.below(dir)),
        }
    }

    /// The same shelf with effects of its own, which a test may stop.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn watched(&self, effects: &Effects) -> Self {
        let mut other = self.clone();
        match &mut other {
            Self::Local(files) => files.effects = effects.clone(),
            Self::Objects(files) => files.0.effects = effects.clone(),
            Self::Hdfs(files) => files.files.effects = effects.clone(),
        }
        other
    }

    /// What a test may stop.
    pub(crate) fn effects(&self) -> &Effects {
        match self {
            Self::Local(files) => &files.effects,
            Self::Objects(files) => &files.0.effects,
            Self::Hdfs(files) => &files.files.effects,
        }
    }

    /// Where `name` stands, for messages.
    pub(crate) fn describe(&self, name: &str) -> String {
        each!(self, files => files.describe(name))
    }

    /// The directory, if it is one of this machine.
    pub(crate) fn local(&self) -> Option<&Path> {
        match self {
            Self::Local(files) => Some(files.dir()),
            Self::Objects(_) | Self::Hdfs(_) => None,
        }
    }

    /// Makes a file of these bytes, whole and durable, unless there is one of that name: then it answers `false`.
    ///
    /// What was made by a call whose answer was lost is known again by its bytes: let them hold something unique.
    pub(crate) async fn create(&self, name: &str, bytes: Bytes) -> Result<bool> {
        each!(self, files => files.create(name, bytes).await)
    }

    /// The whole file; `None` only if it certainly does not exist. One of more than `max` bytes is an error.
    pub(crate) async fn read(&self, name: &str, max: u64) -> Result<Option<Bytes>> {
        let found = each!(self, files => files.read(name, max).await)?;
        if found.as_ref().is_some_and(|bytes| bytes.len() as u64 > max) {
            let said = format!("the file is too large: at most {max} bytes are expected");
            return Err(Error::new(ErrorKind::Store, said).with("path", self.describe(name)));
        }
        Ok(found)
    }

    /// The names of its files in order, hidden ones too. A shelf that does not exist holds none.
    pub(crate) async fn list(&self) -> Result<Vec<String>> {
        let mut names = match self {
            // Without a look at each of them: a stream's directory has many.
            Self::Local(files) => files.names().await?,
            Self::Objects(_) | Self::Hdfs(_) => return Ok(self.entries().await?.into_iter().map(|e| e.name).collect()),
        };
        names.retain(|name| !is_unborn(name));
        names.sort_unstable();
        Ok(names)
    }

    /// Its files in the order of their names, as [`Shelf::list`] has them.
    pub(crate) async fn entries(&self) -> Result<Vec<Entry>> {
        let mut entries = each!(self, files => files.list().await)?;
        entries.retain(|entry| !is_unborn(&entry.name));
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }

    /// Removes a file; one that is gone already is removed. It may come back after a power cut unless `sync` follows.
    pub(crate) async fn remove(&self, name: &str) -> Result<()> {
        each!(self, files => files.remove(name).await)
    }

    /// Puts what a local file holds, from its beginning, under a name, in bounded memory and over what was there.
    ///
    /// It is whole and durable when this returns; until then anything may stand there, also after a failure.
    pub(crate) async fn upload(&self, from: File, name: &str) -> Result<()> {
        each!(self, files => files.upload(from, name).await)
    }

    /// [`Shelf::upload`] that nobody sees half of.
    #[cfg(feature = "delta")]
    pub(crate) async fn replace(&self, from: File, name: &str) -> Result<()> {
        if let Self::Objects(_) = self {
            return self.upload(from, name).await;
        }
        let hidden = unborn();
        self.upload(from, &hidden).await?;
        self.rename(&hidden, name).await?;
        self.sync().await
    }

    /// A local file that holds what stands under a name, at its beginning; `None` only if nothing does.
    ///
    /// Of this machine it is the file itself, else a copy that goes with its handle.
    pub(crate) async fn download(&self, name: &str) -> Result<Option<File>> {
        each!(self, files => files.download(name).await)
    }

    /// Gives a file another name, over what was there. Done already, if `from` is gone and `to` is there.
    ///
    /// An object store copies, then removes: for an instant there are both. Elsewhere the new name lasts once `sync`
    /// returned.
    pub(crate) async fn rename(&self, from: &str, to: &str) -> Result<()> {
        each!(self, files => files.rename(from, to).await)
    }

    /// Makes what was renamed and removed durable.
    pub(crate) async fn sync(&self) -> Result<()> {
        match self {
            Self::Local(files) => files.sync().await,
            // Names are durable there as soon as they are.
            Self::Objects(_) | Self::Hdfs(_) => Ok(()),
        }
    }
}

const UNBORN: &str = ".created";

/// A name for a file that is being made and takes its own when it is whole.
fn unborn() -> String {
    format!(".{:016x}{UNBORN}", fastrand::u64(..))
}

/// Whether a file is one that is being made, or that a crash kept from being finished.
fn is_unborn(name: &str) -> bool {
    let number = name.strip_prefix('.').and_then(|name| name.strip_suffix(UNBORN));
    number.is_some_and(|number| number.len() == 16 && number.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// A file for a copy; it has no name and goes with its handle.
fn scratch() -> Result<tokio::fs::File> {
    let file = tempfile::tempfile();
    file.map(tokio::fs::File::from_std).map_err(|e| unkept(&e))
}

/// A copy that is whole, at its beginning.
async fn rewound(mut file: tokio::fs::File) -> Result<File> {
    file.flush().await.map_err(|e| unkept(&e))?;
    file.rewind().await.map_err(|e| unkept(&e))?;
    Ok(file.into_std().await)
}

fn unkept(cause: &std::io::Error) -> Error {
    Error::new(ErrorKind::Store, format!("no local copy can be kept: {cause}"))
}

/// How a create ended, given what stands there now: ours, somebody else's, or nobody knows why it failed.
fn judged(stands: Result<Option<Bytes>>, bytes: &Bytes, failed: Error) -> Result<bool> {
    match stands {
        Ok(Some(stands)) => Ok(stands == bytes),
        _ => Err(failed),
    }
}

#[cfg(test)]
mod tests;
