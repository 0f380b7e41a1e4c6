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

/// The replicas of a file whose cluster did not say how many it wants.
const REPLICAS: u32 = 3;

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

/// What an HDFS call ended with.
enum Failed {
    /// The NameNode, or the way to it: the client has tried again already.
    Name(HdfsError),
    /// A DataNode, or the way to it.
    Data(HdfsError),
    Stopped(Stopped),
}

impl From<Stopped> for Failed {
    fn from(stopped: Stopped) -> Self {
        Self::Stopped(stopped)
    }
}

impl From<HdfsError> for Failed {
    fn from(error: HdfsError) -> Self {
        Self::Name(error)
    }
}

impl Failed {
    fn is_absent(&self) -> bool {
        matches!(self, Self::Name(e) | Self::Data(e) if is_absent(e))
    }

    /// Whether another try may get other DataNodes. What the NameNode refuses, a quota for one, stays.
    fn may_pass(&self) -> bool {
        matches!(self, Self::Data(e) if !matches!(e, HdfsError::RPCError(..) | HdfsError::FatalRPCError(..)))
    }
}

fn is_absent(error: &HdfsError) -> bool {
    match error {
        HdfsError::FileNotFound(_) => true,
        // A directory is said to be no file by the same name.
        HdfsError::RPCError(class, said) => {
            class == "java.io.FileNotFoundException"
                && !said.lines().next().is_some_and(|s| s.contains("is not a file"))
        }
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
    async fn client(&self) -> Result<&Client, HdfsError> {
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
        made.await
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.options.dir.trim_end_matches('/'))
    }

    async fn read(&self, table: &str) -> Result<Option<Vec<u8>>> {
        let mut tries = 0;
        loop {
            let failed = match self.read_once(table).await {
                Ok(Some(bytes)) if bytes.len() as u64 > SIZE_MAX => {
                    let file = self.describe(table);
                    let said = format!("the checkpoint {file} cannot be used: it is too large to be one");
                    return Err(Error::new(ErrorKind::Store, said));
                }
                Ok(bytes) => return Ok(bytes),
                Err(failed) => failed,
            };
            tries += 1;
            if tries == TRIES || !failed.may_pass() {
                return Err(self.failed("cannot read the checkpoint", table, &failed));
            }
            sleep(PAUSE * tries).await;
        }
    }

    /// The file, or its first bytes where it is too large.
    async fn read_once(&self, table: &str) -> Result<Option<Vec<u8>>, Failed> {
        let mut reader = match self.client().await?.read(&self.path(&file_name(table))).await {
            Err(e) if is_absent(&e) => return Ok(None),
            found => found?,
        };
        let size = reader.file_length().min(usize::try_from(SIZE_MAX).unwrap_or(usize::MAX).saturating_add(1));
        if size == 0 {
            return Ok(Some(Vec::new()));
        }
        Ok(Some(reader.read_bytes(size).await.map_err(Failed::Data)?.to_vec()))
    }

    /// The claims of a table, in order. A directory that is not there holds none.
    async fn claims(&self, table: &str) -> Result<Vec<Claim>> {
        let failed = |e: HdfsError| self.failed("cannot list the directory of the checkpoint", table, &e.into());
        let listed = match self.client().await.map_err(failed)?.list_status(&self.path(""), false).await {
            Err(e) if is_absent(&e) => return Ok(Vec::new()),
            listed => listed.map_err(failed)?,
        };
        let name = |path: &str| path.rsplit('/').next().and_then(|name| Claim::parse(name, table));
        let mut claims: Vec<Claim> = listed.iter().filter(|s| !s.isdir).filter_map(|s| name(&s.path)).collect();
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
    ///
    /// While the NameNode has not noticed that a DataNode died, which takes ten minutes as clusters are set up, a small
    /// cluster gives it to every new file, and the client cannot leave it out. So from the second try on the claim has one
    /// replica first, on a node that answers, and gets the others from the NameNode afterwards.
    async fn stage(&self, table: &str, bytes: Bytes) -> Result<Option<Claim>> {
        let (mut tries, mut replicas, mut wanted) = (0, None, None);
        loop {
            let claim = Claim::above(&self.claims(table).await?);
            let path = self.path(&claim.name(table));
            let Err(e) = Box::pin(self.write(&path, &bytes, replicas)).await else {
                if let (Some(_), Ok(client)) = (replicas, self.client().await)
                    && let Err(e) = client.set_replication(&path, wanted.unwrap_or(REPLICAS)).await
                {
                    tracing::warn!(%path, "the checkpoint stays on one DataNode: {}", cause::of_hdfs(&e));
                }
                return Ok(Some(claim));
            };
            if let (None, Ok(client)) = (wanted, self.client().await) {
                wanted = client.get_file_info(&path).await.ok().and_then(|status| status.replication);
            }
            let _ = self.remove(table, claim).await;
            if matches!(&e, Failed::Name(e) | Failed::Data(e) if is_fenced(e)) {
                return Ok(None);
            }
            tries += 1;
            // A cluster may want more replicas than one.
            let is_too_few = replicas.is_some() && matches!(&e, Failed::Name(HdfsError::RPCError(..)));
            if tries == TRIES || !(e.may_pass() || is_too_few) {
                return Err(self.failed("cannot write the checkpoint", table, &e));
            }
            replicas = (!is_too_few).then_some(1);
            sleep(PAUSE * tries).await;
        }
    }

    /// Writes a new file to the disks of its DataNodes.
    async fn write(&self, path: &str, bytes: &Bytes, replicas: Option<u32>) -> Result<(), Failed> {
        let client = self.client().await?;
        let mut options = WriteOptions::default().block_size(BLOCK);
        options.replication = replicas;
        let create = async { Ok::<_, Failed>(client.create(path, options).await?) };
        let mut file = self.effects.act(Effect::Create, create).await?;
        let (written, whole) = self.effects.write(bytes);
        if !written.is_empty() {
            Box::pin(file.write_bytes(bytes.slice_ref(written))).await.map_err(Failed::Data)?;
        }
        whole?;
        let make_durable = async {
            let late = |_| Failed::Data(HdfsError::OperationFailed("the DataNodes did not sync in time".to_owned()));
            if !bytes.is_empty() {
                match timeout(SYNC_LIMIT, Box::pin(file.hsync())).await.map_err(late)? {
                    // Erasure-coded files cannot be synced; they are closed.
                    Err(HdfsError::UnsupportedFeature(_)) | Ok(()) => {}
                    Err(e) => return Err(Failed::Data(e)),
                }
            }
            Box::pin(file.close()).await.map_err(Failed::Data)
        };
        Box::pin(self.effects.act(Effect::Sync, make_durable)).await
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
        let (from, to) = (self.path(&own.name(table)), self.path(&file_name(table)));
        let rename = async { Ok::<_, Failed>(self.client().await?.rename(&from, &to, true).await?) };
        match self.effects.act(Effect::Rename, rename).await {
            Ok(()) => Ok(Contest::Won),
            // Somebody came later and removed the claim; or this is the answer to a second try of the client.
            Err(e) if e.is_absent() => Ok(Contest::Lost),
            Err(e) => Err(self.failed("cannot write the checkpoint", table, &e)),
        }
    }

    /// Removes a claim; one that is gone already is removed.
    async fn remove(&self, table: &str, claim: Claim) -> Result<(), Failed> {
        let client = self.client().await?;
        let path = self.path(&claim.name(table));
        let delete = async { Ok::<_, Failed>(client.delete(&path, false).await?) };
        match self.effects.act(Effect::Delete, delete).await {
            Err(e) if e.is_absent() => Ok(()),
            done => done.map(drop),
        }
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
        let path = self.path(&file_name(table));
        let delete = async { Ok::<_, Failed>(self.client().await?.delete(&path, false).await?) };
        match self.effects.act(Effect::Delete, delete).await {
            Err(e) if !e.is_absent() => Err(self.failed("cannot remove the checkpoint", table, &e)),
            _ => Ok(true),
        }
    }

    fn failed(&self, what: &str, table: &str, error: &Failed) -> Error {
        let why = match error {
            Failed::Name(e) | Failed::Data(e) => cause::of_hdfs(e),
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
