//! From the schema of an answer to columns: along `data-path` to the records, and their members with types.

use std::cell::Cell;
use std::collections::HashMap;

use serde_json::Value;

use super::schema::{self, All, Any, Facts, Reader};
use super::{About, Ask, Fault, Spec, nearest, shown};
use crate::column::flatten::{self, Field};
use crate::column::{COLUMNS_MAX, Column, ColumnType};

/// The levels that records have at most when they are read.
const LEVELS_MAX: usize = 128;

/// The most fields, those that only hold others included, that are looked at.
const FIELDS_MAX: usize = 10 * COLUMNS_MAX;

/// The columns of the records of an answer.
pub(super) fn columns(spec: &Spec, answer: &Value, ask: &Ask<'_>) -> Result<Vec<Column>, Fault> {
    let make = Make { reader: Reader::new(spec), fields: Cell::new(0) };
    let depth = ask.flatten_depth.min(LEVELS_MAX);
    let records = make.records(answer, ask)?;
    let members = make.members(&make.reader.read(&records)?, depth)?;
    if members.is_empty() {
        let said =
            "the document says nothing of the fields of its records: declare columns, or use schema.mode = infer";
        return Err(said.to_owned().into());
    }
    let columns = flatten::columns(&members, depth).map_err(|error| error.to_string())?;
    if columns.len() > COLUMNS_MAX { Err(too_many().into()) } else { Ok(columns) }
}

fn too_many() -> String {
    format!("its records have more than {COLUMNS_MAX} fields: declare columns, or flatten less (schema.flatten-depth)")
}

struct Make<'a> {
    reader: Reader<'a>,
    fields: Cell<usize>,
}

impl<'a> Make<'a> {
    /// The schema of one record.
    fn records(&self, answer: &'a Value, ask: &Ask<'_>) -> Result<Any<'a>, Fault> {
        let mut at: Any<'a> = vec![vec![answer]];
        for token in ask.data_path.into_iter().flat_map(|path| path.tokens()) {
            let name = token.decoded();
            let facts = self.reader.read(&at)?;
            let is_index = !name.is_empty() && name.chars().all(|c| c.is_ascii_digit());
            let next: Any<'a> = facts
                .iter()
                .filter_map(|facts| {
                    facts.member(&name).or_else(|| Some(&facts.items).filter(|i| is_index && !i.is_empty()))
                })
                .cloned()
                .collect();
            if next.is_empty() {
                let has = nearest(&name, facts.iter().flat_map(|facts| facts.members.iter().map(|(name, _)| *name)));
                let message = format!("the answer in the document has no {} there; it has {has}", shown(&name, 100));
                return Err(Fault { about: About::DataPath, message });
            }
            at = next;
        }
        let facts = self.reader.read(&at)?;
        let arrays: Any<'a> =
            facts.iter().filter(|f| f.types & schema::ARRAY != 0).map(|facts| facts.items.clone()).collect();
        let has_objects = facts.iter().any(|facts| facts.types & schema::OBJECT != 0);
        if !arrays.is_empty() {
            return Ok(arrays);
        }
        if has_objects && (ask.is_streamed || !ask.is_paged) {
            return Ok(at);
        }
        let has = nearest("data", facts.iter().flat_map(|facts| facts.members.iter().map(|(name, _)| *name)));
        let (about, message) = match (ask.data_path, has_objects) {
            (Some(_), _) => (About::DataPath, "leads to no array in the document".to_owned()),
            (None, true) => {
                let said = format!("the answer in the document is no array but an object: set data-path; it has {has}");
                (About::Endpoint, said)
            }
            (None, false) => (About::Endpoint, "the answer in the document is neither array nor object".to_owned()),
        };
        Err(Fault { about, message })
    }

    /// The members of all alternatives that are objects, in order.
    fn members(&self, facts: &[Facts<'a>], levels: usize) -> Result<Vec<(String, Field)>, String> {
        let mut members: Vec<(&'a str, Any<'a>)> = Vec::new();
        let mut index: HashMap<&'a str, usize> = HashMap::new();
        for (name, all) in facts.iter().flat_map(|facts| &facts.members) {
            let next = members.len();
            let at = *index.entry(name).or_insert(next);
            if at == next {
                members.push((name, Vec::new()));
            }
            if let Some((_, any)) = members.get_mut(at) {
                any.push(All::clone(all));
            }
        }
        members.into_iter().map(|(name, any)| Ok((name.to_owned(), self.field(&any, levels)?))).collect()
    }

    fn field(&self, any: &[All<'a>], levels: usize) -> Result<Field, String> {
        self.fields.set(self.fields.get() + 1);
        if self.fields.get() > FIELDS_MAX {
            return Err(too_many());
        }
        let facts = self.reader.read(any)?;
        let is_object = |facts: &Facts<'_>| facts.types & !schema::NULL == schema::OBJECT;
        if levels > 0 && !facts.is_empty() && facts.iter().all(is_object) {
            return Ok(Field::Object(self.members(&facts, levels - 1)?));
        }
        let types = facts.iter().map(|facts| column_type(facts.types, facts.format));
        Ok(Field::Value(types.reduce(common).unwrap_or(ColumnType::Json), None))
    }
}

/// The column of one alternative; null is in every column.
fn column_type(types: schema::Types, format: Option<&str>) -> ColumnType {
    match types & !schema::NULL {
        schema::BOOLEAN => ColumnType::Boolean,
        schema::INTEGER if format == Some("int32") => ColumnType::Int32,
        schema::INTEGER => ColumnType::Int64,
        types if types & schema::FRACTION != 0 && types & !(schema::INTEGER | schema::FRACTION) == 0 => {
            ColumnType::Float64
        }
        schema::STRING => match format {
            Some("date") => ColumnType::Date,
            Some("date-time") => ColumnType::Timestamp,
            _ => ColumnType::String,
        },
        _ => ColumnType::Json,
    }
}

/// The column that holds what either of two holds.
fn common(a: ColumnType, b: ColumnType) -> ColumnType {
    use ColumnType::{Date, Float64, Int32, Int64, Json, String, Timestamp};
    match (a, b) {
        _ if a == b => a,
        (Int32 | Int64, Int32 | Int64) => Int64,
        (Int32 | Int64 | Float64, Int32 | Int64 | Float64) => Float64,
        (Date | Timestamp | String, Date | Timestamp | String) => String,
        _ => Json,
    }
}
