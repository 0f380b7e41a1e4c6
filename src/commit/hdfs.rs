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

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use hdfs_native::{Client, ClientBuilder, HdfsError, WriteOptions};
use tokio::sync::OnceCell;
use tokio::time::{sleep, timeout};

use super::{CheckpointStore, Commit, SIZE_MAX, Verdict, file_name};
use crate::effect::{Effect, Effects, Stopped};
use crate::error::{Error, ErrorKind, Result};
use crate::position::Instant;
use crate::storage::{HdfsOptions, cause};

/// A file may be given a DataNode that has just died, or its blocks may not be known again yet: so often it is tried.
const TRIES: u32 = 8;

/// The pause after the first try; it grows by itself.
const PAUSE: Duration = Duration::from_millis(250);

/// Syncing takes milliseconds; the client waits for ever where a DataNode of the pipeline has died.
const SYNC_LIMIT: Duration = Duration::from_secs(5);

/// No look takes longer, and no commit, whatever the cluster does: the client itself waits for a NameNode without end.
const LOOK_LIMIT: Duration = Duration::from_mins(1);
const COMMIT_LIMIT: Duration = Duration::from_mins(2);

/// Small blocks, since a space quota counts whole blocks of a file that is being written. The least that clusters allow.
const BLOCK: u64 = 1 << 20;

/// A directory of HDFS that holds checkpoint files. It is made on the first commit.
pub struct HdfsStore {
    options: HdfsOptions,
    /// The directory as the configuration has it.
    shown: String,
    client: OnceCell<Client>,
    effects: Effects,
}

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
        (claim.name(table) == name).then_some(claim)
    }
}

/// What an HDFS call ended with.
enum Failed {
    Hdfs(HdfsError),
    Stopped(Stopped),
}

impl From<Stopped> for Failed {
    fn from(stopped: Stopped) -> Self {
        Self::Stopped(stopped)
    }
}

impl From<HdfsError> for Failed {
    fn from(error: HdfsError) -> Self {
        Self::Hdfs(error)
    }
}

impl Failed {
    fn is_absent(&self) -> bool {
        matches!(self, Self::Hdfs(e) if is_absent(e))
    }

    /// Whether a DataNode or the way to it failed: another try gets other DataNodes. What the NameNode refuses stays.
    fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Hdfs(
                HdfsError::IOError(_)
                    | HdfsError::DataTransferError(_)
                    | HdfsError::ChecksumError
                    | HdfsError::OperationFailed(_)
                    | HdfsError::BlocksNotFound(_)
                    | HdfsError::InternalError(_)
            )
        )
    }
}

fn is_absent(error: &HdfsError) -> bool {
    match error {
        HdfsError::FileNotFound(_) => true,
        HdfsError::RPCError(class, _) => class == "java.io.FileNotFoundException",
        _ => false,
    }
}

/// Whether a file that was being written is no longer there: a later committer removed it.
fn is_fenced(error: &HdfsError) -> bool {
    let lease = |class: &str| class.ends_with(".LeaseExpiredException");
    is_absent(error) || matches!(error, HdfsError::RPCError(class, _) if lease(class))
}

impl HdfsStore {
    pub(crate) fn new(options: HdfsOptions, shown: String, effects: Effects) -> Self {
        Self { options, shown, client: OnceCell::new(), effects }
    }

    /// Made inside the runtime: the client keeps tasks there.
    async fn client(&self) -> Result<&Client> {
        let made = self.client.get_or_try_init(|| async {
            let options = &self.options;
            // The properties are whole: the client would lay those of the process's own Hadoop files under them.
            let builder = ClientBuilder::new().with_url(&options.url).with_config_dir("/dev/null");
            let mut builder = builder.with_config(options.config.clone());
            if let Some(principal) = &options.principal {
                builder = builder.with_kerberos_principal(principal);
            }
            if let Some(keytab) = &options.keytab {
                builder = builder.with_kerberos_keytab(keytab);
            }
            builder.build()
        });
        made.await.map_err(|e| {
            let said = format!("cannot use {}: {}", self.shown, cause::of_hdfs(&e));
            Error::new(ErrorKind::Store, said)
        })
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.options.dir.trim_end_matches('/'))
    }

    async fn read(&self, table: &str) -> Result<Option<Vec<u8>>> {
        let mut tries = 0;
        loop {
            let failed = match self.read_once(table).await? {
                Ok(bytes) => return Ok(bytes),
                Err(e) => Failed::Hdfs(e),
            };
            tries += 1;
            if tries == TRIES || !failed.may_pass() {
                return Err(self.failed("cannot read the checkpoint", table, &failed));
            }
            sleep(PAUSE * tries).await;
        }
    }

    async fn read_once(&self, table: &str) -> Result<Result<Option<Vec<u8>>, HdfsError>> {
        let mut reader = match self.client().await?.read(&self.path(&file_name(table))).await {
            Ok(reader) => reader,
            Err(e) if is_absent(&e) => return Ok(Ok(None)),
            Err(e) => return Ok(Err(e)),
        };
        let size = reader.file_length();
        if size as u64 > SIZE_MAX {
            let said = format!("the checkpoint {} cannot be used: it is too large to be one", self.describe(table));
            return Err(Error::new(ErrorKind::Store, said));
        }
        if size == 0 {
            return Ok(Ok(Some(Vec::new())));
        }
        Ok(reader.read_bytes(size).await.map(|bytes| Some(bytes.to_vec())))
    }

    /// The claims of a table, in order. A directory that is not there holds none.
    async fn claims(&self, table: &str) -> Result<Vec<Claim>> {
        let listed = match self.client().await?.list_status(&self.path(""), false).await {
            Err(e) if is_absent(&e) => return Ok(Vec::new()),
            listed => {
                listed.map_err(|e| self.failed("cannot list the directory of the checkpoint", table, &e.into()))?
            }
        };
        let name = |path: &str| path.rsplit('/').next().and_then(|name| Claim::parse(name, table));
        let mut claims: Vec<Claim> = listed.iter().filter(|s| !s.isdir).filter_map(|s| name(&s.path)).collect();
        claims.sort_unstable();
        Ok(claims)
    }

    async fn commit_whole(&self, commit: &Commit, now: Instant) -> Result<()> {
        let table = commit.table();
        let bytes = match commit.judge(self.read(table).await?.as_deref(), now) {
            Verdict::Done => return Ok(()),
            Verdict::Conflict => return Err(commit.conflict(&self.describe(table))),
            Verdict::Replace(bytes) => bytes,
        };
        let Some(claim) = self.stage(table, Bytes::from(bytes)).await? else {
            return Err(commit.conflict(&self.describe(table)));
        };
        let done = self.contend(commit, claim, now).await;
        if done.is_err() {
            // Nobody's any more; where it cannot be removed, the next commit does it.
            let _ = self.remove(table, claim).await;
        }
        done
    }

    /// Writes a claim, whole and durable; `None` if a later committer removed it meanwhile.
    async fn stage(&self, table: &str, bytes: Bytes) -> Result<Option<Claim>> {
        let mut tries = 0;
        loop {
            let claim = Claim::above(&self.claims(table).await?);
            let path = self.path(&claim.name(table));
            let Err(e) = Box::pin(self.write(&path, &bytes, tries == 0)).await else {
                return Ok(Some(claim));
            };
            let _ = self.remove(table, claim).await;
            if matches!(&e, Failed::Hdfs(e) if is_fenced(e)) {
                return Ok(None);
            }
            tries += 1;
            if tries == TRIES || !e.may_pass() {
                return Err(self.failed("cannot write the checkpoint", table, &e));
            }
            sleep(PAUSE * tries).await;
        }
    }

    /// Writes a new file; to the disks of its DataNodes with `sync`, else to their memory.
    ///
    /// The client mends a pipeline in which a DataNode has died when it closes a file, but not when it syncs one.
    async fn write(&self, path: &str, bytes: &Bytes, sync: bool) -> Result<(), Failed> {
        let client = self.client().await.map_err(|e| HdfsError::InvalidArgument(e.to_string()))?;
        let options = WriteOptions::default().block_size(BLOCK);
        let create = async { Ok::<_, Failed>(client.create(path, options).await?) };
        let mut file = self.effects.act(Effect::Create, create).await?;
        let (written, whole) = self.effects.write(bytes);
        Box::pin(file.write_bytes(bytes.slice_ref(written))).await?;
        whole?;
        let make_durable = async {
            if sync {
                let late = |_| HdfsError::OperationFailed("the DataNodes did not sync in time".to_owned());
                timeout(SYNC_LIMIT, Box::pin(file.hsync())).await.map_err(late)??;
            }
            Ok::<_, Failed>(Box::pin(file.close()).await?)
        };
        Box::pin(self.effects.act(Effect::Sync, make_durable)).await
    }

    async fn contend(&self, commit: &Commit, own: Claim, now: Instant) -> Result<()> {
        let table = commit.table();
        let lost = || commit.conflict(&self.describe(table));
        let claims = self.claims(table).await?;
        if claims.iter().any(|claim| *claim > own) {
            return Err(lost());
        }
        for lower in claims.into_iter().filter(|claim| *claim < own) {
            self.remove(table, lower)
                .await
                .map_err(|e| self.failed("cannot remove what another writer of the checkpoint left", table, &e))?;
        }
        match commit.judge(self.read(table).await?.as_deref(), now) {
            Verdict::Done => return Ok(()),
            Verdict::Conflict => return Err(lost()),
            Verdict::Replace(_) => {}
        }
        let (from, to) = (self.path(&own.name(table)), self.path(&file_name(table)));
        let client = self.client().await?;
        let rename = async { Ok::<_, Failed>(client.rename(&from, &to, true).await?) };
        let Err(e) = self.effects.act(Effect::Rename, rename).await else { return Ok(()) };
        // The answer may be lost, or somebody came later and removed the claim: what stands there now tells.
        match self.read(table).await.map(|bytes| commit.judge(bytes.as_deref(), now)) {
            Ok(Verdict::Done) => Ok(()),
            Ok(_) if e.is_absent() => Err(lost()),
            _ => Err(self.failed("cannot write the checkpoint", table, &e)),
        }
    }

    /// Removes a claim; one that is gone already is removed.
    async fn remove(&self, table: &str, claim: Claim) -> Result<(), Failed> {
        let client = self.client().await.map_err(|e| HdfsError::InvalidArgument(e.to_string()))?;
        let path = self.path(&claim.name(table));
        let delete = async { Ok::<_, Failed>(client.delete(&path, false).await?) };
        match self.effects.act(Effect::Delete, delete).await {
            Err(e) if e.is_absent() => Ok(()),
            done => done.map(drop),
        }
    }

    async fn clear_whole(&self, table: &str) -> Result<bool> {
        // A commit that is under way loses its claim, and does not put the file back.
        for claim in self.claims(table).await? {
            let removed = self.remove(table, claim).await;
            removed.map_err(|e| self.failed("cannot remove what a writer of the checkpoint left", table, &e))?;
        }
        let (client, path) = (self.client().await?, self.path(&file_name(table)));
        let delete = async { Ok::<_, Failed>(client.delete(&path, false).await?) };
        match self.effects.act(Effect::Delete, delete).await {
            Err(e) if e.is_absent() => Ok(false),
            done => done.map_err(|e| self.failed("cannot remove the checkpoint", table, &e)),
        }
    }

    fn failed(&self, what: &str, table: &str, error: &Failed) -> Error {
        let why = match error {
            Failed::Hdfs(e) => cause::of_hdfs(e),
            Failed::Stopped(stopped) => stopped.to_string(),
        };
        Error::new(ErrorKind::Store, format!("{what}: {why}")).with("path", self.describe(table))
    }

    /// `work`, within the limit.
    async fn bounded<T>(&self, limit: Duration, table: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
        timeout(limit, work).await.unwrap_or_else(|_| {
            let said = format!("HDFS did not answer within {} seconds", limit.as_secs());
            Err(Error::new(ErrorKind::Store, said).with("path", self.describe(table)))
        })
    }
}

impl CheckpointStore for HdfsStore {
    fn load<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        Box::pin(self.bounded(LOOK_LIMIT, table, self.read(table)))
    }

    fn commit<'a>(&'a self, commit: &'a Commit, now: Instant) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if commit.position().is_none() {
                return Ok(());
            }
            self.bounded(COMMIT_LIMIT, commit.table(), self.commit_whole(commit, now)).await
        })
    }

    fn clear<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.bounded(COMMIT_LIMIT, table, self.clear_whole(table)))
    }

    fn leftovers<'a>(&'a self, table: &'a str) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(self.bounded(LOOK_LIMIT, table, async {
            let claims = self.claims(table).await?;
            let dir = self.shown.trim_end_matches('/');
            Ok(claims.into_iter().map(|claim| format!("{dir}/{}", claim.name(table))).collect())
        }))
    }

    fn describe(&self, table: &str) -> String {
        format!("{}/{}", self.shown.trim_end_matches('/'), file_name(table))
    }
}

impl fmt::Debug for HdfsStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HdfsStore({})", self.shown)
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
