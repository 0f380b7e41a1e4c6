//! Event streams and CSV through the binary: what comes out, what is said, and that nothing moves when a body is wrong.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::support::{Api, Mark, Place, Reply, Route};

fn text(target: &str, body: &str) -> Route {
    Route::new("GET", target, Reply::text(body))
}

/// One table `items` in this format, with these lines; a checkpoint keeps the greatest `ts`.
fn place(api: &Api, format: &str, lines: &str) -> Place {
    place_at(&api.base(), format, lines)
}

fn place_at(base: &str, format: &str, lines: &str) -> Place {
    let kept = "checkpoint { enabled = true, path = \"{{DIR}}/ckpt\", mode = timestamp, timestamp-path = \"/ts\", \
                timestamp-param = since }";
    let config = format!(
        "base-url = \"{{{{BASE}}}}\"\nhttp {{ response-format = {format}, max-retries = 0 }}\ntables {{\n  items {{ endpoint = \
         \"/items\"\n    {lines} }}\n  kept {{ endpoint = \"/items\"\n    {lines}\n    {kept} }}\n}}\n"
    );
    Place::new(base, &config)
}

const COLUMNS: &str = "columns { id { type = int64 }, name { type = string } }";

#[test]
fn r24_what_is_written_as_csv_is_read_back_the_same() {
    let columns = "columns { id { type = int64 }, ratio { type = float64 }, price { type = \"decimal(10,2)\" }, yes { type = \
                   boolean }, name { type = string }, day { type = date }, at { type = timestamp }, more { type = json } }";
    let records = [
        json!({ "id": 9_007_199_254_740_993_i64, "ratio": 1.5, "price": "12.30", "yes": true, "name": "a,\"b\"\r\nc",
            "day": "2026-01-31", "at": "2026-01-31T10:00:00.250Z", "more": { "k": [1, "\""] } }),
        json!({ "id": -1, "ratio": 2000.0, "name": "NA", "yes": false }),
    ];
    let lines = records.map(|record| record.to_string()).join("\n");
    let api = Api::new(vec![text("/items", &lines)]);
    let written = place(&api, "ndjson", columns);
    let direct = written.read("items").output().expect(0).rows();
    written.run(&["read", "CONFIG", "items", "--to", "out", "--format", "csv"]).output().expect(0);
    let files = std::fs::read_dir(written.path("out")).unwrap().map(|entry| entry.unwrap().path());
    let csv = files
        .filter(|path| path.extension().is_some_and(|e| e == "csv"))
        .map(|path| std::fs::read_to_string(path).unwrap());
    let csv: Vec<String> = csv.collect();
    let api = Api::new(vec![text("/items", &csv[0])]);
    let output = place(&api, "csv", columns).read("items").output().expect(0);
    assert_eq!(output.rows(), direct, "{}", csv[0]);
    assert!(!output.stderr.contains("converted") && !output.stderr.contains("NULL"), "{}", output.stderr);
}

#[test]
fn r14_csv_pages_by_offset_end_with_a_header_that_nothing_follows() {
    let api = Api::new(vec![
        text("/items?offset=0&limit=2", "id,name\n1,a\n2,b\n"),
        text("/items?offset=2&limit=2", "name,id\nc,3\n"),
        text("/items?offset=3&limit=2", "id,name\n"),
    ]);
    let place = place(&api, "csv", &format!("pagination {{ style = offset, max-page-size = 2 }}, {COLUMNS}"));
    assert_eq!(place.read("items").output().expect(0).ids(), [1, 2, 3]);
    let preview = place.run(&["preview", "CONFIG", "items"]).output().expect(0);
    assert!(preview.stdout.contains("name"), "{}", preview.stdout);
}

#[test]
fn r24_columns_of_csv_are_texts_until_they_are_declared() {
    let api = Api::new(vec![text("/items", "id,a name\n007,\n")]);
    let place = place(&api, "csv", "");
    assert_eq!(place.read("items").output().expect(0).rows(), [json!({ "id": "007", "a name": "" })]);
    let schema = place.run(&["schema", "CONFIG", "items"]).output().expect(0).stdout;
    assert!(schema.contains("id { type = string }") && schema.contains("a name"), "{schema}");
}

#[test]
fn r25_a_column_that_the_header_lacks_is_said_in_the_report() {
    let api = Api::new(vec![text("/items", "id,nmae\n1,x\n2,\n")]);
    let output = place(&api, "csv", COLUMNS).read("items").output().expect(0);
    assert_eq!(output.ids(), [1, 2]);
    output.says("the CSV header has no \"name\"");
}

#[test]
fn r01_a_body_that_is_wrong_moves_nothing() {
    let event = "data: {\"id\":1,\"ts\":\"2026-01-01T00:00:00Z\"}\n\n";
    for (format, body, code, said) in [
        ("sse", format!("{event}event: error\ndata: {{\"text\":\"quota\"}}\n\n"), 3, "quota"),
        ("sse", format!("{event}data: {{\"id\":2}}\n"), 4, "the event at line 3 is cut off"),
        ("sse", format!("{event}data: <html>\n\n"), 4, "near <"),
        ("sse", "{\"error\":\"quota\"}\n".to_owned(), 4, "quota"),
        ("csv", "id,ts\n1,2026-01-01T00:00:00Z\n2,\"".to_owned(), 4, "line 3 is cut off"),
        ("csv", "id,ts\n1,2026-01-01T00:00:00Z\n2\n".to_owned(), 4, "line 3 has 1 field"),
        ("csv", "{\"error\":\"quota\"}".to_owned(), 4, "quota"),
        ("csv", "<html>no such page</html>".to_owned(), 4, "not CSV"),
    ] {
        let api = Api::new(vec![text("/items", &body)]);
        let place = place(&api, format, COLUMNS);
        place.read("kept").output().expect(code).says(said);
        assert_eq!(place.mark("kept"), Mark::NONE, "{format}: {body}");
        assert_eq!(api.requests().len(), 1, "what a body says is not asked for again");
    }
}

#[test]
fn r05_positions_of_events_and_cells_are_read_like_those_of_records() {
    let position = |value: &str| json!({ "type": "timestamp", "value": value });
    for (format, body) in [
        ("csv", "ts,id,name\n2026-01-02T01:00:00+02:00,1,a\nsoon,2,b\n,3,c\n2026-01-01T00:00:00Z,4,d\n"),
        (
            "sse",
            "data: {\"id\":1,\"ts\":\"2026-01-02T01:00:00+02:00\"}\n\ndata: {\"id\":2,\"ts\":\"soon\"}\n\n\
             id: 2999-01-01T00:00:00Z\ndata: {\"id\":3}\n\ndata: {\"id\":4,\"ts\":\"2026-01-01T00:00:00Z\"}\n\ndata: [DONE]\n\n",
        ),
    ] {
        let api = Api::new(vec![text("/items", body)]);
        let place = place(&api, format, COLUMNS);
        let output = place.read("kept").output().expect(0).says("records without a readable position: 2");
        assert_eq!(
            output.rows().iter().map(|row| row["id"].clone()).collect::<Vec<Value>>(),
            [1, 2, 3, 4].map(Value::from)
        );
        assert_eq!(place.mark("kept").position(), position("2026-01-02T01:00:00+02:00"));
        let accept = api.requests()[0].headers["accept"].clone();
        assert!(accept.starts_with(if format == "csv" { "text/csv" } else { "text/event-stream" }), "{accept}");
    }
}

#[test]
fn r20_a_few_rows_of_a_stream_that_never_ends_come_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // An answer before the question is no answer.
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            asked.push(byte[0]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\ndata: {\"id\":1}\n\ndata: {\"id\":2}\n\ndata: ").unwrap();
        // Until the run has ended.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let place = place_at(&base, "sse", COLUMNS);
    assert_eq!(place.read("items").args(["--limit", "2"]).output().expect(0).ids(), [1, 2]);
    server.join().unwrap();
}
