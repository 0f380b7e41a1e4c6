//! Rows as CSV (RFC 4180, lines end with a newline): NULL is an empty cell, an empty text is `""`.
//!
//! In a table of one column NULL is `""` too: a line without anything would be no row to most readers.

use arrow_array::RecordBatch;
use arrow_schema::Schema;

use super::cell::Cells;
use crate::error::Result;

/// Appends the names of the columns.
pub(super) fn header(schema: &Schema, out: &mut Vec<u8>) {
    for (index, field) in schema.fields().iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        text(field.name(), out);
    }
    out.push(b'\n');
}

/// Appends the rows of a batch.
pub(super) fn write(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
    let columns = batch.columns().iter().map(Cells::of).collect::<Result<Vec<_>>>()?;
    for row in 0..batch.num_rows() {
        for (index, cells) in columns.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            match cells.text(row) {
                _ if cells.is_null(row) => {
                    if columns.len() == 1 {
                        out.extend_from_slice(b"\"\"");
                    }
                }
                Some(value) => text(value, out),
                None => cells.bare(row, out),
            }
        }
        out.push(b'\n');
    }
    Ok(())
}

fn text(value: &str, out: &mut Vec<u8>) {
    let plain = !value.is_empty() && !value.contains(['"', ',', '\n', '\r']);
    if plain && value.trim() == value {
        out.extend_from_slice(value.as_bytes());
    } else {
        out.push(b'"');
        out.extend_from_slice(value.replace('"', "\"\"").as_bytes());
        out.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r24_null_and_the_empty_text_stay_apart() {
        let batch = super::super::ndjson::tests::batch();
        let mut out = Vec::new();
        header(&batch.schema(), &mut out);
        write(&batch, &mut out).unwrap();
        let want = concat!(
            "i,n,f,d,b,\"a \"\"b\"\"\",j,day,at\n",
            "-5,9223372036854775807,0.1,1.20,true,\"x,\"\"y\"\"\n\u{1}é\",\"{\"\"k\"\":[1]}\",1970-01-01,",
            "2023-11-14T22:13:20Z\n",
            ",-9223372036854775808,,,,\"\",,1969-12-31,1969-12-31T23:59:59.999999Z\n"
        );
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }
}
