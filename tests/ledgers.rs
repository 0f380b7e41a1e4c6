//! Ledgers that were damaged, pruned or passed by: never a quiet beginning; what was decided is done before a position is
//! moved by hand (R28, R29).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use restmark::effect::{Effect, Effects, Stop};
use restmark::stream::Starting;
use restmark::{ErrorKind, Position};

use crate::crash::{Local, stopping};
use crate::epochs::{Stands, World, at};
use crate::support::Trap;

fn world() -> World {
    World::new(Box::new(Local::new()))
}

fn ledger(world: &World) -> PathBuf {
    Path::new(&world.at.path()).join("rows.ledger")
}

fn numbers(dir: &Path) -> Vec<u64> {
    let mut numbers: Vec<u64> = fs::read_dir(dir)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().parse().expect("a number"))
        .collect();
    numbers.sort_unstable();
    numbers
}

async fn run(world: &World) -> restmark::Result<()> {
    world.batch("rows", Effects::default()).await
}

/// Stops for ever at the first effect of a kind that comes after so many of it.
fn stopped_at(kind: Effect, after: usize, stop: Stop) -> Effects {
    let (seen, ended) = (std::sync::atomic::AtomicUsize::new(0), AtomicBool::new(false));
    Effects::watched(move |effect| {
        if ended.load(Ordering::SeqCst) {
            return Some(Stop::Before);
        }
        let is_it = effect == kind && seen.fetch_add(1, Ordering::SeqCst) == after;
        ended.store(is_it, Ordering::SeqCst);
        is_it.then_some(stop)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn r28_an_entry_that_is_damaged_foreign_or_missing_is_an_error_that_names_it() {
    type Damage = fn(&Path);
    const CASES: [(&str, &str, Damage); 14] = [
        ("commits/2", "cannot be read", |entry| fs::write(entry, "restmark-ledger 1\n{\"table\"").expect("a write")),
        ("commits/2", "no second line", |entry| fs::write(entry, "").expect("a write")),
        ("offsets/2", "first line", |entry| fs::write(entry, "restmark-ledger 2\n{}\n").expect("a write")),
        ("offsets/2", "no text", |entry| fs::write(entry, [0xff, b'\n']).expect("a write")),
        ("offsets/2", "belongs to table other", |entry| replace(entry, "\"rows\"", "\"other\"")),
        ("commits/2", "belongs to table other", |entry| replace(entry, "\"rows\"", "\"other\"")),
        ("commits/2", "it is entry 1", |entry| replace(entry, "\"epoch\":2", "\"epoch\":1")),
        ("offsets/1", "missing before", |entry| fs::remove_file(entry).expect("removed")),
        ("offsets/2", "though the epoch was committed", |entry| fs::remove_file(entry).expect("removed")),
        ("commits/1", "missing before", |entry| fs::remove_file(entry).expect("removed")),
        ("commits/2", "though the epoch was done", |entry| fs::remove_file(entry).expect("removed")),
        ("commits/0", "missing before", |entry| fs::remove_file(entry).expect("removed")),
        ("commits/zwei", "no entry of a ledger", |entry| fs::write(entry, "").expect("a write")),
        ("commits/2", "though the epoch was done", |entry| {
            // Everything but what was done.
            let root = entry.parent().and_then(Path::parent).expect("a ledger");
            fs::remove_dir_all(root.join("offsets")).and(fs::remove_dir_all(root.join("commits"))).expect("removed");
        }),
    ];
    let world = world();
    for rows in [2, 4, 6] {
        world.rows(rows);
        run(&world).await.expect("a run");
    }
    let kept = world.place.path("kept");
    copy(&ledger(&world), &kept);
    for (name, why, damage) in CASES {
        fs::remove_dir_all(ledger(&world)).expect("removed");
        copy(&kept, &ledger(&world));
        damage(&ledger(&world).join(name));
        let error = run(&world).await.expect_err(name);
        let said = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Store, "{name}: {said}");
        assert!(said.contains(name) && said.contains(why), "{name}, {why}: {said}");
        assert_eq!(world.visible().await, (0..6).collect::<Vec<_>>(), "{name}");
    }
}

fn replace(entry: &Path, old: &str, new: &str) {
    let text = fs::read_to_string(entry).expect("an entry");
    assert!(text.contains(old), "{text}");
    fs::write(entry, text.replacen(old, new, 1)).expect("a write");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory").map(|entry| entry.expect("an entry").path()) {
        let to = to.join(entry.file_name().expect("a name"));
        if entry.is_dir() { copy(&entry, &to) } else { fs::copy(&entry, to).map(|_| ()).expect("a copy") }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r28_entries_far_behind_are_removed_also_after_a_crash_in_the_middle() {
    let world = world();
    world.rows(1);
    for epoch in 0..200_u64 {
        // Every tenth run dies at one of its removals.
        let crash = (epoch % 10 == 9)
            .then(|| stopped_at(Effect::Delete, usize::try_from(epoch / 10 % 4).expect("small"), Stop::After));
        let crashes = crash.is_some();
        let ended = world.batch("rows", crash.unwrap_or_default()).await;
        assert!(crashes || ended.is_ok(), "epoch {epoch}: {ended:?}");
    }
    run(&world).await.expect("a run");
    for kind in ["offsets", "commits", "done"] {
        let left = numbers(&ledger(&world).join(kind));
        assert!(left.len() < 70 && left.len() > 64 && left[0] > 100, "{kind}: {left:?}");
    }
    assert_eq!(world.visible().await, [0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn r28_a_runner_that_slept_until_its_entry_was_removed_publishes_nothing() {
    let world = world();
    let records: Vec<_> = (0..100).map(|id| (id, id + 1)).collect();
    world.events(&records, -20..200);
    let mut stream = world.stream();
    stream.starting = Starting::At(at(0));
    stream.max_window = Some(std::time::Duration::from_secs(1));
    let (config, others) = (world.place.path("source.conf"), stream.clone());
    let meanwhile = move || {
        let source = restmark::Source::open(config).expect("a source");
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let mut driver = Stands(at(100), vec![]);
        runtime.block_on(others.run(&source, &std::sync::Arc::default(), &mut driver)).expect("a hundred epochs");
        assert_eq!(driver.1.len(), 99);
    };
    world.api.at(1, Trap::First(Box::new(meanwhile)));
    let error = world.streamed(&stream, at(100), Effects::default()).await.expect_err("epoch 0 is long over");
    assert!(error.to_string().contains("epoch 0 is long over"), "{error}");
    assert_eq!(world.visible().await, (0..99).collect::<Vec<_>>());
    world.streamed(&stream, at(101), Effects::default()).await.expect("an entry that is made again is no gap");
    assert_eq!(world.visible().await, (0..100).collect::<Vec<_>>());
    assert!(world.at.files("out").await.keys().all(|name| !name.starts_with('.')), "what was staged in vain is swept");
}

#[tokio::test(flavor = "multi_thread")]
async fn r28_a_batch_run_takes_no_ledger_of_a_stream() {
    let world = world();
    world.events(&[(0, 5)], -20..40);
    let mut stream = world.stream();
    stream.location = format!("{}/events.ledger", world.at.path()).parse().expect("a location");
    world.streamed(&stream, at(11), Effects::default()).await.expect("a batch");
    let error = world.batch("events", Effects::default()).await.expect_err("a stream's ledger");
    assert!(error.kind() == ErrorKind::Store && error.to_string().contains("a stream's"), "{error}");
    assert_eq!(world.visible().await, [0]);
}

/// A first run of four rows that was decided and no more.
async fn decided() -> World {
    for k in 0.. {
        let world = world();
        world.rows(4);
        let (effects, _) = stopping(k, Stop::Before);
        let _ = world.batch("rows", effects).await;
        if !world.entries("rows.ledger/commits").await.is_empty() {
            assert_eq!(world.visible().await, [0; 0]);
            return world;
        }
    }
    unreachable!("a run commits")
}

async fn position(world: &World) -> Option<Position> {
    let source = world.source(Effects::default()).expect("a source");
    source.checkpoints().load("rows").await.expect("a checkpoint").map(|checkpoint| checkpoint.position)
}

#[tokio::test(flavor = "multi_thread")]
async fn r29_a_decided_epoch_is_finished_before_its_checkpoint_is_cleared() {
    let world = decided().await;
    world.place.run(&["checkpoint", "clear", "CONFIG", "rows"]).output().expect(0);
    assert_eq!(position(&world).await, None);
    assert_eq!(world.visible().await, [0, 1, 2, 3]);
    run(&world).await.expect("a run from the beginning");
    assert_eq!(world.visible().await, [0, 0, 1, 1, 2, 2, 3, 3]);
    assert_eq!(position(&world).await, Some(Position::Offset(4)));
}

#[tokio::test(flavor = "multi_thread")]
async fn r29_a_decided_epoch_is_finished_before_its_checkpoint_is_set() {
    let world = decided().await;
    world.place.run(&["checkpoint", "set", "CONFIG", "rows", "3"]).output().expect(0);
    assert_eq!(position(&world).await, Some(Position::Offset(3)));
    run(&world).await.expect("a run from there");
    assert_eq!(world.visible().await, [0, 1, 2, 3, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn r29_a_position_that_was_moved_after_the_decision_stays_where_it_is() {
    let world = decided().await;
    // By a tool that knows nothing of ledgers.
    let source = world.source(Effects::default()).expect("a source");
    source.checkpoints().set("rows", "2", "somebody").await.expect("a position");
    run(&world).await.expect("a run from there");
    assert_eq!(world.visible().await, [0, 1, 2, 2, 3, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn r08_an_epoch_is_not_done_while_another_run_moves_its_checkpoint() {
    let world = decided().await;
    let lock = Path::new(&world.at.path()).join(".rows.checkpoint.lock");
    let held = fs::File::create(lock).expect("a lock");
    held.lock().expect("held");
    let error = run(&world).await.expect_err("whoever holds the lock may die before it has moved anything");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(world.entries("rows.ledger/done").await.is_empty());
    drop(held);
    run(&world).await.expect("a run");
    assert_eq!(world.visible().await, [0, 1, 2, 3]);
}

/// Where the epoch of [`decided`] is staged.
fn staged(world: &World) -> PathBuf {
    let out = fs::read_dir(Path::new(&world.at.path()).join("out")).expect("the output");
    let mut hidden = out
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".restmark.")));
    hidden.next().expect("a staged file")
}

#[tokio::test(flavor = "multi_thread")]
async fn r29_a_staged_file_that_was_damaged_is_not_shown_and_says_what_mends_it() {
    let world = decided().await;
    let file = staged(&world);
    let whole = fs::read(&file).expect("rows");
    for damaged in [&whole[..0], &whole[..whole.len() - 1], &vec![b' '; whole.len()][..]] {
        fs::write(&file, damaged).expect("a write");
        let error = run(&world).await.expect_err("its rows are lost");
        assert_eq!(error.kind(), ErrorKind::Store);
        let said = error.to_string();
        assert!(said.contains("no longer what was written") && said.contains("commits/0"), "{said}");
        assert_eq!((world.visible().await.len(), position(&world).await), (0, None));
    }
    fs::write(&file, whole).expect("a write");
    run(&world).await.expect("it is whole again");
    assert_eq!(world.visible().await, [0, 1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn r29_a_file_that_its_reader_took_away_before_the_epoch_was_done_keeps_nobody_out() {
    let world = decided().await;
    // As after a crash once it was shown, and a reader who was faster than the next run.
    fs::rename(staged(&world), Path::new(&world.at.path()).join("taken")).expect("taken");
    world.rows(6);
    run(&world).await.expect("nothing is lost");
    assert_eq!(world.visible().await, [4, 5]);
}
