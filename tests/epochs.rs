//! Epochs under crashes: stopped at any effect of ledger, output and checkpoint, every row is in the output once, and nothing
//! is ever seen that was not committed (R28, R29).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use chrono::DateTime;
use restmark::effect::{Effects, Stop};
use restmark::position::Instant;
use restmark::run::BatchRun;
use restmark::sink::{Destination, Format, Output};
use restmark::storage::Location;
use restmark::stream::{BatchReport, Driver, Starting, Stream, Trigger};
use restmark::{ErrorKind, Position, Source};
use serde_json::{Value, json};

use crate::crash::{Local, Shelf, stopping};
use crate::stores::{hdfs, s3};
use crate::support::files::seen;
use crate::support::hdfs::Hdfs;
use crate::support::servers::Cache;
use crate::support::stores::Moto;
use crate::support::{Api, Place, get};

/// One table for batch runs, one to be streamed.
const CONFIG: &str = r#"
base-url = "{{BASE}}"
http { max-retries = 0 }
tables {
  rows {
    endpoint = "/rows"
    pagination { style = offset, max-page-size = 3 }
    columns { id { type = int64 } }
    checkpoint { enabled = true, path = "CKPT", mode = offset }
  }
  events {
    endpoint = "/events"
    columns { id { type = int64 }, ts { type = int64 } }
    checkpoint { enabled = true, path = "CKPT", mode = timestamp, timestamp-path = "/ts", timestamp-param = since
                 timestamp-format = epoch-s, dedup-key = "/id" }
  }
}
"#;

/// The second in which the world began.
pub(crate) const BEGAN: i64 = 1_767_225_600;

/// How many rows there are when each of three runs begins.
const SIZES: [i64; 3] = [4, 7, 9];

pub(crate) fn at(seconds: i64) -> Instant {
    DateTime::from_timestamp(BEGAN + seconds, 0).expect("a second")
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Batch,
    Stream,
}

/// An API, where its table goes, and where that is remembered.
pub(crate) struct World {
    pub(crate) api: Api,
    pub(crate) place: Place,
    pub(crate) at: Box<dyn Shelf>,
    format: Format,
}

/// A clock that stands; nobody asks the stream to end.
pub(crate) struct Stands(pub(crate) Instant, pub(crate) Vec<BatchReport>);

impl Driver for Stands {
    fn now(&self) -> Instant {
        self.0
    }

    async fn wait(&mut self, _at: Instant) -> bool {
        false
    }

    fn report(&mut self, batch: BatchReport) {
        self.1.push(batch);
    }
}

impl World {
    pub(crate) fn new(at: Box<dyn Shelf>) -> Self {
        Self::of(at, Format::Ndjson)
    }

    /// One whose output is of this format.
    fn of(at: Box<dyn Shelf>, format: Format) -> Self {
        let api = Api::new(vec![]);
        let config = CONFIG.replace("CKPT", &at.path());
        let place = Place::new(&api.base(), &format!("{config}\n{}", at.properties()));
        Self { api, place, at, format }
    }

    /// So many rows for batch runs.
    pub(crate) fn rows(&self, rows: i64) {
        let page = |from: i64| (from..rows.min(from + 3)).map(|id| json!({ "id": id })).collect::<Vec<_>>();
        let target = |from: i64| format!("/rows?offset={from}&limit=3");
        self.api.script((0..=rows).map(|from| get(&target(from), &json!(page(from)))).collect());
    }

    /// These records of (id, second) for streams, if it is asked since one of these seconds: also what is later than a window.
    pub(crate) fn events(&self, records: &[(i64, i64)], asked: Range<i64>) {
        let since = |from: i64| -> Vec<Value> {
            let later = records.iter().filter(|(_, at)| *at >= from);
            later.map(|(id, at)| json!({ "id": id, "ts": BEGAN + at })).collect()
        };
        let ask = |from: i64| get(&format!("/events?since={}", BEGAN + from), &json!(since(from)));
        let first = get("/events", &json!(since(i64::MIN)));
        self.api.script(asked.map(ask).chain([first]).collect());
    }

    pub(crate) fn output(&self) -> Output {
        let to = format!("{}/out", self.at.path());
        Output { destination: Destination::parse(&to).expect("a place"), format: self.format, existing: None }
    }

    pub(crate) fn source(&self, effects: Effects) -> restmark::Result<Source> {
        let source = Source::open(self.place.path("source.conf"))?;
        Ok(source.checkpoints_in(&self.at.store(effects.clone())).watched(effects))
    }

    pub(crate) async fn batch(&self, table: &str, effects: Effects) -> restmark::Result<()> {
        let run = BatchRun::new(table, self.output());
        let source = self.source(effects)?;
        run.run(&source, at(100_000), &Arc::default(), std::future::pending()).await.map(|_| ())
    }

    pub(crate) fn stream(&self) -> Stream {
        let location: Location = format!("{}/stream", self.at.path()).parse().expect("a location");
        Stream {
            table: "events".into(),
            location,
            output: self.output(),
            trigger: Trigger::AvailableNow,
            starting: Starting::Earliest,
            max_window: None,
            allowed_lateness: std::time::Duration::ZERO,
        }
    }

    /// Everything that is available when the clock shows `now`.
    pub(crate) async fn streamed(
        &self,
        stream: &Stream,
        now: Instant,
        effects: Effects,
    ) -> restmark::Result<Vec<BatchReport>> {
        let mut driver = Stands(now, vec![]);
        let source = self.source(effects)?;
        stream.run(&source, &Arc::default(), &mut driver).await.map(|()| driver.1)
    }

    /// One of the three runs, of one kind.
    async fn run(&self, kind: Kind, round: usize, effects: Effects) -> restmark::Result<()> {
        match kind {
            Kind::Batch => self.batch("rows", effects).await,
            Kind::Stream => {
                let now = at(10 * i64::try_from(round).expect("small") + 11);
                self.streamed(&self.stream(), now, effects).await.map(|_| ())
            }
        }
    }

    fn tell(&self, kind: Kind, round: usize) {
        match kind {
            Kind::Batch => self.rows(SIZES[round]),
            Kind::Stream => {
                let window = |id: i64| SIZES.iter().filter(|size| **size <= id).count();
                let second = |id: i64| 10 * i64::try_from(window(id)).expect("small") + 1 + id;
                self.events(&(0..SIZES[2]).map(|id| (id, second(id))).collect::<Vec<_>>(), 0..40);
            }
        }
    }

    /// The ids that anybody can see, in order.
    pub(crate) async fn visible(&self) -> Vec<i64> {
        let (files, log) = (self.at.files("out").await, self.at.files("out/_delta_log").await);
        let mut seen: Vec<i64> = seen(&files, &log).into_iter().map(|(id, _)| id).collect();
        seen.sort_unstable();
        seen
    }

    pub(crate) async fn entries(&self, dir: &str) -> BTreeMap<String, String> {
        let mut files = self.at.files(dir).await;
        files.retain(|name, _| !name.starts_with(['.', '_']));
        let text = |bytes| String::from_utf8(bytes).expect("a text");
        files.into_iter().map(|(name, bytes)| (name, text(bytes))).collect()
    }
}

/// Three runs that are stopped at every `step`th effect, in each way.
async fn stopped_everywhere(kind: Kind, format: Format, fresh: impl Fn() -> Box<dyn Shelf>, step: usize) {
    let ways = [Stop::Before, Stop::Torn, Stop::After].into_iter().enumerate().map(async |(shift, stop)| {
        let mut k = shift % step;
        while stopped_at(kind, &World::of(fresh(), format), stop, k).await {
            k += step;
        }
        assert!(k > 10, "three runs have more effects than {k}");
    });
    futures::future::join_all(ways).await;
}

/// Whether there was an effect k to be stopped at.
async fn stopped_at(kind: Kind, world: &World, stop: Stop, k: usize) -> bool {
    let case = format!("{kind:?}, {:?}, {stop:?} effect {k}", world.format);
    let ledger = if kind == Kind::Batch { "rows.ledger" } else { "stream" };
    let (mut effects, reached) = stopping(k, stop);
    let mut before = 0;
    for (round, after) in SIZES.into_iter().enumerate() {
        world.tell(kind, round);
        let ended = world.run(kind, round, effects.clone()).await;
        world.at.power_cut();
        let seen = world.visible().await;
        let all: Vec<i64> = (0..after).collect();
        let committed = world.entries(&format!("{ledger}/commits")).await.len();
        if reached.load(Ordering::SeqCst) > k {
            let none: Vec<i64> = (0..before).collect();
            assert!(seen == none || seen == all, "{case}: half an epoch is visible: {seen:?}");
            assert!(seen == none || committed > round, "{case}: {seen:?} is visible and was not committed");
            effects = Effects::default();
            world.run(kind, round, effects.clone()).await.unwrap_or_else(|e| panic!("{case}, once more: {e}"));
        } else {
            ended.unwrap_or_else(|e| panic!("{case}: {e}"));
        }
        assert_eq!(world.visible().await, all, "{case}, after run {round}");
        before = after;
    }
    let source = world.source(Effects::default()).expect("a source");
    let stands = source.checkpoints().load("rows").await.expect("a checkpoint").map(|c| c.position);
    assert_eq!(stands, (kind == Kind::Batch).then_some(Position::Offset(9)), "{case}");
    // What a creator left on HDFS is swept by its age, after an hour.
    let is_left = |name: &String| name.starts_with('.') && !name.ends_with(".created");
    let hidden = world.at.files("out").await.into_keys().filter(is_left).collect::<Vec<_>>();
    assert_eq!(hidden, [""; 0], "{case}: swept at the end");
    reached.load(Ordering::SeqCst) > k
}

#[tokio::test(flavor = "multi_thread")]
async fn r29_three_runs_stopped_at_any_effect_show_each_row_once() {
    for format in [Format::Ndjson, Format::Parquet, Format::Arrow, Format::Csv] {
        stopped_everywhere(Kind::Batch, format, || Box::new(Local::new()), 1).await;
    }
}

#[cfg(feature = "delta")]
#[tokio::test(flavor = "multi_thread")]
async fn r29_runs_and_streams_into_a_delta_table_stopped_at_any_effect_show_each_row_once() {
    for kind in [Kind::Batch, Kind::Stream] {
        stopped_everywhere(kind, Format::Delta, || Box::new(Local::new()), 1).await;
    }
}

#[cfg(feature = "delta")]
#[tokio::test(flavor = "multi_thread")]
async fn r29_runs_into_a_delta_table_on_s3_stopped_at_effects_show_each_row_once() {
    let Some(cache) = Cache::with(&["moto"]) else { return };
    let moto = Moto::shared(&cache);
    stopped_everywhere(Kind::Batch, Format::Delta, || Box::new(s3(&moto, "s3a")), 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r28_a_stream_stopped_at_any_effect_shows_each_row_once() {
    for format in [Format::Ndjson, Format::Parquet] {
        stopped_everywhere(Kind::Stream, format, || Box::new(Local::new()), 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r29_runs_and_streams_stopped_at_effects_of_s3_show_each_row_once() {
    let Some(cache) = Cache::with(&["moto"]) else { return };
    let moto = Moto::shared(&cache);
    for kind in [Kind::Batch, Kind::Stream] {
        stopped_everywhere(kind, Format::Ndjson, || Box::new(s3(&moto, "s3a")), 3).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r29_runs_and_streams_stopped_at_effects_of_hdfs_show_each_row_once() {
    let Some(cache) = Cache::with(&["hadoop"]) else { return };
    let cluster = Hdfs::shared(&cache);
    for kind in [Kind::Batch, Kind::Stream] {
        stopped_everywhere(kind, Format::Ndjson, || Box::new(hdfs(&cluster)), 3).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r08_two_runners_at_once_show_each_row_once() {
    let world = World::new(Box::new(Local::new()));
    let (mut rows, mut conflicts) = (0, 0);
    for round in 0..60 {
        rows += 2;
        world.rows(rows);
        let run = || world.batch("rows", Effects::default());
        let (one, other, third) = tokio::join!(run(), run(), run());
        let lost: Vec<_> = [one, other, third].into_iter().filter_map(Result::err).collect();
        let wrong = lost.iter().find(|error| error.kind() != ErrorKind::Conflict);
        assert!(wrong.is_none(), "round {round}: {}", wrong.expect("an error"));
        conflicts += lost.len();
        let seen = world.visible().await;
        assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "round {round}: twice: {seen:?}");
        if lost.len() == 3 {
            world.batch("rows", Effects::default()).await.expect("what is left of the winner's epoch");
        }
        assert_eq!(world.visible().await, (0..rows).collect::<Vec<_>>(), "round {round}");
    }
    assert!(conflicts > 0, "runners that never meet prove nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn r28_two_runners_of_a_stream_show_each_row_once() {
    let world = World::new(Box::new(Local::new()));
    let rounds = 40;
    world.events(&(0..rounds * 3).map(|id| (id, id + 1)).collect::<Vec<_>>(), 0..rounds * 3 + 10);
    let mut stream = world.stream();
    stream.max_window = Some(std::time::Duration::from_secs(1));
    for round in 1..=rounds {
        let run = || world.streamed(&stream, at(round * 3 + 1), Effects::default());
        let (one, other) = tokio::join!(run(), run());
        for error in [one.err(), other.err()].into_iter().flatten() {
            assert_eq!(error.kind(), ErrorKind::Conflict, "round {round}: {error}");
        }
        let seen = world.visible().await;
        assert!(seen.iter().copied().eq((0..).take(seen.len())), "round {round}: {seen:?}");
        run().await.expect("what they left");
        assert_eq!(world.visible().await, (0..round * 3).collect::<Vec<_>>(), "round {round}");
    }
}

/// What an API holds: ids and seconds.
struct Changing {
    records: Vec<(i64, i64)>,
    next: i64,
    now: i64,
    random: fastrand::Rng,
}

impl Changing {
    /// Inserts, updates, deletions, another order, and seconds that several records share.
    fn change(&mut self) {
        for _ in 0..self.random.usize(1..6) {
            self.now += self.random.i64(0..2);
            match self.random.u8(0..6) {
                0 if !self.records.is_empty() => {
                    let gone = self.random.usize(0..self.records.len());
                    self.records.remove(gone);
                }
                1 if !self.records.is_empty() => {
                    let updated = self.random.usize(0..self.records.len());
                    self.records[updated].1 = self.now;
                }
                _ => {
                    self.records.push((self.next, self.now));
                    self.next += 1;
                }
            }
        }
        self.random.shuffle(&mut self.records);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r03_an_api_that_changes_between_crash_and_resume_loses_no_row() {
    for seed in 0..40 {
        let world = World::new(Box::new(Local::new()));
        let mut api = Changing { records: vec![], next: 0, now: 0, random: fastrand::Rng::with_seed(seed) };
        for _ in 0..6 {
            api.change();
            world.events(&api.records, 0..api.now + 1);
            let stop = [Stop::Before, Stop::Torn, Stop::After][api.random.usize(0..3)];
            let (effects, _) = stopping(api.random.usize(0..60), stop);
            let _ = world.batch("events", effects).await;
            api.change();
            world.events(&api.records, 0..api.now + 1);
            world.batch("events", Effects::default()).await.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        }
        let files = world.entries("out").await;
        let mut stored: Vec<(i64, i64)> = files
            .values()
            .flat_map(|text| crate::support::run::rows(text))
            .map(|row| (row["id"].as_i64().expect("an id"), row["ts"].as_i64().expect("a second") - BEGAN))
            .collect();
        stored.sort_unstable();
        let twice = stored.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(twice, None, "seed {seed}: the same record twice");
        let lost: Vec<_> = api.records.iter().filter(|record| !stored.contains(record)).collect();
        assert!(lost.is_empty(), "seed {seed}: {lost:?} never came");
    }
}

/// Rounds of a test that kills the binary.
fn rounds() -> usize {
    std::env::var("RESTMARK_KILL_ROUNDS").map_or(30, |rounds| rounds.parse().expect("a number"))
}

/// The outputs that a binary is killed with; those of the soak are all, as often as `RESTMARK_KILL_ROUNDS` says.
fn killed_with() -> Vec<&'static str> {
    let mut formats = vec!["ndjson"];
    if cfg!(feature = "delta") {
        formats.push("delta");
    }
    if std::env::var_os("RESTMARK_KILL_ROUNDS").is_some() {
        formats.extend(["parquet", "csv", "arrow"]);
    }
    formats
}

#[test]
fn r29_a_binary_killed_at_random_shows_each_row_once() {
    for format in killed_with() {
        killed_at_random(format);
    }
}

fn killed_at_random(format: &str) {
    let world = World::new(Box::new(Local::new()));
    let out = format!("{}/out", world.at.path());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut random = fastrand::Rng::with_seed(11);
    let (mut rows, mut killed) = (0, 0);
    for round in 0..rounds() {
        rows += 2;
        world.rows(rows);
        let running = world.place.run(&["read", "CONFIG", "rows", "--to", &out, "--format", format]).spawn();
        std::thread::sleep(std::time::Duration::from_micros(random.u64(0..60_000)));
        running.signal("KILL");
        match running.output() {
            ended if ended.code.is_none() => killed += 1,
            ended => drop(ended.expect(0)),
        }
        let seen = runtime.block_on(world.visible());
        assert!(seen.iter().copied().eq((0..).take(seen.len())), "{format}, round {round}: {seen:?}");
    }
    world.place.run(&["read", "CONFIG", "rows", "--to", &out, "--format", format]).output().expect(0);
    assert_eq!(runtime.block_on(world.visible()), (0..rows).collect::<Vec<_>>(), "{format}");
    assert!(killed > 0, "{format}: nobody was killed");
}

#[test]
fn r28_a_stream_killed_at_random_shows_each_row_once() {
    let world = World::new(Box::new(Local::new()));
    let out = format!("{}/out", world.at.path());
    let location = format!("{}/stream", world.at.path());
    let began = at(0).to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    let args = ["stream", "CONFIG", "events", "--checkpoint-location", &location, "--to", &out, "--format", "ndjson"];
    let args: Vec<_> = args.into_iter().chain(["--starting", &began, "--max-window", "2s"]).collect();
    // A record every second since then; what is asked for next is not far from what is there.
    let records = |from: i64, to: i64| (from.max(1)..=to).map(|second| (second - 1, second)).collect::<Vec<_>>();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut random = fastrand::Rng::with_seed(12);
    let (mut stored, mut killed) = (0, 0);
    for round in 0..rounds() {
        world.events(&records(stored - 4, stored + 200), stored - 4..stored + 100);
        let running = world.place.run(&args).spawn();
        std::thread::sleep(std::time::Duration::from_micros(random.u64(0..150_000)));
        running.signal("KILL");
        killed += usize::from(running.output().code.is_none());
        let seen = runtime.block_on(world.visible());
        assert!(seen.iter().copied().eq((0..).take(seen.len())), "round {round}: {seen:?}");
        stored = i64::try_from(seen.len()).expect("small");
    }
    // Whatever is left in one window.
    world.events(&records(stored - 4, stored + 50), stored - 4..stored + 10);
    world.place.run(&args[..args.len() - 2]).output().expect(0);
    assert_eq!(runtime.block_on(world.visible()), (0..stored + 50).collect::<Vec<_>>());
    assert!(killed > 0 && stored > 0, "neither may be rare: {killed} killed, {stored} stored");
}
