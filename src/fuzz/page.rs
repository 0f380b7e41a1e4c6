//! The page decoder against `serde_json`: the same verdict, the same records, the same values.

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Array as _, RecordBatch};
use jsonptr::PointerBuf;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{hold, idle, schema, spec};
use crate::config::ColumnType;
use crate::decode::{Decoder, Page};

/// The first byte says how the page is read, the others are the page.
pub fn page(data: &[u8]) -> Result<(), String> {
    let Some((how, body)) = data.split_first() else { return Ok(()) };
    let (paged, inner, known) = (how & 1 == 1, how & 2 == 2, how & 4 == 4);
    let columns = schema(&[
        ("id", &["id"], ColumnType::Int64),
        ("s", &["s"], ColumnType::String),
        ("j", &["j"], ColumnType::Json),
        ("b", &["a", "b"], ColumnType::Int64),
    ]);
    let at = inner.then(|| PointerBuf::from_tokens(["items"]));
    let mut decoder = Decoder::new(spec(at, paged), known.then_some(columns), None).map_err(|e| e.to_string())?;
    let read = decoder.page(200, body, &mut idle());

    let Ok(text) = std::str::from_utf8(body) else {
        return hold(read.is_err(), || "bytes that are no text were read".to_owned());
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_ascii().is_empty() {
        return hold(read.is_ok_and(|page| page.received == 0), || "an empty body is no empty page".to_owned());
    }
    let verdict = serde_json::from_str::<IgnoredAny>(text);
    match (read, verdict) {
        (Ok(_), Err(flaw)) => Err(format!("this was read, but {flaw}")),
        (Err(error), Ok(_)) => {
            let said = error.to_string();
            hold(!said.contains("is not JSON") || said.contains("nested deeper"), || format!("it is JSON, but {said}"))
        }
        (Err(_), Err(_)) => Ok(()),
        (Ok(page), Ok(_)) => match serde_json::from_str::<Value>(text) {
            Ok(document) if page.counts.duplicate_keys.count == 0 => same(&page, records(&document, inner), known),
            _ => Ok(()),
        },
    }
}

/// The records of a document as anybody would find them.
fn records(document: &Value, inner: bool) -> Vec<&Value> {
    match if inner { document.get("items") } else { Some(document) } {
        Some(Value::Array(records)) => records.iter().collect(),
        Some(Value::Null) | None => Vec::new(),
        Some(one) => vec![one],
    }
}

fn same(page: &Page, records: Vec<&Value>, known: bool) -> Result<(), String> {
    let rows = page.batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    hold(page.received == records.len() as u64 && rows == records.len(), || {
        format!("{} records, {rows} rows, but there are {}", page.received, records.len())
    })?;
    let cells = page.batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| (batch, row)));
    for ((batch, row), record) in cells.zip(records).filter(|_| known) {
        let integer = |at: usize| {
            let column = batch.column(at).as_primitive::<Int64Type>();
            column.is_valid(row).then(|| column.value(row))
        };
        let text = |at: usize| {
            let column = batch.column(at).as_string::<i32>();
            column.is_valid(row).then(|| column.value(row))
        };
        let inside = record.get("a").and_then(|a| a.as_object()).and_then(|a| a.get("b"));
        for (at, value) in [(0, record.get("id")), (3, inside)] {
            let fits = match value {
                None | Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => integer(at).is_none(),
                Some(value) if value.is_i64() => integer(at) == value.as_i64(),
                // Other numbers and texts have one reading or none: `value.rs` has its own tests.
                Some(_) => true,
            };
            hold(fits, || format!("{value:?} was read as {:?}", integer(at)))?;
        }
        let fits = match record.get("s") {
            None | Some(Value::Null) => text(1).is_none(),
            Some(Value::String(value)) => text(1) == Some(value),
            Some(_) => text(1).is_some(),
        };
        hold(fits, || format!("{:?} was read as {:?}", record.get("s"), text(1)))?;
        let json = text(2).map(serde_json::from_str::<Value>).transpose().map_err(|e| format!("no JSON: {e}"))?;
        let value = record.get("j").filter(|value| !value.is_null());
        hold(json.as_ref() == value, || format!("{value:?} was read as {json:?}"))?;
    }
    Ok(())
}
