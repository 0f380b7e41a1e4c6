//! Partitions: they cover the table once, run side by side, and fail together (R1, R30).

use std::time::Duration;

use restmark::filter::Predicate;
use restmark::{Event, Plan, Source};
use serde_json::{Value, json};

use crate::support::clocked::{Clocked, Hiccups};
use crate::support::run::rows;
use crate::support::{Api, Place, Reply, Route, get};

const KINDS: &str = r#"
base-url = "{{BASE}}"
http { max-retries = 0 }
tables {
  items {
    endpoint = "/items"
    data-path = "/items"
    partition { type = enum, param = kind, values = [a, b, c] }
  }
}
"#;

fn items(ids: &[i64]) -> Value {
    json!({ "items": ids.iter().map(|id| json!({ "id": id })).collect::<Vec<_>>() })
}

fn sorted(mut ids: Vec<i64>) -> Vec<i64> {
    ids.sort_unstable();
    ids
}

fn place(api: &Api, lines: &str) -> Place {
    Place::new(&api.base(), &KINDS.replace("data-path", &format!("{lines}\n    data-path")))
}

const ID: &str = "columns { id { type = int64 } }";

#[test]
fn r30_an_inferred_table_has_one_schema_for_all_its_partitions() {
    let api = Api::new(vec![
        get("/items?kind=a", &items(&[])),
        get("/items?kind=b", &json!({ "items": [{ "id": 1, "n": "x" }] })),
        get("/items?kind=c", &json!({ "items": [{ "id": 2, "more": true }] })),
    ]);
    let place = place(&api, "");
    let output = place.read("items").output().expect(0).says("more");
    let mut rows = output.rows();
    rows.sort_by_key(|row| row["id"].as_i64());
    assert_eq!(rows, [json!({ "id": 1, "n": "x" }), json!({ "id": 2, "n": null })]);
    // The first partition with a row was asked once more; nobody else was.
    assert_eq!(api.asked().len(), 5);
}

#[test]
fn r30_an_inferred_table_that_holds_nothing_is_empty() {
    let api = Api::new(["a", "b", "c"].map(|kind| get(&format!("/items?kind={kind}"), &items(&[]))).into());
    assert!(place(&api, "").read("items").output().expect(0).rows().is_empty());
}

#[test]
fn r01_a_failed_partition_lets_its_siblings_end_and_nothing_is_published() {
    let api = Api::new(vec![
        get("/items?kind=a", &items(&[1])),
        Route::new("GET", "/items?kind=b", Reply::status(404)),
        Route::new("GET", "/items?kind=c", Reply::text("[")),
    ]);
    let place = place(&api, ID);
    for parallel in ["1", "3"] {
        let run = place.run(&["read", "CONFIG", "items", "--to", "{{DIR}}/out", "--parallel", parallel]);
        let output = run.output().expect_failure().says("2 of 3 partitions failed; first: ").says("partition: kind=");
        // One after the other, the first failure is that of b.
        assert!(parallel == "3" || output.code == Some(3), "{}", output.stderr);
        assert_eq!(api.asked().len(), 3, "each is asked");
        assert_eq!(std::fs::read_dir(place.path("out")).unwrap().count(), 0);
        api.script(vec![
            get("/items?kind=a", &items(&[1])),
            Route::new("GET", "/items?kind=b", Reply::status(404)),
            Route::new("GET", "/items?kind=c", Reply::text("[")),
        ]);
    }
}

#[test]
fn r30_each_partition_writes_its_own_file_and_all_rows_are_there() {
    let api = Api::new(vec![
        get("/items?kind=a", &items(&[1, 2])),
        get("/items?kind=b", &items(&[])),
        get("/items?kind=c", &items(&[3])),
    ]);
    let place = place(&api, ID);
    let args = ["read", "CONFIG", "items", "--to", "{{DIR}}/out", "--format", "ndjson"];
    place.run(&args).output().expect(0).says("3 rows read");
    let files = std::fs::read_dir(place.path("out")).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "ndjson"));
    let texts: Vec<String> = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let ids = texts.iter().flat_map(|text| rows(text)).map(|row| row["id"].as_i64().unwrap());
    assert_eq!((sorted(ids.collect()), texts.len()), (vec![1, 2, 3], 2));
}

#[test]
fn r01_a_limit_over_partitions_stops_all_of_them_and_asks_for_no_more() {
    let api = Api::new(vec![
        get("/items?kind=a&limit=2&offset=0", &items(&[1, 2])),
        get("/items?kind=b&limit=2&offset=0", &items(&[3, 4])),
    ]);
    let place = place(&api, &format!("{ID}, pagination {{ style = offset, max-page-size = 50 }}"));
    let run = place.run(&["read", "CONFIG", "items", "--limit", "2", "--parallel", "1"]);
    assert_eq!(run.output().expect(0).ids(), [1, 2]);
    assert_eq!(api.asked(), ["GET /items?kind=a&limit=2&offset=0"]);
}

#[test]
fn r30_two_windows_with_the_same_records_are_an_api_that_ignores_the_offset() {
    let page = |offset: i64| get(&format!("/items?limit=2&offset={offset}"), &items(&[1, 2]));
    let api = Api::new(vec![page(0), page(2)]);
    let config = KINDS.replace(
        "partition { type = enum, param = kind, values = [a, b, c] }",
        "pagination { style = offset, max-page-size = 2 }, partition { type = offset, size = 2, count = 2 }",
    );
    let place = Place::new(&api.base(), &config.replace("data-path", &format!("{ID}\n    data-path")));
    let run = place.run(&["read", "CONFIG", "items", "--to", "{{DIR}}/out"]);
    run.output().expect(4).says("ignores the offset").says("partition: offset=");
    assert_eq!(std::fs::read_dir(place.path("out")).unwrap().count(), 0);
}

#[test]
fn r30_a_full_last_window_without_a_total_is_reported() {
    let api = Api::new(vec![
        get("/items?limit=2&offset=0", &items(&[1, 2])),
        get("/items?limit=2&offset=2", &items(&[3, 4])),
    ]);
    let config = KINDS.replace(
        "partition { type = enum, param = kind, values = [a, b, c] }",
        "pagination { style = offset, max-page-size = 2 }, partition { type = offset, size = 2, count = 2 }",
    );
    let place = Place::new(&api.base(), &config.replace("data-path", &format!("{ID}\n    data-path")));
    let output = place.read("items").output().expect(0).says("may hold more than the 4 records");
    assert_eq!(sorted(output.ids()), [1, 2, 3, 4]);
}

const DATES: &str = r#"
base-url = "{{BASE}}"
http { max-retries = 0 }
tables {
  items {
    endpoint = "/items"
    columns { id { type = int64 }, ts { type = timestamp }, note { type = string } }
    partition { type = date-range, column = ts, range = 1 day, start-param = from, end-param = to, format = "%Y-%m-%d" }
  }
}
"#;

#[test]
fn r30_a_column_that_cuts_windows_is_read_for_it_and_not_shown() {
    let row = |id: i64, ts: &str| json!({ "id": id, "ts": ts, "note": "x" });
    // By day, both bounds closed: neighbours overlap by two days.
    let api = Api::new(vec![
        get(
            "/items?from=2025-12-31&to=2026-01-02",
            &json!([row(1, "2026-01-01T00:00:00Z"), row(2, "2026-01-02T00:00:00Z")]),
        ),
        get(
            "/items?from=2026-01-01&to=2026-01-03",
            &json!([row(1, "2026-01-01T00:00:00Z"), row(2, "2026-01-02T00:00:00Z"), row(3, "2026-01-02T23:59:59.999999Z"), { "id": 9, "ts": null }]),
        ),
    ]);
    let place = Place::new(&api.base(), DATES);
    let query = "ts BETWEEN '2026-01-01' AND '2026-01-02T23:59:59.999999Z'";
    let mut rows = place.read("items").args(["--where", query, "--select", "id"]).output().expect(0).rows();
    rows.sort_by_key(|row| row["id"].as_i64());
    assert_eq!(rows, [json!({ "id": 1 }), json!({ "id": 2 }), json!({ "id": 3 })]);
}

#[test]
fn r30_an_empty_range_and_one_of_too_many_windows() {
    let api = Api::new(vec![]);
    let place = Place::new(&api.base(), DATES);
    let read = |query: &str| place.read("items").args(["--where", query]).output();
    assert!(read("ts >= '2026-01-02' AND ts < '2026-01-02'").expect(0).rows().is_empty());
    read("ts >= '0001-01-01' AND ts < '2026-01-02'").expect(2).says("100000 windows").says("partition.range");
    assert!(api.asked().is_empty());
}

#[test]
fn r30_a_column_that_is_no_time_is_an_error_where_it_is_inferred() {
    let api = Api::new(vec![
        get("/items?from=2025-12-31&to=2026-01-02", &json!([{ "ts": "soon" }])),
        get("/items", &json!([{ "ts": "soon" }])),
    ]);
    let config = DATES.replace("columns { id { type = int64 }, ts { type = timestamp }, note { type = string } }", "");
    let place = Place::new(&api.base(), &config);
    let query = "ts >= '2026-01-01' AND ts < '2026-01-02'";
    let run = place.read("items").args(["--where", query]);
    run.output().expect(2).says("partition.column ts is neither a date nor a timestamp");
}

async fn receipts(source: &Source, plan: &Plan, skip: Option<usize>) -> Vec<restmark::Receipt> {
    let mut receipts = Vec::new();
    for (n, partition) in plan.partitions().iter().enumerate() {
        let mut read = source.read(partition).unwrap();
        while let Some(event) = read.try_next().await.unwrap() {
            if let Event::Done(receipt) = event
                && Some(n) != skip
            {
                receipts.push(receipt);
            }
        }
    }
    receipts
}

#[tokio::test]
async fn r01_a_plan_travels_as_text_and_is_sealed_by_every_receipt_alone() {
    let api = Api::new(["a", "b", "c"].map(|kind| get(&format!("/items?kind={kind}"), &items(&[1]))).into());
    let place = place(&api, &format!("{ID}, filters = [{{ param = n, column = id, operators = [gt] }}]"));
    let source = Source::open(place.path("source.conf")).unwrap();
    let scan = source.table("items").unwrap().scan().filter(Predicate::parse("id < 7 AND id IS NOT NULL").unwrap());
    let plan = source.plan(scan).await.unwrap();
    let text = serde_json::to_string(&plan).unwrap();
    let again: Plan = serde_json::from_str(&text).unwrap();
    assert_eq!(again, plan);
    assert_eq!(
        again.partitions().iter().map(restmark::Partition::id).collect::<Vec<_>>(),
        ["kind=a", "kind=b", "kind=c"]
    );
    let some = receipts(&source, &again, Some(1)).await;
    assert!(plan.seal(some).unwrap_err().to_string().contains("partition kind=b has 0 receipts"));
    let all = receipts(&source, &again, None).await;
    assert!(plan.seal(all).unwrap().position().is_none());
}

#[test]
fn r21_in_no_second_more_than_the_rate_arrive_from_eight_partitions() {
    const RATE: usize = 200;
    let api = Clocked::new(125);
    let pages = r#"pagination { style = offset, max-page-size = 1, total-path = "/total" }"#;
    let config = KINDS.replace("[a, b, c]", "[a, b, c, d, e, f, g, h]").replace("max-retries = 0", "rate-limit = 200");
    let place = Place::new(&api.base(), &config.replace("data-path", &format!("{ID}, {pages}\n    data-path")));
    let hiccups = Hiccups::watch();
    place.read("items").args(["--to", "null:", "--parallel", "8"]).output().expect(0);
    let (arrivals, worst) = (api.arrivals(), hiccups.worst());
    assert_eq!(arrivals.len(), 1_000);
    // A request that the machine held back comes later than it was sent, the one after it need not.
    let least = Duration::from_secs(1).saturating_sub(worst);
    for pair in arrivals.windows(RATE + 1) {
        let apart = pair[RATE] - pair[0];
        assert!(apart >= least, "{} requests within {apart:?}; the machine stood still for {worst:?}", RATE + 1);
    }
}

#[test]
fn r01_an_interrupt_ends_all_partitions_and_publishes_nothing() {
    let api = Api::new(["a", "b", "c"].map(|kind| get(&format!("/items?kind={kind}"), &items(&[1]))).into());
    let place = place(&api, ID);
    let held = api.hold_at(3);
    let running = place.run(&["read", "CONFIG", "items", "--to", "{{DIR}}/out", "--parallel", "3"]).spawn();
    held();
    running.signal("INT");
    running.output().expect(130);
    assert_eq!(std::fs::read_dir(place.path("out")).unwrap().count(), 0);
}

#[test]
fn r19_partitions_have_no_second_layer_of_retries() {
    let api = Api::new(vec![Route::new("GET", "/items?kind=a", Reply::status(503))]);
    let config = KINDS.replace("[a, b, c]", "[a]").replace("max-retries = 0", "max-retries = 2, max-backoff = 10ms");
    let place = Place::new(&api.base(), &config.replace("data-path", &format!("{ID}\n    data-path")));
    place.read("items").output().expect(3).says("503");
    assert_eq!(api.asked().len(), 3);
}
