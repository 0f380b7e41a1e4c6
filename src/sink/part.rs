//! Which part of a run rows belong to.

use std::fmt;

use crate::plan::Plan;

/// A partition as the names of files tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The only one of a table that is not partitioned.
    All,
    /// Its place in the plan.
    Number(usize),
}

impl Part {
    /// The partition at this place of a plan.
    pub fn of(plan: &Plan, place: usize) -> Self {
        match plan.partitions() {
            [only] if only.id() == "all" => Self::All,
            _ => Self::Number(place),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Number(place) => write!(f, "{place:05}"),
        }
    }
}

/// A part that was finished; the sink that made its writer can publish it. `None` is one without a file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finished(pub(super) Option<Part>);
