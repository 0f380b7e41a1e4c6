//! The column of the parent's key, put beside the rows of a child; rows of keys that nobody asked for are dropped (R31).

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{ArrayRef, BooleanArray, PrimitiveArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow_schema::{ArrowError, Schema};
use arrow_select::filter::filter_record_batch;

use crate::column::Column;
use crate::config::{Child, ColumnType, Join, OnMismatch, ResponseFormat, TableConfig};
use crate::counts::Counts;
use crate::decode::whole_number;
use crate::error::{Error, ErrorKind, Result};
use crate::schema::{ParentColumn, field, parent};

/// Whose children the rows of one walk are.
#[derive(Debug)]
pub(super) struct Lineage {
    column: ParentColumn,
    on_mismatch: OnMismatch,
    is_selected: bool,
    format: ResponseFormat,
    keys: Keys,
}

#[derive(Debug)]
enum Keys {
    /// All rows are of this one.
    One(String),
    /// Each row says which of these it is of, in a column that was read beside the others.
    Many(HashSet<String>),
}

/// The column in which a batch join reads the keys of records: it has the name of the one that takes its place.
pub(super) fn beside(child: &Child, format: ResponseFormat) -> Option<Column> {
    match &child.join {
        Join::Batch { field, .. } => Some(key_column(child.column(), field.clone(), format)),
        Join::NestedLoop { .. } => None,
    }
}

/// A column of keys as they are written.
pub(super) fn key_column(name: String, path: jsonptr::PointerBuf, format: ResponseFormat) -> Column {
    let data_type = if format == ResponseFormat::Csv { ColumnType::String } else { ColumnType::Json };
    Column { name, path, data_type, format: None }
}

/// The literal scalar of a cell of such a column; `None` for what is no key: null, an empty text, an object or array.
pub(super) fn literal(cell: &str, format: ResponseFormat) -> Option<Cow<'_, str>> {
    if format == ResponseFormat::Csv {
        return (!cell.is_empty()).then_some(cell.into());
    }
    match cell.bytes().next()? {
        b'"' => serde_json::from_str::<String>(cell).ok().filter(|text| !text.is_empty()).map(Cow::Owned),
        b'{' | b'[' | b'n' => None,
        _ => Some(cell.into()),
    }
}

impl Lineage {
    /// Of a child table's walk for these keys; `None` for other tables.
    pub(super) fn of(
        table: &TableConfig,
        keys: &[String],
        select: Option<&[String]>,
        format: ResponseFormat,
    ) -> Option<Self> {
        let column = parent(table)?;
        let is_selected = select.is_none_or(|names| names.contains(&column.name));
        let keys = match (&table.child.as_ref()?.join, keys) {
            (Join::NestedLoop { .. }, [key]) => Keys::One(key.clone()),
            _ => Keys::Many(keys.iter().cloned().collect()),
        };
        Some(Self { column, on_mismatch: table.schema.on_mismatch, is_selected, format, keys })
    }

    /// The name of the column.
    pub(super) fn name(&self) -> &str {
        &self.column.name
    }

    /// The keys that were asked for.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        let (one, many) = match &self.keys {
            Keys::One(key) => (Some(key), None),
            Keys::Many(keys) => (None, Some(keys)),
        };
        one.into_iter().chain(many.into_iter().flatten()).map(String::as_str)
    }

    /// The rows that belong here, with the column after theirs.
    pub(super) fn apply(&self, batch: RecordBatch, counts: &mut Counts) -> Result<RecordBatch> {
        let same = batch.schema_ref().fields().iter().filter(|field| *field.name() == self.column.name).count();
        if same > usize::from(matches!(self.keys, Keys::Many(_))) {
            let said = format!(
                "the records have a field that would be column `{}`, which holds the parent's key: declare columns, \
                 under other names",
                self.column.name
            );
            return Err(Error::new(ErrorKind::Schema, said));
        }
        match &self.keys {
            Keys::One(key) if self.is_selected => {
                let keys = self.array(std::iter::repeat_n(key.as_str(), batch.num_rows()), counts)?;
                self.with(&batch, keys)
            }
            Keys::One(_) => Ok(batch),
            Keys::Many(asked) => self.matched(&batch, asked, counts),
        }
    }

    fn matched(&self, batch: &RecordBatch, asked: &HashSet<String>, counts: &mut Counts) -> Result<RecordBatch> {
        let at = batch.schema_ref().index_of(&self.column.name).map_err(failed)?;
        let cells = batch.column(at).as_string_opt::<i32>().ok_or_else(|| bug("its keys are no texts"))?;
        let mut keys = Vec::with_capacity(batch.num_rows());
        let mut mask = Vec::with_capacity(batch.num_rows());
        for cell in cells {
            let key = cell.and_then(|cell| literal(cell, self.format));
            let own = key.as_ref().and_then(|key| asked.get(key.as_ref()));
            mask.push(own.is_some());
            match own {
                Some(key) => keys.push(key.as_str()),
                None => counts.unmatched.add(|| cell.unwrap_or("no key").to_owned()),
            }
        }
        let kept = filter_record_batch(batch, &BooleanArray::from(mask)).map_err(failed)?;
        let others: Vec<usize> = (0..kept.num_columns()).filter(|column| *column != at).collect();
        let kept = kept.project(&others).map_err(failed)?;
        if !self.is_selected {
            return Ok(kept);
        }
        let keys = self.array(keys.into_iter(), counts)?;
        self.with(&kept, keys)
    }

    fn with(&self, batch: &RecordBatch, keys: ArrayRef) -> Result<RecordBatch> {
        let own = field(&self.column.name, self.column.data_type);
        let fields: Vec<_> = batch.schema_ref().fields().iter().cloned().chain([Arc::new(own)]).collect();
        let columns = batch.columns().iter().cloned().chain([keys]).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).map_err(failed)
    }

    fn array<'a>(&self, keys: impl Iterator<Item = &'a str> + Clone, counts: &mut Counts) -> Result<ArrayRef> {
        match self.column.data_type {
            ColumnType::Int32 | ColumnType::Int64 => {
                let numbers = self.numbers(keys, counts)?;
                Ok(if self.column.data_type == ColumnType::Int64 {
                    Arc::new(PrimitiveArray::<Int64Type>::from(numbers))
                } else {
                    let small = |number: Option<i64>| number.and_then(|n| i32::try_from(n).ok());
                    Arc::new(numbers.into_iter().map(small).collect::<PrimitiveArray<Int32Type>>())
                })
            }
            _ => {
                // The offsets of texts have 32 bits.
                if keys.clone().map(str::len).sum::<usize>() > i32::MAX as usize {
                    let said = "the parent's keys are too long for so many rows: lower schema.batch-rows";
                    return Err(Error::new(ErrorKind::Schema, said));
                }
                Ok(Arc::new(StringArray::from_iter_values(keys)))
            }
        }
    }

    /// The keys as whole numbers, as any value of such a column is read (R24).
    fn numbers<'a>(&self, keys: impl Iterator<Item = &'a str>, counts: &mut Counts) -> Result<Vec<Option<i64>>> {
        let is_small = self.column.data_type == ColumnType::Int32;
        let fits = |number: &(i64, bool)| !is_small || i32::try_from(number.0).is_ok();
        let mut last = None;
        let mut numbers = Vec::with_capacity(keys.size_hint().0);
        for key in keys {
            let reading = match last {
                Some((before, reading)) if before == key => reading,
                _ => whole_number(key).filter(fits),
            };
            last = Some((key, reading));
            match reading {
                Some((_, true)) => {}
                Some((_, false)) => {
                    counts.converted.entry(self.column.name.clone()).or_default().add(|| key.to_owned());
                }
                None if self.on_mismatch == OnMismatch::Null => {
                    counts.nulled.entry(self.column.name.clone()).or_default().add(|| key.to_owned());
                }
                None => {
                    let said = format!("column `{}`: the parent's key {key:?} is no whole number", self.column.name);
                    return Err(Error::new(ErrorKind::Decode, said));
                }
            }
            numbers.push(reading.map(|(number, _)| number));
        }
        Ok(numbers)
    }
}

fn bug(what: &str) -> Error {
    Error::new(ErrorKind::Bug, format!("a batch could not get its parent's key: {what}"))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: ArrowError) -> Error {
    bug(&error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r31_a_key_is_the_literal_scalar() {
        let json = |cell| literal(cell, ResponseFormat::Json).map(Cow::into_owned);
        for (cell, want) in
            [("\"a\\u0020b\"", "a b"), ("1.50", "1.50"), ("9007199254740993", "9007199254740993"), ("true", "true")]
        {
            assert_eq!(json(cell).as_deref(), Some(want));
        }
        for cell in ["null", "\"\"", "{}", "[1]", "\"\\ud800\""] {
            assert_eq!(json(cell), None, "{cell}");
        }
        assert_eq!(literal("null", ResponseFormat::Csv).as_deref(), Some("null"));
        assert_eq!(literal("", ResponseFormat::Csv), None);
    }

    fn lineage(data_type: ColumnType, on_mismatch: OnMismatch) -> Lineage {
        let column = ParentColumn { name: "p".into(), data_type };
        let keys = Keys::One(String::new());
        Lineage { column, on_mismatch, is_selected: true, format: ResponseFormat::Json, keys }
    }

    #[test]
    fn r24_a_key_in_an_integer_column_changes_nothing_in_silence() {
        let mut counts = Counts::default();
        let keys = ["7", "3.0", "x", "x", "2147483648"];
        let small = lineage(ColumnType::Int32, OnMismatch::Null).array(keys.into_iter(), &mut counts).unwrap();
        let small: Vec<_> = small.as_primitive::<Int32Type>().iter().collect();
        assert_eq!(small, [Some(7), Some(3), None, None, None]);
        assert_eq!((counts.converted["p"].count, counts.nulled["p"].count), (1, 3));
        let fails = lineage(ColumnType::Int64, OnMismatch::Fail).array(keys.into_iter(), &mut counts).unwrap_err();
        assert_eq!(fails.kind(), ErrorKind::Decode);
    }
}
