//! A key that stands twice in a record counts the last time (R24), although values go into their columns as they are met.
//!
//! Such a record is rare: it is walked again, without what a later key supersedes, into a row of its own; the row of
//! the first walk is dropped, and what that walk counted is taken back.

use super::record::{Halt, Node, Place, Sink, Walk, Watched};
use super::scan::Scanner;
use crate::config::OnMismatch;

/// A record or element that was walked once.
pub(crate) struct Walked<'a> {
    /// At its beginning.
    pub scanner: Scanner<'a>,
    pub place: Place,
    /// Whether undeclared keys in it are of interest.
    pub keep: bool,
}

impl<'a> Walked<'a> {
    fn walk(
        &self,
        root: &mut Node,
        sink: &mut Sink,
        stamp: &mut u64,
        is_again: bool,
    ) -> (Scanner<'a>, Result<Watched<'a>, Halt>) {
        *stamp += 1;
        sink.rest.clear();
        let mut scanner = self.scanner.clone();
        let (watched, place) = (Watched::default(), self.place);
        let mut walk = Walk { scanner: &mut scanner, sink, watched, stamp: *stamp, is_again, place };
        let outcome = walk.value(root, self.keep);
        let watched = walk.watched;
        (scanner, outcome.map(|()| watched))
    }

    /// Walks the record again, if a key of it stands twice; else it is what `first` says. Its first row has then been
    /// ended in `sink`, and is to be dropped.
    #[cold]
    pub(crate) fn again(
        &self,
        root: &mut Node,
        sink: &mut Sink,
        stamp: &mut u64,
        first: Result<(), Halt>,
    ) -> Result<(Scanner<'a>, Watched<'a>), Halt> {
        let mut spare = sink.spare();
        // It is walked as before, so it counts as before; a value that was refused is met again.
        let _ = self.walk(root, &mut spare, stamp, false);
        sink.take_back(&spare);
        let mut spare = Sink { on_mismatch: OnMismatch::Null, ..sink.spare() };
        // What a superseded value hides is not known before that value is left out.
        let mut known = None;
        while known != Some(spare.superseded.len()) {
            known = Some(spare.superseded.len());
            if let (_, Err(flaw)) = self.walk(root, &mut spare, stamp, true) {
                return Err(flaw);
            }
        }
        if spare.superseded.is_empty() {
            first?;
        }
        sink.columns.end_row(None);
        sink.superseded = std::mem::take(&mut spare.superseded);
        sink.duplicate_keys.merge(std::mem::take(&mut spare.duplicate_keys));
        let (scanner, watched) = self.walk(root, sink, stamp, true);
        sink.superseded.clear();
        Ok((scanner, watched?))
    }
}
