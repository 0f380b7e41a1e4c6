//! What a table looks like before it is read: its columns, from the configuration or from its first rows.

use arrow_schema::SchemaRef;
use chrono::Utc;

use super::{Source, unique_id, with_columns};
use crate::column::Column;
use crate::config::{SchemaMode, TableConfig};
use crate::counts::Counts;
use crate::error::{Error, ErrorKind, Result};
use crate::filter::Predicate;
use crate::plan::{Plan, Scan};
use crate::position::Instant;
use crate::read::Event;
use crate::schema;

/// The most partitions that are asked for a first row, to infer the columns of all.
const SAMPLED_MAX: usize = 16;

/// What the first rows of a table show.
#[derive(Debug)]
pub(super) struct Sample {
    /// The columns of an inferred table; those of an exploded one belong to two kinds of records and do not travel.
    pub(super) columns: Option<Vec<Column>>,
    schema: SchemaRef,
    total: Option<u64>,
    counts: Counts,
}

/// A table whose columns are known.
#[derive(Debug)]
pub struct Shape {
    /// Its settings, with the columns that were found.
    pub table: TableConfig,
    /// The columns of its batches.
    pub schema: SchemaRef,
    /// The records it was said to have when its first rows were asked for.
    pub total: Option<u64>,
    /// What was sent and received to find out.
    pub counts: Counts,
}

impl Source {
    /// The columns of a table, whatever it takes: where they are inferred, its first rows are asked for.
    ///
    /// # Errors
    /// Kind `Schema` where no rows came that would show them; and as [`Source::schema`] and [`Source::read`].
    pub async fn shape(&self, name: &str) -> Result<Shape> {
        let table = self.resolved(self.table(name)?.config).await?.into_owned();
        if let Some(schema) = schema::for_table(&table) {
            return Ok(Shape { table, schema: schema.arrow(), total: None, counts: Counts::default() });
        }
        let Some(sample) = self.sampled(&table, None, Utc::now()).await? else {
            let what = "no rows came that would show its columns; declare them (columns)";
            return Err(Error::new(ErrorKind::Schema, what).with("table", name));
        };
        let table = match sample.columns {
            Some(columns) => with_columns(&table, columns)?,
            None => table,
        };
        let schema = schema::for_table(&table).map_or(sample.schema, |schema| schema.arrow());
        Ok(Shape { table, schema, total: sample.total, counts: sample.counts })
    }

    /// What the first rows show, in whichever partition they are; `None` where none were found.
    pub(super) async fn sampled(
        &self,
        table: &TableConfig,
        filter: Option<Predicate>,
        now: Instant,
    ) -> Result<Option<Sample>> {
        let scan = Scan { filter, ..Scan::of(&table.name).sample(table.pagination.max_page_size) };
        let plan = Plan::freeze(scan, &self.config, table, None, unique_id(now), now)?;
        let travels = table.schema.mode == SchemaMode::Infer && table.array().is_none();
        let mut counts = Counts::default();
        for partition in plan.partitions().iter().take(SAMPLED_MAX) {
            let mut read = self.read(partition)?;
            let first = read.try_next().await?;
            // The rows are asked for again, and counted then.
            let Counts { requests, retries, pages, bytes, .. } = read.meter().counts();
            counts.merge(Counts { requests, retries, pages, bytes, ..Counts::default() });
            if let Some(Event::Batch(batch)) = first {
                return Ok(Some(Sample {
                    columns: read.columns().filter(|_| travels).map(<[Column]>::to_vec),
                    schema: batch.schema(),
                    // A slice does not speak for the table.
                    total: read.total().filter(|_| travels && !table.is_sliced()),
                    counts,
                }));
            }
        }
        Ok(None)
    }
}
