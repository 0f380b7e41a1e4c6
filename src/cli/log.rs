//! Traces for -v, and what is said of a panic.

use std::io::{self, IsTerminal as _, Write};
use std::panic;

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use super::args::Args;
use super::console::Console;
use crate::error::ErrorKind;

/// Sends traces to standard error, without secrets.
pub(super) fn start(args: &Args, console: &Console) {
    let level = match args.verbose {
        0 => return,
        1 => Level::INFO,
        2 => Level::DEBUG,
        _ => Level::TRACE,
    };
    let console = console.clone();
    let is_json = console.is_json();
    // Other crates' traces may hold URLs that nobody scrubbed.
    let ours = LevelFilter::from_level(level).and(filter_fn(|of| of.target().starts_with("restmark")));
    let lines = tracing_subscriber::fmt::layer()
        .with_target(false)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(move || Scrubbed(console.clone()));
    let lines = if is_json { lines.json().flatten_event(true).boxed() } else { lines.boxed() };
    // A second subscriber in one process is refused; the first stays.
    let _ = tracing_subscriber::registry().with(lines.with_filter(ours)).try_init();
}

struct Scrubbed(Console);

impl Write for Scrubbed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = self.0.scrub(&String::from_utf8_lossy(bytes));
        io::stderr().lock().write_all(text.as_bytes()).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A panic is a bug of ours: one line with its place (its text might hold a secret), and the exit code that says so.
pub(super) fn report_panics() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
        let _ = writeln!(io::stderr(), "error: a bug of ours at {place}; please report it");
        std::process::exit(i32::from(ErrorKind::Bug.exit_code()));
    }));
}
