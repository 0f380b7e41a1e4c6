//! One column of a batch, read cell by cell into text: JSON values and bare texts.

use std::io::Write as _;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Date32Type, Decimal128Type, DecimalType as _, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    RecordBatchOptions, StringArray, TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use chrono::{DateTime, NaiveDate, SecondsFormat};

use crate::error::{Error, ErrorKind, Result};

/// The values of a column.
pub(super) enum Cells<'a> {
    Int32(&'a Int32Array),
    Int64(&'a Int64Array),
    Float64(&'a Float64Array),
    Decimal(&'a Decimal128Array, u8, i8),
    Boolean(&'a BooleanArray),
    Text(&'a StringArray),
    Date(&'a Date32Array),
    Timestamp(&'a TimestampMicrosecondArray),
}

impl<'a> Cells<'a> {
    /// The cells of a column of one of the types of `columns`.
    pub(super) fn of(array: &'a ArrayRef) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Int32 => Self::Int32(array.as_primitive::<Int32Type>()),
            DataType::Int64 => Self::Int64(array.as_primitive::<Int64Type>()),
            DataType::Float64 => Self::Float64(array.as_primitive::<Float64Type>()),
            DataType::Decimal128(p, s) => Self::Decimal(array.as_primitive::<Decimal128Type>(), *p, *s),
            DataType::Boolean => Self::Boolean(array.as_boolean()),
            DataType::Utf8 => Self::Text(array.as_string()),
            DataType::Date32 => Self::Date(array.as_primitive::<Date32Type>()),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                Self::Timestamp(array.as_primitive::<TimestampMicrosecondType>())
            }
            other => return Err(Error::new(ErrorKind::Bug, format!("a column of type {other} has no text form"))),
        })
    }

    pub(super) fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Int32(a) => a.is_null(row),
            Self::Int64(a) => a.is_null(row),
            // No number that JSON knows.
            Self::Float64(a) => a.is_null(row) || !a.value(row).is_finite(),
            Self::Decimal(a, ..) => a.is_null(row),
            Self::Boolean(a) => a.is_null(row),
            Self::Text(a) => a.is_null(row),
            Self::Date(a) => a.is_null(row),
            Self::Timestamp(a) => a.is_null(row),
        }
    }

    /// The text of a text column.
    pub(super) fn text(&self, row: usize) -> Option<&str> {
        if let Self::Text(a) = self { Some(a.value(row)) } else { None }
    }

    /// Appends a cell as JSON.
    pub(super) fn json(&self, row: usize, out: &mut Vec<u8>) {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
        } else if let Some(text) = self.text(row) {
            put(serde_json::to_writer(out, text));
        } else if matches!(self, Self::Date(_) | Self::Timestamp(_)) {
            out.push(b'"');
            self.bare(row, out);
            out.push(b'"');
        } else {
            self.bare(row, out);
        }
    }

    /// Appends a cell that is not NULL without quotes: all digits of numbers, RFC 3339 UTC for instants.
    pub(super) fn bare(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            Self::Int32(a) => put(serde_json::to_writer(out, &a.value(row))),
            Self::Int64(a) => put(serde_json::to_writer(out, &a.value(row))),
            // The shortest text that reads back as the same double.
            Self::Float64(a) => put(serde_json::to_writer(out, &a.value(row))),
            Self::Decimal(a, precision, scale) => {
                out.extend_from_slice(Decimal128Type::format_decimal(a.value(row), *precision, *scale).as_bytes());
            }
            Self::Boolean(a) => out.extend_from_slice(if a.value(row) { b"true" } else { b"false" }),
            Self::Text(a) => out.extend_from_slice(a.value(row).as_bytes()),
            Self::Date(a) => match NaiveDate::from_epoch_days(a.value(row)) {
                Some(day) => put(write!(out, "{day}")),
                None => put(write!(out, "{}", a.value(row))),
            },
            Self::Timestamp(a) => match DateTime::from_timestamp_micros(a.value(row)) {
                Some(at) => out.extend_from_slice(at.to_rfc3339_opts(SecondsFormat::AutoSi, true).as_bytes()),
                None => put(write!(out, "{}", a.value(row))),
            },
        }
    }
}

/// Writing to a vector of bytes cannot fail.
fn put<E>(_: Result<(), E>) {}
/// A batch whose columns are texts, as NDJSON and CSV write them.
pub(crate) fn as_texts(batch: &RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema();
    let fields = schema.fields().iter().map(|field| Field::new(field.name(), DataType::Utf8, true));
    let columns = batch.columns().iter().map(|column| {
        let cells = Cells::of(column)?;
        let texts = (0..batch.num_rows()).map(|row| {
            let mut text = Vec::new();
            if cells.is_null(row) {
                return None;
            }
            cells.bare(row, &mut text);
            Some(String::from_utf8_lossy(&text).into_owned())
        });
        Ok(Arc::new(texts.collect::<StringArray>()) as ArrayRef)
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns, &options)
        .map_err(|error| Error::new(ErrorKind::Bug, format!("a batch could not be made of texts: {error}")))
}
