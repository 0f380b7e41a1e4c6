//! One batch run: a plan is read into a sink, the sink publishes, and only then is the plan sealed and committed.

use std::collections::HashSet;
use std::future::Future;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use arrow_select::filter::filter_record_batch;
use futures::{StreamExt as _, stream};

use crate::commit::Commit;
use crate::counts::{Counts, Meter, Meters};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::Predicate;
use crate::plan::{Partition, Plan, Scan};
use crate::position::{Instant, Position};
use crate::read::{Event, Receipt};
use crate::sink::{Destination, Existing, Finished, Output, Part, Sink, Writer};
use crate::source::{Source, Table};

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
    pub files: Vec<PathBuf>,
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

/// What the reading part of a run leaves behind.
struct Gathered {
    sink: Box<dyn Sink>,
    parts: Vec<Finished>,
    receipts: Vec<Receipt>,
}

/// What the reading of one partition leaves behind; no receipt where a limit ended it.
struct Slice {
    finished: Finished,
    receipt: Option<Receipt>,
}

/// What the reads of a run share.
struct Tally {
    meters: Arc<Meters>,
    /// Rows that were taken into the output.
    rows: AtomicU64,
}

impl Tally {
    /// Follows a read until the guard is dropped.
    fn metered(&self, meter: &Arc<Meter>) -> impl Drop + use<> {
        self.meters.begin(meter);
        Metered(Arc::clone(&self.meters), Arc::clone(meter))
    }
}

struct Metered(Arc<Meters>, Arc<Meter>);

impl Drop for Metered {
    fn drop(&mut self) {
        self.0.end(&self.1);
    }
}

/// The cores that there are.
fn cores() -> NonZeroUsize {
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
        let tally = Tally { meters: Arc::clone(watch), rows: AtomicU64::new(0) };
        let reading = async {
            self.check_filter(source).await?;
            let plan = source.plan_at(self.scan(table), at).await?;
            watch.warn(plan.warnings());
            let side_by_side = self.parallel.get().min(plan.partitions().len());
            let sink = self.output.open(&self.table, existing, plan.id(), side_by_side)?;
            let Gathered { sink, parts, receipts } = self.gather(source, &plan, sink, &tally).await?;
            // What was not read to its end is not shown to anybody either.
            let commit = if self.limit.is_some() { None } else { Some(plan.seal(receipts)?) };
            Ok::<_, Error>((plan, sink, parts, commit))
        };
        let (plan, sink, parts, commit) = tokio::select! {
            biased;
            () = interrupted => return Ok(Outcome::Interrupted),
            read = reading => read?,
        };
        let files = blocking(move || sink.publish(parts)).await?;
        let rows = tally.rows.load(Ordering::Relaxed);
        let counts = Counts { rows_emitted: rows, ..watch.counts() };
        let progress = match self.kept() {
            _ if table.config().checkpoint.is_none() => Progress::NoCheckpoint,
            Some(why) => Progress::Kept(why),
            None => match self.commit(source, &plan, commit, rows).await {
                // The other run's files hold what these would hold twice. They were seen for a moment: at least once.
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    for file in &files {
                        let _ = std::fs::remove_file(file);
                    }
                    return Err(error);
                }
                committed => committed?,
            },
        };
        Ok(Outcome::Done(Box::new(Report { counts, files, progress })))
    }

    /// Whether the run makes sense for the table, as far as that is known without asking anybody.
    fn check(&self, table: Table<'_>) -> Result<Existing> {
        let usage = |what: &str| Err(Error::new(ErrorKind::Config, what).with("table", &self.table));
        let checkpointed = table.config().checkpoint.is_some();
        let to_files = matches!(self.output.destination, Destination::Directory(_));
        if checkpointed && to_files && self.limit.is_some() {
            return usage(
                "--limit with --to DIR: files of a checkpointed table are whole reads; leave out one of them",
            );
        }
        if checkpointed && self.output.existing.is_some() {
            return usage("--mode is for tables without a checkpoint; this one adds what is new and keeps older files");
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

    /// Reads the partitions into the sink, as many at a time as the run may.
    ///
    /// One that fails lets the others end: what is wrong with several is then known at once.
    async fn gather(&self, source: &Source, plan: &Plan, sink: Box<dyn Sink>, tally: &Tally) -> Result<Gathered> {
        let (mut parts, mut receipts) = (Vec::new(), Vec::new());
        let (mut failed, mut first) = (0_u64, None);
        let residual = plan.residual();
        let writer = |place| sink.part(Part::of(plan, place));
        {
            let reads = plan.partitions().iter().enumerate().map(|(place, partition)| async move {
                if self.has_enough(tally) {
                    return Ok(None);
                }
                self.read(source, partition, writer(place)?, residual, tally).await.map(Some)
            });
            let mut reads = pin!(stream::iter(reads).buffer_unordered(self.parallel.get()));
            while let Some(read) = reads.next().await {
                match read {
                    Ok(Some(Slice { finished, receipt })) => {
                        parts.push(finished);
                        receipts.extend(receipt);
                    }
                    Ok(None) => {}
                    Err(error) => {
                        failed += 1;
                        first = first.or(Some(error));
                    }
                }
            }
        }
        match (first, plan.partitions().len()) {
            (None, _) => Ok(Gathered { sink, parts, receipts }),
            (Some(error), 1) => Err(error),
            (Some(error), of) => {
                Err(error.reworded(|said| format!("{failed} of {of} partitions failed; first: {said}")))
            }
        }
    }

    /// Reads a partition into its part of the sink.
    async fn read(
        &self,
        source: &Source,
        partition: &Partition,
        mut writer: Box<dyn Writer>,
        residual: Option<&Predicate>,
        tally: &Tally,
    ) -> Result<Slice> {
        let mut read = source.read(partition)?;
        let _metered = tally.metered(read.meter());
        let receipt = loop {
            if self.has_enough(tally) {
                break None;
            }
            match read.try_next().await.map_err(|error| error.with("partition", partition.id()))? {
                Some(Event::Batch(batch)) => {
                    let batch = self.shape(&batch, residual, tally)?;
                    if batch.num_rows() > 0 {
                        writer = blocking(move || writer.write(&batch).map(|()| writer)).await?;
                    }
                }
                Some(Event::Done(receipt)) => break Some(receipt),
                // A read with a limit proves nothing.
                None if self.limit.is_some() => break None,
                None => return Err(Error::new(ErrorKind::Bug, "a read ended without a receipt")),
            }
        };
        Ok(Slice { finished: blocking(move || writer.finish()).await?, receipt })
    }

    /// Whether the limit is reached.
    fn has_enough(&self, tally: &Tally) -> bool {
        self.limit.is_some_and(|limit| tally.rows.load(Ordering::Relaxed) >= limit)
    }

    /// The rows and columns of a batch that are written: those of it that the limit still takes.
    fn shape(&self, batch: &RecordBatch, residual: Option<&Predicate>, tally: &Tally) -> Result<RecordBatch> {
        let arrow = |error: ArrowError| Error::new(ErrorKind::Bug, format!("a batch could not be shaped: {error}"));
        let mut batch = match residual {
            Some(filter) => filter_record_batch(batch, &filter.mask(batch)?).map_err(arrow)?,
            None => batch.clone(),
        };
        let rows = batch.num_rows() as u64;
        let taken = tally.rows.fetch_add(rows, Ordering::Relaxed);
        if let Some(left) = self.limit.map(|limit| limit.saturating_sub(taken)).filter(|left| *left < rows) {
            tally.rows.fetch_sub(rows - left, Ordering::Relaxed);
            batch = batch.slice(0, usize::try_from(left).unwrap_or(usize::MAX));
        }
        let Some(select) = &self.select else { return Ok(batch) };
        let schema = batch.schema();
        let places = select.iter().map(|name| schema.index_of(name)).collect::<Result<Vec<_>, _>>().map_err(arrow)?;
        batch.project(&places).map_err(arrow)
    }

    async fn commit(&self, source: &Source, plan: &Plan, commit: Option<Commit>, rows: u64) -> Result<Progress> {
        let checkpoints = source.checkpoints();
        let commit = commit.ok_or_else(|| Error::new(ErrorKind::Bug, "a run with a limit has nothing to commit"))?;
        checkpoints.commit(&commit).await.map_err(|error| {
            let conflict = error.kind() == ErrorKind::Conflict;
            match &self.output.destination {
                _ if rows == 0 => error,
                Destination::Directory(_) if conflict => {
                    error.with("written", "nothing: the files of this run were withdrawn")
                }
                to if conflict => error.with("written", format!("{rows} rows to {to}; they will come again")),
                to => error.with(
                    "written",
                    format!(
                        "{rows} rows to {to}; it is not certain whether the position moved (restmark checkpoint show \
                         tells): if not, they will come again"
                    ),
                ),
            }
        })?;
        let (before, after) = (plan.stored().cloned(), commit.position().cloned());
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

/// Runs what may block (a slow disk, a reader of our output that stalls) where it stops nothing else.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Error::new(ErrorKind::Bug, format!("writing was cut short: {error}"))))
}
