//! What a table looks like: an Arrow schema and a JSON pointer per column.

pub mod explode;
pub mod infer;

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use jsonptr::PointerBuf;

pub use crate::column::Column;
use crate::config::{ColumnType, OnMismatch, SchemaMode, TableConfig};

/// Marks an Arrow `Utf8` field whose values are JSON texts (the canonical Arrow extension name).
pub const JSON_EXTENSION: &str = "arrow.json";

/// The columns of a table, resolved: declared, inferred or variant, with any projection applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSchema {
    /// In output order.
    pub columns: Vec<Column>,
    /// A JSON column, after `columns`, of the fields that no column of the table reads.
    pub rest: Option<RestColumn>,
    /// In a child table, the last column: its parent's key (R31).
    pub parent: Option<ParentColumn>,
    /// What a value that does not fit does (R24).
    pub on_mismatch: OnMismatch,
}

/// The column of undeclared fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestColumn {
    /// Column name.
    pub name: String,
    /// What counts as declared: the paths of all columns of the table, projected or not.
    pub declared: Vec<PointerBuf>,
}

/// The column of the parent's key. No record has it: it is put beside them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentColumn {
    /// Column name.
    pub name: String,
    /// An integer or a string.
    pub data_type: ColumnType,
}

impl TableSchema {
    /// The Arrow schema: every column nullable; JSON columns carry the extension name [`JSON_EXTENSION`].
    pub fn arrow(&self) -> SchemaRef {
        let mut fields: Vec<Field> = self.columns.iter().map(|c| field(&c.name, c.data_type)).collect();
        if let Some(rest) = &self.rest {
            fields.push(field(&rest.name, ColumnType::Json));
        }
        if let Some(parent) = &self.parent {
            fields.push(field(&parent.name, parent.data_type));
        }
        Arc::new(Schema::new(fields))
    }

    /// Only the named columns, in the order they are named. An unknown name is returned as the error.
    pub fn project(&self, names: &[String]) -> Result<Self, String> {
        let mut columns = Vec::with_capacity(names.len());
        let (mut rest, mut parent) = (None, None);
        for name in names {
            if let Some(column) = self.columns.iter().find(|c| c.name == *name) {
                columns.push(column.clone());
            } else if self.rest.as_ref().is_some_and(|r| r.name == *name) {
                rest.clone_from(&self.rest);
            } else if self.parent.as_ref().is_some_and(|p| p.name == *name) {
                parent.clone_from(&self.parent);
            } else {
                return Err(name.clone());
            }
        }
        Ok(Self { columns, rest, parent, on_mismatch: self.on_mismatch })
    }

    /// The names of all columns.
    pub fn names(&self) -> Vec<&str> {
        let beside = self.rest.iter().map(|r| r.name.as_str()).chain(self.parent.iter().map(|p| p.name.as_str()));
        self.columns.iter().map(|c| c.name.as_str()).chain(beside).collect()
    }
}

/// The name of the one column of variant mode.
pub const VARIANT_COLUMN: &str = "value";

/// The schema of a table whose columns are known before its first page; `None` where they are inferred from it, or stand
/// in a document that is still to be asked.
///
/// What the elements of an array are is always inferred.
pub fn for_table(table: &TableConfig) -> Option<TableSchema> {
    if table.array().is_some() { None } else { declared(table) }
}

/// The columns of a table's records, where they are not inferred.
pub fn declared(table: &TableConfig) -> Option<TableSchema> {
    let (columns, rest) = match table.schema.mode {
        SchemaMode::Infer if table.columns.is_empty() => return None,
        SchemaMode::Strict if table.awaits_columns() => return None,
        SchemaMode::Variant => {
            let name = VARIANT_COLUMN.to_owned();
            let whole = Column { name, path: PointerBuf::new(), data_type: ColumnType::Json, format: None };
            (vec![whole], None)
        }
        SchemaMode::Strict | SchemaMode::Infer => {
            let columns = table.columns.clone();
            let declared = columns.iter().map(|c| c.path.clone()).collect();
            (columns, table.schema.rest_column.clone().map(|name| RestColumn { name, declared }))
        }
    };
    Some(TableSchema { columns, rest, parent: parent(table), on_mismatch: table.schema.on_mismatch })
}

/// The column of the parent's key, in a child table.
pub fn parent(table: &TableConfig) -> Option<ParentColumn> {
    table.child.as_ref().map(|child| ParentColumn { name: child.column(), data_type: child.data_type })
}

/// The Arrow field of a column type.
pub fn field(name: &str, data_type: ColumnType) -> Field {
    let arrow = match data_type {
        ColumnType::Int32 => DataType::Int32,
        ColumnType::Int64 => DataType::Int64,
        ColumnType::Float64 => DataType::Float64,
        ColumnType::Decimal(precision, scale) => DataType::Decimal128(precision, scale),
        ColumnType::Boolean => DataType::Boolean,
        ColumnType::String | ColumnType::Json => DataType::Utf8,
        ColumnType::Date => DataType::Date32,
        ColumnType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
    };
    let field = Field::new(name, arrow, true);
    if data_type == ColumnType::Json {
        field.with_metadata([("ARROW:extension:name".to_owned(), JSON_EXTENSION.to_owned())].into())
    } else {
        field
    }
}

/// Whether a field holds JSON text.
pub fn is_json(field: &Field) -> bool {
    field.metadata().get("ARROW:extension:name").is_some_and(|name| name == JSON_EXTENSION)
}
