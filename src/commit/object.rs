//! Checkpoints on an object store: one conditional put, which is the compare-and-replace itself (R7, R8).
//!
//! The condition is what the load saw: that there is no object, or its entity tag (S3, Azure) or generation (Google).
//! A put is whole or not at all, so nothing is left behind by a writer that crashed.

use std::fmt;
use std::sync::Arc;

use futures::TryStreamExt as _;
use futures::future::BoxFuture;
use object_store::path::Path;
use object_store::{Error as Cause, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, UpdateVersion};

use super::{CheckpointStore, Commit, SIZE_MAX, Verdict, file_name};
use crate::effect::{Effect, Effects, Stopped};
use crate::error::{Error, ErrorKind, Result};
use crate::position::Instant;
use crate::secret::Redactor;
use crate::storage::{Objects, cause};

/// A store may refuse a condition that holds while another writer is at work: so often it is asked again.
const TRIES: usize = 5;

/// A prefix of a bucket or container that holds checkpoint objects.
#[derive(Clone)]
pub struct ObjectCheckpoints {
    objects: Objects,
    /// The directory as the configuration has it.
    shown: String,
    redactor: Redactor,
    effects: Effects,
}

/// What stands there, and what to name when it is to be replaced.
struct Standing {
    bytes: Vec<u8>,
    version: UpdateVersion,
}

impl ObjectCheckpoints {
    pub(crate) fn new(objects: Objects, shown: String, redactor: Redactor, effects: Effects) -> Self {
        Self { objects, shown, redactor, effects }
    }

    fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.objects.store
    }

    fn path(&self, table: &str) -> Path {
        // As it is: joining would encode what stands in a name.
        let name = file_name(table);
        Path::parse(format!("{}/{name}", self.objects.prefix))
            .unwrap_or_else(|_| self.objects.prefix.clone().join(name))
    }

    async fn standing(&self, table: &str) -> Result<Option<Standing>> {
        let failed = |e: &Cause| self.failed("cannot read the checkpoint", table, e);
        let found = match self.store().get(&self.path(table)).await {
            Err(e) if cause::is_absent(&e) => return Ok(None),
            found => found.map_err(|e| failed(&e))?,
        };
        if found.meta.size > SIZE_MAX {
            return Err(self.too_large(table));
        }
        let version = UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
        // Its header may say less than comes.
        let (mut bytes, mut chunks) = (Vec::new(), found.into_stream());
        while let Some(chunk) = chunks.try_next().await.map_err(|e| failed(&e))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() as u64 > SIZE_MAX {
                return Err(self.too_large(table));
            }
        }
        Ok(Some(Standing { bytes, version }))
    }

    async fn commit_whole(&self, commit: &Commit, now: Instant) -> Result<()> {
        let (table, place) = (commit.table(), self.describe(commit.table()));
        let mut refused = None;
        for _ in 0..TRIES {
            let standing = self.standing(table).await?;
            let Some(bytes) = commit.ruled(standing.as_ref().map(|s| s.bytes.as_slice()), now, &place)? else {
                return Ok(());
            };
            let mode = standing.map_or(PutMode::Create, |s| PutMode::Update(s.version));
            match self.put(table, bytes, mode).await {
                Ok(()) => return Ok(()),
                // Somebody was faster, or our own answer was lost: what stands there now tells.
                Err(PutError::Store(
                    e @ (Cause::Precondition { .. } | Cause::AlreadyExists { .. } | Cause::NotFound { .. }),
                )) => refused = Some(e),
                // It may have arrived all the same.
                Err(e) => {
                    let stands = self.standing(table).await;
                    let arrived = stands
                        .is_ok_and(|s| commit.judge(s.as_ref().map(|s| s.bytes.as_slice()), now) == Verdict::Done);
                    return if arrived { Ok(()) } else { Err(self.put_failed(table, &e)) };
                }
            }
        }
        // What was loaded still stands: it was nobody's commit that the store refused us for.
        Err(refused.map_or_else(
            || commit.conflict(&place),
            |e| self.failed("the store refuses to replace the checkpoint, though nobody else did", table, &e),
        ))
    }

    async fn put(&self, table: &str, bytes: Vec<u8>, mode: PutMode) -> Result<(), PutError> {
        let path = self.path(table);
        let put = self.store().put_opts(&path, PutPayload::from(bytes), PutOptions::from(mode));
        self.effects.act(Effect::Put, async { put.await.map(|_| ()).map_err(PutError::Store) }).await
    }

    async fn clear_whole(&self, table: &str) -> Result<bool> {
        let path = self.path(table);
        // Some stores do not say whether there was anything to delete.
        match self.store().get(&path).await {
            Err(e) if cause::is_absent(&e) => return Ok(false),
            Err(e) => return Err(self.failed("cannot read the checkpoint", table, &e)),
            Ok(_) => {}
        }
        let delete = async { self.store().delete(&path).await.map_err(PutError::Store) };
        match self.effects.act(Effect::Delete, delete).await {
            Err(PutError::Store(e)) if cause::is_absent(&e) => Ok(false),
            Err(PutError::Store(e)) => Err(self.failed("cannot remove the checkpoint", table, &e)),
            Err(PutError::Stopped(stopped)) => Err(stopped_here(&stopped)),
            Ok(()) => Ok(true),
        }
    }

    fn put_failed(&self, table: &str, cause: &PutError) -> Error {
        match cause {
            PutError::Store(cause) => self.failed("cannot write the checkpoint", table, cause),
            PutError::Stopped(stopped) => stopped_here(stopped),
        }
    }

    fn too_large(&self, table: &str) -> Error {
        let said = format!("the checkpoint {} cannot be used: it is too large to be one", self.describe(table));
        Error::new(ErrorKind::Store, said)
    }

    fn failed(&self, what: &str, table: &str, error: &Cause) -> Error {
        let said = format!("{what}: {}", cause::of_object(error, |text| self.redactor.scrub(text)));
        Error::new(ErrorKind::Store, said).with("path", self.describe(table))
    }
}

fn stopped_here(stopped: &Stopped) -> Error {
    Error::new(ErrorKind::Store, stopped.to_string())
}

enum PutError {
    Store(Cause),
    Stopped(Stopped),
}

impl From<Stopped> for PutError {
    fn from(stopped: Stopped) -> Self {
        Self::Stopped(stopped)
    }
}

impl CheckpointStore for ObjectCheckpoints {
    fn load<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        Box::pin(async move { Ok(self.standing(table).await?.map(|s| s.bytes)) })
    }

    fn commit<'a>(&'a self, commit: &'a Commit, now: Instant) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if commit.position().is_none() {
                return Ok(());
            }
            self.commit_whole(commit, now).await
        })
    }

    fn clear<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.clear_whole(table))
    }

    fn describe(&self, table: &str) -> String {
        format!("{}/{}", self.shown.trim_end_matches('/'), file_name(table))
    }
}

impl fmt::Debug for ObjectCheckpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectCheckpoints({})", self.shown)
    }
}
