//! The loss report of a run (R25): what came, what was changed, dropped or left out, and where the position is.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::console::Console;
use super::counted;
use crate::counts::{Counts, Tally};
use crate::position::Position;
use crate::run::{BatchRun, Progress, Report};

/// The report of a run that ended well.
pub(super) fn print(console: &Console, run: &BatchRun, report: &Report) {
    if console.is_json() {
        console.event(&json(run, report));
        return;
    }
    console.say(&format!("{}: {}", run.table, summary(&report.counts)));
    print_losses(console, &report.counts);
    for file in &report.files {
        console.say(&format!("  written: {file}"));
    }
    console.say(&format!("  position: {}", in_words(&report.progress)));
}

/// What a run had done when it failed; what it wrote may not count, so the rows it emitted are left out.
pub(super) fn print_failed(console: &Console, table: &str, counts: &Counts) {
    if console.is_json() {
        let counts = serde_json::to_value(counts).unwrap_or(Value::Null);
        console.event(&json!({ "level": "info", "event": "failed", "table": table, "counts": counts }));
        return;
    }
    let Counts { requests, retries, pages, bytes, rows_read, .. } = counts;
    console.say(&format!(
        "{table}: failed after {} read in {} ({}, {retries} retries, {bytes} bytes)",
        counted(*rows_read, "row"),
        counted(*pages, "page"),
        counted(*requests, "request"),
    ));
    print_losses(console, counts);
}

/// What was read of one table, for a query.
#[cfg(feature = "sql")]
pub(super) fn print_counts(console: &Console, table: &str, counts: &Counts) {
    if console.is_json() {
        let counts = serde_json::to_value(counts).unwrap_or(Value::Null);
        console.event(&json!({ "level": "info", "event": "read", "table": table, "counts": counts }));
        return;
    }
    console.say(&format!("{table}: {}", summary(counts)));
    print_losses(console, counts);
    for warning in &counts.warnings {
        console.warn(warning);
    }
}

/// What was changed, dropped or left out.
pub(super) fn print_losses(console: &Console, counts: &Counts) {
    for line in losses(counts) {
        console.loss(&format!("  {line}"));
    }
    for warning in &counts.warnings {
        console.warn(warning);
    }
}

fn summary(counts: &Counts) -> String {
    let Counts { requests, retries, pages, bytes, rows_read, rows_emitted, parents, .. } = counts;
    format!(
        "{}, {rows_emitted} emitted; {}{}, {}, {}, {bytes} bytes",
        counted(*rows_read, "row") + " read",
        if *parents > 0 { counted(*parents, "parent row") + ", " } else { String::new() },
        counted(*pages, "page"),
        counted(*requests, "request"),
        if *retries == 1 { "1 retry".to_owned() } else { format!("{retries} retries") },
    )
}

/// A line for each kind of loss or change there was.
fn losses(counts: &Counts) -> Vec<String> {
    let mut lines = Vec::new();
    let mut columns = |what: &str, of: &BTreeMap<String, Tally>| {
        for (column, tally) in of.iter().filter(|(_, tally)| tally.count > 0) {
            lines.push(format!("{what} in {column}: {}", tallied(tally)));
        }
    };
    columns("values converted", &counts.converted);
    columns("values that did not fit and became NULL", &counts.nulled);
    for (what, tally) in [
        ("duplicate keys in a record", &counts.duplicate_keys),
        ("fields left out: an inferred table takes its columns from its first page", &counts.undeclared),
        ("records without a readable position", &counts.without_position),
        ("parents without a key, which have no children", &counts.parents_without_key),
        ("parent keys that no URL path can carry, left out", &counts.keys_refused),
        ("parent keys that came again, each read once", &counts.keys_repeated),
        ("children left out because they answered 404", &counts.children_missing),
        ("records dropped because they belong to no key that was asked for", &counts.unmatched),
    ] {
        if tally.count > 0 {
            lines.push(format!("{what}: {}", tallied(tally)));
        }
    }
    for (what, count) in [
        ("records dated in the future (they do not become the position)", counts.in_future),
        ("duplicates dropped", counts.duplicates_dropped),
        ("records that belong to another batch", counts.outside_window),
        ("late records (delivered)", counts.late),
        ("boundary records not remembered (they may come again)", counts.not_remembered),
    ] {
        if count > 0 {
            lines.push(format!("{what}: {count}"));
        }
    }
    lines
}

fn tallied(tally: &Tally) -> String {
    match &tally.first {
        Some(first) => format!("{} (first: {first})", tally.count),
        None => tally.count.to_string(),
    }
}

fn in_words(progress: &Progress) -> String {
    let place = |position: &Option<Position>| position.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string);
    match progress {
        Progress::NoCheckpoint => "none is kept, every run reads the whole table".to_owned(),
        Progress::Kept(why) => format!("not moved: {why}"),
        Progress::Committed { after: None, .. } => "none: this read reached no position that can be saved".to_owned(),
        Progress::Committed { before, after, file } if before == after => {
            format!("{}, as before, in {file}", place(after))
        }
        Progress::Committed { before, after, file } => {
            format!("{} -> {}, saved in {file}", place(before), place(after))
        }
    }
}

fn json(run: &BatchRun, report: &Report) -> Value {
    let position = |position: &Option<Position>| serde_json::to_value(position).unwrap_or(Value::Null);
    let progress = match &report.progress {
        Progress::NoCheckpoint => json!({ "moved": false, "why": "the table has no checkpoint" }),
        Progress::Kept(why) => json!({ "moved": false, "why": why }),
        Progress::Committed { before, after, file } => json!({
            "moved": before != after, "before": position(before), "after": position(after), "file": file,
        }),
    };
    json!({
        "level": "info",
        "event": "report",
        "table": run.table,
        "counts": serde_json::to_value(&report.counts).unwrap_or(Value::Null),
        "files": report.files,
        "position": progress,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r25_zeros_are_left_out_and_first_offenders_are_named() {
        let mut counts = Counts { rows_read: 17, rows_emitted: 13, ..Counts::default() };
        assert!(losses(&counts).is_empty());
        assert!(summary(&counts).starts_with("17 rows read, 13 emitted"));
        counts.nulled.entry("f".into()).or_default().add(|| "\"NaN\"".into());
        counts.duplicate_keys.add(|| "id".into());
        counts.duplicates_dropped = 2;
        assert_eq!(
            losses(&counts),
            [
                "values that did not fit and became NULL in f: 1 (first: \"NaN\")",
                "duplicate keys in a record: 1 (first: id)",
                "duplicates dropped: 2"
            ]
        );
    }

    #[test]
    fn r01_the_position_is_said_before_and_after() {
        let at = |text: &str| Some(Position::Cursor(text.into()));
        let moved = Progress::Committed { before: None, after: at("B"), file: "f".into() };
        assert_eq!(in_words(&moved), "none -> cursor B, saved in f");
        let stayed = Progress::Committed { before: at("B"), after: at("B"), file: "f".into() };
        assert_eq!(in_words(&stayed), "cursor B, as before, in f");
    }
}
