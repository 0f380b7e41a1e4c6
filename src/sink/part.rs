//! Which part of a run rows belong to, and what a sink says of it when it is whole.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::plan::Plan;

/// A partition as the names of files tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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

/// A part that is whole and durable where it is staged: a value that any process can publish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// Which.
    pub part: Part,
    /// Rows in it.
    pub rows: u64,
    /// The checksum of its batches, taken by the sink where it let go of them ([`crate::integrity`]).
    pub content: u32,
    /// The file that holds it; `None` where it has no rows, or is no file.
    pub file: Option<StagedFile>,
}

/// A file that waits for its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedFile {
    /// Its hidden name.
    pub staged: String,
    /// The name it is published under.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The CRC-32C of its bytes.
    pub crc: u32,
}
