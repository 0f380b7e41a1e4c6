//! By page number: an empty page or the declared end ends the walk, a short page does not (R14).

use super::{Answer, Declared};
use crate::config::DeclaredEnd;
use crate::error::{Error, ErrorKind, Result};

/// Where a page-number walk stands.
#[derive(Debug)]
pub struct PageNumber {
    number: u64,
    received: u64,
    declared: Declared,
}

impl PageNumber {
    /// At the first page.
    pub fn starting(number: u64) -> Self {
        Self { number, received: 0, declared: Declared::default() }
    }

    /// The page that is asked for next.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Records received so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The total that the last page declared.
    pub fn total(&self) -> Option<u64> {
        self.declared.total
    }

    /// Takes a page; `false` is the end.
    pub(super) fn pass(&mut self, answer: Answer<'_>, end: &DeclaredEnd) -> Result<bool> {
        let overflow = || Error::new(ErrorKind::Incomplete, "the page number is beyond 64 bits");
        self.received = self.received.checked_add(answer.received).ok_or_else(overflow)?;
        self.number = self.number.checked_add(1).ok_or_else(overflow)?;
        let declared = Declared::read(answer.envelope, end)?;
        let known = declared.or(self.declared);
        self.declared = Declared { total: known.total, ..declared };
        if answer.received == 0 { known } else { declared }.goes_on(answer.received, self.received)
    }
}
