//! The Arrow builders that the other libraries fill, one a column.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{
    BooleanBuilder, Date32Builder, Float64Builder, Int32Builder, Int64Builder, StringBuilder,
    TimestampMicrosecondBuilder,
};
use arrow_schema::DataType;

/// A builder of one of the types of the benchmark.
pub(crate) enum Column {
    Int32(Int32Builder),
    Int64(Int64Builder),
    Float64(Float64Builder),
    Boolean(BooleanBuilder),
    Text(StringBuilder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
}

impl Column {
    /// Presized for so many rows and bytes of text.
    pub(crate) fn new(of: &DataType, rows: usize, bytes: usize) -> Self {
        match of {
            DataType::Int32 => Self::Int32(Int32Builder::with_capacity(rows)),
            DataType::Int64 => Self::Int64(Int64Builder::with_capacity(rows)),
            DataType::Float64 => Self::Float64(Float64Builder::with_capacity(rows)),
            DataType::Boolean => Self::Boolean(BooleanBuilder::with_capacity(rows)),
            DataType::Date32 => Self::Date(Date32Builder::with_capacity(rows)),
            DataType::Timestamp(..) => {
                Self::Timestamp(TimestampMicrosecondBuilder::with_capacity(rows).with_data_type(of.clone()))
            }
            _ => Self::Text(StringBuilder::with_capacity(rows, bytes)),
        }
    }

    pub(crate) fn null(&mut self) {
        match self {
            Self::Int32(builder) => builder.append_null(),
            Self::Int64(builder) => builder.append_null(),
            Self::Float64(builder) => builder.append_null(),
            Self::Boolean(builder) => builder.append_null(),
            Self::Text(builder) => builder.append_null(),
            Self::Date(builder) => builder.append_null(),
            Self::Timestamp(builder) => builder.append_null(),
        }
    }

    pub(crate) fn boolean(&mut self, value: bool) -> bool {
        let Self::Boolean(builder) = self else { return false };
        builder.append_value(value);
        true
    }

    pub(crate) fn integer(&mut self, value: i64) -> bool {
        match self {
            Self::Int32(builder) => match i32::try_from(value) {
                Ok(value) => builder.append_value(value),
                Err(_) => return false,
            },
            Self::Int64(builder) => builder.append_value(value),
            Self::Float64(builder) => builder.append_value(value as f64),
            _ => return false,
        }
        true
    }

    pub(crate) fn float(&mut self, value: f64) -> bool {
        let Self::Float64(builder) = self else { return false };
        builder.append_value(value);
        true
    }

    pub(crate) fn text(&mut self, text: &str) -> bool {
        match self {
            Self::Text(builder) => builder.append_value(text),
            Self::Date(builder) => match days(text.as_bytes()) {
                Some(days) => builder.append_value(days),
                None => return false,
            },
            Self::Timestamp(builder) => match micros(text.as_bytes()) {
                Some(micros) => builder.append_value(micros),
                None => return false,
            },
            _ => return false,
        }
        true
    }

    /// The rows so far.
    pub(crate) fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Int32(builder) => Arc::new(builder.finish()),
            Self::Int64(builder) => Arc::new(builder.finish()),
            Self::Float64(builder) => Arc::new(builder.finish()),
            Self::Boolean(builder) => Arc::new(builder.finish()),
            Self::Text(builder) => Arc::new(builder.finish()),
            Self::Date(builder) => Arc::new(builder.finish()),
            Self::Timestamp(builder) => Arc::new(builder.finish()),
        }
    }
}

/// Two digits.
fn two(text: &[u8], at: usize) -> Option<i32> {
    let (tens, ones) = (text[at].wrapping_sub(b'0'), text[at + 1].wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| i32::from(tens) * 10 + i32::from(ones))
}

/// Days since 1970 of `2024-01-31`.
fn days(text: &[u8]) -> Option<i32> {
    if text.len() < 10 || text[4] != b'-' || text[7] != b'-' {
        return None;
    }
    let (year, month, day) = (two(text, 0)? * 100 + two(text, 2)?, two(text, 5)?, two(text, 8)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    Some(year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 719_469)
}

/// Microseconds since 1970 of `2024-01-31T12:30:00Z`.
fn micros(text: &[u8]) -> Option<i64> {
    if text.len() != 20 || text[10] != b'T' || text[13] != b':' || text[16] != b':' || text[19] != b'Z' {
        return None;
    }
    let (hours, minutes, seconds) = (two(text, 11)?, two(text, 14)?, two(text, 17)?);
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    Some((i64::from(days(text)?) * 86_400 + i64::from(hours * 3600 + minutes * 60 + seconds)) * 1_000_000)
}
