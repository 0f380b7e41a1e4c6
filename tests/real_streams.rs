//! Real APIs as streams: windows that meet are the table, tombstones are rows, and a clock that is wrong is said (R27).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use restmark::Source;
use restmark::counts::Meters;
use restmark::sink::{Format, Output};
use restmark::stream::{BatchReport, Driver, Starting, Stream, Trigger};
use serde_json::{Value, json};

use crate::support::http::ask;
use crate::support::servers::Cache;
use crate::support::{Api, Place, Reply, Route};

/// The first flights of the year, by the filter that the API has for times.
const FLIGHTS: &str = r#"
base-url = "{{BASE}}"
http { idle-timeout = 60s, timeout = 60s }
tables { flights {
  endpoint = "/flights/flights.json"
  params { _shape = objects, _size = 2000, _nocount = 1, _nofacet = 1, _nosuggest = 1
           time_hour__lte = "2013-01-09T00:00:00Z" }
  data-path = "/rows"
  columns { id { type = int64 }, time_hour { type = timestamp } }
  pagination { style = cursor, cursor-path = "/next", cursor-param = _next }
  checkpoint { enabled = true, path = "{{DIR}}/ckpt", mode = timestamp, timestamp-path = "/time_hour"
               timestamp-param = time_hour__gt }
} }
"#;

/// A clock that stands, and what it was told.
struct Standing {
    now: DateTime<Utc>,
    told: Vec<BatchReport>,
}

impl Driver for Standing {
    fn now(&self) -> DateTime<Utc> {
        self.now
    }

    async fn wait(&mut self, _at: DateTime<Utc>) -> bool {
        false
    }

    fn report(&mut self, batch: BatchReport) {
        self.told.push(batch);
    }
}

/// What there is at a time, from the earliest on, in windows of at most a day.
async fn stream(place: &Place, table: &str, now: &str) -> Vec<BatchReport> {
    let source = Source::open(place.path("source.conf")).unwrap();
    let stream = Stream {
        table: table.to_owned(),
        location: place.path("state").display().to_string().parse().unwrap(),
        output: Output::directory(place.path("out"), Format::Ndjson),
        trigger: Trigger::AvailableNow,
        starting: Starting::Earliest,
        max_window: Some(Duration::from_hours(24)),
        allowed_lateness: Duration::ZERO,
    };
    let mut driver = Standing { now: now.parse().unwrap(), told: vec![] };
    stream.run(&source, &Arc::<Meters>::default(), &mut driver).await.unwrap();
    driver.told
}

/// The rows of the files in sight.
fn rows(dir: &Path) -> Vec<Value> {
    let Ok(entries) = std::fs::read_dir(dir) else { return vec![] };
    let paths = entries.map(|entry| entry.unwrap().path());
    let shown = paths.filter(|path| !path.file_name().unwrap().to_string_lossy().starts_with(['.', '_']));
    shown.flat_map(|path| crate::support::run::rows(&std::fs::read_to_string(path).unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn r27_the_flights_come_once_in_windows_that_meet() {
    let Some(cache) = Cache::with(&["python", "data"]) else { return };
    let server = cache.datasette();
    let place = Place::new(server.base(), FLIGHTS);
    let ids = || {
        let mut ids: Vec<_> = rows(&place.path("out")).iter().map(|row| row["id"].as_i64().unwrap()).collect();
        ids.sort_unstable();
        ids
    };
    // A window ends a second before now: with the flights of that hour.
    let mut told = stream(&place, "flights", "2013-01-04T12:00:01Z").await;
    assert_eq!((told.len(), told[0].window.start), (1, None));
    assert_eq!(ids(), server.flights_where("time_hour <= '2013-01-04T12:00:00Z'"));
    told.extend(stream(&place, "flights", "2013-01-08T12:00:01Z").await);
    assert_eq!(told.len(), 5, "a day each");
    for pair in told.windows(2) {
        assert_eq!(pair[1].window.start, Some(pair[0].window.end));
    }
    let all = server.flights_where("time_hour <= '2013-01-08T12:00:00Z'");
    assert!(all.len() > 5_000 && ids() == all, "{} of {}", ids().len(), all.len());
    let files = told.iter().map(|batch| batch.files.len()).sum::<usize>();
    let said = format!("{files} files in {files} manifests as written, {} rows", all.len());
    place.run(&["verify", "{{DIR}}/out"]).output().expect(0).says(&said);
}

/// Records of a collection that is synchronised by the time of their last change.
const NOTES: &str = r#"
base-url = "{{BASE}}"
auth { type = basic, username = somebody, password = "something" }
tables { notes {
  endpoint = "/v1/buckets/default/collections/notes/records"
  data-path = "/data"
  columns { id { type = string }, n { type = int64 }, deleted { type = boolean } }
  checkpoint { enabled = true, path = "{{DIR}}/ckpt", mode = timestamp, timestamp-path = "/last_modified"
               timestamp-param = _since, timestamp-format = epoch-ms }
} }
"#;

#[test]
fn r27_what_kinto_deleted_comes_as_a_tombstone() {
    let Some(cache) = Cache::with(&["kinto"]) else { return };
    let dir = tempfile::tempdir().unwrap();
    let server = cache.kinto(dir.path());
    let place = Place::new(server.base(), NOTES);
    // somebody:something
    let headers = [("Content-Type", "application/json"), ("Authorization", "Basic c29tZWJvZHk6c29tZXRoaW5n")];
    let send = |method: &str, target: &str, data: &Value| {
        let body = if data.is_null() { String::new() } else { json!({ "data": data }).to_string() };
        let answer = ask(server.base(), method, target, &headers, &body);
        assert!(answer.status < 300, "{answer:?}");
    };
    let note = |id: &str| format!("/v1/buckets/default/collections/notes/records/{id}");
    send("PUT", "/v1/accounts/somebody", &json!({ "password": "something" }));
    for n in 1..=5 {
        send("PUT", &note(&format!("n{n}")), &json!({ "n": n }));
    }
    let stream = || {
        // Until the second of the last change can get no more records.
        std::thread::sleep(Duration::from_millis(2_100));
        let args = ["--checkpoint-location", "{{DIR}}/state", "--to", "{{DIR}}/out", "--format", "ndjson"];
        let all = ["stream", "CONFIG", "notes", "--starting", "earliest"].iter().chain(&args).copied();
        place.run(&all.collect::<Vec<_>>()).output().expect(0);
        let mut rows = rows(&place.path("out"));
        rows.sort_by_key(ToString::to_string);
        rows
    };
    let row = |id: &str, n: Option<i64>, deleted: Option<bool>| json!({ "id": id, "n": n, "deleted": deleted });
    let mut wanted: Vec<_> = (1..=5).map(|n| row(&format!("n{n}"), Some(n), None)).collect();
    assert_eq!(stream(), wanted);
    send("PUT", &note("n2"), &json!({ "n": 22 }));
    send("DELETE", &note("n4"), &Value::Null);
    send("PUT", &note("n6"), &json!({ "n": 6 }));
    wanted.extend([row("n2", Some(22), None), row("n4", None, Some(true)), row("n6", Some(6), None)]);
    wanted.sort_by_key(ToString::to_string);
    assert_eq!(stream(), wanted);
    assert_eq!(stream(), wanted, "nothing new");
}

#[tokio::test(flavor = "multi_thread")]
async fn r27_a_clock_that_is_behind_is_said_once_a_batch() {
    let config = r#"
base-url = "{{BASE}}"
tables { t {
  endpoint = "/rows", columns { id { type = int64 } }, data-path = "/items"
  pagination { style = cursor, cursor-path = "/next" }
  checkpoint { enabled = true, path = "{{DIR}}/ckpt", mode = timestamp, timestamp-path = "/at"
               timestamp-param = since, lag = 30s }
} }
"#;
    let page = |id: i64, next: Value| {
        let items = json!([{ "id": id, "at": "2026-01-01T00:00:00Z" }]);
        Reply::json(&json!({ "items": items, "next": next })).header("Date", "Thu, 01 Jan 2026 00:00:00 GMT")
    };
    let api = Api::new(vec![
        Route::new("GET", "/rows", page(1, json!("A"))),
        Route::new("GET", "/rows?cursor=A", page(2, Value::Null)),
    ]);
    for (now, wanted) in [("2026-01-01T00:00:35Z", 1), ("2026-01-01T00:00:31Z", 0)] {
        let place = Place::new(&api.base(), config);
        let told = stream(&place, "t", now).await;
        assert_eq!((told.len(), told[0].counts.warnings.len()), (1, wanted), "{now}: {:?}", told[0].counts.warnings);
        assert_eq!(rows(&place.path("out")).len(), 2);
    }
}
