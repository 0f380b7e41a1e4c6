//! A table as queries see it: a query is a plan of its own, read apart from what is stored.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::error::Result as Answer;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown as Support, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::failure::external;
use super::predicate::predicate;
use super::scan::{RestExec, Rows};
use crate::config::{Partitioning, TableConfig};
use crate::counts::{Counts, Meter};
use crate::error::Result;
use crate::filter::Predicate;
use crate::plan::{Pushdown, Scan};
use crate::source::{Shape, Source};

/// The reads of a table's queries, for the loss report.
pub(super) type Meters = Arc<Mutex<Vec<Arc<Meter>>>>;

/// A table of a source. Each query reads the whole table, wherever its checkpoint stands, and moves nothing.
///
/// Comparisons that the table's `filters` know are sent to the API; DataFusion applies them again, unless the filter is
/// `exact`. A table with an enabled checkpoint is sent none (R10).
#[derive(Debug)]
pub struct RestTable {
    source: Arc<Source>,
    shape: Shape,
    meters: Meters,
}

impl RestTable {
    /// The table of this name. Where its columns are inferred its first rows are asked for, once.
    ///
    /// # Errors
    /// As [`Source::shape`].
    pub async fn new(source: Arc<Source>, name: &str) -> Result<Self> {
        let shape = source.shape(name).await?;
        Ok(Self { source, shape, meters: Meters::default() })
    }

    /// The source it is of.
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// Its settings.
    pub fn config(&self) -> &TableConfig {
        &self.shape.table
    }

    /// The loss report of all its queries so far (R25).
    pub fn counts(&self) -> Counts {
        let mut counts = self.shape.counts.clone();
        for meter in self.meters.lock().iter().flat_map(|held| held.iter()) {
            counts.merge(meter.counts());
        }
        counts
    }

    pub(super) fn meters(&self) -> &Meters {
        &self.meters
    }

    /// What the API could do for these predicates together.
    fn pushdown(&self, parts: Vec<Predicate>) -> Pushdown {
        Pushdown::of(Predicate::all(parts).as_ref(), &self.shape.table)
    }

    /// Whether a predicate bounds the windows of a date-range partition.
    fn bounds_windows(&self, part: &Predicate) -> bool {
        let Some(Partitioning::Dates { column, .. }) = &self.shape.table.partition else { return false };
        part.comparison().is_some_and(|(name, _, literal)| name == column && literal.instant().is_some())
    }

    fn support(&self, predicate: &Predicate, pushed: &Pushdown) -> Support {
        let parts = predicate.conjuncts();
        let sent = |part: &Predicate| pushed.sent.iter().find(|sent| sent.predicate == *part);
        if parts.iter().all(|part| sent(part).is_some_and(|sent| sent.exact)) {
            Support::Exact
        } else if parts.iter().any(|part| sent(part).is_some() || self.bounds_windows(part)) {
            Support::Inexact
        } else {
            Support::Unsupported
        }
    }
}

#[async_trait]
impl TableProvider for RestTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.shape.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        let total = usize::try_from(self.shape.total?).ok()?;
        Some(Statistics::new_unknown(&self.shape.schema).with_num_rows(Precision::Inexact(total)))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Answer<Vec<Support>> {
        let table = &self.shape.table;
        // What the elements of an array are is inferred again by each read: a filter could show it other records.
        if table.checkpoint.is_some() || table.array().is_some() {
            return Ok(vec![Support::Unsupported; filters.len()]);
        }
        let predicates: Vec<_> = filters.iter().map(|filter| predicate(filter, &self.shape.schema)).collect();
        let pushed = self.pushdown(predicates.iter().flatten().cloned().collect());
        let support = |predicate: &Option<Predicate>| {
            predicate.as_ref().map_or(Support::Unsupported, |predicate| self.support(predicate, &pushed))
        };
        Ok(predicates.iter().map(support).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Answer<Arc<dyn ExecutionPlan>> {
        let table = &self.shape.table;
        let predicates = filters.iter().filter_map(|filter| predicate(filter, &self.shape.schema)).collect();
        let predicate = Predicate::all(predicates);
        let pushed = Pushdown::of(predicate.as_ref(), table);
        // A filter that DataFusion does not apply again, because alone it is answered exactly, but not beside others.
        let dropped = pushed.residual.iter().flat_map(Predicate::conjuncts);
        let mask =
            Predicate::all(dropped.filter(|part| self.pushdown(vec![part.clone()]).residual.is_none()).collect());

        let names: Option<Vec<String>> =
            projection.map(|places| places.iter().map(|at| self.shape.schema.field(*at).name().clone()).collect());
        let wanted = names.as_ref().map(Vec::len);
        let select = names.map(|mut names| {
            let hidden = mask.iter().flat_map(Predicate::columns).filter(|column| !names.iter().any(|n| n == column));
            let hidden: Vec<String> = hidden.map(str::to_owned).collect();
            names.extend(hidden);
            names
        });
        let schema = match &select {
            Some(names) => {
                let places =
                    names.iter().map(|name| self.shape.schema.index_of(name)).collect::<Result<Vec<_>, _>>()?;
                Arc::new(self.shape.schema.project(&places)?)
            }
            None => Arc::clone(&self.shape.schema),
        };
        let scan = Scan {
            select,
            filter: predicate,
            limit: limit.map(|rows| rows as u64),
            columns: table.is_sampled().then(|| table.columns.clone()),
            ..Scan::of(&table.name).apart()
        };
        let plan = self.source.plan(scan).await.map_err(external)?;
        let rows = Rows {
            mask,
            keep: wanted.map(|wanted| (0..wanted).collect()),
            total: self.shape.total,
            meters: Arc::clone(&self.meters),
            ..Rows::new(Arc::clone(&self.source), plan, schema)
        };
        RestExec::of(rows, state)
    }
}
