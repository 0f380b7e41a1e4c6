//! `restmark preview`: the first rows as a text table; moves nothing.

use super::args::PreviewArgs;
use super::console::Console;
use super::{open, report, table_text};
use crate::error::Result;
use crate::run::head;

pub(super) async fn run(args: PreviewArgs, console: &mut Console) -> Result<()> {
    let source = open(&args.of.config, console)?;
    let (batches, counts) = head(&source, &args.of.table, args.limit).await?;
    if batches.iter().all(|batch| batch.num_rows() == 0) {
        console.say("no rows");
        return Ok(());
    }
    console.print(&table_text::render(&batches)?)?;
    report::print_losses(console, &counts);
    Ok(())
}
