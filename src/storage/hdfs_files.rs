//! Files of a directory of HDFS: read and written again where DataNodes have died, everything within limits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hdfs_native::client::FileStatus;
use hdfs_native::file::{FileReader, FileWriter};
use hdfs_native::{Client, ClientBuilder, HdfsError, WriteOptions};
use tokio::sync::OnceCell;
use tokio::time::{sleep, timeout};

use super::{Entry, HdfsOptions, cause};
use crate::effect::{Effect, Effects, Stopped};
use crate::error::{Error, ErrorKind, Result};

/// A file may be given a DataNode that has just died, or its blocks may not be known again yet: so often it is tried.
const TRIES: u32 = 8;

/// The pause after the first try; it grows by itself.
const PAUSE: Duration = Duration::from_millis(250);

/// Syncing a small file takes milliseconds; the client waits for ever where a DataNode of the pipeline has died.
const SYNC_LIMIT: Duration = Duration::from_secs(5);

/// The replicas of a file whose cluster did not say how many it wants.
const REPLICAS: u32 = 3;

/// No look takes longer, and no change, whatever the cluster does: the client itself waits for a NameNode without end.
pub(crate) const LOOK_LIMIT: Duration = Duration::from_mins(1);
pub(crate) const CHANGE_LIMIT: Duration = Duration::from_mins(2);

/// Small blocks, since a space quota counts whole blocks of a file that is being written. The least that clusters allow.
const BLOCK: u64 = 1 << 20;

/// A directory of HDFS, for those who write to it. It is made with its first file.
#[derive(Clone)]
pub(crate) struct HdfsFiles {
    options: HdfsOptions,
    /// The directory as the configuration has it.
    shown: String,
    client: Arc<OnceCell<Client>>,
    pub(crate) effects: Effects,
}

/// What a call ended with.
pub(crate) enum Failed {
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
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Name(e) | Self::Data(e) if is_absent(e))
    }

    /// Whether a file that was being written is no longer there: somebody removed it.
    pub(crate) fn is_fenced(&self) -> bool {
        let lease = |e: &HdfsError| matches!(e, HdfsError::RPCError(c, _) if c.ends_with(".LeaseExpiredException"));
        matches!(self, Self::Name(e) | Self::Data(e) if is_absent(e) || lease(e))
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

/// The tries at one new file.
///
/// While the NameNode has not noticed that a DataNode died, which takes ten minutes as clusters are set up, a small
/// cluster gives it to every new file, and the client cannot leave it out. So from the second try on the file has one
/// replica first, on a node that answers, and gets the others from the NameNode afterwards.
#[derive(Default)]
pub(crate) struct Tries {
    failed: u32,
    /// What the next try asks for.
    replicas: Option<u32>,
    /// What the cluster gave by itself.
    wanted: Option<u32>,
}

impl HdfsFiles {
    pub(crate) fn new(options: HdfsOptions, shown: String, effects: Effects) -> Self {
        Self { options, shown, client: Arc::default(), effects }
    }

    /// The directory of this name in this one.
    pub(crate) fn below(&self, dir: &str) -> Self {
        let options = HdfsOptions { dir: self.path(dir), ..self.options.clone() };
        Self { options, shown: self.describe(dir), ..self.clone() }
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

    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.options.dir.trim_end_matches('/'))
    }

    /// Where `name` stands, for messages.
    pub(crate) fn describe(&self, name: &str) -> String {
        format!("{}/{name}", self.shown.trim_end_matches('/'))
    }

    /// A file; of more than `max` bytes the first `max` + 1.
    pub(crate) async fn read(&self, name: &str, max: u64) -> Result<Option<Bytes>, Failed> {
        let mut tries = 0;
        loop {
            let failed = match self.read_once(name, max).await {
                Err(failed) => failed,
                found => return found,
            };
            tries += 1;
            if tries == TRIES || !failed.may_pass() {
                return Err(failed);
            }
            sleep(PAUSE * tries).await;
        }
    }

    async fn read_once(&self, name: &str, max: u64) -> Result<Option<Bytes>, Failed> {
        let mut reader = match self.client().await?.read(&self.path(name)).await {
            Err(e) if is_absent(&e) => return Ok(None),
            found => found?,
        };
        let size = reader.file_length().min(usize::try_from(max).unwrap_or(usize::MAX).saturating_add(1));
        if size == 0 {
            return Ok(Some(Bytes::new()));
        }
        Ok(Some(reader.read_bytes(size).await.map_err(Failed::Data)?))
    }

    /// A file to be read; `None` only if there certainly is none.
    pub(crate) async fn open(&self, name: &str) -> Result<Option<FileReader>, Failed> {
        match Box::pin(self.client().await?.read(&self.path(name))).await {
            Err(e) if is_absent(&e) => Ok(None),
            file => file.map(Some).map_err(Failed::Name),
        }
    }

    /// Its files, by the clock of the NameNode. A directory that is not there holds none.
    pub(crate) async fn list(&self) -> Result<Vec<Entry>, Failed> {
        let listed = match self.client().await?.list_status(&self.path(""), false).await {
            Err(e) if is_absent(&e) => return Ok(Vec::new()),
            listed => listed?,
        };
        let entry = |status: FileStatus| {
            let modified = i64::try_from(status.modification_time).unwrap_or_default();
            let size = u64::try_from(status.length).unwrap_or_default();
            Some(Entry { name: status.path.rsplit('/').next()?.to_owned(), size, modified })
        };
        Ok(listed.into_iter().filter(|status| !status.isdir).filter_map(entry).collect())
    }

    /// One try at writing a small new file, whole and durable; `false` asks for another, perhaps of another name.
    pub(crate) async fn write(&self, name: &str, bytes: &Bytes, tries: &mut Tries) -> Result<bool, Failed> {
        let options = WriteOptions::default().block_size(BLOCK);
        let write = async {
            let mut file = self.create(name, options, tries).await?;
            let (written, whole) = self.effects.write(bytes);
            if !written.is_empty() {
                Box::pin(file.write_bytes(bytes.slice_ref(written))).await.map_err(Failed::Data)?;
            }
            whole?;
            Box::pin(self.finish(&mut file, !bytes.is_empty(), SYNC_LIMIT)).await
        };
        let written = Box::pin(write).await;
        self.settle(name, written, tries).await
    }

    /// Begins a file.
    pub(crate) async fn create(
        &self,
        name: &str,
        mut options: WriteOptions,
        tries: &Tries,
    ) -> Result<FileWriter, Failed> {
        options.replication = tries.replicas;
        let create = async { Ok(self.client().await?.create(&self.path(name), options).await?) };
        self.effects.act(Effect::Create, create).await
    }

    /// Brings what was written to the disks of its DataNodes, and ends the file.
    pub(crate) async fn finish(&self, file: &mut FileWriter, has_bytes: bool, limit: Duration) -> Result<(), Failed> {
        let make_durable = async {
            let late = |_| Failed::Data(HdfsError::OperationFailed("the DataNodes did not sync in time".to_owned()));
            if has_bytes {
                match timeout(limit, Box::pin(file.hsync())).await.map_err(late)? {
                    // Erasure-coded files cannot be synced; they are closed.
                    Err(HdfsError::UnsupportedFeature(_)) | Ok(()) => {}
                    Err(e) => return Err(Failed::Data(e)),
                }
            }
            Box::pin(file.close()).await.map_err(Failed::Data)
        };
        Box::pin(self.effects.act(Effect::Sync, make_durable)).await
    }

    /// After a try: whether the file is written, or is worth another try, after a pause and without what this one left.
    pub(crate) async fn settle(
        &self,
        name: &str,
        written: Result<(), Failed>,
        tries: &mut Tries,
    ) -> Result<bool, Failed> {
        let path = self.path(name);
        let Err(failed) = written else {
            if let (Some(_), Ok(client)) = (tries.replicas, self.client().await)
                && let Err(e) = client.set_replication(&path, tries.wanted.unwrap_or(REPLICAS)).await
            {
                tracing::warn!(%path, "the file stays on one DataNode: {}", cause::of_hdfs(&e));
            }
            return Ok(true);
        };
        if let (None, Ok(client)) = (tries.wanted, self.client().await) {
            tries.wanted = client.get_file_info(&path).await.ok().and_then(|status| status.replication);
        }
        let _ = self.remove(name).await;
        tries.failed += 1;
        // A cluster may want more replicas than one.
        let is_too_few = tries.replicas.is_some() && matches!(&failed, Failed::Name(HdfsError::RPCError(..)));
        if failed.is_fenced() || tries.failed == TRIES || !(failed.may_pass() || is_too_few) {
            return Err(failed);
        }
        tries.replicas = (!is_too_few).then_some(1);
        sleep(PAUSE * tries.failed).await;
        Ok(false)
    }

    /// Gives a file another name, at once and durably; what has that name goes if `overwrite`, else it is an error.
    pub(crate) async fn rename(&self, from: &str, to: &str, overwrite: bool) -> Result<(), Failed> {
        let (from, to) = (self.path(from), self.path(to));
        let rename = async { Ok::<_, Failed>(self.client().await?.rename(&from, &to, overwrite).await?) };
        self.effects.act(Effect::Rename, rename).await
    }

    pub(crate) async fn exists(&self, name: &str) -> Result<bool, Failed> {
        match self.client().await?.get_file_info(&self.path(name)).await {
            Err(e) if is_absent(&e) => Ok(false),
            found => Ok(found.map(|status| !status.isdir)?),
        }
    }

    /// Removes a file; one that is gone already is removed.
    pub(crate) async fn remove(&self, name: &str) -> Result<(), Failed> {
        let delete = async { Ok::<_, Failed>(self.client().await?.delete(&self.path(name), false).await?) };
        match self.effects.act(Effect::Delete, delete).await {
            Err(e) if e.is_absent() => Ok(()),
            done => done.map(drop),
        }
    }

    pub(crate) fn failed(&self, what: &str, name: &str, failed: &Failed) -> Error {
        let why = match failed {
            Failed::Name(e) | Failed::Data(e) => cause::of_hdfs(e),
            Failed::Stopped(stopped) => stopped.to_string(),
        };
        Error::new(ErrorKind::Store, format!("{what}: {why}")).with("path", self.describe(name))
    }

    /// `work` on a file, within the limit.
    pub(crate) async fn bounded<T>(
        &self,
        limit: Duration,
        name: &str,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        timeout(limit, work).await.unwrap_or_else(|_| {
            let said = format!("HDFS did not answer within {} seconds", limit.as_secs());
            Err(Error::new(ErrorKind::Store, said).with("path", self.describe(name)))
        })
    }
}

impl fmt::Debug for HdfsFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HdfsFiles({})", self.shown)
    }
}
