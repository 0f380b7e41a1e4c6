//! `restmark tables`: a line each.

use std::path::Path;

use super::console::Console;
use super::{describe, open};
use crate::config::TableConfig;
use crate::error::Result;

pub(super) fn run(config: &Path, console: &mut Console) -> Result<()> {
    let source = open(config, console)?;
    let tables = &source.config().tables;
    let exploded = |table: &TableConfig| describe::exploded(table).into_iter().map(|(name, _)| name);
    let names = tables.iter().flat_map(|table| std::iter::once(table.name.clone()).chain(exploded(table)));
    let width = names.map(|name| name.chars().count()).max().unwrap_or(0);
    for table in tables {
        let mode = match &table.checkpoint {
            Some(checkpoint) => format!("{} checkpoint", checkpoint.mode.mode()),
            None => "no checkpoint".to_owned(),
        };
        let slices = describe::slices(table).map(|slices| format!("; {slices}")).unwrap_or_default();
        let line = format!("{:width$}  {}  {mode}: {}{slices}", table.name, table.url, describe::guarantee(table));
        console.print(&line)?;
        for (name, what) in describe::exploded(table) {
            console.print(&format!("{name:width$}  {what}"))?;
        }
    }
    Ok(())
}
