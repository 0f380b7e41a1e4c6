//! `restmark check`: everything a configuration promises, and every problem it has.

use std::path::Path;

use super::console::Console;
use super::{counted, describe, open};
use crate::error::Result;

pub(super) fn run(config: &Path, console: &mut Console) -> Result<()> {
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
    }
    let (tables, warnings) = (source.config().tables.len(), source.config().warnings.len());
    let said = if warnings == 0 { "no problems".to_owned() } else { counted(warnings as u64, "warning") };
    console.say(&format!("{}: {}, {said}", config.display(), counted(tables as u64, "table")));
    Ok(())
}
