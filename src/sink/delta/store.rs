//! A table's directory as the object store through which the Delta kernel reads and writes its log.

use std::fmt;
use std::io::Write as _;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use chrono::DateTime;
use delta_kernel::object_store::path::Path;
use delta_kernel::object_store::{
    Attributes, CopyOptions, Error as Cause, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    UploadPart,
};
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _, stream};

use crate::error::Error;
use crate::storage::Entry;
use crate::storage::shelf::Shelf;

/// No file of a log is larger, in bytes: a checkpoint of a million files has some hundred million.
const SIZE_MAX: u64 = 1 << 30;

/// The kernel reads a checkpoint in pieces; here it is kept whole meanwhile.
const CHECKPOINT: &str = ".parquet";

/// The store of one table: paths begin at its directory.
#[derive(Debug, Clone)]
pub(super) struct LogStore {
    table: Shelf,
    /// The checkpoint that was read last. Its file never changes.
    checkpoint: Arc<Mutex<Option<(Path, Bytes)>>>,
}

impl LogStore {
    pub(super) fn new(table: Shelf) -> Self {
        Self { table, checkpoint: Arc::default() }
    }

    /// The directory that a path lies in, and its name there.
    fn split<'a>(&self, path: &'a Path) -> (Shelf, &'a str) {
        match path.as_ref().rsplit_once('/') {
            Some((dir, name)) => (self.table.below(dir), name),
            None => (self.table.clone(), path.as_ref()),
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Option<(Path, Bytes)>> {
        self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read(&self, path: &Path) -> Result<Bytes> {
        if let Some((_, bytes)) = self.kept().as_ref().filter(|(kept, _)| kept == path) {
            return Ok(bytes.clone());
        }
        let (dir, name) = self.split(path);
        let bytes = dir.read(name, SIZE_MAX).await.map_err(failed)?.ok_or_else(|| absent(path))?;
        if name.ends_with(CHECKPOINT) {
            *self.kept() = Some((path.clone(), bytes.clone()));
        }
        Ok(bytes)
    }

    async fn in_dir(&self, dir: Option<&Path>) -> Result<Vec<ObjectMeta>> {
        let dir = dir.map(Path::as_ref).unwrap_or_default();
        let files = if dir.is_empty() { self.table.clone() } else { self.table.below(dir) };
        let meta = |Entry { name, size, modified }| {
            let location = if dir.is_empty() { name } else { format!("{dir}/{name}") };
            let last_modified = DateTime::from_timestamp_millis(modified).unwrap_or_default();
            Ok(ObjectMeta { location: Path::parse(location)?, last_modified, size, e_tag: None, version: None })
        };
        files.entries().await.map_err(failed)?.into_iter().map(meta).collect()
    }

    async fn meta(&self, path: &Path) -> Result<ObjectMeta> {
        let dir = path.as_ref().rsplit_once('/').map(|(dir, _)| Path::from(dir));
        let found = self.in_dir(dir.as_ref()).await?.into_iter().find(|meta| meta.location == *path);
        found.ok_or_else(|| absent(path))
    }
}

#[async_trait]
impl ObjectStore for LogStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let (dir, name) = self.split(location);
        let bytes = Bytes::from(payload);
        match opts.mode {
            PutMode::Create => {
                if !dir.create(name, bytes).await.map_err(failed)? {
                    let source = "another writer was faster".into();
                    return Err(Cause::AlreadyExists { path: location.to_string(), source });
                }
            }
            PutMode::Overwrite => {
                let mut file = tempfile::tempfile().map_err(|e| unkept(&e))?;
                file.write_all(&bytes).map_err(|e| unkept(&e))?;
                dir.replace(file, name).await.map_err(failed)?;
            }
            PutMode::Update(_) => return Err(not_needed("put on a condition")),
        }
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn put_multipart_opts(&self, location: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let file = tempfile::tempfile().map_err(|e| unkept(&e))?;
        Ok(Box::new(Parts { store: self.clone(), path: location.clone(), file: Some(file) }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (meta, bytes) = if options.head {
            (self.meta(location).await?, Bytes::new())
        } else {
            let bytes = self.read(location).await?;
            let (size, location) = (bytes.len() as u64, location.clone());
            let last_modified = DateTime::default();
            (ObjectMeta { location, last_modified, size, e_tag: None, version: None }, bytes)
        };
        let range = if options.head { 0..0 } else { within(options.range.as_ref(), meta.size) };
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let bytes = bytes.slice(place(range.start)..place(range.end));
        let payload = GetResultPayload::Stream(stream::once(async { Ok(bytes) }).boxed());
        Ok(GetResult { payload, meta, range, attributes: Attributes::default() })
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let own = self.clone();
        let remove = move |path: Path| {
            let own = own.clone();
            async move {
                let (dir, name) = own.split(&path);
                dir.remove(name).await.map_err(failed)?;
                Ok(path)
            }
        };
        locations.and_then(remove).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        // The files of one directory: the kernel asks for no others.
        let (own, prefix) = (self.clone(), prefix.cloned());
        let listed =
            async move { own.in_dir(prefix.as_ref()).await.map(|found| stream::iter(found.into_iter().map(Ok))) };
        stream::once(listed).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        Ok(ListResult { common_prefixes: Vec::new(), objects: self.in_dir(prefix).await? })
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(not_needed("copy"))
    }
}

impl fmt::Display for LogStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table.describe(""))
    }
}

/// A checkpoint on its way: whole when it is completed.
#[derive(Debug)]
struct Parts {
    store: LogStore,
    path: Path,
    file: Option<std::fs::File>,
}

#[async_trait]
impl MultipartUpload for Parts {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let written = self.file.as_mut().map_or(Ok(()), |file| data.iter().try_for_each(|piece| file.write_all(piece)));
        Box::pin(async move { written.map_err(|e| unkept(&e)) })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let (dir, name) = self.store.split(&self.path);
        if let Some(file) = self.file.take() {
            dir.replace(file, name).await.map_err(failed)?;
        }
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn abort(&mut self) -> Result<()> {
        self.file = None;
        Ok(())
    }
}

/// The part of a file of `size` bytes that is asked for.
fn within(range: Option<&GetRange>, size: u64) -> Range<u64> {
    match range {
        None => 0..size,
        Some(GetRange::Bounded(range)) => range.start.min(size)..range.end.min(size).max(range.start.min(size)),
        Some(GetRange::Offset(start)) => (*start).min(size)..size,
        Some(GetRange::Suffix(last)) => size.saturating_sub(*last)..size,
    }
}

fn failed(error: Error) -> Cause {
    Cause::Generic { store: "the table's directory", source: error.into() }
}

fn unkept(error: &std::io::Error) -> Cause {
    Cause::Generic { store: "the table's directory", source: format!("no local copy can be kept: {error}").into() }
}

fn absent(path: &Path) -> Cause {
    Cause::NotFound { path: path.to_string(), source: "there is no such file".into() }
}

fn not_needed(operation: &str) -> Cause {
    Cause::NotImplemented { operation: operation.to_owned(), implementer: "the table's directory".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_stays_within_the_file() {
        for (range, want) in [
            (None, 0..10),
            (Some(GetRange::Bounded(2..5)), 2..5),
            (Some(GetRange::Bounded(8..20)), 8..10),
            (Some(GetRange::Bounded(12..20)), 10..10),
            (Some(GetRange::Offset(7)), 7..10),
            (Some(GetRange::Offset(70)), 10..10),
            (Some(GetRange::Suffix(4)), 6..10),
            (Some(GetRange::Suffix(40)), 0..10),
        ] {
            assert_eq!(within(range.as_ref(), 10), want, "{range:?}");
        }
    }
}
