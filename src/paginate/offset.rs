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
    window: Option<Window>,
    missing: Option<String>,
}

/// Where an offset partition ends.
#[derive(Debug, Clone, Copy)]
struct Window {
    end: u64,
    is_last: bool,
}

impl Offset {
    /// At a stored offset, or 0.
    pub fn starting(start: u64) -> Self {
        Self { start, next: start, declared: Declared::default(), window: None, missing: None }
    }

    /// From `start` up to, not including, `end`; after the last window the endpoint must hold nothing (R30).
    pub fn within(start: u64, end: u64, is_last: bool) -> Self {
        Self { window: Some(Window { end, is_last }), ..Self::starting(start) }
    }

    /// The offset after the last one that is asked for; `None` without a window.
    pub fn end(&self) -> Option<u64> {
        self.window.map(|window| window.end)
    }

    /// The offset that is asked for next: start plus records received.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// What the endpoint holds beyond the last window.
    pub fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
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
        if let Some(window) = self.window {
            if self.next >= window.end {
                match window.beyond(declared) {
                    Ok(warning) => warnings.extend(warning),
                    Err(more) => self.missing = Some(more),
                }
                return Ok(false);
            }
        } else if let Some(total) = declared.total.filter(|total| *total < self.start && warnings.is_empty()) {
            warnings.push(format!(
                "the stored offset {} is beyond the API's total of {total}: records were removed, or it is another list",
                self.start
            ));
        }
        if answer.received == 0 { known } else { declared }.goes_on(answer.received, self.next)
    }
}

impl Window {
    /// What a full window leaves beyond it: `Err` where the endpoint holds more, a warning where it may (R30).
    fn beyond(self, declared: Declared) -> Result<Option<String>, String> {
        let end = self.end;
        let what = match declared {
            _ if !self.is_last => return Ok(None),
            Declared { total: Some(total), .. } if total > end => format!("the API declares a total of {total}"),
            Declared { has_more: Some(true), .. } => "the API's flag says that more is to come".to_owned(),
            Declared { total: None, has_more: None } => {
                return Ok(Some(format!(
                    "the last partition came back full: the endpoint may hold more than the {end} records that \
                     partition.size x count cover"
                )));
            }
            _ => return Ok(None),
        };
        Err(format!("{what}, the partitions cover {end} records: raise partition.size or count"))
    }
}
