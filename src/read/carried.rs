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
        let carried = self.carried(text)?;
        let content = carried.content.as_deref().map(|hex| u128::from_str_radix(hex, 16));
        let content = content.transpose().map_err(|e| self.refuse(format!("this is no receipt: {e}")))?;
        let end = End { position: carried.position, seen: carried.seen, content };
        let Carried { plan, partition, counts, .. } = carried;
        Ok(Receipt(Box::new(Proof { plan, partition, end, counts })))
    }

    /// Of the receipts of several reads of one partition, where nobody knows which of them delivered the rows that were
    /// kept: the one that reached least, which remembers only what all of them have delivered.
    ///
    /// # Errors
    /// Kind `Scan` as [`Plan::receive`]; for no receipt, or those of several partitions; and for cursors or tokens that differ, of
    /// which none is less than the other.
    pub fn least(&self, texts: &[String]) -> Result<String> {
        let mut least: Option<Carried> = None;
        for text in texts {
            let next = self.carried(text)?;
            least = Some(match least {
                Some(least) => self.lesser(least, next)?,
                None => next,
            });
        }
        let least = least.ok_or_else(|| self.refuse("there is no receipt".into()))?;
        Ok(serde_json::to_string(&least).unwrap_or_default())
    }

    fn lesser(&self, one: Carried, other: Carried) -> Result<Carried> {
        if one.partition != other.partition {
            return Err(self.refuse("the receipts are of several partitions".into()));
        }
        let seen = one.seen.and(&other.seen);
        let is_first = match (&one.position, &other.position) {
            (None, _) => true,
            (_, None) => false,
            (Some(a), Some(b)) if a == b => true,
            (Some(a @ (Position::Offset(_) | Position::Timestamp(_))), Some(b)) => {
                let format = self.stored.as_ref().and_then(|stored| stored.format.as_ref());
                Position::forward(Some(a), b.clone(), format) != *a
            }
            (Some(a), Some(b)) => {
                let said =
                    format!("reads of one plan ended at different places, {a} and {b}: none is before the other");
                return Err(self.refuse(said));
            }
        };
        Ok(Carried { seen, ..if is_first { one } else { other } })
    }

    fn carried(&self, text: &str) -> Result<Carried> {
        let carried: Carried =
            serde_json::from_str(text).map_err(|e| self.refuse(format!("this is no receipt: {e}")))?;
        if carried.receipt != VERSION {
            return Err(self.refuse(format!("a receipt of version {} is not known here", carried.receipt)));
        }
        if carried.plan != self.id() {
            return Err(self.refuse("a receipt belongs to another plan".into()));
        }
        if !self.partitions().iter().any(|partition| partition.id() == carried.partition) {
            return Err(self.refuse(format!("the plan has no partition {}", carried.partition)));
        }
        Ok(carried)
    }

    fn refuse(&self, what: String) -> Error {
        Error::new(ErrorKind::Scan, what).with("table", self.table())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Base;
    use crate::position::TimestampFormat;

    fn carried(position: Option<Position>, seen: &[&str]) -> String {
        let seen = seen.iter().map(|hash| ((*hash).to_owned(), serde_json::Value::Null)).collect();
        let seen = Seen::from_json(&serde_json::Value::Object(seen)).unwrap();
        let (plan, partition) = ("p".to_owned(), "all".to_owned());
        let counts = Counts::default();
        let carried = Carried { receipt: VERSION, plan, partition, rows: 1, position, seen, content: None, counts };
        serde_json::to_string(&carried).unwrap()
    }

    #[test]
    fn r03_of_several_reads_the_one_that_reached_least_counts() {
        let plan = Plan::of_test("p", Base::Missing, None, Some(TimestampFormat::Rfc3339));
        let at = |text: &str| Some(Position::Timestamp(text.into()));
        let (near, far) = (at("2026-01-01T02:00:00+02:00"), at("2026-01-01T00:00:01Z"));
        let reached = |texts: &[String]| plan.receive(&plan.least(texts).unwrap()).unwrap().into_end();
        for texts in [
            [carried(near.clone(), &["a", "b"]), carried(far.clone(), &["b", "c"])],
            [carried(far.clone(), &["b", "c"]), carried(near.clone(), &["a", "b"])],
        ] {
            let end = reached(&texts);
            assert_eq!((end.position, end.seen.len()), (near.clone(), 1), "as instants; what both have delivered");
        }
        assert_eq!(reached(&[carried(far.clone(), &[]), carried(None, &[])]).position, None, "it met none");
        let offsets = [5, 3, 9].map(|n| carried(Some(Position::Offset(n)), &[]));
        assert_eq!(reached(&offsets).position, Some(Position::Offset(3)));
        let cursor = |text: &str| carried(Some(Position::Cursor(text.into())), &[]);
        assert_eq!(reached(&[cursor("A"), cursor("A")]).position, Some(Position::Cursor("A".into())));
        assert_eq!(plan.least(&[cursor("A"), cursor("B")]).unwrap_err().kind(), ErrorKind::Scan);
        assert_eq!(plan.least(&[]).unwrap_err().kind(), ErrorKind::Scan);
    }
}
