//! Where rows go: standard output, files in a directory, or nowhere. Nothing is visible before it is published.

mod cell;
mod csv;
mod encode;
mod files;
mod ndjson;
#[cfg(feature = "sql")]
mod one_file;
mod part;
mod staging;
mod stdout;

pub(crate) use cell::as_texts;
#[cfg(feature = "sql")]
pub(crate) use one_file::OneFile;
pub use part::{Finished, Part};

use std::fmt;
use std::path::PathBuf;

use arrow_array::RecordBatch;

use crate::error::{Error, ErrorKind, Result};
use crate::storage::Location;
use crate::storage::location;

/// Takes the rows of one run, from several partitions at once.
///
/// Dropping it before [`Sink::publish`] leaves nothing visible in a directory; what was written to a stream is out.
pub trait Sink: fmt::Debug + Send + Sync {
    /// The writer of one part. No part has two.
    fn part(&self, part: Part) -> Result<Box<dyn Writer>>;

    /// Makes the rows of these parts, and of no other, visible and durable; the files that now hold them.
    fn publish(self: Box<Self>, parts: Vec<Finished>) -> Result<Vec<PathBuf>>;
}

/// Takes the rows of one part of a run.
pub trait Writer: fmt::Debug + Send {
    /// Takes one batch; all batches of a part share a schema.
    fn write(&mut self, batch: &RecordBatch) -> Result<()>;

    /// Ends the part: every row is durable, or handed to whoever reads our output.
    fn finish(self: Box<Self>) -> Result<Finished>;
}

/// What `--to`, `--format` and `--mode` ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Where to.
    pub destination: Destination,
    /// How files are written.
    pub format: Format,
    /// What visible files of the directory mean; `None` is the default of the table.
    pub existing: Option<Existing>,
}

impl Output {
    /// NDJSON on standard output.
    pub fn stdout() -> Self {
        Self { destination: Destination::Stdout, format: Format::Ndjson, existing: None }
    }

    /// Files of this format in a directory.
    pub fn directory(path: impl Into<PathBuf>, format: Format) -> Self {
        Self { destination: Destination::Directory(path.into()), format, existing: None }
    }

    /// Opens the destination, so that one that cannot take rows is known before anything is asked for.
    ///
    /// `run` is the id of the plan: it makes the names of new files unique. `parts` are those that are written side by
    /// side; they share the memory of writers.
    pub fn open(&self, table: &str, existing: Existing, run: &str, parts: usize) -> Result<Box<dyn Sink>> {
        Ok(match &self.destination {
            Destination::Null => Box::new(Null),
            Destination::Stdout => Box::new(stdout::Stdout::open()?),
            Destination::Directory(dir) => Box::new(files::Files::open(dir, table, self.format, existing, run, parts)?),
        })
    }
}

/// Where rows go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// Standard output (`-`).
    Stdout,
    /// Nowhere (`null:`).
    Null,
    /// A local directory.
    Directory(PathBuf),
}

impl Destination {
    /// Reads `--to`: `-`, `null:`, a local path or `file:` URL (R9).
    pub fn parse(text: &str) -> Result<Self> {
        let usage = |what: String| Error::new(ErrorKind::Config, what);
        match text {
            "-" => return Ok(Self::Stdout),
            "null:" => return Ok(Self::Null),
            _ => {}
        }
        match location::parse(text) {
            Ok(Location::Local(dir)) => Ok(Self::Directory(dir)),
            Ok(Location::Remote(remote)) => Err(usage(format!("not supported yet: --to {}:...", remote.scheme()))),
            Err(said) => Err(usage(format!("--to: {said}; - is standard output, null: counts only"))),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("standard output"),
            Self::Null => f.write_str("nowhere"),
            Self::Directory(dir) => write!(f, "{}", dir.display()),
        }
    }
}

/// How files are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Parquet, snappy.
    #[default]
    Parquet,
    /// One JSON object a line.
    Ndjson,
    /// With a header; NULL is an empty cell, an empty text is `""`.
    Csv,
    /// An Arrow IPC file.
    Arrow,
}

impl Format {
    /// The ending of file names.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Ndjson => "ndjson",
            Self::Csv => "csv",
            Self::Arrow => "arrow",
        }
    }
}

/// Appends what comes before the rows of a text format.
#[cfg(feature = "sql")]
pub(crate) fn text_header(format: Format, schema: &arrow_schema::Schema, out: &mut Vec<u8>) {
    if format == Format::Csv {
        csv::header(schema, out);
    }
}

/// Appends rows in a text format: CSV, or else NDJSON.
#[cfg(feature = "sql")]
pub(crate) fn text_rows(format: Format, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
    if format == Format::Csv { csv::write(batch, out) } else { ndjson::write(batch, out) }
}

/// What files mean that are already visible in the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// The run is refused.
    Error,
    /// They stay.
    Append,
    /// They are removed once the new ones are published; a crash between the two leaves both.
    Overwrite,
}

/// `null:`: rows are counted by whoever writes them.
#[derive(Debug)]
struct Null;

impl Sink for Null {
    fn part(&self, _part: Part) -> Result<Box<dyn Writer>> {
        Ok(Box::new(Self))
    }

    fn publish(self: Box<Self>, _parts: Vec<Finished>) -> Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

impl Writer for Null {
    fn write(&mut self, _batch: &RecordBatch) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        Ok(Finished(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r09_a_destination_is_a_path_or_a_known_scheme() {
        let dir = |path: &str| Some(Destination::Directory(path.into()));
        for (text, want) in [
            ("-", Some(Destination::Stdout)),
            ("null:", Some(Destination::Null)),
            ("out", dir("out")),
            ("/a/b", dir("/a/b")),
            ("C:\\x", dir("C:\\x")),
            ("./a:b", dir("./a:b")),
            ("file:/a", dir("/a")),
            ("file:///a", dir("/a")),
            ("file://host/a", None),
            ("", None),
            ("s3a://bucket/x", None),
            ("hdfss://x", None),
        ] {
            assert_eq!(Destination::parse(text).ok(), want, "{text}");
        }
        let credential = Destination::parse("s3a://key:secret@bucket/x").unwrap_err().to_string();
        assert!(credential.contains("must hold no credential") && !credential.contains("secret@"), "{credential}");
        let error = Destination::parse("S3A://bucket/x").unwrap_err();
        assert_eq!((error.kind().exit_code(), error.to_string()), (2, "not supported yet: --to s3a:...".into()));
        assert!(Destination::parse("hdfss://x").unwrap_err().to_string().contains("unknown scheme hdfss:"));
    }
}
