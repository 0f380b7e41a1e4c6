//! Reads `partition`: how one table is cut into slices that are read side by side (R30).

use std::time::Duration;

use chrono::DateTime;

use super::pagination::{Paging, StyleName};
use super::section::Section;
use super::validate::Sent;
use super::{ColumnType, Partitioning, keys};
use crate::position::TimestampFormat;

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
    pub(super) config: Option<Partitioning>,
}

/// Reads `partition`, when there is one.
pub(super) fn read(table: &Section<'_>, paging: &Paging<'_>, streamed: bool) -> Option<Splitting> {
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
    let config = match kind {
        Some(PartitionKind::Offset) => offset(&section, paging, streamed),
        Some(PartitionKind::Enum) => values(&section),
        Some(PartitionKind::DateRange) => dates(&section, table),
        None => None,
    };
    let params = ["param", "start-param", "end-param"];
    let sends = params.iter().filter_map(|key| section.name(key).map(|p| Sent::by(&section, key, &p))).collect();
    Some(Splitting { key: table.key("partition"), kind, sends, config })
}

fn offset(section: &Section<'_>, paging: &Paging<'_>, streamed: bool) -> Option<Partitioning> {
    let (size, count) = (section.whole("size", 1), section.whole("count", 1));
    if let Some(style) = paging.style.filter(|style| *style != StyleName::Offset) {
        section.problem("type", format!("an offset partition needs pagination style = offset, not {}", style.name()));
    }
    if streamed {
        section.problem("type", "an offset partition needs http.response-format = json, not a streamed body");
    }
    let (size, count) = (size?, count?);
    if count > Partitioning::MOST {
        section.problem("count", format!("is more than the {} partitions a table may have", Partitioning::MOST));
    }
    if size.checked_mul(count).is_none() {
        section.problem("size", "size x count is beyond 64 bits");
    }
    Some(Partitioning::Offset { size, count })
}

fn values(section: &Section<'_>) -> Option<Partitioning> {
    let (param, values) = (section.name("param"), section.texts("values"));
    if values.as_ref().is_some_and(Vec::is_empty) {
        section.problem("values", "must name at least one value");
    }
    let values = values?;
    if let Some(twice) = values.iter().enumerate().find(|(i, value)| values[..*i].contains(value)) {
        section.problem("values", format!("names {:?} twice: its rows would be read twice", twice.1));
    }
    Some(Partitioning::Enum { param: param?, values })
}

fn dates(section: &Section<'_>, table: &Section<'_>) -> Option<Partitioning> {
    let column = section.name("column");
    let columns = table.blocks("columns", keys::COLUMN);
    if let Some(column) = column.as_ref().filter(|_| !columns.is_empty()) {
        match columns.iter().find(|(name, _)| name == column) {
            None => section.problem("column", format!("{column:?} is no column of this table")),
            Some((_, read)) => {
                let types = [ColumnType::Date, ColumnType::Timestamp];
                let is_time = read.text("type").and_then(|text| super::table::column_type(&text));
                if is_time.is_some_and(|of| !types.contains(&of)) {
                    section
                        .problem("column", format!("{column:?} must be a date or timestamp, so that windows fit it"));
                }
            }
        }
    }
    let step = section.time_out("range");
    let format = section.timestamp_format("format");
    if format.as_ref().is_some_and(|format| !names_centuries(format)) {
        section.problem("format", "writes years of two centuries as the same text: a window would be another one's");
    }
    if step.zip(format.as_ref()).is_some_and(|(step, format)| !expresses(format, step)) {
        section.problem("format", "cannot express the step of range: two windows would be sent as the same text");
    }
    Some(Partitioning::Dates {
        column: column?,
        range: step?,
        start_param: section.name("start-param")?,
        end_param: section.name("end-param")?,
        format: format?,
    })
}

/// Whether midnights a century apart are read back as what they were.
fn names_centuries(format: &TimestampFormat) -> bool {
    let midnights = [-1_420_156_800, 1_735_689_600, 4_891_363_200].map(|second| DateTime::from_timestamp(second, 0));
    midnights.into_iter().flatten().all(|at| format.parse(&format.render(at)).is_none_or(|read| read == at))
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
        let named = |pattern: &str| names_centuries(&TimestampFormat::named(pattern).unwrap());
        assert!(!named("%y-%m-%d") && !named("%D") && named("%Y-%m-%d") && named("epoch-s"));
    }
}
