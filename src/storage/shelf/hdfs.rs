//! A shelf on HDFS: files are made under hidden names and get their own by a rename, which replaces nothing.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hdfs_native::{HdfsError, WriteOptions};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::{is_unborn, judged, rewound, scratch, unborn, unkept};
use crate::error::{Error, ErrorKind, Result};
use crate::storage::Entry;
use crate::storage::hdfs_files::{CHANGE_LIMIT, Failed, HdfsFiles, LOOK_LIMIT, Tries};

/// So much of a file is in memory at a time, besides what is under way to the DataNodes.
const PIECE: usize = 1 << 20;

/// Within this a piece of a large file is taken, and what is left of it synced; the client waits for ever where a
/// DataNode has died.
const PIECE_LIMIT: Duration = Duration::from_mins(1);

/// A creator has [`CHANGE_LIMIT`]; what is so old by the NameNode's clock is nobody's any more. In milliseconds.
const DEAD_AFTER: i64 = 60 * 60 * 1000;

/// A directory of HDFS.
#[derive(Debug, Clone)]
pub(crate) struct Hdfs {
    pub(super) files: HdfsFiles,
    /// Whether what crashed creators left was looked for.
    swept: Arc<AtomicBool>,
}

impl Hdfs {
    pub(super) fn new(files: HdfsFiles) -> Self {
        Self { files, swept: Arc::default() }
    }

    pub(super) fn below(&self, dir: &str) -> Self {
        Self::new(self.files.below(dir))
    }

    pub(super) fn describe(&self, name: &str) -> String {
        self.files.describe(name)
    }

    pub(super) async fn create(&self, name: &str, bytes: Bytes) -> Result<bool> {
        self.files.bounded(CHANGE_LIMIT, name, Box::pin(self.create_whole(name, bytes))).await
    }

    async fn create_whole(&self, name: &str, bytes: Bytes) -> Result<bool> {
        let (mut tries, mut hidden) = (Tries::default(), unborn());
        let cannot = |e: Failed| self.files.failed("the file cannot be made", name, &e);
        while !self.files.write(&hidden, &bytes, &mut tries).await.map_err(cannot)? {
            hidden = unborn();
        }
        if !self.swept.swap(true, Ordering::Relaxed) {
            self.sweep(&hidden).await;
        }
        let Err(e) = self.files.rename(&hidden, name, false).await else { return Ok(true) };
        // What cannot be removed stays hidden, and a later creator sweeps it.
        let _ = self.files.remove(&hidden).await;
        judged(self.read_whole(name, bytes.len() as u64).await, &bytes, cannot(e))
    }

    /// Removes what crashed creators left, by the age it has beside one that was just made. Whose file is taken too early
    /// cannot rename it any more: it fails, and nothing is wrong.
    async fn sweep(&self, newest: &str) {
        let Ok(listed) = self.files.list().await else { return };
        let Some(now) = listed.iter().find(|file| file.name == newest).map(|file| file.modified) else { return };
        let is_dead = |file: &&Entry| is_unborn(&file.name) && file.modified.saturating_add(DEAD_AFTER) < now;
        for file in listed.iter().filter(is_dead) {
            let _ = self.files.remove(&file.name).await;
        }
    }

    pub(super) async fn read(&self, name: &str, max: u64) -> Result<Option<Bytes>> {
        self.files.bounded(LOOK_LIMIT, name, Box::pin(self.read_whole(name, max))).await
    }

    async fn read_whole(&self, name: &str, max: u64) -> Result<Option<Bytes>> {
        self.files.read(name, max).await.map_err(|e| self.files.failed("the file cannot be read", name, &e))
    }

    pub(super) async fn list(&self) -> Result<Vec<Entry>> {
        let list = async {
            let listed = self.files.list().await;
            listed.map_err(|e| self.files.failed("the directory cannot be listed", "", &e))
        };
        self.files.bounded(LOOK_LIMIT, "", Box::pin(list)).await
    }

    pub(super) async fn remove(&self, name: &str) -> Result<()> {
        let remove = async {
            self.files.remove(name).await.map_err(|e| self.files.failed("the file cannot be removed", name, &e))
        };
        self.files.bounded(LOOK_LIMIT, name, Box::pin(remove)).await
    }

    pub(super) async fn upload(&self, from: File, name: &str) -> Result<()> {
        let cannot = |e: Failed| self.files.failed("the file cannot be written", name, &e);
        let (mut from, mut tries) = (tokio::fs::File::from_std(from), Tries::default());
        loop {
            let sent = match Box::pin(self.send(&mut from, name, &tries)).await {
                Err(Sent::Unreadable(e)) => {
                    let said = format!("what is to be uploaded cannot be read: {e}");
                    return Err(Error::new(ErrorKind::Store, said).with("path", self.describe(name)));
                }
                Err(Sent::Failed(e)) => Err(e),
                Ok(()) => Ok(()),
            };
            let settle = async { self.files.settle(name, sent, &mut tries).await.map_err(cannot) };
            if self.files.bounded(CHANGE_LIMIT, name, Box::pin(settle)).await? {
                return Ok(());
            }
        }
    }

    pub(super) async fn download(&self, name: &str) -> Result<Option<File>> {
        let cannot = |e: Failed| self.files.failed("the file cannot be read", name, &e);
        let open = async { self.files.open(name).await.map_err(cannot) };
        let Some(mut from) = self.files.bounded(LOOK_LIMIT, name, Box::pin(open)).await? else { return Ok(None) };
        let mut file = scratch()?;
        while from.remaining() > 0 {
            let read = from.read_bytes(PIECE.min(from.remaining()));
            let read = async { Box::pin(read).await.map_err(|e| cannot(Failed::Data(e))) };
            let piece = self.files.bounded(PIECE_LIMIT, name, Box::pin(read)).await?;
            file.write_all(&piece).await.map_err(|e| unkept(&e))?;
        }
        rewound(file).await.map(Some)
    }

    /// One try at a whole file.
    async fn send(&self, from: &mut tokio::fs::File, name: &str, tries: &Tries) -> Result<(), Sent> {
        let late = |_| Failed::Data(HdfsError::OperationFailed("the DataNodes did not take it in time".to_owned()));
        from.rewind().await?;
        let create = self.files.create(name, WriteOptions::default().overwrite(true), tries);
        let mut file = timeout(LOOK_LIMIT, Box::pin(create)).await.map_err(late)??;
        let mut has_bytes = false;
        loop {
            let mut piece = BytesMut::with_capacity(PIECE);
            while piece.len() < PIECE && from.read_buf(&mut piece).await? > 0 {}
            if piece.is_empty() {
                break;
            }
            has_bytes = true;
            let piece = piece.freeze();
            let (written, whole) = self.files.effects.write(&piece);
            let write = timeout(PIECE_LIMIT, Box::pin(file.write_bytes(piece.slice_ref(written))));
            write.await.map_err(late)?.map_err(Failed::Data)?;
            whole.map_err(Failed::Stopped)?;
        }
        let finish = Box::pin(self.files.finish(&mut file, has_bytes, PIECE_LIMIT));
        Ok(timeout(2 * PIECE_LIMIT, finish).await.map_err(late)??)
    }

    pub(super) async fn rename(&self, from: &str, to: &str) -> Result<()> {
        let rename = async {
            let Err(e) = self.files.rename(from, to, true).await else { return Ok(()) };
            if e.is_absent() && self.files.exists(to).await.unwrap_or(false) {
                return Ok(());
            }
            Err(self.files.failed("the file cannot be renamed", from, &e).with("to", self.describe(to)))
        };
        self.files.bounded(LOOK_LIMIT, from, Box::pin(rename)).await
    }
}

/// Why a try at a whole file failed.
enum Sent {
    /// The local file.
    Unreadable(std::io::Error),
    Failed(Failed),
}

impl From<std::io::Error> for Sent {
    fn from(error: std::io::Error) -> Self {
        Self::Unreadable(error)
    }
}

impl From<Failed> for Sent {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}
