//! Checkpoints in a local directory: temp, fsync, rename, fsync of the directory, under a lock (R7, R8).
//!
//! The lock is an advisory one of the operating system: it dies with its holder, so nothing has to be removed by
//! hand. A held lock is a conflict at once; nobody waits for a turn.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use futures::future::BoxFuture;

use super::{CheckpointStore, Commit, SIZE_MAX, file_name};
use crate::disk;
use crate::effect::{Effect, Effects};
use crate::error::{Error, ErrorKind, Result};
use crate::position::Instant;

/// A directory of checkpoint files. It is made on the first commit.
#[derive(Debug, Clone)]
pub struct LocalStore {
    dir: PathBuf,
    effects: Effects,
}

impl LocalStore {
    /// A store in `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self::watched(dir, Effects::default())
    }

    /// A store whose effects a test may stop.
    pub fn watched(dir: impl Into<PathBuf>, effects: Effects) -> Self {
        Self { dir: dir.into(), effects }
    }

    fn file(&self, table: &str) -> PathBuf {
        self.dir.join(file_name(table))
    }

    fn read(&self, table: &str) -> Result<Option<Vec<u8>>> {
        let path = self.file(table);
        let refuse = |what: &str| {
            let said = format!("the checkpoint {} cannot be used: {what}; move it away", path.display());
            Err(Error::new(ErrorKind::Store, said))
        };
        match fs::metadata(&path) {
            Ok(found) if !found.is_file() => return refuse("it is not a file"),
            Ok(found) if found.len() > SIZE_MAX => return refuse("it is too large to be one"),
            // A link that leads nowhere is no first run (R6).
            Err(e) if e.kind() == io::ErrorKind::NotFound && path.is_symlink() => {
                return refuse("it is a link to a file that is not there");
            }
            _ => {}
        }
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failed("cannot read the checkpoint", &path, &e)),
        }
    }

    fn lock(&self, table: &str) -> Result<Held, LockError> {
        let path = self.dir.join(format!(".{table}.checkpoint.lock"));
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            let said = format!("the checkpoint cannot be locked: {} is not a file", path.display());
            return Err(LockError::Failed(Error::new(ErrorKind::Store, said)));
        }
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|e| LockError::Failed(failed("cannot lock the checkpoint", &path, &e)))?;
        match file.try_lock() {
            Ok(()) => Ok(Held(file)),
            Err(TryLockError::WouldBlock) => Err(LockError::Held),
            Err(TryLockError::Error(e)) => Err(LockError::Failed(failed("cannot lock the checkpoint", &path, &e))),
        }
    }

    fn commit_now(&self, commit: &Commit, now: Instant) -> Result<()> {
        if commit.position().is_none() {
            return Ok(());
        }
        let path = self.file(commit.table());
        disk::make_dir(&self.dir, &self.effects)
            .map_err(|e| failed("cannot make the checkpoint directory", &self.dir, &e))?;
        let _held = self.lock(commit.table()).map_err(|e| e.of(commit, &path))?;
        self.sweep(commit.table());
        let place = path.display().to_string();
        let Some(bytes) = commit.ruled(self.read(commit.table())?.as_deref(), now, &place)? else { return Ok(()) };
        // Where a link stands, the file behind it is the checkpoint.
        let path = fs::canonicalize(&path).unwrap_or(path);
        disk::replace(&path, &bytes, &self.effects).map_err(|e| failed("cannot write the checkpoint", &path, &e))
    }

    /// Where the next content is written before it takes the checkpoint's name.
    fn temp(&self, table: &str) -> PathBuf {
        let path = self.file(table);
        let path = fs::canonicalize(&path).unwrap_or(path);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.with_file_name(disk::temp_name(&name))
    }

    /// What a crashed writer left: whoever holds the lock knows that no other writer lives. What cannot be removed is
    /// overwritten, or reported by the write that follows.
    fn sweep(&self, table: &str) {
        let temp = self.temp(table);
        if temp.symlink_metadata().is_ok() {
            let _ = self.effects.run(Effect::Delete, || fs::remove_file(&temp));
        }
    }

    fn clear_now(&self, table: &str) -> Result<bool> {
        let path = self.file(table);
        // A link that leads nowhere is something to clear; what cannot be looked at is not nothing.
        match path.symlink_metadata() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            found => found.map_err(|e| failed("cannot look at the checkpoint", &path, &e))?,
        };
        let _held = self.lock(table).map_err(|e| match e {
            LockError::Held => Error::new(ErrorKind::Conflict, "a run is committing this checkpoint now; try again")
                .with("file", path.display()),
            LockError::Failed(e) => e,
        })?;
        match self.effects.run(Effect::Delete, || fs::remove_file(&path)) {
            Ok(()) => disk::sync_dir(&self.dir, &self.effects)
                .map(|()| true)
                .map_err(|e| failed("cannot remove the checkpoint", &path, &e)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(failed("cannot remove the checkpoint", &path, &e)),
        }
    }
}

/// The lock, until it is dropped.
#[derive(Debug)]
struct Held(File);

impl Drop for Held {
    fn drop(&mut self) {
        // Closing alone is not enough: a process that is being forked off meanwhile holds the same lock until it runs its
        // own program.
        let _ = self.0.unlock();
    }
}

enum LockError {
    Held,
    Failed(Error),
}

impl LockError {
    fn of(self, commit: &Commit, path: &Path) -> Error {
        match self {
            Self::Held => commit.conflict(&path.display().to_string()),
            Self::Failed(e) => e,
        }
    }
}

impl CheckpointStore for LocalStore {
    fn load<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        let (store, table) = (self.clone(), table.to_owned());
        Box::pin(async move { on_disk(move || store.read(&table)).await })
    }

    fn commit<'a>(&'a self, commit: &'a Commit, now: Instant) -> BoxFuture<'a, Result<()>> {
        // Small and at the very end: it may block its thread, so that it cannot be torn by a cancelled task.
        Box::pin(async move { self.commit_now(commit, now) })
    }

    fn clear<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Result<bool>> {
        let (store, table) = (self.clone(), table.to_owned());
        Box::pin(async move { on_disk(move || store.clear_now(&table)).await })
    }

    fn leftovers<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Result<Vec<String>>> {
        let temp = self.temp(table);
        let left = temp.symlink_metadata().is_ok().then(|| temp.display().to_string());
        Box::pin(async move { Ok(left.into_iter().collect()) })
    }

    fn describe(&self, table: &str) -> String {
        self.file(table).display().to_string()
    }
}

async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|e| Err(Error::new(ErrorKind::Bug, "a disk task ended early").caused_by(e)))
}

fn failed(what: &str, path: &Path, cause: &io::Error) -> Error {
    Error::new(ErrorKind::Store, format!("{what}: {cause}")).with("path", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r08_a_lock_that_was_let_go_is_free_though_a_forked_process_has_it_open() {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalStore::new(dir.path().to_owned());
        let held = store.lock("t").ok().unwrap();
        // What a fork has: another handle of the same open file.
        let _forked = held.0.try_clone().unwrap();
        assert!(matches!(store.lock("t"), Err(LockError::Held)));
        drop(held);
        assert!(store.lock("t").is_ok());
    }
}
