//! The hidden files of a run in a directory, and the one lock that keeps other runs from sweeping them.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};

const HIDDEN: &str = ".restmark-";
const STAGED: &str = ".tmp";
const LOCK: &str = ".lock";

/// The names under which one run writes; what stands under them is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Staging {
    dir: PathBuf,
    stem: String,
    /// Held as long as the run lives. One for all parts: there may be more of them than handles.
    _lock: File,
}

impl Staging {
    /// Makes the lock, and so finds out whether the directory takes files.
    pub(super) fn open(dir: &Path, run: &str) -> Result<Self> {
        // A sweeper may take the file between its creation and the lock. No name is used twice, so that one which is
        // late takes nothing of ours.
        for attempt in 0..10 {
            let stem = format!("{run}-{attempt}");
            let path = lock(dir, &stem);
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&path)
                .map_err(|e| failed("no file can be made", &path, e))?;
            let locked = !matches!(file.try_lock(), Err(TryLockError::WouldBlock));
            if locked && path.exists() {
                return Ok(Self { dir: dir.to_owned(), stem, _lock: file });
            }
        }
        Err(Error::new(ErrorKind::Store, "no lock can be kept").with("path", dir.display()))
    }

    /// What the names of its parts begin with.
    pub(super) fn prefix(&self) -> String {
        format!("{HIDDEN}{}", self.stem)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What was published is gone from here; what cannot be removed stays hidden, and a later run sweeps it.
        remove(&self.dir, &self.stem, &runs(&self.dir).remove(&self.stem).unwrap_or_default());
    }
}

/// Removes the files of dead runs: those whose lock is free or missing.
pub(super) fn sweep(dir: &Path) {
    for (stem, staged) in runs(dir) {
        // Asked for by its name: a listing may show a staged file and miss the lock that was made before it.
        let file = OpenOptions::new().write(true).open(lock(dir, &stem));
        let dead = match &file {
            Ok(file) => file.try_lock().is_ok(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if dead {
            remove(dir, &stem, &staged);
        }
    }
}

/// The lock goes last: as long as it is held, nobody else takes the run for dead.
fn remove(dir: &Path, stem: &str, staged: &[PathBuf]) {
    for path in staged.iter().chain([&lock(dir, stem)]) {
        let _ = fs::remove_file(path);
    }
}

fn lock(dir: &Path, stem: &str) -> PathBuf {
    dir.join(format!("{HIDDEN}{stem}{LOCK}"))
}

/// What runs, dead or alive, have staged here.
fn runs(dir: &Path) -> BTreeMap<String, Vec<PathBuf>> {
    let mut runs = BTreeMap::<_, Vec<_>>::new();
    for path in entries(dir).unwrap_or_default() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(name) = name.strip_prefix(HIDDEN) else { continue };
        if let Some(stem) = name.strip_suffix(LOCK) {
            runs.entry(stem.to_owned()).or_default();
        } else if let Some((stem, _)) = name.strip_suffix(STAGED).and_then(|name| name.rsplit_once('-')) {
            let stem = stem.to_owned();
            runs.entry(stem).or_default().push(path);
        }
    }
    runs
}

/// All that a directory holds.
pub(super) fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(dir)?.map(|entry| entry.map(|e| e.path())).collect()
}

pub(super) fn failed(what: &str, path: &Path, error: io::Error) -> Error {
    Error::new(ErrorKind::Store, format!("{what}: {error}")).with("path", path.display()).caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::super::Part;
    use super::*;

    impl Staging {
        fn path(&self, part: Part) -> PathBuf {
            self.dir.join(format!("{}-{part}{STAGED}", self.prefix()))
        }

        fn create(&self, part: Part) -> io::Result<File> {
            File::create_new(self.path(part))
        }
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            entries(dir).unwrap().iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn only_what_dead_runs_staged_is_swept() {
        let dir = tempfile::tempdir().unwrap();
        let alive = Staging::open(dir.path(), "a").unwrap();
        alive.create(Part::Number(3)).unwrap();
        // A run that died, one that died before it staged anything, one whose sweeper died, and what is not ours.
        for name in
            ["a-b-0-00003.tmp", "a-b-0-00004.tmp", "a-b-0.lock", "c-0.lock", "d-0-all.tmp", "notes.txt", "e.tmp"]
        {
            fs::write(dir.path().join(format!("{HIDDEN}{name}")), "").unwrap();
        }
        sweep(dir.path());
        let left = [".restmark-a-0-00003.tmp", ".restmark-a-0.lock", ".restmark-e.tmp", ".restmark-notes.txt"];
        assert_eq!(names(dir.path()), left);
        drop(alive);
        assert_eq!(names(dir.path()), left[2..]);
    }

    #[test]
    fn a_run_removes_only_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (Staging::open(dir.path(), "a").unwrap(), Staging::open(dir.path(), "a-b").unwrap());
        one.create(Part::All).unwrap();
        other.create(Part::All).unwrap();
        drop(one);
        assert_eq!(names(dir.path()), [".restmark-a-b-0-all.tmp", ".restmark-a-b-0.lock"]);
        assert_eq!(other.create(Part::All).unwrap_err().kind(), io::ErrorKind::AlreadyExists, "a part has one writer");
    }

    #[test]
    fn runs_that_start_and_sweep_at_once_keep_what_they_staged() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for run in 0..4 {
                let dir = dir.path();
                scope.spawn(move || {
                    for turn in 0..50 {
                        sweep(dir);
                        let staging = Staging::open(dir, &format!("{run}-{turn}")).unwrap();
                        staging.create(Part::All).unwrap();
                        sweep(dir);
                        assert!(staging.path(Part::All).exists() && lock(dir, &staging.stem).exists());
                    }
                });
            }
        });
        sweep(dir.path());
        assert!(names(dir.path()).is_empty());
    }
}
