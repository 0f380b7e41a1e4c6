//! By records received: the next offset is the start plus what came, never plus what was asked for (R14).

use super::{Answer, Declared};
use crate::config::DeclaredEnd;
use crate::error::{Error, ErrorKind, Result};

/// Where an offset walk stands.
#[derive(Debug)]
pub struct Offset {
    start: u64,
    next: u64,
    declared: Declared,
}

impl Offset {
    /// At a stored offset, or 0.
    pub fn starting(start: u64) -> Self {
        Self { start, next: start, declared: Declared::default() }
    }

    /// The offset that is asked for next: start plus records received.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The total that the last page declared.
    pub fn total(&self) -> Option<u64> {
        self.declared.total
    }

    /// Takes a page; `false` is the end.
    pub(super) fn pass(&mut self, answer: Answer<'_>, end: &DeclaredEnd, warnings: &mut Vec<String>) -> Result<bool> {
        self.next = self
            .next
            .checked_add(answer.received)
            .ok_or_else(|| Error::new(ErrorKind::Incomplete, "the offset is beyond 64 bits"))?;
        let declared = Declared::read(answer.envelope, end)?;
        let known = declared.or(self.declared);
        self.declared = Declared { total: known.total, ..declared };
        if let Some(total) = declared.total.filter(|total| *total < self.start && warnings.is_empty()) {
            warnings.push(format!(
                "the stored offset {} is beyond the API's total of {total}: records were removed, or it is another list",
                self.start
            ));
        }
        if answer.received == 0 { known } else { declared }.goes_on(answer.received, self.next)
    }
}
