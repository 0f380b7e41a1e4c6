//! The loss report: what a read received, changed, dropped and handed on (R25).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use serde::{Deserialize, Serialize};

use crate::text::{cut, one_line};

/// A count and the first offender, cut to a line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// How often.
    pub count: u64,
    /// The first one, as raw JSON text or a description.
    pub first: Option<String>,
}

/// The longest first offender that is kept, in characters.
const FIRST_MAX: usize = 120;

impl Tally {
    /// One more; `what` is asked for the first one only.
    pub fn add(&mut self, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some(cut(&one_line(&what()), FIRST_MAX));
        }
    }

    /// Takes back what another tally counted last.
    pub(crate) fn take_back(&mut self, other: &Self) {
        self.count = self.count.saturating_sub(other.count);
        if self.count == 0 {
            self.first = None;
        }
    }

    /// Adds another tally; the earlier first offender stays.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        if self.first.is_none() {
            self.first = other.first;
        }
    }
}

/// The counts of one partition's read (R25).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests sent, token requests and retries included.
    pub requests: u64,
    /// Attempts after a first one.
    pub retries: u64,
    /// Pages used.
    pub pages: u64,
    /// Decoded body bytes.
    pub bytes: u64,
    /// Raw records received.
    pub rows_read: u64,
    /// Rows handed on.
    pub rows_emitted: u64,
    /// Values converted exactly or with a loss of digits, per column.
    pub converted: BTreeMap<String, Tally>,
    /// Values that did not fit and became NULL, per column.
    pub nulled: BTreeMap<String, Tally>,
    /// Keys that stood twice in a record.
    pub duplicate_keys: Tally,
    /// Keys that an inferred schema has no column for: they first appeared on a later page.
    pub undeclared: Tally,
    /// Records without a readable position.
    pub without_position: Tally,
    /// Records dated after the read began.
    pub in_future: u64,
    /// Records dropped because they were delivered before.
    pub duplicates_dropped: u64,
    /// Records of a stream that belong to another batch.
    pub outside_window: u64,
    /// Records of a stream that came after the watermark had passed them; they were delivered.
    pub late: u64,
    /// Boundary records that did not fit the memory of `dedup-key`.
    pub not_remembered: u64,
    /// In a child table: rows of its parents, and of theirs, that were read.
    pub parents: u64,
    /// Parents whose key is missing, null, empty or no scalar: they have no children.
    pub parents_without_key: Tally,
    /// Keys that a URL's path cannot carry (R18).
    pub keys_refused: Tally,
    /// Keys that came again: each is read once.
    pub keys_repeated: Tally,
    /// Children left out because their first page answered 404.
    pub children_missing: Tally,
    /// Records dropped because they belong to no key that was asked for.
    pub unmatched: Tally,
    /// What is worth saying once, in words.
    pub warnings: Vec<String>,
}

impl Counts {
    /// Adds the counts of another page or partition.
    pub fn merge(&mut self, other: Self) {
        self.requests += other.requests;
        self.retries += other.retries;
        self.pages += other.pages;
        self.bytes += other.bytes;
        self.rows_read += other.rows_read;
        self.rows_emitted += other.rows_emitted;
        for (mine, theirs) in [(&mut self.converted, other.converted), (&mut self.nulled, other.nulled)] {
            for (column, tally) in theirs {
                mine.entry(column).or_default().merge(tally);
            }
        }
        self.duplicate_keys.merge(other.duplicate_keys);
        self.undeclared.merge(other.undeclared);
        self.without_position.merge(other.without_position);
        self.in_future += other.in_future;
        self.duplicates_dropped += other.duplicates_dropped;
        self.outside_window += other.outside_window;
        self.late += other.late;
        self.not_remembered += other.not_remembered;
        self.parents += other.parents;
        self.parents_without_key.merge(other.parents_without_key);
        self.keys_refused.merge(other.keys_refused);
        self.keys_repeated.merge(other.keys_repeated);
        self.children_missing.merge(other.children_missing);
        self.unmatched.merge(other.unmatched);
        // Many partitions say the same.
        for warning in other.warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }
}

/// Live figures of a read, shared with whoever shows progress.
#[derive(Debug, Default)]
pub struct Meter {
    /// Requests sent so far.
    pub requests: AtomicU64,
    /// Attempts after a first one so far.
    pub retries: AtomicU64,
    /// Pages used so far.
    pub pages: AtomicU64,
    /// Decoded body bytes so far.
    pub bytes: AtomicU64,
    /// Records received so far.
    pub rows: AtomicU64,
    note: Mutex<String>,
    position: Mutex<String>,
    /// What happened to values and records so far.
    losses: Mutex<Counts>,
    /// Where the parents of a child table are counted.
    parents: OnceLock<Arc<Meter>>,
}

impl Meter {
    /// Adds to one of the figures.
    pub fn add(figure: &AtomicU64, n: u64) {
        figure.fetch_add(n, Ordering::Relaxed);
    }

    /// Reads one of the figures.
    pub fn get(figure: &AtomicU64) -> u64 {
        figure.load(Ordering::Relaxed)
    }

    /// Says what the read is doing or waiting for ("waiting 3 s: 429"); empty when it is just reading.
    pub fn say(&self, note: impl Into<String>) {
        if let Ok(mut held) = self.note.lock() {
            *held = note.into();
        }
    }

    /// Says where the walk stands ("cursor abc", "offset 500").
    pub fn stand_at(&self, position: &str) {
        if let Ok(mut held) = self.position.lock() {
            // It is shown on a terminal, on one line.
            *held = position.chars().filter(|c| !c.is_control()).take(60).collect();
        }
    }

    /// Where the walk stands; empty where that has no name.
    pub fn position(&self) -> String {
        self.position.lock().map(|held| held.clone()).unwrap_or_default()
    }

    /// Adds what happened to the values and records of a walk, once it is over.
    pub(crate) fn keep(&self, losses: Counts) {
        if let Ok(mut held) = self.losses.lock() {
            held.merge(losses);
        }
    }

    /// What the read of the parents costs and loses counts here too, but for their rows.
    pub(crate) fn add_parents(&self, parents: Arc<Self>) {
        let _ = self.parents.set(parents);
    }

    /// The loss report so far, also of a read that ended without a receipt (R25).
    pub fn counts(&self) -> Counts {
        let mut counts = Counts {
            requests: Self::get(&self.requests),
            retries: Self::get(&self.retries),
            pages: Self::get(&self.pages),
            bytes: Self::get(&self.bytes),
            rows_read: Self::get(&self.rows),
            ..self.losses.lock().map(|held| held.clone()).unwrap_or_default()
        };
        if let Some(parents) = self.parents.get().map(|parents| parents.counts()) {
            let read = parents.parents + parents.rows_read;
            counts.merge(Counts { parents: read, rows_read: 0, rows_emitted: 0, ..parents });
        }
        counts
    }

    /// What was said last.
    pub fn note(&self) -> String {
        self.note.lock().map(|held| held.clone()).unwrap_or_default()
    }
}

/// The figures of all reads of a run, whether they stand beside or behind each other.
#[derive(Debug, Default)]
pub struct Meters(Mutex<Reads>);

#[derive(Debug, Default)]
struct Reads {
    ended: Counts,
    live: Vec<Arc<Meter>>,
}

impl Meters {
    /// Something worth saying that belongs to no single read.
    pub(crate) fn warn(&self, warnings: &[String]) {
        if let Ok(mut reads) = self.0.lock() {
            reads.ended.merge(Counts { warnings: warnings.to_vec(), ..Counts::default() });
        }
    }

    /// A read begins.
    pub(crate) fn begin(&self, meter: &Arc<Meter>) {
        if let Ok(mut reads) = self.0.lock() {
            reads.live.push(Arc::clone(meter));
        }
    }

    /// A read has ended, well or not: its counts stay.
    pub(crate) fn end(&self, meter: &Arc<Meter>) {
        if let Ok(mut reads) = self.0.lock() {
            reads.live.retain(|live| !Arc::ptr_eq(live, meter));
            reads.ended.merge(meter.counts());
        }
    }

    /// The loss report of everything so far (R25).
    pub fn counts(&self) -> Counts {
        let Ok(reads) = self.0.lock() else { return Counts::default() };
        let mut counts = reads.ended.clone();
        reads.live.iter().for_each(|meter| counts.merge(meter.counts()));
        counts
    }

    /// The loss report of everything so far, which then begins anew: reads of the next batch are counted by themselves.
    pub(crate) fn take(&self) -> Counts {
        let counts = self.counts();
        if let Ok(mut reads) = self.0.lock() {
            reads.ended = Counts::default();
        }
        counts
    }

    /// The reads that have not ended, the first one first.
    pub fn live(&self) -> Vec<Arc<Meter>> {
        self.0.lock().map(|reads| reads.live.clone()).unwrap_or_default()
    }
}
