//! Rows as NDJSON: one object a line, columns in schema order, NULL written out so that every row has one shape.

use arrow_array::RecordBatch;

use super::cell::Cells;
use crate::error::Result;

/// Appends the rows of a batch.
pub(super) fn write(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
    let schema = batch.schema();
    let mut columns = Vec::with_capacity(batch.num_columns());
    for (index, (field, array)) in schema.fields().iter().zip(batch.columns()).enumerate() {
        let name = serde_json::Value::from(field.name().as_str());
        let lead = format!("{}{name}:", if index == 0 { '{' } else { ',' });
        columns.push((lead, Cells::of(array)?));
    }
    for row in 0..batch.num_rows() {
        if columns.is_empty() {
            out.push(b'{');
        }
        for (lead, cells) in &columns {
            out.extend_from_slice(lead.as_bytes());
            cells.json(row, out);
        }
        out.extend_from_slice(b"}\n");
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use arrow_array::*;

    use super::*;

    /// Two rows of every type: values at the edges, and NULLs.
    pub(in crate::sink) fn batch() -> RecordBatch {
        let decimals = Decimal128Array::from(vec![Some(120), None]).with_precision_and_scale(10, 2).unwrap();
        let at = TimestampMicrosecondArray::from(vec![Some(1_700_000_000_000_000), Some(-1)]).with_timezone("UTC");
        let column = |name: &str, array: ArrayRef| (name.to_owned(), array, true);
        RecordBatch::try_from_iter_with_nullable([
            column("i", Arc::new(Int32Array::from(vec![Some(-5), None]))),
            column("n", Arc::new(Int64Array::from(vec![Some(i64::MAX), Some(i64::MIN)]))),
            column("f", Arc::new(Float64Array::from(vec![Some(0.1), Some(f64::NAN)]))),
            column("d", Arc::new(decimals)),
            column("b", Arc::new(BooleanArray::from(vec![Some(true), None]))),
            column("a \"b\"", Arc::new(StringArray::from(vec![Some("x,\"y\"\n\u{1}é"), Some("")]))),
            column("j", Arc::new(StringArray::from(vec![Some(r#"{"k":[1]}"#), None]))),
            column("day", Arc::new(Date32Array::from(vec![Some(0), Some(-1)]))),
            column("at", Arc::new(at)),
        ])
        .unwrap()
    }

    #[test]
    fn r24_every_value_keeps_its_digits_and_texts_are_escaped() {
        let mut out = Vec::new();
        write(&batch(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let (first, second) = text.trim_end().split_once('\n').unwrap();
        assert_eq!(
            first,
            concat!(
                r#"{"i":-5,"n":9223372036854775807,"f":0.1,"d":1.20,"b":true,"a \"b\"":"x,\"y\"\n\u0001é","#,
                r#""j":"{\"k\":[1]}","day":"1970-01-01","at":"2023-11-14T22:13:20Z"}"#
            )
        );
        assert_eq!(
            second,
            concat!(
                r#"{"i":null,"n":-9223372036854775808,"f":null,"d":null,"b":null,"a \"b\"":"","j":null,"#,
                r#""day":"1969-12-31","at":"1969-12-31T23:59:59.999999Z"}"#
            )
        );
        assert!(serde_json::from_str::<serde_json::Value>(first).is_ok());
    }
}
