//! Receipts of tasks in other processes, left beside the checkpoint of their table for whoever settles the plan.
//!
//! `<table>.receipts/<plan>.<attempt>`: one file an attempt at a task, made once. None of them moves anything: a plan is
//! settled by [`Plan::receive`](crate::Plan::receive), [`Plan::seal`](crate::Plan::seal) and a commit.

use bytes::Bytes;
use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, ErrorKind, Result};
use crate::plan::Plan;
use crate::position::instant::minus;
use crate::position::{Instant, hex};
use crate::source::Source;
use crate::storage::shelf::Shelf;

/// The memory of `dedup-key` makes a file of about a megabyte; nothing makes one of this size, in bytes.
const SIZE_MAX: u64 = 64 << 20;

/// Receipts of plans that nobody settled are removed after so long.
const KEPT: TimeDelta = TimeDelta::days(30);

/// What one attempt at a task left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Which attempt, as its engine names it.
    pub attempt: String,
    /// The texts of its receipts, see [`Receipt::carry`](crate::Receipt::carry).
    pub receipts: Vec<String>,
}

/// The receipts of one plan.
#[derive(Debug)]
pub struct Receipts {
    shelf: Shelf,
    plan: String,
}

impl Receipts {
    /// Those of a plan, beside the checkpoint of its table. Nothing is contacted.
    ///
    /// # Errors
    /// Kind `Scan` for a table without a checkpoint.
    pub fn of(source: &Source, plan: &Plan) -> Result<Self> {
        let Some(checkpoint) = &source.table(plan.table())?.config().checkpoint else {
            let said = "this table has no enabled checkpoint: there is nothing to settle";
            return Err(Error::new(ErrorKind::Scan, said).with("table", plan.table()));
        };
        let shelf = Shelf::open(&checkpoint.location, &source.config().storage, source.effects().clone())?;
        Ok(Self { shelf: shelf.below(&format!("{}.receipts", plan.table())), plan: plan.id().to_owned() })
    }

    /// Leaves what an attempt has to show; doing it again is the same.
    ///
    /// # Errors
    /// Kind `Store` where it cannot be left, or the same attempt has left something else.
    pub async fn leave(&self, left: &Left) -> Result<()> {
        let name = format!("{}.{}", self.plan, &hex(&Sha256::digest(&left.attempt))[..16]);
        let text = serde_json::to_vec(left)
            .map_err(|e| Error::new(ErrorKind::Bug, format!("receipts cannot be written: {e}")))?;
        if self.shelf.create(&name, Bytes::from(text)).await? {
            return Ok(());
        }
        let said = "the same attempt has left other receipts";
        Err(Error::new(ErrorKind::Store, said).with("file", self.shelf.describe(&name)))
    }

    /// What all attempts have left.
    ///
    /// # Errors
    /// Kind `Store` for one that cannot be read.
    pub async fn all(&self) -> Result<Vec<Left>> {
        let mut all = Vec::new();
        for name in self.names().await? {
            let Some(bytes) = self.shelf.read(&name, SIZE_MAX).await? else { continue };
            all.push(serde_json::from_slice(&bytes).map_err(|e| {
                let said = format!("these receipts cannot be read: {e}");
                Error::new(ErrorKind::Store, said).with("file", self.shelf.describe(&name))
            })?);
        }
        Ok(all)
    }

    /// Removes what attempts have left: the plan was settled, or nobody will settle it. Those of other plans go too when
    /// they are very old.
    pub async fn forget(&self, now: Instant) -> Result<()> {
        for name in self.names().await? {
            self.shelf.remove(&name).await?;
        }
        let oldest = minus(now, KEPT.to_std().unwrap_or_default()).timestamp_millis();
        for entry in self.shelf.entries().await?.into_iter().filter(|entry| (1..oldest).contains(&entry.modified)) {
            self.shelf.remove(&entry.name).await?;
        }
        Ok(())
    }

    async fn names(&self) -> Result<Vec<String>> {
        let mut names = self.shelf.list().await?;
        names.retain(|name| name.split_once('.').is_some_and(|(plan, _)| plan == self.plan));
        Ok(names)
    }
}
