//! `restmark sql`: one query over the tables of one or more configurations; moves nothing.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema, SchemaRef};
use datafusion::common::{DFSchema, TableReference};
use datafusion::prelude::SQLOptions;
use futures::StreamExt as _;

use super::args::{SqlArgs, SqlFormat};
use super::console::Console;
use super::plain::plain;
use super::{open, plain as plainly, report, table_text};
use crate::error::{Error, ErrorKind, Result};
use crate::gather::blocking;
use crate::sink::{Format, OneFile, text_header, text_rows};
use crate::sql::{self, RestSchema, into_error};

/// Where rows go.
enum Out {
    /// A table for people: it is as wide as its widest cell, so all rows are held.
    Table(Vec<RecordBatch>),
    /// Standard output.
    Lines(Format),
    File(Box<OneFile>, Format),
}

pub(super) async fn run(args: SqlArgs, console: &mut Console) -> Result<()> {
    let format = match (args.format, &args.to) {
        (None | Some(SqlFormat::Table), None) => None,
        (Some(SqlFormat::Table), Some(_)) => return usage("--format table is for people: it takes no --to".into()),
        (Some(SqlFormat::Parquet), None) => return usage("--format parquet needs --to FILE".into()),
        (Some(SqlFormat::Ndjson), _) => Some(Format::Ndjson),
        (Some(SqlFormat::Csv), _) => Some(Format::Csv),
        (None | Some(SqlFormat::Parquet), Some(_)) => Some(Format::Parquet),
    };
    let tables = tables(&args.config, console)?;
    let context = sql::session(Arc::clone(&tables), args.parallel)?;
    let mut sources = vec![(stem(&args.config)?, tables)];
    for other in &args.with {
        let name = stem(other)?;
        if sources.iter().any(|(known, _)| *known == name) {
            return usage(format!("two configurations are named {name}: their tables could not be told apart"));
        }
        sources.push((name, self::tables(other, console)?));
    }
    for (name, tables) in &sources {
        sql::add(&context, name, Arc::clone(tables))?;
    }

    let answered = async {
        let only_queries = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        let frame = context.sql_with_options(&args.query, only_queries).await.map_err(into_error)?;
        let schema = named(frame.schema());
        let mut out = match (format, &args.to) {
            (None, _) => Out::Table(vec![RecordBatch::new_empty(Arc::new(plainly::schema(&schema)))]),
            (Some(format), None) => Out::Lines(format),
            (Some(format), Some(path)) => {
                let whole = if format == Format::Parquet { (*schema).clone() } else { plainly::schema(&schema) };
                Out::File(Box::new(OneFile::create(path, format, &whole)?), format)
            }
        };
        out.begin(&schema)?;
        let mut rows = frame.execute_stream().await.map_err(into_error)?;
        while let Some(batch) = rows.next().await {
            let batch = renamed(&batch.map_err(into_error)?, &schema)?;
            // Whoever takes our output may stall; that stops nothing else.
            out = blocking(move || out.take(&batch)).await?;
        }
        out.end(console).await
    };
    let answered = answered.await;
    for (_, tables) in &sources {
        for (table, counts) in tables.counts().into_iter().filter(|(_, counts)| counts.requests > 0) {
            report::print_counts(console, &table, &counts);
        }
    }
    answered
}

impl Out {
    fn begin(&self, schema: &Schema) -> Result<()> {
        let Self::Lines(format) = self else { return Ok(()) };
        let mut bytes = Vec::new();
        text_header(*format, schema, &mut bytes);
        Console::print_bytes(&bytes)
    }

    fn take(mut self, batch: &RecordBatch) -> Result<Self> {
        match &mut self {
            Self::Table(batches) => batches.push(plain(batch)?),
            Self::Lines(format) => {
                let mut bytes = Vec::new();
                text_rows(*format, &plain(batch)?, &mut bytes)?;
                Console::print_bytes(&bytes)?;
            }
            Self::File(file, Format::Parquet) => file.write(batch)?,
            Self::File(file, _) => file.write(&plain(batch)?)?,
        }
        Ok(self)
    }

    async fn end(self, console: &Console) -> Result<()> {
        match self {
            Self::Table(batches) => console.print(&table_text::render(&batches)?),
            Self::Lines(_) => Ok(()),
            Self::File(file, _) => blocking(move || file.publish()).await,
        }
    }
}

/// The columns of a query by names that differ: `a.id` and `b.id` where both are asked for.
fn named(schema: &DFSchema) -> SchemaRef {
    let is_alone = |name: &str| schema.fields().iter().filter(|field| field.name() == name).count() == 1;
    let named = |(qualifier, field): (Option<&TableReference>, &Arc<Field>)| match qualifier {
        Some(table) if !is_alone(field.name()) => {
            field.as_ref().clone().with_name(format!("{}.{}", table.table(), field.name()))
        }
        _ => field.as_ref().clone(),
    };
    // Values that are never NULL may be so in a batch that was widened.
    let fields = schema.iter().map(named).map(|field| field.with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn renamed(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &options)
        .map_err(|error| Error::new(ErrorKind::Bug, format!("the rows could not be named: {error}")))
}

fn tables(config: &Path, console: &mut Console) -> Result<Arc<RestSchema>> {
    Ok(Arc::new(RestSchema::new(Arc::new(open(config, console)?))))
}

/// The name of a configuration in queries: that of its file.
fn stem(config: &Path) -> Result<String> {
    match config.file_stem().and_then(|stem| stem.to_str()) {
        Some(stem) => Ok(stem.to_owned()),
        None => usage(format!("{} has no name that a query could say", config.display())),
    }
}

fn usage<T>(what: String) -> Result<T> {
    Err(Error::new(ErrorKind::Config, what))
}
