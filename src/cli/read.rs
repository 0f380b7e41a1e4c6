//! `restmark read`: one batch run and its loss report.

use std::future::Future;
use std::sync::{Arc, Mutex};

use chrono::Utc;

use super::args::{FormatArg, ModeArg, ReadArgs};
use super::console::Console;
use super::progress::Bar;
use super::{Ended, later, open, report};
use crate::counts::Meter;
use crate::error::{Error, ErrorKind, Result};
use crate::filter::Predicate;
use crate::run::{BatchRun, Outcome};
use crate::sink::{Destination, Existing, Format, Output};

pub(super) async fn run(args: ReadArgs, console: &mut Console, interrupted: impl Future<Output = ()>) -> Result<Ended> {
    if args.parallel.is_some() {
        return later("read --parallel").map(|()| Ended::Well);
    }
    let source = open(&args.of.config, console)?;
    let run = batch_run(args)?;
    for warning in run.warnings(&source)? {
        console.warn(&warning);
    }
    let bar = Bar::new(console, &run);
    let last: Mutex<Option<Arc<Meter>>> = Mutex::new(None);
    let watch = |meter: &Arc<Meter>| {
        bar.follow(meter);
        if let Ok(mut last) = last.lock() {
            *last = Some(Arc::clone(meter));
        }
    };
    let outcome = run.run(&source, Utc::now(), &watch, interrupted).await;
    bar.clear();
    match outcome {
        Ok(Outcome::Done(report)) => {
            report::print(console, &run, &report);
            Ok(Ended::Well)
        }
        unfinished => {
            if let Some(meter) = last.lock().ok().and_then(|last| last.clone()) {
                report::print_failed(console, &run, &meter.counts());
            }
            unfinished.map(|_| Ended::Interrupted)
        }
    }
}

fn batch_run(args: ReadArgs) -> Result<BatchRun> {
    let usage = |what: &str| Err(Error::new(ErrorKind::Config, what));
    let destination = Destination::parse(&args.to)?;
    let to_files = matches!(destination, Destination::Directory(_));
    if !to_files && args.mode.is_some() {
        return usage("--mode needs --to DIR");
    }
    let format = args.format.map(|format| match format {
        FormatArg::Parquet => Format::Parquet,
        FormatArg::Ndjson => Format::Ndjson,
        FormatArg::Csv => Format::Csv,
        FormatArg::Arrow => Format::Arrow,
    });
    if !to_files && format.is_some_and(|format| format != Format::Ndjson) {
        return usage("--format needs --to DIR; standard output is NDJSON, and null: writes nothing");
    }
    let existing = args.mode.map(|mode| match mode {
        ModeArg::Error => Existing::Error,
        ModeArg::Append => Existing::Append,
        ModeArg::Overwrite => Existing::Overwrite,
    });
    Ok(BatchRun {
        table: args.of.table,
        output: Output { destination, format: format.unwrap_or_default(), existing },
        select: args.select,
        filter: args.filter.as_deref().map(Predicate::parse).transpose()?,
        limit: args.limit,
        full: args.full,
    })
}
