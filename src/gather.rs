//! A plan is read into a sink: partitions side by side, what the engine still has to do applied, every row checked.

use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use arrow_select::filter::filter_record_batch;
use futures::{StreamExt as _, stream};

use crate::counts::{Meter, Meters};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::Predicate;
use crate::integrity::Crc;
use crate::plan::{Partition, Plan};
use crate::read::{Event, Receipt};
use crate::sink::{Finished, Part, Sink, Writer};
use crate::source::Source;

/// What of the rows is wanted, and how fast.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// The columns of the output; `None` is all of them.
    pub(crate) select: Option<&'a [String]>,
    /// At most this many rows.
    pub(crate) limit: Option<u64>,
    /// Partitions at a time.
    pub(crate) parallel: NonZeroUsize,
}

/// What the reading of one partition leaves behind; no receipt where a limit ended it.
struct Slice {
    finished: Finished,
    receipt: Option<Receipt>,
}

/// What the reads of a run share.
pub(crate) struct Tally {
    meters: Arc<Meters>,
    /// Rows that were taken into the output.
    rows: AtomicU64,
}

impl Tally {
    /// Nothing yet.
    pub(crate) fn new(meters: &Arc<Meters>) -> Self {
        Self { meters: Arc::clone(meters), rows: AtomicU64::new(0) }
    }

    /// Rows that were taken into the output.
    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

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

impl Wanted<'_> {
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
        let Some(select) = self.select else { return Ok(batch) };
        let schema = batch.schema();
        let places = select.iter().map(|name| schema.index_of(name)).collect::<Result<Vec<_>, _>>().map_err(arrow)?;
        batch.project(&places).map_err(arrow)
    }
}

/// Reads the partitions into the sink, as many at a time as the run may.
///
/// One that fails lets the others end: what is wrong with several is then known at once.
pub(crate) async fn gather(
    source: &Source,
    plan: &Plan,
    sink: &dyn Sink,
    wanted: Wanted<'_>,
    tally: &Tally,
) -> Result<(Vec<Finished>, Vec<Receipt>)> {
    let (mut parts, mut receipts) = (Vec::new(), Vec::new());
    let (mut failed, mut first) = (0_u64, None);
    let reads = plan.partitions().iter().enumerate().map(|(place, partition)| async move {
        if wanted.has_enough(tally) {
            return Ok(None);
        }
        let writer = sink.part(Part::of(plan, place))?;
        read(source, partition, writer, plan.residual(), wanted, tally).await.map(Some)
    });
    let mut reads = pin!(stream::iter(reads).buffer_unordered(wanted.parallel.get()));
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
    let Some(error) = first else { return Ok((parts, receipts)) };
    sink.withdraw(&parts).await;
    Err(match plan.partitions().len() {
        1 => error,
        of => error.reworded(|said| format!("{failed} of {of} partitions failed; first: {said}")),
    })
}

/// Reads a partition into its part of the sink.
async fn read(
    source: &Source,
    partition: &Partition,
    mut writer: Box<dyn Writer>,
    residual: Option<&Predicate>,
    wanted: Wanted<'_>,
    tally: &Tally,
) -> Result<Slice> {
    let mut read = source.read(partition)?;
    let _metered = tally.metered(read.meter());
    // Taken before the sink sees the rows, and by the sink again where it lets go of them.
    let mut content = Crc::new();
    let receipt = loop {
        if wanted.has_enough(tally) {
            break None;
        }
        match read.try_next().await.map_err(|error| error.with("partition", partition.id()))? {
            Some(Event::Batch(batch)) => {
                let batch = wanted.shape(&batch, residual, tally)?;
                if batch.num_rows() > 0 {
                    content.add_batch(&batch)?;
                    writer = blocking(move || writer.write(&batch).map(|()| writer)).await?;
                }
            }
            Some(Event::Done(receipt)) => break Some(receipt),
            // A read with a limit proves nothing.
            None if wanted.limit.is_some() => break None,
            None => return Err(Error::new(ErrorKind::Bug, "a read ended without a receipt")),
        }
    };
    let finished = blocking(move || writer.finish()).await?;
    if finished.content != content.value() {
        let said = "the rows that were stored are not the rows that were read: their checksums differ";
        return Err(Error::new(ErrorKind::Store, said).with("partition", partition.id()));
    }
    Ok(Slice { finished, receipt })
}

/// Runs what may block (a slow disk, a reader of our output that stalls) where it stops nothing else.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Error::new(ErrorKind::Bug, format!("writing was cut short: {error}"))))
}
