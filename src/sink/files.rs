//! Files in a local directory, one a part: written aside under a hidden name, made durable, then renamed into sight.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;

use super::encode::{self, Encoder};
use super::staging::{Staging, entries, failed, sweep};
use super::{Existing, Finished, Format, Part, Sink, Writer};
use crate::disk;
use crate::effect::Effects;
use crate::error::{Error, ErrorKind, Result};

/// A file for each part that has rows.
#[derive(Debug)]
pub(super) struct Files {
    format: Format,
    /// What all names begin with.
    name: String,
    /// What is removed when the new files are in sight.
    replaced: Vec<PathBuf>,
    /// What a writer may hold back, in bytes.
    memory: usize,
    /// Shared with the writers: nothing is removed under one that still writes.
    staging: Arc<Staging>,
}

impl Files {
    /// Makes the directory if need be and a lock in it: a place that takes no rows is known at once.
    pub(super) fn open(
        dir: &Path,
        table: &str,
        format: Format,
        existing: Existing,
        run: &str,
        parts: usize,
    ) -> Result<Self> {
        disk::make_dir(dir, &Effects::default()).map_err(|e| failed("the directory cannot be made", dir, e))?;
        let visible = visible(dir).map_err(|e| failed("the directory cannot be listed", dir, e))?;
        if existing == Existing::Error && !visible.is_empty() {
            let what = format!("{} already holds data; say --mode append or --mode overwrite", dir.display());
            return Err(Error::new(ErrorKind::Config, what));
        }
        sweep(dir);
        let staging = Arc::new(Staging::open(dir, run)?);
        // A name that begins with . or _ would hide the file.
        let name = format!("{}-{run}", table.trim_start_matches(['.', '_']));
        let replaced = if existing == Existing::Overwrite { visible } else { Vec::new() };
        let memory = (encode::MEMORY / parts.max(1)).max(encode::MEMORY_LEAST);
        Ok(Self { format, name, replaced, memory, staging })
    }

    fn path(&self, part: Part) -> PathBuf {
        let (name, extension) = (&self.name, self.format.extension());
        self.staging.dir().join(match part {
            Part::All => format!("{name}.{extension}"),
            Part::Number(_) => format!("{name}-{part}.{extension}"),
        })
    }

    /// Renames the files of all parts into sight; on a failure `shown` are those that are there.
    fn show(&self, parts: Vec<Finished>, shown: &mut Vec<PathBuf>) -> Result<()> {
        for part in parts.into_iter().filter_map(|finished| finished.0) {
            let path = self.path(part);
            fs::rename(self.staging.path(part), &path).map_err(|e| failed("rows cannot be published", &path, e))?;
            shown.push(path);
        }
        self.sync()
    }

    fn sync(&self) -> Result<()> {
        let dir = self.staging.dir();
        disk::sync_dir(dir, &Effects::default()).map_err(|e| failed("the directory cannot be made durable", dir, e))
    }
}

impl Sink for Files {
    fn part(&self, part: Part) -> Result<Box<dyn Writer>> {
        Ok(Box::new(Rows {
            encoder: None,
            part,
            format: self.format,
            memory: self.memory,
            staging: Arc::clone(&self.staging),
        }))
    }

    fn publish(self: Box<Self>, mut parts: Vec<Finished>) -> Result<Vec<PathBuf>> {
        parts.sort_unstable();
        let mut shown = Vec::new();
        self.show(parts, &mut shown).map_err(|error| withdraw(&shown, error))?;
        // Only now that the new names are durable.
        for old in &self.replaced {
            fs::remove_file(old).map_err(|e| failed("the replaced file cannot be removed", old, e))?;
        }
        if !self.replaced.is_empty() {
            self.sync()?;
        }
        Ok(shown)
    }
}

/// Removes the files that a failed publish had brought into sight, and says so.
fn withdraw(shown: &[PathBuf], error: Error) -> Error {
    let left: Vec<_> = shown.iter().filter(|path| fs::remove_file(path).is_err()).collect();
    let error = match shown.len() - left.len() {
        0 => error,
        gone => error.with("withdrawn", format!("{gone} files that were already in sight")),
    };
    match left.first() {
        None => error,
        Some(first) => error.with("left in sight", format!("{} files, as {}", left.len(), first.display())),
    }
}

/// The file of one part, from its first row on.
struct Rows {
    encoder: Option<Encoder>,
    part: Part,
    format: Format,
    memory: usize,
    staging: Arc<Staging>,
}

impl Rows {
    fn at<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| error.with("path", self.staging.dir().display()))
    }
}

impl Writer for Rows {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if self.encoder.is_none() {
            let file = self.staging.create(self.part)?;
            self.encoder = Some(self.at(Encoder::new(self.format, file, &batch.schema(), self.memory))?);
        }
        let done = self.encoder.as_mut().map_or(Ok(()), |encoder| encoder.write(batch));
        self.at(done)
    }

    fn finish(mut self: Box<Self>) -> Result<Finished> {
        let Some(encoder) = self.encoder.take() else { return Ok(Finished(None)) };
        self.at(encoder.finish())?;
        Ok(Finished(Some(self.part)))
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("part", &self.part).field("staging", &self.staging).finish_non_exhaustive()
    }
}

/// Committed data: files whose names do not begin with `.` or `_`.
fn visible(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let hidden = |path: &Path| path.file_name().is_none_or(|name| name.to_string_lossy().starts_with(['.', '_']));
    Ok(entries(dir)?.into_iter().filter(|path| path.is_file() && !hidden(path)).collect())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::super::ndjson::tests::batch;
    use super::*;

    fn open(dir: &Path, format: Format, existing: Existing, run: &str) -> Result<Box<Files>> {
        Files::open(dir, "_t", format, existing, run, 1).map(Box::new)
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            entries(dir).unwrap().iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn write(files: &Files, part: Part) -> Finished {
        let mut writer = files.part(part).unwrap();
        writer.write(&batch()).unwrap();
        writer.write(&batch()).unwrap();
        writer.finish().unwrap()
    }

    fn written(dir: &Path, format: Format, existing: Existing, run: &str) -> Vec<PathBuf> {
        let files = open(dir, format, existing, run).unwrap();
        let part = write(&files, Part::All);
        files.publish(vec![part]).unwrap()
    }

    #[test]
    fn r01_nothing_is_visible_before_it_is_published() {
        let dir = tempfile::tempdir().unwrap();
        let files = open(dir.path(), Format::Ndjson, Existing::Append, "a").unwrap();
        write(&files, Part::All);
        assert_eq!(names(dir.path()), [".restmark-a-0-all.tmp", ".restmark-a-0.lock"]);
        drop(files);
        assert!(names(dir.path()).is_empty());
        written(dir.path(), Format::Ndjson, Existing::Append, "b");
        assert_eq!(names(dir.path()), ["t-b.ndjson"]);
    }

    #[test]
    fn r30_parts_are_written_at_once_each_into_its_own_file() {
        let dir = tempfile::tempdir().unwrap();
        let files = open(dir.path(), Format::Csv, Existing::Append, "a").unwrap();
        let finished = std::thread::scope(|scope| {
            let files = &files;
            let parts: Vec<_> = (0..8)
                .rev()
                .map(|place| {
                    scope.spawn(move || {
                        let mut writer = files.part(Part::Number(place)).unwrap();
                        (0..=place).for_each(|_| writer.write(&batch()).unwrap());
                        writer.finish().unwrap()
                    })
                })
                .collect();
            parts.into_iter().map(|part| part.join().unwrap()).collect()
        });
        let shown = files.publish(finished).unwrap();
        let want: Vec<_> = (0..8).map(|place| format!("t-a-0000{place}.csv")).collect();
        assert_eq!(names(dir.path()), want);
        assert_eq!(shown, want.iter().map(|name| dir.path().join(name)).collect::<Vec<_>>());
        for (place, path) in shown.iter().enumerate() {
            let text = fs::read_to_string(path).unwrap();
            assert_eq!((text.matches("i,n,f").count(), text.matches("-5,").count()), (1, place + 1), "{text}");
        }
    }

    #[test]
    fn r30_a_part_that_was_not_finished_is_not_published() {
        let dir = tempfile::tempdir().unwrap();
        let files = open(dir.path(), Format::Csv, Existing::Append, "a").unwrap();
        let whole = write(&files, Part::Number(1));
        write(&files, Part::Number(2));
        let mut cut = files.part(Part::Number(3)).unwrap();
        cut.write(&batch()).unwrap();
        files.publish(vec![whole]).unwrap();
        drop(cut);
        assert_eq!(names(dir.path()), ["t-a-00001.csv"]);
    }

    #[test]
    fn r30_a_publish_that_fails_midway_takes_back_what_it_showed() {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path(), Format::Csv, Existing::Append, "old");
        let files = open(dir.path(), Format::Csv, Existing::Overwrite, "a").unwrap();
        let parts = (0..4).map(|place| write(&files, Part::Number(place))).collect();
        // No file takes the name of a folder.
        fs::create_dir(dir.path().join("t-a-00002.csv")).unwrap();
        let error = files.publish(parts).unwrap_err();
        assert_eq!(
            (error.kind(), error.context("withdrawn")),
            (ErrorKind::Store, Some("2 files that were already in sight"))
        );
        assert!(error.context("path").unwrap().ends_with("t-a-00002.csv"), "{error}");
        assert_eq!(names(dir.path()), ["t-a-00002.csv", "t-old.csv"]);
    }

    #[test]
    fn r26_finished_parts_hold_no_handles() {
        let dir = tempfile::tempdir().unwrap();
        let files = open(dir.path(), Format::Ndjson, Existing::Append, "a").unwrap();
        let parts: Vec<_> = (0..1200).map(|place| write(&files, Part::Number(place))).collect();
        // Where this cannot be counted, the usual limit of handles stands for it.
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            assert!(open.count() < 600, "handles of finished parts are open");
        }
        assert_eq!(files.publish(parts).unwrap().len(), 1200);
        assert_eq!(names(dir.path()).len(), 1200);
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
    fn a_part_without_rows_makes_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let files = open(dir.path(), Format::Parquet, Existing::Append, "a").unwrap();
        let mut writer = files.part(Part::Number(0)).unwrap();
        writer.write(&batch().slice(0, 0)).unwrap();
        let parts = vec![writer.finish().unwrap(), write(&files, Part::Number(1))];
        assert_eq!(files.publish(parts).unwrap().len(), 1);
        assert_eq!(names(dir.path()), ["t-a-00001.parquet"]);
    }

    #[test]
    fn only_staged_files_of_dead_runs_are_swept() {
        let dir = tempfile::tempdir().unwrap();
        let alive = open(dir.path(), Format::Csv, Existing::Append, "alive").unwrap();
        let part = write(&alive, Part::Number(0));
        fs::write(dir.path().join(".restmark-dead-0-all.tmp"), "").unwrap();
        fs::write(dir.path().join(".restmark-dead-0.lock"), "").unwrap();
        written(dir.path(), Format::Csv, Existing::Append, "a");
        assert_eq!(names(dir.path()), [".restmark-alive-0-00000.tmp", ".restmark-alive-0.lock", "t-a.csv"]);
        alive.publish(vec![part]).unwrap();
        assert_eq!(names(dir.path()), ["t-a.csv", "t-alive-00000.csv"]);
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
