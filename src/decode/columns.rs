//! Typed Arrow builders, one a column, and what was changed on the way in (R24).

use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Date32Builder, Decimal128Builder, Float64Builder, Int32Builder, Int64Builder, StringBuilder,
    TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, SchemaRef};
use arrow_select::filter::filter_record_batch;

use super::scan::{Kind, Scanner, Token};
use super::value::{self, Reading};
use crate::config::ColumnType;
use crate::counts::{Counts, Tally};
use crate::error::{Error, ErrorKind, Result};
use crate::position::TimestampFormat;
use crate::schema::TableSchema;

/// A batch ends early when its texts reach this size, so that memory and 32-bit offsets hold (R26).
pub(super) const TEXT_MAX: usize = 64 << 20;
/// A longer text fits no column.
const VALUE_MAX: usize = 1 << 30;

/// The columns of a batch that is being filled.
#[derive(Debug)]
pub(crate) struct Columns {
    schema: SchemaRef,
    list: Vec<Column>,
    rest: Option<StringBuilder>,
    batch_rows: usize,
    rows: usize,
    text: usize,
    /// A text whose escapes were read.
    scratch: String,
    /// Columns that the row at hand has a value for.
    filled: usize,
}

#[derive(Debug)]
struct Column {
    name: String,
    format: Option<TimestampFormat>,
    /// Instants and days are written as RFC 3339 has them.
    is_usual: bool,
    builder: Builder,
    data_type: ColumnType,
    /// Rows and bytes of the fullest batch lately: the size of the next builder.
    room: (usize, usize),
    converted: Tally,
    nulled: Tally,
}

#[derive(Debug)]
enum Builder {
    Int32(Int32Builder),
    Int64(Int64Builder),
    Float64(Float64Builder),
    Decimal(Decimal128Builder, u8, i8),
    Boolean(BooleanBuilder),
    Text(StringBuilder),
    Json(StringBuilder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
}

/// Runs the same expression on whichever builder it is.
macro_rules! each {
    ($builder:expr, $b:ident => $do:expr) => {
        match $builder {
            Builder::Int32($b) => $do,
            Builder::Int64($b) => $do,
            Builder::Float64($b) => $do,
            Builder::Decimal($b, ..) => $do,
            Builder::Boolean($b) => $do,
            Builder::Text($b) | Builder::Json($b) => $do,
            Builder::Date($b) => $do,
            Builder::Timestamp($b) => $do,
        }
    };
}

impl Builder {
    fn new(data_type: ColumnType, (rows, bytes): (usize, usize)) -> Self {
        match data_type {
            ColumnType::Int32 => Self::Int32(Int32Builder::with_capacity(rows)),
            ColumnType::Int64 => Self::Int64(Int64Builder::with_capacity(rows)),
            ColumnType::Float64 => Self::Float64(Float64Builder::with_capacity(rows)),
            ColumnType::Decimal(precision, scale) => Self::Decimal(
                Decimal128Builder::with_capacity(rows).with_data_type(DataType::Decimal128(precision, scale)),
                precision,
                scale,
            ),
            ColumnType::Boolean => Self::Boolean(BooleanBuilder::with_capacity(rows)),
            ColumnType::String => Self::Text(StringBuilder::with_capacity(rows, bytes)),
            ColumnType::Json => Self::Json(StringBuilder::with_capacity(rows, bytes)),
            ColumnType::Date => Self::Date(Date32Builder::with_capacity(rows)),
            ColumnType::Timestamp => {
                Self::Timestamp(TimestampMicrosecondBuilder::with_capacity(rows).with_timezone("UTC"))
            }
        }
    }

    fn len(&self) -> usize {
        use arrow_array::builder::ArrayBuilder as _;
        each!(self, b => b.len())
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Text(b) | Self::Json(b) => b.values_slice().len(),
            _ => 0,
        }
    }

    fn append_null(&mut self) {
        each!(self, b => b.append_null());
    }

    fn finish(&mut self) -> ArrayRef {
        each!(self, b => Arc::new(b.finish()))
    }
}

impl Columns {
    /// Builders for a schema; `batch_rows` is at least 1.
    pub(crate) fn new(schema: &TableSchema, batch_rows: usize) -> Self {
        let list = schema.columns.iter().map(|column| Column {
            name: column.name.clone(),
            is_usual: column.format.as_ref().is_none_or(|format| {
                let usual =
                    if column.data_type == ColumnType::Date { TimestampFormat::Date } else { TimestampFormat::Rfc3339 };
                *format == usual
            }),
            format: column.format.clone(),
            builder: Builder::new(column.data_type, (0, 0)),
            data_type: column.data_type,
            room: (0, 0),
            converted: Tally::default(),
            nulled: Tally::default(),
        });
        Self {
            schema: schema.arrow(),
            list: list.collect(),
            rest: schema.rest.is_some().then(StringBuilder::new),
            batch_rows: batch_rows.max(1),
            rows: 0,
            text: 0,
            scratch: String::new(),
            filled: 0,
        }
    }

    /// Reads the next value into a column, where it is of the column's type in its usual writing. Otherwise nothing is
    /// consumed, and [`Columns::push`] has to decide.
    #[inline]
    pub(crate) fn push_next(&mut self, column: usize, scanner: &mut Scanner<'_>) -> bool {
        let Some(column) = self.list.get_mut(column) else { return false };
        let pushed = match &mut column.builder {
            Builder::Int64(b) => scanner.small_integer().map(|value| b.append_value(value)),
            Builder::Float64(b) => scanner.small_float().map(|value| b.append_value(value)),
            Builder::Int32(b) => scanner.small_i32().map(|value| b.append_value(value)),
            Builder::Boolean(b) => scanner.boolean().map(|value| b.append_value(value)),
            Builder::Date(b) if column.is_usual => scanner.fixed(value::day).map(|value| b.append_value(value)),
            Builder::Timestamp(b) if column.is_usual => {
                scanner.fixed(value::utc_seconds).map(|value| b.append_value(value))
            }
            Builder::Text(b) => {
                let text = match scanner.plain(VALUE_MAX) {
                    Some(text) => Some(text),
                    None => scanner.unescaped(VALUE_MAX, &mut self.scratch).then_some(self.scratch.as_str()),
                };
                text.map(|text| {
                    self.text += text.len();
                    b.append_value(text);
                })
            }
            _ => None,
        };
        self.filled += usize::from(pushed.is_some());
        pushed.is_some()
    }

    /// Puts a value into a column; `false` says that it did not fit and became NULL.
    #[allow(clippy::inline_always, reason = "the token stays in registers")]
    #[inline(always)]
    pub(crate) fn push(&mut self, column: usize, token: &Token<'_>) -> bool {
        let Some(column) = self.list.get_mut(column) else { return true };
        self.filled += 1;
        if token.kind == Kind::Null {
            column.builder.append_null();
            return true;
        }
        macro_rules! append {
            ($builder:expr, $reading:expr) => {
                match $reading {
                    Reading::Exact(value) => $builder.append_value(value),
                    Reading::Converted(value) => {
                        $builder.append_value(value);
                        column.converted.add(|| token.raw.to_owned());
                    }
                    Reading::Mismatch => return column.nulled(token.raw),
                }
            };
        }
        match &mut column.builder {
            Builder::Int64(b) => append!(b, value::int64(token)),
            Builder::Int32(b) => append!(b, value::int32(token)),
            Builder::Float64(b) => append!(b, value::float64(token)),
            Builder::Decimal(b, precision, scale) => append!(b, value::decimal(token, *precision, *scale)),
            Builder::Boolean(b) => append!(b, value::boolean(token)),
            Builder::Date(b) => append!(b, value::date(token, column.format.as_ref())),
            Builder::Timestamp(b) => append!(b, value::timestamp(token, column.format.as_ref())),
            Builder::Text(_) | Builder::Json(_) if token.raw.len() > VALUE_MAX => return column.nulled(token.raw),
            Builder::Text(b) => {
                self.text += token.raw.len();
                append!(b, value::string(token));
            }
            Builder::Json(b) => {
                self.text += token.raw.len();
                b.append_value(token.raw);
            }
        }
        true
    }

    /// Puts NULL into a column in place of a value that cannot be there.
    pub(crate) fn push_mismatch(&mut self, column: usize, raw: &str) -> bool {
        self.filled += 1;
        self.list.get_mut(column).is_none_or(|column| column.nulled(raw))
    }

    /// The name and type of a column.
    pub(crate) fn describe(&self, column: usize) -> (&str, String) {
        self.list.get(column).map_or(("", String::new()), |c| (&c.name, type_name(c.data_type)))
    }

    /// Ends a row: columns without a value get NULL. `rest` is the text of the rest column.
    #[inline]
    pub(crate) fn end_row(&mut self, rest: Option<&str>) {
        self.rows += 1;
        if std::mem::take(&mut self.filled) < self.list.len() {
            for column in &mut self.list {
                if column.builder.len() < self.rows {
                    column.builder.append_null();
                }
            }
        }
        if let Some(builder) = &mut self.rest {
            self.text += rest.map_or(0, str::len);
            builder.append_option(rest);
        }
    }

    /// Rows in the batch so far.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Whether the batch has to end here.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.rows >= self.batch_rows || self.text >= TEXT_MAX
    }

    /// The batch, of the rows that `keep` names (all of them without it); the builders begin anew.
    pub(crate) fn finish(&mut self, keep: Option<Vec<bool>>) -> Result<RecordBatch> {
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        for column in &mut self.list {
            let (rows, bytes) = column.room;
            column.room = (column.builder.len().max(rows / 2), column.builder.bytes().max(bytes / 2));
            arrays.push(column.builder.finish());
            column.builder = Builder::new(column.data_type, column.room);
        }
        if let Some(rest) = &mut self.rest {
            arrays.push(Arc::new(rest.finish()));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.text) = (0, 0);
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .and_then(|batch| match keep {
                Some(keep) => filter_record_batch(&batch, &BooleanArray::from(keep)),
                None => Ok(batch),
            })
            .map_err(|error| Error::new(ErrorKind::Bug, format!("a batch could not be built: {error}")))
    }

    /// Empty columns of the same kind.
    pub(crate) fn spare(&self) -> Self {
        let list = self.list.iter().map(|column| Column {
            name: column.name.clone(),
            is_usual: column.is_usual,
            format: column.format.clone(),
            builder: Builder::new(column.data_type, (0, 0)),
            data_type: column.data_type,
            room: (0, 0),
            converted: Tally::default(),
            nulled: Tally::default(),
        });
        let (schema, list) = (self.schema.clone(), list.collect());
        let rest = self.rest.is_some().then(StringBuilder::new);
        Self { schema, list, rest, batch_rows: self.batch_rows, rows: 0, text: 0, scratch: String::new(), filled: 0 }
    }

    /// Takes back what other columns of the same kind counted.
    pub(crate) fn take_back(&mut self, other: &Self) {
        for (column, other) in self.list.iter_mut().zip(&other.list) {
            column.converted.take_back(&other.converted);
            column.nulled.take_back(&other.nulled);
        }
    }

    /// Moves what was converted and nulled since the last report into `counts`.
    pub(crate) fn report(&mut self, counts: &mut Counts) {
        for column in &mut self.list {
            for (tally, into) in
                [(&mut column.converted, &mut counts.converted), (&mut column.nulled, &mut counts.nulled)]
            {
                if tally.count > 0 {
                    into.entry(column.name.clone()).or_default().merge(std::mem::take(tally));
                }
            }
        }
    }
}

impl Column {
    #[cold]
    fn nulled(&mut self, raw: &str) -> bool {
        self.builder.append_null();
        self.nulled.add(|| raw.chars().take(200).collect());
        false
    }
}

/// The type as it is written in the configuration.
fn type_name(data_type: ColumnType) -> String {
    match data_type {
        ColumnType::Decimal(precision, scale) => format!("decimal({precision},{scale})"),
        other => format!("{other:?}").to_lowercase(),
    }
}
