//! Receipts become a commit, a commit becomes a checkpoint. There is no other way to write one (R1).
//!
//! ```text
//! plan.seal(receipts) → Commit → CheckpointStore::commit → <table>.checkpoint.json
//! ```
//!
//! A receipt cannot be made outside a read, cloned, or guessed:
//!
//! ```compile_fail
//! let receipt = restmark::Receipt(Default::default());
//! ```
//! ```compile_fail
//! fn twice(receipt: restmark::Receipt) -> (restmark::Receipt, restmark::Receipt) { (receipt.clone(), receipt) }
//! ```
//! ```compile_fail
//! let receipt: restmark::Receipt = Default::default();
//! ```
//!
//! Nor can a commit:
//!
//! ```compile_fail
//! let commit = restmark::Commit { table: "events".into() };
//! ```
//! ```compile_fail
//! fn twice(commit: restmark::Commit) -> (restmark::Commit, restmark::Commit) { (commit.clone(), commit) }
//! ```
//!
//! And nothing but a commit is taken by a store:
//!
//! ```compile_fail
//! async fn move_it(source: &restmark::Source, position: restmark::position::Checkpoint) {
//!     source.checkpoints().commit(&position).await.unwrap();
//! }
//! ```

pub mod hdfs;
pub(crate) mod ledger;
pub mod local;
pub mod object;
#[cfg(any(test, feature = "testing"))]
pub mod suite;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::effect::Effects;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::{Base, Plan};
use crate::position::{Checkpoint, Edit, Instant, PLANS_KEPT, Position};
use crate::read::Receipt;
use crate::storage::{self, Files, Location, Settings};

/// The memory of `dedup-key` makes a file of about a megabyte; nothing makes one of this size, in bytes.
const SIZE_MAX: u64 = 64 << 20;

/// The name of a table's file (R7).
fn file_name(table: &str) -> String {
    format!("{table}.checkpoint.json")
}

/// Dropping a commit does nothing. It proves that every partition of one plan was read to its end (R1).
///
/// Made by [`Plan::seal`] only; the only thing that a [`CheckpointStore`] accepts.
#[derive(Debug, Serialize, Deserialize)]
#[must_use = "a commit moves nothing until a checkpoint store is handed it"]
pub struct Commit {
    table: String,
    plan: String,
    base: Base,
    /// `None` when there is nothing to move: no checkpoint, or a first read that met no position (R4).
    #[serde(with = "as_file")]
    next: Option<Checkpoint>,
}

/// A checkpoint as the text of its file.
mod as_file {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::position::Checkpoint;

    #[expect(clippy::ref_option, reason = "serde hands it over like this")]
    pub(super) fn serialize<S: Serializer>(next: &Option<Checkpoint>, to: S) -> Result<S::Ok, S::Error> {
        next.as_ref().map(|next| String::from_utf8_lossy(&next.render()).into_owned()).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Checkpoint>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| Checkpoint::parse(text.as_bytes()).map_err(D::Error::custom)).transpose()
    }
}

impl Commit {
    /// The table whose checkpoint moves.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// What stood in the store when the plan was made.
    pub(crate) fn base(&self) -> &Base {
        &self.base
    }

    /// The position that will stand in the store; `None` when nothing moves.
    pub fn position(&self) -> Option<&Position> {
        self.next.as_ref().map(|next| &next.position)
    }

    /// A hand edit: the same protocol, made by `checkpoint set` only and recorded in the file.
    pub(crate) fn by_hand(
        table: &str,
        plan: String,
        loaded: (Base, Option<Checkpoint>),
        position: Position,
        fingerprint: String,
        edit: Edit,
    ) -> Self {
        let (base, old) = loaded;
        let mut next = Checkpoint::at(position);
        let before: Vec<String> = old.iter().flat_map(Checkpoint::plans).cloned().collect();
        if let Some(old) = old {
            next.generation = old.generation;
            next.edits = old.edits;
        }
        next.generation = next.generation.saturating_add(1);
        next.fingerprint = Some(fingerprint);
        next.committed_by(&plan, &before);
        next.edited(edit);
        Self { table: table.to_owned(), plan, base, next: Some(next) }
    }
}

impl Plan {
    /// Proof that the whole plan was read: exactly one receipt for each of its partitions (R1).
    ///
    /// # Errors
    /// Kind `Scan` for a plan with a limit or apart from what is stored, a receipt of another plan, and a partition with no or two receipts; kind
    /// `Incomplete` where two windows of offsets were sent the same records.
    pub fn seal(&self, receipts: Vec<Receipt>) -> Result<Commit> {
        let refuse = |what: String| Err(Error::new(ErrorKind::Scan, what).with("table", &self.table));
        if self.limited {
            return refuse("a plan with a limit, or apart from what is stored, cannot be sealed".into());
        }
        let mut proofs: HashMap<&str, usize> = HashMap::new();
        for receipt in receipts.iter().filter(|receipt| receipt.plan() == self.id) {
            *proofs.entry(receipt.partition()).or_default() += 1;
        }
        for partition in &self.partitions {
            let proofs = proofs.get(partition.id.as_str()).copied().unwrap_or_default();
            if proofs != 1 {
                return refuse(format!("partition {} has {proofs} receipts, it needs exactly one", partition.id));
            }
        }
        if receipts.len() != self.partitions.len() {
            return refuse("a receipt belongs to another plan".into());
        }
        // Each window's walk is too short to notice by itself (R15).
        let mut contents = HashSet::new();
        if let Some(twice) = receipts.iter().find(|receipt| receipt.content().is_some_and(|c| !contents.insert(c))) {
            let what = "two partitions were sent the same records: the API ignores the offset parameter";
            let error = Error::new(ErrorKind::Incomplete, what).with("table", &self.table);
            return Err(error.with("partition", twice.partition()));
        }
        let Some(stored) = &self.stored else {
            return Ok(Commit { table: self.table.clone(), plan: self.id.clone(), base: Base::Missing, next: None });
        };
        // A checkpointed plan has one partition (R12).
        let end = receipts.into_iter().next().map(Receipt::into_end).unwrap_or_default();
        let position = match end.position {
            Some(reached) => Some(Position::forward(stored.position.as_ref(), reached, stored.format.as_ref())),
            None => stored.position.clone(),
        };
        let next = position.map(|position| {
            let mut next = Checkpoint::at(position);
            next.generation = stored.generation.saturating_add(1);
            next.fingerprint = Some(self.fingerprint.clone());
            next.seen = end.seen;
            next.edits.clone_from(&stored.edits);
            next.committed_by(&self.id, &stored.plans);
            next
        });
        Ok(Commit { table: self.table.clone(), plan: self.id.clone(), base: stored.base.clone(), next })
    }
}

/// A place where checkpoints stand, one file a table.
pub trait CheckpointStore: fmt::Debug + Send + Sync {
    /// The bytes of a table's file; `None` if there is none (the only "first run", R6).
    fn load<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>>>;

    /// Replaces a table's file atomically and durably, if what stands there is what the plan had loaded (R7, R8).
    ///
    /// Committing the same commit again is success: an acknowledgement may have been lost.
    ///
    /// # Errors
    /// Kind `Conflict` when another run moved the file or is moving it now; kind `Store` when it cannot be written.
    fn commit<'a>(&'a self, commit: &'a Commit, now: Instant) -> BoxFuture<'a, Result<()>>;

    /// Removes a table's file, whatever is in it; `false` if there was none.
    fn clear<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Result<bool>>;

    /// The files that commits of this table have left unfinished: of writers that crashed, or that write now.
    ///
    /// No reader minds them. A commit sweeps those that can no longer become the checkpoint. A store whose write is
    /// one call leaves none.
    fn leftovers<'a>(&'a self, _table: &'a str) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// The file of a table, for messages.
    fn describe(&self, table: &str) -> String;
}

/// The store of a location. Nothing is contacted before it is used.
///
/// # Errors
/// Kind `Config` with everything that keeps the location from being opened.
pub fn open(location: &Location, settings: &Settings) -> Result<Arc<dyn CheckpointStore>> {
    open_watched(location, settings, Effects::default())
}

/// [`open`], with effects that a test may stop.
pub fn open_watched(location: &Location, settings: &Settings, effects: Effects) -> Result<Arc<dyn CheckpointStore>> {
    Ok(match storage::files(location, settings, &effects)? {
        Files::Local(dir) => Arc::new(local::LocalStore::watched(dir, effects)),
        Files::Hdfs(files) => Arc::new(hdfs::HdfsStore::new(files)),
        Files::Objects(files) => Arc::new(object::ObjectCheckpoints::new(files)),
    })
}

/// What a store has to do with a commit, given what stands there now. The whole compare-and-replace rule (R8).
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Write these bytes.
    Replace(Vec<u8>),
    /// Nothing to do: nothing moves, or this very plan was committed before, whoever has committed since.
    Done,
    /// Somebody else moved it, and this commit was never made.
    Conflict,
    /// So many others have moved it since that nothing tells whether this commit was made before them.
    Unknown,
}

impl Commit {
    /// Compares what stands in the store now with what the plan had loaded.
    pub fn judge(&self, current: Option<&[u8]>, now: Instant) -> Verdict {
        let Some(next) = &self.next else { return Verdict::Done };
        let stands = current.and_then(|bytes| Checkpoint::parse(bytes).ok());
        if stands.as_ref().is_some_and(|checkpoint| checkpoint.plans().any(|plan| *plan == self.plan)) {
            return Verdict::Done;
        }
        if Base::of(current) != self.base {
            // The plans of the file reach back to our base, or to the beginning: ours would be among them.
            let reaches = |stands: &Checkpoint| {
                stands.earlier.len() < PLANS_KEPT
                    || next.earlier.first().is_some_and(|base| stands.earlier.contains(base))
            };
            return if stands.as_ref().is_none_or(reaches) { Verdict::Conflict } else { Verdict::Unknown };
        }
        Verdict::Replace(Checkpoint { committed_at: Some(now), ..next.clone() }.render())
    }

    /// What a store has to write, or how the commit ends without.
    ///
    /// # Errors
    /// Kind `Conflict` for a lost race; kind `Store` when it cannot be told whether it was lost.
    pub fn ruled(&self, current: Option<&[u8]>, now: Instant, place: &str) -> Result<Option<Vec<u8>>> {
        match self.judge(current, now) {
            Verdict::Replace(bytes) => Ok(Some(bytes)),
            Verdict::Done => Ok(None),
            Verdict::Conflict => Err(self.conflict(place)),
            Verdict::Unknown => {
                let said = "other runs have moved this checkpoint so often that it is not known whether this commit was \
                            made before them: its rows are kept";
                Err(Error::new(ErrorKind::Store, said).with("table", &self.table).with("file", place))
            }
        }
    }

    /// The error of a lost race.
    pub fn conflict(&self, place: &str) -> Error {
        Error::new(
            ErrorKind::Conflict,
            "another run moved this checkpoint since this one started: nothing was moved; run it again",
        )
        .with("table", &self.table)
        .with("file", place)
    }
}

#[cfg(test)]
mod tests;
