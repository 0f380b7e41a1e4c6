//! Columns from the records of a first page: names, paths and widened types (R24).
//!
//! The rules, for all values of one field together; null and missing say nothing:
//!
//! | values | column |
//! |---|---|
//! | none but null | `string` |
//! | integers within 64 bits | `int64` |
//! | integers beyond that, of at most 38 digits | `decimal(38,0)` |
//! | longer integers | `json` |
//! | fractions, with or without integers that a float holds | `float64` |
//! | fractions and an integer beyond 2^53, or a number that no float holds with all its digits | `json`: they stay |
//! | booleans | `boolean` |
//! | strings, also those that look like numbers or instants | `string`; `json` with half a character among them |
//! | objects | their members, to `flatten-depth` levels; then `json` |
//! | arrays, objects without members, a mixture of any of these | `json` |
//!
//! Columns stand in the order in which their fields first appear, nested ones where their parent stood. A key that
//! stands twice in a record counts the last time, as it does when rows are read. The table does not depend on the order
//! of the records.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{RestColumn, TableSchema};
use crate::column::COLUMNS_MAX;
use crate::column::flatten::{self, Field};
use crate::config::{ColumnType, SchemaConfig};
use crate::error::{Error, ErrorKind, Result};

/// Levels that are looked into, whatever the setting: as deep as records are read.
const DEPTH_MAX: usize = 128;

/// The schema of these records, each one a JSON text. Records that are no objects say nothing.
pub fn infer<'a>(records: impl IntoIterator<Item = &'a str>, config: &SchemaConfig) -> Result<TableSchema> {
    of_fields(&fields(records, config), config)
}

/// The fields of these records, in order of appearance.
pub(super) fn fields<'a>(records: impl IntoIterator<Item = &'a str>, config: &SchemaConfig) -> Vec<(String, Field)> {
    let mut shape = Shape::default();
    for record in records {
        shape.observe(record, config.flatten_depth.min(DEPTH_MAX) + 1);
    }
    shape.into_members()
}

/// What all these values are together; `None` where there are none.
pub(super) fn values<'a>(values: impl IntoIterator<Item = &'a str>, config: &SchemaConfig) -> Option<Field> {
    let mut all = Shape::default();
    let mut any = false;
    for value in values {
        any = true;
        all.observe(value, config.flatten_depth.min(DEPTH_MAX) + 1);
    }
    any.then(|| all.into_field())
}

/// The schema of these fields.
pub(super) fn of_fields(fields: &[(String, Field)], config: &SchemaConfig) -> Result<TableSchema> {
    let columns = flatten::columns(fields, config.flatten_depth)?;
    limited(columns.len())?;
    let rest = config.rest_column.as_ref().map(|name| RestColumn {
        name: name.clone(),
        declared: columns.iter().map(|column| column.path.clone()).collect(),
    });
    if let Some(column) = columns.iter().find(|column| Some(&column.name) == config.rest_column.as_ref()) {
        let said = format!("the field {} would be column `{}`, which is the rest-column", column.path, column.name);
        return Err(Error::new(ErrorKind::Schema, said));
    }
    Ok(TableSchema { columns, rest, parent: None, on_mismatch: config.on_mismatch })
}

/// Refuses more columns than can be meant.
pub(super) fn limited(columns: usize) -> Result<()> {
    if columns <= COLUMNS_MAX {
        return Ok(());
    }
    let said = format!(
        "the records have {columns} fields, more than {COLUMNS_MAX}: their keys are data, not columns; declare columns, \
         flatten less (schema.flatten-depth) or use schema.mode = variant"
    );
    Err(Error::new(ErrorKind::Schema, said))
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
    array: bool,
    /// An object that is not looked into, or a value that no other type holds as it is.
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
    Longer,
}

impl Shape {
    fn observe(&mut self, raw: &str, levels: usize) {
        match raw.as_bytes().first() {
            Some(b'"') => {
                self.text = true;
                // Half a character is no text.
                self.json |= raw.contains("\\u") && serde_json::from_str::<String>(raw).is_err();
            }
            Some(b't' | b'f') => self.boolean = true,
            Some(b'[') => self.array = true,
            Some(b'{') if levels == 0 => self.json = true,
            Some(b'{') => {
                self.object = true;
                let Ok(Members(members)) = serde_json::from_str(raw) else {
                    self.json = true;
                    return;
                };
                let mut last: HashMap<usize, &RawValue> = HashMap::new();
                for (key, value) in members {
                    let next = self.members.len();
                    let at = *self.index.entry(key.clone()).or_insert(next);
                    if at == next {
                        self.members.push((key, Self::default()));
                    }
                    last.insert(at, value);
                }
                for (at, value) in last {
                    if let Some((_, shape)) = self.members.get_mut(at) {
                        shape.observe(value.get(), levels - 1);
                    }
                }
            }
            Some(b'-' | b'0'..=b'9') if raw.contains(['.', 'e', 'E']) => {
                self.fraction = true;
                self.json |= !fits_float(raw);
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
        let kinds = [number, self.boolean, self.text, self.object, self.array].into_iter().filter(|seen| *seen).count();
        let data_type = match (self.json, kinds) {
            (false, 0) => ColumnType::String,
            (false, 1) if self.object => return Field::Object(self.into_members()),
            (false, 1) if self.array => return Field::Array,
            (false, 1) if self.boolean => ColumnType::Boolean,
            (false, 1) if self.text => ColumnType::String,
            (false, 1) => match (self.integer, self.fraction) {
                (None | Some(Width::Float), true) => ColumnType::Float64,
                (Some(_), true) | (Some(Width::Longer), false) => ColumnType::Json,
                (Some(Width::Decimal), false) => ColumnType::Decimal(38, 0),
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
        Err(_) => Width::Longer,
    }
}

/// Whether a float holds a fraction digit for digit, as reading it will find.
fn fits_float(raw: &str) -> bool {
    let digits = raw.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_matches('0').len();
    raw.parse::<f64>().is_ok_and(|value| match value {
        _ if !value.is_finite() => false,
        0.0 => digits == 0,
        _ => digits <= 15 || (digits <= 17 && value.abs() < 9_007_199_254_740_992.0),
    })
}

/// The members of an object in order, repeated keys included.
pub(super) struct Members<'a>(pub(super) Vec<(String, &'a RawValue)>);

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
    use proptest::prelude::*;

    use super::*;
    use crate::config::{OnMismatch, SchemaMode};

    fn config(flatten_depth: usize) -> SchemaConfig {
        SchemaConfig {
            mode: SchemaMode::Infer,
            flatten_depth,
            on_mismatch: OnMismatch::Fail,
            rest_column: None,
            batch_rows: 10,
            explode: None,
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
            explode: None,
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
            (&["123456789012345678901234567890123456789"], "Json"),
            (&["1", "2.5"], "Float64"),
            (&["9007199254740992", "2.5"], "Float64"),
            (&["9007199254740993", "2.5"], "Json"),
            (&["1e400"], "Json"),
            (&["1e-400"], "Json"),
            (&["-0.0", "0e9"], "Float64"),
            (&["0.12345678901234567"], "Float64"),
            (&["0.123456789012345678"], "Json"),
            (&["9007199254740993.0"], "Json"),
            (&["18446744073709551616"], "Decimal(38, 0)"),
            (&["\"a\"", "\"\\ud800\""], "Json"),
            (&["true", "false"], "Boolean"),
            (&["\"a\"", "\"2026-01-01T00:00:00Z\""], "String"),
            (&["\"5\"", "5"], "Json"),
            (&["true", "1"], "Json"),
            (&["[1]", "null"], "Json"),
            (&["[1]", "1"], "Json"),
            (&["[1]", "{\"a\":1}"], "Json"),
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
        assert_eq!(columns(&[r#"{"a":1,"a":"x"}"#]), "a String");
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

    fn value() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            any::<bool>().prop_map(|b| b.to_string()),
            any::<i64>().prop_map(|n| n.to_string()),
            (-20_i64..20).prop_map(|n| n.to_string()),
            "-?[1-9][0-9]{0,40}",
            "-?[0-9](\\.[0-9]{1,20})(e-?[0-9]{1,3})?",
            "[a-z0-9 ]{0,5}".prop_map(|text| format!("\"{text}\"")),
            Just("\"\\ud800\"".to_owned()),
        ];
        leaf.prop_recursive(2, 8, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(","))),
                prop::collection::vec(("[ab]", inner), 0..3).prop_map(|members| record(&members)),
            ]
        })
    }

    fn record(members: &[(String, String)]) -> String {
        let members: Vec<_> = members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    }

    proptest! {
        #[test]
        fn r24_the_order_of_records_changes_no_column(
            records in prop::collection::vec(prop::collection::vec(("[a-c]", value()), 0..4), 1..6),
            by in 0_usize..6,
        ) {
            let records: Vec<String> = records.iter().map(|members| record(members)).collect();
            let mut moved = records.clone();
            moved.rotate_left(by % records.len());
            moved.swap(0, by % records.len());
            let columns = |records: &[String]| {
                let schema = infer(records.iter().map(String::as_str), &config(2)).map_err(|error| error.kind())?;
                let mut columns: Vec<_> = schema.columns.into_iter().map(|c| (c.path.to_string(), c.name, c.data_type)).collect();
                columns.sort_by(|a, b| a.0.cmp(&b.0));
                Ok::<_, ErrorKind>(columns)
            };
            prop_assert_eq!(columns(&records), columns(&moved));
        }
    }
}
