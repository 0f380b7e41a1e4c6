//! What fuzzers and the corpus test call (feature `testing`): everything that reads what others wrote, held to a slow
//! reading of the same bytes.
//!
//! Each function takes any bytes. It must not panic, and its error says what was read wrong.

mod checkpoint;
mod config;
mod link;
mod page;
mod streams;

use jsonptr::PointerBuf;

use crate::config::{ColumnType, OnMismatch, SchemaConfig, SchemaMode};
use crate::decode::DecodeSpec;
use crate::position::{Boundary, BoundaryPolicy, Seen};
use crate::schema::{Column, TableSchema};

pub use checkpoint::checkpoint;
pub use config::config;
pub use link::link;
pub use page::page;
pub use streams::{csv, ndjson, sse};

/// What reads any bytes and says what was read wrong.
pub type Target = fn(&[u8]) -> Result<(), String>;

/// All of them, each with its name in `fuzz/`.
pub const TARGETS: [(&str, Target); 7] = [
    ("page", page),
    ("link", link),
    ("ndjson", ndjson),
    ("sse", sse),
    ("csv", csv),
    ("config", config),
    ("checkpoint", checkpoint),
];

/// Records at `data`, in small batches.
fn spec(data: Option<PointerBuf>, paged: bool) -> DecodeSpec {
    DecodeSpec {
        data,
        results: None,
        error: None,
        next: None,
        total: None,
        has_more: None,
        token: None,
        timestamp: None,
        identity: None,
        line_error: None,
        paged,
        hash_content: true,
        batch_rows: 3,
        schema: SchemaConfig {
            mode: SchemaMode::Infer,
            flatten_depth: 2,
            on_mismatch: OnMismatch::Null,
            rest_column: None,
            batch_rows: 3,
            explode: None,
        },
        declared: None,
        beside: None,
    }
}

/// Columns of these names, pointers and types; what does not fit is NULL.
fn schema(columns: &[(&str, &[&str], ColumnType)]) -> TableSchema {
    let columns = columns.iter().map(|(name, path, data_type)| Column {
        name: (*name).to_owned(),
        path: PointerBuf::from_tokens(path.iter().copied()),
        data_type: *data_type,
        format: None,
    });
    TableSchema { columns: columns.collect(), rest: None, parent: None, on_mismatch: OnMismatch::Null }
}

/// A boundary that watches nothing.
fn idle() -> Boundary {
    Boundary::new(BoundaryPolicy::default(), Seen::default())
}

/// An error unless it holds.
fn hold(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}
