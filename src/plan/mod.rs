//! What to read: pure values without clock, network or disk.

pub mod request;

pub use request::Request;

/// What a caller wants of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scan {
    pub(crate) table: String,
    pub(crate) select: Option<Vec<String>>,
    pub(crate) limit: Option<u64>,
    pub(crate) full: bool,
}

impl Scan {
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

    /// Ignores the stored position for this read; the commit still follows, and never lowers a position (R5).
    #[must_use]
    pub fn full(mut self) -> Self {
        self.full = true;
        self
    }
}

/// A frozen description of one read: serialisable, without secrets.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) partitions: Vec<Partition>,
}

impl Plan {
    /// The slices to read; every one must yield a receipt before the plan can be sealed.
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }
}

/// A slice that one task reads.
#[derive(Debug, Clone)]
pub struct Partition {}
