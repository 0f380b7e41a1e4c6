//! Pages that are too large to be held: rows leave while the page comes in, and what was handed on never comes twice.

use serde_json::{Value, json};

use crate::support::{Api, Mark, Place, Reply, Route, Trap, get};

const CONFIG: &str = r#"
base-url = "{{BASE}}"
http { max-retries = 2, max-backoff = 10ms }
tables { rows {
  endpoint = "/rows", data-path = "/items"
  pagination { style = cursor, cursor-path = "/next" }
  columns { id { type = int64 } }
  checkpoint { enabled = true, path = "{{DIR}}/ckpt", mode = cursor }
} }
"#;

/// A page of `records` records of about a kilobyte each, after `pad` bytes of something else.
fn page(from: i64, records: i64, pad: usize, next: Option<&str>) -> Value {
    let items: Vec<_> = (from..from + records).map(|id| json!({ "id": id, "text": "x\"]},{[".repeat(140) })).collect();
    json!({ "pad": "p".repeat(pad), "items": items, "next": next })
}

const MANY: i64 = 12_000;

#[test]
fn r26_a_large_page_is_read_like_any_other() {
    let api = Api::new(vec![
        get("/rows", &page(0, MANY, 0, Some("A"))),
        get("/rows?cursor=A", &page(MANY, MANY, 9 << 20, Some("B"))),
        Route::new("GET", "/rows?cursor=B", Reply::json(&page(2 * MANY, MANY, 0, None)).gzip()),
    ]);
    let place = Place::new(&api.base(), CONFIG);
    let output = place.read("rows").output().expect(0);
    assert_eq!(output.ids(), (0..3 * MANY).collect::<Vec<_>>());
    output.says("36000 rows read, 36000 emitted; 3 pages, 3 requests, 0 retries");
    assert_eq!(place.mark("rows").position(), json!({ "type": "cursor", "value": "B" }));
}

#[test]
fn r19_a_large_page_that_is_cut_after_its_first_row_left_is_not_asked_again() {
    let api = Api::new(vec![get("/rows", &page(0, 2 * MANY, 0, None))]);
    let place = Place::new(&api.base(), CONFIG);
    api.at(1, Trap::Cut);
    let output = place.read("rows").output().expect(3);
    assert_eq!(api.asked().len(), 1, "rows had left: asking again would repeat them");
    assert!(output.stdout.lines().count() >= 8192, "{}", output.stderr);
    assert_eq!(place.mark("rows"), Mark::NONE);
}

#[test]
fn r19_a_large_page_that_is_cut_before_its_first_row_is_asked_again() {
    let api = Api::new(vec![get("/rows", &page(0, 100, 20 << 20, None))]);
    let place = Place::new(&api.base(), CONFIG);
    api.at(1, Trap::Cut);
    let output = place.read("rows").output().expect(0);
    assert_eq!(output.ids(), (0..100).collect::<Vec<_>>());
    assert_eq!(api.asked().len(), 2);
    output.says("1 retry");
}

#[test]
fn r26_a_page_beyond_the_limit_is_an_error_also_when_it_is_not_held() {
    let api = Api::new(vec![get("/rows", &page(0, 2 * MANY, 0, None))]);
    let place = Place::new(&api.base(), &CONFIG.replace("max-retries = 2", "max-retries = 2, max-body-bytes = 16 MiB"));
    place.read("rows").output().expect(4).says("max-body-bytes");
    assert_eq!(place.mark("rows"), Mark::NONE);
}
