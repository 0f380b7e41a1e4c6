//! One file by name: written aside, made durable, then renamed into sight.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::Schema;

use super::Format;
use super::encode::{self, Encoder};
use super::staging::failed;
use crate::disk;
use crate::effect::Effects;
use crate::error::{Error, ErrorKind, Result};

/// A file in the making. Dropping it before [`OneFile::publish`] leaves what was there.
pub(crate) struct OneFile {
    path: PathBuf,
    staged: PathBuf,
    encoder: Option<Encoder>,
}

impl OneFile {
    /// Begins a file that will replace the one at `path`, if there is any.
    pub(crate) fn create(path: &Path, format: Format, schema: &Schema) -> Result<Self> {
        let Some(name) = path.file_name().filter(|_| !path.is_dir()) else {
            let what = format!("{} is no name of a file", path.display());
            return Err(Error::new(ErrorKind::Config, what));
        };
        // A name of its own, so that two runs do not write into one file.
        let staged = path.with_file_name(format!(".{}.{:016x}.tmp", name.to_string_lossy(), fastrand::u64(..)));
        let file = File::create_new(&staged).map_err(|e| failed("no file can be made", &staged, e))?;
        let mut own = Self { path: path.to_owned(), staged, encoder: None };
        own.encoder =
            Some(Encoder::new(format, file, schema, encode::MEMORY).map_err(|e| e.with("path", path.display()))?);
        Ok(own)
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let done = self.encoder.as_mut().map_or(Ok(()), |encoder| encoder.write(batch));
        done.map_err(|error| error.with("path", self.path.display()))
    }

    /// Makes the rows durable and visible.
    pub(crate) fn publish(mut self) -> Result<()> {
        if let Some(encoder) = self.encoder.take() {
            let (file, ..) = encoder.finish().map_err(|error| error.with("path", self.path.display()))?;
            file.sync_all().map_err(|e| failed("the file cannot be made durable", &self.path, e))?;
        }
        fs::rename(&self.staged, &self.path).map_err(|e| failed("the file cannot be published", &self.path, e))?;
        let dir = self.path.parent().unwrap_or(Path::new(""));
        disk::sync_dir(dir, &Effects::default()).map_err(|e| failed("the directory cannot be made durable", dir, e))
    }
}

impl Drop for OneFile {
    fn drop(&mut self) {
        // Gone if it was published.
        let _ = fs::remove_file(&self.staged);
    }
}
