//! `restmark check`: everything a configuration promises, and every problem it has.

use std::path::Path;

use super::console::Console;
use super::{describe, open};
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
    let count = source.config().tables.len();
    console.say(&format!("{}: {count} table{}, no problems", config.display(), if count == 1 { "" } else { "s" }));
    Ok(())
}
