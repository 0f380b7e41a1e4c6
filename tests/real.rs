//! Real servers with real data: every row arrives, the sums are right, and an interruption loses nothing.
//!
//! What is expected was counted by `scripts/setup` in the data itself.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::servers::{Cache, Server};
use crate::support::{Place, Stdout, wait_for};

/// A whole read of the flights on a busy machine without optimisation.
const LONG: Duration = Duration::from_mins(5);

/// The flights by each of Datasette's three ways to the next page.
const FLIGHTS: &str = r#"
base-url = "{{BASE}}"
http { idle-timeout = 60s, timeout = 60s }
flights = {
  endpoint = "/flights/flights.json"
  params { _shape = objects, _size = 5000, _nocount = 1, _nofacet = 1, _nosuggest = 1 }
  data-path = "/rows"
  columns {
    id { type = int64 }, distance { type = int64 }, dep_delay { type = int64 }, air_time { type = int64 }
    carrier { type = string }, tailnum { type = string }, time_hour { type = string }
  }
}
"#;

const BY_CURSOR: &str = r#"
tables { flights = ${flights} {
  pagination { style = cursor, cursor-path = "/next", cursor-param = _next }
  checkpoint { enabled = true, path = "{{DIR}}/ckpt", mode = cursor }
} }
"#;

const BY_NEXT_URL: &str = r#"
tables { flights = ${flights} { pagination { style = next_url, next-url-path = "/next_url" } } }
"#;

const BY_LINK: &str = r#"
tables { flights = ${flights} {
  pagination { style = link_header }
  checkpoint { enabled = true, path = "{{DIR}}/ckpt", mode = timestamp, timestamp-path = "/time_hour"
               timestamp-param = time_hour__gte }
} }
"#;

const BY_TIME: &str = r#"
tables { flights = ${flights} {
  params { _sort = time_hour }
  pagination { style = cursor, cursor-path = "/next", cursor-param = _next }
  checkpoint { enabled = true, path = "{{DIR}}/ckpt", mode = timestamp, timestamp-path = "/time_hour"
               timestamp-param = time_hour__gte, dedup-key = "/id" }
} }
"#;

/// A configuration of the flights; the shared block is written into the table, as `flights` is no key of a source.
fn flights(table: &str) -> String {
    let (head, block) = FLIGHTS.split_once("flights = {").expect("the shared block");
    let block = block.trim_end().strip_suffix('}').expect("its end");
    format!("{head}{}", table.replace("${flights} {", &format!("{{{block}")))
}

/// Count, and for every numeric column its sum and how many values there were.
#[derive(Default)]
struct Sums {
    count: u64,
    ids: BTreeSet<i64>,
    columns: Vec<(&'static str, i64, u64)>,
}

impl Sums {
    fn of(columns: &[&'static str]) -> Self {
        Self { columns: columns.iter().map(|name| (*name, 0, 0)).collect(), ..Self::default() }
    }

    fn add(&mut self, row: &Value) {
        self.count += 1;
        assert!(self.ids.insert(row["id"].as_i64().expect("an id")), "the id comes twice: {row}");
        for (name, sum, present) in &mut self.columns {
            match &row[*name] {
                Value::Null => {}
                value => {
                    *sum += value.as_i64().unwrap_or_else(|| panic!("{name} is no integer in {row}"));
                    *present += 1;
                }
            }
        }
    }

    /// Adds the rows of an NDJSON file and says how many there were.
    fn add_file(&mut self, path: &Path) -> u64 {
        let before = self.count;
        for line in BufReader::new(File::open(path).expect("the output")).lines() {
            self.add(&serde_json::from_str(&line.expect("a line")).expect("JSON"));
        }
        self.count - before
    }

    #[track_caller]
    fn assert_are(&self, totals: &Value) {
        assert_eq!(json!(self.count), totals["count"]);
        for (name, sum, present) in &self.columns {
            assert_eq!(json!({ "sum": sum, "present": present }), totals[*name], "{name}");
        }
    }
}

/// Reads the table to a file and returns its path.
fn read_to_file(place: &Place, table: &str, name: &str) -> std::path::PathBuf {
    let path = place.path(name);
    let out = File::create(&path).expect("a file");
    place.read(table).stdout(Stdout::File(out)).patience(LONG).output().expect(0);
    path
}

fn all_the_flights_arrive(config: &str) -> Option<Place> {
    let cache = Cache::with(&["python", "data"])?;
    let server = cache.datasette();
    let place = Place::new(server.base(), &flights(config));
    let mut sums = Sums::of(&["id", "distance", "dep_delay", "air_time"]);
    sums.add_file(&read_to_file(&place, "flights", "flights.ndjson"));
    sums.assert_are(&cache.totals("flights"));
    Some(place)
}

#[test]
fn r14_all_the_flights_arrive_by_cursor() {
    let Some(place) = all_the_flights_arrive(BY_CURSOR) else { return };
    let position = place.mark("flights").position();
    assert_eq!(position["type"], "cursor");
    // The cursor that fetched the last page: Datasette's is the id of the last row before it.
    assert_eq!(position["value"], "335000");
}

#[test]
fn r14_all_the_flights_arrive_by_next_url() {
    all_the_flights_arrive(BY_NEXT_URL);
}

#[test]
fn r17_all_the_flights_arrive_by_link_header_whatever_the_order_of_time() {
    let Some(place) = all_the_flights_arrive(BY_LINK) else { return };
    let cache = Cache::with(&["data"]).expect("the totals");
    let last = &cache.totals("flights")["last_time_hour"];
    assert_eq!(place.mark("flights").position(), json!({ "type": "timestamp", "value": last }));
}

#[test]
fn r29_all_the_flights_arrive_in_a_directory() {
    let Some(cache) = Cache::with(&["python", "data"]) else { return };
    let server = cache.datasette();
    let place = Place::new(server.base(), &flights(BY_NEXT_URL));
    let to = ["--to", &place.fill("{{DIR}}/out"), "--format", "ndjson"].map(str::to_owned);
    let args = to.iter().map(String::as_str);
    place.read("flights").args(args).patience(LONG).output().expect(0);
    let mut sums = Sums::of(&["distance", "dep_delay"]);
    for entry in std::fs::read_dir(place.path("out")).expect("the directory") {
        let path = entry.expect("an entry").path();
        let hidden = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(['.', '_']));
        if !hidden {
            sums.add_file(&path);
        }
    }
    sums.assert_are(&cache.totals("flights"));
}

#[test]
fn r01_a_read_of_the_flights_that_is_killed_half_way_loses_nothing() {
    let Some(cache) = Cache::with(&["python", "data"]) else { return };
    let server = cache.datasette();
    let place = Place::new(server.base(), &flights(BY_CURSOR));
    let path = place.path("killed.ndjson");
    let out = File::create(&path).expect("a file");
    let run = place.read("flights").stdout(Stdout::File(out)).patience(LONG).spawn();
    wait_for("some of the rows", LONG, || (std::fs::metadata(&path).ok()?.len() > 1_000_000).then_some(()));
    run.signal("KILL");
    assert_eq!(run.output().code, None);
    let rows = BufReader::new(File::open(&path).expect("the output")).lines().count() as u64;
    assert!(rows < cache.totals("flights")["count"].as_u64().expect("a count"), "it was killed too late");
    assert!(!place.path("ckpt/flights.checkpoint.json").exists());
    let mut sums = Sums::of(&["id", "distance", "dep_delay"]);
    sums.add_file(&read_to_file(&place, "flights", "flights.ndjson"));
    sums.assert_are(&cache.totals("flights"));
}

/// Puts the flights `after..upto`, in the order of time, into a database, and returns the totals of what is there.
fn grow(cache: &Cache, place: &Place, after: u64, upto: u64) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apps/data.py");
    let mut command = cache.python("python");
    command.arg(script).arg("grow").arg(cache.data("flights.db")).arg(place.path("flights.db"));
    let output = command.args([after.to_string(), upto.to_string()]).output().expect("python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn r03_a_growing_table_resumes_by_time_without_a_loss_or_a_repeat() {
    let Some(cache) = Cache::with(&["python", "data"]) else { return };
    let database = Place::new("", "");
    let totals = grow(&cache, &database, 0, 20_000);
    assert_ne!(totals["of_last"], totals["of_last_in_whole"], "the boundary must fall inside an hour");
    let server = cache.datasette_over(&database.path("flights.db"));
    let place = Place::new(server.base(), &flights(BY_TIME));
    let mut sums = Sums::of(&["id", "distance", "dep_delay"]);
    assert_eq!(sums.add_file(&read_to_file(&place, "flights", "1.ndjson")), 20_000);
    sums.assert_are(&totals);
    let position = json!({ "type": "timestamp", "value": totals["last_time_hour"] });
    assert_eq!(place.mark("flights").position(), position);

    // Nothing new: nothing comes, nothing moves.
    assert_eq!(sums.add_file(&read_to_file(&place, "flights", "2.ndjson")), 0);
    assert_eq!(place.mark("flights").position(), position);

    // The rest of the hour, and more: a run that dies loses nothing of it, and what was delivered stays away.
    let totals = grow(&cache, &database, 20_000, 50_000);
    let before = place.mark("flights");
    let first_row = Stdout::StalledAfter("\n");
    let run = place.read("flights").stdout(first_row).patience(LONG).spawn();
    run.signal("KILL");
    assert_eq!(run.output().code, None);
    assert_eq!(place.mark("flights"), before);
    assert_eq!(sums.add_file(&read_to_file(&place, "flights", "3.ndjson")), 30_000);
    sums.assert_are(&totals);
}

/// A table of another server with one way of paging.
fn table(endpoint: &str, data_path: &str, columns: &str, pagination: &str) -> String {
    let data_path = if data_path.is_empty() { String::new() } else { format!("data-path = \"{data_path}\"") };
    format!(
        r#"
base-url = "{{{{BASE}}}}"
http {{ max-retries = 5 }}
tables {{ t {{
  endpoint = "{endpoint}"
  {data_path}
  columns {{ id {{ type = int64 }}, {columns} }}
  pagination {{ {pagination} }}
}} }}
"#
    )
}

fn a_table_arrives(cache: &Cache, server: &Server, name: &str, column: &'static str, config: &str) {
    let place = Place::new(server.base(), config);
    let mut sums = Sums::of(&["id", column]);
    sums.add_file(&read_to_file(&place, "t", "t.ndjson"));
    sums.assert_are(&cache.totals(name));
}

fn airports_of_json_server(endpoint: &str, pagination: &str) {
    let Some(cache) = Cache::with(&["node", "data"]) else { return };
    let config = table(endpoint, "", "alt { type = int64 }", pagination);
    a_table_arrives(&cache, &cache.json_server(), "airports", "alt", &config);
}

#[test]
fn r14_the_airports_arrive_by_offset() {
    airports_of_json_server("/airports", "style = offset, offset-param = _start, page-size-param = _limit");
}

#[test]
fn r14_the_airports_arrive_by_page() {
    let pagination = "style = page, page-param = _page, page-size-param = _limit, max-page-size = 77";
    airports_of_json_server("/airports", pagination);
}

#[test]
fn r17_the_airports_arrive_by_link_header() {
    let pagination = "style = link_header }\n  params { _page = 1, _limit = 90";
    airports_of_json_server("/airports", pagination);
}

fn of_django(endpoint: &str, name: &str, column: &'static str, pagination: &str) {
    let Some(cache) = Cache::with(&["python", "data"]) else { return };
    let config = table(endpoint, "/results", &format!("{column} {{ type = int64 }}"), pagination);
    a_table_arrives(&cache, &cache.django(), name, column, &config);
}

#[test]
fn r14_the_planes_arrive_by_offset_with_a_declared_total() {
    of_django("/offset/planes", "planes", "seats", r#"style = offset, max-page-size = 300, total-path = "/count""#);
}

#[test]
fn r14_the_planes_arrive_by_offset_when_the_server_clamps_the_page_size() {
    of_django("/offset/planes", "planes", "seats", r#"style = offset, max-page-size = 5000, total-path = "/count""#);
}

#[test]
fn r14_the_planes_arrive_by_page_with_a_declared_total() {
    let pagination = r#"style = page, page-size-param = page_size, max-page-size = 250, total-path = "/count""#;
    of_django("/page/planes", "planes", "seats", pagination);
}

#[test]
fn r14_the_weather_arrives_by_an_opaque_cursor_in_a_url() {
    let pagination = r#"style = next_url, next-url-path = "/next", page-size-param = page_size, max-page-size = 2000"#;
    of_django("/cursor/weather", "weather", "hour", pagination);
}

#[test]
fn r14_a_page_after_the_last_that_is_a_404_fails_without_a_declared_total() {
    let Some(cache) = Cache::with(&["python", "data"]) else { return };
    let pagination = "style = page, page-size-param = page_size, max-page-size = 1000";
    let config = table("/page/airports", "/results", "alt { type = int64 }", pagination);
    let server = cache.django();
    Place::new(server.base(), &config).read("t").output().expect(3).says("404");
}

#[test]
fn r19_a_throttled_api_is_read_to_its_end_at_its_own_pace() {
    let Some(cache) = Cache::with(&["python", "data"]) else { return };
    let server = cache.django_of_its_own();
    let pagination = r#"style = offset, max-page-size = 250, total-path = "/count""#;
    let config = table("/throttled/airports", "/results", "alt { type = int64 }", pagination);
    a_table_arrives(&cache, &server, "airports", "alt", &config);
}

#[test]
fn r19_without_retries_the_throttle_is_an_error() {
    let Some(cache) = Cache::with(&["python", "data"]) else { return };
    let server = cache.django_of_its_own();
    let pagination = r#"style = offset, max-page-size = 100, total-path = "/count""#;
    let config = table("/throttled/airports", "/results", "alt { type = int64 }", pagination);
    let config = config.replace("max-retries = 5", "max-retries = 0");
    Place::new(server.base(), &config).read("t").output().expect(3).says("429");
}
