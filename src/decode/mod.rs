//! One response becomes one page: batches, raw count, envelope values, positions.

mod scan;
mod value;

use arrow_array::RecordBatch;

use crate::counts::Counts;

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
    /// Raw records received (at `results-path`), before any drop.
    pub received: u64,
    /// A hash of the raw record array: two pages with the same records have the same (R15).
    pub content: Option<u128>,
    /// What the envelope says.
    pub envelope: Envelope,
    /// What was converted, nulled and dropped on this page.
    pub counts: Counts,
}

impl Page {
    /// stub
    pub fn absorb(&mut self, page: Page) -> Vec<RecordBatch> {
        page.batches
    }
}
/// stub
pub struct Decoder;
/// stub
pub struct Lines;
impl Decoder {
    /// stub
    pub fn new(_t: &crate::config::TableConfig, _m: u64, _s: Option<Vec<String>>) -> crate::Result<Self> {
        Ok(Self)
    }
    /// stub
    pub fn page(&mut self, _s: u16, _b: &[u8], _y: &mut crate::position::Boundary) -> crate::Result<Page> {
        Ok(Page::default())
    }
    /// stub
    pub fn lines(&self) -> Lines {
        Lines
    }
    /// stub
    pub fn feed(
        &mut self,
        _l: &mut Lines,
        _c: Option<&[u8]>,
        _b: &mut crate::position::Boundary,
    ) -> crate::Result<Vec<Page>> {
        Ok(vec![])
    }
}
