//! One frozen plan as a table, which gathers receipts: an executor can commit after its query (R2).

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result as Answer;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::scan::{RestExec, Rows};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::Plan;
use crate::read::Receipt;
use crate::schema;
use crate::source::Source;

/// The rows of one plan. Queries take what they need of them; the reads are exactly those of the plan.
///
/// Dropping it does nothing. It is read once: each partition leaves one receipt if it was read to its end. After the
/// query succeeded, and whatever the executor does with its result, `plan.seal(table.receipts())` is the proof that a
/// commit needs; after a failure, a cancellation or a `LIMIT` on the table receipts are missing, and the plan cannot be
/// sealed. A `WHERE`, or a `LIMIT` behind one, is the executor's choice of rows: all of the plan may have been read.
#[derive(Debug)]
pub struct PlanTable {
    source: Arc<Source>,
    plan: Plan,
    schema: SchemaRef,
    receipts: Arc<Receipts>,
}

impl PlanTable {
    /// The rows of a plan of this source. Where its columns are inferred the table's first rows are asked for.
    ///
    /// What the API leaves to do of the plan's own filter ([`Plan::residual`]) is done here.
    ///
    /// # Errors
    /// Kind `Scan` where the plan's filter looks at columns that it does not select; and as [`Source::shape`].
    pub async fn new(source: Arc<Source>, mut plan: Plan) -> Result<Self> {
        let shape = source.shape(plan.table()).await?;
        let mut schema = shape.schema;
        if shape.table.is_sampled() {
            // All that it reads has the columns that queries see.
            for partition in plan.partitions.iter_mut().filter(|partition| partition.columns.is_none()) {
                partition.columns = Some(shape.table.columns.clone());
            }
        }
        let select = plan.partitions().first().and_then(|partition| partition.select.as_ref());
        if let (Some(all), Some(names)) = (schema::for_table(&shape.table), select) {
            let unknown = |name| Error::new(ErrorKind::Scan, format!("there is no column {name:?}"));
            schema = all.project(names).map_err(unknown)?.arrow();
        }
        plan.residual().map_or(Ok(()), |filter| filter.check(&schema)).map_err(|e| e.with("table", plan.table()))?;
        Ok(Self { source, plan, schema, receipts: Arc::default() })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Takes the receipts so far.
    pub fn receipts(&self) -> Vec<Receipt> {
        self.receipts.take()
    }
}

#[async_trait]
impl TableProvider for PlanTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Answer<Arc<dyn ExecutionPlan>> {
        let rows = Rows {
            mask: self.plan.residual().cloned(),
            keep: projection.cloned(),
            // Whoever takes only some rows has no proof of the others.
            receipts: Some(if limit.is_some() { self.receipts.apart() } else { Arc::clone(&self.receipts) }),
            ..Rows::new(Arc::clone(&self.source), self.plan.clone(), Arc::clone(&self.schema))
        };
        RestExec::of(rows, state)
    }
}

/// Proofs of reads, and what was begun.
#[derive(Debug, Default)]
pub(super) struct Receipts {
    begun: Arc<Mutex<HashSet<String>>>,
    receipts: Mutex<Vec<Receipt>>,
}

impl Receipts {
    /// The same reads, whose proofs nobody gets.
    fn apart(&self) -> Arc<Self> {
        Arc::new(Self { begun: Arc::clone(&self.begun), receipts: Mutex::default() })
    }

    /// Takes note that a partition is read.
    pub(super) fn begin(&self, partition: &str) -> Result<()> {
        let is_first = self.begun.lock().is_ok_and(|mut begun| begun.insert(partition.to_owned()));
        let said = "a plan is read once, since its receipts prove one read: plan again, or query the table itself";
        if is_first { Ok(()) } else { Err(Error::new(ErrorKind::Scan, said).with("partition", partition)) }
    }

    pub(super) fn put(&self, receipt: Receipt) {
        if let Ok(mut receipts) = self.receipts.lock() {
            receipts.push(receipt);
        }
    }

    fn take(&self) -> Vec<Receipt> {
        self.receipts.lock().map(|mut receipts| std::mem::take(&mut *receipts)).unwrap_or_default()
    }
}
