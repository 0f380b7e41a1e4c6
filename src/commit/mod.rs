//! Receipts become a commit, a commit becomes a checkpoint. There is no other way to write one (R1).

use crate::error::{Error, ErrorKind, Result};
use crate::plan::Plan;
use crate::read::Receipt;

/// Dropping a commit does nothing. It proves that every partition of one plan was read to its end.
#[derive(Debug)]
#[must_use = "a commit moves nothing until a checkpoint store is handed it"]
pub struct Commit(());

impl Plan {
    /// Proof that the whole plan was read: exactly one receipt for each of its partitions (R1).
    pub fn seal(&self, _receipts: Vec<Receipt>) -> Result<Commit> {
        Err(Error::new(ErrorKind::Bug, "not built"))
    }
}
