//! What of the rows that came belongs to the partition; its neighbours read the rest (R30).

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Date32Type, TimestampMicrosecondType};
use arrow_array::{Array as _, BooleanArray, RecordBatch};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use arrow_select::filter::filter_record_batch;

use crate::error::{Error, ErrorKind, Result};
use crate::plan::Slice;

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// Cuts batches to a slice.
#[derive(Debug)]
pub(super) enum Trim {
    /// Everything belongs.
    Nothing,
    /// As many rows as are left of the window, in order.
    Rows { left: u64 },
    /// Rows whose column lies in `start <= column < end`, in microseconds. A hidden column was read for this alone.
    Dates { column: String, start: i64, end: i64, is_hidden: bool },
}

impl Trim {
    /// What a slice cuts off; `select` is what the reader was asked for.
    pub(super) fn of(slice: &Slice, select: Option<&[String]>) -> Self {
        match slice {
            Slice::All | Slice::Value { .. } => Self::Nothing,
            Slice::Offset { start, end, .. } => Self::Rows { left: end.saturating_sub(*start) },
            Slice::Dates { column, start, end } => Self::Dates {
                column: column.clone(),
                start: start.timestamp_micros(),
                end: end.timestamp_micros(),
                is_hidden: select.is_some_and(|names| !names.contains(column)),
            },
        }
    }

    /// The columns that have to be read for `select`.
    pub(super) fn select(&self, select: Option<&[String]>) -> Option<Vec<String>> {
        let mut names = select?.to_vec();
        if let Self::Dates { column, is_hidden: true, .. } = self {
            names.push(column.clone());
        }
        Some(names)
    }

    /// Whether rows may be dropped of a page that is no larger than what was asked for.
    pub(super) fn drops_rows(&self) -> bool {
        matches!(self, Self::Dates { .. })
    }

    /// The rows of a batch that belong to the slice.
    pub(super) fn apply(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        match self {
            Self::Nothing => Ok(batch),
            Self::Rows { left } => {
                let rows = usize::try_from(*left).unwrap_or(usize::MAX).min(batch.num_rows());
                *left -= rows as u64;
                Ok(batch.slice(0, rows))
            }
            Self::Dates { column, start, end, is_hidden } => {
                let kept = filter_record_batch(&batch, &inside(&batch, column, *start, *end)?).map_err(failed)?;
                if !*is_hidden {
                    return Ok(kept);
                }
                // It was asked for last.
                kept.project(&(0..kept.num_columns().saturating_sub(1)).collect::<Vec<_>>()).map_err(failed)
            }
        }
    }
}

fn inside(batch: &RecordBatch, column: &str, start: i64, end: i64) -> Result<BooleanArray> {
    let refuse = |what: String| Error::new(ErrorKind::Schema, format!("partition.column {column} {what}"));
    let values = batch.column_by_name(column).ok_or_else(|| refuse("is no column of the table".into()))?;
    // A row without a value lies in no window; a bound of the query on the column drops it too.
    let test = |at: i64| start <= at && at < end;
    let mask = match values.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            BooleanArray::from_unary(values.as_primitive::<TimestampMicrosecondType>(), test)
        }
        DataType::Date32 => {
            BooleanArray::from_unary(values.as_primitive::<Date32Type>(), |day| test(i64::from(day) * DAY))
        }
        _ => return Err(refuse("is neither a date nor a timestamp; declare it in columns".into())),
    };
    Ok(mask)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: ArrowError) -> Error {
    Error::new(ErrorKind::Bug, format!("a batch could not be cut to its partition: {error}"))
}
