//! One response becomes one page: batches, raw count, envelope values, positions.
//!
//! A body is read in one pass: the envelope is walked, and where the record array stands the records go value by
//! value from their own text into Arrow builders. See [`Decoder`] for whole documents and
//! [`StreamDecoder`] for streamed records.

mod cell;
mod columns;
mod csv;
mod csv_frame;
mod csv_row;
mod decoder;
mod envelope;
mod explode;
mod exploded;
mod json;
mod large;
mod ndjson;
mod number;
mod record;
mod records;
mod repeated;
mod scan;
mod spec;
mod split;
mod sse;
mod sse_frame;
mod stream;
mod utf8;
mod value;

use arrow_array::RecordBatch;

use crate::counts::Counts;
use crate::error::Result;

pub(crate) use cell::whole_number;
pub use decoder::Decoder;
pub use exploded::Exploded;
pub use number::number_at;
pub use spec::DecodeSpec;
pub use stream::StreamDecoder;

/// A scalar of the envelope, as the paginator reads it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Scalar {
    /// The pointer meets nothing, or null.
    #[default]
    Absent,
    /// A JSON string.
    Text(String),
    /// A JSON number, in its own digits.
    Number(String),
    /// A JSON boolean.
    Bool(bool),
    /// An object or array: its first characters.
    Structure(String),
}

/// What the envelope of a page says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Envelope {
    /// The next cursor or URL.
    pub next: Scalar,
    /// The declared total.
    pub total: Scalar,
    /// The flag that more is to come.
    pub has_more: Scalar,
    /// The token for the next read.
    pub token: Scalar,
}

/// One decoded page.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The rows, at most `batch-rows` each; none for an empty page.
    pub batches: Vec<RecordBatch>,
    /// The rows of an exploded table, instead of `batches`.
    pub exploded: Exploded,
    /// Raw records received (at `results-path`), before any drop.
    pub received: u64,
    /// A hash of the raw record array: two pages with the same records have the same (R15). 0 where it was not asked
    /// for ([`DecodeSpec::hash_content`]) and for an empty body.
    pub content: u128,
    /// What the envelope says.
    pub envelope: Envelope,
    /// What happened to values: `converted`, `nulled`, `duplicate_keys`, `undeclared`. The other counts are the
    /// reader's and the boundary's.
    pub counts: Counts,
}

impl Page {
    /// The rows in its batches.
    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum::<usize>() + self.exploded.rows()
    }

    /// Takes the batches, one after the other.
    pub fn take_batches(&mut self) -> impl Iterator<Item = Result<RecordBatch>> + Send + use<> {
        let (batches, exploded) = (std::mem::take(&mut self.batches), std::mem::take(&mut self.exploded));
        batches.into_iter().map(Ok).chain(exploded)
    }
}

#[cfg(test)]
mod tests;
