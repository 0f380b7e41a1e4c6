//! `restmark read`: one batch run and its loss report.

use std::future::Future;
use std::sync::Arc;

use chrono::Utc;

use super::args::{FormatArg, ModeArg, ReadArgs};
use super::console::Console;
use super::progress::Bar;
use super::{Ended, open, report};
use crate::counts::Meters;
use crate::error::{Error, ErrorKind, Result};
use crate::filter::Predicate;
use crate::run::{BatchRun, Outcome};
use crate::sink::{Destination, Existing, Format, Output};

pub(super) async fn run(args: ReadArgs, console: &mut Console, interrupted: impl Future<Output = ()>) -> Result<Ended> {
    let source = open(&args.of.config, console)?;
    let run = batch_run(args)?;
    for warning in run.warnings(&source)? {
        console.warn(&warning);
    }
    let meters = Arc::new(Meters::default());
    let bar = Bar::new(console, &run, &meters);
    let outcome = run.run(&source, Utc::now(), &meters, interrupted).await;
    bar.clear();
    match outcome {
        Ok(Outcome::Done(report)) => {
            report::print(console, &run, &report);
            Ok(Ended::Well)
        }
        unfinished => {
            report::print_failed(console, &run.table, &meters.counts());
            unfinished.map(|_| Ended::Interrupted)
        }
    }
}

fn batch_run(args: ReadArgs) -> Result<BatchRun> {
    let usage = |what: &str| Err(Error::new(ErrorKind::Config, what));
    let destination = Destination::parse(&args.to)?;
    let to_files = matches!(destination, Destination::Files(_));
    if !to_files && args.mode.is_some() {
        return usage("--mode needs --to DIR");
    }
    let format = args.format.map(FormatArg::format);
    if !to_files && format.is_some_and(|format| format != Format::Ndjson) {
        return usage("--format needs --to DIR; standard output is NDJSON, and null: writes nothing");
    }
    let existing = args.mode.map(|mode| match mode {
        ModeArg::Error => Existing::Error,
        ModeArg::Append => Existing::Append,
        ModeArg::Overwrite => Existing::Overwrite,
    });
    let output = Output { destination, format: format.unwrap_or_default(), existing };
    let every = BatchRun::new(args.of.table, output);
    Ok(BatchRun {
        select: args.query.select,
        filter: args.query.filter.as_deref().map(Predicate::parse).transpose()?,
        limit: args.query.limit,
        full: args.query.full,
        parallel: args.parallel.unwrap_or(every.parallel),
        ..every
    })
}
