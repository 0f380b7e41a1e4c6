//! What whole pages become: R14, R16, R24 and R26 through the front door.

mod streamed;

use std::fmt::Write as _;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type};
use jsonptr::PointerBuf;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::ndjson::LineDecoder;
use super::*;
use crate::config::{
    CheckpointConfig, ColumnConfig, ColumnType, CursorFrom, CursorTo, DeclaredEnd, Future, Method, ModeConfig,
    OnMismatch, Pagination, SchemaConfig, SchemaMode, Style, TableConfig,
};
use crate::error::{ErrorKind, Result};
use crate::position::{Boundary, BoundaryPolicy, Seen, TimestampFormat};
use crate::schema::{self, Column, RestColumn, TableSchema};

mod explode;

fn ptr(text: &str) -> PointerBuf {
    PointerBuf::parse(text).unwrap()
}

fn spec(data: &str) -> DecodeSpec {
    DecodeSpec {
        data: (!data.is_empty()).then(|| ptr(data)),
        results: None,
        error: None,
        next: None,
        total: None,
        has_more: None,
        token: None,
        timestamp: None,
        identity: None,
        line_error: None,
        paged: true,
        hash_content: false,
        batch_rows: 1_000,
        schema: SchemaConfig {
            mode: SchemaMode::Infer,
            flatten_depth: 2,
            on_mismatch: OnMismatch::Fail,
            rest_column: None,
            batch_rows: 1_000,
            explode: None,
        },
        declared: None,
        beside: None,
    }
}

fn schema_of(columns: &[(&str, &str, ColumnType)]) -> TableSchema {
    let columns = columns.iter().map(|(name, path, data_type)| Column {
        name: (*name).to_owned(),
        path: ptr(path),
        data_type: *data_type,
        format: None,
    });
    TableSchema { columns: columns.collect(), rest: None, parent: None, on_mismatch: OnMismatch::Null }
}

fn with_rest(mut schema: TableSchema) -> TableSchema {
    let declared = schema.columns.iter().map(|c| c.path.clone()).collect();
    schema.rest = Some(RestColumn { name: "rest".into(), declared });
    schema
}

fn ids() -> TableSchema {
    schema_of(&[("id", "/id", ColumnType::Int64)])
}

fn idle() -> Boundary {
    let policy = BoundaryPolicy {
        format: None,
        stored: None,
        lag: std::time::Duration::ZERO,
        not_after: None,
        dedup: false,
        window: None,
        watermark: None,
    };
    Boundary::new(policy, Seen::default())
}

fn decoded(spec: DecodeSpec, schema: TableSchema, body: &str) -> Result<Page> {
    Decoder::new(spec, Some(schema), None)?.page(200, body.as_bytes(), &mut idle())
}

fn refused(spec: DecodeSpec, schema: TableSchema, body: &str) -> (ErrorKind, String) {
    let error = decoded(spec, schema, body).unwrap_err();
    (error.kind(), error.to_string())
}

/// The rows as text: `id=1 name=x; id=2 name=-`.
fn shown(page: &Page) -> String {
    let mut out = String::new();
    for batch in &page.batches {
        for row in 0..batch.num_rows() {
            if !out.is_empty() {
                out.push_str("; ");
            }
            out.push_str(&row_of(batch, row));
        }
    }
    out
}

fn row_of(batch: &RecordBatch, row: usize) -> String {
    let mut out = String::new();
    for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
        let gap = if out.is_empty() { "" } else { " " };
        let value = if array.is_null(row) {
            "-".to_owned()
        } else if let Some(texts) = array.as_string_opt::<i32>() {
            texts.value(row).to_owned()
        } else if let Some(ints) = array.as_primitive_opt::<Int64Type>() {
            ints.value(row).to_string()
        } else if let Some(floats) = array.as_primitive_opt::<Float64Type>() {
            floats.value(row).to_string()
        } else {
            array.as_boolean_opt().map_or_else(|| "?".into(), |b| b.value(row).to_string())
        };
        let _ = write!(out, "{gap}{}={value}", field.name());
    }
    out
}

fn table(style: Style, mode: ModeConfig, schema: SchemaMode) -> TableConfig {
    let mut config = spec("").schema;
    (config.mode, config.rest_column) = (schema, Some("rest".into()));
    TableConfig {
        name: "t".into(),
        url: "http://localhost/t".parse().unwrap(),
        method: Method::Get,
        body: None,
        params: vec![],
        headers: vec![],
        data_path: Some(ptr("/items")),
        error_path: Some(ptr("/error")),
        columns: vec![ColumnConfig { name: "n".into(), data_type: ColumnType::Int32, path: ptr("/a/n"), format: None }],
        is_from_spec: false,
        pagination: Pagination { style, results_path: None, page_size_param: None, max_page_size: 1, max_pages: None },
        filters: vec![],
        partition: None,
        child: None,
        aggregations: Vec::new(),
        checkpoint: Some(CheckpointConfig {
            location: crate::storage::Location::Local("x".into()),
            mode,
            lag: std::time::Duration::ZERO,
            dedup_key: Some(ptr("/id")),
            future: Future::Clamp,
        }),
        schema: config,
    }
}

#[test]
fn r16_a_spec_says_where_the_table_has_its_values() {
    let cursor =
        Style::Cursor { from: CursorFrom::Path(ptr("/next")), to: CursorTo::Query("cursor".into()), initial: None };
    let timestamp = ModeConfig::Timestamp { path: ptr("/ts"), param: "since".into(), format: TimestampFormat::Rfc3339 };
    let spec = DecodeSpec::for_table(&table(cursor, timestamp, SchemaMode::Infer));
    assert_eq!((spec.data, spec.error, spec.next), (Some(ptr("/items")), Some(ptr("/error")), Some(ptr("/next"))));
    assert_eq!((spec.timestamp, spec.identity, spec.token), (Some(ptr("/ts")), Some(ptr("/id")), None));
    assert!(spec.paged && !spec.hash_content);
    let end = DeclaredEnd { total_path: Some(ptr("/total")), has_more_path: Some(ptr("/more")) };
    let token = ModeConfig::Token { path: ptr("/delta"), param: "token".into() };
    let spec = DecodeSpec::for_table(&table(Style::Offset { param: "o".into(), end }, token, SchemaMode::Infer));
    assert_eq!((spec.total, spec.has_more), (Some(ptr("/total")), Some(ptr("/more"))));
    assert_eq!((spec.timestamp, spec.token, spec.hash_content), (None, Some(ptr("/delta")), true));
    assert!(!DecodeSpec::for_table(&table(Style::None, ModeConfig::Cursor, SchemaMode::Infer)).paged);
}

#[test]
fn r24_declared_and_variant_schemas_are_known_before_the_first_page() {
    let known = |mode| schema::for_table(&table(Style::None, ModeConfig::Cursor, mode));
    let inferred = TableConfig { columns: Vec::new(), ..table(Style::None, ModeConfig::Cursor, SchemaMode::Infer) };
    assert_eq!(schema::for_table(&inferred), None);
    let strict = known(SchemaMode::Strict).unwrap();
    assert_eq!(strict.names(), ["n", "rest"]);
    assert_eq!(strict.rest.map(|rest| rest.declared), Some(vec![ptr("/a/n")]));
    let variant = known(SchemaMode::Variant).unwrap();
    assert_eq!((variant.names(), variant.columns[0].path.is_root()), (vec!["value"], true));
}

#[test]
fn r16_null_empty_and_204_are_empty_pages() {
    for body in [r#"{"items":null}"#, r#"{"items":[]}"#, "", " \n", "\u{feff}"] {
        let page = decoded(spec("/items"), ids(), body).unwrap();
        assert_eq!((page.received, page.batches.len()), (0, 0), "{body}");
    }
    let mut decoder = Decoder::new(spec("/items"), Some(ids()), None).unwrap();
    assert!(decoder.page(204, b"whatever", &mut idle()).unwrap().batches.is_empty());
}

#[test]
fn r16_a_missing_array_is_an_error_with_path_status_and_body() {
    for body in [
        r#"{"error":{"message":"quotaexceeded"}}"#,
        r#"{"items":"quotaexceeded"}"#,
        r#"{"items":{"quotaexceeded":1}}"#,
        r#"{"items":7,"quotaexceeded":0}"#,
        r#"{"items":true,"quotaexceeded":0}"#,
    ] {
        let (kind, said) = refused(spec("/items"), ids(), body);
        assert_eq!(kind, ErrorKind::Decode);
        assert!(["/items", "200", "quotaexceeded"].iter().all(|part| said.contains(part)), "{said}");
    }
    let (_, said) = refused(spec(""), ids(), r#"{"message":"no"}"#);
    assert!(said.contains("the document"), "{said}");
}

#[test]
fn r16_without_paging_an_object_is_one_record() {
    let single = |data| DecodeSpec { paged: false, ..spec(data) };
    assert_eq!(shown(&decoded(single(""), ids(), r#"{"id":7}"#).unwrap()), "id=7");
    assert_eq!(shown(&decoded(single("/a"), ids(), r#"{"a":{"id":7}}"#).unwrap()), "id=7");
    assert_eq!(shown(&decoded(single(""), ids(), r#"[{"id":7}]"#).unwrap()), "id=7");
    let with_error = DecodeSpec { error: Some(ptr("/error")), ..single("") };
    assert_eq!(shown(&decoded(with_error.clone(), ids(), r#"{"id":7}"#).unwrap()), "id=7");
    assert_eq!(refused(with_error, ids(), r#"{"id":7,"error":"x"}"#).0, ErrorKind::Http);
}

#[test]
fn r16_the_error_path_comes_before_everything_else() {
    let spec = DecodeSpec { error: Some(ptr("/warning/text")), ..spec("/items") };
    let strict = TableSchema { on_mismatch: OnMismatch::Fail, ..ids() };
    for body in [
        r#"{"items":[{"id":3}],"warning":{"text":"partial\nresult"}}"#,
        r#"{"warning":{"text":"partial\nresult"}}"#,
        r#"{"items":[{"id":"x"}],"warning":{"text":"partial\nresult"}}"#,
        r#"{"items":[5],"warning":{"text":"partial\nresult"}}"#,
    ] {
        let (kind, said) = refused(spec.clone(), strict.clone(), body);
        assert_eq!(kind, ErrorKind::Http, "{said}");
        assert!(said.contains("partial result"), "{said}");
    }
    for body in [r#"{"items":[{"id":3}],"warning":null}"#, r#"{"items":[{"id":3}],"warning":{"text":null}}"#] {
        assert_eq!(shown(&decoded(spec.clone(), ids(), body).unwrap()), "id=3");
    }
}

#[test]
fn r14_the_envelope_is_read_around_the_records() {
    let spec = DecodeSpec {
        next: Some(ptr("/meta/next")),
        total: Some(ptr("/meta/total")),
        has_more: Some(ptr("/more")),
        token: Some(ptr("/links/1/token")),
        results: Some(ptr("/all")),
        ..spec("/meta/rows")
    };
    let body = r#"{"meta":{"total":12345678901234567890123,"rows":[{"id":1}],"next":"a\"b"},"all":[1,{},3],
        "links":[{"token":0},{"token":false}],"more":[1]}"#;
    let page = decoded(spec.clone(), ids(), body).unwrap();
    assert_eq!(page.received, 3);
    assert_eq!(page.envelope.next, Scalar::Text("a\"b".into()));
    assert_eq!(page.envelope.total, Scalar::Number("12345678901234567890123".into()));
    assert_eq!(page.envelope.token, Scalar::Bool(false));
    assert_eq!(page.envelope.has_more, Scalar::Structure("[1]".into()));
    let page = decoded(spec.clone(), ids(), r#"{"meta":{"rows":[{"id":1}],"next":null},"all":null}"#).unwrap();
    assert_eq!((page.received, page.envelope), (0, Envelope::default()));
    let (kind, said) = refused(spec, ids(), r#"{"meta":{"rows":[{"id":1}]}}"#);
    assert!(kind == ErrorKind::Decode && said.contains("/all"), "{said}");
}

#[test]
fn r14_results_and_envelope_values_may_stand_inside_the_record_array() {
    let spec = DecodeSpec { next: Some(ptr("/items/1/id")), results: Some(ptr("/items")), ..spec("/items") };
    let page = decoded(spec, ids(), r#"{"items":[{"id":1},{"id":2}]}"#).unwrap();
    assert_eq!((page.received, page.envelope.next), (2, Scalar::Number("2".into())));
}

#[test]
fn r16_an_ambiguous_or_broken_document_is_an_error() {
    let spec = DecodeSpec { next: Some(ptr("/next")), ..spec("/items") };
    for (body, part) in [
        (r#"{"items":[],"items":[{"id":1}]}"#, "twice"),
        (r#"{"items":[],"next":1,"n\u0065xt":2}"#, "twice"),
        (r#"{"items":[{"id":1}]} x"#, "after the end"),
        (r#"{"items":[{"id":1}"#, "not JSON"),
        (r#"{"items":[{"id":1,}]}"#, "byte 18"),
        (r#"{"items":[{"id":01}]}"#, "not JSON"),
        (r#"{"items":[],"next":"\ud800"}"#, "surrogate"),
        ("<html>", "not JSON"),
    ] {
        let (kind, said) = refused(spec.clone(), ids(), body);
        assert!(kind == ErrorKind::Decode && said.contains(part), "{said}");
    }
}

#[test]
fn r24_invalid_utf_8_is_an_error_with_its_place() {
    let mut decoder = Decoder::new(spec("/items"), Some(ids()), None).unwrap();
    let error = decoder.page(200, b"{\"items\":[{\"id\":1,\"skip\":\"a\xff\"}]}", &mut idle()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
    assert!(error.to_string().contains("UTF-8 at byte 27"), "{error}");
}

#[test]
fn r24_a_byte_order_mark_is_skipped() {
    assert_eq!(shown(&decoded(spec("/items"), ids(), "\u{feff}{\"items\":[{\"id\":1}]}").unwrap()), "id=1");
}

#[test]
fn r24_one_reading_or_null_and_both_are_counted() {
    let columns = schema_of(&[
        ("id", "/id", ColumnType::Int64),
        ("n", "/n", ColumnType::Int64),
        ("f", "/f", ColumnType::Float64),
        ("b", "/b", ColumnType::Boolean),
        ("s", "/s", ColumnType::String),
    ]);
    let body = r#"[{"id":1,"n":3.0,"f":1.5,"b":"TRUE"},{"id":2,"n":"5","f":"2.5","s":1.10},
        {"id":3,"n":4.2,"f":"NaN","b":1},{"id":4,"n":9223372036854775808,"f":7,"s":{"a": 1}},{"id":null}]"#;
    let page = decoded(spec(""), columns.clone(), body).unwrap();
    assert_eq!(
        shown(&page),
        "id=1 n=3 f=1.5 b=true s=-; id=2 n=5 f=2.5 b=- s=1.10; id=3 n=- f=- b=- s=-; id=4 n=- f=7 b=- s={\"a\": 1}; \
         id=- n=- f=- b=- s=-"
    );
    assert_eq!(page.counts.converted["n"].count, 2);
    assert_eq!(page.counts.converted["s"].first.as_deref(), Some("1.10"));
    assert_eq!(page.counts.nulled["n"], crate::counts::Tally { count: 2, first: Some("4.2".into()) });
    assert_eq!(page.counts.nulled["f"].first.as_deref(), Some("\"NaN\""));
    assert_eq!(page.counts.nulled.len(), 3);
    let (kind, said) = refused(spec(""), TableSchema { on_mismatch: OnMismatch::Fail, ..columns }, body);
    assert_eq!(kind, ErrorKind::Decode);
    assert!(said.contains("record 3, column `n`: 4.2 is not int64"), "{said}");
}

#[test]
fn r24_duplicate_keys_are_counted_and_the_last_wins() {
    let page = decoded(spec("/items"), ids(), r#"{"items":[{"id":1},{"id":2,"x":0,"x":1,"i\u0064":"3"}]}"#).unwrap();
    assert_eq!(shown(&page), "id=1; id=3");
    assert_eq!((page.counts.duplicate_keys.count, page.counts.converted["id"].count), (1, 1));
    let page = decoded(spec(""), ids(), r#"[{"id":1},{"id":2,"id":3},{"id":4,"id":5,"id":6},{"id":7}]"#).unwrap();
    assert_eq!(shown(&page), "id=1; id=3; id=6; id=7");
    assert_eq!(page.counts.duplicate_keys.first.as_deref(), Some("key `id` in record 2"));
    assert_eq!((page.counts.duplicate_keys.count, page.received), (3, 4));
    assert!(page.counts.nulled.is_empty());
}

#[test]
fn r24_a_superseded_value_leaves_no_trace() {
    let columns = schema_of(&[
        ("id", "/id", ColumnType::Int64),
        ("n", "/n", ColumnType::Int64),
        ("b", "/a/b", ColumnType::Int64),
    ]);
    let strict = TableSchema { on_mismatch: OnMismatch::Fail, ..columns.clone() };
    let body = r#"[{"n":"5","id":"x","a":{"b":1},"id":1,"a":{"b":"y","b":"3"}},{"id":2,"a":{"b":8},"a":null}]"#;
    for schema in [columns, strict.clone()] {
        let page = decoded(spec(""), schema, body).unwrap();
        assert_eq!(shown(&page), "id=1 n=5 b=3; id=2 n=- b=-");
        assert_eq!(page.counts.duplicate_keys.count, 4);
        assert!(page.counts.nulled.is_empty(), "{:?}", page.counts.nulled);
        let converted: Vec<_> =
            page.counts.converted.iter().map(|(name, tally)| (name.as_str(), tally.count)).collect();
        assert_eq!(converted, [("b", 1), ("n", 1)]);
    }
    let (_, said) = refused(spec(""), strict, r#"[{"id":1,"id":"x"}]"#);
    assert!(said.contains("column `id`: \"x\" is not int64"), "{said}");
    let page = decoded(spec(""), with_rest(ids()), r#"[{"id":1,"x":1,"id":2}]"#).unwrap();
    assert_eq!(shown(&page), r#"id=2 rest={"x":1}"#);
}

#[test]
fn r24_keys_that_stand_a_hundred_thousand_times_end() {
    let mut many = String::new();
    for n in 0..100_000 {
        let _ = write!(many, "\"id\":{n},");
    }
    let page = decoded(spec(""), ids(), &format!("[{{{many}\"id\":-1}}]")).unwrap();
    assert_eq!((shown(&page).as_str(), page.counts.duplicate_keys.count), ("id=-1", 100_000));
}

#[test]
fn r24_a_position_is_read_from_the_last_of_two_keys() {
    let policy = BoundaryPolicy {
        format: Some(TimestampFormat::Rfc3339),
        stored: None,
        lag: std::time::Duration::ZERO,
        not_after: None,
        dedup: false,
        window: None,
        watermark: None,
    };
    let mut boundary = Boundary::new(policy, Seen::default());
    let spec = DecodeSpec { timestamp: Some(ptr("/ts")), ..spec("") };
    let body = br#"[{"id":1,"ts":"2027-01-01T00:00:00Z","ts":"2026-01-01T00:00:00Z"},{"id":2}]"#;
    let page = Decoder::new(spec, Some(ids()), None).unwrap().page(200, body, &mut boundary).unwrap();
    assert_eq!((shown(&page).as_str(), boundary.best()), ("id=1; id=2", Some("2026-01-01T00:00:00Z")));
}

#[test]
fn r24_what_json_does_not_allow_is_an_error_wherever_it_stands() {
    for (body, part) in [
        ("[{\"id\":1,\"skip\":\"a\u{1}b\"}]", "control character"),
        ("[{\"id\":1,\"skip\":\"a\nb\"}]", "control character"),
        (r#"[{"id":1,"skip":NaN}]"#, "expected a value"),
        (r#"[{"id":1,"skip":"\x"}]"#, "an escape that JSON does not have"),
    ] {
        let (kind, said) = refused(spec(""), ids(), body);
        assert!(kind == ErrorKind::Decode && said.contains(part) && said.contains("at byte"), "{said}");
    }
}

#[test]
fn r24_a_key_around_the_records_that_stands_twice_is_an_error() {
    let spec = DecodeSpec { next: Some(ptr("/meta/next")), ..spec("/items") };
    for body in [r#"{"items":[],"items":[{"id":1}]}"#, r#"{"items":[],"meta":{"next":"a","next":"b"}}"#] {
        let (kind, said) = refused(spec.clone(), ids(), body);
        assert!(kind == ErrorKind::Decode && said.contains("stands twice"), "{said}");
    }
}

#[test]
fn r24_later_pages_of_an_inferred_table_follow_on_mismatch() {
    let pages = [&br#"[{"n":1,"o":{"a":1}}]"#[..], br#"[{"n":"x","o":5,"late":1},{"n":"7","o":null}]"#];
    let mut lenient = spec("");
    lenient.schema.on_mismatch = OnMismatch::Null;
    let mut decoder = Decoder::new(lenient, None, None).unwrap();
    decoder.page(200, pages[0], &mut idle()).unwrap();
    let page = decoder.page(200, pages[1], &mut idle()).unwrap();
    assert_eq!(shown(&page), "n=- o_a=-; n=7 o_a=-");
    assert_eq!((page.counts.nulled["n"].count, page.counts.nulled["o_a"].first.as_deref()), (1, Some("5")));
    assert_eq!((page.counts.converted["n"].count, page.counts.undeclared.count), (1, 1));
    let mut strict = Decoder::new(spec(""), None, None).unwrap();
    strict.page(200, pages[0], &mut idle()).unwrap();
    assert_eq!(strict.page(200, pages[1], &mut idle()).unwrap_err().kind(), ErrorKind::Decode);
}

#[test]
fn r24_half_a_character_is_no_text_and_stays_as_json() {
    let body = r#"[{"id":1,"s":"a\ud800"},{"id":2,"s":"\ud83d\ude00\u0000"}]"#;
    let strings = schema_of(&[("s", "/s", ColumnType::String)]);
    let page = decoded(spec(""), strings, body).unwrap();
    assert_eq!(shown(&page), "s=-; s=😀\0");
    assert_eq!(page.counts.nulled["s"].first.as_deref(), Some(r#""a\ud800""#));
    let page = Decoder::new(spec(""), None, None).unwrap().page(200, body.as_bytes(), &mut idle()).unwrap();
    assert_eq!(shown(&page), r#"id=1 s="a\ud800"; id=2 s="\ud83d\ude00\u0000""#);
}

#[test]
fn r24_nested_paths_and_what_stands_in_their_way() {
    let columns = schema_of(&[
        ("name", "/user/name", ColumnType::String),
        ("first", "/tags/0", ColumnType::String),
        ("user", "/user", ColumnType::Json),
        ("slash", "/a~1b", ColumnType::Int64),
    ]);
    let body = r#"[{"user":{"name":"x","n":1},"tags":["a","b"],"a/b":1},{"user":null,"tags":[]},
        {"user":"text","tags":{"0":"zero"}},{}]"#;
    let page = decoded(spec(""), columns, body).unwrap();
    assert_eq!(
        shown(&page),
        "name=x first=a user={\"name\":\"x\",\"n\":1} slash=1; name=- first=- user=- slash=-; \
         name=- first=zero user=\"text\" slash=-; name=- first=- user=- slash=-"
    );
    assert_eq!(page.counts.nulled["name"].first.as_deref(), Some("\"text\""));
    assert_eq!(page.counts.nulled.len(), 1, "null and missing parents are no mismatch");
}

#[test]
fn r24_records_that_are_no_objects_are_never_rows_of_nulls() {
    for record in ["5", "null", "\"x\"", "[{\"id\":1}]"] {
        let (kind, said) = refused(spec(""), ids(), &format!("[{{\"id\":1}},{record}]"));
        assert_eq!(kind, ErrorKind::Decode);
        assert!(said.contains(&format!("record 2 is not an object: {record}")), "{said}");
    }
    let variant = schema_of(&[("value", "", ColumnType::Json)]);
    let page = decoded(spec(""), variant, r#"[{"id": 1},5,null,[2]]"#).unwrap();
    assert_eq!(shown(&page), "value={\"id\": 1}; value=5; value=-; value=[2]");
}

#[test]
fn r24_the_rest_column_keeps_what_no_column_reads() {
    let columns = with_rest(schema_of(&[("b", "/a/b", ColumnType::Int64), ("id", "/id", ColumnType::Int64)]));
    let body = r#"[{"id":1,"a":{"b":1,"c":2,"d":{"e":[1, 2]}},"x\"y":null},{"id":2,"a":{"b":1}},
        {"a":"text","z":1.10},{"a":null,"id":3}]"#;
    let page = decoded(spec(""), columns.clone(), body).unwrap();
    assert_eq!(
        shown(&page),
        r#"b=1 id=1 rest={"a":{"c":2,"d":{"e":[1, 2]}},"x\"y":null}; b=1 id=2 rest=-; b=- id=- rest={"a":"text","z":1.10}; b=- id=3 rest=-"#
    );
    let select = Some(vec!["rest".to_owned()]);
    let mut decoder = Decoder::new(spec(""), Some(columns), select).unwrap();
    let page = decoder.page(200, br#"[{"id":1,"a":{"b":1},"c":1}]"#, &mut idle()).unwrap();
    assert_eq!(shown(&page), r#"rest={"c":1}"#, "what is declared but not selected is not the rest");
}

#[test]
fn r24_a_watched_path_that_is_no_column_is_part_of_the_rest() {
    let spec = DecodeSpec { timestamp: Some(ptr("/meta/ts")), ..spec("") };
    let page = decoded(spec, with_rest(ids()), r#"[{"id":1,"meta":{"ts":"t","u":1}}]"#).unwrap();
    assert_eq!(shown(&page), r#"id=1 rest={"meta":{"ts":"t","u":1}}"#);
}

#[test]
fn r24_an_unknown_column_is_named_with_the_valid_ones() {
    let error = Decoder::new(spec(""), Some(ids()), Some(vec!["nope".into()])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Scan);
    assert!(error.to_string().contains("nope") && error.to_string().contains("id"), "{error}");
    let mut decoder = Decoder::new(spec(""), None, Some(vec!["nope".into()])).unwrap();
    assert_eq!(decoder.page(200, br#"[{"id":1}]"#, &mut idle()).unwrap_err().kind(), ErrorKind::Scan);
}

#[test]
fn r24_columns_are_inferred_from_the_first_page_with_records() {
    let mut decoder = Decoder::new(spec("/items"), None, None).unwrap();
    assert_eq!(decoder.page(200, br#"{"items":[]}"#, &mut idle()).unwrap().received, 0);
    assert!(decoder.schema().is_none());
    let first =
        br#"{"items":[{"id":9007199254740993,"user":{"name":"x"},"tags":[1, "b"]},{"id":9223372036854775807}]}"#;
    let page = decoder.page(200, first, &mut idle()).unwrap();
    assert_eq!(
        shown(&page),
        "id=9007199254740993 user_name=x tags=[1, \"b\"]; id=9223372036854775807 user_name=- tags=-"
    );
    let late = br#"{"items":[{"id":1,"late":1,"user":{"more":2}},{"late":3}]}"#;
    let page = decoder.page(200, late, &mut idle()).unwrap();
    assert_eq!(shown(&page), "id=1 user_name=- tags=-; id=- user_name=- tags=-");
    assert_eq!(page.counts.undeclared.count, 3);
    assert_eq!(page.counts.undeclared.first.as_deref(), Some("key `late` in record 1"));
    let error = decoder.page(200, br#"{"items":[{"id":1},{"id":"x"}]}"#, &mut idle()).unwrap_err();
    assert!(error.to_string().contains("record 2, column `id`"), "an inferred column fails: {error}");
    let page = decoder.page(200, br#"{"items":[{"id":4}]}"#, &mut idle()).unwrap();
    assert_eq!(shown(&page), "id=4 user_name=- tags=-", "nothing of the failed page is left");
}

#[test]
fn r24_fields_left_out_by_a_projection_are_no_loss() {
    let mut decoder = Decoder::new(spec(""), None, Some(vec!["b".into()])).unwrap();
    let page = decoder.page(200, br#"[{"a":1,"b":2,"c":{"d":1}}]"#, &mut idle()).unwrap();
    assert_eq!((shown(&page).as_str(), page.counts.undeclared.count), ("b=2", 0));
}

#[test]
fn r26_batches_have_at_most_batch_rows() {
    let spec = DecodeSpec { batch_rows: 2, ..spec("") };
    let page = decoded(spec, ids(), r#"[{"id":1},{"id":2},{"id":3},{"id":4},{"id":5}]"#).unwrap();
    assert_eq!(page.batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [2, 2, 1]);
    assert_eq!((page.rows(), page.received), (5, 5));
}

#[test]
fn r24_nesting_a_million_deep_is_an_error_and_not_a_crash() {
    let deep = format!("[{{\"id\":1,\"x\":{}{}}}]", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let (kind, said) = refused(spec(""), ids(), &deep);
    assert!(kind == ErrorKind::Decode && said.contains("nested deeper"), "{said}");
    let mut decoder = Decoder::new(spec(""), None, None).unwrap();
    assert!(decoder.page(200, deep.as_bytes(), &mut idle()).is_err());
    // Lines are looked into before they are decoded, as deep as the setting allows.
    let line = format!("{{\"a\":{}1{}}}\n", "{\"a\":".repeat(50_000), "}".repeat(50_000));
    let mut deepest = spec("");
    deepest.schema.flatten_depth = usize::MAX;
    let mut decoder = LineDecoder::new(deepest, None, None, u64::MAX).unwrap();
    let pushed = decoder.push(line.as_bytes(), &mut idle()).and_then(|_| decoder.finish(&mut idle()));
    assert!(pushed.unwrap_err().to_string().contains("nested deeper"));
}

#[test]
fn r03_rows_that_the_boundary_knows_are_dropped() {
    let policy = BoundaryPolicy {
        format: Some(TimestampFormat::Rfc3339),
        stored: TimestampFormat::Rfc3339.parse("2026-01-02T00:00:00Z"),
        lag: std::time::Duration::ZERO,
        not_after: None,
        dedup: true,
        window: None,
        watermark: None,
    };
    let spec =
        DecodeSpec { timestamp: Some(ptr("/ts")), identity: Some(ptr("/key/id")), batch_rows: 2, ..spec("/items") };
    let mut first = Boundary::new(policy.clone(), Seen::default());
    let body = br#"{"items":[{"id":1,"key":{"id":"a"},"ts":"2026-01-02T00:00:00Z"}]}"#;
    let mut decoder = Decoder::new(spec.clone(), Some(ids()), None).unwrap();
    decoder.page(200, body, &mut first).unwrap();
    let mut second = Boundary::new(policy, first.finish().seen);
    let body = br#"{"items":[{"id":2,"key":{"id":"b"},"ts":"2026-01-02T00:00:00Z"},
        {"id":1,"key":{"id":"a"},"ts":"2026-01-02T00:00:00Z"},{"id":3,"ts":null},{"id":4,"key":{"id":"d"}}]}"#;
    let page = decoder.page(200, body, &mut second).unwrap();
    assert_eq!((shown(&page).as_str(), page.received), ("id=2; id=3; id=4", 4));
    assert_eq!(second.duplicates_dropped(), 1);
    assert_eq!(second.without_position().0, 2);
    assert_eq!(second.best(), Some("2026-01-02T00:00:00Z"));
}

#[test]
fn r15_pages_with_the_same_records_have_the_same_content() {
    let spec = DecodeSpec { hash_content: true, ..spec("/items") };
    let content = |body: &str| decoded(spec.clone(), ids(), body).unwrap().content;
    let one = content(r#"{"items":[{"id":1}],"offset":0}"#);
    assert_eq!(one, content(r#"{"offset":100,"items":[{"id":1}]}"#));
    assert_ne!(one, content(r#"{"items":[{"id":2}],"offset":0}"#));
    assert_ne!(one, content(r#"{"items":[{"id":1},{"id":1}],"offset":0}"#));
}

#[test]
fn r24_keys_beyond_those_that_are_remembered_change_no_column() {
    let many = |id: i64| {
        let keys: Vec<_> = (0..5_000).map(|i| format!("\"k{i}_{id}\":{i}")).collect();
        format!("{{\"id\":{id},{},\"id2\":{}}}", keys.join(","), -id)
    };
    let few = |id: i64| format!("{{\"id\":{id},\"id2\":{}}}", -id);
    let records = [few(1), many(2), few(3), many(4), few(5), many(6), few(7)].join(",");
    let columns = schema_of(&[("id", "/id", ColumnType::Int64), ("id2", "/id2", ColumnType::Int64)]);
    let page = decoded(spec(""), columns.clone(), &format!("[{records}]")).unwrap();
    let want: Vec<_> = (1..8).map(|id| format!("id={id} id2={}", -id)).collect();
    assert_eq!(shown(&page), want.join("; "));
    let broken = format!("[{records},{}]", many(8).replace(",\"id2\"", "\"id2\""));
    assert!(refused(spec(""), columns, &broken).1.contains("expected `,`"));
}

/// The error of a page that is read in pieces.
fn refused_in_pieces(spec: DecodeSpec, body: &[u8]) -> String {
    let mut decoder = Decoder::new(spec, Some(ids()), None).unwrap();
    let mut boundary = idle();
    decoder.begin_large(&mut boundary).unwrap();
    let pushed = body.chunks(5).try_for_each(|chunk| decoder.push_large(chunk, &mut boundary).map(drop));
    let ended = pushed.and_then(|()| decoder.finish_large(200, &mut boundary).map(drop));
    ended.unwrap_err().to_string()
}

#[test]
fn r16_a_large_page_is_as_strict_as_any_other() {
    let items = format!("[{}]", [r#"{"id":1,"x":"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"}"#; 8].join(","));
    let broken = [
        (format!("{{\"items\":{items},\"items\":{items}}}"), "stands twice"),
        (format!("{{\"items\":{},\"next\":1}}", items.replace(']', ",]")), "expected a value"),
        (format!("{{\"items\":{}", &items[..items.len() - 5]), "the text ends"),
        (format!("{{\"items\":{items},\"next\":}}"), "around the records is not JSON"),
        (format!("{{\"items\":{}}}", items.replacen('}', "]", 5)), "is not JSON"),
        ("{\"error\":\"overloaded, and more of that which is long\"}".to_owned(), "/items"),
        (
            format!("{{\"items\":{}}}", items.replace("\"id\":1,", "")).replace("{\"x\":\"y", "7,{\"x\":\"y"),
            "record 1 is not an object",
        ),
    ];
    for (body, part) in broken {
        let said = refused_in_pieces(spec("/items"), body.as_bytes());
        assert!(said.contains(part), "{said} for {body}");
    }
    let mut body = format!("{{\"items\":{items}}}").into_bytes();
    let at = body.len() - 10;
    body[at] = 0xff;
    let said = refused_in_pieces(spec("/items"), &body);
    assert!(said.contains(&format!("UTF-8 at byte {at}")), "{said}");
}

fn lines(chunks: &[&[u8]], schema: Option<TableSchema>, spec: DecodeSpec) -> Result<Vec<Page>> {
    let mut decoder = LineDecoder::new(spec, schema, None, 100)?;
    let mut boundary = idle();
    let mut pages = Vec::new();
    for chunk in chunks {
        pages.extend(decoder.push(chunk, &mut boundary)?);
    }
    pages.extend(decoder.finish(&mut boundary)?);
    Ok(pages)
}

#[test]
fn r24_lines_may_end_anyhow_and_be_blank() {
    let body = "\u{feff}{\"id\":1}\n{\"id\":2}\r\n\n  \n{\"id\":3}";
    let pages = lines(&[body.as_bytes()], Some(ids()), DecodeSpec { batch_rows: 2, ..spec("") }).unwrap();
    assert_eq!(pages.iter().map(shown).collect::<Vec<_>>(), ["id=1; id=2", "id=3"]);
    assert_eq!(pages.iter().map(|p| p.received).collect::<Vec<_>>(), [2, 1]);
    assert!(lines(&[b"", b"\n\n"], None, spec("")).unwrap().is_empty());
}

#[test]
fn r24_a_cut_off_or_foreign_line_is_an_error_with_its_number() {
    for (body, part) in [
        ("{\"id\":1}\n\n{\"id\":2,\"na", "line 3 is not JSON: the text ends inside a string"),
        ("{\"id\":1} {\"id\":2}\n", "line 1 is not JSON: text after the end"),
        ("{\"id\":1}\n5\n", "line 2 is not an object"),
        ("{\"id\":1}\n{\"id\":\n2}\n", "line 2"),
    ] {
        let error = lines(&[body.as_bytes()], Some(ids()), spec("")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode);
        assert!(error.to_string().contains(part), "{error}");
    }
    let error = lines(&[b"{\"id\":1}\n", b"{\"id\":\"\xff\"}\n"], Some(ids()), spec("")).unwrap_err();
    assert!(error.to_string().contains("UTF-8 at byte 16"), "{error}");
}

#[test]
fn r16_with_an_error_path_every_line_may_be_the_error() {
    let spec = DecodeSpec { error: Some(ptr("/error")), ..spec("") };
    let error = lines(&[b"{\"id\":1,\"error\":null}\n{\"error\":\"quota\"}\n"], Some(ids()), spec).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Http);
    assert!(error.to_string().contains("line 2") && error.to_string().contains("quota"), "{error}");
}

#[test]
fn r26_a_line_longer_than_the_limit_is_an_error_that_names_the_setting() {
    let long = format!("{{\"id\":1,\"x\":\"{}\"}}", "x".repeat(200));
    for chunks in [vec![long.as_bytes()], long.as_bytes().chunks(7).collect()] {
        let error = lines(&chunks, Some(ids()), spec("")).unwrap_err();
        assert!(error.to_string().contains("line 1 is longer than http.max-body-bytes"), "{error}");
    }
}

#[test]
fn r24_columns_of_lines_are_inferred_from_the_first_batch() {
    let spec = DecodeSpec { batch_rows: 2, ..spec("") };
    let pages = lines(&[b"{\"a\":1}\n", b"{\"b\":\"x\"}\n{\"a\":2", b",\"c\":0}"], None, spec.clone()).unwrap();
    assert_eq!(
        pages.iter().map(shown).collect::<Vec<_>>(),
        ["a=1 b=x", "a=2 b=-"].map(|p| p.replace("b=x", "b=-; a=- b=x"))
    );
    assert_eq!(pages[1].counts.undeclared.count, 1);
    let pages = lines(&[b"{\"a\":1}\n"], None, spec).unwrap();
    assert_eq!(pages.iter().map(shown).collect::<Vec<_>>(), ["a=1"]);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..4).prop_map(|m| json!(m)),
        ]
    })
}

fn record() -> impl Strategy<Value = Value> {
    prop::collection::vec(("[abcdé]", value()), 0..6).prop_map(|members| Value::Object(members.into_iter().collect()))
}

/// The slow reading of a value in a column.
fn reference(value: Option<&Value>, data_type: ColumnType) -> String {
    let none = || "-".to_owned();
    let Some(value) = value.filter(|v| !v.is_null()) else { return none() };
    match data_type {
        ColumnType::Int64 => match value {
            Value::Number(n) if n.is_i64() => n.to_string(),
            Value::Number(n) => n
                .as_f64()
                .filter(|f| f.fract() == 0.0 && f.abs() < 9e18)
                .map_or_else(none, |f| format!("{f:.0}").replace("-0", "0")),
            Value::String(s) if s.parse::<i64>().is_ok() && !s.starts_with('+') => {
                s.parse::<i64>().unwrap().to_string()
            }
            _ => none(),
        },
        ColumnType::Float64 => match value {
            Value::Number(n) => n.as_f64().map_or_else(none, |f| f.to_string()),
            Value::String(s) if s.parse::<i64>().is_ok() && !s.starts_with('+') => {
                s.parse::<f64>().unwrap().to_string()
            }
            _ => none(),
        },
        ColumnType::Boolean => match value {
            Value::Bool(b) => b.to_string(),
            _ => none(),
        },
        ColumnType::String => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        _ => value.to_string(),
    }
}

/// Objects whose keys stand again and again.
fn repeating() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![Just("null".to_owned()), (0_i64..99).prop_map(|n| n.to_string()), Just("\"x\"".to_owned())];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop::collection::vec(("[ab]", inner), 0..5).prop_map(|members| object(&members))
    })
}

/// A value as an API might write it, numbers of any length among them.
fn written() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|b| b.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        "-?[1-9][0-9]{0,40}",
        "-?(0|[1-9][0-9]{0,17})\\.[0-9]{1,20}(e-?[0-9]{1,3})?",
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(|f| format!("{f:e}")),
        "[a-z0-9 ]{0,5}".prop_map(|text| format!("\"{text}\"")),
        Just("\"\\ud800\"".to_owned()),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        let members = prop::collection::vec(("[ab]", inner.clone()), 0..3);
        prop_oneof![
            prop::collection::vec(inner, 0..3).prop_map(|items| format!("[{}]", items.join(","))),
            members.prop_map(|members| object(&members)),
        ]
    })
}

fn object(members: &[(String, String)]) -> String {
    let members: Vec<_> = members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}

#[test]
fn a_glance_finds_the_next_page_wherever_it_stands() {
    let spec = DecodeSpec { next: Some(ptr("/next")), ..spec("/items") };
    let decoder = Decoder::new(spec, Some(ids()), None).unwrap();
    let records = vec![json!({ "id": 1, "text": "x]\"}" }); 20];
    for body in [
        json!({ "items": records, "next": "n" }),
        json!({ "next": "n", "items": records }),
        json!({ "items": [], "next": "n", "links": [1] }),
        json!({ "items": records, "next": "n", "links": [1], "and": { "next": "m" } }),
        json!({ "items": records, "links": [{ "next": "m" }], "next": "n" }),
    ] {
        assert_eq!(decoder.glance(body.to_string().as_bytes()).next, Scalar::Text("n".into()), "{body}");
    }
    let last = json!({ "items": records, "next": null, "links": [{ "next": "m" }] }).to_string();
    assert_ne!(decoder.glance(last.as_bytes()).next, Scalar::Text("m".into()));
}

proptest! {
    #[test]
    fn r24_of_repeated_keys_the_last_counts_at_every_depth(
        records in prop::collection::vec(prop::collection::vec(("[ab]", repeating()), 0..6), 1..5),
        batch_rows in 1_usize..4,
    ) {
        let records: Vec<String> = records.iter().map(|members| object(members)).collect();
        let columns = [
            ("a", "/a", ColumnType::Int64),
            ("b", "/b", ColumnType::Int64),
            ("ab", "/a/b", ColumnType::Int64),
            ("aab", "/a/a/b", ColumnType::Int64),
            ("baa", "/b/a/a", ColumnType::Int64),
        ];
        let spec = DecodeSpec { batch_rows, ..spec("") };
        let page = decoded(spec, schema_of(&columns), &format!("[{}]", records.join(","))).unwrap();
        let want: Vec<String> = records
            .iter()
            .map(|record| {
                let record: Value = serde_json::from_str(record).unwrap();
                let cells = columns.map(|(name, path, data_type)| format!("{name}={}", reference(record.pointer(path), data_type)));
                cells.join(" ")
            })
            .collect();
        prop_assert_eq!(shown(&page), want.join("; "));
    }

    #[test]
    fn r24_every_sampled_value_fits_its_inferred_column_without_loss(
        records in prop::collection::vec(prop::collection::vec(("[a-c]", written()), 0..4), 1..6),
    ) {
        let records: Vec<String> = records.iter().map(|members| object(members)).collect();
        let body = format!("[{}]", records.join(","));
        let page = Decoder::new(spec(""), None, None).unwrap().page(200, body.as_bytes(), &mut idle());
        match page {
            Ok(page) => {
                prop_assert_eq!(page.received, records.len() as u64);
                prop_assert!(page.counts.converted.is_empty() && page.counts.nulled.is_empty(), "{:?}", page.counts);
                prop_assert_eq!(page.counts.undeclared.count, 0);
            }
            Err(error) => prop_assert!(error.to_string().contains("would both be column"), "{}", error),
        }
    }

    #[test]
    fn r24_rows_are_what_a_slow_reader_reads(records in prop::collection::vec(record(), 0..8), pretty in any::<bool>()) {
        let columns = [
            ("a", "/a", ColumnType::Int64),
            ("a2", "/a", ColumnType::String),
            ("b", "/b", ColumnType::Float64),
            ("c", "/c", ColumnType::Boolean),
            ("ca", "/c/a", ColumnType::String),
            ("cb", "/c/b/a", ColumnType::Json),
            ("d0", "/d/0", ColumnType::Json),
            ("e", "/é", ColumnType::String),
        ];
        let body = json!({ "before": 1, "items": records, "after": {} });
        let body = if pretty { serde_json::to_string_pretty(&body) } else { serde_json::to_string(&body) }.unwrap();
        let page = decoded(spec("/items"), schema_of(&columns), &body).unwrap();
        prop_assert_eq!(page.received, records.len() as u64);
        let want: Vec<String> = records
            .iter()
            .map(|record| {
                let cells = columns.map(|(name, path, data_type)| format!("{name}={}", reference(record.pointer(path), data_type)));
                cells.join(" ")
            })
            .collect();
        // Structures keep their own whitespace.
        let squeeze = |text: &str| text.replace(['\n', ' '], "");
        prop_assert_eq!(squeeze(&shown(&page)), squeeze(&want.join("; ")));
    }

    #[test]
    fn r26_a_page_read_in_groups_is_the_page_read_whole(records in prop::collection::vec(record(), 0..12), pretty in any::<bool>(), piece in 1_usize..200) {
        let columns = [("a", "/a", ColumnType::String), ("b", "/b", ColumnType::Json), ("c", "/c", ColumnType::Json)];
        let spec = DecodeSpec { next: Some(ptr("/d/next")), total: Some(ptr("/total")), ..spec("/d/items") };
        let body = json!({ "total": 7, "d": { "items": records, "next": "n\"]" }, "items": [0] });
        let body = if pretty { serde_json::to_string_pretty(&body) } else { serde_json::to_string(&body) }.unwrap();
        let whole = decoded(spec.clone(), schema_of(&columns), &body).unwrap();
        let mut decoder = Decoder::new(spec, Some(schema_of(&columns)), None).unwrap();
        let mut boundary = idle();
        decoder.begin_large(&mut boundary).unwrap();
        let mut pages = vec![];
        for chunk in body.as_bytes().chunks(piece) {
            pages.extend(decoder.push_large(chunk, &mut boundary).unwrap());
        }
        prop_assert_eq!(&decoder.glance(body.as_bytes()).next, &whole.envelope.next);
        let received: u64 = pages.iter().map(|page| page.received).sum();
        let last = decoder.finish_large(200, &mut boundary).unwrap();
        prop_assert_eq!((received, last.received, &last.envelope), (whole.received, whole.received, &whole.envelope));
        pages.push(last);
        let rows: Vec<String> = pages.iter().map(shown).filter(|rows| !rows.is_empty()).collect();
        prop_assert_eq!(rows.join("; "), shown(&whole));
    }

    #[test]
    fn r24_the_rest_and_the_columns_make_up_the_record(records in prop::collection::vec(record(), 1..6)) {
        let columns = with_rest(schema_of(&[("a", "/a", ColumnType::Json), ("cb", "/c/b", ColumnType::Json)]));
        let page = decoded(spec(""), columns, &json!(records).to_string()).unwrap();
        for (record, row) in records.iter().zip(0..) {
            let batch = &page.batches[0];
            let cell = |i: usize| {
                let array = batch.column(i).as_string::<i32>();
                (!arrow_array::Array::is_null(array, row)).then(|| serde_json::from_str::<Value>(array.value(row)).unwrap())
            };
            let mut want = record.clone();
            want.as_object_mut().unwrap().remove("a");
            if let Some(c) = want.get_mut("c") {
                let empty = match c.as_object_mut() {
                    Some(c) => { c.remove("b"); c.is_empty() }
                    None => c.is_null(),
                };
                if empty { want.as_object_mut().unwrap().remove("c"); }
            }
            prop_assert_eq!(cell(2).unwrap_or(json!({})), want);
            prop_assert_eq!(cell(0), record.get("a").filter(|v| !v.is_null()).cloned());
        }
    }

    #[test]
    fn r16_a_page_cut_anywhere_is_an_error_and_never_a_panic(records in prop::collection::vec(record(), 0..4), at in any::<prop::sample::Index>()) {
        let body = json!({ "items": records, "next": "é" }).to_string();
        let cut = &body.as_bytes()[..at.index(body.len())];
        for schema in [Some(ids()), None] {
            let mut decoder = Decoder::new(spec("/items"), schema, None).unwrap();
            let page = decoder.page(200, cut, &mut idle());
            prop_assert!(page.is_err() || cut.is_empty());
        }
    }

    #[test]
    fn r16_any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80), text in "[\\[\\]{}\":,a0 \n\\\\-]{0,60}") {
        for body in [&bytes[..], text.as_bytes()] {
            for paged in [true, false] {
                let _ = Decoder::new(DecodeSpec { paged, ..spec("") }, None, None).unwrap().page(200, body, &mut idle());
                let _ = Decoder::new(DecodeSpec { paged, ..spec("/a") }, Some(with_rest(ids())), None).unwrap().page(200, body, &mut idle());
            }
            let _ = lines(&[body], None, spec(""));
        }
    }

    #[test]
    fn r24_lines_cut_into_any_chunks_are_the_same_rows(records in prop::collection::vec(record(), 1..8), size in 1_usize..40) {
        let body = records.iter().fold(String::new(), |body, record| format!("{body}{record}\r\n"));
        let columns = || schema_of(&[("a", "/a", ColumnType::String), ("c", "/c", ColumnType::Json)]);
        let read = |chunks: &[&[u8]]| {
            let mut decoder = LineDecoder::new(DecodeSpec { batch_rows: 3, ..spec("") }, Some(columns()), None, 1 << 20).unwrap();
            let mut pages: Vec<String> = Vec::new();
            for chunk in chunks {
                pages.extend(decoder.push(chunk, &mut idle()).unwrap().iter().map(shown));
            }
            pages.extend(decoder.finish(&mut idle()).unwrap().iter().map(shown));
            pages
        };
        let whole = read(&[body.as_bytes()]);
        prop_assert_eq!(&whole, &read(&body.as_bytes().chunks(size).collect::<Vec<_>>()));
        prop_assert_eq!(whole.len(), records.len().div_ceil(3));
    }
}
