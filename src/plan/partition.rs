//! How a table is cut into slices that cover it once (R30): windows of offsets, values, windows of time. Pure.

use std::fmt;

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use super::pushdown::Pushdown;
use crate::config::{Operator, Partitioning, TableConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::Predicate;
use crate::position::{Instant, TimestampFormat};

/// What a partition reads of its table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Slice {
    /// The whole of it.
    All,
    /// The records at the offsets from `start` up to, not including, `end`.
    Offset {
        /// The first offset.
        start: u64,
        /// The offset after the last.
        end: u64,
        /// No window follows: the endpoint must not declare more (R30).
        is_last: bool,
    },
    /// What one value of a parameter answers.
    Value {
        /// The parameter.
        param: String,
        /// Its value.
        value: String,
    },
    /// The records whose column lies in `start <= column < end`.
    Dates {
        /// The column.
        column: String,
        /// Inclusive.
        start: Instant,
        /// Exclusive.
        end: Instant,
    },
}

/// The id of a partition: its range or value, never an index alone.
impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Offset { start, end, .. } => write!(f, "offset={start}..{end}"),
            Self::Value { param, value } => write!(f, "{param}={value}"),
            Self::Dates { column, start, end } => {
                let show = |at| TimestampFormat::Rfc3339.render(at);
                write!(f, "{column}={}..{}", show(*start), show(*end))
            }
        }
    }
}

impl Slice {
    /// The query parameters that ask for it, beside those of the walk.
    pub fn params(&self, table: &TableConfig) -> Vec<(String, String)> {
        match (self, &table.partition) {
            (Self::Value { param, value }, _) => vec![(param.clone(), value.clone())],
            (Self::Dates { start, end, .. }, Some(Partitioning::Dates { start_param, end_param, format, .. })) => {
                vec![(start_param.clone(), before(format, *start)), (end_param.clone(), at_or_after(format, *end))]
            }
            _ => Vec::new(),
        }
    }
}

/// The slices of a table, and what is worth saying of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slices {
    pub(super) slices: Vec<Slice>,
    pub(super) warning: Option<String>,
}

/// Cuts a table for a query.
///
/// # Errors
/// Kind `Scan` where a query's range is cut into more windows than memory should hold.
pub(super) fn slices(table: &TableConfig, predicate: Option<&Predicate>, pushed: &Pushdown) -> Result<Slices> {
    let all = |slices| Slices { slices, warning: None };
    Ok(match &table.partition {
        None => all(vec![Slice::All]),
        Some(Partitioning::Offset { size, count }) => {
            let window = |n| Slice::Offset { start: n * size, end: (n + 1) * size, is_last: n + 1 == *count };
            all((0..*count).map(window).collect())
        }
        Some(Partitioning::Enum { param, values }) => {
            let is_asked = |value: &&String| pushed.values.as_ref().is_none_or(|only| only.contains(value));
            let slice = |value: &String| Slice::Value { param: param.clone(), value: value.clone() };
            all(values.iter().filter(is_asked).map(slice).collect())
        }
        Some(Partitioning::Dates { column, range, .. }) => match bounds(column, predicate) {
            Bounds { from: Some(from), to: Some(to) } => {
                let step = TimeDelta::from_std(*range).unwrap_or(TimeDelta::MAX);
                all(windows(column, from, to, step).map_err(|error| error.with("table", &table.name))?)
            }
            open => {
                let missing = if open.from.is_none() { "lower" } else { "upper" };
                let warning = format!(
                    "the query sets no {missing} bound on {column}: the date-range partition cannot be cut into windows, \
                     the table is read as one"
                );
                Slices { slices: vec![Slice::All], warning: Some(warning) }
            }
        },
    })
}

/// The parameters that windows of time send; none where a query leaves its range open.
pub(super) fn sent_by_windows<'a>(table: &'a TableConfig, predicate: Option<&Predicate>) -> Vec<&'a str> {
    match &table.partition {
        Some(Partitioning::Dates { column, start_param, end_param, .. }) => match bounds(column, predicate) {
            Bounds { from: Some(_), to: Some(_) } => vec![start_param, end_param],
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// What a query says of the least (inclusive) and the greatest (exclusive) value of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Bounds {
    from: Option<Instant>,
    to: Option<Instant>,
}

fn bounds(column: &str, predicate: Option<&Predicate>) -> Bounds {
    let parts = predicate.map(Predicate::conjuncts).unwrap_or_default();
    let mut bounds = Bounds::default();
    for part in &parts {
        let Some((name, operator, literal)) = part.comparison() else { continue };
        let Some(at) = literal.instant().filter(|_| name == column) else { continue };
        let (from, to) = match operator {
            Operator::Eq => (Some(at), after(at)),
            Operator::Gt | Operator::Gte => (Some(at), None),
            Operator::Lt => (None, Some(at)),
            Operator::Lte => (None, after(at)),
            Operator::Neq => (None, None),
        };
        bounds.from = bounds.from.max(from);
        bounds.to = match (bounds.to, to) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
    bounds
}

/// The next instant that a column can hold: columns count microseconds.
fn after(at: Instant) -> Option<Instant> {
    at.checked_add_signed(TimeDelta::microseconds(1))
}

fn windows(column: &str, from: Instant, to: Instant, step: TimeDelta) -> Result<Vec<Slice>> {
    let mut slices = Vec::new();
    let mut start = from;
    while start < to {
        if slices.len() as u64 >= Partitioning::MOST {
            let most = Partitioning::MOST;
            let said = format!("the query's range of {column} makes more than {most} windows; raise partition.range");
            return Err(Error::new(ErrorKind::Scan, said));
        }
        let end = start.checked_add_signed(step).map_or(to, |end| end.min(to));
        slices.push(Slice::Dates { column: column.to_owned(), start, end });
        start = end;
    }
    Ok(slices)
}

/// A text for an instant before `at`, as near as the format has one: an API that leaves its bound out loses nothing.
fn before(format: &TimestampFormat, at: Instant) -> String {
    let step = match format {
        TimestampFormat::Rfc3339 | TimestampFormat::EpochS if at.timestamp_subsec_nanos() == 0 => TimeDelta::seconds(1),
        TimestampFormat::Rfc3339 | TimestampFormat::EpochS | TimestampFormat::EpochUs => TimeDelta::microseconds(1),
        TimestampFormat::EpochMs | TimestampFormat::Date | TimestampFormat::Strftime(_) => TimeDelta::nanoseconds(1),
    };
    // Rendering cuts digits off, which leads down.
    format.render(at.checked_sub_signed(step).unwrap_or(at))
}

/// A text for `at`, or for the next instant that the format can name.
fn at_or_after(format: &TimestampFormat, at: Instant) -> String {
    let units = [
        TimeDelta::zero(),
        TimeDelta::microseconds(1),
        TimeDelta::milliseconds(1),
        TimeDelta::seconds(1),
        TimeDelta::minutes(1),
        TimeDelta::hours(1),
        TimeDelta::days(1),
        TimeDelta::days(31),
        TimeDelta::days(366),
    ];
    let later = units.iter().filter_map(|unit| Some(format.render(at.checked_add_signed(*unit)?)));
    let mut reaching = later.filter(|text| format.parse(text).is_some_and(|named| named >= at));
    reaching.next().unwrap_or_else(|| format.render(at))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Instant {
        TimestampFormat::Rfc3339.parse(text).unwrap()
    }

    fn format(text: &str) -> TimestampFormat {
        TimestampFormat::named(text).unwrap()
    }

    fn bounds_of(text: &str) -> Bounds {
        bounds("ts", Some(&Predicate::parse(text).unwrap()))
    }

    #[test]
    fn r30_bounds_come_from_what_must_be_true() {
        let day = |d: u32| at(&format!("2026-01-{d:02}T00:00:00Z"));
        let found = bounds_of("ts >= '2026-01-02' AND ts < '2026-01-05' AND (ts > '2026-01-03' AND other = 1)");
        assert_eq!(found, Bounds { from: Some(day(3)), to: Some(day(5)) });
        let found = bounds_of("ts BETWEEN '2026-01-02' AND '2026-01-05'");
        assert_eq!(found, Bounds { from: Some(day(2)), to: after(day(5)) });
        assert_eq!(bounds_of("ts = '2026-01-02'"), Bounds { from: Some(day(2)), to: after(day(2)) });
        let either = bounds_of("ts >= '2026-01-02' OR ts < '2026-01-01'");
        assert_eq!(either, Bounds::default(), "neither must be true");
        assert_eq!(bounds_of("ts <> '2026-01-02' AND NOT (ts > '2026-01-02')"), Bounds::default());
        assert_eq!(bounds_of("ts >= '2026-01-02'").to, None);
    }

    #[test]
    fn r30_the_texts_of_a_window_lie_outside_it_however_the_api_reads_its_bounds() {
        for (pattern, from, to, want) in [
            (
                "%Y-%m-%dT%H:%M:%SZ",
                "2026-01-01T00:00:00Z",
                "2026-01-02T00:00:00Z",
                ("2025-12-31T23:59:59Z", "2026-01-02T00:00:00Z"),
            ),
            (
                "%Y-%m-%dT%H:%M:%SZ",
                "2026-01-01T00:00:00.5Z",
                "2026-01-02T00:00:00.5Z",
                ("2026-01-01T00:00:00Z", "2026-01-02T00:00:01Z"),
            ),
            ("%Y-%m-%d", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", ("2025-12-31", "2026-01-02")),
            ("%Y-%m-%d", "2026-01-01T12:00:00Z", "2026-01-02T12:00:00Z", ("2026-01-01", "2026-01-03")),
            (
                "rfc3339",
                "2026-01-01T00:00:00Z",
                "2026-01-02T00:00:00Z",
                ("2025-12-31T23:59:59Z", "2026-01-02T00:00:00Z"),
            ),
            ("epoch-s", "1970-01-01T00:01:00Z", "1970-01-01T00:02:00Z", ("59", "120")),
            ("epoch-ms", "1970-01-01T00:01:00Z", "1970-01-01T00:02:00.0001Z", ("59999", "120001")),
        ] {
            let format = format(pattern);
            let got = (before(&format, at(from)), at_or_after(&format, at(to)));
            assert_eq!((got.0.as_str(), got.1.as_str()), want, "{pattern} {from}");
        }
    }

    proptest! {
        #[test]
        fn r30_windows_cover_a_range_once(from in 0_i64..4_000_000_000, length in 0_i64..10_000_000, step in 1_000_i64..5_000_000) {
            let micros = |n| Instant::from_timestamp_micros(n).unwrap();
            let slices = windows("ts", micros(from), micros(from + length), TimeDelta::microseconds(step)).unwrap();
            let mut reached = micros(from);
            for slice in &slices {
                let Slice::Dates { start, end, .. } = slice else { unreachable!() };
                prop_assert_eq!(*start, reached);
                prop_assert!(end > start && *end - *start <= TimeDelta::microseconds(step));
                reached = *end;
            }
            prop_assert_eq!(reached, micros(from + length));
        }

        #[test]
        fn r30_no_instant_of_a_window_lies_outside_its_texts(at in -2_000_000_000_000_000_i64..4_000_000_000_000_000, n in 0_usize..7) {
            let patterns = ["rfc3339", "date", "epoch-s", "epoch-ms", "epoch-us", "%Y-%m-%dT%H:%M", "%d.%m.%Y %H:%M:%S"];
            let (format, at) = (format(patterns[n]), Instant::from_timestamp_micros(at).unwrap());
            let named = |text: &str| format.parse(text).unwrap();
            prop_assert!(named(&before(&format, at)) < at);
            prop_assert!(named(&at_or_after(&format, at)) >= at);
        }
    }
}
