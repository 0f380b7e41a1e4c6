//! A shelf in an object store: a put on condition, parts for what is large, and a copy where others rename.

use std::fs::File;
use std::io;

use bytes::Bytes;
use futures::TryStreamExt as _;
use object_store::{Error as Cause, MultipartUpload, ObjectMeta, ObjectStoreExt as _, PutMode};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};

use super::{judged, rewound, scratch, unkept};
use crate::effect::Effect;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::object_files::{Failed, ObjectFiles};
use crate::storage::{Entry, cause};

/// A store may refuse a condition that holds while another writer is at work: so often it is asked again.
const TRIES: usize = 5;

/// So much of a file is in memory at a time, and what is no larger goes in one put.
const PART: u64 = 8 << 20;

/// No store takes more parts than this.
const PARTS: u64 = 10_000;

/// A directory of an object store.
#[derive(Debug, Clone)]
pub(crate) struct Objects(pub(super) ObjectFiles);

impl Objects {
    pub(super) fn describe(&self, name: &str) -> String {
        self.0.describe(name)
    }

    pub(super) async fn create(&self, name: &str, bytes: Bytes) -> Result<bool> {
        let mut tries = 0;
        loop {
            let Err(e) = self.0.put(name, bytes.clone(), PutMode::Create).await else { return Ok(true) };
            // Somebody was faster, or our own answer was lost: what stands there now tells.
            let stands = self.read(name, bytes.len() as u64).await;
            tries += 1;
            let is_refused = matches!(e, Failed::Store(Cause::Precondition { .. } | Cause::AlreadyExists { .. }));
            if tries == TRIES || !is_refused || !matches!(stands, Ok(None)) {
                return judged(stands, &bytes, self.0.failed("the file cannot be made", name, &e));
            }
        }
    }

    pub(super) async fn read(&self, name: &str, max: u64) -> Result<Option<Bytes>> {
        let found = self.0.read(name, max).await;
        found.map(|found| Some(found?.0.into())).map_err(|e| self.0.failed("the file cannot be read", name, &e))
    }

    pub(super) async fn list(&self) -> Result<Vec<Entry>> {
        let prefix = &self.0.objects.prefix;
        let listed = self.0.objects.store.list_with_delimiter(Some(prefix)).await;
        let listed = listed.map_err(|e| self.0.failed("the directory cannot be listed", "", &e.into()))?;
        let name = |path: &str| {
            let rest = path.strip_prefix(prefix.as_ref())?;
            // An object of the directory's own name may stand for it.
            let name = if prefix.as_ref().is_empty() { rest } else { rest.strip_prefix('/')? };
            (!name.is_empty()).then(|| name.to_owned())
        };
        let entry = |meta: &ObjectMeta| {
            let modified = meta.last_modified.timestamp_millis();
            Some(Entry { name: name(meta.location.as_ref())?, size: meta.size, modified })
        };
        Ok(listed.objects.iter().filter_map(entry).collect())
    }

    pub(super) async fn remove(&self, name: &str) -> Result<()> {
        let removed = self.0.remove(name).await;
        removed.map(drop).map_err(|e| self.0.failed("the file cannot be removed", name, &e))
    }

    pub(super) async fn upload(&self, from: File, name: &str) -> Result<()> {
        let cannot_read = |e: io::Error| {
            Error::new(ErrorKind::Store, format!("what is to be uploaded cannot be read: {e}"))
                .with("path", self.describe(name))
        };
        let mut from = tokio::fs::File::from_std(from);
        from.rewind().await.map_err(cannot_read)?;
        let size = from.metadata().await.map_err(cannot_read)?.len();
        let part = PART.max(size.div_ceil(PARTS));
        let mut bytes = piece(&mut from, part).await.map_err(cannot_read)?;
        let cannot_write = |e: Failed| self.0.failed("the file cannot be written", name, &e);
        if (bytes.len() as u64) < part {
            return self.0.put(name, bytes, PutMode::Overwrite).await.map_err(cannot_write);
        }
        let begin = async { Ok::<_, Failed>(self.0.objects.store.put_multipart(&self.0.path(name)).await?) };
        let mut upload = self.0.effects.act(Effect::Create, begin).await.map_err(cannot_write)?;
        let sent = async {
            while !bytes.is_empty() {
                self.put_part(&mut *upload, bytes).await.map_err(cannot_write)?;
                bytes = piece(&mut from, part).await.map_err(cannot_read)?;
            }
            let complete = async { Ok::<_, Failed>(upload.complete().await.map(drop)?) };
            self.0.effects.act(Effect::Put, complete).await.map_err(cannot_write)
        };
        let sent = sent.await;
        if sent.is_err() {
            // Parts that nobody completes cost money until the bucket's own rules remove them.
            let abort = async { Ok::<_, Failed>(upload.abort().await?) };
            let _ = self.0.effects.act(Effect::Delete, abort).await;
        }
        sent
    }

    pub(super) async fn download(&self, name: &str) -> Result<Option<File>> {
        let cannot = |e: Cause| self.0.failed("the file cannot be read", name, &e.into());
        let found = match self.0.objects.store.get(&self.0.path(name)).await {
            Err(e) if cause::is_absent(&e) => return Ok(None),
            found => found.map_err(cannot)?,
        };
        let (mut file, mut pieces) = (scratch()?, found.into_stream());
        while let Some(piece) = pieces.try_next().await.map_err(cannot)? {
            file.write_all(&piece).await.map_err(|e| unkept(&e))?;
        }
        rewound(file).await.map(Some)
    }

    async fn put_part(&self, upload: &mut dyn MultipartUpload, bytes: Bytes) -> Result<(), Failed> {
        let (written, whole) = self.0.effects.write(&bytes);
        if !written.is_empty() {
            upload.put_part(bytes.slice_ref(written).into()).await?;
        }
        Ok(whole?)
    }

    pub(super) async fn rename(&self, from: &str, to: &str) -> Result<()> {
        let cannot = |e: Failed| self.0.failed("the file cannot be renamed", from, &e).with("to", self.describe(to));
        let copy = async { Ok(self.0.objects.store.copy(&self.0.path(from), &self.0.path(to)).await?) };
        if let Err(e) = self.0.effects.act(Effect::Put, copy).await {
            // Stores have many words for a source that is missing; ask for itself.
            let is_done = match &e {
                Failed::Store(_) => {
                    matches!((self.0.exists(from).await, self.0.exists(to).await), (Ok(false), Ok(true)))
                }
                Failed::Stopped(_) => false,
            };
            return if is_done { Ok(()) } else { Err(cannot(e)) };
        }
        self.0.remove(from).await.map(drop).map_err(cannot)
    }
}

/// The next bytes of a file: fewer than `size` only at its end.
async fn piece(from: &mut tokio::fs::File, size: u64) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    from.take(size).read_to_end(&mut bytes).await?;
    Ok(bytes.into())
}
