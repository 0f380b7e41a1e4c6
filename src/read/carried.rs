//! Receipts that were made in another process: a text carries one to whoever holds the plan (R1).

use serde::{Deserialize, Serialize};

use super::{End, Proof, Receipt};
use crate::counts::Counts;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::Plan;
use crate::position::{Position, Seen};

/// The text of a receipt.
#[derive(Serialize, Deserialize)]
struct Carried {
    /// The version of this form.
    receipt: u8,
    plan: String,
    partition: String,
    /// Rows that were handed on.
    rows: u64,
    position: Option<Position>,
    seen: Seen,
    /// In hexadecimal digits: JSON numbers are shorter.
    content: Option<String>,
    counts: Counts,
}

const VERSION: u8 = 1;

impl Receipt {
    /// Makes a text of it that [`Plan::receive`] reads: one receipt is one text, and holds no secret.
    ///
    /// `rows` is what became of its rows here: as many were handed on.
    #[must_use = "a receipt moves nothing until its plan is sealed with it and committed"]
    pub fn carry(self, rows: u64) -> String {
        let Proof { plan, partition, end, counts } = *self.0;
        let content = end.content.map(|content| format!("{content:032x}"));
        let (position, seen) = (end.position, end.seen);
        let carried = Carried { receipt: VERSION, plan, partition, rows, position, seen, content, counts };
        // Names and numbers only: nothing of it can fail to be JSON.
        serde_json::to_string(&carried).unwrap_or_default()
    }
}

impl Plan {
    /// The receipt that a task of this plan carried here.
    ///
    /// # Errors
    /// Kind `Scan` for a text that is none, and for a receipt of another plan or of none of its partitions.
    pub fn receive(&self, text: &str) -> Result<Receipt> {
        let refuse = |what: String| Error::new(ErrorKind::Scan, what).with("table", self.table());
        let carried: Carried = serde_json::from_str(text).map_err(|e| refuse(format!("this is no receipt: {e}")))?;
        if carried.receipt != VERSION {
            return Err(refuse(format!("a receipt of version {} is not known here", carried.receipt)));
        }
        if carried.plan != self.id() {
            return Err(refuse("a receipt belongs to another plan".into()));
        }
        if !self.partitions().iter().any(|partition| partition.id() == carried.partition) {
            return Err(refuse(format!("the plan has no partition {}", carried.partition)));
        }
        let content = carried.content.as_deref().map(|hex| u128::from_str_radix(hex, 16));
        let content = content.transpose().map_err(|e| refuse(format!("this is no receipt: {e}")))?;
        let end = End { position: carried.position, seen: carried.seen, content };
        let Carried { plan, partition, counts, .. } = carried;
        Ok(Receipt(Box::new(Proof { plan, partition, end, counts })))
    }
}
