//! `restmark check`: everything a configuration promises, and every problem it has; with `--connect` its stores too.

use std::path::Path;

use super::console::Console;
use super::{counted, describe, open};
use crate::error::{Error, ErrorKind, Result};
use crate::source::Source;

pub(super) async fn run(config: &Path, connect: bool, console: &mut Console) -> Result<()> {
    let source = open(config, console)?;
    for table in &source.config().tables {
        let file = source.checkpoints().path(&table.name).map_or_else(String::new, |file| format!(", in {file}"));
        console.print(&format!(
            "{}\n  endpoint    {} {}\n  paging      {}\n  checkpoint  {}{file}\n  guarantee   {}",
            table.name,
            table.method.as_str(),
            table.url,
            describe::paging(&table.pagination),
            describe::checkpoint(table),
            describe::guarantee(table),
        ))?;
        for (name, what) in describe::exploded(table) {
            console.print(&format!("  exploded    {name}: {what}"))?;
        }
    }
    let (tables, warnings) = (source.config().tables.len(), source.config().warnings.len());
    let said = if warnings == 0 { "no problems".to_owned() } else { counted(warnings as u64, "warning") };
    console.say(&format!("{}: {}, {said}", config.display(), counted(tables as u64, "table")));
    if connect { try_stores(&source, console).await } else { Ok(()) }
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
