//! `restmark check`: everything a configuration promises, and every problem it has; with `--connect` also its stores,
//! and its `openapi` document where that is a URL.

use std::path::Path;

use super::console::Console;
use super::{counted, describe, open};
use crate::config::TableConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::source::Source;

pub(super) async fn run(config: &Path, connect: bool, console: &mut Console) -> Result<()> {
    let source = open(config, console)?;
    for table in &source.config().tables {
        let file = source.checkpoints().path(&table.name).map_or_else(String::new, |file| format!(", in {file}"));
        console.print(&format!(
            "{}\n  endpoint    {} {}\n{}  paging      {}\n{}  checkpoint  {}{file}\n  guarantee   {}",
            table.name,
            table.method.as_str(),
            table.url,
            columns(&source, table),
            describe::paging(&table.pagination),
            describe::slices(table).map_or_else(String::new, |slices| format!("  partitions  {slices}\n")),
            describe::checkpoint(table),
            describe::guarantee(table),
        ))?;
        for (output, holds) in describe::outputs(table) {
            console.print(&format!("  {output:<10}  {holds}"))?;
        }
        for (name, what) in describe::exploded(table) {
            console.print(&format!("  exploded    {name}: {what}"))?;
        }
    }
    let (tables, warnings) = (source.config().tables.len(), source.config().warnings.len());
    let said = if warnings == 0 { "no problems".to_owned() } else { counted(warnings as u64, "warning") };
    console.say(&format!("{}: {}, {said}", config.display(), counted(tables as u64, "table")));
    if !connect {
        return Ok(());
    }
    let described = try_document(&source, console).await;
    let stored = try_stores(&source, console).await;
    described.and(stored)
}

/// A line about columns of the `openapi` document.
fn columns(source: &Source, table: &TableConfig) -> String {
    match source.openapi().filter(|_| table.is_from_spec) {
        Some(place) if table.awaits_columns() => {
            format!("  columns     of {place}, asked when they are first needed\n")
        }
        Some(place) => format!("  columns     {} of {place}\n", table.columns.len()),
        None => String::new(),
    }
}

/// Asks for a document at a URL, and of it for every table that needs it.
async fn try_document(source: &Source, console: &mut Console) -> Result<()> {
    let mut failed = 0_u64;
    for table in source.config().tables.iter().filter(|table| table.awaits_columns()) {
        match source.schema(&table.name).await {
            Ok(schema) => {
                let count = schema.map_or(0, |schema| schema.columns.len()) as u64;
                let place = source.openapi().unwrap_or_default();
                console.say(&format!("{}: {place} gives {}", table.name, counted(count, "column")));
            }
            // Without a document there is nothing to ask for the other tables.
            Err(error) if error.context("table").is_none() => return Err(error),
            Err(error) => {
                failed += 1;
                console.error(&error.to_string());
            }
        }
    }
    if failed == 0 {
        return Ok(());
    }
    let said = format!("{} cannot have its columns of the openapi document", counted(failed, "table"));
    Err(Error::new(ErrorKind::Schema, said))
}

/// Reads every checkpoint once, as a read would at its start.
async fn try_stores(source: &Source, console: &mut Console) -> Result<()> {
    let (mut tried, mut failed) = (0_u64, 0_u64);
    for table in &source.config().tables {
        let Some(file) = source.checkpoints().path(&table.name) else { continue };
        tried += 1;
        match source.checkpoints().load(&table.name).await {
            Ok(Some(checkpoint)) => console.say(&format!("{}: {file} holds {}", table.name, checkpoint.position)),
            Ok(None) => console.say(&format!("{}: {file} can be read, and is not there yet", table.name)),
            Err(error) => {
                failed += 1;
                console.error(&error.with("table", &table.name).to_string());
            }
        }
    }
    match (tried, failed) {
        (0, _) => console.say("no table has a checkpoint: there is no store to try"),
        (_, 0) => {}
        (tried, failed) => {
            let said = format!("{failed} of {} cannot be used", counted(tried, "checkpoint"));
            return Err(Error::new(ErrorKind::Store, said));
        }
    }
    Ok(())
}
