//! Where rows go: standard output, files in a directory, or nowhere. Nothing is visible before it is published.

mod cell;
mod csv;
#[cfg(feature = "delta")]
mod delta;
mod encode;
mod files;
pub(crate) mod manifest;
mod ndjson;
#[cfg(feature = "sql")]
mod one_file;
mod part;
mod place;
mod staging;
mod stdout;
#[cfg(any(test, feature = "testing"))]
pub mod suite;

pub(crate) use cell::as_texts;
#[cfg(feature = "sql")]
pub(crate) use one_file::OneFile;
pub use part::{Finished, Part, StagedFile};
pub use place::{Directory, Place};

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::effect::Effects;
use crate::error::{Error, ErrorKind, Result};
use crate::integrity::Crc;
use crate::storage::shelf::Shelf;
use crate::storage::{Location, Settings, location};

/// Takes the rows of one attempt at one epoch, or of one run, from several partitions at once.
///
/// What is staged is seen by nobody. Publishing follows when it was decided that the epoch is real, perhaps in another process
/// after a crash: [`Finished`] is all that it needs, and it may be done any number of times. What was written to a
/// stream is out as soon as it is written.
pub trait Sink: fmt::Debug + Send + Sync {
    /// The writer of one part. No part has two.
    fn part(&self, part: Part) -> Result<Box<dyn Writer>>;

    /// Makes the rows of these parts, and of no other, visible and durable; the files that now hold them.
    fn publish<'a>(&'a self, parts: &'a [Finished]) -> BoxFuture<'a, Result<Vec<String>>>;

    /// Removes what these parts staged or published, for a run that lost; what cannot be removed stays hidden or is seen
    /// twice.
    fn withdraw<'a>(&'a self, parts: &'a [Finished]) -> BoxFuture<'a, ()>;

    /// Removes what other attempts left of this epoch and those before it, once it is decided.
    fn sweep(&self) -> BoxFuture<'_, Result<()>>;
}

/// Takes the rows of one part.
pub trait Writer: fmt::Debug + Send {
    /// Takes one batch; all batches of a part share a schema.
    fn write(&mut self, batch: &RecordBatch) -> Result<()>;

    /// Ends the part: every row is durable, or handed to whoever reads our output.
    fn finish(self: Box<Self>) -> Result<Finished>;
}

/// An attempt at an epoch of a table's ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epoch {
    /// Tells the ledger from others whose rows go to the same place.
    pub ledger: String,
    /// Its number.
    pub number: u64,
    /// The attempt: unique among all runs.
    pub run: String,
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

    /// Files of this format in a local directory.
    pub fn directory(path: impl Into<PathBuf>, format: Format) -> Self {
        let destination = Destination::Files(Location::Local(path.into()));
        Self { destination, format, existing: None }
    }

    /// Opens the destination for one run, so that one that cannot take rows is known before anything is asked for.
    ///
    /// `run` is the id of the plan: it makes the names of new files unique. `parts` are those that are written side by
    /// side; they share the memory of writers.
    pub async fn open(
        &self,
        table: &str,
        existing: Existing,
        run: &str,
        parts: usize,
        settings: &Settings,
    ) -> Result<Box<dyn Sink>> {
        Ok(match &self.destination {
            Destination::Null => Box::new(Null),
            Destination::Stdout => Box::new(stdout::Stdout::open()?),
            Destination::Files(to) => {
                let place = Directory::new(to.clone(), self.format, settings.clone()).shelf()?;
                match self.format {
                    #[cfg(feature = "delta")]
                    Format::Delta => Box::new(delta::Delta::once(place, table, existing, run, parts).await?),
                    format => {
                        place::plain(format, &place).await?;
                        Box::new(files::Files::once(place, table, format, existing, run, parts).await?)
                    }
                }
            }
            Destination::Own(place) => {
                let epoch = Epoch { ledger: run.to_owned(), number: 0, run: run.to_owned() };
                place.open(table, &epoch, parts).await?
            }
        })
    }

    /// The place that takes rows by epochs; `None` where they are out as soon as they are written.
    pub(crate) fn place(&self, settings: &Settings, effects: &Effects) -> Option<Arc<dyn Place>> {
        match &self.destination {
            Destination::Stdout | Destination::Null => None,
            Destination::Files(to) => {
                let directory = Directory::new(to.clone(), self.format, settings.clone()).watched(effects);
                Some(Arc::new(directory))
            }
            Destination::Own(place) => Some(Arc::clone(place)),
        }
    }
}

/// The files that hold the rows of a Delta table; `None` where every file in sight is rows.
#[cfg_attr(not(feature = "delta"), expect(clippy::unused_async, reason = "one kind of place alone is asked"))]
pub(crate) async fn held(place: &Shelf) -> Result<Option<BTreeSet<String>>> {
    #[cfg(feature = "delta")]
    if files::is_delta_table(place).await? {
        return delta::held(place).await.map(Some);
    }
    // Without the feature the manifests have to do.
    let _ = place;
    Ok(None)
}

/// Where rows go.
#[derive(Debug, Clone)]
pub enum Destination {
    /// Standard output (`-`).
    Stdout,
    /// Nowhere (`null:`).
    Null,
    /// A directory, local or of a store.
    Files(Location),
    /// A place of your own.
    Own(Arc<dyn Place>),
}

impl PartialEq for Destination {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Stdout, Self::Stdout) | (Self::Null, Self::Null) => true,
            (Self::Files(one), Self::Files(other)) => one == other,
            (Self::Own(one), Self::Own(other)) => one.name() == other.name(),
            _ => false,
        }
    }
}

impl Eq for Destination {}

impl Destination {
    /// Whether rows wait there unseen until their epoch is decided.
    pub(crate) fn takes_epochs(&self) -> bool {
        matches!(self, Self::Files(_) | Self::Own(_))
    }

    /// Reads `--to`: `-`, `null:`, a path or the URL of a store (R9).
    pub fn parse(text: &str) -> Result<Self> {
        match text {
            "-" => return Ok(Self::Stdout),
            "null:" => return Ok(Self::Null),
            _ => {}
        }
        location::parse(text).map(Self::Files).map_err(|said| {
            Error::new(ErrorKind::Config, format!("--to: {said}; - is standard output, null: counts only"))
        })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("standard output"),
            Self::Null => f.write_str("nowhere"),
            Self::Files(to) => write!(f, "{to}"),
            Self::Own(place) => f.write_str(&place.name()),
        }
    }
}

/// How files are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
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
    /// A Delta table of Parquet files; needs the feature `delta`.
    Delta,
}

impl Format {
    /// The ending of file names.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Parquet | Self::Delta => "parquet",
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
    fn part(&self, part: Part) -> Result<Box<dyn Writer>> {
        Ok(Box::new(Counted::new(part)))
    }

    fn publish<'a>(&'a self, _parts: &'a [Finished]) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn withdraw<'a>(&'a self, _parts: &'a [Finished]) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn sweep(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

/// What every writer counts of its part.
#[derive(Debug)]
struct Counted {
    part: Part,
    rows: u64,
    content: Crc,
}

impl Counted {
    fn new(part: Part) -> Self {
        Self { part, rows: 0, content: Crc::new() }
    }

    fn finished(&self, file: Option<StagedFile>) -> Finished {
        Finished { part: self.part, rows: self.rows, content: self.content.value(), file }
    }
}

impl Writer for Counted {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        self.content.add_batch(batch)
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        Ok(self.finished(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r09_a_destination_is_a_path_or_a_known_scheme() {
        let dir = |path: &str| Some(Destination::Files(Location::Local(path.into())));
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
            ("hdfss://x", None),
        ] {
            assert_eq!(Destination::parse(text).ok(), want, "{text}");
        }
        let credential = Destination::parse("s3a://key:secret@bucket/x").unwrap_err().to_string();
        assert!(credential.contains("must hold no credential") && !credential.contains("secret@"), "{credential}");
        let remote = Destination::parse("S3A://bucket/x").unwrap();
        assert!(matches!(&remote, Destination::Files(Location::Remote(_))) && remote.to_string().ends_with("bucket/x"));
        assert!(Destination::parse("hdfss://x").unwrap_err().to_string().contains("unknown scheme hdfss:"));
    }
}
