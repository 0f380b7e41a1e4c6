//! Streamed bodies: cut anywhere they give the same rows, and those that a slow reading of the whole gives.

use std::collections::HashSet;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::{hold, idle, schema, spec};
use crate::config::{ColumnType, ResponseFormat};
use crate::decode::StreamDecoder;
use crate::schema::TableSchema;

type Rows = Result<Vec<RecordBatch>, String>;

/// Lines; the first byte says how they are cut and read.
pub fn ndjson(data: &[u8]) -> Result<(), String> {
    let Some((how, body)) = data.split_first() else { return Ok(()) };
    let whole = cut_anywhere(ResponseFormat::Ndjson, *how, body)?;
    let Ok(text) = std::str::from_utf8(body) else { return hold(whole.is_err(), || "no text was read".to_owned()) };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let blank = |line: &&str| !line.trim_matches([' ', '\t', '\r']).is_empty();
    let bad = text.split('\n').filter(blank).find(|line| serde_json::from_str::<IgnoredAny>(line).is_err());
    hold(whole.is_err() || bad.is_none(), || format!("{bad:?} was read"))
}

/// An event stream; the first byte says how it is cut and read.
pub fn sse(data: &[u8]) -> Result<(), String> {
    let Some((how, body)) = data.split_first() else { return Ok(()) };
    let whole = cut_anywhere(ResponseFormat::Sse, *how, body)?;
    let Ok(text) = std::str::from_utf8(body) else { return hold(whole.is_err(), || "no text was read".to_owned()) };
    let Some(events) = events(text.strip_prefix('\u{feff}').unwrap_or(text)) else {
        return hold(whole.is_err(), || format!("{whole:?} is half an event or an error"));
    };
    // What an event's data is, a line of NDJSON is too.
    let mut lines = String::new();
    for event in events.iter().filter(|event| *event != "[DONE]") {
        if !event.trim_matches([' ', '\t', '\n', '\r']).is_empty() && serde_json::from_str::<IgnoredAny>(event).is_err()
        {
            return hold(whole.is_err(), || format!("{event:?} was read"));
        }
        lines.push_str(&event.replace('\n', " "));
        lines.push('\n');
    }
    let as_lines = read(ResponseFormat::Ndjson, columns(*how), &[lines.as_bytes()]);
    let same = match (&whole, &as_lines) {
        (Ok(events), Ok(lines)) => events == lines,
        (Err(_), Err(_)) => true,
        _ => false,
    };
    hold(same, || format!("{events:?} was read as {whole:?}, but as lines {as_lines:?}"))
}

/// CSV; the first byte says how it is cut.
pub fn csv(data: &[u8]) -> Result<(), String> {
    let Some((how, body)) = data.split_first() else { return Ok(()) };
    drop(cut_anywhere(ResponseFormat::Csv, *how, body)?);
    let variant = schema(&[("value", &[], ColumnType::Json)]);
    let read = read(ResponseFormat::Csv, Some(variant), &[body]);
    let Ok(text) = std::str::from_utf8(body) else { return hold(read.is_err(), || "no text was read".to_owned()) };
    let slow = cells(text.strip_prefix('\u{feff}').unwrap_or(text));
    match (read, slow) {
        (Err(said), Some(_)) => hold(said.contains("not CSV"), || format!("it is CSV, but {said}")),
        (Ok(read), None) => Err(format!("{read:?} is no CSV")),
        (Err(_), None) => Ok(()),
        (Ok(batches), Some(slow)) => {
            let texts = batches.iter().flat_map(|batch| batch.column(0).as_string::<i32>().iter().flatten());
            let read: Result<Vec<Value>, _> = texts.map(serde_json::from_str).collect();
            let read = read.map_err(|e| format!("no JSON: {e}"))?;
            hold(read == slow, || format!("{slow:?} was read as {read:?}"))
        }
    }
}

/// Reads a body whole and in pieces of the sizes that `how` gives; both must be the same.
fn cut_anywhere(format: ResponseFormat, how: u8, body: &[u8]) -> Result<Rows, String> {
    let whole = read(format, columns(how), &[body]);
    let pieces: Vec<&[u8]> = body.chunks(usize::from(how >> 2).max(1)).collect();
    let pieces = read(format, columns(how), &pieces);
    // Which of two flaws of a line is told depends on how NDJSON is cut.
    let same =
        if format == ResponseFormat::Ndjson { whole.clone().ok() == pieces.clone().ok() } else { whole == pieces };
    hold(same, || format!("whole it is {whole:?}, in pieces {pieces:?}"))?;
    Ok(whole)
}

fn columns(how: u8) -> Option<TableSchema> {
    let declared = || schema(&[("id", &["id"], ColumnType::Int64), ("j", &["j"], ColumnType::Json)]);
    (how & 1 == 1).then(declared)
}

fn read(format: ResponseFormat, schema: Option<TableSchema>, pieces: &[&[u8]]) -> Rows {
    let decode = || {
        let mut batches = Vec::new();
        let Some(mut decoder) = StreamDecoder::new(format, spec(None, false), schema, None, 1 << 20)? else {
            return Ok(batches);
        };
        let mut boundary = idle();
        for piece in pieces {
            batches.extend(decoder.push(piece, &mut boundary)?.into_iter().flat_map(|page| page.batches));
        }
        batches.extend(decoder.finish(&mut boundary)?.into_iter().flat_map(|page| page.batches));
        Ok(batches)
    };
    decode().map_err(|error: crate::Error| error.to_string())
}

/// The data of all events; `None` where one is cut off or an error.
fn events(text: &str) -> Option<Vec<String>> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let (whole, open) = text.rsplit_once('\n').map_or(("", text.as_str()), |(whole, open)| (whole, open));
    let lines: Vec<&str> = if text.contains('\n') { whole.split('\n').collect() } else { Vec::new() };
    let (mut events, mut data, mut name, mut begun) = (Vec::new(), Vec::new(), "", false);
    let is_known = |line: &&str| {
        let field = line.split_once(':').map_or(*line, |(field, _)| field);
        !line.is_empty() && matches!(field, "" | "data" | "event" | "id" | "retry")
    };
    let is_foreign = !lines.iter().any(is_known) && lines.iter().any(|line| !line.is_empty());
    if is_foreign {
        return None;
    }
    for line in lines {
        if line.is_empty() {
            let data = std::mem::take(&mut data);
            if name == "error" && !data.is_empty() {
                return None;
            }
            if !data.is_empty() {
                events.push(data.join("\n"));
            }
            (name, begun) = ("", false);
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        begun |= matches!(field, "data" | "event" | "id");
        match field {
            "data" => data.push(value),
            "event" => name = value,
            _ => {}
        }
    }
    let open_is_nothing = open.is_empty() || open.starts_with(':');
    let ended = open.is_empty() && data == ["[DONE]"];
    ((!begun && open_is_nothing) || ended).then_some(events)
}

/// The records as objects of texts; `None` where it is no CSV.
fn cells(text: &str) -> Option<Vec<Value>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row: Vec<(String, bool)> = vec![(String::new(), false)];
    let mut chars = text.chars().peekable();
    let mut closed = false;
    let mut end = |row: &mut Vec<(String, bool)>| {
        let row = std::mem::replace(row, vec![(String::new(), false)]);
        let is_blank = row.len() == 1 && row.iter().all(|(cell, quoted)| cell.is_empty() && !quoted);
        if !is_blank || rows.first().is_some_and(|header| header.len() == 1) {
            rows.push(row.into_iter().map(|(cell, _)| cell).collect());
        }
    };
    while let Some(c) = chars.next() {
        let (cell, quoted) = row.last_mut()?;
        match c {
            '\r' | '\n' => {
                if c == '\r' {
                    chars.next_if_eq(&'\n');
                }
                end(&mut row);
                closed = false;
            }
            ',' => {
                row.push((String::new(), false));
                closed = false;
            }
            _ if closed => return None,
            '"' if cell.is_empty() => {
                *quoted = true;
                loop {
                    match chars.next()? {
                        '"' if chars.next_if_eq(&'"').is_some() => cell.push('"'),
                        '"' => break,
                        other => cell.push(other),
                    }
                }
                closed = true;
            }
            other => cell.push(other),
        }
    }
    if row.len() > 1 || row.iter().any(|(cell, quoted)| *quoted || !cell.is_empty()) {
        end(&mut row);
    }
    let mut rows = rows.into_iter();
    let Some(header) = rows.next() else { return Some(Vec::new()) };
    let names: HashSet<&String> = header.iter().collect();
    if names.len() < header.len() || header.iter().any(String::is_empty) {
        return None;
    }
    rows.map(|row| {
        let members = header.iter().cloned().zip(row.iter().cloned().map(Value::String));
        (row.len() == header.len()).then(|| Value::Object(members.collect::<Map<_, _>>()))
    })
    .collect()
}
