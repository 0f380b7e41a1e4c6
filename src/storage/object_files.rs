//! Objects of a directory as files: read, put on a condition, removed; every refusal in one line.

use std::fmt;

use bytes::Bytes;
use futures::TryStreamExt as _;
use object_store::path::Path;
use object_store::{Error as Cause, ObjectStoreExt as _, PutMode, PutOptions, UpdateVersion};

use super::{Objects, cause};
use crate::effect::{Effect, Effects, Stopped};
use crate::error::{Error, ErrorKind};
use crate::secret::Redactor;

/// A directory of an object store, for those who write to it.
#[derive(Clone)]
pub(crate) struct ObjectFiles {
    pub(crate) objects: Objects,
    /// The directory as the configuration has it.
    shown: String,
    redactor: Redactor,
    pub(crate) effects: Effects,
}

/// What a call ended with.
pub(crate) enum Failed {
    Store(Cause),
    Stopped(Stopped),
}

impl From<Stopped> for Failed {
    fn from(stopped: Stopped) -> Self {
        Self::Stopped(stopped)
    }
}

impl From<Cause> for Failed {
    fn from(cause: Cause) -> Self {
        Self::Store(cause)
    }
}

impl ObjectFiles {
    pub(crate) fn new(objects: Objects, shown: String, redactor: Redactor, effects: Effects) -> Self {
        Self { objects, shown, redactor, effects }
    }

    /// The directory of this name in this one.
    pub(crate) fn below(&self, dir: &str) -> Self {
        let objects = Objects { prefix: self.path(dir), ..self.objects.clone() };
        Self { objects, shown: self.describe(dir), ..self.clone() }
    }

    pub(crate) fn path(&self, name: &str) -> Path {
        // As it is: joining would encode what stands in a name.
        Path::parse(format!("{}/{name}", self.objects.prefix))
            .unwrap_or_else(|_| self.objects.prefix.clone().join(name))
    }

    /// Where `name` stands, for messages.
    pub(crate) fn describe(&self, name: &str) -> String {
        format!("{}/{name}", self.shown.trim_end_matches('/'))
    }

    /// What stands there and its version; of more than `max` bytes only the first, but more than `max`.
    pub(crate) async fn read(&self, name: &str, max: u64) -> Result<Option<(Vec<u8>, UpdateVersion)>, Failed> {
        let found = match self.objects.store.get(&self.path(name)).await {
            Err(e) if cause::is_absent(&e) => return Ok(None),
            found => found?,
        };
        let version = UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
        // Its header may say less than comes.
        let (mut bytes, mut chunks) = (Vec::new(), found.into_stream());
        while bytes.len() as u64 <= max
            && let Some(chunk) = chunks.try_next().await?
        {
            bytes.extend_from_slice(&chunk);
        }
        Ok(Some((bytes, version)))
    }

    pub(crate) async fn exists(&self, name: &str) -> Result<bool, Failed> {
        // Not by a HEAD, whose 404 does not say whether it is the object that is missing.
        match self.objects.store.get(&self.path(name)).await {
            Err(e) if cause::is_absent(&e) => Ok(false),
            found => Ok(found.map(|_| true)?),
        }
    }

    /// Writes an object, whole or not at all.
    pub(crate) async fn put(&self, name: &str, bytes: Bytes, mode: PutMode) -> Result<(), Failed> {
        let path = self.path(name);
        let put = self.objects.store.put_opts(&path, bytes.into(), PutOptions::from(mode));
        self.effects.act(Effect::Put, async { Ok(put.await.map(drop)?) }).await
    }

    /// Removes an object; `false` if the store says that there was none, which not every store does.
    pub(crate) async fn remove(&self, name: &str) -> Result<bool, Failed> {
        let path = self.path(name);
        let delete = async { Ok::<_, Failed>(self.objects.store.delete(&path).await?) };
        match self.effects.act(Effect::Delete, delete).await {
            Err(Failed::Store(e)) if cause::is_absent(&e) => Ok(false),
            done => done.map(|()| true),
        }
    }

    pub(crate) fn failed(&self, what: &str, name: &str, failed: &Failed) -> Error {
        let why = match failed {
            Failed::Store(e) => cause::of_object(e, |text| self.redactor.scrub(text)),
            Failed::Stopped(stopped) => stopped.to_string(),
        };
        Error::new(ErrorKind::Store, format!("{what}: {why}")).with("path", self.describe(name))
    }
}

impl fmt::Debug for ObjectFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectFiles({})", self.shown)
    }
}
