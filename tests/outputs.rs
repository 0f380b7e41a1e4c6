//! Files on real stores: what `read --to` writes there is read back, row by row, and verified (R29).

use std::collections::HashMap;

use restmark::storage::Settings;
use restmark::verify::verify;
use serde_json::{Value, json};

use crate::stores::{Directory, hdfs, s3};
use crate::support::files::{Files, seen};
use crate::support::hdfs::Hdfs;
use crate::support::servers::Cache;
use crate::support::stores::Moto;
use crate::support::{Api, Place, get};

/// A table that keeps its checkpoint and its ledger beside the files, and one in two parts.
const CONFIG: &str = r#"
base-url = "{{BASE}}"
tables {
  kept {
    endpoint = "/rows", columns { id { type = int64 }, name { type = string } }, pagination { style = offset }
    checkpoint { enabled = true, path = "DIR/state", mode = offset }
  }
  parts {
    endpoint = "/rows", columns { id { type = int64 }, name { type = string } }
    partition { type = enum, param = of, values = [a, b] }
  }
}
"#;

fn ids(files: &Files) -> Vec<i64> {
    seen(files, &Files::new()).into_iter().map(|(id, _)| id).collect()
}

/// Two runs of a table with a checkpoint, one of one in parts; a file that is changed is found.
async fn are_read_back(directory: &Directory) {
    let page = |ids: std::ops::Range<i64>| -> Value { ids.map(|id| json!({ "id": id, "name": "é" })).collect() };
    let api = Api::new(vec![
        get("/rows?offset=0&limit=100", &page(0..3)),
        get("/rows?offset=3&limit=100", &json!([])),
        get("/rows?of=a", &page(0..2)),
        get("/rows?of=b", &page(2..3)),
    ]);
    let config = format!("{}\n{}", CONFIG.replace("DIR", &directory.path), directory.block());
    let place = Place::new(&api.base(), &config);
    for format in ["parquet", "ndjson"] {
        let to = format!("{}/{format}", directory.path);
        place.read("parts").args(["--to", &to, "--format", format]).output().expect(0).says("written: ");
        let files = Box::pin(directory.files(format)).await;
        let shown: Vec<_> = files.iter().filter(|(name, _)| !name.starts_with(['.', '_'])).collect();
        assert_eq!((shown.len(), files.len()), (2, 3), "two parts, their manifest, and nothing else");
        assert_eq!(ids(&files), [0, 1, 2]);
    }
    let to = format!("{}/kept", directory.path);
    let read = || place.read("kept").args(["--to", &to]).output().expect(0);
    read();
    api.script(vec![get("/rows?offset=3&limit=100", &page(3..5)), get("/rows?offset=5&limit=100", &json!([]))]);
    read();
    let kept = Box::pin(directory.files("kept")).await;
    let shown = || kept.iter().filter(|(name, _)| !name.starts_with(['.', '_']));
    assert_eq!((ids(&kept), kept.len()), (vec![0, 1, 2, 3, 4], 4), "an epoch each");

    let settings = Settings::new(directory.properties.clone(), &HashMap::new());
    let location = to.parse().unwrap();
    let found = Box::pin(verify(&location, &settings)).await.unwrap();
    assert_eq!((found.manifests, found.whole, found.rows, found.differences.len()), (2, 2, 5, 0));
    let (name, bytes) = shown().next().unwrap();
    let mut other = bytes.clone();
    other[9] ^= 1;
    Box::pin(directory.write(&format!("kept/{name}"), &other)).await;
    let found = Box::pin(verify(&location, &settings)).await.unwrap();
    assert_eq!((found.whole, found.differences.len()), (1, 1));
    assert!(found.differences[0].to_string().contains("checksum"), "{}", found.differences[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn r29_files_on_s3_are_read_back() {
    let Some(cache) = Cache::with(&["moto"]) else { return };
    let moto = Moto::shared(&cache);
    Box::pin(are_read_back(&s3(&moto, "s3a"))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r29_files_on_hdfs_are_read_back() {
    let Some(cache) = Cache::with(&["hadoop"]) else { return };
    let cluster = Hdfs::shared(&cache);
    Box::pin(are_read_back(&hdfs(&cluster))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r29_verify_opens_a_store_by_the_environment() {
    let Some(cache) = Cache::with(&["moto"]) else { return };
    let moto = Moto::shared(&cache);
    let directory = s3(&moto, "s3a");
    let api = Api::new(vec![get("/rows?of=a", &json!([{ "id": 1 }])), get("/rows?of=b", &json!([]))]);
    let config = format!("{}\n{}", CONFIG.replace("DIR", &directory.path), directory.block());
    let place = Place::new(&api.base(), &config);
    let to = format!("{}/out", directory.path);
    place.read("parts").args(["--to", &to]).output().expect(0);
    let env = [
        ("AWS_ENDPOINT_URL", moto.endpoint()),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", "AKIDTEST"),
        ("AWS_SECRET_ACCESS_KEY", "made-up-secret"),
    ];
    let verify = || env.iter().fold(place.run(&["verify", &to]), |run, (name, value)| run.env(name, value)).output();
    verify().expect(0).says("1 file in 1 manifest as written, 1 row");
    let none = place.run(&["verify", "s3a://no-such-bucket/x"]);
    env.iter().fold(none, |run, (name, value)| run.env(name, value)).output().expect(5).says("NoSuchBucket");
}
