//! NDJSON on standard output. The run ends well only if the last byte was taken.

use std::fs::File;
use std::io::{self, ErrorKind as Io, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use futures::future::BoxFuture;

use super::{Counted, Finished, Part, Sink, Writer, ndjson};
use crate::error::{Error, ErrorKind, Result};

/// One descriptor for all parts.
///
/// It is written to itself: `std::io::Stdout` reports success where standard output is not open.
#[derive(Debug)]
pub(super) struct Stdout(Arc<Shared>);

impl Stdout {
    pub(super) fn open() -> Result<Self> {
        Ok(Self::to(descriptor()?))
    }

    fn to(out: File) -> Self {
        Self(Arc::new(Shared(Mutex::new(Some(out)))))
    }
}

impl Sink for Stdout {
    fn part(&self, part: Part) -> Result<Box<dyn Writer>> {
        Ok(Box::new(Rows { out: Arc::clone(&self.0), bytes: Vec::new(), counted: Counted::new(part) }))
    }

    /// A file behind standard output (`> rows.ndjson`) must survive a power cut as a directory of files does.
    fn publish<'a>(&'a self, _parts: &'a [Finished]) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(async {
            let out = Arc::clone(&self.0);
            let sync = move || out.with(|out| if out.metadata()?.is_file() { out.sync_all() } else { Ok(()) });
            let synced = tokio::task::spawn_blocking(sync).await;
            synced.unwrap_or_else(|e| Err(Error::new(ErrorKind::Bug, format!("syncing was cut short: {e}"))))?;
            Ok(Vec::new())
        })
    }

    fn withdraw<'a>(&'a self, _parts: &'a [Finished]) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn sweep(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

/// The rows of one part: one write a batch, so that a reader sees rows as they come, and those of a batch together.
#[derive(Debug)]
struct Rows {
    out: Arc<Shared>,
    bytes: Vec<u8>,
    counted: Counted,
}

impl Writer for Rows {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.counted.write(batch)?;
        self.bytes.clear();
        ndjson::write(batch, &mut self.bytes)?;
        self.out.with(|out| out.write_all(&self.bytes))
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        Ok(self.counted.finished(None))
    }
}

/// The descriptor, until it fails: after half a row nothing may follow.
#[derive(Debug)]
struct Shared(Mutex<Option<File>>);

impl Shared {
    fn with(&self, work: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = || Error::new(ErrorKind::Store, "standard output has failed before and takes no more rows");
        let mut out = slot.take().ok_or_else(lost)?;
        work(&mut out).map_err(failed)?;
        *slot = Some(out);
        Ok(())
    }
}

/// Standard output, if it is open. A closed one was replaced by the null device, for reading too, before `main`.
#[cfg(unix)]
fn descriptor() -> Result<File> {
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
    let out = File::from(io::stdout().as_fd().try_clone_to_owned().map_err(failed)?);
    let found = out.metadata().map_err(failed)?;
    let is_null = found.file_type().is_char_device()
        && std::fs::metadata("/dev/null").is_ok_and(|null| null.rdev() == found.rdev());
    let is_read_too = rustix::fs::fcntl_getfl(&out).is_ok_and(|flags| flags.contains(rustix::fs::OFlags::RDWR));
    if is_null && is_read_too {
        let what =
            "standard output is closed: nobody would get the rows; to discard them say --to null: or > /dev/null";
        return Err(Error::new(ErrorKind::Store, what));
    }
    Ok(out)
}

#[cfg(windows)]
fn descriptor() -> Result<File> {
    use std::os::windows::io::AsHandle as _;
    io::stdout().as_handle().try_clone_to_owned().map(File::from).map_err(failed)
}

fn failed(error: io::Error) -> Error {
    let what = match error.kind() {
        Io::BrokenPipe => "standard output was closed by its reader".to_owned(),
        _ => format!("standard output could not be written: {error}"),
    };
    Error::new(ErrorKind::Store, what).caused_by(error)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::os::fd::OwnedFd;
    use std::thread;

    use arrow_array::{Int64Array, RecordBatch};

    use super::*;

    /// More than a pipe holds, so that writing it takes several turns.
    const ROWS: usize = 20_000;

    fn wait<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap().block_on(future)
    }

    fn batch(value: i64) -> RecordBatch {
        RecordBatch::try_from_iter([("part", Arc::new(Int64Array::from(vec![value; ROWS])) as _)]).unwrap()
    }

    #[test]
    fn r30_batches_of_parts_written_at_once_stay_whole() {
        let (from, to) = io::pipe().unwrap();
        let sink = Stdout::to(OwnedFd::from(to).into());
        let reader = thread::spawn(move || BufReader::new(from).lines().map(Result::unwrap).collect::<Vec<_>>());
        let finished = thread::scope(|scope| {
            let parts: Vec<_> = (0..4)
                .map(|value| {
                    let mut part = sink.part(Part::Number(0)).unwrap();
                    scope.spawn(move || {
                        (0..5).for_each(|_| part.write(&batch(value)).unwrap());
                        part.finish().unwrap()
                    })
                })
                .collect();
            parts.into_iter().map(|part| part.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(wait(sink.publish(&finished)).unwrap().is_empty());
        drop(sink);
        let lines = reader.join().unwrap();
        assert_eq!(lines.len(), 4 * 5 * ROWS);
        for rows in lines.chunks(ROWS) {
            assert!(rows.iter().all(|row| row == &rows[0]), "a batch was torn apart");
        }
    }

    #[test]
    fn r02_after_a_failed_write_no_part_writes_any_more() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let sink = Stdout::to(file.reopen().unwrap());
        let (mut one, mut other) = (sink.part(Part::Number(0)).unwrap(), sink.part(Part::Number(1)).unwrap());
        one.write(&batch(1)).unwrap();
        let before = file.as_file().metadata().unwrap().len();
        assert!(sink.0.with(|_| Err(Io::StorageFull.into())).is_err());
        assert_eq!(other.write(&batch(2)).unwrap_err().kind(), ErrorKind::Store);
        assert_eq!(wait(sink.publish(&[])).unwrap_err().kind(), ErrorKind::Store);
        assert_eq!(file.as_file().metadata().unwrap().len(), before);
    }
}
