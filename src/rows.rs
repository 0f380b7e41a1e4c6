//! The rows of a plan as one stream of batches, and the receipts when it has ended: for a task that is not ours.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use arrow_select::coalesce::BatchCoalescer;
use arrow_select::filter::filter_record_batch;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};

use crate::counts::{Counts, Meters};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::{Partition, Plan};
use crate::read::{Event, Read, Receipt};
use crate::schema;
use crate::source::Source;

/// A read of a plan: what the engine still has to do is applied, small batches are joined.
///
/// Dropping it cancels what is on its way and proves nothing (R1).
pub struct Rows {
    source: Arc<Source>,
    plan: Plan,
    settings: Settings,
    waiting: VecDeque<Partition>,
    reading: FuturesUnordered<BoxFuture<'static, Step>>,
    /// What is too small to be handed on.
    joined: Option<BatchCoalescer>,
    /// The columns, where they are known.
    schema: Option<SchemaRef>,
    receipts: Vec<(Receipt, u64)>,
    meters: Arc<Meters>,
    /// Rows that were handed on.
    emitted: u64,
    is_over: bool,
}

/// No batch is joined to more rows than this, whatever is asked for: room for all of them is made at once (R26).
const BATCH_MAX: usize = 1 << 20;

/// How rows are handed on.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Rows of a batch; a larger one of the source is handed on as it is.
    pub batch_rows: NonZeroUsize,
    /// Partitions that are read at a time.
    pub parallel: NonZeroUsize,
    /// At most this many rows; the read then proves nothing.
    pub limit: Option<u64>,
}

/// One event of one read.
struct Step {
    read: Read,
    /// Rows of the partition that were handed on.
    rows: u64,
    event: Result<Option<Event>>,
}

async fn step(mut read: Read, rows: u64) -> Step {
    let event = read.try_next().await;
    Step { read, rows, event }
}

impl Rows {
    /// Starts reading when the first batch is asked for; must then be inside a Tokio runtime.
    ///
    /// # Errors
    /// Kind `Scan` when this source's table is not the one that was planned, or has no column of that name.
    pub fn new(source: Arc<Source>, plan: Plan, settings: Settings) -> Result<Self> {
        let schema = match plan.partitions().first() {
            Some(partition) => schema::for_table(&*source.planned(partition)?),
            None => schema::for_table(source.table(plan.table())?.config()),
        };
        let schema = schema.map(|schema| wanted(&schema.arrow(), &plan)).transpose()?;
        let waiting = plan.partitions().iter().cloned().collect();
        Ok(Self {
            source,
            plan,
            settings,
            waiting,
            reading: FuturesUnordered::new(),
            joined: None,
            schema,
            receipts: Vec::new(),
            meters: Arc::default(),
            emitted: 0,
            is_over: false,
        })
    }

    /// The plan that is read.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The columns of the batches; where only the rows show them, reads the first ones. Without any there are none.
    ///
    /// # Errors
    /// As [`Rows::try_next`].
    pub async fn schema(&mut self) -> Result<SchemaRef> {
        while self.schema.is_none() && self.pull().await? {}
        Ok(self.schema.clone().unwrap_or_else(|| Arc::new(Schema::empty())))
    }

    /// The next batch; `None` at the end.
    ///
    /// # Errors
    /// Of the first partition that failed; nothing comes after it.
    pub async fn try_next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.joined.as_mut().and_then(BatchCoalescer::next_completed_batch) {
                self.emitted += batch.num_rows() as u64;
                return Ok(Some(batch));
            }
            if self.is_over {
                return Ok(None);
            }
            if !self.pull().await? {
                self.is_over = true;
                if let Some(joined) = &mut self.joined {
                    joined.finish_buffered_batch().map_err(|error| unshaped(&error))?;
                }
            }
        }
    }

    /// Takes one more event; `false` when there is none.
    async fn pull(&mut self) -> Result<bool> {
        let taken = self.take().await;
        if taken.is_err() {
            self.stop();
        }
        taken
    }

    async fn take(&mut self) -> Result<bool> {
        while self.reading.len() < self.settings.parallel.get()
            && let Some(partition) = self.waiting.pop_front()
        {
            let read = self.source.read(&partition)?;
            self.meters.begin(read.meter());
            self.reading.push(Box::pin(step(read, 0)));
        }
        let Some(Step { read, mut rows, event }) = self.reading.next().await else { return Ok(false) };
        match event? {
            Some(Event::Batch(batch)) => {
                let batch = self.shaped(&batch)?;
                rows += batch.num_rows() as u64;
                if self.join(batch)? {
                    self.reading.push(Box::pin(step(read, rows)));
                } else {
                    self.stop();
                }
            }
            Some(Event::Done(receipt)) => {
                self.meters.end(read.meter());
                self.receipts.push((receipt, rows));
            }
            // It had a limit.
            None => self.meters.end(read.meter()),
        }
        Ok(true)
    }

    /// Nothing more is read.
    fn stop(&mut self) {
        self.waiting.clear();
        self.reading.clear();
    }

    /// The rows and columns of a batch that are handed on.
    fn shaped(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let batch = match self.plan.residual() {
            Some(filter) => filter_record_batch(batch, &filter.mask(batch)?).map_err(|error| unshaped(&error))?,
            None => batch.clone(),
        };
        let Some(select) = self.plan.select() else { return Ok(batch) };
        batch.project(&places(&batch.schema(), select)?).map_err(|error| unshaped(&error))
    }

    /// Keeps a batch until there is enough; `false` where the limit is reached.
    fn join(&mut self, mut batch: RecordBatch) -> Result<bool> {
        let mut has_more = true;
        if let Some(limit) = &mut self.settings.limit {
            let rows = usize::try_from(*limit).unwrap_or(usize::MAX).min(batch.num_rows());
            batch = batch.slice(0, rows);
            *limit -= rows as u64;
            has_more = *limit > 0;
        }
        let schema = self.schema.get_or_insert_with(|| batch.schema());
        let size = self.settings.batch_rows.get().min(BATCH_MAX);
        let joined = self.joined.get_or_insert_with(|| {
            BatchCoalescer::new(Arc::clone(schema), size).with_biggest_coalesce_batch_size(Some(size))
        });
        joined.push_batch(batch).map_err(|error| unshaped(&error))?;
        Ok(has_more)
    }

    /// The figures of its reads, to look at while it is read.
    pub fn meters(&self) -> &Arc<Meters> {
        &self.meters
    }

    /// Rows that were handed on so far.
    pub fn emitted(&self) -> u64 {
        self.emitted
    }

    /// The loss report so far (R25).
    pub fn counts(&self) -> Counts {
        Counts { rows_emitted: self.emitted, ..self.meters.counts() }
    }

    /// One receipt for each partition, with the rows of it that were handed on, once every row was.
    ///
    /// # Errors
    /// Kind `Scan` before the end, and where a limit or an error was the end.
    pub fn receipts(&mut self) -> Result<Vec<(Receipt, u64)>> {
        if !self.is_over || self.receipts.len() != self.plan.partitions().len() {
            let said = "the read has not come to its end: it proves nothing";
            return Err(Error::new(ErrorKind::Scan, said).with("table", self.plan.table()));
        }
        Ok(std::mem::take(&mut self.receipts))
    }
}

/// The columns of a table that a plan wants.
fn wanted(schema: &SchemaRef, plan: &Plan) -> Result<SchemaRef> {
    let Some(select) = plan.select() else { return Ok(Arc::clone(schema)) };
    schema.project(&places(schema, select)?).map(Arc::new).map_err(|error| unshaped(&error))
}

fn places(schema: &Schema, select: &[String]) -> Result<Vec<usize>> {
    select.iter().map(|name| schema.index_of(name)).collect::<Result<_, _>>().map_err(|error| unshaped(&error))
}

fn unshaped(error: &ArrowError) -> Error {
    Error::new(ErrorKind::Bug, format!("a batch could not be shaped: {error}"))
}
