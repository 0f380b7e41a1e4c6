//! `restmark stream`: micro-batches of a table until there is nothing to read, or until it is told to end.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use serde_json::json;

use super::args::{FormatArg, StreamArgs};
use super::console::Console;
use super::{Ended, counted, open, report};
use crate::counts::Meters;
use crate::error::{Error, ErrorKind, Result};
use crate::position::{Instant, TimestampFormat};
use crate::sink::{Destination, Output};
use crate::storage::location;
use crate::stream::{BatchReport, Driver, Starting, Stream, Trigger};

/// `interrupted` drops a batch, `ended` waits for its end.
pub(super) async fn run(
    args: StreamArgs,
    console: &mut Console,
    interrupted: impl Future<Output = ()>,
    ended: impl Future<Output = ()>,
) -> Result<Ended> {
    let source = open(&args.of.config, console)?;
    let table = args.of.table.clone();
    let stream = stream(args)?;
    let meters = Arc::new(Meters::default());
    let (sender, end) = tokio::sync::watch::channel(false);
    let mut wall = Wall { console: console.clone(), table: table.clone(), end };
    let mut interrupted = std::pin::pin!(interrupted);
    let mut ended = std::pin::pin!(async {
        ended.await;
        let _ = sender.send(true);
        std::future::pending::<()>().await;
    });
    let outcome = tokio::select! {
        biased;
        () = &mut interrupted => return Ok(Ended::Interrupted),
        () = &mut ended => Ok(()),
        outcome = stream.run(&source, &meters, &mut wall) => outcome,
    };
    outcome.map(|()| Ended::Well).inspect_err(|_| report::print_failed(console, &table, &meters.counts()))
}

/// The clock on the wall, and whoever watches.
struct Wall {
    console: Console,
    table: String,
    end: tokio::sync::watch::Receiver<bool>,
}

impl Driver for Wall {
    fn now(&self) -> Instant {
        Utc::now()
    }

    async fn wait(&mut self, at: Instant) -> bool {
        let left = (at - Utc::now()).to_std().unwrap_or_default();
        tokio::select! {
            biased;
            _ = self.end.wait_for(|end| *end) => true,
            () = tokio::time::sleep(left) => false,
        }
    }

    fn report(&mut self, batch: BatchReport) {
        let show = |at: Instant| TimestampFormat::Rfc3339.render(at);
        let BatchReport { epoch, window, counts, files, lag, watermark } = batch;
        if self.console.is_json() {
            self.console.event(&json!({
                "level": "info", "event": "batch", "table": self.table, "epoch": epoch,
                "window": { "start": window.start.map(show), "end": show(window.end) },
                "counts": serde_json::to_value(&counts).unwrap_or_default(), "files": files,
                "lag_seconds": lag.num_seconds(), "watermark": watermark.map(show),
            }));
            return;
        }
        let start = window.start.map_or_else(|| "the earliest".to_owned(), show);
        let mark = watermark.map_or_else(String::new, |at| format!(", watermark {}", show(at)));
        self.console.say(&format!(
            "{} epoch {epoch}: ({start}, {}], {}, {} behind now{mark}",
            self.table,
            show(window.end),
            counted(counts.rows_emitted, "row"),
            counted(u64::try_from(lag.num_seconds()).unwrap_or_default(), "second"),
        ));
        report::print_losses(&self.console, &counts);
        for file in &files {
            self.console.say(&format!("  written: {file}"));
        }
    }
}

fn stream(args: StreamArgs) -> Result<Stream> {
    let usage = |what: String| Error::new(ErrorKind::Config, what);
    let destination = Destination::parse(&args.to)?;
    let to_files = matches!(destination, Destination::Files(_));
    let format = args.format.map(FormatArg::format);
    if !to_files && format.is_some_and(|format| format != crate::sink::Format::Ndjson) {
        return Err(usage("--format needs --to DIR; standard output is NDJSON".into()));
    }
    let trigger = match args.trigger.as_str() {
        "available-now" => Trigger::AvailableNow,
        interval => Trigger::Every(duration("--trigger", interval)?),
    };
    let starting = match args.starting.as_str() {
        "now" => Starting::Now,
        "earliest" => Starting::Earliest,
        instant => Starting::At(TimestampFormat::Rfc3339.parse(instant).ok_or_else(|| {
            usage(format!("--starting: expected now, earliest or an instant as 2026-01-31T00:00:00Z, not {instant:?}"))
        })?),
    };
    let location =
        location::parse(&args.checkpoint_location).map_err(|said| usage(format!("--checkpoint-location: {said}")))?;
    Ok(Stream {
        table: args.of.table,
        location,
        output: Output { destination, format: format.unwrap_or_default(), existing: None },
        trigger,
        starting,
        max_window: args.max_window.as_deref().map(|text| duration("--max-window", text)).transpose()?,
        allowed_lateness: duration("--allowed-lateness", &args.allowed_lateness)?,
    })
}

/// A duration as the configuration writes them.
fn duration(option: &str, text: &str) -> Result<Duration> {
    crate::config::duration(text).ok_or_else(|| {
        Error::new(ErrorKind::Config, format!("{option}: expected a duration as 30s or \"5 minutes\", not {text:?}"))
    })
}
