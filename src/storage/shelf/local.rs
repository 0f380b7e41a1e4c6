//! A shelf in a local directory: files are made under hidden names and get their own by a link, which replaces nothing.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::UNIX_EPOCH;

use bytes::Bytes;

use super::{is_unborn, judged, unborn};
use crate::disk;
use crate::effect::{Effect, Effects};
use crate::error::{Error, ErrorKind, Result};
use crate::storage::Entry;

/// So much of a file is in memory at a time.
const PIECE: usize = 1 << 20;

/// So often a sweeper may take a file between its creation and its lock.
const TRIES: usize = 10;

/// A directory.
#[derive(Debug, Clone)]
pub(crate) struct Local {
    dir: PathBuf,
    pub(super) effects: Effects,
    /// Whether what crashed creators left was looked for.
    swept: Arc<AtomicBool>,
}

impl Local {
    pub(super) fn new(dir: PathBuf, effects: Effects) -> Self {
        Self { dir, effects, swept: Arc::default() }
    }

    pub(super) fn below(&self, dir: &str) -> Self {
        Self::new(self.dir.join(dir), self.effects.clone())
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn describe(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    pub(super) async fn create(&self, name: &str, bytes: Bytes) -> Result<bool> {
        self.on_disk(name, move |files, path| {
            disk::make_dir(&files.dir, &files.effects)
                .map_err(|e| failed("the directory cannot be made", &files.dir, &e))?;
            if !files.swept.swap(true, Ordering::Relaxed) {
                files.sweep();
            }
            let is_made = match files.make(path, &bytes) {
                Ok(()) => true,
                Err(e) => judged(read(path, bytes.len() as u64), &bytes, failed("the file cannot be made", path, &e))?,
            };
            // Also what another has made: whoever acts on it must find it again.
            files.sync_now()?;
            Ok(is_made)
        })
        .await
    }

    /// The file whole under a hidden name, then under its own.
    fn make(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let (hidden, mut file) = self.begin()?;
        let made = (|| {
            let (written, whole) = self.effects.write(bytes);
            file.write_all(written)?;
            whole?;
            self.effects.run(Effect::Sync, || file.sync_all())?;
            self.effects.run(Effect::Link, || link(&hidden, path))
        })();
        // What cannot be removed stays hidden, and a later creator sweeps it.
        let _ = self.effects.run(Effect::Delete, || fs::remove_file(&hidden));
        made
    }

    /// An empty hidden file, locked as long as it is open: nobody else takes its maker for dead.
    fn begin(&self) -> io::Result<(PathBuf, File)> {
        for _ in 0..TRIES {
            let hidden = self.dir.join(unborn());
            let file = self.effects.run(Effect::Create, || File::create_new(&hidden))?;
            let is_locked = !matches!(file.try_lock(), Err(TryLockError::WouldBlock));
            if is_locked && hidden.exists() {
                return Ok((hidden, file));
            }
        }
        Err(io::Error::other("no lock can be kept"))
    }

    /// Removes what crashed creators left: the lock of a file dies with its holder. What cannot be looked at stays.
    fn sweep(&self) {
        for name in names(&self.dir).unwrap_or_default().into_iter().filter(|name| is_unborn(name)) {
            let path = self.dir.join(name);
            // Held until the file is gone: its creator might get the lock in between.
            if let Ok(file) = File::open(&path)
                && file.try_lock().is_ok()
            {
                let _ = self.effects.run(Effect::Delete, || fs::remove_file(&path));
            }
        }
    }

    pub(super) async fn read(&self, name: &str, max: u64) -> Result<Option<Bytes>> {
        self.on_disk(name, move |_, path| read(path, max)).await
    }

    pub(super) async fn list(&self) -> Result<Vec<Entry>> {
        self.listed(entries).await
    }

    pub(super) async fn names(&self) -> Result<Vec<String>> {
        self.listed(names).await
    }

    async fn listed<T: Send + 'static>(&self, list: fn(&Path) -> io::Result<Vec<T>>) -> Result<Vec<T>> {
        self.on_disk("", move |files, _| match list(&files.dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && !files.dir.is_symlink() => Ok(Vec::new()),
            listed => listed.map_err(|e| failed("the directory cannot be listed", &files.dir, &e)),
        })
        .await
    }

    pub(super) async fn remove(&self, name: &str) -> Result<()> {
        self.on_disk(name, |files, path| match files.effects.run(Effect::Delete, || fs::remove_file(path)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done.map_err(|e| failed("the file cannot be removed", path, &e)),
        })
        .await
    }

    pub(super) async fn upload(&self, from: File, name: &str) -> Result<()> {
        self.on_disk(name, move |files, path| {
            disk::make_dir(&files.dir, &files.effects)
                .map_err(|e| failed("the directory cannot be made", &files.dir, &e))?;
            files.copy(from, path).map_err(|e| failed("the file cannot be written", path, &e))?;
            files.sync_now()
        })
        .await
    }

    pub(super) async fn download(&self, name: &str) -> Result<Option<File>> {
        self.on_disk(name, |_, path| open(path).map_err(|e| failed("the file cannot be read", path, &e))).await
    }

    fn copy(&self, mut from: File, path: &Path) -> io::Result<()> {
        from.rewind()?;
        let mut file = self.effects.run(Effect::Create, || File::create(path))?;
        let mut piece = vec![0; PIECE];
        loop {
            let size = match from.read(&mut piece) {
                Ok(0) => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                size => size?,
            };
            let (written, whole) = self.effects.write(&piece[..size]);
            file.write_all(written)?;
            whole?;
        }
        self.effects.run(Effect::Sync, || file.sync_all())
    }

    pub(super) async fn rename(&self, from: &str, to: &str) -> Result<()> {
        let from = self.dir.join(from);
        self.on_disk(to, move |files, path| match files.effects.run(Effect::Rename, || fs::rename(&from, path)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && !from.exists() && path.is_file() => Ok(()),
            done => done.map_err(|e| failed("the file cannot be renamed", &from, &e).with("to", path.display())),
        })
        .await
    }

    pub(super) async fn sync(&self) -> Result<()> {
        self.on_disk("", |files, _| files.sync_now()).await
    }

    fn sync_now(&self) -> Result<()> {
        disk::sync_dir(&self.dir, &self.effects).map_err(|e| failed("the directory cannot be synced", &self.dir, &e))
    }

    /// Work that may block, on the file of this name.
    async fn on_disk<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&Self, &Path) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (files, path) = (self.clone(), self.dir.join(name));
        tokio::task::spawn_blocking(move || work(&files, &path))
            .await
            .unwrap_or_else(|e| Err(Error::new(ErrorKind::Bug, "a disk task ended early").caused_by(e)))
    }
}

/// The first `max` bytes of a file and one more.
fn read(path: &Path, max: u64) -> Result<Option<Bytes>> {
    let cannot = |e| failed("the file cannot be read", path, &e);
    let Some(file) = open(path).map_err(cannot)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(cannot)?;
    Ok(Some(bytes.into()))
}

/// Only a file that is not there is `None`, not a link that leads nowhere.
fn open(path: &Path) -> io::Result<Option<File>> {
    // Before it is opened: opening a pipe waits.
    match fs::metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && !path.is_symlink() => return Ok(None),
        Ok(found) if !found.is_file() => return Err(io::Error::other("it is not a file")),
        found => found?,
    };
    match File::open(path) {
        // Removed since.
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        file => file.map(Some),
    }
}

/// The names of the files in a directory; what is not UTF-8 is not ours.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        // What a link leads to; one that leads nowhere is a file that cannot be read.
        if !(kind.is_dir() || (kind.is_symlink() && entry.path().is_dir()))
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    Ok(names)
}

/// The files in a directory, each looked at.
fn entries(dir: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for name in names(dir)? {
        let path = dir.join(&name);
        match fs::metadata(&path).or_else(|_| fs::symlink_metadata(&path)) {
            Ok(meta) => {
                let at = meta.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
                let modified = i64::try_from(at.as_millis()).unwrap_or_default();
                entries.push(Entry { name, size: meta.len(), modified });
            }
            // Removed since.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(entries)
}

/// Gives a file a name that nothing has.
fn link(hidden: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(hidden, path) {
        // Not every file system has links.
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => rename_unless_exists(hidden, path).map_err(|other| {
            if other.kind() == io::ErrorKind::AlreadyExists {
                return other;
            }
            io::Error::new(
                e.kind(),
                format!("the file system has no way to make a file unless it exists: {e}; {other}"),
            )
        }),
        done => done,
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn rename_unless_exists(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn rename_unless_exists(_from: &Path, _to: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn failed(what: &str, path: &Path, cause: &io::Error) -> Error {
    Error::new(ErrorKind::Store, format!("{what}: {cause}")).with("path", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    #[test]
    fn r28_without_links_a_file_takes_a_free_name_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("one"), "one").unwrap();
        fs::write(at("other"), "other").unwrap();
        rename_unless_exists(&at("one"), &at("entry")).unwrap();
        let again = rename_unless_exists(&at("other"), &at("entry")).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(at("entry")).unwrap(), b"one");
        assert!(link(&at("gone"), &at("entry 2")).is_err());
    }

    #[tokio::test]
    async fn only_what_dead_creators_left_is_swept() {
        let dir = tempfile::tempdir().unwrap();
        let files = || Local::new(dir.path().to_owned(), Effects::default());
        let (alive, _held) = files().begin().unwrap();
        let dead = dir.path().join(".00000000000000aa.created");
        for other in [".part.created", "00000000000000aa.created", ".00000000000000ab.tmp"] {
            fs::write(dir.path().join(other), "").unwrap();
        }
        fs::write(&dead, "half").unwrap();
        assert!(files().create("0", "a".into()).await.unwrap());
        assert!(alive.exists() && !dead.exists());
        assert_eq!(entries(dir.path()).unwrap().len(), 5);
    }

    #[test]
    fn creators_that_sweep_at_once_keep_what_they_make() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for creator in 0..4 {
                let dir = dir.path();
                scope.spawn(move || {
                    for turn in 0..50 {
                        let files = Local::new(dir.to_owned(), Effects::default());
                        files.sweep();
                        files.make(&dir.join(format!("{creator}-{turn}")), b"entry").unwrap();
                    }
                });
            }
        });
        let names = names(dir.path()).unwrap();
        assert!(names.len() == 200 && !names.iter().any(|name| is_unborn(name)), "{names:?}");
    }

    #[tokio::test]
    async fn only_a_missing_file_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let files = Local::new(dir.path().to_owned(), Effects::default());
        fs::create_dir(dir.path().join("folder")).unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("link")).unwrap();
        assert!(files.read("folder", 9).await.is_err() && files.read("link", 9).await.is_err());
        assert!(files.create("folder", "a".into()).await.is_err() && files.create("link", "a".into()).await.is_err());
        assert!(files.below("link").list().await.is_err(), "a directory that was moved away is not empty");
        assert_eq!(files.read("file", 9).await.unwrap(), None);
        assert_eq!(files.below("none").list().await.unwrap(), []);
    }
}
