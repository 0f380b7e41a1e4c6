//! What somebody sees who reads a directory: the rows of the files in sight, or those that the log of a Delta table names.

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use serde_json::Value;

/// Names and bytes of the files in a directory.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// The ids and names of all rows in a directory, as they stand in its files; `log` is its `_delta_log`.
pub(crate) fn seen(files: &Files, log: &Files) -> Vec<(i64, Option<String>)> {
    let named = held(log);
    let is_seen = |name: &String| match &named {
        None => !name.starts_with(['.', '_']),
        Some(named) => named.contains(name),
    };
    if let Some(lacking) = named.iter().flatten().find(|name| !files.contains_key(*name)) {
        panic!("the log names {lacking}, which is not there");
    }
    files.iter().filter(|(name, _)| is_seen(name)).flat_map(|(name, bytes)| rows(name, bytes)).collect()
}

/// The files that the commits of a log leave; `None` where there is no log.
fn held(log: &Files) -> Option<BTreeSet<String>> {
    let commits = log.iter().filter(|(name, _)| name.strip_suffix(".json").is_some_and(|stem| stem.len() == 20));
    let mut held = BTreeSet::new();
    let mut count = 0;
    for (place, (name, bytes)) in commits.enumerate() {
        assert_eq!(*name, format!("{place:020}.json"), "versions have no gaps");
        for line in std::str::from_utf8(bytes).expect("a text").lines() {
            let action: Value = serde_json::from_str(line).expect("JSON");
            let path = |action: &Value| action["path"].as_str().map(str::to_owned);
            if let Some(path) = path(&action["add"]) {
                assert!(held.insert(path.clone()), "{path} is added twice");
            }
            if let Some(path) = path(&action["remove"]) {
                held.remove(&path);
            }
        }
        count += 1;
    }
    (count > 0).then_some(held)
}

fn rows(name: &str, bytes: &[u8]) -> Vec<(i64, Option<String>)> {
    let text = || std::str::from_utf8(bytes).expect("a text");
    let owned = || bytes::Bytes::copy_from_slice(bytes);
    match name.rsplit('.').next().unwrap_or_default() {
        "ndjson" => super::run::rows(text())
            .iter()
            .map(|row| (row["id"].as_i64().expect("an id"), row["name"].as_str().map(str::to_owned)))
            .collect(),
        "csv" => text()
            .lines()
            .skip(1)
            .map(|line| {
                let mut cells = line.split(',');
                let id = cells.next().expect("an id").parse().expect("a number");
                (id, cells.next().filter(|name| !name.is_empty()).map(str::to_owned))
            })
            .collect(),
        "arrow" => {
            let reader = arrow_ipc::reader::FileReader::try_new(std::io::Cursor::new(owned()), None).expect("a file");
            reader.flat_map(|batch| of_batch(&batch.expect("a batch"))).collect()
        }
        "parquet" => {
            let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(owned(), 100).expect("a file");
            reader.flat_map(|batch| of_batch(&batch.expect("a batch"))).collect()
        }
        other => panic!("a file of {other:?}: {name}"),
    }
}

/// The rows of a batch.
pub(crate) fn of_batch(batch: &RecordBatch) -> Vec<(i64, Option<String>)> {
    let ids = batch.column_by_name("id").expect("ids").as_primitive::<Int64Type>();
    let names = batch.column_by_name("name").map(AsArray::as_string::<i32>);
    let name = |row: usize| {
        names.and_then(|names| arrow_array::Array::is_valid(names, row).then(|| names.value(row).to_owned()))
    };
    ids.values().iter().enumerate().map(|(row, id)| (*id, name(row))).collect()
}
