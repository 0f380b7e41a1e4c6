//! Child tables from outside: a walk for each key of the parent, or for many; what is left out, and what ends them all
//! (R14, R16, R18, R31).

use serde_json::{Value, json};

use crate::support::{Api, Mark, Output, Place, Reply, Route, Stdout, Trap, get, wait_for};

/// The parent `repos`, with a checkpoint that must stay where it is, and a child `issues` with these settings.
fn config(http: &str, repos: &str, issues: &str) -> String {
    format!(
        r#"
base-url = "{{{{BASE}}}}"
http {{ max-retries = 0, timeout = 20s, {http} }}
tables {{
  repos {{
    endpoint = "/repos", data-path = "/items", pagination {{ style = cursor, cursor-path = "/next" }}
    checkpoint {{ enabled = true, path = "{{{{DIR}}}}/ckpt", mode = cursor }}
    columns {{ name {{ type = string }} }}
    {repos}
  }}
  issues {{
    parent-table = repos, parent-key = name, data-path = "/items"
    columns {{ id {{ type = int64 }} }}
    {issues}
  }}
}}
"#
    )
}

const NESTED: &str = "endpoint = \"/repos/{key}/issues\"";
const PAGED: &str = "endpoint = \"/repos/{key}/issues\", pagination { style = cursor, cursor-path = \"/next\" }";
const BATCH: &str = "endpoint = \"/issues\", join-strategy = batch, batch-param = repos, child-key-field = repo";

/// The only page of parents.
fn parents(items: &Value) -> Route {
    get("/repos", &json!({ "items": items }))
}

fn page(target: &str, ids: &[i64], next: Option<&str>) -> Route {
    let items: Vec<Value> = ids.iter().map(|id| json!({ "id": id })).collect();
    get(target, &json!({ "items": items, "next": next }))
}

fn place(api: &Api, config: &str) -> Place {
    Place::new(&api.base(), config)
}

/// The rows, sorted: those of different parents may come in any order.
#[track_caller]
fn sorted(output: &Output) -> Vec<String> {
    let mut rows: Vec<String> = output.rows().iter().map(Value::to_string).collect();
    rows.sort();
    rows
}

#[test]
fn r31_a_child_reads_its_parent_from_the_beginning_and_moves_nothing_of_it() {
    let api = Api::new(vec![
        get("/repos", &json!({ "items": [{ "name": "a" }], "next": "B" })),
        get("/repos?cursor=B", &json!({ "items": [{ "name": "b" }] })),
        page("/repos/a/issues", &[1], None),
        page("/repos/b/issues", &[2], None),
    ]);
    let place = place(&api, &config("", "", NESTED));
    place.seed("repos", r#"{"type":"cursor","value":"B"}"#);
    let before = place.mark("repos");
    let read =
        place.read("issues").output().expect(0).says("2 rows read, 2 emitted; 2 parent rows, 4 pages, 4 requests");
    assert_eq!(sorted(&read), [r#"{"id":1,"_parent_name":"a"}"#, r#"{"id":2,"_parent_name":"b"}"#]);
    assert_eq!((place.mark("repos"), place.mark("issues")), (before, Mark::NONE));
}

#[test]
fn r14_each_key_has_its_own_walk_and_a_key_that_comes_again_is_read_once() {
    let api = Api::new(vec![
        parents(&json!([{ "name": "a" }, { "name": "b" }, { "name": "a" }])),
        page("/repos/a/issues", &[1], Some("X")),
        page("/repos/a/issues?cursor=X", &[2], None),
        page("/repos/b/issues", &[1], Some("X")),
        page("/repos/b/issues?cursor=X", &[2], None),
    ]);
    let place = place(&api, &config("", "", PAGED));
    let read = place.read("issues").output().expect(0).says("came again, each read once: 1 (first: a)");
    assert_eq!(read.rows().len(), 4);
    assert_eq!(api.asked().len(), 5);
}

#[test]
fn r31_keys_are_literal_scalars_and_parents_without_one_are_counted() {
    let items = json!([{ "name": 7 }, { "name": 9_007_199_254_740_993_u64 }, { "name": true }, { "name": "a b" },
                       {}, { "name": null }, { "name": "" }, { "name": [1] }, { "name": { "x": 1 } }]);
    let keys = ["7", "9007199254740993", "true", "a%20b"];
    let children = keys.iter().zip(1..).map(|(key, id)| page(&format!("/repos/{key}/issues"), &[id], None));
    let api = Api::new(children.chain([parents(&items)]).collect());
    let place = place(&api, &config("", "", NESTED));
    let read = place.read("issues").output().expect(0).says("parents without a key, which have no children: 5");
    let mut keys: Vec<_> = read.rows().iter().map(|row| row["_parent_name"].clone()).collect();
    keys.sort_by_key(Value::to_string);
    assert_eq!(keys, [json!("7"), json!("9007199254740993"), json!("a b"), json!("true")]);
}

#[test]
fn r18_a_key_cannot_lead_elsewhere() {
    let items = json!([{ "name": ".." }, { "name": "../admin?x=1#y" }, { "name": "." }]);
    let api = Api::new(vec![parents(&items), page("/repos/..%2Fadmin%3Fx%3D1%23y/issues", &[1], None)]);
    let place = place(&api, &config("", "", NESTED));
    let read = place.read("issues").output().expect(0).says("no URL path can carry, left out: 2 (first: ..)");
    assert_eq!(read.ids(), [1]);
    assert_eq!(api.asked().len(), 2);
}

#[test]
fn r31_a_declared_key_stands_at_its_path_and_keeps_its_integer_type() {
    let items = json!([{ "meta": { "no": 8 } }, { "meta": { "no": 9 } }]);
    let api = Api::new(vec![parents(&items), page("/repos/8/issues", &[1], None), page("/repos/9/issues", &[2], None)]);
    let repos = "columns { name { type = int64, path = \"/meta/no\" } }";
    let place = place(&api, &config("", repos, NESTED));
    let read = place.run(&["read", "CONFIG", "issues", "--where", "_parent_name > 8", "--select", "_parent_name,id"]);
    let read = read.output().expect(0);
    assert_eq!(read.stdout.trim(), r#"{"_parent_name":9,"id":2}"#);
    let only = place.run(&["read", "CONFIG", "issues", "--select", "id"]).output().expect(0);
    assert_eq!(sorted(&only), [r#"{"id":1}"#, r#"{"id":2}"#]);
}

#[test]
fn r31_a_batch_join_matches_records_and_drops_what_nobody_asked_for() {
    let items = json!([{ "name": "a" }, { "name": "b&c" }, { "name": 5 }]);
    let records = json!([{ "id": 1, "repo": "b&c" }, { "id": 2, "repo": "zz" }, { "id": 3, "repo": "a" }, { "id": 4 }]);
    let api = Api::new(vec![
        parents(&items),
        get("/issues?repos=a|b%26c", &json!({ "items": records, "next": "N" })),
        get("/issues?repos=a|b%26c&cursor=N", &json!({ "items": [{ "id": 5, "repo": "a" }] })),
        get("/issues?repos=5", &json!({ "items": [{ "id": 6, "repo": "5" }, { "id": 7, "repo": 5 }] })),
    ]);
    let paged = "pagination { style = cursor, cursor-path = \"/next\" }";
    let place = place(&api, &config("", "", &format!("{BATCH}, batch-size = 2, batch-separator = \"|\", {paged}")));
    let read = place.read("issues").output().expect(0).says("no key that was asked for: 2 (first: \"zz\")");
    let want = [(3, "a"), (5, "a"), (1, "b&c"), (6, "5"), (7, "5")];
    let mut want = want.map(|(id, key)| json!({ "id": id, "_parent_name": key }).to_string());
    want.sort();
    assert_eq!(sorted(&read), want);
    let only = place.run(&["read", "CONFIG", "issues", "--select", "id"]).output().expect(0);
    assert!(only.rows().iter().all(|row| row.as_object().unwrap().len() == 1), "{}", only.stdout);
}

#[test]
fn r31_a_key_that_holds_the_separator_is_an_error() {
    let api = Api::new(vec![parents(&json!([{ "name": "a,b" }]))]);
    let place = place(&api, &config("", "", BATCH));
    place.read("issues").output().expect(4).says("\"a,b\"").says("batch-separator").says("issues");
}

#[test]
fn r16_a_child_that_is_not_there_is_skipped_only_at_its_first_page_and_only_if_asked() {
    let gone = |status: u16| Route::new("GET", "/repos/gone/issues", Reply::status(status));
    let first = [parents(&json!([{ "name": "gone" }, { "name": "a" }])), page("/repos/a/issues", &[1], None)];
    let api = Api::new([&first[..], &[gone(404)]].concat());
    let skip = format!("{PAGED}, on-404 = skip");
    let fails = place(&api, &config("", "", PAGED));
    fails.read("issues").output().expect(3).says("404").says("/repos/gone/issues").says("parent: name = gone");
    let skips = place(&api, &config("", "", &skip));
    let read = skips.read("issues").output().expect(0).says("answered 404: 1 (first: gone)");
    assert_eq!(read.ids(), [1]);
    for status in [403, 410, 500] {
        api.script([&first[..], &[gone(status)]].concat());
        skips.read("issues").output().expect(3).says(&status.to_string());
    }
    let later = Route::new("GET", "/repos/gone/issues?cursor=X", Reply::status(404));
    api.script([&first[..], &[page("/repos/gone/issues", &[2], Some("X")), later]].concat());
    skips.read("issues").output().expect(3).says("404").says("page: 2");
    let none = Route::new("GET", "/repos", Reply::status(404));
    api.script(vec![none]);
    skips.read("issues").output().expect(3).says("table: repos").says("child: issues");
}

#[test]
fn r31_a_chain_of_three_tables_is_read_from_its_head() {
    let chain = config("", "", NESTED).replace(
        "  issues {",
        "  comments {
    endpoint = \"/issues/{id}/comments\", parent-table = issues, parent-key = id, data-path = \"/items\"
    columns { text { type = string } }
  }
  issues {",
    );
    let comments =
        |id: u64| get(&format!("/issues/{id}/comments"), &json!({ "items": [{ "text": format!("c{id}") }] }));
    let api = Api::new(vec![
        parents(&json!([{ "name": "a" }, { "name": "b" }, {}])),
        page("/repos/a/issues", &[1, 2], None),
        page("/repos/b/issues", &[3, 3], None),
        comments(1),
        comments(2),
        comments(3),
    ]);
    let place = place(&api, &chain);
    let read = place.read("comments").output().expect(0).says("3 rows read, 3 emitted; 7 parent rows");
    let read = read.says("without a key, which have no children: 1").says("came again, each read once: 1 (first: 3)");
    let want: Vec<_> = (1..4).map(|id| json!({ "text": format!("c{id}"), "_parent_id": id }).to_string()).collect();
    assert_eq!(sorted(&read), want);
    assert_eq!(place.mark("repos"), Mark::NONE);
}

#[test]
fn r24_inferred_children_have_one_schema_and_a_field_of_the_columns_name_is_refused() {
    let api = Api::new(vec![
        parents(&json!([{ "name": "none" }, { "name": "a" }, { "name": "b" }])),
        page("/repos/none/issues", &[], None),
        get("/repos/a/issues", &json!({ "items": [{ "id": 1, "x": "t" }] })),
        get("/repos/b/issues", &json!({ "items": [{ "id": 2, "y": 3 }] })),
    ]);
    let text = config("", "", NESTED).replace("columns { id { type = int64 } }", "");
    let inferred = place(&api, &text);
    let read = inferred.read("issues").output().expect(0).says("fields left out");
    let want = [json!({ "id": 1, "x": "t", "_parent_name": "a" }), json!({ "id": 2, "x": null, "_parent_name": "b" })];
    assert_eq!(sorted(&read), want.map(|row| row.to_string()));
    let shown = inferred.run(&["schema", "CONFIG", "issues"]).output().expect(0);
    assert!(shown.stdout.contains("# the parent's key is in _parent_name"), "{}", shown.stdout);
    assert!(!shown.stdout.contains("_parent_name {"), "{}", shown.stdout);
    inferred.run(&["preview", "CONFIG", "issues"]).output().expect(0);
    api.script(vec![
        parents(&json!([{ "name": "a" }])),
        get("/repos/a/issues", &json!({ "items": [{ "_parent_name": 1 }] })),
    ]);
    inferred.read("issues").output().expect(2).says("_parent_name").says("holds the parent's key");
}

#[test]
fn r24_an_inferred_batch_join_has_no_second_key_column() {
    let api = Api::new(vec![
        parents(&json!([{ "name": "a" }])),
        get("/issues?repos=a", &json!({ "items": [{ "id": 1, "repo": "a" }, { "id": 2, "repo": "b" }] })),
    ]);
    let text = config("", "", BATCH).replace("columns { id { type = int64 } }", "");
    let inferred = place(&api, &text);
    assert_eq!(sorted(&inferred.read("issues").output().expect(0)), [r#"{"id":1,"repo":"a","_parent_name":"a"}"#]);
    inferred.run(&["schema", "CONFIG", "issues"]).output().expect(0);
    let whole = text.replace("columns { name { type = string } }", "") + "schema.mode = variant";
    let whole = place(&api, &whole);
    let rows = whole.read("issues").output().expect(0).rows();
    assert_eq!(rows, [json!({ "value": r#"{"id":1,"repo":"a"}"#, "_parent_name": "a" })]);
}

#[test]
fn r31_csv_children_have_the_parents_cells_as_keys() {
    let text = |target: &str, body: &str| Route::new("GET", target, Reply::text(body));
    let api = Api::new(vec![
        text("/repos", "name\na b\n\"\"\nnull\n"),
        text("/issues?repos=a%20b,null", "id,repo\n1,a b\n2,other\n3,null\n"),
    ]);
    let place = place(
        &api,
        &format!(
            r#"
base-url = "{{{{BASE}}}}"
http.response-format = csv
tables {{
  repos {{ endpoint = "/repos" }}
  issues {{ parent-table = repos, parent-key = name, columns {{ id {{ type = int64 }} }}, {BATCH} }}
}}
"#
        ),
    );
    let read = place.read("issues").output().expect(0).says("without a key").says("no key that was asked for: 1");
    assert_eq!(sorted(&read), [r#"{"id":1,"_parent_name":"a b"}"#, r#"{"id":3,"_parent_name":"null"}"#]);
}

#[test]
fn r26_no_more_walks_than_read_ahead_and_a_limit_stops_them_all() {
    let names: Vec<Value> = (0..20).map(|n| json!({ "name": n.to_string() })).collect();
    let children = (0..20).map(|n| page(&format!("/repos/{n}/issues"), &[n], None));
    let api = Api::new(children.chain([parents(&json!(names))]).collect());
    let limited = place(&api, &config("read-ahead = 4", "", NESTED));
    let read = limited.run(&["read", "CONFIG", "issues", "--limit", "3"]).output().expect(0);
    assert_eq!(read.ids(), [0, 1, 2]);
    assert!(api.asked().len() <= 5, "{:?}", api.asked());
    // All walks at once are held back: no fifth one begins.
    api.script(
        (0..20)
            .map(|n| Route::new("GET", &format!("/repos/{n}/issues"), Reply::hang()))
            .chain([parents(&json!(names))])
            .collect(),
    );
    let running = limited.read("issues").spawn();
    wait_for("four walks", crate::support::PATIENCE, || (api.asked().len() >= 5).then_some(()));
    std::thread::yield_now();
    assert_eq!(api.asked().len(), 5);
    running.signal("TERM");
    assert!(running.output().expect(130).stdout.is_empty());
}

#[test]
fn r26_the_last_walk_alone_sends_requests_ahead() {
    let target = |offset: u64| format!("/repos/a/issues?limit=1&offset={offset}");
    // The fourth page does not come.
    let page = |n| match n {
        3 => Route::new("GET", &target(n), Reply::hang()),
        n => get(&target(n), &json!({ "items": [{ "id": n }], "total": 9 })),
    };
    let pages = (0..9).map(page);
    let api = Api::new(pages.chain([parents(&json!([{ "name": "a" }]))]).collect());
    let style = "pagination { style = offset, max-page-size = 1, total-path = \"/total\" }";
    let place = place(&api, &config("read-ahead = 3", "", &format!("{NESTED}, {style}")));
    let running = place.read("issues").spawn();
    wait_for("a page ahead", crate::support::PATIENCE, || {
        api.asked().contains(&format!("GET {}", target(5))).then_some(())
    });
    running.signal("KILL");
    running.output().expect_failure();
}

#[test]
fn r31_check_and_tables_name_the_parent() {
    let place = Place::new("http://127.0.0.1:9", &config("", "", BATCH));
    for (command, said) in [
        ("check", "  partitions  one walk for 100 of name of repos, in repos; the key is in column _parent_name"),
        ("tables", "every run reads the whole table; one walk for 100 of name of repos"),
    ] {
        let shown = place.run(&[command, "CONFIG"]).output().expect(0);
        assert!(shown.stdout.contains(said), "{}", shown.stdout);
    }
}

#[test]
fn r01_a_read_of_children_that_fails_anywhere_publishes_nothing() {
    let routes = || {
        vec![
            get("/repos", &json!({ "items": [{ "name": "a" }], "next": "B" })),
            get("/repos?cursor=B", &json!({ "items": [{ "name": "b" }] })),
            page("/repos/a/issues", &[1], Some("X")),
            page("/repos/a/issues?cursor=X", &[2], None),
            page("/repos/b/issues", &[3], None),
        ]
    };
    let api = Api::new(routes());
    let place = place(&api, &config("", "", PAGED));
    let visible = || {
        let files = std::fs::read_dir(place.path("out")).into_iter().flatten();
        files.filter(|file| !file.as_ref().unwrap().file_name().to_string_lossy().starts_with(['.', '_'])).count()
    };
    for k in 1..=5 {
        for trap in [Trap::Reset, Trap::Cut, Trap::Reply(Reply::status(500))] {
            api.script(routes());
            api.at(k, trap);
            place.run(&["read", "CONFIG", "issues", "--to", "{{DIR}}/out"]).output().expect(3).says("issues");
            assert_eq!(visible(), 0, "request {k}");
        }
        api.script(routes());
        let held = api.hold_at(k);
        let running = place.run(&["read", "CONFIG", "issues", "--to", "{{DIR}}/out"]).spawn();
        held();
        running.signal("KILL");
        running.output().expect_failure();
        assert_eq!(visible(), 0, "request {k}");
    }
    api.script(routes());
    place.run(&["read", "CONFIG", "issues", "--to", "{{DIR}}/out"]).output().expect(0);
    assert_eq!(visible(), 1);
    assert_eq!(place.mark("repos"), Mark::NONE);
}

#[test]
fn r26_a_consumer_that_is_gone_ends_all_walks() {
    let names: Vec<Value> = (0..4_000).map(|n| json!({ "name": n.to_string() })).collect();
    let text = "x".repeat(20_000);
    let children =
        (0..4_000).map(|n| get(&format!("/repos/{n}/issues"), &json!({ "items": [{ "id": n, "text": text }] })));
    let api = Api::new(children.chain([parents(&json!(names))]).collect());
    let place = place(&api, &config("", "", &format!("{NESTED}, columns.text.type = string")));
    place.read("issues").stdout(Stdout::ClosedAfter("\n")).output().expect_failure();
    assert!(api.asked().len() < 2_000, "{}", api.asked().len());
}
