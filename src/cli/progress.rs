//! A live line on a terminal: pages, rows, bytes, rows a second, and what the read is waiting for.

use std::io::{IsTerminal as _, stderr, stdout};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressState, ProgressStyle};

use super::console::Console;
use super::counted;
use crate::counts::Meter;
use crate::run::BatchRun;
use crate::sink::Destination;

/// The live line, if there is one.
pub(super) struct Bar {
    line: ProgressBar,
    table: String,
    console: Console,
}

impl Bar {
    pub(super) fn new(console: &Console, run: &BatchRun) -> Self {
        // Rows on the same terminal would tear the line apart.
        let torn = run.output.destination == Destination::Stdout && stdout().is_terminal();
        let shown = stderr().is_terminal() && !console.is_quiet() && !console.is_json() && !torn;
        let bar = if shown { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        Self { line: bar, table: run.table.clone(), console: console.clone() }
    }

    /// Shows the figures of this read from now on.
    pub(super) fn follow(&self, meter: &Arc<Meter>) {
        if self.line.is_hidden() {
            return;
        }
        let (meter, console) = (Arc::clone(meter), self.console.clone());
        let figures = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            // A line that cannot be formatted is not shown.
            let _ = out.write_str(&console.scrub(&figures(&meter, state.elapsed())));
        };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix}: {figures}") {
            self.line.set_style(style.with_key("figures", figures));
            self.line.set_prefix(self.table.clone());
            self.line.enable_steady_tick(Duration::from_millis(120));
        }
    }

    /// Takes the line away.
    pub(super) fn clear(&self) {
        self.line.finish_and_clear();
    }
}

fn figures(meter: &Meter, elapsed: Duration) -> String {
    let rows = Meter::get(&meter.rows);
    let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    let mut line = format!(
        "{}, {} rows, {}, {} rows/s",
        counted(Meter::get(&meter.pages), "page"),
        HumanCount(rows),
        HumanBytes(Meter::get(&meter.bytes)),
        HumanCount(rows.saturating_mul(1_000) / millis),
    );
    for said in [meter.position(), meter.note()] {
        if !said.is_empty() {
            line = format!("{line}; {said}");
        }
    }
    line
}
