//! One stream for each partition of a plan, as DataFusion runs it; `EXPLAIN` shows what is asked.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result as Answer;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions, SchedulingType,
};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, SendableRecordBatchStream,
};
use futures::stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::failure::external;
use super::planned::Receipts;
use super::table::Meters;
use crate::counts::Meter;
use crate::error::{Error, ErrorKind, Result};
use crate::filter::Predicate;
use crate::plan::Plan;
use crate::read::{Event, Read};
use crate::source::Source;

/// The first requests that `EXPLAIN` shows; `EXPLAIN VERBOSE` shows all.
const SHOWN: usize = 3;

/// What is read, and what becomes of the rows.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) source: Arc<Source>,
    pub(super) plan: Plan,
    /// The columns that are read.
    pub(super) schema: SchemaRef,
    /// Only rows for which this is true leave.
    pub(super) mask: Option<Predicate>,
    /// Only these columns leave.
    pub(super) keep: Option<Vec<usize>>,
    /// The records the table was said to have.
    pub(super) total: Option<u64>,
    pub(super) meters: Meters,
    /// Where proofs go, if anybody wants them.
    pub(super) receipts: Option<Arc<Receipts>>,
}

impl Rows {
    /// All rows of a plan, as they come.
    pub(super) fn new(source: Arc<Source>, plan: Plan, schema: SchemaRef) -> Self {
        Self { source, plan, schema, mask: None, keep: None, total: None, meters: Meters::default(), receipts: None }
    }

    /// Starts reading a partition.
    fn begin(&self, at: usize) -> Result<Read> {
        let Some(partition) = self.plan.partitions().get(at) else {
            return Err(Error::new(ErrorKind::Bug, format!("the plan has no partition {at}")));
        };
        if let Some(receipts) = &self.receipts {
            receipts.begin(partition.id()).map_err(|error| error.with("table", self.plan.table()))?;
        }
        let read = self.source.read(partition)?;
        if let Ok(mut meters) = self.meters.lock() {
            meters.push(Arc::clone(read.meter()));
        }
        Ok(read)
    }

    /// The rows and columns of a batch that leave.
    fn shape(&self, batch: RecordBatch) -> Result<RecordBatch> {
        if batch.schema().fields() != self.schema.fields() {
            let said = "the table has other columns than when the query was made: ask again, or declare them (columns)";
            return Err(Error::new(ErrorKind::Schema, said).with("table", self.plan.table()));
        }
        let failed = |error| Error::new(ErrorKind::Bug, format!("a batch could not be shaped: {error}"));
        let batch = match &self.mask {
            Some(mask) => filter_record_batch(&batch, &mask.mask(&batch)?).map_err(failed)?,
            None => batch,
        };
        self.keep.as_ref().map_or(Ok(batch.clone()), |keep| batch.project(keep).map_err(failed))
    }
}

/// A read under way. Dropping it stops its requests.
struct Reading {
    read: Read,
    requests: Count,
    rows: Count,
    _turn: OwnedSemaphorePermit,
}

impl Reading {
    async fn next(&mut self, of: &Rows) -> Result<Option<RecordBatch>> {
        loop {
            let event = self.read.try_next().await;
            let sent = usize::try_from(Meter::get(&self.read.meter().requests)).unwrap_or(usize::MAX);
            self.requests.add(sent.saturating_sub(self.requests.value()));
            match event? {
                Some(Event::Batch(batch)) => {
                    let batch = of.shape(batch)?;
                    self.rows.add(batch.num_rows());
                    if batch.num_rows() > 0 {
                        return Ok(Some(batch));
                    }
                }
                Some(Event::Done(receipt)) => {
                    if let Some(receipts) = &of.receipts {
                        receipts.put(receipt);
                    }
                    return Ok(None);
                }
                None => return Ok(None),
            }
        }
    }
}

/// Reads a plan.
#[derive(Debug)]
pub(super) struct RestExec {
    rows: Arc<Rows>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// How many partitions are read at a time.
    turns: Arc<Semaphore>,
    requests: Vec<String>,
}

impl RestExec {
    /// The node that reads these rows.
    pub(super) fn of(rows: Rows, state: &dyn Session) -> Answer<Arc<dyn ExecutionPlan>> {
        let schema = match &rows.keep {
            Some(keep) => Arc::new(rows.schema.project(keep)?),
            None => Arc::clone(&rows.schema),
        };
        let partitions = rows.plan.partitions();
        if partitions.is_empty() {
            return Ok(Arc::new(datafusion::physical_plan::empty::EmptyExec::new(schema)));
        }
        let requests = partitions.iter().map(|partition| rows.source.first_request(partition));
        let requests = requests.collect::<Result<_>>().map_err(external)?;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Ok(Arc::new(Self {
            rows: Arc::new(rows),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            turns: Arc::new(Semaphore::new(state.config().target_partitions().max(1))),
            requests,
        }))
    }
}

impl ExecutionPlan for RestExec {
    fn name(&self) -> &'static str {
        "RestExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _each: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Answer<TreeNodeRecursion>,
    ) -> Answer<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Answer<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("RestExec has no children") }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Answer<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> Answer<SendableRecordBatchStream> {
        let (rows, turns) = (Arc::clone(&self.rows), Arc::clone(&self.turns));
        let requests = MetricBuilder::new(&self.metrics).counter("requests", partition);
        let emitted = MetricBuilder::new(&self.metrics).output_rows(partition);
        let step = move |reading: Option<Reading>| {
            let (rows, turns) = (Arc::clone(&rows), Arc::clone(&turns));
            let (requests, emitted) = (requests.clone(), emitted.clone());
            async move {
                let mut reading = if let Some(reading) = reading {
                    reading
                } else {
                    let turn = turns.acquire_owned().await;
                    let turn = turn.map_err(|_| Error::new(ErrorKind::Bug, "no more partitions are read"))?;
                    Reading { read: rows.begin(partition)?, requests, rows: emitted, _turn: turn }
                };
                Ok::<_, Error>(reading.next(&rows).await?.map(|batch| (batch, Some(reading))))
            }
        };
        let batches = stream::try_unfold(None, move |reading| {
            let next = step(reading);
            async move { next.await.map_err(external) }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Answer<Arc<Statistics>> {
        let unknown = Statistics::new_unknown(&self.schema());
        // Of one partition nobody knows.
        let total = self.rows.total.filter(|_| args.partition().is_none() || self.requests.len() == 1);
        let limit = self.rows.plan.partitions().first().and_then(|partition| partition.limit);
        let rows = total.map(|total| limit.map_or(total, |limit| limit.min(total)));
        Ok(Arc::new(match rows.and_then(|rows| usize::try_from(rows).ok()) {
            Some(rows) => unknown.with_num_rows(Precision::Inexact(rows)),
            None => unknown,
        }))
    }
}

impl DisplayAs for RestExec {
    fn fmt_as(&self, form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.rows.plan;
        let schema = self.schema();
        let columns: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "RestExec: table={}, partitions={}", plan.table(), self.requests.len())?;
        write!(f, ", projection=[{}]", columns.join(", "))?;
        if let Some(limit) = plan.partitions().first().and_then(|partition| partition.limit) {
            write!(f, ", limit={limit}")?;
        }
        for sent in &plan.pushdown().sent {
            let exact = if sent.exact { ", exact" } else { "" };
            write!(f, ", sent=[{} as {}={}{exact}]", sent.predicate, sent.param, sent.values.join("|"))?;
        }
        for (left, why) in &plan.pushdown().left {
            write!(f, ", left=[{left}: {why}]")?;
        }
        if self.rows.source.table(plan.table()).is_ok_and(|table| table.config().checkpoint.is_some()) {
            f.write_str(", left=[every filter: the table has a checkpoint (R10)]")?;
        }
        for warning in plan.warnings() {
            write!(f, ", warning=[{warning}]")?;
        }
        let shown = if form == DisplayFormatType::Verbose { self.requests.len() } else { SHOWN };
        write!(f, ", requests=[{}", self.requests.get(..shown).unwrap_or(&self.requests).join(", "))?;
        match self.requests.len().saturating_sub(shown) {
            0 => f.write_str("]"),
            more => write!(f, ", and {more} more]"),
        }
    }
}
