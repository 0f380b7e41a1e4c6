//! Checkpoints on HDFS, which has no compare-and-replace: claims that fence one another, then one rename (R7, R8).
//!
//! A committer writes the whole new content to a *claim*, a hidden file of its own beside the checkpoint, numbered above
//! every claim it sees. Then it looks again:
//!
//! 1. A higher claim is there: somebody came later. It withdraws its own and has lost.
//! 2. Otherwise it removes all lower ones. Whoever they belong to, alive or crashed, can never rename them any more.
//! 3. It reads the checkpoint once more. If that is not what its plan had loaded, it has lost.
//! 4. It renames its claim over the checkpoint: atomic, and impossible once the claim was removed.
//!
//! Two committers of one base cannot both pass. Each reads (3) before either renames (4); whichever claim is the higher
//! one, its owner saw the lower one after making its own and removed it before reading, or the lower one was made
//! later and its owner saw the higher. So the lower one's rename finds nothing. And the highest claim of a race is
//! removed by nobody, so one wins. Nothing here waits, measures time or has to be removed by hand: a crashed writer's
//! claim is just a lower one.

use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;

use super::{CheckpointStore, Commit, SIZE_MAX, Verdict, file_name};
use crate::error::{Error, ErrorKind, Result};
use crate::position::Instant;
use crate::storage::hdfs_files::{CHANGE_LIMIT, Failed, HdfsFiles, LOOK_LIMIT, Tries};

/// A directory of HDFS that holds checkpoint files. It is made on the first commit.
#[derive(Debug)]
pub struct HdfsStore(HdfsFiles);

/// The name of a claim: above all numbers seen when it was made, and random beyond that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Claim {
    number: u64,
    owner: u64,
}

impl Claim {
    /// One above all of these.
    fn above(seen: &[Self]) -> Self {
        let highest = seen.iter().map(|claim| claim.number).max().unwrap_or(0);
        Self { number: highest.saturating_add(1), owner: fastrand::u64(..) }
    }

    fn name(self, table: &str) -> String {
        format!(".{}.{:020}-{:016x}.claim", file_name(table), self.number, self.owner)
    }

    /// Reads a file name; `None` for any other file, other tables' claims among them.
    fn parse(name: &str, table: &str) -> Option<Self> {
        let rest = name.strip_prefix('.')?.strip_prefix(&file_name(table))?.strip_prefix('.')?;
        let (number, owner) = rest.strip_suffix(".claim")?.split_once('-')?;
        let claim = Self { number: number.parse().ok()?, owner: u64::from_str_radix(owner, 16).ok()? };
        // A number that no counting reaches is nobody's claim: nothing could stand above it.
        (claim.number < u64::MAX / 2 && claim.name(table) == name).then_some(claim)
    }
}

/// How a claim ended.
enum Contest {
    Won,
    Lost,
    /// There was nothing to replace.
    Needless,
}

impl HdfsStore {
    pub(crate) fn new(files: HdfsFiles) -> Self {
        Self(files)
    }

    async fn read(&self, table: &str) -> Result<Option<Bytes>> {
        let found = self.0.read(&file_name(table), SIZE_MAX).await;
        let found = found.map_err(|e| self.failed("cannot read the checkpoint", table, &e))?;
        if found.as_ref().is_some_and(|bytes| bytes.len() as u64 > SIZE_MAX) {
            let said = format!("the checkpoint {} cannot be used: it is too large to be one", self.describe(table));
            return Err(Error::new(ErrorKind::Store, said));
        }
        Ok(found)
    }

    /// The claims of a table, in order.
    async fn claims(&self, table: &str) -> Result<Vec<Claim>> {
        let listed = self.0.list().await;
        let listed = listed.map_err(|e| self.failed("cannot list the directory of the checkpoint", table, &e))?;
        let mut claims: Vec<Claim> = listed.iter().filter_map(|file| Claim::parse(&file.name, table)).collect();
        claims.sort_unstable();
        Ok(claims)
    }

    async fn commit_whole(&self, commit: &Commit, now: Instant) -> Result<()> {
        let (table, place) = (commit.table(), self.describe(commit.table()));
        let Some(bytes) = commit.ruled(self.read(table).await?.as_deref(), now, &place)? else { return Ok(()) };
        let Some(claim) = self.stage(table, Bytes::from(bytes)).await? else {
            return Err(commit.conflict(&place));
        };
        let is_base = |stands: Option<&[u8]>| commit.ruled(stands, now, &place).map(|bytes| bytes.is_some());
        let done = match self.contend(table, claim, is_base).await {
            Ok(Contest::Won | Contest::Needless) => Ok(()),
            Ok(Contest::Lost) => Err(commit.conflict(&place)),
            // The answer to the rename may be lost: what stands there now tells.
            Err(e) => match self.read(table).await.map(|stands| commit.judge(stands.as_deref(), now)) {
                Ok(Verdict::Done) => Ok(()),
                _ => Err(e),
            },
        };
        if done.is_err() {
            // Nobody's any more; where it cannot be removed, the next commit does it.
            let _ = self.remove(table, claim).await;
        }
        done
    }

    /// Writes a claim, whole and durable; `None` if a later committer removed it meanwhile.
    async fn stage(&self, table: &str, bytes: Bytes) -> Result<Option<Claim>> {
        let mut tries = Tries::default();
        loop {
            let claim = Claim::above(&self.claims(table).await?);
            match self.0.write(&claim.name(table), &bytes, &mut tries).await {
                Ok(true) => return Ok(Some(claim)),
                Ok(false) => {}
                Err(e) if e.is_fenced() => return Ok(None),
                Err(e) => return Err(self.failed("cannot write the checkpoint", table, &e)),
            }
        }
    }

    /// Fences lower claims and renames this one over the checkpoint, if `is_base` accepts what stands there.
    async fn contend(
        &self,
        table: &str,
        own: Claim,
        is_base: impl Fn(Option<&[u8]>) -> Result<bool>,
    ) -> Result<Contest> {
        let claims = self.claims(table).await?;
        if claims.iter().any(|claim| *claim > own) {
            return Ok(Contest::Lost);
        }
        for lower in claims.into_iter().filter(|claim| *claim < own) {
            self.remove(table, lower)
                .await
                .map_err(|e| self.failed("cannot remove what another writer of the checkpoint left", table, &e))?;
        }
        if !is_base(self.read(table).await?.as_deref())? {
            return Ok(Contest::Needless);
        }
        match self.0.rename(&own.name(table), &file_name(table), true).await {
            Ok(()) => Ok(Contest::Won),
            // Somebody came later and removed the claim; or this is the answer to a second try of the client.
            Err(e) if e.is_absent() => Ok(Contest::Lost),
            Err(e) => Err(self.failed("cannot write the checkpoint", table, &e)),
        }
    }

    /// Removes a claim; one that is gone already is removed.
    async fn remove(&self, table: &str, claim: Claim) -> Result<(), Failed> {
        self.0.remove(&claim.name(table)).await
    }

    /// Clearing is a commit of nothing: an empty claim takes the checkpoint's name, so that no commit under way puts the
    /// file back, and then goes.
    async fn clear_whole(&self, table: &str) -> Result<bool> {
        let busy = || {
            Error::new(ErrorKind::Conflict, "a run is committing this checkpoint now; try again")
                .with("file", self.describe(table))
        };
        if self.read(table).await?.is_none() && self.claims(table).await?.is_empty() {
            return Ok(false);
        }
        let claim = self.stage(table, Bytes::new()).await?.ok_or_else(busy)?;
        let is_base = |stands: Option<&[u8]>| Ok(stands.is_some());
        let contest = self.contend(table, claim, is_base).await;
        if !matches!(contest, Ok(Contest::Won)) {
            let _ = self.remove(table, claim).await;
        }
        match contest? {
            Contest::Lost => return Err(busy()),
            Contest::Needless => return Ok(false),
            Contest::Won => {}
        }
        let removed = self.0.remove(&file_name(table)).await;
        removed.map(|()| true).map_err(|e| self.failed("cannot remove the checkpoint", table, &e))
    }

    fn failed(&self, what: &str, table: &str, error: &Failed) -> Error {
        self.0.failed(what, &file_name(table), error)
    }

    async fn bounded<T>(&self, limit: Duration, table: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.0.bounded(limit, &file_name(table), work).await
    }
}

impl CheckpointStore for HdfsStore {
    fn load<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        let load = async { Ok(self.read(table).await?.map(Vec::from)) };
        Box::pin(self.bounded(LOOK_LIMIT, table, load))
    }

    fn commit<'a>(&'a self, commit: &'a Commit, now: Instant) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if commit.position().is_none() {
                return Ok(());
            }
            self.bounded(CHANGE_LIMIT, commit.table(), self.commit_whole(commit, now)).await
        })
    }

    fn clear<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.bounded(CHANGE_LIMIT, table, self.clear_whole(table)))
    }

    fn leftovers<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(self.bounded(LOOK_LIMIT, table, async {
            let claims = self.claims(table).await?;
            Ok(claims.into_iter().map(|claim| self.0.describe(&claim.name(table))).collect())
        }))
    }

    fn describe(&self, table: &str) -> String {
        self.0.describe(&file_name(table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_known_by_its_name_and_only_its_own_tables() {
        let claim = Claim { number: 7, owner: 0xab };
        let name = claim.name("events");
        assert_eq!(name, ".events.checkpoint.json.00000000000000000007-00000000000000ab.claim");
        assert_eq!(Claim::parse(&name, "events"), Some(claim));
        for (name, table) in [
            (name.as_str(), "event"),
            (".events.checkpoint.json.7-ab.claim", "events"),
            ("events.checkpoint.json", "events"),
            (".events.checkpoint.json.tmp", "events"),
        ] {
            assert_eq!(Claim::parse(name, table), None, "{name}");
        }
    }

    #[test]
    fn a_new_claim_stands_above_all_that_were_seen() {
        let seen = [Claim { number: 3, owner: u64::MAX }, Claim { number: 9, owner: 0 }];
        assert!(seen.iter().all(|old| *old < Claim::above(&seen)));
        assert_eq!(Claim::above(&[]).number, 1);
    }

    /// The protocol as a model, to be tried in every order: what stands there, the claims, and three committers.
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct World {
        checkpoint: u64,
        claims: Vec<Claim>,
        committers: [Committer; 3],
    }

    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Committer {
        step: Step,
        base: u64,
        own: Claim,
        lower: Vec<Claim>,
    }

    /// What a committer does next.
    #[derive(Clone, Copy, PartialEq, Eq, Hash)]
    enum Step {
        Load,
        Judge,
        Number,
        Create,
        Look,
        Fence,
        JudgeAgain,
        Rename,
        Withdraw,
        Won,
        Lost,
        Crashed,
    }

    impl World {
        fn new() -> Self {
            let committer =
                |owner| Committer { step: Step::Load, base: 0, own: Claim { number: 0, owner }, lower: vec![] };
            Self { checkpoint: 0, claims: vec![], committers: [committer(1), committer(2), committer(3)] }
        }

        /// One committer does one thing; whether its rename replaced anything but what it had loaded.
        fn advance(&mut self, i: usize) -> bool {
            let me = &mut self.committers[i];
            let judged = |next| if self.checkpoint == me.base { next } else { Step::Withdraw };
            match me.step {
                Step::Load => (me.base, me.step) = (self.checkpoint, Step::Judge),
                Step::Judge => me.step = judged(Step::Number),
                Step::Number => {
                    me.own.number = self.claims.iter().map(|c| c.number).max().unwrap_or(0) + 1;
                    me.step = Step::Create;
                }
                Step::Create => {
                    self.claims.push(me.own);
                    self.claims.sort_unstable();
                    me.step = Step::Look;
                }
                Step::Look => {
                    let higher = self.claims.iter().any(|c| *c > me.own);
                    me.lower = self.claims.iter().copied().filter(|c| *c < me.own).collect();
                    me.step = if higher { Step::Withdraw } else { Step::Fence };
                }
                Step::Fence => match me.lower.pop() {
                    Some(lower) => self.claims.retain(|c| *c != lower),
                    None => me.step = Step::JudgeAgain,
                },
                Step::JudgeAgain => me.step = judged(Step::Rename),
                Step::Rename => {
                    let mine = self.claims.iter().position(|c| *c == me.own);
                    me.step = if mine.is_some() { Step::Won } else { Step::Lost };
                    if let Some(mine) = mine {
                        self.claims.remove(mine);
                        let wrong = self.checkpoint != me.base;
                        self.checkpoint = 10 * (self.checkpoint + 1) + me.own.owner;
                        return wrong;
                    }
                }
                Step::Withdraw => {
                    self.claims.retain(|c| *c != me.own);
                    me.step = Step::Lost;
                }
                Step::Won | Step::Lost | Step::Crashed => {}
            }
            false
        }

        fn is_over(&self, i: usize) -> bool {
            matches!(self.committers[i].step, Step::Won | Step::Lost | Step::Crashed)
        }
    }

    #[test]
    fn r08_in_every_order_and_with_any_crash_a_rename_replaces_what_was_loaded_and_a_race_has_a_winner() {
        let (mut seen, mut open) = (std::collections::HashSet::new(), vec![World::new()]);
        let mut ends = 0;
        while let Some(world) = open.pop() {
            if !seen.insert(world.clone()) {
                continue;
            }
            let alive: Vec<usize> = (0..3).filter(|i| !world.is_over(*i)).collect();
            if alive.is_empty() {
                ends += 1;
                let crashed = world.committers.iter().filter(|c| c.step == Step::Crashed).count();
                assert!(crashed > 0 || world.checkpoint != 0, "nobody crashed and nobody won");
                // Whatever was left, the next one alone goes through.
                let mut next = world.clone();
                next.committers[0] = World::new().committers[0].clone();
                (0..20).for_each(|_| assert!(!next.advance(0)));
                assert!(next.committers[0].step == Step::Won && next.claims.is_empty());
            }
            for i in alive {
                let mut next = world.clone();
                assert!(!next.advance(i), "a rename replaced what its committer had not loaded");
                open.push(next);
                let mut crashed = world.clone();
                crashed.committers[i].step = Step::Crashed;
                open.push(crashed);
            }
        }
        assert!(ends > 100, "{ends}");
    }
}
