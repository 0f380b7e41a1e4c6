//! What every checkpoint store has to keep, as one suite: hand it a [`Subject`] and it says what is broken.
//!
//! Behind feature `testing`, so that a store of your own can be held to the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;

use super::{CheckpointStore, Commit};
use crate::effect::{Effect, Effects, Stop};
use crate::error::ErrorKind;
use crate::plan::Base;
use crate::position::{Checkpoint, Instant, Position};

/// A place under test. It is empty at first and used by nobody else.
pub trait Subject: Sync {
    /// Another handle on the same place. A store whose effects cannot be stopped leaves `effects` aside.
    fn open(&self, effects: Effects) -> Arc<dyn CheckpointStore>;

    /// Puts bytes where the store keeps a table's file, as another program or a crash may have left them.
    fn put<'a>(&'a self, table: &'a str, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), String>>;
}

/// How many commit at once, and how often, in [`race`].
#[derive(Debug, Clone, Copy)]
pub struct Race {
    /// Committers of one plan's base at the same time.
    pub racers: usize,
    /// Rounds, each with a base of its own.
    pub rounds: usize,
}

/// Every check, one after the other.
///
/// # Errors
/// What the store does not keep, and where.
pub async fn run(subject: &dyn Subject, race_of: Race) -> Result<(), String> {
    loads_what_stands_there(subject).await.map_err(|e| format!("load: {e}"))?;
    replaces_what_was_loaded(subject).await.map_err(|e| format!("replace: {e}"))?;
    takes_one_commit_twice(subject).await.map_err(|e| format!("twice: {e}"))?;
    survives_a_lost_acknowledgement(subject).await.map_err(|e| format!("lost acknowledgement: {e}"))?;
    survives_a_stop_at_every_effect(subject).await.map_err(|e| format!("crash: {e}"))?;
    race(subject, race_of).await.map_err(|e| format!("race: {e}"))
}

/// The bytes of a file in every state that is no checkpoint: empty, torn, truncated, foreign, newer.
const NO_CHECKPOINTS: [&[u8]; 6] = [
    b"",
    b"{\"type\":\"cursor\",\"val",
    b"\0\0\0\0\0\0\0\0",
    b"[1, 2, 3]\n",
    b"\xff\xfe not UTF-8",
    b"{\"type\":\"cursor\",\"value\":\"x\",\"version\":99}\n",
];

/// Nothing is nothing; anything else comes back to the byte, never as nothing, and never makes way for a first run (R6).
pub async fn loads_what_stands_there(subject: &dyn Subject) -> Result<(), String> {
    let store = subject.open(Effects::default());
    expect("a table that was never committed", &load(&*store, "absent").await?, &None)?;
    for (i, bytes) in NO_CHECKPOINTS.into_iter().enumerate() {
        let table = format!("odd{i}");
        subject.put(&table, bytes).await?;
        expect("what another program put there", &load(&*store, &table).await?, &Some(bytes.to_vec()))?;
        let first = commit(&table, "first", None, "a");
        expect("a first run over it", &outcome(&*store, &first).await, &Err(ErrorKind::Conflict))?;
        expect("what stood there afterwards", &load(&*store, &table).await?, &Some(bytes.to_vec()))?;
        let mended = commit(&table, "mended", Some(bytes), "b");
        expect("a commit that had loaded it", &outcome(&*store, &mended).await, &Ok(()))?;
        expect("the position", &position(&*store, &table).await?, &Some("b".to_owned()))?;
    }
    Ok(())
}

/// First file, next file, a base that has moved, a file that was cleared; the neighbours untouched (R7, R8).
pub async fn replaces_what_was_loaded(subject: &dyn Subject) -> Result<(), String> {
    let store = subject.open(Effects::default());
    let neighbour = commit("neighbour", "n", None, "n");
    expect("the neighbour's commit", &outcome(&*store, &neighbour).await, &Ok(()))?;
    let first = commit("table", "p", None, "a");
    expect("the first commit", &outcome(&*store, &first).await, &Ok(()))?;
    let loaded = load(&*store, "table").await?;
    let next = commit("table", "q", loaded.as_deref(), "b");
    expect("the next commit", &outcome(&*store, &next).await, &Ok(()))?;
    expect("its position", &position(&*store, "table").await?, &Some("b".to_owned()))?;
    let late = commit("table", "r", loaded.as_deref(), "c");
    expect("a commit whose base has moved", &outcome(&*store, &late).await, &Err(ErrorKind::Conflict))?;
    let fresh = commit("table", "s", None, "d");
    expect("a first run over a file", &outcome(&*store, &fresh).await, &Err(ErrorKind::Conflict))?;
    expect("the position afterwards", &position(&*store, "table").await?, &Some("b".to_owned()))?;
    let loaded = load(&*store, "table").await?;
    expect("clearing a file", &store.clear("table").await.map_err(|e| e.kind()), &Ok(true))?;
    expect("clearing nothing", &store.clear("table").await.map_err(|e| e.kind()), &Ok(false))?;
    let late = commit("table", "t", loaded.as_deref(), "e");
    expect("a commit of a file that was cleared", &outcome(&*store, &late).await, &Err(ErrorKind::Conflict))?;
    expect("a cleared table", &load(&*store, "table").await?, &None)?;
    expect("the neighbour", &position(&*store, "neighbour").await?, &Some("n".to_owned()))
}

/// The same commit again is success and changes nothing, also when others have built on it since (R8).
pub async fn takes_one_commit_twice(subject: &dyn Subject) -> Result<(), String> {
    let store = subject.open(Effects::default());
    let first = commit("twice", "p", None, "a");
    expect("once", &outcome(&*store, &first).await, &Ok(()))?;
    let loaded = load(&*store, "twice").await?;
    expect("twice", &outcome(&*store, &first).await, &Ok(()))?;
    let other = subject.open(Effects::default());
    expect("through another handle", &outcome(&*other, &first).await, &Ok(()))?;
    expect("the bytes", &load(&*store, "twice").await?, &loaded)?;
    let next = commit("twice", "q", loaded.as_deref(), "b");
    expect("the next", &outcome(&*store, &next).await, &Ok(()))?;
    expect("the first one again", &outcome(&*store, &first).await, &Ok(()))?;
    expect("the position", &position(&*store, "twice").await?, &Some("b".to_owned()))
}

/// The write was applied and its answer lost: the commit is recognised, at once or when it is tried again (R8).
pub async fn survives_a_lost_acknowledgement(subject: &dyn Subject) -> Result<(), String> {
    let lose = |effect| (matches!(effect, Effect::Put | Effect::Rename)).then_some(Stop::After);
    let first = commit("lost", "p", None, "a");
    let _ = outcome(&*subject.open(Effects::watched(lose)), &first).await;
    let store = subject.open(Effects::default());
    expect("the commit again", &outcome(&*store, &first).await, &Ok(()))?;
    expect("its position", &position(&*store, "lost").await?, &Some("a".to_owned()))?;
    let loaded = load(&*store, "lost").await?;
    let next = commit("lost", "q", loaded.as_deref(), "b");
    let _ = outcome(&*subject.open(Effects::watched(lose)), &next).await;
    expect("the next commit again", &outcome(&*store, &next).await, &Ok(()))?;
    expect("its position", &position(&*store, "lost").await?, &Some("b".to_owned()))
}

/// A process that ends before, in the middle of or after any effect leaves the old or the new file, whole; the next
/// commit goes through and leaves nothing behind (R7).
pub async fn survives_a_stop_at_every_effect(subject: &dyn Subject) -> Result<(), String> {
    for stop in [Stop::Before, Stop::Torn, Stop::After] {
        for fresh in [true, false] {
            let mut k = 0;
            while stops_at(subject, stop, fresh, k).await.map_err(|e| format!("{stop:?} effect {k}: {e}"))? {
                k += 1;
            }
        }
    }
    Ok(())
}

/// One commit that ends at effect `k`; `false` if it has fewer effects.
async fn stops_at(subject: &dyn Subject, stop: Stop, fresh: bool, k: usize) -> Result<bool, String> {
    let table = format!("crash-{stop:?}-{fresh}-{k}").to_lowercase();
    let store = subject.open(Effects::default());
    if !fresh {
        expect("the commit before", &outcome(&*store, &commit(&table, "old", None, "old")).await, &Ok(()))?;
    }
    let old = load(&*store, &table).await?;
    let reached = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reached);
    let watched = Effects::watched(move |_| match counted.fetch_add(1, Ordering::SeqCst) {
        n if n < k => None,
        n if n == k => Some(stop),
        _ => Some(Stop::Before),
    });
    let moved = commit(&table, "new", old.as_deref(), "new");
    let _ = outcome(&*subject.open(watched), &moved).await;
    let stopped = reached.load(Ordering::SeqCst) > k;

    let found = load(&*store, &table).await?;
    if found != old {
        expect("what stands there, if it is not the old file", &position(&*store, &table).await?, &Some("new".into()))?;
    } else if !stopped {
        return Err("a commit that was not stopped moved nothing".to_owned());
    }
    let next = commit(&table, "next", found.as_deref(), "next");
    expect("the next commit", &outcome(&*store, &next).await, &Ok(()))?;
    expect("its position", &position(&*store, &table).await?, &Some("next".to_owned()))?;
    let left = store.leftovers(&table).await.map_err(|e| e.to_string())?;
    expect("what is left behind", &left, &Vec::new())?;
    Ok(stopped)
}

/// Many commit at once over one base: exactly one wins, all others get a conflict, and the winner's position stands (R8).
pub async fn race(subject: &dyn Subject, race: Race) -> Result<(), String> {
    let store = subject.open(Effects::default());
    for round in 0..race.rounds {
        let base = load(&*store, "raced").await?;
        let racers = (0..race.racers).map(|racer| {
            let name = format!("{round}-{racer}");
            let (store, commit) = (subject.open(Effects::default()), commit("raced", &name, base.as_deref(), &name));
            tokio::spawn(
                async move { (name, store.commit(&commit, Instant::default()).await.map_err(|e| e.to_string())) },
            )
        });
        let mut winners = vec![];
        for racer in futures::future::join_all(racers).await {
            match racer.map_err(|e| e.to_string())? {
                (name, Ok(())) => winners.push(name),
                (_, Err(said)) if said.contains("another run moved this checkpoint") => {}
                (name, Err(said)) => return Err(format!("racer {name} failed otherwise: {said}")),
            }
        }
        let [winner] = winners.as_slice() else {
            return Err(format!("round {round} had {} winners: {winners:?}", winners.len()));
        };
        expect("the winner's position", &position(&*store, "raced").await?.as_ref(), &Some(winner))?;
    }
    let left = store.leftovers("raced").await.map_err(|e| e.to_string())?;
    expect("what the losers left", &left, &Vec::new())
}

/// A commit of a plan that had loaded `base` and reached `cursor`.
fn commit(table: &str, plan: &str, base: Option<&[u8]>, cursor: &str) -> Commit {
    let mut next = Checkpoint::at(Position::Cursor(cursor.to_owned()));
    let before = base.and_then(|bytes| Checkpoint::parse(bytes).ok());
    next.committed_by(plan, &before.iter().flat_map(Checkpoint::plans).cloned().collect::<Vec<_>>());
    Commit { table: table.to_owned(), plan: plan.to_owned(), base: Base::of(base), next: Some(next) }
}

async fn outcome(store: &dyn CheckpointStore, commit: &Commit) -> Result<(), ErrorKind> {
    store.commit(commit, Instant::default()).await.map_err(|e| e.kind())
}

async fn load(store: &dyn CheckpointStore, table: &str) -> Result<Option<Vec<u8>>, String> {
    store.load(table).await.map_err(|e| format!("{}: {e}", store.describe(table)))
}

async fn position(store: &dyn CheckpointStore, table: &str) -> Result<Option<String>, String> {
    let Some(bytes) = load(store, table).await? else { return Ok(None) };
    let checkpoint = Checkpoint::parse(&bytes).map_err(|e| format!("{}: {e}", store.describe(table)))?;
    Ok(Some(checkpoint.position.text()))
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, wanted: &T) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("{what} was {found:?}, not {wanted:?}")) }
}
