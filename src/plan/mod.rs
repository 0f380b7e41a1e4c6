//! What to read: a scan becomes a frozen plan of partitions. Pure values: no clock, no network, no disk, no secret.

pub mod request;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::column::Column;
use crate::config::{CheckpointConfig, CursorFrom, CursorTo, ModeConfig, SourceConfig, Style, TableConfig};
use crate::position::{Checkpoint, Edit, Instant, Position, Seen, TimestampFormat, hex};

pub use request::Request;

/// What a caller wants of a table; by default all of it, from its checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    pub(crate) table: String,
    pub(crate) select: Option<Vec<String>>,
    pub(crate) limit: Option<u64>,
    pub(crate) full: bool,
    pub(crate) sample: bool,
}

impl Scan {
    /// A scan of a whole table.
    pub fn of(table: impl Into<String>) -> Self {
        Self { table: table.into(), select: None, limit: None, full: false, sample: false }
    }

    /// Only these columns, in this order.
    #[must_use]
    pub fn select<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.select = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// At most this many rows. A plan with a limit cannot be sealed (R1).
    #[must_use]
    pub fn limit(mut self, rows: u64) -> Self {
        self.limit = Some(rows);
        self
    }

    /// The first rows, whatever is stored: the checkpoint is not even looked at. Such a plan cannot be sealed (R1).
    #[must_use]
    pub fn sample(self, rows: u64) -> Self {
        Self { limit: Some(rows), sample: true, ..self }
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
    pub(crate) limited: bool,
    /// `None` for a table without an enabled checkpoint.
    pub(crate) stored: Option<Stored>,
    pub(crate) partitions: Vec<Partition>,
}

impl Plan {
    /// Freezes a scan. `id` must be unique among all plans; `now` is when the read begins (R5).
    pub(crate) fn freeze(
        scan: Scan,
        config: &SourceConfig,
        table: &TableConfig,
        loaded: Option<(Base, Option<Checkpoint>)>,
        id: String,
        now: Instant,
    ) -> Self {
        let fingerprint = fingerprint(config, table);
        let checkpoint = loaded.as_ref().and_then(|(_, checkpoint)| checkpoint.as_ref()).filter(|_| !scan.full);
        let partition = Partition {
            plan: id.clone(),
            id: "all".to_owned(),
            table: scan.table.clone(),
            fingerprint: fingerprint.clone(),
            start: checkpoint.map(|c| c.position.clone()),
            seen: checkpoint.map(|c| c.seen.clone()).unwrap_or_default(),
            began: now,
            select: scan.select,
            limit: scan.limit,
            columns: table.is_from_spec.then(|| table.columns.clone()),
        };
        let stored = loaded.map(|(base, checkpoint)| Stored {
            base,
            position: checkpoint.as_ref().map(|c| c.position.clone()),
            generation: checkpoint.as_ref().map_or(0, |c| c.generation),
            format: table.checkpoint.as_ref().and_then(CheckpointConfig::timestamp_format).cloned(),
            plans: checkpoint.iter().flat_map(Checkpoint::plans).cloned().collect(),
            edits: checkpoint.map(|c| c.edits).unwrap_or_default(),
        });
        Self { id, table: scan.table, fingerprint, limited: scan.limit.is_some(), stored, partitions: vec![partition] }
    }

    /// The slices to read; every one must yield a receipt before the plan can be sealed.
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
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
    pub(crate) start: Option<Position>,
    pub(crate) seen: Seen,
    pub(crate) began: Instant,
    pub(crate) select: Option<Vec<String>>,
    pub(crate) limit: Option<u64>,
    /// The columns as the `openapi` document had them when the plan was made: no task asks for it again.
    #[serde(default)]
    pub(crate) columns: Option<Vec<Column>>,
}

impl Partition {
    /// Its id: a range or value, never an index alone. An unpartitioned read is `all`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The table it belongs to.
    pub fn table(&self) -> &str {
        &self.table
    }
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
