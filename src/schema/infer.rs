//! Columns from the records of a first page: names, paths and widened types (R24).
//!
//! The rules, for all values of one field together; null and missing say nothing:
//!
//! | values | column |
//! |---|---|
//! | none but null | `string` |
//! | integers within 64 bits | `int64` |
//! | integers beyond that, of at most 38 digits | `decimal(38,0)` |
//! | longer integers | `string` |
//! | fractions, with or without integers that a float holds | `float64` |
//! | fractions and an integer beyond 2^53, or a number beyond a float | `json`: the digits stay as they are |
//! | booleans | `boolean` |
//! | strings, also those that look like numbers or instants | `string` |
//! | objects | their members, to `flatten-depth` levels; then `json` |
//! | arrays, objects without members, a mixture of any of these | `json` |
//!
//! Columns stand in the order in which their fields first appear, nested ones where their parent stood. A key that
//! stands twice in a record counts the first time, as it does when rows are read.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{RestColumn, TableSchema};
use crate::column::COLUMNS_MAX;
use crate::column::flatten::{self, Field};
use crate::config::{ColumnType, SchemaConfig};
use crate::error::{Error, ErrorKind, Result};

/// The schema of these records, each one a JSON text. Records that are no objects say nothing.
pub fn infer<'a>(records: impl IntoIterator<Item = &'a str>, config: &SchemaConfig) -> Result<TableSchema> {
    let mut shape = Shape::default();
    for record in records {
        shape.observe(record, config.flatten_depth.saturating_add(1));
    }
    let columns = flatten::columns(&shape.into_members(), config.flatten_depth)?;
    if columns.len() > COLUMNS_MAX {
        let said = format!(
            "the records have {} fields, more than {COLUMNS_MAX}: their keys are data, not columns; declare columns, \
             flatten less (schema.flatten-depth) or use schema.mode = variant",
            columns.len()
        );
        return Err(Error::new(ErrorKind::Schema, said));
    }
    let rest = config.rest_column.as_ref().map(|name| RestColumn {
        name: name.clone(),
        declared: columns.iter().map(|column| column.path.clone()).collect(),
    });
    if let Some(column) = columns.iter().find(|column| Some(&column.name) == config.rest_column.as_ref()) {
        let said = format!("the field {} would be column `{}`, which is the rest-column", column.path, column.name);
        return Err(Error::new(ErrorKind::Schema, said));
    }
    Ok(TableSchema { columns, rest, on_mismatch: config.on_mismatch })
}

/// What was seen at one place of the records.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "one for each kind that was seen")]
struct Shape {
    /// Integers up to this class.
    integer: Option<Width>,
    fraction: bool,
    boolean: bool,
    text: bool,
    object: bool,
    /// An array, an object that is not looked into, or a number that no number type holds with the others.
    json: bool,
    members: Vec<(String, Self)>,
    index: HashMap<String, usize>,
}

/// How much room an integer needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Width {
    Float,
    Int64,
    Decimal,
    Text,
}

impl Shape {
    fn observe(&mut self, raw: &str, levels: usize) {
        match raw.as_bytes().first() {
            Some(b'"') => self.text = true,
            Some(b't' | b'f') => self.boolean = true,
            Some(b'[') => self.json = true,
            Some(b'{') if levels == 0 => self.json = true,
            Some(b'{') => {
                self.object = true;
                let Ok(Members(members)) = serde_json::from_str(raw) else {
                    self.json = true;
                    return;
                };
                let mut seen = HashSet::new();
                for (key, value) in members {
                    let next = self.members.len();
                    let at = *self.index.entry(key.clone()).or_insert(next);
                    if at == next {
                        self.members.push((key, Self::default()));
                    }
                    if seen.insert(at)
                        && let Some((_, shape)) = self.members.get_mut(at)
                    {
                        shape.observe(value.get(), levels - 1);
                    }
                }
            }
            Some(b'-' | b'0'..=b'9') if raw.contains(['.', 'e', 'E']) => {
                self.fraction = true;
                self.json |= !raw.parse::<f64>().is_ok_and(f64::is_finite);
            }
            Some(b'-' | b'0'..=b'9') => self.integer = self.integer.max(Some(width(raw))),
            _ => {}
        }
    }

    fn into_members(self) -> Vec<(String, Field)> {
        self.members.into_iter().map(|(key, shape)| (key, shape.into_field())).collect()
    }

    fn into_field(self) -> Field {
        let number = self.integer.is_some() || self.fraction;
        let kinds = [number, self.boolean, self.text, self.object].into_iter().filter(|seen| *seen).count();
        let data_type = match (self.json, kinds) {
            (false, 0) => ColumnType::String,
            (false, 1) if self.object => return Field::Object(self.into_members()),
            (false, 1) if self.boolean => ColumnType::Boolean,
            (false, 1) if self.text => ColumnType::String,
            (false, 1) => match (self.integer, self.fraction) {
                (None | Some(Width::Float), true) => ColumnType::Float64,
                (Some(_), true) => ColumnType::Json,
                (Some(Width::Decimal), false) => ColumnType::Decimal(38, 0),
                (Some(Width::Text), false) => ColumnType::String,
                (_, false) => ColumnType::Int64,
            },
            _ => ColumnType::Json,
        };
        Field::Value(data_type, None)
    }
}

fn width(digits: &str) -> Width {
    match digits.parse::<i64>() {
        Ok(n) if n.unsigned_abs() <= 1 << 53 => Width::Float,
        Ok(_) => Width::Int64,
        Err(_) if digits.trim_start_matches('-').len() <= 38 => Width::Decimal,
        Err(_) => Width::Text,
    }
}

/// The members of an object in order, repeated keys included.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(All)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{OnMismatch, SchemaMode};

    fn config(flatten_depth: usize) -> SchemaConfig {
        SchemaConfig {
            mode: SchemaMode::Infer,
            flatten_depth,
            on_mismatch: OnMismatch::Fail,
            rest_column: None,
            batch_rows: 10,
        }
    }

    fn columns(records: &[&str]) -> String {
        let schema = infer(records.iter().copied(), &config(2)).unwrap();
        schema.columns.iter().map(|c| format!("{} {:?}", c.name, c.data_type)).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn r26_keys_that_are_data_are_not_made_columns() {
        let fields: Vec<String> = (0..=COLUMNS_MAX).map(|i| format!("\"k{i}\":1")).collect();
        let record = format!("{{{}}}", fields.join(","));
        let config = SchemaConfig {
            mode: SchemaMode::Infer,
            flatten_depth: 2,
            on_mismatch: OnMismatch::Fail,
            rest_column: None,
            batch_rows: 8192,
        };
        let error = infer([record.as_str()], &config).unwrap_err();
        assert!(error.kind() == ErrorKind::Schema && error.to_string().contains("variant"), "{error}");
    }

    #[test]
    fn r24_types_widen_without_losing_a_digit() {
        for (values, want) in [
            (&["null", "null"][..], "String"),
            (&["1", "null", "-2"], "Int64"),
            (&["9223372036854775807", "-9223372036854775808"], "Int64"),
            (&["1", "9223372036854775808"], "Decimal(38, 0)"),
            (&["123456789012345678901234567890123456789"], "String"),
            (&["1", "2.5"], "Float64"),
            (&["9007199254740992", "2.5"], "Float64"),
            (&["9007199254740993", "2.5"], "Json"),
            (&["1e400"], "Json"),
            (&["true", "false"], "Boolean"),
            (&["\"a\"", "\"2026-01-01T00:00:00Z\""], "String"),
            (&["\"5\"", "5"], "Json"),
            (&["true", "1"], "Json"),
            (&["[1]", "null"], "Json"),
            (&["[1]", "1"], "Json"),
            (&["{}"], "Json"),
        ] {
            let records: Vec<_> = values.iter().map(|v| format!("{{\"v\":{v}}}")).collect();
            let records: Vec<_> = records.iter().map(String::as_str).collect();
            assert_eq!(columns(&records), format!("v {want}"), "{values:?}");
        }
    }

    #[test]
    fn r24_inferred_columns_stand_in_order_of_appearance() {
        assert_eq!(
            columns(&[
                r#"{"id": 1, "user": {"name": "x", "n": 2}, "tags": [1, "b"]}"#,
                r#"{"late": true, "user": {"more": null, "n": 2.5}, "id": null}"#
            ]),
            "id Int64, user_name String, user_n Float64, user_more String, tags Json, late Boolean"
        );
        assert_eq!(columns(&[r#"{"a":{"b":{"c":1}}}"#]), "a_b_c Int64");
        assert_eq!(columns(&[r#"{"a":{"b":{"c":{"d":1}}}}"#]), "a_b_c Json");
        assert_eq!(columns(&[r#"{"a":{"b":1}}"#, r#"{"a":"x"}"#]), "a Json");
        assert_eq!(columns(&[r#"{"a":{"b":1}}"#, r#"{"a":null}"#, "{}"]), "a_b Int64");
        assert_eq!(columns(&[r#"{"a":1,"a":"x"}"#]), "a Int64");
        assert_eq!(columns(&["{}"]), "");
    }

    #[test]
    fn r24_names_that_meet_are_an_error() {
        let records = [r#"{"user":{"name":"b"},"user_name":"a"}"#];
        assert_eq!(infer(records, &config(2)).unwrap_err().kind(), ErrorKind::Schema);
        assert!(infer(records, &config(0)).is_ok());
        let rest = SchemaConfig { rest_column: Some("user_name".into()), ..config(0) };
        assert_eq!(infer(records, &rest).unwrap_err().kind(), ErrorKind::Schema);
    }

    #[test]
    fn r24_the_rest_column_of_an_inferred_schema_keeps_what_comes_later() {
        let config = SchemaConfig { rest_column: Some("rest".into()), ..config(2) };
        let schema = infer([r#"{"a":{"b":1}}"#], &config).unwrap();
        assert_eq!(schema.names(), ["a_b", "rest"]);
        assert_eq!(schema.rest.map(|r| r.declared.len()), Some(1));
    }
}
