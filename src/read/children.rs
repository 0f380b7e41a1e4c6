//! A child table: its parent is read from the beginning, and each key, or group of keys, is a walk of its own (R31).

mod keys;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::lineage::Lineage;
use super::{Event, Head, Reader, Reading, Receipt, Sender};
use crate::config::{Child, Join, OnMissing, SourceConfig, TableConfig};
use crate::counts::Meter;
use crate::error::{Error, ErrorKind, Result};
use crate::fetch::Client;
use crate::plan::{Partition, Plan, Scan};
use crate::text::{cut, one_line};
use keys::{Asked, Keys};

/// Small batches that wait together go on as one of at most this size.
const TOGETHER: usize = 8 << 20;

/// The state of a child table's read.
pub(super) struct Children {
    client: Client,
    config: SourceConfig,
    table: TableConfig,
    child: Child,
    partition: Partition,
    /// The partitions of the parent.
    parents: Vec<Reading>,
    keys: Keys,
    /// Walks at once.
    most: usize,
    /// Whether one walk is left, which may then send requests ahead.
    alone: Arc<AtomicBool>,
    emitted: u64,
    /// A walk stopped at the limit.
    is_cut: bool,
    meter: Arc<Meter>,
    head: Arc<Head>,
}

/// What a task has done.
enum Ended {
    /// All parents were read.
    Parents,
    /// A walk ended, by itself or at the limit.
    Walk { is_whole: bool },
}

impl Children {
    /// `client` is the source's: the parent has headers of its own.
    pub(super) fn new(
        client: &Client,
        config: &SourceConfig,
        table: &TableConfig,
        child: &Child,
        partition: &Partition,
        meter: &Arc<Meter>,
    ) -> Result<Self> {
        let format = config.http.response_format;
        let parent = config.tables.iter().find(|other| other.name == child.parent).ok_or_else(|| {
            Error::new(ErrorKind::Bug, format!("there is no table {}", child.parent)).with("table", &table.name)
        })?;
        let parent = keys::only(parent, child, format);
        let scan = Scan::of(&parent.name).select([&child.key]);
        let plan = Plan::freeze(scan, config, &parent, None, partition.plan.clone(), partition.began)?;
        let parents = Arc::<Meter>::default();
        meter.add_parents(Arc::clone(&parents));
        let readings = plan.partitions().iter().map(|of| Reading::new(client, config, &parent, of, &parents));
        Ok(Self {
            parents: readings.collect::<Result<_>>()?,
            keys: Keys::new(child, table, format),
            client: client.for_read(&table.headers, Arc::clone(meter)),
            config: config.clone(),
            table: table.clone(),
            child: child.clone(),
            partition: partition.clone(),
            // With a limit the first walk may be enough.
            most: if partition.limit.is_some() { 1 } else { config.http.read_ahead.max(1) },
            alone: Arc::default(),
            emitted: 0,
            is_cut: false,
            meter: Arc::clone(meter),
            head: Arc::default(),
        })
    }

    pub(super) fn head(&self) -> &Arc<Head> {
        &self.head
    }

    pub(super) fn ahead(&self) -> usize {
        self.most
    }

    /// Reads to the end of the last walk. `None` where the limit or the consumer stopped it: no receipt (R1).
    pub(super) async fn run(mut self, events: &Sender) -> Result<Option<Receipt>> {
        let outcome = self.walks(events).await;
        self.meter.keep(self.keys.take_counts());
        let redactor = self.client.redactor();
        let is_whole = outcome.map_err(|e| e.with("table", &self.table.name).scrubbed(|text| redactor.scrub(text)))?;
        Ok(is_whole.then(|| Receipt::of(&self.partition, super::End::default(), self.meter.counts())))
    }

    async fn walks(&mut self, events: &Sender) -> Result<bool> {
        let (rows, mut from_walks) = mpsc::channel(self.most);
        let (keys, mut from_parents) = mpsc::channel(1);
        // Whatever ends this read ends them all.
        let mut tasks = JoinSet::new();
        tasks.spawn(parents(std::mem::take(&mut self.parents), keys, self.table.name.clone()));
        let (mut running, mut all_known) = (0, false);
        while !self.is_cut {
            while running < self.most
                && let Some(asked) = self.keys.next(all_known)
            {
                tasks.spawn(self.walk(&asked, rows.clone())?);
                running += 1;
            }
            if tasks.is_empty() && all_known {
                break;
            }
            self.alone.store(all_known && running == 1 && self.keys.is_empty(), Ordering::Relaxed);
            tokio::select! {
                batch = from_walks.recv() => if !self.hand_on(batch, &mut from_walks, events).await? {
                    return Ok(false);
                },
                batch = from_parents.recv(), if !all_known && !self.keys.is_enough() => match batch {
                    Some(event) => self.keys.take(&batch_of(event)?)?,
                    None => all_known = true,
                },
                Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                    let lost = |e| Err(Error::new(ErrorKind::Bug, "a walk's task ended early").caused_by(e));
                    if let Ended::Walk { is_whole } = ended.unwrap_or_else(lost)? {
                        running -= 1;
                        self.is_cut |= !is_whole;
                    }
                }
            }
        }
        drop(rows);
        while let Some(event) = from_walks.recv().await {
            if !self.hand_on(Some(event), &mut from_walks, events).await? {
                return Ok(false);
            }
        }
        Ok(!self.is_cut)
    }

    /// One walk, with state of its own.
    fn walk(&self, asked: &Asked, rows: Sender) -> Result<impl Future<Output = Result<Ended>> + Send + use<>> {
        let (mut table, mut partition) = (self.table.clone(), self.partition.clone());
        let joined = match (&self.child.join, &asked.url) {
            (Join::Batch { param, separator, .. }, _) => {
                let joined = asked.keys.join(separator);
                partition.params.push((param.clone(), joined.clone()));
                joined
            }
            (Join::NestedLoop { .. }, Some(url)) => {
                table.url = url.clone();
                asked.keys.concat()
            }
            (Join::NestedLoop { .. }, None) => return Err(Error::new(ErrorKind::Bug, "a walk has no URL")),
        };
        let (format, select) = (self.config.http.response_format, partition.select.as_deref());
        let reader = Reader {
            lineage: Lineage::of(&table, &asked.keys, select, format),
            may_be_missing: self.child.on_missing == OnMissing::Skip,
            alone: Some(Arc::clone(&self.alone)),
            head: Arc::clone(&self.head),
            ..Reader::new(self.client.clone(), &self.config, &table, &partition, Arc::clone(&self.meter))?
        };
        let key = self.client.redactor().scrub(&format!("{} = {}", self.child.key, cut(&one_line(&joined), 120)));
        Ok(async move {
            let receipt = Box::pin(reader.run(&rows)).await.map_err(|error| error.with("parent", key))?;
            Ok(Ended::Walk { is_whole: receipt.is_some() })
        })
    }

    /// Hands rows to the consumer, those that wait together in one batch; `false` when it is gone or has enough.
    async fn hand_on(
        &mut self,
        first: Option<Result<Event>>,
        more: &mut mpsc::Receiver<Result<Event>>,
        events: &Sender,
    ) -> Result<bool> {
        let Some(first) = first else { return Ok(true) };
        let mut batches = vec![batch_of(first)?];
        let size = |batches: &[RecordBatch]| {
            let each = batches.iter().map(|batch| (batch.num_rows(), batch.get_array_memory_size()));
            each.fold((0, 0), |sum, batch| (sum.0 + batch.0, sum.1 + batch.1))
        };
        while matches!(size(&batches), (rows, bytes) if rows < self.table.schema.batch_rows && bytes < TOGETHER)
            && let Ok(event) = more.try_recv()
        {
            batches.push(batch_of(event)?);
        }
        for alike in batches.chunk_by(|one, other| one.schema_ref() == other.schema_ref()) {
            let mut batch = match alike {
                [one] => one.clone(),
                [first, ..] => concat_batches(first.schema_ref(), alike)
                    .map_err(|e| Error::new(ErrorKind::Bug, format!("batches could not be put together: {e}")))?,
                [] => continue,
            };
            if let Some(limit) = self.partition.limit {
                let left = usize::try_from(limit.saturating_sub(self.emitted)).unwrap_or(usize::MAX);
                batch = batch.slice(0, left.min(batch.num_rows()));
            }
            self.emitted += batch.num_rows() as u64;
            if batch.num_rows() > 0 && events.send(Ok(Event::Batch(batch))).await.is_err() {
                return Ok(false);
            }
        }
        Ok(self.partition.limit.is_none_or(|limit| self.emitted < limit))
    }
}

/// Reads the parent's partitions, one after the other.
async fn parents(readings: Vec<Reading>, keys: Sender, child: String) -> Result<Ended> {
    for reading in readings {
        let receipt = reading.run(&keys).await.map_err(|error| error.with("child", &child))?;
        if receipt.is_none() {
            return Err(Error::new(ErrorKind::Bug, "the parent's read ended without a receipt"));
        }
    }
    Ok(Ended::Parents)
}

fn batch_of(event: Result<Event>) -> Result<RecordBatch> {
    match event? {
        Event::Batch(batch) => Ok(batch),
        Event::Done(_) => Err(Error::new(ErrorKind::Bug, "a walk's receipt came as an event")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::Counts;

    #[test]
    fn r31_counts_of_a_parents_read_are_not_rows_of_the_child() {
        let (meter, parents) = (Meter::default(), Arc::<Meter>::default());
        meter.add_parents(Arc::clone(&parents));
        Meter::add(&meter.rows, 2);
        Meter::add(&parents.rows, 3);
        Meter::add(&parents.requests, 1);
        parents.keep(Counts { rows_emitted: 3, parents: 4, ..Counts::default() });
        meter.keep(Counts { rows_emitted: 1, ..Counts::default() });
        meter.keep(Counts { rows_emitted: 1, ..Counts::default() });
        let counts = meter.counts();
        assert_eq!((counts.rows_read, counts.rows_emitted, counts.requests, counts.parents), (2, 2, 1, 7));
    }
}
