//! NDJSON on standard output. The run ends well only if the last byte was taken.

use std::fs::File;
use std::io::{self, ErrorKind as Io, Write as _};
use std::path::PathBuf;

use arrow_array::RecordBatch;

use super::{Sink, ndjson};
use crate::error::{Error, ErrorKind, Result};

/// One write a batch, so that a reader sees rows as they come.
///
/// It writes to the descriptor itself: `std::io::Stdout` reports success where standard output is not open.
#[derive(Debug)]
pub(super) struct Stdout {
    out: File,
    bytes: Vec<u8>,
}

impl Stdout {
    pub(super) fn open() -> Result<Self> {
        Ok(Self { out: descriptor()?, bytes: Vec::new() })
    }
}

impl Sink for Stdout {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.bytes.clear();
        ndjson::write(batch, &mut self.bytes)?;
        self.out.write_all(&self.bytes).map_err(failed)
    }

    /// A file behind standard output (`> rows.ndjson`) must survive a power cut as a directory of files does.
    fn prepare(&mut self) -> Result<()> {
        let is_file = self.out.metadata().map_err(failed)?.is_file();
        if is_file { self.out.sync_all().map_err(failed) } else { Ok(()) }
    }

    fn publish(self: Box<Self>) -> Result<Vec<PathBuf>> {
        Ok(Vec::new())
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
