//! Streams: windows that meet without gap or overlap whatever the clock says, where they start and how they end (R27).

use std::time::Duration;

use chrono::TimeDelta;
use restmark::ErrorKind;
use restmark::effect::Effects;
use restmark::position::Instant;
use restmark::stream::{BatchReport, Driver, Starting, Trigger};

use crate::crash::Local;
use crate::epochs::{World, at};
use crate::support::Trap;

fn world() -> World {
    World::new(Box::new(Local::new()))
}

/// A clock that goes on at random, now and then backwards, and a stream that ends after so many waits.
struct Random {
    now: std::cell::RefCell<(Instant, fastrand::Rng)>,
    waits: usize,
    batches: Vec<BatchReport>,
}

impl Driver for Random {
    fn now(&self) -> Instant {
        let (now, random) = &mut *self.now.borrow_mut();
        *now += TimeDelta::milliseconds(random.i64(-700..2_000));
        *now
    }

    async fn wait(&mut self, until: Instant) -> bool {
        let (now, random) = self.now.get_mut();
        // A clock that was set back, one that was late, or a machine that slept.
        *now = match random.u8(0..6) {
            0 => *now - TimeDelta::seconds(random.i64(0..5)),
            1 => until + TimeDelta::seconds(random.i64(5..30)),
            _ => until.max(*now),
        };
        self.waits = self.waits.saturating_sub(1);
        self.waits == 0
    }

    fn report(&mut self, batch: BatchReport) {
        self.batches.push(batch);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r27_windows_meet_without_gap_or_overlap_whatever_the_clock_does() {
    for seed in 0..25 {
        let world = world();
        let mut random = fastrand::Rng::with_seed(seed);
        let records: Vec<(i64, i64)> = (0..150).map(|id| (id, random.i64(1..200))).collect();
        world.events(&records, 600);
        let mut stream = world.stream();
        stream.trigger = Trigger::Every(Duration::from_secs(random.u64(0..4)));
        stream.max_window = random.bool().then(|| Duration::from_secs(random.u64(1..9)));
        stream.starting = [Starting::Earliest, Starting::At(at(20)), Starting::Now][random.usize(0..3)];
        let starting = stream.starting;
        let mut clock = at(random.i64(30..40));
        let mut batches: Vec<BatchReport> = vec![];
        for _ in 0..3 {
            let mut driver = Random { now: (clock, random.fork()).into(), waits: random.usize(2..12), batches: vec![] };
            let source = world.source(Effects::default()).expect("a source");
            let ran = stream.run(&source, &std::sync::Arc::default(), &mut driver).await;
            ran.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            clock = driver.now();
            batches.extend(driver.batches);
        }
        for (epoch, pair) in batches.windows(2).enumerate() {
            let (before, after) = (&pair[0], &pair[1]);
            assert_eq!(Some(before.window.end), after.window.start, "seed {seed}, epoch {epoch}");
            assert_eq!(before.epoch + 1, after.epoch, "seed {seed}");
            assert!(after.window.start < Some(after.window.end), "seed {seed}: {:?}", after.window);
        }
        let longest = stream.max_window.map(|longest| TimeDelta::from_std(longest).expect("short"));
        let spans = batches.iter().filter_map(|batch| Some(batch.window.end - batch.window.start?));
        assert!(spans.max() <= longest.or(Some(TimeDelta::MAX)), "seed {seed}");
        let start = batches[0].window.start;
        match starting {
            Starting::Earliest => assert_eq!(start, None),
            Starting::At(instant) => assert_eq!(start, Some(instant)),
            Starting::Now => assert_eq!(start, Some(batches[0].window.end), "seed {seed}"),
        }
        let end = batches.last().expect("a batch").window.end;
        let is_inside = |second: i64| start.is_none_or(|start| at(second) > start) && at(second) <= end;
        let expected: Vec<i64> = records.iter().filter(|(_, second)| is_inside(*second)).map(|(id, _)| *id).collect();
        assert_eq!(world.visible().await, expected, "seed {seed}, {batches:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r27_a_window_ends_with_the_last_second_that_is_over_and_less_the_lag() {
    for (lag, end) in [("", 8), ("lag = 5s, ", 3)] {
        let world = world();
        world.events(&[], 40);
        let conf = std::fs::read_to_string(world.place.path("source.conf")).expect("a configuration");
        world.place.write("source.conf", &conf.replace("timestamp-format", &format!("{lag}timestamp-format")));
        let mut stream = world.stream();
        stream.starting = Starting::At(at(-10) + TimeDelta::milliseconds(999));
        let now = at(9) + TimeDelta::milliseconds(999);
        let batches = world.streamed(&stream, now, Effects::default()).await.expect("a batch");
        assert_eq!(batches.len(), 1);
        assert_eq!(batches[0].window.end, at(end));
        assert_eq!(world.api.asked().len(), 1);
        // Nothing is over since: nothing is asked, nothing is written down.
        let again = world.streamed(&stream, now, Effects::default()).await.expect("no batch");
        assert!(again.is_empty());
        assert_eq!(world.api.asked().len(), 1);
        assert_eq!(world.entries("stream/offsets").await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r27_a_new_stream_records_where_it_starts_and_asks_nothing() {
    let world = world();
    world.events(&[(0, 5), (1, 15)], 40);
    let mut stream = world.stream();
    stream.starting = Starting::Now;
    world.streamed(&stream, at(11), Effects::default()).await.expect("an empty batch");
    assert_eq!(world.api.asked(), [""; 0]);
    assert_eq!(world.visible().await, [0; 0]);
    assert!(world.entries("out").await.is_empty());
    stream.starting = Starting::Earliest;
    world.streamed(&stream, at(21), Effects::default()).await.expect("a batch");
    assert_eq!(world.visible().await, [1], "--starting counts only for a new location");
}

#[tokio::test(flavor = "multi_thread")]
async fn r06_a_stream_of_another_read_or_table_is_refused() {
    let world = world();
    world.events(&[(0, 5)], 40);
    let stream = world.stream();
    world.streamed(&stream, at(11), Effects::default()).await.expect("a batch");
    let conf = std::fs::read_to_string(world.place.path("source.conf")).expect("a configuration");
    world.place.write("source.conf", &conf.replace("\"/events\"", "\"/others\""));
    let error = world.streamed(&stream, at(21), Effects::default()).await.expect_err("another endpoint");
    assert_eq!(error.kind(), ErrorKind::Store);
    assert!(error.to_string().contains("another read"), "{error}");
    let renamed = conf.replace("  events {", "  others {");
    world.place.write("source.conf", &renamed);
    let mut other = stream.clone();
    other.table = "others".into();
    let error = world.streamed(&other, at(21), Effects::default()).await.expect_err("another table");
    assert!(error.kind() == ErrorKind::Store && error.to_string().contains("belongs to table events"), "{error}");
}

#[test]
fn r27_a_stream_that_is_told_to_end_ends_its_batch() {
    let world = world();
    world.events(&[(0, 5)], 40);
    let (arrived, wait) = std::sync::mpsc::channel();
    let (told, go_on) = std::sync::mpsc::channel();
    let hold = move || {
        arrived.send(()).expect("a test");
        let _ = go_on.recv_timeout(crate::support::PATIENCE);
    };
    world.api.at(1, Trap::First(Box::new(hold)));
    let [out, location] = ["out", "stream"].map(|dir| format!("{}/{dir}", world.at.path()));
    let args = ["stream", "CONFIG", "events", "--checkpoint-location", &location, "--to", &out, "--format", "ndjson"];
    let args: Vec<_> = args.into_iter().chain(["--starting", "earliest", "--trigger", "1h"]).collect();
    let running = world.place.run(&args).spawn();
    wait.recv_timeout(crate::support::PATIENCE).expect("a request");
    running.signal("TERM");
    std::thread::sleep(Duration::from_millis(200));
    told.send(()).expect("an API");
    running.output().expect(0);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    assert_eq!(runtime.block_on(world.visible()), [0]);
    assert_eq!(runtime.block_on(world.entries("stream/done")).len(), 1);
}
