//! Reads and checks the keys whose feature is built later: partitions, child tables, aggregations.

use std::time::Duration;

use chrono::DateTime;

use super::pagination::{Paging, StyleName};
use super::section::Section;
use super::validate::Sent;
use super::{keys, urls};
use crate::position::TimestampFormat;

/// The keys of a child table.
const CHILD: &[&str] = &[
    "parent-table",
    "parent-key",
    "join-strategy",
    "batch-param",
    "batch-size",
    "batch-separator",
    "child-key-field",
    "on-404",
];

/// `partition.type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartitionKind {
    Offset,
    Enum,
    DateRange,
}

impl PartitionKind {
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Offset => &["size", "count"],
            Self::Enum => &["param", "values"],
            Self::DateRange => &["column", "range", "start-param", "end-param", "format"],
        }
    }

    /// The name in the configuration.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Offset => "offset",
            Self::Enum => "enum",
            Self::DateRange => "date-range",
        }
    }
}

const KINDS: [(&str, PartitionKind); 3] =
    [("offset", PartitionKind::Offset), ("enum", PartitionKind::Enum), ("date-range", PartitionKind::DateRange)];

/// A table's partition as far as it could be read.
pub(super) struct Splitting {
    pub(super) key: String,
    pub(super) kind: Option<PartitionKind>,
    /// The query parameters it sends.
    pub(super) sends: Vec<Sent>,
}

/// Reads `partition`, when there is one.
pub(super) fn read_partition(table: &Section<'_>, paging: &Paging<'_>, streamed: bool) -> Option<Splitting> {
    if !table.sets("partition") {
        return None;
    }
    let section = table.block("partition", keys::PARTITION);
    section.require("type", ": offset, enum or date-range");
    let kind = section.choice("type", &KINDS);
    let needs = kind.map_or(&[] as &[&str], PartitionKind::keys);
    let name = kind.map_or("", PartitionKind::name);
    for key in needs {
        section.require(key, &format!(" with type = {name}"));
    }
    for key in keys::PARTITION.iter().filter(|k| **k != "type" && kind.is_some()) {
        if section.sets(key) && !needs.contains(key) {
            section.problem(key, format!("is no key of partition.type = {name}; that has {}", needs.join(", ")));
        }
    }
    section.whole("size", 1);
    section.whole("count", 1);
    if section.texts("values").is_some_and(|values| values.is_empty()) {
        section.problem("values", "must name at least one value");
    }
    let column = section.name("column");
    let columns = table.blocks("columns", keys::COLUMN);
    if let Some(column) = column.filter(|c| !columns.is_empty() && columns.iter().all(|(name, _)| name != c)) {
        section.problem("column", format!("{column:?} is no column of this table"));
    }
    let step = section.time_out("range");
    let format = section.timestamp_format("format");
    if step.zip(format).is_some_and(|(step, format)| !expresses(&format, step)) {
        section.problem("format", "cannot express the step of range: two windows would be sent as the same text");
    }
    if kind == Some(PartitionKind::Offset) {
        if paging.style.is_some_and(|s| s != StyleName::Offset) {
            let style = paging.style.map_or("", StyleName::name);
            section.problem("type", format!("an offset partition needs pagination style = offset, not {style}"));
        }
        if streamed {
            section.problem("type", "an offset partition needs http.response-format = json, not a streamed body");
        }
    }
    let params = ["param", "start-param", "end-param"];
    let sends = params.iter().filter_map(|key| section.name(key).map(|p| Sent::by(&section, key, &p))).collect();
    let key = table.key("partition");
    table.report().unsupported(&key, None);
    Some(Splitting { key, kind, sends })
}

/// Whether a format can be read back to the instant it was made of, at every step.
fn expresses(format: &TimestampFormat, step: Duration) -> bool {
    let seconds = i64::try_from(step.as_secs()).unwrap_or(i64::MAX);
    let nanos = i64::from(step.subsec_nanos());
    (0..=50_i64).all(|n| {
        // Later steps of a very long range have no date: the earlier ones have proved enough.
        let offset = n.checked_mul(seconds).and_then(|s| s.checked_add(n * nanos / 1_000_000_000));
        let at = offset.and_then(|s| {
            DateTime::from_timestamp(s.checked_add(1_767_225_600)?, u32::try_from(n * nanos % 1_000_000_000).ok()?)
        });
        at.filter(|at| at.timestamp() < 253_402_300_800).is_none_or(|at| format.parse(&format.render(at)) == Some(at))
    })
}

/// Reads the keys of a child table; returns the batch parameter it sends.
pub(super) fn read_child(table: &Section<'_>, tables: &[String], endpoint: Option<&str>) -> Option<Sent> {
    let parent = table.name("parent-table");
    let strategies = [("nested_loop", "nested_loop"), ("batch", "batch")];
    let batch = table.choice("join-strategy", &strategies) == Some("batch");
    table.name("parent-key");
    table.whole("batch-size", 1);
    table.text("batch-separator");
    table.name("child-key-field");
    table.choice("on-404", &[("fail", ()), ("skip", ())]);
    let param = table.name("batch-param");
    let placeholders = match endpoint.map(urls::placeholders) {
        Some(Ok(names)) => Some(names),
        Some(Err(said)) => {
            table.problem("endpoint", said);
            None
        }
        None => None,
    };
    if let Some(parent) = &parent {
        table.require("parent-key", " with parent-table");
        if !tables.contains(parent) {
            table.problem("parent-table", format!("there is no table {parent:?}"));
        }
        if table.path() == super::text::join("tables", parent) {
            table.problem("parent-table", "a table cannot be its own parent");
        }
        if batch {
            table.require("batch-param", " with join-strategy = batch");
            table.require("child-key-field", " with join-strategy = batch");
        } else if placeholders.as_ref().is_some_and(|names| names.len() != 1) {
            table.problem("endpoint", "a child table's endpoint needs exactly one {placeholder}");
        }
        if batch && placeholders.is_some_and(|names| !names.is_empty()) {
            table.problem("endpoint", "join-strategy = batch sends keys in batch-param, not in a {placeholder}");
        }
    } else if placeholders.is_some_and(|names| !names.is_empty()) {
        table.problem("endpoint", "only a child table (parent-table) can have a {placeholder}");
    }
    for key in CHILD.iter().filter(|key| table.sets(key)) {
        if parent.is_none() && *key != "parent-table" {
            table.problem(key, "is a key of child tables: it needs parent-table");
        }
        table.report().unsupported(&table.key(key), None);
    }
    param.map(|param| Sent::by(table, "batch-param", &param))
}

/// Reads `aggregations`.
pub(super) fn read_aggregations(table: &Section<'_>) {
    for (_, section) in table.blocks("aggregations", keys::AGGREGATION) {
        for key in ["function", "endpoint", "response-path"] {
            section.require(key, "");
        }
        let function = section.choice("function", &[("count", "count"), ("sum", "sum"), ("avg", "avg")]);
        if let Some(function) = function.filter(|f| *f != "count") {
            section.require("column", &format!(" with function = {function}"));
        }
        section.name("column");
        if let Some(Err(said)) = section.text("endpoint").map(|text| urls::check_endpoint(&text)) {
            section.problem("endpoint", said);
        }
        section.pointer("response-path");
        section.pairs("params");
    }
    if table.sets("aggregations") {
        table.report().unsupported(&table.key("aggregations"), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r12_a_date_format_must_express_the_step() {
        let day = Duration::from_hours(24);
        for (pattern, step, fits) in [
            ("%Y-%m", day, false),
            ("%Y-%m-%d", day, true),
            ("%Y-%m-%d", 2 * day, true),
            ("%Y-%m-%d", day * 3 / 2, false),
            ("%Y-%m-%dT%H:%M", Duration::from_secs(90), false),
            ("%Y-%m-%dT%H:%M:%SZ", Duration::from_secs(90), true),
            ("epoch-s", Duration::from_millis(500), true),
            ("epoch-ms", Duration::from_millis(500), true),
            ("%F", Duration::MAX, true),
        ] {
            let format = TimestampFormat::named(pattern).unwrap();
            assert_eq!(expresses(&format, step), fits, "{pattern} {step:?}");
        }
    }
}
