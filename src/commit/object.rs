//! Checkpoints on an object store: one conditional put, which is the compare-and-replace itself (R7, R8).
//!
//! The condition is what the load saw: that there is no object, or its entity tag (S3, Azure) or generation (Google).
//! A put is whole or not at all, so nothing is left behind by a writer that crashed.

use futures::future::BoxFuture;
use object_store::{Error as Cause, PutMode, UpdateVersion};

use super::{CheckpointStore, Commit, SIZE_MAX, Verdict, file_name};
use crate::error::{Error, ErrorKind, Result};
use crate::position::Instant;
use crate::storage::object_files::{Failed, ObjectFiles};

/// A store may refuse a condition that holds while another writer is at work: so often it is asked again.
const TRIES: usize = 5;

/// A prefix of a bucket or container that holds checkpoint objects.
#[derive(Debug, Clone)]
pub struct ObjectCheckpoints(ObjectFiles);

impl ObjectCheckpoints {
    pub(crate) fn new(files: ObjectFiles) -> Self {
        Self(files)
    }

    /// What stands there, and what to name when it is to be replaced.
    async fn standing(&self, table: &str) -> Result<Option<(Vec<u8>, UpdateVersion)>> {
        let found = self.0.read(&file_name(table), SIZE_MAX).await;
        let found = found.map_err(|e| self.failed("cannot read the checkpoint", table, &e))?;
        if found.as_ref().is_some_and(|(bytes, _)| bytes.len() as u64 > SIZE_MAX) {
            let said = format!("the checkpoint {} cannot be used: it is too large to be one", self.describe(table));
            return Err(Error::new(ErrorKind::Store, said));
        }
        Ok(found)
    }

    async fn commit_whole(&self, commit: &Commit, now: Instant) -> Result<()> {
        let (table, place) = (commit.table(), self.describe(commit.table()));
        let mut refused = None;
        for _ in 0..TRIES {
            let standing = self.standing(table).await?;
            let Some(bytes) = commit.ruled(standing.as_ref().map(|s| s.0.as_slice()), now, &place)? else {
                return Ok(());
            };
            let mode = standing.map_or(PutMode::Create, |s| PutMode::Update(s.1));
            match self.0.put(&file_name(table), bytes.into(), mode).await {
                Ok(()) => return Ok(()),
                // Somebody was faster, or our own answer was lost: what stands there now tells.
                Err(
                    e
                    @ Failed::Store(Cause::Precondition { .. } | Cause::AlreadyExists { .. } | Cause::NotFound { .. }),
                ) => refused = Some(e),
                // It may have arrived all the same.
                Err(e) => {
                    let stands = self.standing(table).await;
                    let arrived =
                        stands.is_ok_and(|s| commit.judge(s.as_ref().map(|s| s.0.as_slice()), now) == Verdict::Done);
                    return if arrived { Ok(()) } else { Err(self.failed("cannot write the checkpoint", table, &e)) };
                }
            }
        }
        // What was loaded still stands: it was nobody's commit that the store refused us for.
        Err(refused.map_or_else(
            || commit.conflict(&place),
            |e| self.failed("the store refuses to replace the checkpoint, though nobody else did", table, &e),
        ))
    }

    async fn clear_whole(&self, table: &str) -> Result<bool> {
        let name = file_name(table);
        // Some stores do not say whether there was anything to delete.
        let exists = self.0.exists(&name).await.map_err(|e| self.failed("cannot read the checkpoint", table, &e))?;
        if !exists {
            return Ok(false);
        }
        self.0.remove(&name).await.map_err(|e| self.failed("cannot remove the checkpoint", table, &e))
    }

    fn failed(&self, what: &str, table: &str, failed: &Failed) -> Error {
        self.0.failed(what, &file_name(table), failed)
    }
}

impl CheckpointStore for ObjectCheckpoints {
    fn load<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        Box::pin(async move { Ok(self.standing(table).await?.map(|s| s.0)) })
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
        self.0.describe(&file_name(table))
    }
}
