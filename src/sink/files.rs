//! Files in a local directory: written aside under a hidden name, made durable, then renamed into sight.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;

use super::encode::Encoder;
use super::{Existing, Format, Sink};
use crate::disk;
use crate::effect::Effects;
use crate::error::{Error, ErrorKind, Result};

/// Staged files are hidden and say whose they are.
const STAGED: (&str, &str) = (".restmark-", ".tmp");

/// One file a run.
pub(super) struct Files {
    dir: PathBuf,
    format: Format,
    name: String,
    /// What becomes of these when the new file is in sight.
    replaced: Vec<PathBuf>,
    staged: Staged,
    encoder: Option<Encoder>,
    rows: usize,
}

impl Files {
    /// Makes the directory if need be and stages an empty file: a place that takes no rows is known at once.
    pub(super) fn open(dir: &Path, table: &str, format: Format, existing: Existing, run: &str) -> Result<Self> {
        disk::make_dir(dir, &Effects::default()).map_err(|e| failed("the directory cannot be made", dir, e))?;
        let visible = visible(dir).map_err(|e| failed("the directory cannot be listed", dir, e))?;
        if existing == Existing::Error && !visible.is_empty() {
            let what = format!("{} already holds data; say --mode append or --mode overwrite", dir.display());
            return Err(Error::new(ErrorKind::Config, what));
        }
        sweep(dir);
        let staged = Staged::create(dir, run)?;
        // A name that begins with . or _ would hide the file.
        let table = table.trim_start_matches(['.', '_']);
        let name = format!("{table}-{run}.{}", format.extension());
        let replaced = if existing == Existing::Overwrite { visible } else { Vec::new() };
        Ok(Self { dir: dir.to_owned(), format, name, replaced, staged, encoder: None, rows: 0 })
    }

    fn at<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| error.with("path", self.dir.display()))
    }
}

impl Sink for Files {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.encoder.is_none() {
            let file = self.staged.file.try_clone().map_err(|e| failed("no rows can be written", &self.dir, e))?;
            self.encoder = Some(self.at(Encoder::new(self.format, file, &batch.schema()))?);
        }
        self.rows += batch.num_rows();
        let done = self.encoder.as_mut().map_or(Ok(()), |encoder| encoder.write(batch));
        self.at(done)
    }

    fn prepare(&mut self) -> Result<()> {
        let done = self.encoder.take().map_or(Ok(()), Encoder::finish);
        self.at(done)
    }

    fn publish(self: Box<Self>) -> Result<Vec<PathBuf>> {
        let mut published = Vec::new();
        if self.rows > 0 {
            let path = self.dir.join(&self.name);
            self.staged.publish(&path).map_err(|e| failed("the rows cannot be published", &path, e))?;
            published.push(path);
        }
        for old in &self.replaced {
            fs::remove_file(old).map_err(|e| failed("the replaced file cannot be removed", old, e))?;
        }
        disk::sync_dir(&self.dir, &Effects::default())
            .map_err(|e| failed("the directory cannot be made durable", &self.dir, e))?;
        Ok(published)
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("dir", &self.dir).field("name", &self.name).finish_non_exhaustive()
    }
}

/// A hidden file, locked while its run lives and removed when it is dropped.
struct Staged {
    file: File,
    path: PathBuf,
}

impl Staged {
    fn create(dir: &Path, run: &str) -> Result<Self> {
        // A sweeper may take the file between the creation and the lock.
        for attempt in 0..10 {
            let path = dir.join(format!("{}{run}-{attempt}{}", STAGED.0, STAGED.1));
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&path)
                .map_err(|e| failed("no file can be made", &path, e))?;
            let locked = !matches!(file.try_lock(), Err(TryLockError::WouldBlock));
            if locked && path.exists() {
                return Ok(Self { file, path });
            }
        }
        Err(Error::new(ErrorKind::Store, "no staged file can be kept").with("path", dir.display()))
    }

    fn publish(&self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Gone if it was published; what cannot be removed stays hidden, and a later run sweeps it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the staged files of dead runs: those whose lock is free.
fn sweep(dir: &Path) {
    for path in entries(dir).unwrap_or_default() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(STAGED.0)
            && name.ends_with(STAGED.1)
            && path.is_file()
            && let Ok(file) = OpenOptions::new().write(true).open(&path)
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Committed data: files whose names do not begin with `.` or `_`.
fn visible(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let hidden = |path: &Path| path.file_name().is_none_or(|name| name.to_string_lossy().starts_with(['.', '_']));
    Ok(entries(dir)?.into_iter().filter(|path| path.is_file() && !hidden(path)).collect())
}

fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(dir)?.map(|entry| entry.map(|e| e.path())).collect()
}

fn failed(what: &str, path: &Path, error: io::Error) -> Error {
    Error::new(ErrorKind::Store, format!("{what}: {error}")).with("path", path.display()).caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::super::ndjson::tests::batch;
    use super::*;

    fn open(dir: &Path, format: Format, existing: Existing, run: &str) -> Result<Box<Files>> {
        Files::open(dir, "_t", format, existing, run).map(Box::new)
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            entries(dir).unwrap().iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn written(dir: &Path, format: Format, existing: Existing, run: &str) -> Vec<PathBuf> {
        let mut files = open(dir, format, existing, run).unwrap();
        files.write(&batch()).unwrap();
        files.write(&batch()).unwrap();
        files.prepare().unwrap();
        files.publish().unwrap()
    }

    #[test]
    fn r01_nothing_is_visible_before_it_is_published() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = open(dir.path(), Format::Ndjson, Existing::Append, "a").unwrap();
        files.write(&batch()).unwrap();
        files.prepare().unwrap();
        assert_eq!(names(dir.path()), [".restmark-a-0.tmp"]);
        drop(files);
        assert!(names(dir.path()).is_empty());
        written(dir.path(), Format::Ndjson, Existing::Append, "b");
        assert_eq!(names(dir.path()), ["t-b.ndjson"]);
    }

    #[test]
    fn r24_parquet_and_arrow_read_back_as_they_were() {
        let dir = tempfile::tempdir().unwrap();
        let path = written(dir.path(), Format::Parquet, Existing::Append, "a").remove(0);
        let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(File::open(path).unwrap(), 2);
        let got: Vec<_> = reader.unwrap().map(|b| b.unwrap()).collect();
        assert_eq!((got[0].num_rows(), got.len()), (2, 2));
        assert_eq!(format!("{:?}", got[1].columns()), format!("{:?}", batch().columns()));
        let path = written(dir.path(), Format::Arrow, Existing::Append, "b").remove(0);
        let got: Vec<_> = arrow_ipc::reader::FileReader::try_new(File::open(path).unwrap(), None).unwrap().collect();
        assert_eq!(format!("{:?}", got[1].as_ref().unwrap()), format!("{:?}", batch()));
    }

    #[test]
    fn the_mode_says_what_older_files_mean() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("_SUCCESS"), "").unwrap();
        written(dir.path(), Format::Csv, Existing::Error, "a");
        let error = open(dir.path(), Format::Csv, Existing::Error, "b").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        written(dir.path(), Format::Csv, Existing::Append, "c");
        assert_eq!(names(dir.path()).len(), 3);
        written(dir.path(), Format::Csv, Existing::Overwrite, "d");
        assert_eq!(names(dir.path()), ["_SUCCESS", "t-d.csv"]);
    }

    #[test]
    fn a_run_without_rows_makes_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = open(dir.path(), Format::Parquet, Existing::Append, "a").unwrap();
        files.prepare().unwrap();
        assert!(files.publish().unwrap().is_empty());
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn only_staged_files_of_dead_runs_are_swept() {
        let dir = tempfile::tempdir().unwrap();
        let alive = open(dir.path(), Format::Csv, Existing::Append, "alive").unwrap();
        fs::write(dir.path().join(".restmark-dead-0.tmp"), "").unwrap();
        written(dir.path(), Format::Csv, Existing::Append, "a");
        assert_eq!(names(dir.path()), [".restmark-alive-0.tmp", "t-a.csv"]);
        drop(alive);
    }

    #[test]
    fn r01_a_place_that_takes_no_rows_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("blocker"), "").unwrap();
        let error = open(&dir.path().join("blocker/out"), Format::Csv, Existing::Append, "a").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Store);
        assert!(error.to_string().contains("blocker"), "{error}");
    }
}
