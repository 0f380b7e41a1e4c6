//! `restmark checkpoint show|set|clear`: a position in words, by hand, or gone.

use std::env;
use std::fs;

use super::args::{CheckpointCommand, TableArg};
use super::console::Console;
use super::open;
use crate::error::{Error, ErrorKind, Result};
use crate::position::{Checkpoint, Instant, TimestampFormat};
use crate::run;
use crate::source::Source;

pub(super) async fn run(command: CheckpointCommand, console: &mut Console) -> Result<()> {
    match command {
        CheckpointCommand::Show(of) => {
            let (source, file) = find(&of, console)?;
            match source.checkpoints().load(&of.table).await? {
                Some(checkpoint) => console.print(&in_words(&file, &checkpoint)),
                None => console.print(&format!("{file}\n  no position: the next read is a first run")),
            }
        }
        CheckpointCommand::Set { of, value } => {
            let (source, file) = find(&of, console)?;
            run::finish(&source, &of.table).await?;
            let checkpoint = source.checkpoints().set(&of.table, &value, &who()).await?;
            console.print(&in_words(&file, &checkpoint))
        }
        CheckpointCommand::Clear(of) => {
            let (source, file) = find(&of, console)?;
            run::finish(&source, &of.table).await?;
            let cleared = source.checkpoints().clear(&of.table).await?;
            let what = if cleared { "removed" } else { "there was none" };
            console.print(&format!("{file}\n  {what}: the next read is a first run"))
        }
    }
}

fn find(of: &TableArg, console: &mut Console) -> Result<(Source, String)> {
    let source = open(&of.config, console)?;
    source.table(&of.table)?;
    let file = source.checkpoints().path(&of.table).ok_or_else(|| {
        Error::new(ErrorKind::Config, "the table has no checkpoint: every run reads all of it").with("table", &of.table)
    })?;
    Ok((source, file))
}

fn in_words(file: &str, checkpoint: &Checkpoint) -> String {
    let when = |at: Instant| TimestampFormat::Rfc3339.render(at);
    let mut lines = vec![
        file.to_owned(),
        format!("  position    {}", checkpoint.position),
        format!("  generation  {}", checkpoint.generation),
    ];
    lines.extend(checkpoint.committed_at.map(|at| format!("  committed   {}", when(at))));
    for edit in &checkpoint.edits {
        let from = edit.from.as_ref().map_or_else(|| "nothing".to_owned(), |from| format!("{from:?}"));
        lines.push(format!("  edited      {} by {}, before it was {from}", when(edit.at), edit.who));
    }
    lines.join("\n")
}

/// User and host, as far as they are known.
fn who() -> String {
    let first = |names: &[&str]| names.iter().find_map(|name| env::var(name).ok().filter(|text| !text.is_empty()));
    let user = first(&["USER", "LOGNAME", "USERNAME"]).unwrap_or_else(|| "unknown".to_owned());
    let host =
        fs::read_to_string("/etc/hostname").ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let host = host.or_else(|| first(&["HOSTNAME", "COMPUTERNAME"])).unwrap_or_else(|| "unknown".to_owned());
    format!("{user}@{host}")
}
