//! What a table's configuration says about its pages: where records, envelope values and positions stand.

use jsonptr::PointerBuf;

use crate::config::{CursorFrom, ModeConfig, SchemaConfig, Style, TableConfig};
use crate::schema::{self, Column, TableSchema};

/// Built once per read.
#[derive(Debug, Clone)]
pub struct DecodeSpec {
    /// The record array; `None` is the document.
    pub data: Option<PointerBuf>,
    /// The array whose length counts received records, where that is not the record array.
    pub results: Option<PointerBuf>,
    /// Must be absent or null.
    pub error: Option<PointerBuf>,
    /// The next cursor or URL.
    pub next: Option<PointerBuf>,
    /// The declared total.
    pub total: Option<PointerBuf>,
    /// The flag that more is to come.
    pub has_more: Option<PointerBuf>,
    /// The token for the next read.
    pub token: Option<PointerBuf>,
    /// A record's timestamp, in timestamp mode.
    pub timestamp: Option<PointerBuf>,
    /// A record's identity (`dedup-key`).
    pub identity: Option<PointerBuf>,
    /// `error-path` where every line is a document of its own.
    pub(crate) line_error: Option<PointerBuf>,
    /// Whether the table pages: then an object is a missing array, else it is one record (R16).
    pub paged: bool,
    /// Whether [`Page::content`](super::Page::content) is wanted (R15, offset and page styles).
    pub hash_content: bool,
    /// Rows of a batch; at least 1.
    pub batch_rows: usize,
    /// How columns are inferred, where they are.
    pub schema: SchemaConfig,
    /// A column that is read beside those that are selected, under a name of its own.
    pub beside: Option<Column>,
    /// In an exploded table of a declared one: the record's own columns.
    pub declared: Option<TableSchema>,
}

impl DecodeSpec {
    /// Reads the configuration of a table.
    pub fn for_table(table: &TableConfig) -> Self {
        let (mut next, mut total, mut has_more) = (None, None, None);
        match &table.pagination.style {
            Style::Offset { end, .. } | Style::Page { end, .. } => {
                total.clone_from(&end.total_path);
                has_more.clone_from(&end.has_more_path);
            }
            Style::Cursor { from: CursorFrom::Path(path), .. } | Style::NextUrl { path } => next = Some(path.clone()),
            Style::None | Style::Cursor { .. } | Style::LinkHeader => {}
        }
        let (mut timestamp, mut token) = (None, None);
        match table.checkpoint.as_ref().map(|checkpoint| &checkpoint.mode) {
            Some(ModeConfig::Timestamp { path, .. }) => timestamp = Some(path.clone()),
            Some(ModeConfig::Token { path, .. }) => token = Some(path.clone()),
            Some(ModeConfig::Cursor | ModeConfig::Offset) | None => {}
        }
        Self {
            data: table.data_path.clone(),
            results: table.pagination.results_path.clone(),
            error: table.error_path.clone(),
            next,
            total,
            has_more,
            token,
            timestamp,
            identity: table.checkpoint.as_ref().and_then(|checkpoint| checkpoint.dedup_key.clone()),
            line_error: None,
            paged: table.pagination.style != Style::None,
            hash_content: matches!(table.pagination.style, Style::Offset { .. } | Style::Page { .. }),
            batch_rows: table.schema.batch_rows.max(1),
            schema: SchemaConfig { explode: table.explode().cloned(), ..table.schema.clone() },
            beside: None,
            declared: table.array().and_then(|_| schema::declared(table)),
        }
    }
}
