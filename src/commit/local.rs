//! Checkpoints in a local directory: temp, fsync, rename, fsync of the directory, under a lock (R7, R8).
//!
//! The lock is an advisory one of the operating system: it dies with its holder, so nothing has to be removed by
//! hand. A held lock is a conflict at once; nobody waits for a turn.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use futures::future::BoxFuture;

use super::{CheckpointStore, Commit, Verdict};
use crate::error::{Error, ErrorKind, Result};
use crate::position::Instant;

/// A directory of checkpoint files. It is made on the first commit.
#[derive(Debug, Clone)]
pub struct LocalStore {
    dir: PathBuf,
}

impl LocalStore {
    /// A store in `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    fn file(&self, table: &str) -> PathBuf {
        self.dir.join(format!("{table}.checkpoint.json"))
    }

    fn read(&self, table: &str) -> Result<Option<Vec<u8>>> {
        let path = self.file(table);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failed("cannot read the checkpoint", &path, &e)),
        }
    }

    fn lock(&self, table: &str) -> Result<File, LockError> {
        let path = self.dir.join(format!(".{table}.checkpoint.lock"));
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|e| LockError::Failed(failed("cannot lock the checkpoint", &path, &e)))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(LockError::Held),
            Err(TryLockError::Error(e)) => Err(LockError::Failed(failed("cannot lock the checkpoint", &path, &e))),
        }
    }

    fn commit_now(&self, commit: &Commit, now: Instant) -> Result<()> {
        if commit.position().is_none() {
            return Ok(());
        }
        let path = self.file(commit.table());
        make_durable_dir(&self.dir).map_err(|e| failed("cannot make the checkpoint directory", &self.dir, &e))?;
        let _held = self.lock(commit.table()).map_err(|e| e.of(commit, &path))?;
        self.sweep(commit.table());
        match commit.judge(self.read(commit.table())?.as_deref(), now) {
            Verdict::Done => Ok(()),
            Verdict::Conflict => Err(commit.conflict(&path.display().to_string())),
            Verdict::Replace(bytes) => {
                replace(&path, &bytes).map_err(|e| failed("cannot write the checkpoint", &path, &e))
            }
        }
    }

    /// What a crashed writer left: whoever holds the lock knows that no other writer lives.
    fn sweep(&self, table: &str) {
        let prefix = format!(".{table}.checkpoint.json.tmp");
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            if entry.file_name().to_str().is_some_and(|name| name == prefix) {
                // A left-over that cannot be removed is overwritten or reported by the write that follows.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn clear_now(&self, table: &str) -> Result<bool> {
        let path = self.file(table);
        if !path.exists() {
            return Ok(false);
        }
        let _held = self.lock(table).map_err(|e| match e {
            LockError::Held => Error::new(ErrorKind::Conflict, "a run is committing this checkpoint now; try again")
                .with("file", path.display()),
            LockError::Failed(e) => e,
        })?;
        match fs::remove_file(&path) {
            Ok(()) => sync_dir(&self.dir).map(|()| true).map_err(|e| failed("cannot remove the checkpoint", &path, &e)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(failed("cannot remove the checkpoint", &path, &e)),
        }
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

/// Old or new, whole, at any instant of a crash (R7). The caller holds the lock.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temp = dir.join(format!(".{name}.tmp"));
    let mut file = File::create(&temp)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temp, path)?;
    sync_dir(dir)
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(if dir.as_os_str().is_empty() { Path::new(".") } else { dir })?.sync_all()
}

/// Makes a directory and its parents, each durable in its own parent.
fn make_durable_dir(dir: &Path) -> io::Result<()> {
    if dir.as_os_str().is_empty() || dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().unwrap_or(Path::new(""));
    make_durable_dir(parent)?;
    match fs::create_dir(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists || !dir.is_dir() => Err(e),
        _ => sync_dir(parent),
    }
}
