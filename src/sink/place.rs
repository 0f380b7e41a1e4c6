//! Places that rows go to by epochs: a directory, or one of your own.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;

use super::{Epoch, Format, Sink, files};
use crate::effect::Effects;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::shelf::Shelf;
use crate::storage::{Location, Settings};

/// Where the rows of a run or a stream go: give one of your own as [`Destination::Own`](super::Destination::Own).
///
/// The ledger writes down its name with everything that was staged there. When a process ends between the decision and
/// the publishing of an epoch, the next one opens the place again and publishes what the ledger has kept.
/// `sink::suite` (feature `testing`) says whether a place and its sinks keep what they promise.
pub trait Place: fmt::Debug + Send + Sync {
    /// What it is called in ledgers and messages: the same in every process, another than any other place's, and no secret.
    fn name(&self) -> String;

    /// Opens it for an attempt at an epoch, to write or to publish. What cannot take rows is an error here, before anything
    /// is asked of the API.
    ///
    /// `parts` are those that are written side by side. A run of a table without a checkpoint is an epoch 0 of a ledger of
    /// its own.
    fn open<'a>(&'a self, table: &'a str, epoch: &'a Epoch, parts: usize) -> BoxFuture<'a, Result<Box<dyn Sink>>>;
}

/// Files in a directory of any store, or a Delta table.
#[derive(Debug, Clone)]
pub struct Directory {
    to: Location,
    format: Format,
    settings: Settings,
    effects: Effects,
    /// Whether it was looked at: a stream opens it for each of its epochs.
    is_known: Arc<AtomicBool>,
}

impl Directory {
    /// The files of this format in a directory that is reached by these settings.
    pub fn new(to: Location, format: Format, settings: Settings) -> Self {
        Self { to, format, settings, effects: Effects::default(), is_known: Arc::default() }
    }

    /// With effects that a test may stop.
    pub(crate) fn watched(self, effects: &Effects) -> Self {
        Self { effects: effects.clone(), ..self }
    }

    pub(super) fn shelf(&self) -> Result<Shelf> {
        Shelf::open(&self.to, &self.settings, self.effects.clone())
    }
}

impl Place for Directory {
    fn name(&self) -> String {
        self.to.to_string()
    }

    fn open<'a>(&'a self, table: &'a str, epoch: &'a Epoch, parts: usize) -> BoxFuture<'a, Result<Box<dyn Sink>>> {
        Box::pin(async move {
            let place = self.shelf()?;
            let sink: Box<dyn Sink> = match self.format {
                #[cfg(feature = "delta")]
                Format::Delta => Box::new(super::delta::Delta::epoch(place, table, epoch, parts, &self.effects).await?),
                format => {
                    if !self.is_known.load(Ordering::Relaxed) {
                        plain(format, &place).await?;
                        // A place that cannot be looked at takes no rows either.
                        place.list().await?;
                        self.is_known.store(true, Ordering::Relaxed);
                    }
                    Box::new(files::Files::epoch(place, table, format, epoch, parts, &self.effects)?)
                }
            };
            Ok(sink)
        })
    }
}

/// Whether files of this format are rows as soon as they are in sight.
///
/// # Errors
/// Kind `Config` where nobody would see them.
pub(super) async fn plain(format: Format, place: &Shelf) -> Result<()> {
    if format == Format::Delta {
        let said = "this restmark writes no Delta tables: it was built without the feature delta";
        return Err(Error::new(ErrorKind::Config, said));
    }
    if files::is_delta_table(place).await? {
        let said =
            format!("{} is a Delta table, which would not see the files; say --format delta", place.describe(""));
        return Err(Error::new(ErrorKind::Config, said));
    }
    Ok(())
}
