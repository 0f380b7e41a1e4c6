//! A column: its name, its place in a record, its type; and what makes columns of nested fields.

pub mod flatten;

use jsonptr::PointerBuf;
use serde::{Deserialize, Serialize};

use crate::position::TimestampFormat;

/// The most columns that are made of fields nobody listed (R26): a batch takes memory for each of them in each row.
pub const COLUMNS_MAX: usize = 2_000;

/// One column: where its value stands in a record and how it becomes an Arrow value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Column name.
    pub name: String,
    /// Pointer into a record; the root pointer is the whole record (variant mode).
    pub path: PointerBuf,
    /// Its type.
    pub data_type: ColumnType,
    /// How dates and timestamps are written; `None` is RFC 3339 (timestamps) or `%Y-%m-%d` (dates).
    pub format: Option<TimestampFormat>,
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ColumnType {
    /// Arrow `Int32`.
    Int32,
    /// Arrow `Int64`.
    Int64,
    /// Arrow `Float64`.
    Float64,
    /// Arrow `Decimal128(precision, scale)`, precision 1 to 38, scale 0 to precision.
    Decimal(u8, i8),
    /// Arrow `Boolean`.
    Boolean,
    /// Arrow `Utf8`.
    String,
    /// Arrow `Date32`.
    Date,
    /// Arrow `Timestamp(Microsecond, "UTC")`.
    Timestamp,
    /// Arrow `Utf8` that holds JSON text.
    Json,
}
