//! Queries: what is sent to the API, what is left to the engine, and what `explain` says of it (R10, R13).

use serde_json::json;

use crate::support::{Api, Place, get};

const CONFIG: &str = r#"
base-url = "{{BASE}}"
http { max-retries = 0 }
tables {
  items {
    endpoint = "/items"
    pagination { style = offset, max-page-size = 10 }
    columns { id { type = int64 }, state { type = string }, n { type = int64 } }
    filters = [
      { param = st, column = state, operators = [eq], exact = true }
      { param = min, column = n, operators = [gte] }
    ]
  }
  kept = ${tables.items} {
    pagination { style = offset, max-page-size = 10 }
    checkpoint { enabled = true, path = "{{DIR}}/ckpt", mode = offset }
  }
}
"#;

#[test]
fn r13_an_exact_filter_is_not_checked_again_and_lets_a_limit_through() {
    // The API knows better what `open` means: it does not even show the state.
    let api =
        Api::new(vec![get("/items?st=open&limit=2&offset=0", &json!([{ "id": 1 }, { "id": 2, "state": "OPEN" }]))]);
    let place = Place::new(&api.base(), CONFIG);
    let output = place.read("items").args(["--where", "state = 'open'", "--limit", "2", "--select", "id"]).output();
    assert_eq!(output.expect(0).rows(), [json!({ "id": 1 }), json!({ "id": 2 })]);
}

#[test]
fn r13_what_the_engine_still_drops_does_not_count_for_a_limit() {
    let api = Api::new(vec![
        get("/items?min=5&limit=10&offset=0", &json!([{ "id": 1, "n": 4 }, { "id": 2, "n": 5 }])),
        get("/items?min=5&limit=10&offset=2", &json!([{ "id": 3, "n": 6 }, { "id": 4, "n": 7 }])),
    ]);
    let place = Place::new(&api.base(), CONFIG);
    let output = place.read("items").args(["--where", "n >= 5", "--limit", "2", "--select", "id"]).output();
    assert_eq!(output.expect(0).rows(), [json!({ "id": 2 }), json!({ "id": 3 })]);
}

#[test]
fn r10_a_checkpointed_table_is_asked_for_everything_and_keeps_what_the_engine_wants() {
    let api = Api::new(vec![
        get(
            "/items?limit=10&offset=0",
            &json!([{ "id": 1, "n": 1, "state": "open" }, { "id": 2, "n": 9, "state": "shut" }]),
        ),
        get("/items?limit=10&offset=2", &json!([])),
    ]);
    let place = Place::new(&api.base(), CONFIG);
    let output = place.read("kept").args(["--where", "n >= 5 AND state = 'shut'"]).output().expect(0);
    assert_eq!(output.ids(), [2]);
    assert_eq!(place.mark("kept").position()["value"], json!(2));
}

#[test]
fn r13_explain_says_what_would_be_asked_and_asks_nothing() {
    let api = Api::new(vec![]);
    let place = Place::new(&api.base(), CONFIG);
    let explain = |table: &str, more: &[&str]| {
        let run = place.run(&["explain", "CONFIG", table]).args(more.iter().copied());
        let output = run.output().expect(0);
        output.stdout
    };
    let text = explain("items", &["--where", "state = 'open' AND n >= 3 AND id > 7", "--limit", "5", "--select", "id"]);
    for line in [
        "items?st=open&min=3&limit=10&offset=0",
        "pushed      state = 'open': sent as st=open; the API's answer counts",
        "pushed      n >= 3: sent as min=3; checked again",
        "left        id > 7: no filter of the table is on id; the engine applies it",
        "limit       5 of the rows that are left",
        "columns     id;",
    ] {
        assert!(text.contains(line), "{line}\nin\n{text}");
    }
    let text = explain("kept", &["--where", "n >= 3"]);
    for line in
        ["items?limit=10&offset=0", "left        n >= 3: the table has a checkpoint", "starts at   the beginning"]
    {
        assert!(text.contains(line), "{line}\nin\n{text}");
    }
    place.run(&["explain", "CONFIG", "items", "--where", "nope = 1"]).output().expect(2).says("nope");
    place.run(&["explain", "CONFIG", "nope"]).output().expect(2).says("items");
    place.run(&["explain", "CONFIG", "items", "--select", "nope"]).output().expect(2).says("nope");
    assert!(api.asked().is_empty());
}

#[test]
fn r06_explain_says_so_where_the_stored_position_cannot_be_used() {
    let place = Place::new("http://127.0.0.1:9", CONFIG);
    place.seed("kept", "{");
    place.run(&["explain", "CONFIG", "kept"]).output().expect(5).says("checkpoint clear");
}
