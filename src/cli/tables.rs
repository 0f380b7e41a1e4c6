//! `restmark tables`: a line each.

use std::path::Path;

use super::console::Console;
use super::{describe, open};
use crate::error::Result;

pub(super) fn run(config: &Path, console: &mut Console) -> Result<()> {
    let source = open(config, console)?;
    let tables = &source.config().tables;
    let width = tables.iter().map(|table| table.name.chars().count()).max().unwrap_or(0);
    for table in tables {
        let mode = match &table.checkpoint {
            Some(checkpoint) => format!("{} checkpoint", checkpoint.mode.mode()),
            None => "no checkpoint".to_owned(),
        };
        let line = format!("{:width$}  {}  {mode}: {}", table.name, table.url, describe::guarantee(table));
        console.print(&line)?;
    }
    Ok(())
}
