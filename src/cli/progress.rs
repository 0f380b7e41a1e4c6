//! A live line on a terminal: pages, rows, bytes, rows a second, and what the read is waiting for.

use std::io::{IsTerminal as _, stderr, stdout};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressState, ProgressStyle};

use super::console::Console;
use super::counted;
use crate::counts::Meters;
use crate::run::BatchRun;
use crate::sink::Destination;

/// The live line, if there is one.
pub(super) struct Bar {
    line: ProgressBar,
}

impl Bar {
    /// Shows the figures of a run's reads, as they are.
    pub(super) fn new(console: &Console, run: &BatchRun, meters: &Arc<Meters>) -> Self {
        // Rows on the same terminal would tear the line apart.
        let torn = run.output.destination == Destination::Stdout && stdout().is_terminal();
        let shown = stderr().is_terminal() && !console.is_quiet() && !console.is_json() && !torn;
        if !shown {
            return Self { line: ProgressBar::hidden() };
        }
        let line = ProgressBar::new_spinner();
        let (meters, console) = (Arc::clone(meters), console.clone());
        let figures = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            // A line that cannot be formatted is not shown.
            let _ = out.write_str(&console.scrub(&figures(&meters, state.elapsed())));
        };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix}: {figures}") {
            line.set_style(style.with_key("figures", figures));
            line.set_prefix(run.table.clone());
            line.enable_steady_tick(Duration::from_millis(120));
        }
        Self { line }
    }

    /// Takes the line away.
    pub(super) fn clear(&self) {
        self.line.finish_and_clear();
    }
}

fn figures(meters: &Meters, elapsed: Duration) -> String {
    let (counts, reads) = (meters.counts(), meters.live());
    let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    let mut line = format!(
        "{}, {} rows, {}, {} rows/s",
        counted(counts.pages, "page"),
        HumanCount(counts.rows_read),
        HumanBytes(counts.bytes),
        HumanCount(counts.rows_read.saturating_mul(1_000) / millis),
    );
    if reads.len() > 1 {
        line = format!("{line}, {}", counted(reads.len() as u64, "partition"));
    }
    for said in reads.first().iter().flat_map(|meter| [meter.position(), meter.note()]) {
        if !said.is_empty() {
            line = format!("{line}; {said}");
        }
    }
    line
}
