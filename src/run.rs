//! One batch run: a plan is read into a sink, the sink publishes, and only then is the plan sealed and committed.

use std::collections::HashSet;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use arrow_select::filter::filter_record_batch;

use crate::counts::{Counts, Meter};
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
    /// Which rows are kept; the API is asked for all of them (R10).
    pub filter: Option<Predicate>,
    /// At most this many rows are written; the position then stays where it is (R1).
    pub limit: Option<u64>,
    /// Ignores the stored position for this read.
    pub full: bool,
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

/// Told of each read as it starts, for a display of its live figures.
pub type Watch<'a> = &'a (dyn Fn(&Arc<Meter>) + Sync);

/// What the reading part of a run leaves behind.
struct Gathered {
    sink: Box<dyn Sink>,
    parts: Vec<Finished>,
    receipts: Vec<Receipt>,
    counts: Counts,
    rows: u64,
}

impl BatchRun {
    /// A run of the whole table with all its columns.
    pub fn new(table: impl Into<String>, output: Output) -> Self {
        Self { table: table.into(), output, select: None, filter: None, limit: None, full: false }
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
    /// after that the run ends by itself, because a commit that is cut short proves nothing.
    pub async fn run(
        &self,
        source: &Source,
        at: Instant,
        watch: Watch<'_>,
        interrupted: impl Future<Output = ()>,
    ) -> Result<Outcome> {
        let table = source.table(&self.table)?;
        let existing = self.check(table)?;
        let reading = async {
            self.check_filter(source).await?;
            let plan = source.plan_at(self.scan(table), at).await?;
            let sink = self.output.open(&self.table, existing, plan.id())?;
            let gathered = self.gather(source, &plan, sink, watch).await?;
            Ok::<_, Error>((plan, gathered))
        };
        let (plan, gathered) = tokio::select! {
            biased;
            () = interrupted => return Ok(Outcome::Interrupted),
            read = reading => read?,
        };
        let Gathered { sink, parts, receipts, mut counts, rows } = gathered;
        let files = blocking(move || sink.publish(parts)).await?;
        counts.rows_emitted = rows;
        let progress = match self.kept() {
            _ if table.config().checkpoint.is_none() => Progress::NoCheckpoint,
            Some(why) => Progress::Kept(why),
            None => match self.commit(source, &plan, receipts, rows).await {
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
            let hidden =
                self.filter.iter().flat_map(Predicate::columns).filter(|name| !select.iter().any(|s| s == name));
            scan = scan.select(select.iter().map(String::as_str).chain(hidden));
        }
        // Rows that the filter drops do not count.
        if let (Some(limit), None) = (self.limit, &self.filter) {
            scan = scan.limit(limit);
        }
        if self.full { scan.full() } else { scan }
    }

    /// Reads every partition into the sink.
    async fn gather(&self, source: &Source, plan: &Plan, sink: Box<dyn Sink>, watch: Watch<'_>) -> Result<Gathered> {
        let (parts, receipts) = (Vec::new(), Vec::new());
        let mut gathered = Gathered { sink, parts, receipts, counts: Counts::default(), rows: 0 };
        for (place, partition) in plan.partitions().iter().enumerate() {
            if self.limit.is_some_and(|limit| gathered.rows >= limit) {
                break;
            }
            let writer = gathered.sink.part(Part::of(plan, place))?;
            let writer = self.read(source, partition, writer, &mut gathered, watch).await?;
            gathered.parts.push(blocking(move || writer.finish()).await?);
        }
        Ok(gathered)
    }

    /// Reads a partition into its part of the sink.
    async fn read(
        &self,
        source: &Source,
        partition: &Partition,
        mut writer: Box<dyn Writer>,
        gathered: &mut Gathered,
        watch: Watch<'_>,
    ) -> Result<Box<dyn Writer>> {
        let mut read = source.read(partition)?;
        watch(read.meter());
        loop {
            match read.try_next().await? {
                Some(Event::Batch(batch)) => {
                    let batch = self.shape(&batch, gathered.rows)?;
                    gathered.rows += batch.num_rows() as u64;
                    if batch.num_rows() > 0 {
                        writer = blocking(move || writer.write(&batch).map(|()| writer)).await?;
                    }
                    if self.limit.is_some_and(|limit| gathered.rows >= limit) {
                        gathered.counts.merge(read.meter().counts());
                        return Ok(writer);
                    }
                }
                Some(Event::Done(receipt)) => {
                    gathered.counts.merge(receipt.counts().clone());
                    gathered.receipts.push(receipt);
                    return Ok(writer);
                }
                // A read with a limit proves nothing.
                None if self.limit.is_some() => {
                    gathered.counts.merge(read.meter().counts());
                    return Ok(writer);
                }
                None => return Err(Error::new(ErrorKind::Bug, "a read ended without a receipt")),
            }
        }
    }

    /// The rows and columns of a batch that are written, after `written` rows before it.
    fn shape(&self, batch: &RecordBatch, written: u64) -> Result<RecordBatch> {
        let arrow = |error: ArrowError| Error::new(ErrorKind::Bug, format!("a batch could not be shaped: {error}"));
        let mut batch = match &self.filter {
            Some(filter) => filter_record_batch(batch, &filter.mask(batch)?).map_err(arrow)?,
            None => batch.clone(),
        };
        if let Some(left) = self.limit.map(|limit| limit.saturating_sub(written)) {
            let rows = usize::try_from(left).unwrap_or(usize::MAX).min(batch.num_rows());
            batch = batch.slice(0, rows);
        }
        let Some(select) = &self.select else { return Ok(batch) };
        let schema = batch.schema();
        let places = select.iter().map(|name| schema.index_of(name)).collect::<Result<Vec<_>, _>>().map_err(arrow)?;
        batch.project(&places).map_err(arrow)
    }

    async fn commit(&self, source: &Source, plan: &Plan, receipts: Vec<Receipt>, rows: u64) -> Result<Progress> {
        let checkpoints = source.checkpoints();
        let commit = plan.seal(receipts)?;
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
    for partition in plan.partitions() {
        let mut read = source.read(partition)?;
        while let Some(Event::Batch(batch)) = read.try_next().await? {
            batches.push(batch);
        }
        counts.merge(read.meter().counts());
    }
    Ok((batches, counts))
}

/// The first batch of a table, from its beginning; moves nothing. `rows` is as many as a page may hold.
pub async fn first_batch(source: &Source, table: &str, rows: u64) -> Result<Option<RecordBatch>> {
    let plan = source.plan(source.table(table)?.scan().sample(rows)).await?;
    let Some(partition) = plan.partitions().first() else { return Ok(None) };
    match source.read(partition)?.try_next().await? {
        Some(Event::Batch(batch)) => Ok(Some(batch)),
        _ => Ok(None),
    }
}

/// Runs what may block (a slow disk, a reader of our output that stalls) where it stops nothing else.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Error::new(ErrorKind::Bug, format!("writing was cut short: {error}"))))
}
