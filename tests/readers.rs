//! What restmark writes is read by others: pyarrow, `DuckDB`, deltalake and Spark see the rows of every format (R29).

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::servers::{Cache, app};
use crate::support::{Api, Place, get};

/// A table with a checkpoint: each read of it is an epoch.
const CONFIG: &str = r#"
base-url = "{{BASE}}"
tables { rows {
  endpoint = "/rows", pagination { style = offset }
  columns { id { type = int64 }, name { type = string }, price { type = "decimal(38,2)" }, day { type = date }
            at { type = timestamp }, share { type = float64 }, small { type = int32 }, is { type = boolean } }
  checkpoint { enabled = true, path = "state-FORMAT", mode = offset }
} }
"#;

/// The formats that these readers know.
const ALL: [&str; 4] = ["parquet", "ndjson", "csv", "arrow"];

fn page(ids: std::ops::Range<i64>) -> Value {
    let row = |id: i64| {
        let name = if id % 3 == 0 { Value::Null } else { json!(format!("ö, \"{id}\"")) };
        json!({ "id": id, "name": name, "price": "12345678901234567890123456789012345.67", "day": "2026-02-28",
                "at": "2026-02-28T23:59:59.123456Z", "share": 0.1, "small": 7, "is": id % 2 == 0 })
    };
    ids.map(row).collect()
}

/// Two epochs of each format below a directory: rows 0 to 149, of which every third has no name.
fn written(dir: &Path, formats: &[&str]) -> Vec<String> {
    let to = |format: &str| dir.join(format).display().to_string();
    for format in formats {
        let api = Api::new(vec![
            get("/rows?offset=0&limit=100", &page(0..100)),
            get("/rows?offset=100&limit=100", &json!([])),
        ]);
        let place = Place::new(&api.base(), &CONFIG.replace("FORMAT", format));
        place.read("rows").args(["--to", &to(format), "--format", format]).output().expect(0);
        api.script(vec![
            get("/rows?offset=100&limit=100", &page(100..150)),
            get("/rows?offset=150&limit=100", &json!([])),
        ]);
        place.read("rows").args(["--to", &to(format), "--format", format]).output().expect(0);
    }
    formats.iter().flat_map(|format| [(*format).to_owned(), to(format)]).collect()
}

/// What a reader sees in each directory: rows, the sum of their ids, names that are not NULL.
pub(crate) fn figures(cache: &Cache, reader: &str, of: &[String]) -> Vec<Value> {
    let mut command = Command::new(cache.path("readers/bin/python"));
    command.arg(app("readers.py")).arg(reader).args(of);
    command.env("DELTA_JARS", cache.path("delta")).env("SPARK_LOCAL_IP", "127.0.0.1");
    let done = command.output().expect("Python starts");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{reader}: {said}");
    crate::support::run::rows(&String::from_utf8_lossy(&done.stdout))
}

/// Rows 0 to 149.
pub(crate) fn whole() -> Value {
    json!([150, 149 * 150 / 2, 100])
}

#[test]
fn r29_pyarrow_reads_every_format() {
    let Some(cache) = Cache::with(&["readers"]) else { return };
    let dir = tempfile::tempdir().unwrap();
    let seen = figures(&cache, "arrow", &written(dir.path(), &ALL));
    assert_eq!(seen, vec![whole(); 4]);
}

#[test]
fn r29_duckdb_reads_every_format_that_it_knows() {
    let Some(cache) = Cache::with(&["readers"]) else { return };
    let dir = tempfile::tempdir().unwrap();
    let seen = figures(&cache, "duckdb", &written(dir.path(), &ALL[..3]));
    assert_eq!(seen, vec![whole(); 3]);
}

#[test]
fn r29_spark_reads_every_format_that_it_knows() {
    let Some(cache) = Cache::with(&["readers", "delta"]) else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut formats = ALL[..3].to_vec();
    if cfg!(feature = "delta") {
        formats.push("delta");
    }
    let seen = figures(&cache, "spark", &written(dir.path(), &formats));
    assert_eq!(seen, vec![whole(); formats.len()]);
}

#[cfg(feature = "delta")]
#[test]
fn r29_deltalake_and_duckdb_read_a_delta_table() {
    let Some(cache) = Cache::with(&["readers"]) else { return };
    let dir = tempfile::tempdir().unwrap();
    let of = written(dir.path(), &["delta"]);
    for reader in ["arrow", "duckdb"] {
        assert_eq!(figures(&cache, reader, &of), [whole()], "{reader}");
    }
}
