//! Files in a directory of any store, one a part: written aside under a hidden name, made durable, then renamed into sight.

use std::fmt;
use std::fs::File;
use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::future::BoxFuture;
use tokio::runtime::Handle;

use super::encode::{self, Encoder};
use super::manifest::{self, Manifest};
use super::staging::{Staging, sweep};
use super::{Counted, Epoch, Existing, Finished, Format, Part, Sink, StagedFile, Writer};
use crate::disk;
use crate::effect::{Effect, Effects};
use crate::error::{Error, ErrorKind, Result};
use crate::storage::shelf::Shelf;

/// Hidden files of attempts at epochs. Their fate is the ledger's: no other run may take them for dead.
const EPOCH: &str = ".restmark.";

/// A file for each part that has rows.
pub(super) struct Files {
    shelf: Shelf,
    format: Format,
    names: Names,
    /// What files mean that are in sight already.
    existing: Existing,
    /// What a writer may hold back, in bytes.
    memory: usize,
    /// Of a run without a ledger, in a local directory: shared with the writers, so that nothing is removed under one
    /// that still writes.
    staging: Option<Arc<Staging>>,
}

/// How the files of one run are called.
#[derive(Debug, Clone)]
struct Names {
    table: String,
    run: String,
    /// Between a part's hidden beginning and its number.
    staged: String,
    visible: String,
    epoch: Option<Epoch>,
}

impl Names {
    fn of_epoch(table: &str, epoch: &Epoch) -> Self {
        let Epoch { ledger, number, run } = epoch;
        Self {
            table: table.to_owned(),
            run: run.clone(),
            staged: format!("{EPOCH}{ledger}-{number}-{run}"),
            visible: format!("{}-{number:06}-{run}", shown(table)),
            epoch: Some(epoch.clone()),
        }
    }
}

impl Files {
    /// Of a run without a ledger. A place that takes no rows is known at once.
    pub(super) async fn once(
        shelf: Shelf,
        table: &str,
        format: Format,
        existing: Existing,
        run: &str,
        parts: usize,
    ) -> Result<Self> {
        replaced(&shelf, existing).await?;
        let staging = match shelf.local() {
            Some(dir) => {
                make(&shelf, &Effects::default())?;
                sweep(dir);
                Some(Arc::new(Staging::open(dir, run)?))
            }
            None => None,
        };
        let staged = staging.as_ref().map_or_else(|| format!(".restmark-{run}"), |staging| staging.prefix());
        let visible_as = format!("{}-{run}", shown(table));
        let names = Names { table: table.to_owned(), run: run.to_owned(), staged, visible: visible_as, epoch: None };
        Ok(Self { shelf, format, names, existing, memory: share(parts), staging })
    }

    /// Of an attempt at an epoch: other files stay.
    pub(super) fn epoch(
        shelf: Shelf,
        table: &str,
        format: Format,
        epoch: &Epoch,
        parts: usize,
        effects: &Effects,
    ) -> Result<Self> {
        make(&shelf, effects)?;
        let names = Names::of_epoch(table, epoch);
        Ok(Self { shelf, format, names, existing: Existing::Append, memory: share(parts), staging: None })
    }

    async fn show(&self, parts: &[Finished], shown: &mut Vec<String>) -> Result<()> {
        let Names { table, run, visible, epoch, .. } = &self.names;
        let manifest = Manifest::new(table, run, epoch.as_ref().map(|epoch| epoch.number), parts);
        manifest.write(&self.shelf, visible).await?;
        for file in parts.iter().filter_map(|part| part.file.as_ref()) {
            // Nothing is listed unless it has to be: a directory may hold the files of many epochs.
            match self.shelf.rename(&file.staged, &file.name).await {
                Ok(()) => shown.push(file.name.clone()),
                // Nobody removes what was decided before it was shown: whoever read it has taken it away.
                Err(_) if self.is_gone(&file.staged).await? => {
                    tracing::warn!(file = self.shelf.describe(&file.name), "was shown, and is gone: taken for read");
                }
                Err(error) => return Err(error),
            }
        }
        self.shelf.sync().await
    }

    /// Whether a decided file is neither waiting nor in sight.
    async fn is_gone(&self, staged: &str) -> Result<bool> {
        Ok(self.names.epoch.is_some() && !self.shelf.list().await?.iter().any(|name| name == staged))
    }

    async fn publish_all(&self, parts: &[Finished]) -> Result<Vec<String>> {
        let mut parts: Vec<Finished> = parts.to_vec();
        parts.sort_unstable_by_key(|part| part.part);
        // Another run may have shown files since this one began.
        let replaced = replaced(&self.shelf, self.existing).await?;
        let mut shown = Vec::new();
        if let Err(error) = self.show(&parts, &mut shown).await {
            // What was decided is shown later; what was not is taken back.
            return Err(if self.names.epoch.is_some() { error } else { self.take_back(&shown, error).await });
        }
        // Only now that the new names are durable.
        for old in &replaced {
            self.shelf.remove(old).await?;
        }
        if !replaced.is_empty() {
            self.shelf.sync().await?;
        }
        Ok(shown.iter().map(|name| self.shelf.describe(name)).collect())
    }

    /// Removes the files that a failed publish had brought into sight, and says so.
    async fn take_back(&self, shown: &[String], error: Error) -> Error {
        let _ = self.shelf.remove(&manifest::name(&self.names.visible)).await;
        let mut left = Vec::new();
        for name in shown {
            if self.shelf.remove(name).await.is_err() {
                left.push(name);
            }
        }
        let error = match shown.len() - left.len() {
            0 => error,
            gone => error.with("withdrawn", format!("{gone} files that were already in sight")),
        };
        match left.first() {
            None => error,
            Some(first) => {
                error.with("left in sight", format!("{} files, as {}", left.len(), self.shelf.describe(first)))
            }
        }
    }

    /// What other attempts at this epoch, or at those before it, have staged.
    async fn others(&self, own: &Epoch) -> Result<Vec<String>> {
        let lead = format!("{EPOCH}{}-", own.ledger);
        let is_dead = |name: &String| {
            let rest = name.strip_prefix(&lead).and_then(|rest| rest.split_once('-'));
            let number = rest.and_then(|(number, _)| number.parse::<u64>().ok());
            let is_own = rest.is_some_and(|(_, rest)| rest.starts_with(&own.run));
            number.is_some_and(|number| number < own.number || (number == own.number && !is_own))
        };
        Ok(self.shelf.list().await?.into_iter().filter(is_dead).collect())
    }
}

impl Sink for Files {
    fn part(&self, part: Part) -> Result<Box<dyn Writer>> {
        let extension = self.format.extension();
        let Names { staged, visible, .. } = &self.names;
        let name = match part {
            Part::All => format!("{visible}.{extension}"),
            Part::Number(_) => format!("{visible}-{part}.{extension}"),
        };
        Ok(Box::new(Rows {
            encoder: None,
            counted: Counted::new(part),
            staged: format!("{staged}-{part}.tmp"),
            name,
            format: self.format,
            memory: self.memory,
            shelf: self.shelf.clone(),
            is_epoch: self.names.epoch.is_some(),
            _staging: self.staging.clone(),
        }))
    }

    fn publish<'a>(&'a self, parts: &'a [Finished]) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(self.publish_all(parts))
    }

    fn withdraw<'a>(&'a self, parts: &'a [Finished]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let _ = self.shelf.remove(&manifest::name(&self.names.visible)).await;
            for file in parts.iter().filter_map(|part| part.file.as_ref()) {
                for name in [&file.staged, &file.name] {
                    let _ = self.shelf.remove(name).await;
                }
            }
        })
    }

    fn sweep(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let Some(own) = &self.names.epoch else { return Ok(()) };
            for name in self.others(own).await? {
                self.shelf.remove(&name).await?;
            }
            Ok(())
        })
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("to", &self.shelf).field("names", &self.names).finish_non_exhaustive()
    }
}

/// The file of one part, from its first row on.
struct Rows {
    encoder: Option<Encoder>,
    counted: Counted,
    staged: String,
    name: String,
    format: Format,
    memory: usize,
    shelf: Shelf,
    is_epoch: bool,
    _staging: Option<Arc<Staging>>,
}

impl Rows {
    /// A local part is written where it is staged; any other is kept here until it is whole.
    fn create(&self) -> Result<File> {
        let failed = |e: std::io::Error| {
            let said = format!("no file can be made: {e}");
            Error::new(ErrorKind::Store, said).with("path", self.shelf.describe(&self.staged)).caused_by(e)
        };
        match self.shelf.local() {
            Some(dir) => {
                let path = dir.join(&self.staged);
                self.shelf.effects().run(Effect::Create, || File::create_new(path)).map_err(failed)
            }
            None => tempfile::tempfile().map_err(failed),
        }
    }

    fn at<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| error.with("path", self.shelf.describe("")))
    }
}

impl Writer for Rows {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.counted.write(batch)?;
        if self.encoder.is_none() {
            let file = self.create()?;
            self.encoder = Some(self.at(Encoder::new(self.format, file, &batch.schema(), self.memory))?);
        }
        let done = self.encoder.as_mut().map_or(Ok(()), |encoder| encoder.write(batch));
        self.at(done)
    }

    fn finish(mut self: Box<Self>) -> Result<Finished> {
        let Some(encoder) = self.encoder.take() else { return Ok(self.counted.finished(None)) };
        let (file, bytes, crc) = self.at(encoder.finish())?;
        if self.shelf.local().is_some() {
            let synced = self.shelf.effects().run(Effect::Sync, || file.sync_all());
            self.at(synced
                .map_err(|e| Error::new(ErrorKind::Store, format!("rows could not be written: {e}")).caused_by(e)))?;
            if self.is_epoch {
                // The decision comes before the rename: the hidden name has to survive until then.
                Handle::current().block_on(self.shelf.sync())?;
            }
        } else {
            // Where writers run, blocking is what is expected.
            Handle::current().block_on(self.shelf.upload(file, &self.staged))?;
        }
        let (staged, name) = (self.staged.clone(), self.name.clone());
        Ok(self.counted.finished(Some(StagedFile { staged, name, bytes, crc })))
    }
}

impl Drop for Rows {
    /// A part that was begun and not finished is of no use to anybody.
    fn drop(&mut self) {
        if let (Some(_), Some(dir)) = (self.encoder.take(), self.shelf.local()) {
            let path = dir.join(&self.staged);
            let _ = self.shelf.effects().run(Effect::Delete, || std::fs::remove_file(path));
        }
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("name", &self.name).field("to", &self.shelf).finish_non_exhaustive()
    }
}

/// A name that begins with . or _ would hide the file.
fn shown(table: &str) -> &str {
    table.trim_start_matches(['.', '_'])
}

/// What one of so many writers may hold back.
fn share(parts: usize) -> usize {
    (encode::MEMORY / parts.max(1)).max(encode::MEMORY_LEAST)
}

/// Makes a local directory if need be; others come into being with their first file.
fn make(shelf: &Shelf, effects: &Effects) -> Result<()> {
    let Some(dir) = shelf.local() else { return Ok(()) };
    disk::make_dir(dir, effects).map_err(|e| {
        let said = format!("the directory cannot be made: {e}");
        Error::new(ErrorKind::Store, said).with("path", dir.display()).caused_by(e)
    })
}

/// What a run removes once its own files are in sight.
///
/// # Errors
/// Kind `Config` where there is data that the run was not to touch, or that would not come again.
async fn replaced(shelf: &Shelf, existing: Existing) -> Result<Vec<String>> {
    match existing {
        Existing::Append => Ok(Vec::new()),
        Existing::Error if visible(shelf).await?.is_empty() => Ok(Vec::new()),
        Existing::Error => {
            let what = format!("{} already holds data; say --mode append or --mode overwrite", shelf.describe(""));
            Err(Error::new(ErrorKind::Config, what))
        }
        Existing::Overwrite => {
            // Manifests before the files that they speak of.
            let mut names = none_of_epochs(shelf).await?;
            names.extend(visible(shelf).await?);
            Ok(names)
        }
    }
}

/// The manifests of a directory that may be overwritten.
///
/// # Errors
/// Kind `Config` where a position has moved past rows in it: they would not come again.
pub(super) async fn none_of_epochs(shelf: &Shelf) -> Result<Vec<String>> {
    let (data, mut names) = (visible(shelf).await?, shelf.list().await?);
    names.retain(|name| manifest::is_one(name));
    for name in &names {
        let Some(Ok(of)) = Manifest::read(shelf, name).await? else { continue };
        if of.is_of_epoch() && of.files.iter().any(|file| data.contains(&file.name)) {
            let what = format!(
                "{} holds rows of table {}, whose position has moved past them: overwriting would lose them; write to \
                 another directory",
                shelf.describe(""),
                of.table
            );
            return Err(Error::new(ErrorKind::Config, what));
        }
    }
    Ok(names)
}

/// Whether a directory is a Delta table: whatever its log does not name is no row of it.
pub(super) async fn is_delta_table(shelf: &Shelf) -> Result<bool> {
    let is_entry = |name: &String| name.len() > 20 && name.as_bytes()[..20].iter().all(u8::is_ascii_digit);
    Ok(shelf.below("_delta_log").list().await?.iter().any(is_entry))
}

/// Whether a directory holds data that no manifest names.
#[cfg(feature = "delta")]
pub(super) async fn is_foreign(shelf: &Shelf) -> Result<bool> {
    let (mut data, names) = (visible(shelf).await?, shelf.list().await?);
    for name in names.iter().filter(|name| manifest::is_one(name)) {
        if data.is_empty() {
            break;
        }
        let Some(Ok(of)) = Manifest::read(shelf, name).await? else { continue };
        data.retain(|name| !of.files.iter().any(|file| file.name == *name));
    }
    Ok(!data.is_empty())
}

/// Committed data: files whose names do not begin with `.` or `_`.
pub(super) async fn visible(shelf: &Shelf) -> Result<Vec<String>> {
    Ok(shelf.list().await?.into_iter().filter(|name| !name.starts_with(['.', '_'])).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::super::ndjson::tests::batch;
    use super::super::staging::entries;
    use super::*;
    use crate::storage::{Location, Settings};

    fn wait<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap().block_on(future)
    }

    fn shelf(dir: &Path, effects: &Effects) -> Shelf {
        let settings = Settings::new(BTreeMap::new(), &std::collections::HashMap::new());
        Shelf::open(&Location::Local(dir.to_owned()), &settings, effects.clone()).unwrap()
    }

    fn open(dir: &Path, format: Format, existing: Existing, run: &str) -> Result<Files> {
        wait(Files::once(shelf(dir, &Effects::default()), "_t", format, existing, run, 1))
    }

    /// Publishes, and ends the run.
    #[expect(clippy::needless_pass_by_value, reason = "the run ends here")]
    fn publish(files: Files, parts: &[Finished]) -> Result<Vec<PathBuf>> {
        wait(files.publish(parts)).map(|shown| shown.into_iter().map(PathBuf::from).collect())
    }

    fn names_of(dir: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let paths = entries(dir).unwrap();
        let names = paths.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
        let mut names: Vec<_> = names.filter(|name| is_wanted(name)).collect();
        names.sort();
        names
    }

    /// Everything but manifests.
    fn names(dir: &Path) -> Vec<String> {
        names_of(dir, |name| !manifest::is_one(name))
    }

    fn manifests(dir: &Path) -> Vec<String> {
        names_of(dir, manifest::is_one)
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
        publish(files, &[part]).unwrap()
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
            parts.into_iter().map(|part| part.join().unwrap()).collect::<Vec<_>>()
        });
        let shown = publish(files, &finished).unwrap();
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
        publish(files, &[whole]).unwrap();
        drop(cut);
        assert_eq!(names(dir.path()), ["t-a-00001.csv"]);
    }

    #[test]
    fn r30_a_publish_that_fails_midway_takes_back_what_it_showed() {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path(), Format::Csv, Existing::Append, "old");
        let files = open(dir.path(), Format::Csv, Existing::Overwrite, "a").unwrap();
        let parts: Vec<_> = (0..4).map(|place| write(&files, Part::Number(place))).collect();
        // No file takes the name of a folder.
        fs::create_dir(dir.path().join("t-a-00002.csv")).unwrap();
        let error = publish(files, &parts).unwrap_err();
        assert_eq!(
            (error.kind(), error.context("withdrawn")),
            (ErrorKind::Store, Some("2 files that were already in sight"))
        );
        assert!(error.context("to").unwrap().ends_with("t-a-00002.csv"), "{error}");
        assert_eq!(names(dir.path()), ["t-a-00002.csv", "t-old.csv"]);
        assert_eq!(manifests(dir.path()), ["_restmark-t-old.json"]);
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
        assert_eq!(publish(files, &parts).unwrap().len(), 1200);
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
        assert_eq!(manifests(dir.path()), ["_restmark-t-d.json"]);
    }

    #[test]
    fn a_part_without_rows_makes_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let files = open(dir.path(), Format::Parquet, Existing::Append, "a").unwrap();
        let mut writer = files.part(Part::Number(0)).unwrap();
        writer.write(&batch().slice(0, 0)).unwrap();
        let parts = vec![writer.finish().unwrap(), write(&files, Part::Number(1))];
        assert_eq!(publish(files, &parts).unwrap().len(), 1);
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
        publish(alive, &[part]).unwrap();
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
