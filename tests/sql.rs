//! SQL from outside: what of a query is sent, what a limit stops, which endpoint answers an aggregate; nothing moves.

use std::sync::Arc;
use std::sync::mpsc::channel;

use datafusion::catalog::TableProvider as _;
use datafusion::common::stats::Precision;
use datafusion::physical_plan::collect;
use datafusion::prelude::{Expr, SessionConfig, SessionContext, col, lit};
use futures::StreamExt as _;
use restmark::sql::{PlanTable, RestSchema, RestTable, into_error, session};
use restmark::{ErrorKind, RecordBatch, Source};
use serde_json::{Value, json};

use crate::support::{Api, Mark, PATIENCE, Place, Reply, Route, Trap, get};

const CONFIG: &str = r#"
base-url = "{{BASE}}"
http { max-retries = 0, timeout = 20s }
tables {
  events {
    endpoint = "/events"
    data-path = "/items"
    pagination { style = page, max-page-size = 2, page-size-param = size, total-path = "/total" }
    columns {
      id { type = int64 }, kind { type = string }, userId { type = int32 }, at { type = timestamp }
      price { type = "decimal(10,2)" }
    }
    filters = [
      { param = kind, column = kind, operators = [eq], exact = true }
      { param = min, column = id, operators = [gte] }
      { param = since, column = at, operators = [gte, gt] }
    ]
    aggregations {
      rows  { function = count, endpoint = "/stats", response-path = "/rows", params { of = events } }
      total { function = sum, column = price, endpoint = "/stats", response-path = "/price/sum" }
      mean  { function = avg, column = userId, endpoint = "/stats", response-path = "/user/avg" }
    }
  }
  users { endpoint = "/users", data-path = "/users" }
  kept {
    endpoint = "/kept"
    data-path = "/items"
    pagination { style = cursor, cursor-path = "/next" }
    columns { id { type = int64 }, kind { type = string } }
    filters = [{ param = kind, column = kind, operators = [eq], exact = true }]
    checkpoint { enabled = true, path = "{{DIR}}/ckpt", mode = cursor }
  }
  days {
    endpoint = "/days"
    columns { id { type = int64 }, day { type = date } }
    partition { type = date-range, column = day, range = "1 day", start-param = from, end-param = to, format = "%Y-%m-%d" }
  }
  regions {
    endpoint = "/regions"
    partition { type = enum, param = region, values = [eu, us, asia] }
    filters = [{ param = region, column = region, operators = [eq], exact = true }]
    columns { id { type = int64 }, region { type = string } }
  }
}
"#;

fn event(id: i64, kind: &str, user: i64) -> Value {
    json!({ "id": id, "kind": kind, "userId": user, "at": format!("2026-01-0{id}T00:00:00Z"), "price": 1.25 })
}

fn events(query: &str, page: u64, items: &[Value], total: usize) -> Route {
    let items = json!({ "items": items, "total": total });
    get(&format!("/events?{query}page={page}&size=2"), &items)
}

/// Five events of two users; every filter alone.
fn routes() -> Vec<Route> {
    let all = [event(1, "push", 7), event(2, "fork", 8), event(3, "push", 7), event(4, "push", 8), event(5, "fork", 7)];
    let users = json!({ "users": [{ "id": 7, "name": "Ann" }, { "id": 8, "name": "Bob" }] });
    let item = |id: i64, kind: &str| json!({ "id": id, "kind": kind });
    vec![
        events("", 1, &all[..2], 5),
        events("", 2, &all[2..4], 5),
        events("", 3, &all[4..], 5),
        events("kind=push&", 1, &[all[0].clone(), all[2].clone()], 3),
        events("kind=push&", 2, &all[3..4], 3),
        events("min=4&", 1, &all[2..4], 3),
        events("min=4&", 2, &all[4..], 3),
        events("since=2026-01-04T00%3A00%3A00Z&", 1, &all[3..], 2),
        get("/users", &users),
        get("/stats?of=events", &json!({ "rows": "50" })),
        get("/stats", &json!({ "price": { "sum": 12345.25 }, "user": { "avg": 7.4 } })),
        get("/kept", &json!({ "items": [item(1, "push"), item(2, "fork")], "next": "b" })),
        get("/kept?cursor=b", &json!({ "items": [item(3, "push")], "next": null })),
        get("/days?from=2025-12-31&to=2026-01-02", &json!([{ "id": 1, "day": "2026-01-01" }])),
        get("/days?from=2026-01-01&to=2026-01-03", &json!([{ "id": 2, "day": "2026-01-02" }])),
        get(
            "/days",
            &json!([{ "id": 1, "day": "2026-01-01" }, { "id": 2, "day": "2026-01-02" }, { "id": 9, "day": null }]),
        ),
        get("/regions?region=eu", &json!([{ "id": 1, "region": "eu" }])),
        get("/regions?region=us", &json!([{ "id": 2, "region": "us" }])),
        get("/regions?region=asia", &json!([])),
    ]
}

/// An API, and a query over it as NDJSON.
fn ask(query: &str) -> (Vec<Value>, Vec<String>) {
    let api = Api::new(routes());
    let rows =
        Place::new(&api.base(), CONFIG).run(&["sql", "CONFIG", query, "--format", "ndjson"]).output().expect(0).rows();
    (rows, api.asked())
}

fn ids(rows: &[Value]) -> Vec<i64> {
    rows.iter().map(|row| row["id"].as_i64().unwrap()).collect()
}

fn explain(query: &str) -> String {
    let api = Api::new(routes());
    Place::new(&api.base(), CONFIG).run(&["sql", "CONFIG", &format!("EXPLAIN {query}")]).output().expect(0).stdout
}

#[test]
fn tables_of_one_configuration_are_joined_and_none_is_asked_for_that_is_not_named() {
    let (rows, asked) = ask(
        "SELECT e.id, u.id, name, price FROM events e JOIN users u ON e.userId = u.id WHERE name = 'Ann' ORDER BY 1",
    );
    let want = [1, 3, 5].map(|id| json!({ "e.id": id, "u.id": 7, "name": "Ann", "price": 1.25 }));
    assert_eq!(rows, want);
    assert!(asked.iter().all(|asked| asked.starts_with("GET /events") || asked == "GET /users"), "{asked:?}");
}

#[test]
fn tables_of_several_configurations_are_joined() {
    let (here, there) = (Api::new(routes()), Api::new(vec![get("/names", &json!([{ "id": 8, "of": "Bob" }]))]));
    let place = Place::new(&here.base(), CONFIG);
    let other = format!("base-url = \"{}\"\ntables {{ names {{ endpoint = \"/names\" }} }}\n", there.base());
    place.write("other.conf", &other);
    let query = "SELECT of FROM users JOIN other.names USING (id) JOIN source.regions r ON r.id = 2";
    let with = ["sql", "CONFIG", query, "--with", "{{DIR}}/other.conf", "--format", "csv"];
    assert_eq!(place.run(&with).output().expect(0).stdout, "of\nBob\n");
    place
        .run(&["sql", "CONFIG", "SELECT 1", "--with", "CONFIG"])
        .output()
        .expect(2)
        .says("two configurations are named source");
}

#[test]
fn an_exact_filter_is_sent_and_not_applied_again() {
    let (rows, asked) = ask("SELECT id FROM events WHERE kind = 'push'");
    assert_eq!(ids(&rows), [1, 3, 4]);
    assert_eq!(asked, ["GET /events?kind=push&size=2&page=1", "GET /events?kind=push&size=2&page=2"]);
    let plan = explain("SELECT id FROM events WHERE kind = 'push'");
    assert!(plan.contains("sent=[kind = 'push' as kind=push, exact]") && !plan.contains("FilterExec"), "{plan}");
    assert!(plan.contains("GET http://127.0.0.1") && plan.contains("/events?kind=push&size=2&page=1"), "{plan}");
}

#[test]
fn any_other_filter_is_sent_and_applied_again() {
    // Event 3 comes although it was not asked for.
    let (rows, asked) = ask("SELECT id FROM events WHERE id >= 4 ORDER BY id");
    assert_eq!(ids(&rows), [4, 5]);
    assert!(asked.iter().all(|asked| asked.contains("min=4&")), "{asked:?}");
    let plan = explain("SELECT id FROM events WHERE id >= 4");
    assert!(plan.contains("as min=4]") && plan.contains("FilterExec"), "{plan}");
    let (rows, asked) = ask("SELECT id FROM events WHERE at >= TIMESTAMP '2026-01-04T00:00:00Z' AND userId <> 8");
    assert_eq!(ids(&rows), [5]);
    assert!(asked.iter().all(|asked| asked.contains("since=2026-01-04T00%3A00%3A00Z&")), "{asked:?}");
    let (rows, asked) = ask("SELECT id FROM events WHERE id < 2 OR kind = 'nothing'");
    assert_eq!(ids(&rows), [1]);
    assert_eq!(asked[0], "GET /events?size=2&page=1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_is_exact_alone_and_not_sent_beside_another_is_applied_by_the_scan() {
    let api = Api::new(routes());
    let place = Place::new(&api.base(), CONFIG);
    let table = RestTable::new(Arc::new(Source::open(place.path("source.conf")).unwrap()), "events").await.unwrap();
    let context = SessionContext::new();
    let (push, fork) = (col("kind").eq(lit("push")), col("kind").eq(lit("fork")));
    let scan = |filters: Vec<Expr>| {
        let (table, context) = (&table, &context);
        async move {
            let plan = table.scan(&context.state(), Some(&vec![0]), &filters, None).await.unwrap();
            let rows = collect(plan, context.task_ctx()).await.unwrap();
            assert!(rows.iter().all(|batch| batch.num_columns() == 1));
            rows.iter().map(RecordBatch::num_rows).sum::<usize>()
        }
    };
    assert_eq!(scan(vec![push.clone()]).await, 3);
    assert_eq!(scan(vec![push, fork]).await, 0);
    assert!(api.asked().iter().all(|asked| asked.contains("kind=push")), "{:?}", api.asked());
}

#[test]
fn r31_exploded_tables_are_tables_of_queries() {
    let orders = json!([{ "id": 1, "lines": [{ "sku": "a" }, { "sku": "b" }] }, { "id": 2, "lines": [] }]);
    let api = Api::new(vec![get("/orders", &orders)]);
    let place = Place::new(
        &api.base(),
        "base-url = \"{{BASE}}\"\nschema { array-handling = both }\ntables { orders { endpoint = \"/orders\" } }\n",
    );
    let sql = |query: &str| place.run(&["sql", "CONFIG", query, "--format", "ndjson"]).output().expect(0).rows();
    let joined = sql("SELECT o.id, lines_sku FROM orders o JOIN orders_lines l ON o.id = l.id ORDER BY lines_sku");
    assert_eq!(joined, [json!({ "id": 1, "lines_sku": "a" }), json!({ "id": 1, "lines_sku": "b" })]);
    assert_eq!(sql("SELECT count(*) AS n FROM orders_lines WHERE lines_sku > 'a'"), [json!({ "n": 1 })]);
    assert_eq!(sql("SELECT count(*) AS n FROM orders"), [json!({ "n": 2 })]);
    place.run(&["sql", "CONFIG", "SELECT * FROM orders_nothing"]).output().expect(2).says("is an array");
}

#[test]
fn r30_windows_and_values_are_cut_by_the_query() {
    let (rows, mut asked) = ask("SELECT id FROM days WHERE day BETWEEN '2026-01-01' AND '2026-01-02' ORDER BY id");
    assert_eq!(ids(&rows), [1, 2]);
    asked.sort();
    // The bound is inclusive and instants go on after it: one more window, of a microsecond.
    assert_eq!(asked[..2], ["GET /days?from=2025-12-31&to=2026-01-02", "GET /days?from=2026-01-01&to=2026-01-03"]);
    let (rows, asked) = ask("SELECT count(*) AS n, count(day) AS days FROM days");
    assert_eq!((rows, asked), (vec![json!({ "n": 3, "days": 2 })], vec!["GET /days".to_owned()]));
    let (rows, mut asked) = ask("SELECT id FROM regions WHERE region IN ('us', 'asia')");
    asked.sort();
    assert_eq!(ids(&rows), [2]);
    assert_eq!(asked, ["GET /regions?region=asia", "GET /regions?region=us"]);
    let api = Api::new(routes());
    let twice = "SELECT id FROM regions JOIN regions r USING (id) ORDER BY id";
    let one_by_one = ["sql", "CONFIG", twice, "--parallel", "1", "--format", "ndjson"];
    assert_eq!(Place::new(&api.base(), CONFIG).run(&one_by_one).output().expect(0).ids(), [1, 2]);
    let (rows, asked) = ask("SELECT id FROM regions WHERE region = 'mars'");
    assert_eq!((rows.len(), asked.len()), (0, 0), "{asked:?}");
}

#[test]
fn r01_a_limit_stops_asking() {
    let (rows, asked) = ask("SELECT id FROM events LIMIT 2");
    assert_eq!((ids(&rows), asked.len()), (vec![1, 2], 1), "{asked:?}");
    let (rows, asked) = ask("SELECT id FROM events WHERE userId > 0 LIMIT 1");
    assert_eq!((rows.len(), asked[0].as_str()), (1, "GET /events?size=2&page=1"));
}

#[test]
fn r10_a_checkpointed_table_is_sent_no_filter_and_read_whole_and_moves_nothing() {
    let api = Api::new(routes());
    let place = Place::new(&api.base(), CONFIG);
    let sql = |query: &str| place.run(&["sql", "CONFIG", query, "--format", "ndjson"]).output();
    assert_eq!(sql("SELECT id FROM kept WHERE kind = 'push' ORDER BY id").expect(0).ids(), [1, 3]);
    assert_eq!(api.asked(), ["GET /kept", "GET /kept?cursor=b"]);
    assert_eq!(place.mark("kept"), Mark::NONE);
    place.seed("kept", "no checkpoint at all");
    let before = place.mark("kept");
    assert_eq!(sql("SELECT id FROM kept").expect(0).ids(), [1, 2, 3]);
    assert_eq!(place.mark("kept"), before);
    let plan = explain("SELECT id FROM kept WHERE kind = 'push'");
    assert!(plan.contains("the table has a checkpoint (R10)") && plan.contains("FilterExec"), "{plan}");
}

#[test]
fn an_error_of_the_api_keeps_its_exit_code_and_one_of_the_query_is_2() {
    let api = Api::new(vec![
        get("/users", &json!({ "users": 1 })),
        Route::new("GET", "/kept", Reply::status(500)),
        get("/days", &json!([])),
    ]);
    let place = Place::new(&api.base(), CONFIG);
    let sql = |query: &str| place.run(&["sql", "CONFIG", query]).output();
    sql("SELECT * FROM kept").expect(3).says("table: kept").says("500");
    sql("SELECT * FROM users").expect(4).says("no record array");
    sql("SELECT * FROM userz").expect(2).says("there is no table \"userz\"; tables: events, users");
    sql("SELECT nothing FROM days").expect(2).says("nothing");
    sql("SELEKT").expect(2);
    sql("SELECT 1 / 0").expect(2).says("divide by zero");
    for refused in ["DROP TABLE days", "INSERT INTO days SELECT 1, NULL", "CREATE TABLE x AS SELECT 1", "SET a.b = 1"] {
        sql(refused).expect(2);
    }
    place.run(&["sql", "CONFIG", "SELECT 1", "--format", "parquet"]).output().expect(2).says("needs --to FILE");
}

#[test]
fn rows_are_written_for_people_and_into_files_that_appear_whole() {
    let api = Api::new(routes());
    let place = Place::new(&api.base(), CONFIG);
    let query = "SELECT id, at, price FROM events WHERE kind = 'push' ORDER BY id LIMIT 1";
    let shown = place.run(&["sql", "CONFIG", query]).output().expect(0).says("events: 3 rows read").stdout;
    assert!(
        shown.contains("| id | at                   | price |")
            && shown.contains("| 1  | 2026-01-01T00:00:00Z | 1.25  |"),
        "{shown}"
    );
    place.run(&["sql", "CONFIG", query, "--to", "{{DIR}}/a.csv", "--format", "csv"]).output().expect(0);
    let text = std::fs::read_to_string(place.path("a.csv")).unwrap();
    assert_eq!(text, "id,at,price\n1,2026-01-01T00:00:00Z,1.25\n");
    place.run(&["sql", "CONFIG", query, "--to", "{{DIR}}/a.parquet"]).output().expect(0);
    assert_eq!(std::fs::read(place.path("a.parquet")).unwrap()[..4], *b"PAR1");
    api.script(vec![]);
    place.run(&["sql", "CONFIG", "SELECT * FROM kept", "--to", "{{DIR}}/a.csv", "--format", "csv"]).output().expect(3);
    assert_eq!(std::fs::read_to_string(place.path("a.csv")).unwrap(), text);
    let hidden = std::fs::read_dir(place.path(""))
        .unwrap()
        .filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
    assert_eq!(hidden.count(), 0);
}

#[test]
fn aggregates_of_a_whole_table_are_asked_of_their_endpoints() {
    let (rows, mut asked) = ask("SELECT count(*) AS n, sum(price) AS s, avg(e.userId) AS a FROM events AS e");
    assert_eq!(rows, [json!({ "n": 50, "s": 12345.25, "a": 7.4 })]);
    asked.sort();
    assert_eq!(asked, ["GET /stats", "GET /stats", "GET /stats?of=events"]);
    let (rows, _) = ask("SELECT count(*) + 1 AS n FROM events HAVING count(*) > 49");
    assert_eq!(rows, [json!({ "n": 51 })]);
    let plan = explain("SELECT count(*), sum(price) FROM events");
    assert!(plan.contains("RestAggregateExec: table=events, endpoint=[count(*) at /rows of GET http://"), "{plan}");
    assert!(!plan.contains("RestExec") && !plan.contains(" AggregateExec"), "{plan}");
}

#[test]
fn aggregates_that_no_endpoint_answers_scan_the_table() {
    for (query, want) in [
        ("SELECT count(*) AS n FROM events WHERE kind = 'push'", 3),
        ("SELECT count(*) AS n, max(id) AS m FROM events", 5),
        ("SELECT count(id) AS n FROM events", 5),
        ("SELECT count(DISTINCT kind) AS n FROM events", 2),
        ("SELECT count(*) AS n FROM events GROUP BY kind ORDER BY 1 LIMIT 1", 2),
        ("SELECT count(*) AS n FROM (SELECT * FROM events LIMIT 2)", 2),
        ("SELECT sum(userId) AS n FROM events", 37),
        ("SELECT count(*) FILTER (WHERE kind = 'push') AS n FROM events", 3),
    ] {
        let (rows, asked) = ask(query);
        assert_eq!(rows[0]["n"], json!(want), "{query}");
        assert!(asked.iter().all(|asked| asked.starts_with("GET /events")), "{query}: {asked:?}");
    }
}

#[test]
fn an_answer_that_is_no_number_is_an_error_that_names_the_pointer() {
    for answer in [json!({ "rows": null }), json!({}), json!({ "rows": 1.5 })] {
        let api = Api::new(vec![get("/stats?of=events", &answer)]);
        let place = Place::new(&api.base(), CONFIG);
        place
            .run(&["sql", "CONFIG", "SELECT count(*) FROM events"])
            .output()
            .expect(4)
            .says("response-path /rows")
            .says("aggregation: rows");
    }
}

#[test]
fn r31_children_are_tables_of_queries() {
    const CHILD: &str = r#"
base-url = "{{BASE}}"
tables {
  users { endpoint = "/users", data-path = "/users" }
  posts { endpoint = "/users/{id}/posts", parent-table = users, parent-key = id, columns { title { type = string } } }
}
"#;
    let mut all = routes();
    all.push(get("/users/7/posts", &json!([{ "title": "a" }, { "title": "b" }])));
    all.push(get("/users/8/posts", &json!([])));
    let api = Api::new(all);
    let place = Place::new(&api.base(), CHILD);
    let query = "SELECT name, count(title) AS n FROM users LEFT JOIN posts ON users.id = posts._parent_id GROUP BY name \
                 ORDER BY name";
    let rows = place.run(&["sql", "CONFIG", query, "--format", "ndjson"]).output().expect(0).rows();
    assert_eq!(rows, [json!({ "name": "Ann", "n": 2 }), json!({ "name": "Bob", "n": 0 })]);
    place.run(&["sql", "CONFIG", "EXPLAIN SELECT title FROM posts"]).output().expect(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_are_what_the_first_page_declared() {
    const ALL: &str = "base-url = \"{{BASE}}\"\ntables { all { endpoint = \"/all\", data-path = \"/items\"\n\
                       pagination { style = offset, total-path = \"/total\" } } }";
    let page = json!({ "items": [{ "id": 1 }], "total": 70 });
    let api = Api::new(vec![get("/all?offset=0&limit=100", &page)]);
    let place = Place::new(&api.base(), ALL);
    let table = RestTable::new(Arc::new(Source::open(place.path("source.conf")).unwrap()), "all").await.unwrap();
    let statistics = table.statistics().unwrap();
    assert_eq!(statistics.num_rows, Precision::Inexact(70));
}

#[tokio::test(flavor = "multi_thread")]
async fn r01_dropping_a_query_stops_its_requests() {
    let page = |ids: [i64; 2], next: Option<&str>| json!({ "items": ids.map(|id| json!({ "id": id, "kind": "push" })), "next": next });
    let api = Api::new(vec![
        get("/kept", &page([1, 2], Some("b"))),
        get("/kept?cursor=b", &page([3, 4], Some("c"))),
        get("/kept?cursor=c", &page([5, 6], None)),
    ]);
    let place = Place::new(&api.base(), CONFIG);
    let source = Arc::new(Source::open(place.path("source.conf")).unwrap());
    let context = session(Arc::new(RestSchema::new(source)), Some(2)).unwrap();
    let query = async || context.sql("SELECT id FROM kept").await.unwrap().execute_stream().await.unwrap();

    let ((arrive, arrived), (go, gate)) = (channel(), channel());
    let hold = move || {
        arrive.send(()).unwrap();
        let _ = gate.recv();
    };
    api.at(2, Trap::First(Box::new(hold)));
    let mut dropped = query().await;
    assert_eq!(dropped.next().await.unwrap().unwrap().num_rows(), 2);
    tokio::task::spawn_blocking(move || arrived.recv_timeout(PATIENCE)).await.unwrap().unwrap();
    drop(dropped);
    go.send(()).unwrap();
    // Whoever went on would have asked for the third page by the time that somebody else has read all three.
    let whole: Vec<_> = query().await.collect().await;
    assert!(whole.iter().all(Result::is_ok));
    let (kept, b, c) = ("GET /kept", "GET /kept?cursor=b", "GET /kept?cursor=c");
    assert_eq!(api.asked(), [kept, b, kept, b, c]);
}

/// A plan of the checkpointed table, and a session in which it is `t`.
async fn planned(place: &Place) -> (Arc<Source>, Arc<PlanTable>, SessionContext) {
    let source = Arc::new(Source::open(place.path("source.conf")).unwrap());
    let plan = source.plan(source.table("kept").unwrap().scan()).await.unwrap();
    let table = Arc::new(PlanTable::new(Arc::clone(&source), plan).await.unwrap());
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    context.register_table("t", Arc::clone(&table) as _).unwrap();
    (source, table, context)
}

#[tokio::test(flavor = "multi_thread")]
async fn r02_a_query_over_a_plan_can_be_committed_once_it_succeeded() {
    let api = Api::new(routes());
    let place = Place::new(&api.base(), CONFIG);
    let (source, table, context) = planned(&place).await;
    context.sql("EXPLAIN SELECT * FROM t").await.unwrap().collect().await.unwrap();
    let rows = context.sql("SELECT count(kind) FROM t WHERE id > 1").await.unwrap().collect().await.unwrap();
    assert_eq!(rows[0].num_rows(), 1);
    let commit = table.plan().seal(table.receipts()).unwrap();
    assert_eq!(place.mark("kept"), Mark::NONE);
    source.checkpoints().commit(&commit).await.unwrap();
    assert_eq!(place.mark("kept").position(), json!({ "type": "cursor", "value": "b" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn r01_a_limit_an_error_and_a_cancellation_leave_no_receipt() {
    let api = Api::new(routes());
    let place = Place::new(&api.base(), CONFIG);
    let (_, table, context) = planned(&place).await;
    context.sql("SELECT * FROM t LIMIT 3").await.unwrap().collect().await.unwrap();
    assert_eq!(table.plan().seal(table.receipts()).unwrap_err().kind(), ErrorKind::Scan);

    let (_, table, context) = planned(&place).await;
    let mut rows = context.sql("SELECT * FROM t").await.unwrap().execute_stream().await.unwrap();
    rows.next().await.unwrap().unwrap();
    drop(rows);
    assert_eq!(table.plan().seal(table.receipts()).unwrap_err().kind(), ErrorKind::Scan);

    let (_, table, context) = planned(&place).await;
    api.script(vec![get("/kept", &json!({ "items": [], "next": "b" }))]);
    let failed = context.sql("SELECT * FROM t").await.unwrap().collect().await.map_err(into_error).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Http);
    assert_eq!(table.plan().seal(table.receipts()).unwrap_err().kind(), ErrorKind::Scan);
    assert_eq!(place.mark("kept"), Mark::NONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn r01_a_plan_is_read_once() {
    let api = Api::new(routes());
    let place = Place::new(&api.base(), CONFIG);
    let (_, table, context) = planned(&place).await;
    let twice = context.sql("SELECT * FROM t a JOIN t b ON a.id = b.id").await.unwrap().collect().await;
    let error = twice.map_err(into_error).unwrap_err();
    assert!(error.kind() == ErrorKind::Scan && error.to_string().contains("read once"), "{error}");
    assert!(table.receipts().len() <= 1);
}
