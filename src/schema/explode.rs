//! Which columns the rows of a table have once its records are known, and where an array's elements become rows (R31).

use jsonptr::{Pointer, PointerBuf};
use serde_json::value::RawValue;

use super::infer::{self, Members};
use super::{Column, TableSchema};
use crate::column::flatten::{self, Field};
use crate::config::{ArrayOf, ColumnType, Explode, SchemaConfig, exploded_name};
use crate::error::{Error, ErrorKind, Result};

/// What the rows of a table are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// All columns.
    pub schema: TableSchema,
    /// Arrays that are no columns here, because they have tables of their own: not left out by mistake.
    pub aside: Vec<PointerBuf>,
    /// In an exploded table: what is exploded.
    pub elements: Option<Elements>,
}

/// The array whose elements are the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elements {
    /// Its column in the table it is of.
    pub column: String,
    /// Where it stands in a record.
    pub path: PointerBuf,
    /// The columns of the schema from here on are of the elements; their paths begin there.
    pub first: usize,
    /// Whether a record without elements is a row all the same.
    pub outer: bool,
    /// Whether the record's own columns are inferred too.
    pub inferred: bool,
}

impl Layout {
    /// Rows that are records.
    pub fn plain(schema: TableSchema) -> Self {
        Self { schema, aside: Vec::new(), elements: None }
    }
}

/// What a sample of records says of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sampled {
    /// The columns.
    Known(Layout),
    /// The array is there, but none has an element: what they are is not known yet.
    NoElement,
    /// Nothing has the name of the array; these columns are arrays.
    NoArray(Vec<String>),
}

/// The layout of a table, from records. `declared` are the record's columns where they are not inferred.
pub fn sampled(records: &[&str], config: &SchemaConfig, declared: Option<&TableSchema>) -> Result<Sampled> {
    let Some(explode) = &config.explode else {
        return infer::infer(records.iter().copied(), config).map(|schema| Sampled::Known(Layout::plain(schema)));
    };
    let (mut parent, arrays) = match declared {
        Some(schema) => (schema.clone(), Vec::new()),
        None => inferred(records, config)?,
    };
    let Some(of) = &explode.of else {
        let taken = |column: &Column| explode.taken.iter().find(|(field, _)| *field == column.name);
        if let Some((column, other)) = arrays.iter().find_map(taken) {
            let said = format!(
                "the exploded table of array column `{column}` would have the name of table {other}: rename that table, \
                 or set schema.array-handling = keep_array"
            );
            return Err(Error::new(ErrorKind::Schema, said));
        }
        let aside = set_aside(&mut parent, &arrays, explode);
        return Ok(Sampled::Known(Layout { schema: parent, aside, elements: None }));
    };
    let names = || arrays.iter().map(|column| column.name.clone()).collect();
    let Some(at) = parent.columns.iter().position(|column| column.name == of.column) else {
        return Ok(Sampled::NoArray(names()));
    };
    let array = parent.columns.remove(at);
    let found: Vec<&RawValue> = records.iter().filter_map(|record| value_at(record, &array.path)).collect();
    let only_arrays =
        declared.is_some() || found.iter().all(|value| matches!(value.get().as_bytes(), [b'[' | b'n', ..]));
    if !only_arrays {
        return Ok(Sampled::NoArray(names()));
    }
    let items = found.iter().filter_map(|value| serde_json::from_str::<Vec<&RawValue>>(value.get()).ok()).flatten();
    let element = match infer::values(items.map(RawValue::get), config) {
        Some(element) => element,
        None if explode.outer => Field::Value(ColumnType::Json, None),
        None => return Ok(Sampled::NoElement),
    };
    let mut aside = set_aside(&mut parent, &arrays, explode);
    aside.push(array.path.clone());
    let first = parent.columns.len();
    parent.columns.extend(of_elements(&parent, &array, &element, config)?);
    infer::limited(parent.columns.len())?;
    let (column, path, outer) = (array.name, array.path, explode.outer);
    let elements = Some(Elements { column, path, first, outer, inferred: declared.is_none() });
    Ok(Sampled::Known(Layout { schema: parent, aside, elements }))
}

/// The error of [`Sampled::NoArray`].
pub fn no_array(of: Option<&ArrayOf>, arrays: &[String]) -> Error {
    let (table, column) = of.map_or(("", ""), |of| (of.table.as_str(), of.column.as_str()));
    let known = if arrays.is_empty() { "none is".to_owned() } else { format!("these are: {}", arrays.join(", ")) };
    let said = format!("no column `{column}` of table {table} is an array in the first records; {known}");
    Error::new(ErrorKind::Schema, said)
}

/// The columns of records, and which of them hold arrays and nothing else.
fn inferred(records: &[&str], config: &SchemaConfig) -> Result<(TableSchema, Vec<Column>)> {
    let fields = infer::fields(records.iter().copied(), config);
    let schema = infer::of_fields(&fields, config)?;
    let paths = flatten::arrays(&fields, config.flatten_depth);
    let arrays = schema.columns.iter().filter(|column| paths.contains(&column.path)).cloned().collect();
    Ok((schema, arrays))
}

/// The array columns of records, for whoever lists tables.
pub fn arrays(records: &[&str], config: &SchemaConfig) -> Result<Vec<Column>> {
    inferred(records, config).map(|(_, arrays)| arrays)
}

/// With `explode_view`, arrays leave their table.
fn set_aside(parent: &mut TableSchema, arrays: &[Column], explode: &Explode) -> Vec<PointerBuf> {
    if explode.keeps_arrays {
        return Vec::new();
    }
    parent.columns.retain(|column| !arrays.iter().any(|array| array.path == column.path));
    arrays.iter().map(|array| array.path.clone()).collect()
}

/// `<field>_<key>` for objects, `<field>` for anything else; their paths are in an element.
fn of_elements(parent: &TableSchema, array: &Column, element: &Field, config: &SchemaConfig) -> Result<Vec<Column>> {
    let whole = |data_type| Column { name: array.name.clone(), path: PointerBuf::new(), data_type, format: None };
    let mut columns = match element {
        Field::Object(members) if !members.is_empty() => flatten::columns(members, config.flatten_depth)?,
        Field::Object(_) | Field::Array => return Ok(vec![whole(ColumnType::Json)]),
        Field::Value(data_type, _) => return Ok(vec![whole(*data_type)]),
    };
    let rest = parent.rest.as_ref().map(|rest| rest.name.as_str());
    for column in &mut columns {
        column.name = exploded_name(&array.name, &column.name);
        let taken = parent.columns.iter().find(|other| other.name == column.name).map(|other| other.path.to_string());
        if let Some(other) = taken.or_else(|| rest.filter(|r| *r == column.name).map(|_| "the rest-column".to_owned()))
        {
            let said = format!(
                "{other} and {} in the elements of {} would both be column `{}`; declare columns under other names, or \
                 set schema.array-handling = keep_array",
                column.path, array.path, column.name
            );
            return Err(Error::new(ErrorKind::Schema, said));
        }
    }
    Ok(columns)
}

/// The value at a path of a record, as it is written; of a key that stands twice the last.
fn value_at<'a>(record: &'a str, path: &Pointer) -> Option<&'a RawValue> {
    let mut value: &'a RawValue = serde_json::from_str(record).ok()?;
    for token in path.tokens() {
        let key = token.decoded();
        value = match value.get().as_bytes().first()? {
            b'{' => {
                let Members(members) = serde_json::from_str(value.get()).ok()?;
                members.into_iter().rev().find(|(name, _)| *name == key)?.1
            }
            b'[' => {
                let items: Vec<&'a RawValue> = serde_json::from_str(value.get()).ok()?;
                let index: usize = key.parse().ok()?;
                items.get(index).copied()?
            }
            _ => return None,
        };
    }
    Some(value)
}
