//! Records straight from a `Deserializer` into builders: keys in the order of the first record, the rest skipped.

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::Result;
use crate::columns::Column;

/// The builders of a page, presized from the one before.
pub(crate) struct Rows {
    schema: SchemaRef,
    columns: Vec<Column>,
    /// The row that last wrote each column.
    written: Vec<usize>,
    rows: usize,
    /// Keys in the order they were first met, with their column.
    keys: Vec<(String, Option<usize>)>,
}

impl Rows {
    pub(crate) fn new(schema: &SchemaRef) -> Self {
        let columns: Vec<Column> = schema.fields().iter().map(|f| Column::new(f.data_type(), 5000, 50_000)).collect();
        Self { schema: Arc::clone(schema), written: vec![0; columns.len()], columns, rows: 0, keys: Vec::new() }
    }

    /// Reads `{"data": [...], "next": ...}`.
    pub(crate) fn page(&mut self) -> Page<'_> {
        Page(self)
    }

    pub(crate) fn finish(&mut self) -> Result<RecordBatch> {
        let arrays: Vec<ArrayRef> = self.columns.iter_mut().map(Column::finish).collect();
        let fresh = self.schema.fields().iter().map(|f| Column::new(f.data_type(), self.rows, self.rows * 40));
        self.columns = fresh.collect();
        self.written.fill(0);
        self.rows = 0;
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), arrays)?)
    }
}

/// The envelope.
pub(crate) struct Page<'a>(&'a mut Rows);

impl<'de> DeserializeSeed<'de> for Page<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> std::result::Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Page<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a page")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        let mut next = None;
        while let Some(key) = map.next_key::<std::borrow::Cow<'_, str>>()? {
            match &*key {
                "data" => map.next_value_seed(Records(&mut *self.0))?,
                "next" => next = map.next_value::<Option<String>>()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        next.map(drop).ok_or_else(|| A::Error::custom("no cursor"))
    }
}

struct Records<'a>(&'a mut Rows);

impl<'de> DeserializeSeed<'de> for Records<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> std::result::Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Records<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("records")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<(), A::Error> {
        while seq.next_element_seed(Record(&mut *self.0))?.is_some() {}
        Ok(())
    }
}

struct Record<'a>(&'a mut Rows);

impl<'de> DeserializeSeed<'de> for Record<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> std::result::Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Record<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        let Rows { schema, columns, written, rows, keys } = self.0;
        *rows += 1;
        let (mut at, mut filled) = (0, 0);
        while let Some(column) = map.next_key_seed(Key { schema, keys, at })? {
            at += 1;
            match column {
                Some(place) if written[place] < *rows => {
                    written[place] = *rows;
                    filled += 1;
                    map.next_value_seed(Value(&mut columns[place]))?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if filled < columns.len() {
            for (column, written) in columns.iter_mut().zip(written) {
                if *written < *rows {
                    column.null();
                    *written = *rows;
                }
            }
        }
        Ok(())
    }
}

/// A key, which is most likely the one that stood here before.
struct Key<'a> {
    schema: &'a SchemaRef,
    keys: &'a mut Vec<(String, Option<usize>)>,
    at: usize,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Option<usize>;
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> std::result::Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Option<usize>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_str<E: Error>(self, key: &str) -> std::result::Result<Self::Value, E> {
        if let Some((_, column)) = self.keys.get(self.at).filter(|(name, _)| name == key) {
            return Ok(*column);
        }
        if let Some((_, column)) = self.keys.iter().find(|(name, _)| name == key) {
            return Ok(*column);
        }
        let column = self.schema.index_of(key).ok();
        self.keys.push((key.to_owned(), column));
        Ok(column)
    }
}

struct Value<'a>(&'a mut Column);

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> std::result::Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

fn fits<E: Error>(appended: bool) -> std::result::Result<(), E> {
    if appended { Ok(()) } else { Err(E::custom("a value does not fit")) }
}

impl Visitor<'_> for Value<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of the column")
    }
    fn visit_unit<E: Error>(self) -> std::result::Result<(), E> {
        self.0.null();
        Ok(())
    }
    fn visit_bool<E: Error>(self, value: bool) -> std::result::Result<(), E> {
        fits(self.0.boolean(value))
    }
    fn visit_i64<E: Error>(self, value: i64) -> std::result::Result<(), E> {
        fits(self.0.integer(value))
    }
    fn visit_u64<E: Error>(self, value: u64) -> std::result::Result<(), E> {
        fits(i64::try_from(value).is_ok_and(|value| self.0.integer(value)))
    }
    fn visit_f64<E: Error>(self, value: f64) -> std::result::Result<(), E> {
        fits(self.0.float(value))
    }
    fn visit_str<E: Error>(self, text: &str) -> std::result::Result<(), E> {
        fits(self.0.text(text))
    }
}
