//! Micro-batches by timestamp: windows that meet without a gap or an overlap, each an epoch of the stream's own ledger
//! (R27, R28).

use std::sync::Arc;
use std::time::Duration;

use chrono::{DurationRound as _, TimeDelta};

use crate::commit::ledger::{Head, Offsets};
use crate::config::{CheckpointConfig, ModeConfig, TableConfig};
use crate::counts::{Counts, Meters};
use crate::epoch::{Epochs, Proven, Staged};
use crate::error::{Error, ErrorKind, Result};
use crate::gather::{Tally, Wanted, gather};
use crate::plan::{Batch, fingerprint};
use crate::position::instant::minus;
use crate::position::{Instant, Position, TimestampFormat, Window};
use crate::run::cores;
use crate::sink::{Destination, Output};
use crate::source::Source;
use crate::storage::Location;

/// The last second that can no longer get records lies this far behind the second that is running.
const BEHIND: TimeDelta = TimeDelta::seconds(1);

/// A stream of one table into one output.
#[derive(Debug, Clone)]
pub struct Stream {
    /// The table, in timestamp mode.
    pub table: String,
    /// Where the ledger stands; it belongs to this stream alone.
    pub location: Location,
    /// Where the rows go.
    pub output: Output,
    /// When batches begin.
    pub trigger: Trigger,
    /// Where a new stream starts.
    pub starting: Starting,
    /// The longest window; a longer absence becomes several batches.
    pub max_window: Option<Duration>,
    /// How far behind the greatest event time records may come without being late.
    pub allowed_lateness: Duration,
}

/// When batches begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// What there is when the run begins, then the run ends.
    AvailableNow,
    /// Again and again, so long after the last one began, until the run is told to end.
    Every(Duration),
}

/// Where a new stream starts. A stream that has an epoch goes on from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starting {
    /// With what comes into being from now on.
    Now,
    /// With everything there is.
    Earliest,
    /// With what is later than an instant.
    At(Instant),
}

/// What one batch did.
#[derive(Debug, Clone)]
pub struct BatchReport {
    /// Its epoch.
    pub epoch: u64,
    /// What belonged to it.
    pub window: Window,
    /// The loss report (R25).
    pub counts: Counts,
    /// The files that hold its rows.
    pub files: Vec<String>,
    /// How far its end lies behind the moment when the batch was done.
    pub lag: TimeDelta,
    /// The watermark after it.
    pub watermark: Option<Instant>,
}

/// What drives a stream: time and the wish to end come from outside.
pub trait Driver {
    /// Now.
    fn now(&self) -> Instant;

    /// Waits until `at`, or until the stream is to end, whichever comes first; `true` is the end.
    fn wait(&mut self, at: Instant) -> impl Future<Output = bool>;

    /// Told of each batch.
    fn report(&mut self, batch: BatchReport);
}

impl Stream {
    /// Reads batches until there is nothing to read or nobody wants more. A batch that was begun is ended.
    ///
    /// # Errors
    /// Kind `Config` for a table that has no timestamps to stream by; kind `Store` for a ledger that cannot be read;
    /// kind `Conflict` where another runner of this stream was faster.
    pub async fn run(&self, source: &Source, meters: &Arc<Meters>, driver: &mut impl Driver) -> Result<()> {
        let table = source.table(&self.table)?.config();
        let lag = self.check(table)?;
        let epochs = Epochs::at(source, &self.table, &self.location)?;
        // What is available now is what was so when the run began.
        let mut end = horizon(driver.now(), lag)?;
        loop {
            let began = driver.now();
            while let Some(report) = self.batch(source, &epochs, meters, end, driver).await? {
                let is_behind = report.window.end < end;
                driver.report(report);
                if !is_behind || driver.wait(began).await {
                    break;
                }
            }
            let Trigger::Every(interval) = self.trigger else { return Ok(()) };
            let next =
                began.checked_add_signed(TimeDelta::from_std(interval).unwrap_or(TimeDelta::MAX)).unwrap_or(began);
            if driver.wait(next).await {
                return Ok(());
            }
            end = horizon(driver.now(), lag)?;
        }
    }

    /// Whether the table can be streamed; its lag.
    fn check(&self, table: &TableConfig) -> Result<Duration> {
        let lag = lag_of(table)?;
        let refuse = |what: &str| Err(Error::new(ErrorKind::Config, what).with("table", &self.table));
        if self.max_window.is_some_and(|longest| longest.is_zero() || longest.subsec_nanos() != 0) {
            return refuse("--max-window must be whole seconds, at least one: windows end at seconds");
        }
        if self.output.destination == Destination::Null {
            return refuse("--to null: keeps nothing, and a stream moves");
        }
        Ok(lag)
    }

    /// The next batch; `None` where its window would be empty.
    async fn batch(
        &self,
        source: &Source,
        epochs: &Epochs<'_>,
        meters: &Arc<Meters>,
        horizon: Instant,
        driver: &impl Driver,
    ) -> Result<Option<BatchReport>> {
        let head = epochs.recover(Some(&self.output), |said| meters.warn(&[said])).await?;
        self.same_read(source, &head)?;
        let Some(window) = self.window(&head, horizon)? else { return Ok(None) };
        let before = head.newest.as_ref().and_then(|(_, newest)| newest.watermark);
        let scan = source.table(&self.table)?.scan().batch(Batch { window, watermark: before });
        let plan = source.plan_at(scan, driver.now()).await?;
        let begun = epochs.begin(&head, &plan, Some(window)).await?;
        let sink = epochs.open(&self.output, &begun, 1).await?;
        let tally = Tally::new(meters);
        let is_empty = window.start.is_some_and(|start| start >= window.end);
        let (parts, receipts) = if is_empty {
            // A new stream records where it starts.
            (Vec::new(), Vec::new())
        } else {
            let wanted = Wanted { select: None, limit: None, parallel: cores() };
            gather(source, &plan, &*sink, wanted, &tally).await?
        };
        let greatest = receipts.iter().filter_map(|receipt| self.instant(source, receipt.reached()?)).max();
        if !is_empty {
            // Proof that the batch was read to its end; it moves nothing of the table's.
            let _ = plan.seal(receipts)?;
        }
        let mark = greatest.map(|at| minus(at, self.allowed_lateness));
        let watermark = before.max(mark);
        let rows = tally.rows();
        let files =
            epochs.settle(&begun, &self.output, &*sink, Proven { parts, commit: None, rows, watermark }).await?;
        let counts = Counts { rows_emitted: rows, ..meters.take() };
        let lag = driver.now() - window.end;
        Ok(Some(BatchReport { epoch: begun.offsets.epoch, window, counts, files, lag, watermark }))
    }

    fn instant(&self, source: &Source, position: &Position) -> Option<Instant> {
        let table = source.table(&self.table).ok()?.config();
        table.checkpoint.as_ref()?.timestamp_format()?.parse(&position.text())
    }

    /// A ledger that another read began says nothing of this one (R6).
    fn same_read(&self, source: &Source, head: &Head<Staged>) -> Result<()> {
        let wanted = fingerprint(source.config(), source.table(&self.table)?.config());
        let entries = head.pending.iter().chain(head.newest.iter().map(|(offsets, _)| offsets));
        for Offsets { epoch, fingerprint, .. } in entries {
            if *fingerprint != wanted {
                let said = format!(
                    "the stream's offsets/{epoch} in {} belongs to another read: the base URL, endpoint, fixed parameters, \
                     body, paging or paths of this table have changed since; start a new location",
                    self.location
                );
                return Err(Error::new(ErrorKind::Store, said).with("table", &self.table));
            }
        }
        Ok(())
    }

    /// The window to read: the one that was begun, or the next. `None` where it would be empty.
    fn window(&self, head: &Head<Staged>, horizon: Instant) -> Result<Option<Window>> {
        if let Some(pending) = &head.pending {
            return pending.window.map(Some).ok_or_else(|| self.no_window(pending));
        }
        let Some((offsets, _)) = &head.newest else {
            let start = match self.starting {
                Starting::Now => Some(horizon),
                Starting::Earliest => None,
                Starting::At(at) => Some(floor(at)?),
            };
            // One that starts later waits until then.
            let end = self.capped(start, horizon);
            return Ok(Some(Window { start, end: start.map_or(end, |start| start.max(end)) }));
        };
        let start = offsets.window.ok_or_else(|| self.no_window(offsets))?.end;
        let is_empty = start >= horizon;
        Ok((!is_empty).then(|| Window { start: Some(start), end: self.capped(Some(start), horizon) }))
    }

    fn capped(&self, start: Option<Instant>, horizon: Instant) -> Instant {
        let longest = self.max_window.and_then(|longest| TimeDelta::from_std(longest).ok());
        let end = start.zip(longest).and_then(|(start, longest)| start.checked_add_signed(longest));
        end.map_or(horizon, |end| end.min(horizon))
    }

    fn no_window(&self, offsets: &Offsets) -> Error {
        let said = format!("offsets/{} in {} is of a batch run, not of a stream", offsets.epoch, self.location);
        Error::new(ErrorKind::Store, said).with("table", &self.table)
    }
}

/// How late the records of a table may come, which its windows wait for.
///
/// # Errors
/// Kind `Config` for a table that cannot be streamed.
pub fn lag_of(table: &TableConfig) -> Result<Duration> {
    let refuse = |what: String| Err(Error::new(ErrorKind::Config, what).with("table", &table.name));
    let Some(CheckpointConfig { mode: ModeConfig::Timestamp { format, .. }, lag, .. }) = &table.checkpoint else {
        return refuse(
            "a stream needs an enabled checkpoint with mode = timestamp: it says where timestamps stand".into(),
        );
    };
    let second = TimestampFormat::Rfc3339.parse("2026-01-02T03:04:05Z");
    if second.is_none_or(|second| format.parse(&format.render(second)) != Some(second)) {
        return refuse(format!("timestamp-format {format} holds no seconds: windows of a stream end at seconds"));
    }
    Ok(*lag)
}

/// The end of a window that is prepared now: the last second that can no longer get records, less the lag (R27).
///
/// # Errors
/// Kind `Scan` for a time beyond the calendar.
pub fn horizon(now: Instant, lag: Duration) -> Result<Instant> {
    let second = floor(now)?;
    // A lag of half a second more is a second more.
    floor(minus(second.checked_sub_signed(BEHIND).unwrap_or(second), lag))
}

/// The whole second that has begun.
fn floor(at: Instant) -> Result<Instant> {
    at.duration_trunc(TimeDelta::seconds(1))
        .map_err(|e| Error::new(ErrorKind::Scan, format!("{at} has no whole second: {e}")))
}
