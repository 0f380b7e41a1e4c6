//! The only loop: fetch, decode, paginate. A read yields batches and, last and once, a receipt (R1).

use std::sync::Arc;

use arrow_array::RecordBatch;

use crate::counts::{Counts, Meter};
use crate::error::{Error, ErrorKind, Result};

/// What a [`Read`] yields: any number of batches and then, exactly once and last, a receipt.
#[derive(Debug)]
pub enum Event {
    /// Rows. They prove nothing.
    Batch(RecordBatch),
    /// The partition was read to its end.
    Done(Receipt),
}

/// Dropping a receipt does nothing. It proves that one partition was read to its end.
#[derive(Debug)]
#[must_use = "a receipt moves nothing until the plan is sealed with it and committed"]
pub struct Receipt {
    counts: Counts,
}

impl Receipt {
    /// The loss report of the partition (R25).
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

/// The stream of one partition. Dropping it cancels its requests.
#[derive(Debug)]
pub struct Read {
    meter: Arc<Meter>,
}

impl Read {
    /// The next event; `None` after the receipt.
    pub async fn try_next(&mut self) -> Result<Option<Event>> {
        Err(Error::new(ErrorKind::Bug, "not built"))
    }

    /// Live figures for a progress display.
    pub fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }
}
