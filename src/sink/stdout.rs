//! NDJSON on standard output. The run ends well only if the last byte was taken.

use std::io::{self, ErrorKind as Io, Write as _};
use std::path::PathBuf;

use arrow_array::RecordBatch;

use super::{Sink, ndjson};
use crate::error::{Error, ErrorKind, Result};

/// One write a batch, so that a reader sees rows as they come.
#[derive(Debug)]
pub(super) struct Stdout {
    bytes: Vec<u8>,
}

impl Stdout {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::new() }
    }
}

impl Sink for Stdout {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.bytes.clear();
        ndjson::write(batch, &mut self.bytes)?;
        io::stdout().lock().write_all(&self.bytes).map_err(failed)
    }

    fn prepare(&mut self) -> Result<()> {
        io::stdout().lock().flush().map_err(failed)?;
        durable().map_err(failed)
    }

    fn publish(self: Box<Self>) -> Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

/// A file behind standard output (`> rows.ndjson`) must survive a power cut as a directory of files does.
#[cfg(unix)]
fn durable() -> io::Result<()> {
    use std::os::fd::AsFd as _;
    let file = std::fs::File::from(io::stdout().as_fd().try_clone_to_owned()?);
    if file.metadata()?.is_file() { file.sync_all() } else { Ok(()) }
}

#[cfg(not(unix))]
fn durable() -> io::Result<()> {
    Ok(())
}

fn failed(error: io::Error) -> Error {
    let what = match error.kind() {
        Io::BrokenPipe => "standard output was closed by its reader".to_owned(),
        _ => format!("standard output could not be written: {error}"),
    };
    Error::new(ErrorKind::Store, what).caused_by(error)
}
