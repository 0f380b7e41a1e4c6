//! Crash everywhere: a run that ends at any effect of its store, or is killed at any instant, loses no row, leaves no
//! checkpoint that cannot be read, and never moves one back.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::Utc;
use futures::future::BoxFuture;
use restmark::effect::{Effects, Stop};
use restmark::run::{BatchRun, Outcome};
use restmark::sink::{Format, Output};
use restmark::{CheckpointStore, Position, Source};
use serde_json::{Value, json};

use crate::support::files::Files;
use crate::support::{Api, Place, Run, get};

/// An API of rows that are only ever added; offset mode.
const CONFIG: &str = r#"
base-url = "{{BASE}}"
http { max-retries = 0 }
tables { rows {
  endpoint = "/rows"
  pagination { style = offset, max-page-size = 3 }
  columns { id { type = int64 } }
  checkpoint { enabled = true, path = "CKPT", mode = offset }
} }
"#;

/// Where the checkpoints of a crash test stand.
pub(crate) trait Shelf {
    /// The `path` of the configuration.
    fn path(&self) -> String;
    /// What the configuration says beside it.
    fn properties(&self) -> String {
        String::new()
    }
    /// The store itself, whose effects may be stopped.
    fn store(&self, effects: Effects) -> Arc<dyn CheckpointStore>;
    /// The files in a directory below the path.
    fn files<'a>(&'a self, dir: &'a str) -> BoxFuture<'a, Files> {
        let files = in_directory(&Path::new(&self.path()).join(dir));
        Box::pin(async move { files })
    }
    /// What the power takes with it: of a file that was not yet made durable, half.
    fn power_cut(&self) {}
}

pub(crate) struct Growing {
    api: Api,
    pub(crate) rows: i64,
}

impl Growing {
    pub(crate) fn new() -> Self {
        let growing = Self { api: Api::new(vec![]), rows: 0 };
        growing.tell();
        growing
    }

    pub(crate) fn grow(&mut self, by: i64) {
        self.rows += by;
        self.tell();
    }

    /// Every page that may be asked for: from any offset, three rows.
    fn tell(&self) {
        let page =
            |from: i64| -> Vec<Value> { (from..self.rows.min(from + 3)).map(|id| json!({ "id": id })).collect() };
        let target = |from: i64| format!("/rows?offset={from}&limit=3");
        self.api.script((0..=self.rows).map(|from| get(&target(from), &json!(page(from)))).collect());
    }

    pub(crate) fn place(&self, at: &dyn Shelf) -> Place {
        let config = CONFIG.replace("CKPT", &at.path());
        Place::new(&self.api.base(), &format!("{config}\n{}", at.properties()))
    }
}

/// Every id in the files of a directory that count as committed data.
pub(crate) fn published(dir: &Path) -> BTreeSet<i64> {
    let Ok(entries) = std::fs::read_dir(dir) else { return BTreeSet::new() };
    let visible = entries.map(|entry| entry.expect("an entry").path()).filter(|path| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        !name.starts_with(['.', '_'])
    });
    visible.flat_map(|path| ids(&std::fs::read_to_string(path).expect("a file"))).collect()
}

/// The files in a directory of this machine.
pub(crate) fn in_directory(dir: &Path) -> Files {
    let Ok(entries) = std::fs::read_dir(dir) else { return Files::new() };
    let paths = entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file());
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    paths.map(|path| (name(&path), std::fs::read(&path).expect("a file"))).collect()
}

/// The ids of the whole lines of an output.
pub(crate) fn ids(ndjson: &str) -> Vec<i64> {
    let whole = ndjson.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["id"].as_i64().expect("an id"))
        .collect()
}

pub(crate) fn offset(position: Option<&Position>) -> u64 {
    match position {
        None => 0,
        Some(Position::Offset(offset)) => *offset,
        Some(other) => panic!("{other} is no offset"),
    }
}

/// Counts effects and stops at one of them; whoever is stopped does nothing more.
pub(crate) fn stopping(k: usize, stop: Stop) -> (Effects, Arc<AtomicUsize>) {
    let reached = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reached);
    let effects = Effects::watched(move |_| match counted.fetch_add(1, Ordering::SeqCst) {
        n if n < k => None,
        n if n == k => Some(stop),
        _ => Some(Stop::Before),
    });
    (effects, reached)
}

async fn run(place: &Place, out: &Path, store: Arc<dyn CheckpointStore>) -> restmark::Result<Outcome> {
    let source = Source::open(place.path("source.conf"))?.checkpoints_in(&store);
    let run = BatchRun::new("rows", Output::directory(out, Format::Ndjson));
    run.run(&source, Utc::now(), &Arc::default(), std::future::pending()).await
}

/// A run that is stopped at effect k, for every k and each way to stop, on a first run and on a later one.
pub(crate) async fn stopped_everywhere(fresh: impl Fn() -> Box<dyn Shelf>) {
    for stop in [Stop::Before, Stop::Torn, Stop::After] {
        for later in [false, true] {
            let mut k = 0;
            while stopped_at(&*fresh(), stop, later, k).await {
                k += 1;
            }
            assert!(k > 0, "a commit has effects");
        }
    }
}

/// Whether the run had an effect k to be stopped at.
async fn stopped_at(at: &dyn Shelf, stop: Stop, later: bool, k: usize) -> bool {
    let case = format!("{stop:?} effect {k}, later: {later}");
    let mut growing = Growing::new();
    let place = growing.place(at);
    let out = place.path("out");
    growing.grow(4);
    if later {
        run(&place, &out, at.store(Effects::default())).await.expect("the run before");
        growing.grow(3);
    }
    let (effects, reached) = stopping(k, stop);
    let _ = run(&place, &out, at.store(effects)).await;
    let stopped = reached.load(Ordering::SeqCst) > k;
    at.power_cut();

    // The old or the new one, whole; and every row before it is stored.
    let source =
        Source::open(place.path("source.conf")).expect("a source").checkpoints_in(&at.store(Effects::default()));
    let stands = source.checkpoints().load("rows").await.unwrap_or_else(|e| panic!("{case}: {e}"));
    let stands = offset(stands.as_ref().map(|c| &c.position));
    let (old, new) = if later { (4, 7) } else { (0, 4) };
    assert!(stands == old || stands == new, "{case}: the position is {stands}");
    let stored = published(&out);
    assert!(
        (0..i64::try_from(stands).expect("small")).all(|id| stored.contains(&id)),
        "{case}: {stored:?} below {stands}"
    );

    growing.grow(2);
    run(&place, &out, at.store(Effects::default())).await.unwrap_or_else(|e| panic!("{case}, the next run: {e}"));
    assert_eq!(published(&out), (0..growing.rows).collect(), "{case}");
    stopped
}

/// The binary under SIGKILL at random instants, over and over, while the API grows.
pub(crate) fn killed_at_random(at: &dyn Shelf, rounds: usize, typical_ms: u64) {
    let mut growing = Growing::new();
    let place = growing.place(at);
    let mut random =
        fastrand::Rng::with_seed(std::env::var("RESTMARK_SEED").map_or(7, |s| s.parse().expect("a number")));
    let (mut delivered, mut before, mut killed, mut moved) = (BTreeSet::new(), 0, 0, 0);
    for round in 0..rounds {
        growing.grow(2);
        let out = place.path("out.ndjson");
        let file = std::fs::File::create(&out).expect("a file");
        let run: Run = place.read("rows").stdout(crate::support::Stdout::File(file));
        let running = run.spawn();
        std::thread::sleep(std::time::Duration::from_micros(random.u64(0..typical_ms * 1500)));
        running.signal("KILL");
        let ended = running.output();
        match ended.code {
            None => killed += 1,
            Some(0) => {}
            Some(code) => panic!("round {round}: exit {code}: {}", ended.stderr),
        }
        delivered.extend(ids(&std::fs::read_to_string(&out).expect("the output")));
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let source = Source::open(place.path("source.conf")).expect("a source");
        let stands = runtime.block_on(source.checkpoints().load("rows"));
        let stands = stands.unwrap_or_else(|e| panic!("round {round}: the checkpoint cannot be read: {e}"));
        let stands = offset(stands.as_ref().map(|c| &c.position));
        assert!(stands >= before, "round {round}: the position went back from {before} to {stands}");
        let lost: Vec<_> = (0..i64::try_from(stands).expect("small")).filter(|id| !delivered.contains(id)).collect();
        assert!(lost.is_empty(), "round {round}: the position is {stands}, and these were never delivered: {lost:?}");
        moved += usize::from(stands > before);
        before = stands;
    }
    let last = place.read("rows").output().expect(0);
    delivered.extend(last.ids());
    assert_eq!(delivered, (0..growing.rows).collect());
    assert!(killed > 0 && moved > 0, "neither may be rare: {killed} killed, {moved} moved of {rounds}");
}

/// How often the binary is killed: more in the soak.
pub(crate) fn rounds() -> usize {
    std::env::var("RESTMARK_KILL_ROUNDS").map_or(50, |rounds| rounds.parse().expect("a number"))
}

/// A directory of this machine.
pub(crate) struct Local(tempfile::TempDir);

impl Local {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }
}

impl Shelf for Local {
    fn path(&self) -> String {
        self.0.path().join("ckpt").display().to_string()
    }

    fn store(&self, effects: Effects) -> Arc<dyn CheckpointStore> {
        Arc::new(restmark::commit::local::LocalStore::watched(self.path(), effects))
    }

    fn power_cut(&self) {
        let temp = Path::new(&self.path()).join(".rows.checkpoint.json.tmp");
        if let Ok(bytes) = std::fs::read(&temp) {
            std::fs::write(&temp, &bytes[..bytes.len() / 2]).expect("half of it");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r07_a_run_that_ends_at_any_effect_of_the_local_store_loses_nothing() {
    stopped_everywhere(|| Box::new(Local::new())).await;
}

#[test]
fn r07_a_binary_killed_at_random_loses_nothing_on_a_local_disk() {
    killed_at_random(&Local::new(), rounds(), 40);
}
