//! What event streams and CSV become: R05, R16, R24 and R26 through the front door.

use super::*;
use crate::config::ResponseFormat;

const SSE: ResponseFormat = ResponseFormat::Sse;
const CSV: ResponseFormat = ResponseFormat::Csv;

fn decoder(format: ResponseFormat, spec: DecodeSpec, schema: Option<TableSchema>) -> StreamDecoder {
    StreamDecoder::new(format, spec, schema, None, 1_000).unwrap().unwrap()
}

/// The pages of a body that comes in these pieces.
fn feed(decoder: &mut StreamDecoder, pieces: &[&[u8]], boundary: &mut Boundary) -> Result<Vec<Page>> {
    decoder.begin()?;
    let mut pages = Vec::new();
    for piece in pieces {
        pages.extend(decoder.push(piece, boundary)?);
    }
    pages.extend(decoder.finish(boundary)?);
    Ok(pages)
}

fn read(format: ResponseFormat, spec: DecodeSpec, schema: Option<TableSchema>, body: &str) -> Result<Vec<Page>> {
    feed(&mut decoder(format, spec, schema), &[body.as_bytes()], &mut idle())
}

fn rows(pages: &[Page]) -> String {
    pages.iter().map(shown).collect::<Vec<_>>().join(" | ")
}

fn error(format: ResponseFormat, spec: DecodeSpec, schema: Option<TableSchema>, body: &str) -> (ErrorKind, String) {
    let error = read(format, spec, schema, body).unwrap_err();
    (error.kind(), error.to_string())
}

fn typed() -> TableSchema {
    schema_of(&[
        ("id", "/id", ColumnType::Int64),
        ("name", "/name", ColumnType::String),
        ("n", "/n", ColumnType::Float64),
        ("on", "/on", ColumnType::Boolean),
    ])
}

#[test]
fn r24_events_are_records_and_the_sentinel_is_none() {
    let body = "\u{feff}: hello\n\ndata: {\"id\":\ndata: 1}\nid: 9\n\nevent: row\ndata: {\"id\":2}\n\ndata:\n\n\
        data: {\"id\":3}\n\ndata: [DONE]\n\n";
    let pages = read(SSE, DecodeSpec { batch_rows: 2, ..spec("") }, Some(ids()), body).unwrap();
    assert_eq!(rows(&pages), "id=1; id=2 | id=3");
    assert_eq!(pages.iter().map(|p| p.received).collect::<Vec<_>>(), [2, 1]);
    let pages = read(SSE, spec(""), Some(ids()), "data: [DONE]\n\ndata: {\"id\":4}\n\ndata: [DONE]\n").unwrap();
    assert_eq!(rows(&pages), "id=4", "nothing after the sentinel is lost, and it may end the body");
    assert!(read(SSE, spec(""), Some(ids()), "").unwrap().is_empty());
}

#[test]
fn r24_data_that_is_no_record_is_an_error_that_shows_it() {
    for (body, part) in [
        (
            "data: {\"id\":1}\n\n\ndata: hello\n\n",
            "the event at line 4 is not JSON: expected a value at byte 0, near h",
        ),
        ("data: [done]\n\n", "the event at line 1 is not JSON"),
        ("data: [{\"id\":1}]\n\n", "the event at line 1 is not an object: [{\"id\":1}]"),
        ("data: {\"id\":1}\ndata: {\"id\":2}\n\n", "the event at line 1 is not JSON: text after the end"),
        ("data: {\"id\":1}\n\ndata: {\"id\":2}\n", "the event at line 3 is cut off"),
        ("data: {\"id\":1}\n\ndata: [DONE]", "the event at line 3 is cut off"),
    ] {
        let (kind, said) = error(SSE, spec(""), Some(ids()), body);
        assert_eq!(kind, ErrorKind::Decode);
        assert!(said.contains(part), "{body:?}: {said}");
    }
}

#[test]
fn r16_an_event_that_is_an_error_fails_the_read() {
    let watched = || DecodeSpec { error: Some(ptr("/error")), ..spec("") };
    for body in [
        "data: {\"id\":1}\n\nevent: error\ndata: {\"message\":\"quota\"}\n\n",
        "data: {\"id\":1,\"error\":null}\n\ndata: {\"error\":\"quota\"}\n\n",
    ] {
        let (kind, said) = error(SSE, watched(), Some(ids()), body);
        assert!(kind == ErrorKind::Http && said.contains("the event at line 3: the API says:"), "{said}");
        assert!(said.contains("quota"), "{said}");
    }
}

#[test]
fn r24_cells_are_read_through_their_columns() {
    let body = "\u{feff}on,extra,id,name,n\r\ntrue,x,1,\"a\r\nb\",1.5\r\nFALSE,,2,\"say \"\"x\"\"\",\r\n,,3.0,,2e3\r\nmaybe,,x,007,1";
    let pages = read(CSV, DecodeSpec { batch_rows: 3, ..spec("") }, Some(typed()), body).unwrap();
    assert_eq!(
        rows(&pages),
        "id=1 name=a\r\nb n=1.5 on=true; id=2 name=say \"x\" n=- on=false; id=3 name= n=2000 on=- | \
         id=- name=007 n=1 on=-"
    );
    let counts = &pages[0].counts;
    assert_eq!((counts.converted["on"].count, counts.converted["id"].count), (1, 1), "{counts:?}");
    assert!(counts.nulled.is_empty(), "an empty cell is NULL and no loss");
    assert_eq!(pages[1].counts.nulled["id"].first.as_deref(), Some("\"x\""));
    assert_eq!(pages[1].counts.nulled["on"].first.as_deref(), Some("\"maybe\""));
    assert_eq!((pages[0].received, pages[1].received), (3, 1));
    let failing = TableSchema { on_mismatch: OnMismatch::Fail, ..typed() };
    assert!(read(CSV, spec(""), Some(failing.clone()), "id,name\n,\n").is_ok());
    let (_, said) = error(CSV, spec(""), Some(failing), "id,name\n1,a\n\nx,b\n");
    assert!(said.contains("line 4, column `id`: \"x\" is not int64"), "{said}");
}

#[test]
fn r24_inferred_cells_are_texts_and_a_variant_keeps_them_all() {
    let mut decoder = decoder(CSV, spec(""), None);
    let pages = feed(&mut decoder, &[b"id,a/b\n007,\n"], &mut idle()).unwrap();
    assert_eq!(rows(&pages), "id=007 a/b=");
    let pages = feed(&mut decoder, &[b"a/b,new,id\nx,y,8\n"], &mut idle()).unwrap();
    assert_eq!(rows(&pages), "id=8 a/b=x", "each body has a header of its own");
    assert_eq!(pages[0].counts.undeclared.count, 1);
    let (value, mut rest) = (schema_of(&[("value", "", ColumnType::Json)]), with_rest(ids()));
    let body = "id,\"a \"\"b\"\"\",c\n1,x,\n";
    assert_eq!(rows(&read(CSV, spec(""), Some(value), body).unwrap()), r#"value={"id":"1","a \"b\"":"x","c":""}"#);
    assert_eq!(rows(&read(CSV, spec(""), Some(rest.clone()), body).unwrap()), r#"id=1 rest={"a \"b\"":"x","c":""}"#);
    rest.columns[0].path = ptr("/c");
    assert_eq!(rows(&read(CSV, spec(""), Some(rest), "c\n1\n").unwrap()), "id=1 rest=-");
}

#[test]
fn r24_a_header_that_cannot_be_meant_is_an_error() {
    for (body, part) in [
        ("id,name,id\n", "the name \"id\" stands twice"),
        ("id,,name\n", "field 2 has no name"),
        ("id,name,\n1,a,\n", "field 3 has no name"),
        ("id;name\n1;a\n", "none of the table's columns (id, name, n, on), but id;name"),
        ("{\"error\":\"quota\"}", "this is JSON, not CSV"),
        ("\n [\"id\"]", "this is JSON, not CSV"),
        ("<!DOCTYPE html>\n<html>", "this is a document"),
    ] {
        let (kind, said) = error(CSV, spec(""), Some(typed()), body);
        assert_eq!(kind, ErrorKind::Decode);
        assert!(said.contains("the header at line") && said.contains(part), "{body:?}: {said}");
    }
    assert!(error(CSV, spec(""), None, "{\"error\":\"quota\"}").1.contains("not CSV"));
    let body = b"id,\"\xff\"\n";
    let said = feed(&mut decoder(CSV, spec(""), Some(ids())), &[body], &mut idle()).unwrap_err().to_string();
    assert!(said.contains("UTF-8 at byte 4"), "{said}");
    let said = feed(&mut decoder(CSV, spec(""), Some(ids())), &[b"id,x\n1,a\xe2\x82"], &mut idle());
    assert!(said.unwrap_err().to_string().contains("UTF-8 at byte 8"));
}

#[test]
fn r24_a_column_that_a_header_lacks_is_null_and_said_once() {
    let mut decoder = decoder(CSV, spec(""), Some(typed()));
    let pages = feed(&mut decoder, &[b"id,n,on\n1,,\n"], &mut idle()).unwrap();
    assert_eq!(rows(&pages), "id=1 name=- n=- on=-");
    assert_eq!(pages[0].counts.warnings, ["the CSV header has no \"name\": that column is NULL"]);
    let pages = feed(&mut decoder, &[b"id,n,on\n2,,\n"], &mut idle()).unwrap();
    assert!(pages[0].counts.warnings.is_empty());
    for body in ["", "\n", "id,name,n,on\r\n"] {
        assert!(read(CSV, spec(""), Some(typed()), body).unwrap().is_empty(), "{body:?} has no records");
    }
}

#[test]
fn r16_a_cell_at_the_error_path_fails_the_read() {
    let spec = DecodeSpec { error: Some(ptr("/error")), ..spec("") };
    let (kind, said) = error(CSV, spec, Some(ids()), "id,error\n1,\n2,quota\n");
    assert!(kind == ErrorKind::Http && said.contains("line 3: the API says: quota"), "{said}");
}

#[test]
fn r03_records_of_the_boundary_are_dropped_and_positions_are_read() {
    let policy = BoundaryPolicy {
        format: Some(TimestampFormat::Rfc3339),
        stored: TimestampFormat::Rfc3339.parse("2026-01-02T00:00:00Z"),
        lag: std::time::Duration::ZERO,
        not_after: None,
        dedup: true,
        window: None,
        watermark: None,
    };
    let spec = DecodeSpec { timestamp: Some(ptr("/ts")), identity: Some(ptr("/key")), batch_rows: 2, ..spec("") };
    for (format, first, second) in [
        (
            CSV,
            "ts,key,id\n2026-01-02T00:00:00Z,a,1\n",
            "id,key,ts\n2,b,2026-01-02T00:00:00Z\n1,a,2026-01-02T00:00:00Z\n3,,\n4,d,soon\n",
        ),
        (
            SSE,
            "data: {\"id\":1,\"key\":\"a\",\"ts\":\"2026-01-02T00:00:00Z\"}\n\n",
            "data: {\"id\":2,\"key\":\"b\",\"ts\":\"2026-01-02T00:00:00Z\"}\n\ndata: {\"id\":1,\"key\":\"a\",\"ts\":\
             \"2026-01-02T00:00:00Z\"}\n\ndata: {\"id\":3}\n\ndata: {\"id\":4,\"key\":\"d\",\"ts\":\"soon\"}\n\n",
        ),
    ] {
        let mut decoder = decoder(format, spec.clone(), Some(ids()));
        let mut boundary = Boundary::new(policy.clone(), Seen::default());
        feed(&mut decoder, &[first.as_bytes()], &mut boundary).unwrap();
        let mut boundary = Boundary::new(policy.clone(), boundary.finish().seen);
        let pages = feed(&mut decoder, &[second.as_bytes()], &mut boundary).unwrap();
        assert_eq!(rows(&pages), "id=2 | id=3; id=4", "{format:?}");
        assert_eq!((boundary.duplicates_dropped(), boundary.without_position().0), (1, 2));
        assert_eq!(boundary.best(), Some("2026-01-02T00:00:00Z"));
    }
}

#[test]
fn r26_what_is_longer_than_the_limit_is_an_error_however_it_comes() {
    let long = "x".repeat(1_100);
    for (format, body) in [(SSE, format!("data: {{\"id\":\"{long}\"}}\n\n")), (CSV, format!("id\n{long}\n"))] {
        for size in [7, 10_000] {
            let pieces: Vec<&[u8]> = body.as_bytes().chunks(size).collect();
            let error = feed(&mut decoder(format, spec(""), Some(ids())), &pieces, &mut idle()).unwrap_err();
            assert!(error.to_string().contains("is longer than http.max-body-bytes (1000 bytes)"), "{error}");
        }
    }
}

proptest! {
    #[test]
    fn r24_streamed_bodies_cut_anywhere_are_the_same_pages(
        records in prop::collection::vec((any::<i64>(), "[a\"é,\r\n \\\\]{0,5}"), 0..8),
        cuts in prop::collection::vec(1_usize..40, 1..8),
        known in any::<bool>(),
        cut_off in any::<prop::sample::Index>(),
    ) {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let mut csv = "id,name\r\n".to_owned();
        let mut sse = ": x\r".to_owned();
        for (id, name) in &records {
            let _ = writeln!(csv, "{id},{}", quoted(name));
            let _ = write!(sse, "data: {{\"id\":{id},\r\ndata:\"name\":{}}}\n\r", json!(name));
        }
        for (format, body) in [(CSV, &csv), (SSE, &sse), (ResponseFormat::Ndjson, &sse)] {
            let whole = body.as_bytes();
            for body in [whole, &whole[..cut_off.index(whole.len())]] {
                let schema = known.then(|| schema_of(&[("id", "/id", ColumnType::Int64), ("name", "/name", ColumnType::String)]));
                let read = |pieces: &[&[u8]]| {
                    let mut decoder = decoder(format, DecodeSpec { batch_rows: 3, ..spec("") }, schema.clone());
                    let pages = feed(&mut decoder, pieces, &mut idle());
                    pages.map(|pages| pages.iter().map(|p| (p.batches.clone(), p.received)).collect::<Vec<_>>()).map_err(|e| e.to_string())
                };
                let mut pieces: Vec<&[u8]> = Vec::new();
                let mut rest = body;
                for size in cuts.iter().cycle() {
                    if rest.is_empty() {
                        break;
                    }
                    let (piece, after) = rest.split_at((*size).min(rest.len()));
                    pieces.push(piece);
                    rest = after;
                }
                let at_once = read(&[body]);
                prop_assert_eq!(&at_once, &read(&pieces));
                if body.len() == whole.len() && format != ResponseFormat::Ndjson {
                    let received: u64 = at_once.unwrap().iter().map(|(_, received)| received).sum();
                    prop_assert_eq!(received, records.len() as u64);
                }
            }
        }
    }

    #[test]
    fn r24_no_bytes_bring_a_streamed_body_down(bytes in prop::collection::vec(any::<u8>(), 0..80), text in "(data:|event:|id|[\\[\\]{}\":,a0 \n\r\\\\-]){0,40}") {
        for format in [SSE, CSV, ResponseFormat::Ndjson] {
            for body in [&bytes[..], text.as_bytes()] {
                for schema in [None, Some(with_rest(ids()))] {
                    let _ = feed(&mut decoder(format, spec(""), schema), &[body], &mut idle());
                }
            }
        }
    }
}
