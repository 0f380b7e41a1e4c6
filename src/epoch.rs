//! One numbered advance of a table into our own outputs: begun, staged, decided, shown, done (R28, R29).
//!
//! ```text
//! offsets/N ─► read ─► sink stages ─► commits/N ─► sink publishes ─► checkpoint ─► done/N
//! ```
//!
//! `commits/N` decides. Before it nothing is seen of the epoch, and the next run reads the same again under the same
//! number. After it everything that follows can be repeated, and is, before anything new is read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::commit::Commit;
use crate::commit::ledger::{Commits, Head, Ledger, Offsets};
use crate::effect::Effects;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::{Base, Plan};
use crate::position::{Instant, Window, hex};
use crate::sink::{self, Destination, Directory, Epoch, Finished, Format, Output, Place, Sink};
use crate::source::Source;
use crate::storage::shelf::Shelf;
use crate::storage::{Location, location};
use crate::verify;

/// What an epoch has staged, and where.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Staged {
    /// The directory, as [`Location`] reads it, absolute; or the name of another [`Place`].
    to: String,
    /// What was staged in a directory; `None` in another place. An entry of before there were Delta tables says nothing.
    #[serde(default = "files")]
    format: Option<Format>,
    parts: Vec<Finished>,
}

#[allow(clippy::unnecessary_wraps)] // What serde wants.
fn files() -> Option<Format> {
    Some(Format::default())
}

/// The epochs of one table.
#[derive(Debug)]
pub(crate) struct Epochs<'a> {
    source: &'a Source,
    table: &'a str,
    ledger: Ledger,
    /// Tells this ledger from others whose rows go to the same place.
    id: String,
    effects: Effects,
    /// Where the rows go, opened for each epoch.
    place: OnceLock<Option<Arc<dyn Place>>>,
    /// Whether this process has swept: what dies later than that is swept by the next, unless it was at work on our epoch.
    is_swept: AtomicBool,
}

/// An epoch that was begun: this attempt at it.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) offsets: Offsets,
    pub(crate) epoch: Epoch,
    /// Whether another attempt had begun it: it may have left something.
    is_again: bool,
}

/// What an attempt has to show for itself.
#[derive(Debug)]
pub(crate) struct Proven {
    pub(crate) parts: Vec<Finished>,
    /// What moves the table's checkpoint; `None` for a stream.
    pub(crate) commit: Option<Commit>,
    pub(crate) rows: u64,
    pub(crate) watermark: Option<Instant>,
}

impl<'a> Epochs<'a> {
    /// The epochs beside a table's checkpoint, `<table>.ledger`; `None` where it has none.
    pub(crate) fn of_table(source: &'a Source, table: &'a str) -> Result<Option<Self>> {
        let Some(checkpoint) = &source.table(table)?.config().checkpoint else { return Ok(None) };
        let shelf = Shelf::open(&checkpoint.location, &source.config().storage, source.effects().clone())?;
        Ok(Some(Self::new(source, table, &shelf.below(&format!("{table}.ledger")))))
    }

    /// The epochs of a stream, whose ledger is its checkpoint location.
    pub(crate) fn at(source: &'a Source, table: &'a str, location: &Location) -> Result<Self> {
        // Named the same from anywhere: by its name this stream knows what it has staged.
        let location = absolute(location)?;
        let shelf = Shelf::open(&location, &source.config().storage, source.effects().clone())?;
        Ok(Self::new(source, table, &shelf))
    }

    fn new(source: &'a Source, table: &'a str, root: &Shelf) -> Self {
        let id = hex(&Sha256::digest(root.describe("")))[..12].to_owned();
        let effects = source.effects().clone();
        let ledger = Ledger::new(table, root);
        Self { source, table, ledger, id, effects, place: OnceLock::new(), is_swept: AtomicBool::new(false) }
    }

    /// Where the epochs stand, after everything that was decided has been done.
    ///
    /// `output` is where this run writes; only by it a place of the program's own is known. `say` is told of an epoch that
    /// an earlier run had left to do.
    ///
    /// # Errors
    /// Kind `Store` where what was decided cannot be done: the message names the entry, and what to do about it.
    pub(crate) async fn recover(&self, output: Option<&Output>, say: impl FnOnce(String)) -> Result<Head<Staged>> {
        let head = self.ledger.head::<Staged>().await?;
        if let Some((_, newest)) = head.newest.as_ref().filter(|_| !head.is_done) {
            let number = newest.epoch;
            self.roll_forward(newest, output).await.map_err(|error| {
                let entry = self.ledger.describe_decision(number);
                error.with("mend", format!("what it names, or remove {entry} to read epoch {number} again"))
            })?;
            say(format!(
                "epoch {number}, which an earlier run had committed, is finished now: {} rows are in sight, the position \
                 has followed",
                newest.rows
            ));
        }
        Ok(head)
    }

    async fn roll_forward(&self, newest: &Commits<Staged>, output: Option<&Output>) -> Result<()> {
        let Some(staged) = &newest.staged else { return self.follow(newest, None, true).await.map(drop) };
        let place = match staged.format {
            Some(format) => self.directory(staged, format).await?,
            None => own(staged, output)?,
        };
        let sink = place.open(self.table, &self.epoch(newest.epoch, &newest.run), 1).await?;
        self.follow(newest, Some(&*sink), true).await.map(drop)
    }

    /// The directory that an epoch was staged in, which holds what was staged.
    async fn directory(&self, staged: &Staged, format: Format) -> Result<Arc<dyn Place>> {
        let settings = &self.source.config().storage;
        let to = location::parse(&staged.to)
            .map_err(|said| Error::new(ErrorKind::Store, format!("{}: {said}", staged.to)))?;
        verify::staged(&to, settings, &staged.parts).await?;
        Ok(Arc::new(Directory::new(to, format, settings.clone()).watched(&self.effects)))
    }

    fn epoch(&self, number: u64, run: &str) -> Epoch {
        Epoch { ledger: self.id.clone(), number, run: run.to_owned() }
    }

    /// Begins the next epoch, or takes up the one that was begun and not decided.
    ///
    /// # Errors
    /// Kind `Store` where the ledger is a stream's, and this is none; kind `Conflict` where another run begins it now.
    pub(crate) async fn begin(&self, head: &Head<Staged>, plan: &Plan, window: Option<Window>) -> Result<Begun> {
        let epoch = self.epoch(head.next(), plan.id());
        let mut entries = head.pending.iter().chain(head.newest.iter().map(|(offsets, _)| offsets));
        if window.is_none() && entries.any(|entry| entry.window.is_some()) {
            let said = "the ledger beside the checkpoint is a stream's; give the stream a location of its own";
            return Err(Error::new(ErrorKind::Store, said).with("table", self.table));
        }
        if let Some(pending) = &head.pending {
            return Ok(Begun { offsets: pending.clone(), epoch, is_again: true });
        }
        let offsets = Offsets {
            table: self.table.to_owned(),
            epoch: epoch.number,
            fingerprint: plan.fingerprint.clone(),
            run: plan.id().to_owned(),
            start: plan.start().cloned(),
            window,
        };
        self.ledger.begin(&offsets).await?;
        Ok(Begun { offsets, epoch, is_again: false })
    }

    /// Opens the output for an attempt: what takes epochs stages them unseen, anything else takes rows at once.
    pub(crate) async fn open(&self, output: &Output, begun: &Begun, parts: usize) -> Result<Box<dyn Sink>> {
        let settings = &self.source.config().storage;
        match self.place.get_or_init(|| output.place(settings, &self.effects)) {
            Some(place) => place.open(self.table, &begun.epoch, parts).await,
            None => output.open(self.table, sink::Existing::Append, &begun.epoch.run, parts, settings).await,
        }
    }

    /// Decides the epoch, shows it, moves the checkpoint; the files that hold its rows.
    ///
    /// # Errors
    /// Kind `Conflict` where another run was faster: nothing is seen of this one. Any other error after the decision says
    /// that the epoch is committed: the next run does what is left.
    pub(crate) async fn settle(
        &self,
        begun: &Begun,
        output: &Output,
        sink: &dyn Sink,
        proven: Proven,
    ) -> Result<Vec<String>> {
        let Proven { parts, commit, rows, watermark } = proven;
        let staged = match &output.destination {
            Destination::Files(to) => {
                Some(Staged { to: absolute(to)?.to_string(), format: Some(output.format), parts })
            }
            Destination::Own(place) => Some(Staged { to: place.name(), format: None, parts }),
            Destination::Stdout | Destination::Null => None,
        };
        let Epoch { number, run, .. } = &begun.epoch;
        let entry =
            Commits { table: self.table.to_owned(), epoch: *number, run: run.clone(), staged, commit, rows, watermark };
        let parts = entry.staged.as_ref().map_or(&[][..], |staged| &staged.parts);
        let decided = async {
            if let Some(commit) = &entry.commit {
                self.still_stands(commit).await?;
            }
            self.ledger.decide(&entry).await
        };
        if let Err(error) = decided.await {
            if error.kind() != ErrorKind::Conflict {
                return Err(error);
            }
            sink.withdraw(parts).await;
            return Err(error.with("written", "nothing: what this run had staged was withdrawn"));
        }
        self.follow(&entry, Some(sink), begun.is_again).await.map_err(|error| {
            error.reworded(|said| format!("epoch {number} is committed, the next run does what is left of it: {said}"))
        })
    }

    /// A position that was moved meanwhile leaves the epoch undecided: two runs would deliver the same rows.
    async fn still_stands(&self, commit: &Commit) -> Result<()> {
        let Some(bytes) = self.source.checkpoints().bytes(self.table).await? else { return self.same(commit, None) };
        self.same(commit, Some(&bytes))
    }

    fn same(&self, commit: &Commit, bytes: Option<&[u8]>) -> Result<()> {
        if commit.position().is_none() || Base::of(bytes) == *commit.base() {
            return Ok(());
        }
        let place = self.source.checkpoints().path(self.table).unwrap_or_default();
        Err(commit.conflict(&place))
    }

    /// What follows a decision: it may be done any number of times.
    async fn follow(&self, entry: &Commits<Staged>, sink: Option<&dyn Sink>, is_again: bool) -> Result<Vec<String>> {
        let mut files = Vec::new();
        if let (Some(staged), Some(sink)) = (&entry.staged, sink) {
            files = sink.publish(&staged.parts).await?;
            // Not after each epoch of a stream: it lists a directory that may hold the files of many.
            if is_again || !self.is_swept.load(Ordering::Relaxed) {
                sink.sweep().await?;
                self.is_swept.store(true, Ordering::Relaxed);
            }
        }
        if let Some(commit) = &entry.commit {
            self.move_checkpoint(commit, entry.epoch).await?;
        }
        self.ledger.done(entry.epoch).await?;
        Ok(files)
    }

    /// Moves the checkpoint to where a decided epoch leads.
    ///
    /// # Errors
    /// Kind `Conflict` while another run moves it: whether it gets there is not known, so the epoch is not done.
    async fn move_checkpoint(&self, commit: &Commit, epoch: u64) -> Result<()> {
        match self.source.checkpoints().commit(commit).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                match self.still_stands(commit).await {
                    Ok(()) => Err(error),
                    // By hand, or by a run without files, after the epoch was decided: that is where it stands.
                    Err(moved) if moved.kind() == ErrorKind::Conflict => {
                        tracing::warn!(table = self.table, epoch, "the checkpoint was moved meanwhile: {moved}");
                        Ok(())
                    }
                    Err(unknown) => Err(unknown),
                }
            }
            moved => moved,
        }
    }
}

/// Does what is left of the epochs of a table that were decided: before its position is moved by hand, so that none of them
/// moves it afterwards.
///
/// # Errors
/// As those of a run: kind `Store` for a ledger that cannot be used, or a place that cannot be reached.
pub async fn finish(source: &Source, table: &str) -> Result<()> {
    if let Some(epochs) = Epochs::of_table(source, table)? {
        epochs.recover(None, |_| {}).await?;
    }
    Ok(())
}

/// The place of the program's own that an epoch was staged in.
///
/// # Errors
/// Kind `Store` where this run does not write to it.
fn own(staged: &Staged, output: Option<&Output>) -> Result<Arc<dyn Place>> {
    match output.map(|output| &output.destination) {
        Some(Destination::Own(place)) if place.name() == staged.to => Ok(Arc::clone(place)),
        _ => {
            let said =
                format!("it was staged in {}, a place that only the program that wrote there knows: run it", staged.to);
            Err(Error::new(ErrorKind::Store, said))
        }
    }
}

/// A location that means the same from anywhere.
fn absolute(to: &Location) -> Result<Location> {
    match to {
        Location::Local(dir) => std::path::absolute(dir).map(Location::Local).map_err(|e| {
            Error::new(ErrorKind::Store, format!("the directory has no absolute path: {e}")).with("path", dir.display())
        }),
        remote @ Location::Remote(_) => Ok(remote.clone()),
    }
}
