//! Nested objects become columns (R24): `{"a":{"b":1}}` is column `a_b`, down to `flatten-depth` levels.

use std::collections::HashMap;

use jsonptr::PointerBuf;

use super::{Column, ColumnType};
use crate::error::{Error, ErrorKind, Result};
use crate::position::TimestampFormat;

/// A field as a specification or a first page describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// A value of one type.
    Value(ColumnType, Option<TimestampFormat>),
    /// An array and nothing else: JSON text, or the rows of an exploded table.
    Array,
    /// An object of known members, in order.
    Object(Vec<(String, Self)>),
}

/// The columns of a record with these members, in order: nested ones stand where their parent stood.
///
/// An object below `depth` levels, or without known members, stays JSON text. Two fields of one column name are an
/// error that names both.
pub fn columns(members: &[(String, Field)], depth: usize) -> Result<Vec<Column>> {
    let mut out = Vec::new();
    add(&mut out, "", &PointerBuf::new(), members, depth);
    let mut seen: HashMap<&str, &PointerBuf> = HashMap::new();
    for column in &out {
        if let Some(other) = seen.insert(&column.name, &column.path) {
            return Err(Error::new(
                ErrorKind::Schema,
                format!(
                    "the fields {other} and {} would both be column `{}`; declare columns, or set \
                     schema.flatten-depth = 0",
                    column.path, column.name
                ),
            ));
        }
    }
    Ok(out)
}

/// The paths of the columns that hold arrays.
pub(crate) fn arrays(members: &[(String, Field)], depth: usize) -> Vec<PointerBuf> {
    fn below(out: &mut Vec<PointerBuf>, parent: &PointerBuf, members: &[(String, Field)], depth: usize) {
        for (key, field) in members {
            let path = parent.with_trailing_token(key.as_str());
            match field {
                Field::Array => out.push(path),
                Field::Object(inner) if depth > 0 => below(out, &path, inner, depth - 1),
                Field::Object(_) | Field::Value(..) => {}
            }
        }
    }
    let mut out = Vec::new();
    below(&mut out, &PointerBuf::new(), members, depth);
    out
}

fn add(out: &mut Vec<Column>, prefix: &str, parent: &PointerBuf, members: &[(String, Field)], depth: usize) {
    for (key, field) in members {
        let name = if parent.is_root() { key.clone() } else { format!("{prefix}_{key}") };
        let path = parent.with_trailing_token(key.as_str());
        match field {
            Field::Object(inner) if depth > 0 && !inner.is_empty() => add(out, &name, &path, inner, depth - 1),
            Field::Object(_) | Field::Array => {
                out.push(Column { name, path, data_type: ColumnType::Json, format: None });
            }
            Field::Value(data_type, format) => {
                out.push(Column { name, path, data_type: *data_type, format: format.clone() });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int() -> Field {
        Field::Value(ColumnType::Int64, None)
    }

    fn object(members: &[(&str, Field)]) -> Field {
        Field::Object(members.iter().map(|(k, f)| ((*k).to_owned(), f.clone())).collect())
    }

    fn named(members: Field, depth: usize) -> Vec<String> {
        let Field::Object(members) = members else { return vec![] };
        columns(&members, depth)
            .unwrap()
            .into_iter()
            .map(|c| format!("{}={}:{:?}", c.name, c.path, c.data_type))
            .collect()
    }

    #[test]
    fn r24_objects_flatten_to_the_depth_and_no_further() {
        let record = object(&[("z", int()), ("a", object(&[("b", object(&[("c", int())]))])), ("y", int())]);
        assert_eq!(named(record.clone(), 2), ["z=/z:Int64", "a_b_c=/a/b/c:Int64", "y=/y:Int64"]);
        assert_eq!(named(record.clone(), 1), ["z=/z:Int64", "a_b=/a/b:Json", "y=/y:Int64"]);
        assert_eq!(named(record, 0), ["z=/z:Int64", "a=/a:Json", "y=/y:Int64"]);
        assert_eq!(named(object(&[("e", object(&[])), ("a/b~", int())]), 2), ["e=/e:Json", "a/b~=/a~1b~0:Int64"]);
    }

    #[test]
    fn r24_two_fields_of_one_column_name_are_an_error_that_names_both() {
        let members = [("user_name".to_owned(), int()), ("user".to_owned(), object(&[("name", int())]))];
        let error = columns(&members, 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Schema);
        let said = error.to_string();
        assert!(said.contains("/user_name") && said.contains("/user/name"), "{said}");
    }
}
