//! One batch run: a plan is read into a sink, the sink publishes, and only then is the plan sealed and committed.

use std::collections::HashSet;
use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow_array::RecordBatch;

use crate::commit::Commit;
use crate::counts::{Counts, Meters};
use crate::epoch::{Epochs, Proven};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::Predicate;
use crate::gather::{Tally, Wanted, gather};
use crate::plan::Scan;
use crate::position::{Instant, Position};
use crate::read::Event;
use crate::sink::{Destination, Existing, Output};
use crate::source::{Source, Table};

pub use crate::epoch::finish;

/// What one run reads and where it puts the rows.
#[derive(Debug, Clone)]
pub struct BatchRun {
    /// The table.
    pub table: String,
    /// Where the rows go.
    pub output: Output,
    /// The columns of the output; `None` is all of them.
    pub select: Option<Vec<String>>,
    /// Which rows are kept; the API is asked for what it can answer, but for all of a checkpointed table (R10, R13).
    pub filter: Option<Predicate>,
    /// At most this many rows are written; the position then stays where it is (R1).
    pub limit: Option<u64>,
    /// Ignores the stored position for this read.
    pub full: bool,
    /// Partitions that are read at a time.
    pub parallel: NonZeroUsize,
}

/// How a run ended that did not fail.
#[derive(Debug)]
pub enum Outcome {
    /// The rows are where they belong, and the position moved if it was to move.
    Done(Box<Report>),
    /// It was interrupted while reading: nothing was published, nothing moved.
    Interrupted,
}

/// What a run did.
#[derive(Debug, Clone)]
pub struct Report {
    /// The loss report (R25); `rows_emitted` are the rows that were written.
    pub counts: Counts,
    /// The files that hold the rows.
    pub files: Vec<String>,
    /// What became of the table's position.
    pub progress: Progress,
}

/// What became of the position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// The table has no checkpoint.
    NoCheckpoint,
    /// The run was not to move it, because of this.
    Kept(&'static str),
    /// It was committed; `None` is no position.
    Committed {
        /// What stood there.
        before: Option<Position>,
        /// Where the next read starts.
        after: Option<Position>,
        /// The checkpoint file.
        file: String,
    },
}

/// The cores that there are.
pub(crate) fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

impl BatchRun {
    /// A run of the whole table with all its columns, as many partitions at a time as there are cores.
    pub fn new(table: impl Into<String>, output: Output) -> Self {
        Self { table: table.into(), output, select: None, filter: None, limit: None, full: false, parallel: cores() }
    }

    /// What is allowed but worth saying before the run (R13).
    pub fn warnings(&self, source: &Source) -> Result<Vec<String>> {
        let table = source.table(&self.table)?;
        let mut warnings = Vec::new();
        if self.filter.is_some() && self.kept().is_none() && table.config().checkpoint.is_some() {
            warnings.push(format!(
                "--where on {}, which has a checkpoint: the position moves past the rows it drops",
                self.table
            ));
        }
        Ok(warnings)
    }

    /// Reads, writes, publishes and commits, in this order.
    ///
    /// `at` is the time of the run. When `interrupted` completes before every row is written, everything is dropped;
    /// after that the run ends by itself, because a commit that is cut short proves nothing. `watch` is told of each
    /// read, for a display of its live figures, and keeps what they counted however the run ends.
    pub async fn run(
        &self,
        source: &Source,
        at: Instant,
        watch: &Arc<Meters>,
        interrupted: impl Future<Output = ()>,
    ) -> Result<Outcome> {
        let table = source.table(&self.table)?;
        let existing = self.check(table)?;
        let epochs = Epochs::of_table(source, &self.table)?;
        let tally = Tally::new(watch);
        let wanted = Wanted { select: self.select.as_deref(), limit: self.limit, parallel: self.parallel };
        let reading = async {
            self.check_filter(source).await?;
            // What was decided is done first: the plan starts where it led.
            let head = match &epochs {
                Some(epochs) => {
                    // A position that cannot be used is said before anything is done.
                    source.checkpoints().load(&self.table).await?;
                    Some(epochs.recover(Some(&self.output), |said| watch.warn(&[said])).await?)
                }
                None => None,
            };
            let plan = source.plan_at(self.scan(table), at).await?;
            watch.warn(plan.warnings());
            let side_by_side = self.parallel.get().min(plan.partitions().len());
            let of_ledger = epochs.as_ref().zip(head.as_ref()).filter(|_| self.writes_epochs());
            let (begun, sink) = if let Some((epochs, head)) = of_ledger {
                let begun = epochs.begin(head, &plan, None).await?;
                let sink = epochs.open(&self.output, &begun, side_by_side).await?;
                (Some((epochs, begun)), sink)
            } else {
                let settings = &source.config().storage;
                (None, self.output.open(&self.table, existing, plan.id(), side_by_side, settings).await?)
            };
            let (parts, receipts) = gather(source, &plan, &*sink, wanted, &tally).await?;
            // What was not read to its end is not shown to anybody either.
            let commit = if self.limit.is_some() { None } else { Some(plan.seal(receipts)?) };
            Ok::<_, Error>((plan, begun, sink, parts, commit))
        };
        let (plan, begun, sink, parts, commit) = tokio::select! {
            biased;
            () = interrupted => return Ok(Outcome::Interrupted),
            read = reading => read?,
        };
        let rows = tally.rows();
        let before = plan.stored().cloned();
        let (files, progress) = if let Some((epochs, begun)) = begun {
            let after = commit.as_ref().and_then(Commit::position).cloned();
            let proven = Proven { parts, commit, rows, watermark: None };
            let files = epochs.settle(&begun, &self.output, &*sink, proven).await?;
            let file = source.checkpoints().path(&self.table).unwrap_or_default();
            (files, Progress::Committed { before, after, file })
        } else {
            let files = sink.publish(&parts).await?;
            let progress = match self.kept() {
                _ if table.config().checkpoint.is_none() => Progress::NoCheckpoint,
                Some(why) => Progress::Kept(why),
                None => self.commit(source, before, commit, rows).await?,
            };
            (files, progress)
        };
        let counts = Counts { rows_emitted: rows, ..watch.counts() };
        Ok(Outcome::Done(Box::new(Report { counts, files, progress })))
    }

    /// Whether the run adds an epoch to the table's ledger: files of a checkpointed table.
    fn writes_epochs(&self) -> bool {
        self.output.destination.takes_epochs() && self.kept().is_none()
    }

    /// Whether the run makes sense for the table, as far as that is known without asking anybody.
    fn check(&self, table: Table<'_>) -> Result<Existing> {
        let usage = |what: &str| Err(Error::new(ErrorKind::Config, what).with("table", &self.table));
        let checkpointed = table.config().checkpoint.is_some();
        let to_files = self.output.destination.takes_epochs();
        if checkpointed && to_files && self.limit.is_some() {
            return usage(
                "--limit with --to DIR: files of a checkpointed table are whole reads; leave out one of them",
            );
        }
        if checkpointed && self.output.existing.is_some() {
            return usage("--mode is for tables without a checkpoint; this one adds what is new and keeps older files");
        }
        if matches!(self.output.destination, Destination::Own(_)) && self.output.existing.is_some() {
            return usage("--mode is for directories");
        }
        let mut seen = HashSet::new();
        if let Some(twice) = self.select.iter().flatten().find(|name| !seen.insert(name.as_str())) {
            let what = format!("--select names {twice} twice");
            return Err(Error::new(ErrorKind::Scan, what).with("table", &self.table));
        }
        let default = if checkpointed { Existing::Append } else { Existing::Error };
        Ok(self.output.existing.unwrap_or(default))
    }

    /// Whether the filter fits the columns, where they are known before the first page.
    async fn check_filter(&self, source: &Source) -> Result<()> {
        let Some(filter) = &self.filter else { return Ok(()) };
        let schema = source.schema(&self.table).await?;
        schema.map_or(Ok(()), |schema| filter.check(&schema.arrow())).map_err(|error| error.with("table", &self.table))
    }

    /// Why the position of a checkpointed table stays, if the run is not to move it.
    fn kept(&self) -> Option<&'static str> {
        if self.limit.is_some() {
            return Some("--limit moves nothing");
        }
        (self.output.destination == Destination::Null).then_some("--to null: moves nothing")
    }

    fn scan(&self, table: Table<'_>) -> Scan {
        let mut scan = table.scan();
        if let Some(select) = &self.select {
            scan = scan.select(select);
        }
        if let Some(filter) = &self.filter {
            scan = scan.filter(filter.clone());
        }
        if let Some(limit) = self.limit {
            scan = scan.limit(limit);
        }
        if self.full { scan.full() } else { scan }
    }

    /// Moves the checkpoint after rows that are out already: on standard output.
    async fn commit(
        &self,
        source: &Source,
        before: Option<Position>,
        commit: Option<Commit>,
        rows: u64,
    ) -> Result<Progress> {
        let checkpoints = source.checkpoints();
        let commit = commit.ok_or_else(|| Error::new(ErrorKind::Bug, "a run with a limit has nothing to commit"))?;
        checkpoints.commit(&commit).await.map_err(|error| {
            let to = &self.output.destination;
            match error.kind() {
                _ if rows == 0 => error,
                ErrorKind::Conflict => error.with("written", format!("{rows} rows to {to}; they will come again")),
                _ => error.with(
                    "written",
                    format!(
                        "{rows} rows to {to}; it is not certain whether the position moved (restmark checkpoint show \
                         tells): if not, they will come again"
                    ),
                ),
            }
        })?;
        let after = commit.position().cloned();
        let file = checkpoints.path(&self.table).unwrap_or_default();
        Ok(Progress::Committed { before, after, file })
    }
}

/// The first rows of a table, from its beginning; moves nothing.
pub async fn head(source: &Source, table: &str, rows: u64) -> Result<(Vec<RecordBatch>, Counts)> {
    let (mut batches, mut counts) = (Vec::new(), Counts::default());
    let plan = source.plan(source.table(table)?.scan().sample(rows)).await?;
    let mut left = usize::try_from(rows).unwrap_or(usize::MAX);
    for partition in plan.partitions() {
        let mut read = source.read(partition)?;
        while left > 0
            && let Some(Event::Batch(batch)) = read.try_next().await?
        {
            let batch = batch.slice(0, left.min(batch.num_rows()));
            left -= batch.num_rows();
            batches.push(batch);
        }
        counts.merge(read.meter().counts());
        if left == 0 {
            break;
        }
    }
    Ok((batches, counts))
}

/// The first batch of a table, from its beginning; moves nothing. `rows` is as many as a page may hold.
pub async fn first_batch(source: &Source, table: &str, rows: u64) -> Result<Option<RecordBatch>> {
    let plan = source.plan(source.table(table)?.scan().sample(rows)).await?;
    for partition in plan.partitions() {
        if let Some(Event::Batch(batch)) = source.read(partition)?.try_next().await? {
            return Ok(Some(batch));
        }
    }
    Ok(None)
}
