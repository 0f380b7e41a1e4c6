//! The epochs of one table, in entries that are created once and never changed (R28, R29).
//!
//! | entry | when | says |
//! |---|---|---|
//! | `offsets/N` | before anything of epoch N is read | where it starts, for a stream also where it ends |
//! | `commits/N` | when every row of it is staged | what was staged, and the checkpoint that follows: it decides |
//! | `done/N` | when the rows are in sight and the checkpoint has followed | nothing is left to do |
//!
//! Each is a text file of two lines: `restmark-ledger 1`, then one JSON object that names its table and its epoch.
//! Numbers have no gaps. An entry that is missing, foreign or unreadable is an error, never a beginning. Entries far behind
//! are removed.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Commit;
use crate::error::{Error, ErrorKind, Result};
use crate::position::{Instant, Position, Window};
use crate::storage::shelf::Shelf;

/// The first line of an entry.
const HEAD: &str = "restmark-ledger 1";

/// Epochs whose entries stay.
const KEPT: u64 = 64;

/// No entry has this size, in bytes: the memory of `dedup-key` makes about a megabyte, a hundred thousand parts twenty.
const SIZE_MAX: u64 = 64 << 20;

/// `offsets/N`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Offsets {
    pub(crate) table: String,
    pub(crate) epoch: u64,
    /// What makes the read the same (R6).
    pub(crate) fingerprint: String,
    /// Who began it.
    pub(crate) run: String,
    /// Where it starts; `None` is the beginning.
    pub(crate) start: Option<Position>,
    /// The window of a stream.
    pub(crate) window: Option<Window>,
}

/// `commits/N`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Commits<S> {
    pub(crate) table: String,
    pub(crate) epoch: u64,
    /// Who staged what follows.
    pub(crate) run: String,
    /// Where the rows go, as the sink says it; `None` where nothing is left to publish.
    pub(crate) staged: Option<S>,
    /// What moves the checkpoint; `None` for a stream.
    pub(crate) commit: Option<Commit>,
    /// Rows of the epoch.
    pub(crate) rows: u64,
    /// Of a stream: the greatest event time so far, less what may come late. Never back.
    pub(crate) watermark: Option<Instant>,
}

/// Where a table's epochs stand.
#[derive(Debug)]
pub(crate) struct Head<S> {
    /// The newest epoch that was decided.
    pub(crate) newest: Option<(Offsets, Commits<S>)>,
    /// Whether everything of it was done.
    pub(crate) is_done: bool,
    /// An epoch that was begun and not decided.
    pub(crate) pending: Option<Offsets>,
}

impl<S> Head<S> {
    /// The number of the epoch to read now.
    pub(crate) fn next(&self) -> u64 {
        self.newest.as_ref().map_or(0, |(_, newest)| newest.epoch + 1)
    }
}

/// The entries of one table.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    table: String,
    offsets: Shelf,
    commits: Shelf,
    done: Shelf,
}

impl Ledger {
    /// The ledger of a table in a directory of its own.
    pub(crate) fn new(table: &str, root: &Shelf) -> Self {
        let [offsets, commits, done] = ["offsets", "commits", "done"].map(|kind| root.below(kind));
        Self { table: table.to_owned(), offsets, commits, done }
    }

    /// Reads where the epochs stand.
    ///
    /// # Errors
    /// Kind `Store` for entries that cannot be read, are another table's, or have a gap; kind `Conflict` where another run
    /// goes on meanwhile.
    pub(crate) async fn head<S: DeserializeOwned>(&self) -> Result<Head<S>> {
        // In the order opposite to that of their making, so that none is seen before what it follows from.
        let done = self.numbers(&self.done).await?;
        let decided = self.numbers(&self.commits).await?;
        let begun = self.numbers(&self.offsets).await?;
        let last = decided.last().copied();
        match self.standing(&begun, &decided, &done).await {
            // A list that grew while it was read looks like a gap, and is none.
            Err(_) if self.numbers(&self.commits).await?.last().copied() != last => {
                Err(self.conflict(last.map_or(0, |last| last + 1), "committed"))
            }
            head => head,
        }
    }

    async fn standing<S: DeserializeOwned>(&self, begun: &[u64], decided: &[u64], done: &[u64]) -> Result<Head<S>> {
        let missing = |of: &Shelf, epoch: u64, why: &str| self.broken(of, &epoch.to_string(), why);
        let (last, newest) = (begun.last().copied(), decided.last().copied());
        if let Some(orphan) = newest.filter(|newest| Some(*newest) > last) {
            return Err(missing(&self.offsets, orphan, "it is missing, though the epoch was committed"));
        }
        if let Some(orphan) = done.last().filter(|done| Some(**done) > newest) {
            return Err(missing(&self.commits, *orphan, "it is missing, though the epoch was done"));
        }
        let next = newest.map_or(0, |newest| newest + 1);
        if last.is_some_and(|last| last > next) {
            return Err(missing(&self.commits, next, "it is missing, though later epochs were begun"));
        }
        let pending = match last {
            Some(last) if newest != Some(last) => Some(self.entry::<Offsets>(&self.offsets, last).await?),
            _ => None,
        };
        let newest = match newest {
            Some(n) => Some((self.entry(&self.offsets, n).await?, self.entry(&self.commits, n).await?)),
            None => None,
        };
        let is_done = newest.as_ref().is_none_or(|(Offsets { epoch, .. }, _)| done.last() == Some(epoch));
        Ok(Head { newest, is_done, pending })
    }

    /// Where an epoch's decision stands, for messages.
    pub(crate) fn describe_decision(&self, epoch: u64) -> String {
        self.commits.describe(&epoch.to_string())
    }

    /// Begins an epoch.
    ///
    /// # Errors
    /// Kind `Conflict` where another run has begun it at the same time.
    pub(crate) async fn begin(&self, entry: &Offsets) -> Result<()> {
        let is_first = self.create(&self.offsets, entry.epoch, entry).await?;
        if is_first { self.in_time(entry.epoch).await } else { Err(self.conflict(entry.epoch, "begun")) }
    }

    /// Decides an epoch: what is staged becomes real.
    ///
    /// # Errors
    /// Kind `Conflict` where another run was faster; kind `Store` where others have gone on so far that what came of the
    /// epoch is not known any more.
    pub(crate) async fn decide<S: Serialize>(&self, entry: &Commits<S>) -> Result<()> {
        let is_first = self.create(&self.commits, entry.epoch, entry).await?;
        if is_first { self.in_time(entry.epoch).await } else { Err(self.conflict(entry.epoch, "committed")) }
    }

    /// Nothing of an epoch is left to do; entries far behind it are removed, oldest first.
    pub(crate) async fn done(&self, epoch: u64) -> Result<()> {
        // Whoever did it before said the same.
        self.create(&self.done, epoch, &serde_json::json!({ "table": self.table, "epoch": epoch })).await?;
        let Some(behind) = epoch.checked_sub(KEPT) else { return Ok(()) };
        // A commit outlives its offsets nowhere: what is left of a removal cut short has no gap.
        for of in [&self.done, &self.commits, &self.offsets] {
            for old in self.all(of).await?.into_iter().filter(|n| *n < behind) {
                of.remove(&old.to_string()).await?;
            }
        }
        Ok(())
    }

    /// The numbers of the entries of a kind that are kept, without gaps.
    async fn numbers(&self, of: &Shelf) -> Result<Vec<u64>> {
        let mut numbers = self.all(of).await?;
        let Some(last) = numbers.last().copied() else { return Ok(numbers) };
        // Others are to be removed; a run that slept may have made one of them again.
        let first = last.saturating_sub(KEPT);
        numbers.retain(|number| *number >= first);
        match (first..=last).zip(&numbers).find(|(wanted, number)| wanted != *number) {
            None => Ok(numbers),
            Some((missing, _)) => Err(self.broken(of, &missing.to_string(), "it is missing before others")),
        }
    }

    /// The numbers of all entries of a kind, in order.
    async fn all(&self, of: &Shelf) -> Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for name in of.list().await?.into_iter().filter(|name| !name.starts_with('.')) {
            match name.parse::<u64>() {
                Ok(number) if number.to_string() == name => numbers.push(number),
                _ => return Err(self.broken(of, &name, "it is no entry of a ledger")),
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// A name is free again once its entry was removed: whoever slept for so long has decided nothing.
    async fn in_time(&self, epoch: u64) -> Result<()> {
        let newest = self.all(&self.commits).await?.last().copied().unwrap_or_default();
        if newest < epoch.saturating_add(KEPT) {
            return Ok(());
        }
        let said =
            format!("other runs of table {} have gone on to epoch {newest}; epoch {epoch} is long over", self.table);
        Err(Error::new(ErrorKind::Store, said).with("ledger", self.offsets.describe("")))
    }

    async fn entry<T: DeserializeOwned>(&self, of: &Shelf, epoch: u64) -> Result<T> {
        #[derive(Deserialize)]
        struct Named {
            table: String,
            epoch: u64,
        }
        let name = epoch.to_string();
        let refuse = |why: &str| self.broken(of, &name, why);
        let bytes = of.read(&name, SIZE_MAX).await?.ok_or_else(|| refuse("it has gone"))?;
        let text = std::str::from_utf8(&bytes).map_err(|_| refuse("it is no text"))?;
        let (head, body) = text.split_once('\n').ok_or_else(|| refuse("it has no second line"))?;
        if head != HEAD {
            return Err(refuse(&format!("its first line is not {HEAD:?}")));
        }
        let named: Named = serde_json::from_str(body).map_err(|e| refuse(&format!("it cannot be read: {e}")))?;
        if named.table != self.table {
            return Err(refuse(&format!("it belongs to table {}", named.table)));
        }
        if named.epoch != epoch {
            return Err(refuse(&format!("it says that it is entry {}", named.epoch)));
        }
        serde_json::from_str(body).map_err(|e| refuse(&format!("it cannot be read: {e}")))
    }

    async fn create(&self, of: &Shelf, epoch: u64, entry: &impl Serialize) -> Result<bool> {
        let json = serde_json::to_string(entry)
            .map_err(|e| Error::new(ErrorKind::Bug, format!("an entry of the ledger cannot be written: {e}")))?;
        of.create(&epoch.to_string(), Bytes::from(format!("{HEAD}\n{json}\n"))).await
    }

    fn conflict(&self, epoch: u64, what: &str) -> Error {
        let said = format!("conflict: another run of table {} has {what} epoch {epoch}", self.table);
        Error::new(ErrorKind::Conflict, said).with("ledger", self.offsets.describe(""))
    }

    fn broken(&self, of: &Shelf, name: &str, why: &str) -> Error {
        let file = of.describe(name);
        let said = format!("the ledger entry {file} cannot be used: {why}; nothing is read before it is mended");
        Error::new(ErrorKind::Store, said).with("table", &self.table)
    }
}
