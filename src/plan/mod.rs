//! What to read: a scan becomes a frozen plan of partitions. Pure values: no clock, no network, no disk, no secret.

mod partition;
mod pushdown;
pub mod request;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::column::Column;
use crate::config::{CheckpointConfig, CursorFrom, CursorTo, ModeConfig, SourceConfig, Style, TableConfig};
use crate::error::Result;
use crate::filter::Predicate;
use crate::position::{Checkpoint, Edit, Instant, Position, Seen, TimestampFormat, Window, hex};

use partition::Slices;

pub use partition::Slice;
pub use pushdown::{Pushdown, Sent};
pub use request::Request;

/// What a caller wants of a table; by default all of it, from its checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    pub(crate) table: String,
    pub(crate) select: Option<Vec<String>>,
    pub(crate) filter: Option<Predicate>,
    pub(crate) limit: Option<u64>,
    pub(crate) full: bool,
    pub(crate) apart: bool,
    pub(crate) distributed: bool,
    /// The columns of an inferred table, where somebody has seen its first rows before.
    pub(crate) columns: Option<Vec<Column>>,
    pub(crate) batch: Option<Batch>,
}

/// One batch of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// What belongs to it.
    pub window: Window,
    /// Records before it are late; `None` before the first event.
    pub watermark: Option<Instant>,
}

impl Scan {
    /// A scan of a whole table.
    pub fn of(table: impl Into<String>) -> Self {
        Self {
            table: table.into(),
            select: None,
            filter: None,
            limit: None,
            full: false,
            apart: false,
            distributed: false,
            columns: None,
            batch: None,
        }
    }

    /// Only these columns, in this order.
    #[must_use]
    pub fn select<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.select = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Only rows for which this is true. The API is asked for what it can answer; whoever reads the plan applies
    /// [`Plan::residual`] to the rows that come (R13), which have the columns it looks at, after those selected.
    #[must_use]
    pub fn filter(mut self, predicate: Predicate) -> Self {
        self.filter = Some(predicate);
        self
    }

    /// The columns of a table that would be asked for or inferred: somebody has seen them before, see [`Source::shape`].
    ///
    /// [`Source::shape`]: crate::Source::shape
    #[must_use]
    pub fn shaped(mut self, columns: Vec<Column>) -> Self {
        self.columns = Some(columns);
        self
    }

    /// One batch of a stream, whatever the table's own position: it moves nothing but the stream (R27, R28).
    #[must_use]
    pub fn batch(mut self, batch: Batch) -> Self {
        self.batch = Some(batch);
        self
    }

    /// The partitions are read in several processes: each takes an exact share of the rate limit (R21).
    #[must_use]
    pub fn distributed(mut self) -> Self {
        self.distributed = true;
        self
    }

    /// At most this many rows of each partition, none of which a residual predicate may still drop: then all are read
    /// and whoever wanted so many stops. A plan with a limit cannot be sealed (R1).
    #[must_use]
    pub fn limit(mut self, rows: u64) -> Self {
        self.limit = Some(rows);
        self
    }

    /// The whole table, whatever is stored: the checkpoint is not even looked at. Such a plan cannot be sealed (R1).
    #[must_use]
    pub fn apart(self) -> Self {
        Self { apart: true, ..self }
    }

    /// The first rows, whatever is stored, as [`Scan::apart`].
    #[must_use]
    pub fn sample(self, rows: u64) -> Self {
        self.apart().limit(rows)
    }

    /// Ignores the stored position for this read. The commit still follows, and never lowers a position (R5).
    #[must_use]
    pub fn full(mut self) -> Self {
        self.full = true;
        self
    }
}

/// What stood in the store when the plan was made: a commit compares it (R8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Base {
    /// No file: a first run.
    Missing,
    /// A file whose bytes have this SHA-256, in hexadecimal digits.
    Bytes(String),
}

impl Base {
    /// The base of a file's bytes; `None` is a missing file.
    pub fn of(bytes: Option<&[u8]>) -> Self {
        bytes.map_or(Self::Missing, |bytes| Self::Bytes(hex(&Sha256::digest(bytes))))
    }
}

/// The stored side of a checkpointed plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub(crate) base: Base,
    pub(crate) position: Option<Position>,
    pub(crate) generation: u64,
    /// In timestamp mode: how positions compare.
    pub(crate) format: Option<TimestampFormat>,
    /// The plans that led to it, the last one first.
    pub(crate) plans: Vec<String>,
    /// The hand edits that the next file keeps.
    pub(crate) edits: Vec<Edit>,
}

/// A frozen description of one read: a value that can travel, without secrets, clock or I/O.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub(crate) id: String,
    pub(crate) table: String,
    pub(crate) fingerprint: String,
    /// It proves nothing: rows are left out, or nobody looked at what is stored.
    pub(crate) limited: bool,
    /// What the API answers of the query, and what is left.
    pub(crate) pushdown: Pushdown,
    /// The columns that are wanted, in their order; `None` is all. Partitions read those of the residual beside them.
    pub(crate) select: Option<Vec<String>>,
    /// What is worth saying before the read.
    pub(crate) warnings: Vec<String>,
    /// `None` for a table without an enabled checkpoint.
    pub(crate) stored: Option<Stored>,
    pub(crate) partitions: Vec<Partition>,
}

impl Plan {
    /// Freezes a scan. `id` must be unique among all plans; `now` is when the read begins (R5).
    ///
    /// # Errors
    /// Kind `Scan` where a query's range makes too many partitions.
    pub(crate) fn freeze(
        scan: Scan,
        config: &SourceConfig,
        table: &TableConfig,
        loaded: Option<(Base, Option<Checkpoint>)>,
        id: String,
        now: Instant,
    ) -> Result<Self> {
        let fingerprint = with_parents(config, table);
        let pushdown = Pushdown::of(scan.filter.as_ref(), table);
        let Slices { slices, warning } = partition::slices(table, scan.filter.as_ref(), &pushdown)?;
        let checkpoint = loaded.as_ref().and_then(|(_, checkpoint)| checkpoint.as_ref()).filter(|_| !scan.full);
        // What the residual looks at is read too, after what is wanted.
        let wanted = scan.select.clone();
        let select = scan.select.map(|mut names| {
            for column in pushdown.residual.iter().flat_map(Predicate::columns) {
                if !names.iter().any(|name| name == column) {
                    names.push(column.to_owned());
                }
            }
            names
        });
        let of = slices.len() as u64;
        let format = table.checkpoint.as_ref().and_then(CheckpointConfig::timestamp_format);
        let start = match (scan.batch, format) {
            (Some(batch), Some(format)) => batch.window.start.map(|at| Position::Timestamp(format.render(at))),
            _ => checkpoint.map(|c| c.position.clone()),
        };
        let partition = |(number, slice): (u64, Slice)| Partition {
            plan: id.clone(),
            id: slice.to_string(),
            table: scan.table.clone(),
            fingerprint: fingerprint.clone(),
            slice,
            params: pushdown.params(),
            start: start.clone(),
            batch: scan.batch,
            seen: checkpoint.map(|c| c.seen.clone()).unwrap_or_default(),
            began: now,
            select: select.clone(),
            limit: scan.limit.filter(|_| pushdown.residual.is_none()),
            columns: (table.is_from_spec || table.is_sampled()).then(|| table.columns.clone()),
            share: (scan.distributed && of > 1).then_some(Share { number, of }),
        };
        let partitions = (0..).zip(slices).map(partition).collect();
        let stored = loaded.map(|(base, checkpoint)| Stored {
            base,
            position: checkpoint.as_ref().map(|c| c.position.clone()),
            generation: checkpoint.as_ref().map_or(0, |c| c.generation),
            format: table.checkpoint.as_ref().and_then(CheckpointConfig::timestamp_format).cloned(),
            plans: checkpoint.iter().flat_map(Checkpoint::plans).cloned().collect(),
            edits: checkpoint.map(|c| c.edits).unwrap_or_default(),
        });
        Ok(Self {
            id,
            table: scan.table,
            fingerprint,
            limited: scan.limit.is_some() || scan.apart,
            pushdown,
            select: wanted,
            warnings: warning.into_iter().collect(),
            stored,
            partitions,
        })
    }

    /// A plan of one partition of the checkpointed table `items`, for unit tests of what follows it.
    #[cfg(test)]
    pub(crate) fn of_test(id: &str, base: Base, position: Option<Position>, format: Option<TimestampFormat>) -> Self {
        let partition = Partition {
            plan: id.to_owned(),
            id: "all".to_owned(),
            table: "items".to_owned(),
            fingerprint: "print".to_owned(),
            slice: Slice::All,
            params: Vec::new(),
            start: None,
            batch: None,
            seen: Seen::default(),
            began: Instant::default(),
            select: None,
            limit: None,
            columns: None,
            share: None,
        };
        Self {
            id: id.to_owned(),
            table: "items".to_owned(),
            fingerprint: "print".to_owned(),
            limited: false,
            pushdown: Pushdown::default(),
            select: None,
            warnings: Vec::new(),
            stored: Some(Stored { base, position, generation: 4, format, plans: Vec::new(), edits: Vec::new() }),
            partitions: vec![partition],
        }
    }

    /// The slices to read; every one must yield a receipt before the plan can be sealed.
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// One plan for each partition, for a task elsewhere: what it reads proves nothing but its own partition, so it
    /// cannot be sealed (R1).
    pub fn split(&self) -> Vec<Self> {
        let only = |partition: &Partition| Self { limited: true, partitions: vec![partition.clone()], ..self.clone() };
        self.partitions.iter().map(only).collect()
    }

    /// The columns that are wanted, in their order; `None` is all of the table.
    pub fn select(&self) -> Option<&[String]> {
        self.select.as_deref()
    }

    /// Whether a commit of it can move a position: its table has a checkpoint that was loaded.
    pub fn is_checkpointed(&self) -> bool {
        self.stored.is_some()
    }

    /// What of the query is sent to the API, and what is left.
    pub fn pushdown(&self) -> &Pushdown {
        &self.pushdown
    }

    /// What has to be applied to every row that comes; `None` where nothing is left to do.
    pub fn residual(&self) -> Option<&Predicate> {
        self.pushdown.residual.as_ref()
    }

    /// What is worth saying before the read.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The table that is read.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Where the read starts; `None` is from the beginning.
    pub fn start(&self) -> Option<&Position> {
        self.partitions.first().and_then(|p| p.start.as_ref())
    }

    /// The position that stood in the store when the plan was made.
    pub fn stored(&self) -> Option<&Position> {
        self.stored.as_ref().and_then(|stored| stored.position.as_ref())
    }

    /// What is unique to this plan, among all plans of all runs.
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// A slice that one task reads: a value that can travel, with a stable id and no credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    pub(crate) plan: String,
    pub(crate) id: String,
    pub(crate) table: String,
    pub(crate) fingerprint: String,
    pub(crate) slice: Slice,
    /// What filters send.
    pub(crate) params: Vec<(String, String)>,
    pub(crate) start: Option<Position>,
    pub(crate) batch: Option<Batch>,
    pub(crate) seen: Seen,
    pub(crate) began: Instant,
    pub(crate) select: Option<Vec<String>>,
    pub(crate) limit: Option<u64>,
    /// The columns as the `openapi` document had them when the plan was made, or as the first rows showed them: no
    /// task asks for them again, and all partitions have the same.
    pub(crate) columns: Option<Vec<Column>>,
    /// Its part of the rate limit, where the partitions are read in several processes.
    pub(crate) share: Option<Share>,
}

/// One of `of` equal parts of a rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Which, from 0.
    pub number: u64,
    /// Of how many.
    pub of: u64,
}

impl Partition {
    /// Its id: a range or value, never an index alone. An unpartitioned read is `all`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What it reads of its table.
    pub fn slice(&self) -> &Slice {
        &self.slice
    }

    /// The table it belongs to.
    pub fn table(&self) -> &str {
        &self.table
    }
}

/// The fingerprints of a table and of those whose rows its requests are made of.
pub(crate) fn with_parents(config: &SourceConfig, table: &TableConfig) -> String {
    let mut prints = fingerprint(config, table);
    let mut at = table;
    // Circles are refused at load.
    while let Some(parent) = at.child.as_ref().and_then(|child| config.tables.iter().find(|t| t.name == child.parent)) {
        at = parent;
        prints = format!("{prints} {}", fingerprint(config, at));
    }
    prints
}

/// What makes two reads the same (R6): base URL, endpoint, method, fixed parameters and body, paging, paths, mode.
///
/// A position of one read means nothing to another. Credentials are no part of it.
pub fn fingerprint(config: &SourceConfig, table: &TableConfig) -> String {
    let paging = &table.pagination;
    let style = match &paging.style {
        Style::Offset { param, .. } | Style::Page { param, .. } => vec![param.clone()],
        Style::Cursor { from, to, .. } => vec![
            match from {
                CursorFrom::Path(path) => path.to_string(),
                CursorFrom::Header(name) => name.clone(),
            },
            match to {
                CursorTo::Query(param) => param.clone(),
                CursorTo::Body(path) => path.to_string(),
            },
        ],
        Style::NextUrl { path } => vec![path.to_string()],
        Style::None | Style::LinkHeader => vec![],
    };
    let mode = table.checkpoint.as_ref().map(|c| match &c.mode {
        ModeConfig::Cursor | ModeConfig::Offset => (c.mode.mode(), vec![]),
        ModeConfig::Timestamp { path, param, format } => {
            (c.mode.mode(), vec![path.to_string(), param.clone(), format.to_string()])
        }
        ModeConfig::Token { path, param } => (c.mode.mode(), vec![path.to_string(), param.clone()]),
    });
    let path = |p: &Option<jsonptr::PointerBuf>| p.as_ref().map(ToString::to_string);
    let what = serde_json::json!([
        config.base_url.as_str(),
        table.url.as_str(),
        table.method.as_str(),
        table.params,
        table.body,
        path(&table.data_path),
        path(&paging.results_path),
        paging.style.name(),
        style,
        mode,
    ]);
    hex(&Sha256::digest(what.to_string()))
}
