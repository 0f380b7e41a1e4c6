//! A Delta table: rows are staged as the Parquet files of a directory, and one commit of the table's log shows them.

mod log;
mod store;

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use futures::future::BoxFuture;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use self::log::{Added, Change, Known, Log, Rows};
use super::files::Files;
use super::{Epoch, Existing, Finished, Format, Part, Sink, StagedFile, Writer};
use crate::effect::Effects;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::shelf::Shelf;

/// How the files of a Delta table are written.
const FILES: Format = Format::Parquet;

/// One run's, or one epoch's, rows for a Delta table.
#[derive(Debug)]
pub(super) struct Delta {
    shelf: Shelf,
    log: Log,
    /// What stages the files and gives them their names, which no reader of the table looks at.
    files: Files,
    /// The commit of an epoch, as the table's log names it: application and version.
    transaction: Option<(String, u64)>,
    /// The table when the run began, or the epoch was taken up.
    known: Option<Arc<Known>>,
    replaces: bool,
    /// The log had the commit of the epoch when it was opened: it may be published again, but nothing else be written for it.
    is_held: bool,
}

impl Delta {
    /// Of a run without a ledger. A table that takes no rows is known at once.
    pub(super) async fn once(shelf: Shelf, table: &str, existing: Existing, run: &str, parts: usize) -> Result<Self> {
        let replaces = existing == Existing::Overwrite;
        let (log, known) = look(&shelf).await?;
        if existing == Existing::Error && known.is_some() {
            let what = format!("{} is a Delta table already; say --mode append or overwrite", shelf.describe(""));
            return Err(Error::new(ErrorKind::Config, what));
        }
        if replaces {
            super::files::none_of_epochs(&shelf).await?;
        }
        if let Some(known) = &known {
            log.rehearse(known, replaces).await?;
        }
        let files = Files::once(shelf.clone(), table, FILES, Existing::Append, run, parts).await?;
        Ok(Self { shelf, log, files, transaction: None, known, replaces, is_held: false })
    }

    /// Of an attempt at an epoch.
    pub(super) async fn epoch(
        shelf: Shelf,
        table: &str,
        epoch: &Epoch,
        parts: usize,
        effects: &Effects,
    ) -> Result<Self> {
        let (log, known) = look(&shelf).await?;
        let (application, version) = transaction(table, epoch);
        let mut is_held = false;
        if let Some(known) = &known {
            is_held = log.holds(known, &application, version).await?;
            if !is_held {
                log.rehearse(known, false).await?;
            }
        }
        let files = Files::epoch(shelf.clone(), table, FILES, epoch, parts, effects)?;
        Ok(Self { shelf, log, files, transaction: Some((application, version)), known, replaces: false, is_held })
    }

    async fn publish_all(&self, parts: &[Finished]) -> Result<Vec<String>> {
        let known = self.log.look().await?;
        if let (Some((application, version)), Some(known)) = (&self.transaction, &known)
            && self.log.holds(known, application, *version).await?
        {
            // Its files may have been merged into others since.
            return Ok(Vec::new());
        }
        let shown = self.files.publish(parts).await?;
        let mut staged: Vec<(&Finished, &StagedFile)> =
            parts.iter().filter_map(|part| Some((part, part.file.as_ref()?))).collect();
        staged.sort_unstable_by_key(|(part, _)| part.part);
        let version = self.known.as_ref().map(|known| known.version());
        let rows = if self.replaces { Rows::Replace(version) } else { Rows::Join };
        if staged.is_empty() && (!self.replaces || self.known.is_none()) {
            return Ok(shown);
        }
        if shown.len() < staged.len() {
            // The table would name what nobody can read.
            let said = "files that were staged are gone: the Delta table does not get the epoch";
            return Err(Error::new(ErrorKind::Store, said).with("path", self.shelf.describe("")));
        }
        let modified = chrono::Utc::now().timestamp_millis();
        let added = |&(part, file): &(&Finished, &StagedFile)| Added {
            name: file.name.clone(),
            size: file.bytes,
            rows: part.rows,
            modified,
        };
        let files = staged.iter().map(added).collect();
        let schema = match staged.first() {
            Some((_, first)) => self.schema_of(&first.name).await?,
            None => Arc::new(arrow_schema::Schema::empty()),
        };
        self.log.commit(Change { transaction: self.transaction.clone(), files, rows }, schema, known).await?;
        Ok(shown)
    }

    /// The columns of a file, as it says itself.
    async fn schema_of(&self, name: &str) -> Result<SchemaRef> {
        let unreadable = |said: String| {
            Error::new(ErrorKind::Store, format!("a file that was staged cannot be read: {said}"))
                .with("path", self.shelf.describe(name))
        };
        let file = self.shelf.download(name).await?.ok_or_else(|| unreadable("it has gone".to_owned()))?;
        let read = tokio::task::spawn_blocking(move || ParquetRecordBatchReaderBuilder::try_new(file)).await;
        let read = read.map_err(|e| Error::new(ErrorKind::Bug, "a disk task ended early").caused_by(e))?;
        Ok(read.map_err(|e| unreadable(e.to_string()))?.schema().clone())
    }
}

impl Sink for Delta {
    fn part(&self, part: Part) -> Result<Box<dyn Writer>> {
        if let Some((application, version)) = self.transaction.as_ref().filter(|_| self.is_held) {
            // Its rows would be taken for those that are there, and never be shown.
            let said = format!(
                "conflict: the Delta table has epoch {version} of this ledger ({application}) already: another run was \
                 faster, or the ledger was removed and begins again; give it another place then"
            );
            return Err(Error::new(ErrorKind::Conflict, said).with("path", self.shelf.describe("")));
        }
        Ok(Box::new(Checked { inner: self.files.part(part)?, known: self.known.clone(), is_first: true }))
    }

    fn publish<'a>(&'a self, parts: &'a [Finished]) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(self.publish_all(parts))
    }

    fn withdraw<'a>(&'a self, parts: &'a [Finished]) -> BoxFuture<'a, ()> {
        self.files.withdraw(parts)
    }

    fn sweep(&self) -> BoxFuture<'_, Result<()>> {
        self.files.sweep()
    }
}

/// A part whose columns are held against the table's before its first row is staged.
#[derive(Debug)]
struct Checked {
    inner: Box<dyn Writer>,
    known: Option<Arc<Known>>,
    is_first: bool,
}

impl Writer for Checked {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.is_first {
            match &self.known {
                Some(known) => known.takes(&batch.schema())?,
                None => log::columns(&batch.schema()).map(drop)?,
            }
            self.is_first = false;
        }
        self.inner.write(batch)
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        self.inner.finish()
    }
}

/// The names of the files that hold the table's rows.
pub(super) async fn held(shelf: &Shelf) -> Result<BTreeSet<String>> {
    let log = Log::new(shelf.clone())?;
    match log.look().await? {
        Some(known) => log.files(&known).await,
        None => Ok(BTreeSet::new()),
    }
}

/// The table as a run finds it.
async fn look(shelf: &Shelf) -> Result<(Log, Option<Arc<Known>>)> {
    let log = Log::new(shelf.clone())?;
    let known = log.look().await?.map(Arc::new);
    if known.is_none() && super::files::is_foreign(shelf).await? {
        let what = format!("{} holds files and is no Delta table; write to another directory", shelf.describe(""));
        return Err(Error::new(ErrorKind::Config, what));
    }
    Ok((log, known))
}

/// What the log calls an epoch: the application is one ledger of one table, so that its numbers never go back.
fn transaction(table: &str, epoch: &Epoch) -> (String, u64) {
    (format!("restmark/{table}/{}", epoch.ledger), epoch.number)
}
