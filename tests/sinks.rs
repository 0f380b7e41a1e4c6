//! Places and their sinks are held to one suite: directories of every format on every kind of store, Delta tables, and one
//! that is not ours (R29).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use futures::future::BoxFuture;
use restmark::integrity::Crc;
use restmark::run::{BatchRun, Outcome};
use restmark::sink::suite::{self, Row, Subject};
use restmark::sink::{Destination, Directory, Epoch, Finished, Format, Output, Part, Place, Sink, StagedFile, Writer};
use restmark::storage::Settings;
use restmark::{ErrorKind, Result, Source};
use serde_json::json;

use crate::crash::{Local, Shelf};
use crate::stores::{hdfs, s3};
use crate::support::files::{Files, of_batch, seen};
use crate::support::hdfs::Hdfs;
use crate::support::servers::Cache;
use crate::support::stores::Moto;
use crate::support::{Api, get};

/// A directory of a store under test.
struct Of<'a> {
    at: &'a (dyn Shelf + Sync),
    properties: BTreeMap<String, String>,
    format: Format,
}

impl Of<'_> {
    fn to(&self) -> String {
        format!("{}/out {:?}", self.at.path(), self.format)
    }

    async fn files(&self, below: &str) -> Files {
        self.at.files(&format!("out {:?}{below}", self.format)).await
    }
}

impl Subject for Of<'_> {
    fn open(&self) -> Arc<dyn Place> {
        let settings = Settings::new(self.properties.clone(), &HashMap::new());
        Arc::new(Directory::new(self.to().parse().expect("a location"), self.format, settings))
    }

    fn rows(&self) -> BoxFuture<'_, Result<Vec<Row>, String>> {
        Box::pin(async move { Ok(seen(&self.files("").await, &self.files("/_delta_log").await)) })
    }

    fn hidden(&self) -> BoxFuture<'_, Result<usize, String>> {
        Box::pin(async move { Ok(self.files("").await.keys().filter(|name| name.starts_with('.')).count()) })
    }
}

const FORMATS: &[Format] = &[
    Format::Parquet,
    Format::Ndjson,
    Format::Csv,
    Format::Arrow,
    #[cfg(feature = "delta")]
    Format::Delta,
];

async fn keep_the_suite(at: &(dyn Shelf + Sync), properties: &BTreeMap<String, String>, formats: &[Format]) {
    for format in formats {
        let of = Of { at, properties: properties.clone(), format: *format };
        suite::run(&of).await.unwrap_or_else(|broken| panic!("{format:?}: {broken}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r29_directories_of_this_machine_keep_the_suite() {
    keep_the_suite(&Local::new(), &BTreeMap::new(), FORMATS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r29_directories_on_s3_keep_the_suite() {
    let Some(cache) = Cache::with(&["moto"]) else { return };
    let moto = Moto::shared(&cache);
    let directory = s3(&moto, "s3a");
    keep_the_suite(&directory, &directory.properties, FORMATS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r29_directories_on_hdfs_keep_the_suite() {
    let Some(cache) = Cache::with(&["hadoop"]) else { return };
    let cluster = Hdfs::shared(&cache);
    let directory = hdfs(&cluster);
    let formats: Vec<_> =
        FORMATS.iter().copied().filter(|format| matches!(format, Format::Parquet | Format::Delta)).collect();
    keep_the_suite(&directory, &directory.properties, &formats).await;
}

/// What a place of somebody else's holds: staged under (ledger, epoch, run, part), and shown.
#[derive(Debug, Default)]
struct Held {
    staged: BTreeMap<String, Vec<Row>>,
    shown: BTreeMap<String, Vec<Row>>,
}

/// What is wrong with one, so that the suite has something to find.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Flaw {
    None,
    ShowsAtOnce,
    ShowsEverything,
    ShowsAgain,
    Forgets,
    Miscounts,
    SweepsAll,
    NeverSweeps,
    KeepsWithdrawn,
}

/// A place in memory.
#[derive(Debug, Clone)]
struct Memory {
    held: Arc<Mutex<Held>>,
    flaw: Flaw,
}

#[derive(Debug)]
struct MemorySink {
    place: Memory,
    epoch: Epoch,
}

#[derive(Debug)]
struct MemoryWriter {
    place: Memory,
    key: String,
    part: Part,
    rows: Vec<Row>,
    content: Crc,
}

impl Memory {
    fn new(flaw: Flaw) -> Self {
        Self { held: Arc::default(), flaw }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().expect("nobody panics")
    }
}

impl Place for Memory {
    fn name(&self) -> String {
        "memory of the tests".to_owned()
    }

    fn open<'a>(&'a self, _: &'a str, epoch: &'a Epoch, _: usize) -> BoxFuture<'a, Result<Box<dyn Sink>>> {
        let sink = MemorySink { place: self.clone(), epoch: epoch.clone() };
        Box::pin(async move { Ok(Box::new(sink) as Box<dyn Sink>) })
    }
}

impl Sink for MemorySink {
    fn part(&self, part: Part) -> Result<Box<dyn Writer>> {
        let Epoch { ledger, number, run } = &self.epoch;
        let (place, key) = (self.place.clone(), format!("{ledger}/{number:06}/{run}/{part}"));
        Ok(Box::new(MemoryWriter { place, key, part, rows: vec![], content: Crc::new() }))
    }

    fn publish<'a>(&'a self, parts: &'a [Finished]) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(async move {
            let mut held = self.place.held();
            let mut keys: Vec<String> =
                parts.iter().filter_map(|part| Some(part.file.as_ref()?.staged.clone())).collect();
            if self.place.flaw == Flaw::ShowsEverything {
                keys = held.staged.keys().cloned().collect();
            }
            for key in keys {
                if let Some(rows) = held.staged.remove(&key) {
                    held.shown.insert(key, rows);
                } else if self.place.flaw == Flaw::ShowsAgain
                    && let Some(rows) = held.shown.get(&key).cloned()
                {
                    held.shown.insert(format!("{key} again"), rows);
                }
            }
            Ok(vec![])
        })
    }

    fn withdraw<'a>(&'a self, parts: &'a [Finished]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut held = self.place.held();
            for key in parts.iter().filter_map(|part| Some(&part.file.as_ref()?.staged)) {
                let rows = held.staged.remove(key);
                held.shown.remove(key);
                if self.place.flaw == Flaw::KeepsWithdrawn {
                    held.shown.insert(key.clone(), rows.unwrap_or_default());
                }
            }
        })
    }

    fn sweep(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let Epoch { ledger, number, run } = &self.epoch;
            let last = format!("{ledger}/{number:06}/~");
            let own = format!("{ledger}/{number:06}/{run}/");
            self.place.held().staged.retain(|key, _| match self.place.flaw {
                Flaw::SweepsAll => false,
                Flaw::NeverSweeps => true,
                _ => !key.starts_with(&format!("{ledger}/")) || *key > last || key.starts_with(&own),
            });
            Ok(())
        })
    }
}

impl Writer for MemoryWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows.extend(of_batch(batch));
        self.content.add_batch(batch)
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        let (rows, mut held) = (self.rows.len() as u64, self.place.held());
        match self.place.flaw {
            Flaw::Forgets => {
                held.staged.insert(self.key.clone(), self.rows[..self.rows.len().saturating_sub(1)].to_vec())
            }
            Flaw::ShowsAtOnce => held.shown.insert(self.key.clone(), self.rows),
            _ => held.staged.insert(self.key.clone(), self.rows),
        };
        drop(held);
        let staged = StagedFile { staged: self.key.clone(), name: self.key, bytes: 0, crc: 0 };
        let rows = if self.place.flaw == Flaw::Miscounts { rows + 1 } else { rows };
        Ok(Finished { part: self.part, rows, content: self.content.value(), file: Some(staged) })
    }
}

impl Subject for Memory {
    fn open(&self) -> Arc<dyn Place> {
        Arc::new(self.clone())
    }

    fn rows(&self) -> BoxFuture<'_, Result<Vec<Row>, String>> {
        Box::pin(async move { Ok(self.held().shown.values().flatten().cloned().collect()) })
    }

    fn hidden(&self) -> BoxFuture<'_, Result<usize, String>> {
        Box::pin(async move { Ok(self.held().staged.len()) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r29_a_sink_of_somebody_else_keeps_the_suite_and_flaws_are_found() {
    suite::run(&Memory::new(Flaw::None)).await.unwrap();
    for (flaw, found) in [
        (Flaw::ShowsAtOnce, "publish: "),
        (Flaw::Miscounts, "publish: "),
        (Flaw::Forgets, "publish: "),
        (Flaw::ShowsEverything, "parts at once: "),
        (Flaw::ShowsAgain, "twice: "),
        (Flaw::NeverSweeps, "two attempts: "),
        (Flaw::KeepsWithdrawn, "parts at once: "),
        (Flaw::SweepsAll, "others: "),
    ] {
        let said = suite::run(&Memory::new(flaw)).await.expect_err("a flaw");
        assert!(said.starts_with(found), "{flaw:?}: {said}");
    }
}

/// Rows by offset, with a checkpoint and without.
const CONFIG: &str = r#"
base-url = "{{BASE}}"
tables {
  kept { endpoint = "/rows", columns { id { type = int64 } }, pagination { style = offset }
         checkpoint { enabled = true, path = "state", mode = offset } }
  whole { endpoint = "/rows", columns { id { type = int64 } }, pagination { style = offset } }
}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn r29_a_place_of_your_own_takes_epochs_and_finishes_what_was_decided() {
    let api = Api::new(vec![
        get("/rows?offset=0&limit=100", &json!([{ "id": 0 }, { "id": 1 }])),
        get("/rows?offset=2&limit=100", &json!([])),
    ]);
    let world = crate::support::Place::new(&api.base(), CONFIG);
    let memory = Memory::new(Flaw::None);
    let output = |own: &Memory| Output {
        destination: Destination::Own(Arc::new(own.clone())),
        format: Format::default(),
        existing: None,
    };
    let run = async |table: &str, output: Output| {
        let source = Source::open(world.path("source.conf")).expect("a source");
        let run = BatchRun::new(table, output);
        let ended = run.run(&source, chrono::Utc::now(), &Arc::default(), std::future::pending()).await?;
        Ok::<_, restmark::Error>(matches!(ended, Outcome::Done(_)))
    };
    let ids = |own: &Memory| own.held().shown.values().flatten().map(|(id, _)| *id).collect::<Vec<_>>();
    assert!(run("kept", output(&memory)).await.unwrap());
    assert_eq!(ids(&memory), [0, 1]);
    // Decided and not shown: the process ended in between.
    let state = world.path("state");
    std::fs::remove_file(state.join("kept.ledger/done/0")).unwrap();
    let shown = std::mem::take(&mut memory.held().shown);
    memory.held().staged = shown;
    let elsewhere = run("kept", Output::directory(world.path("out"), Format::Ndjson)).await.unwrap_err();
    assert_eq!(elsewhere.kind(), ErrorKind::Store);
    assert!(elsewhere.to_string().contains("memory of the tests"), "{elsewhere}");
    assert!(ids(&memory).is_empty());
    assert!(run("kept", output(&memory)).await.unwrap());
    assert_eq!(ids(&memory), [0, 1], "shown once");
    // Without a checkpoint every run is an epoch of its own.
    let other = Memory::new(Flaw::None);
    for _ in 0..2 {
        assert!(run("whole", output(&other)).await.unwrap());
    }
    assert_eq!(ids(&other), [0, 1, 0, 1]);
    let moded = Output { existing: Some(restmark::sink::Existing::Overwrite), ..output(&other) };
    assert_eq!(run("whole", moded).await.unwrap_err().kind(), ErrorKind::Config);
}
