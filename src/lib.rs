//! REST APIs as tables, with a mark of how far they were read that you can trust.

#[doc(hidden)]
pub mod cli;
pub mod commit;
pub mod config;
pub mod counts;
pub mod decode;
pub mod error;
pub mod fetch;
pub mod filter;
pub mod plan;
pub mod position;
pub mod read;
pub mod run;
pub mod schema;
pub mod secret;
pub mod sink;
pub mod source;

pub use commit::Commit;
pub use error::{Error, ErrorKind, Problem, Result};
pub use plan::{Partition, Plan, Scan};
pub use read::{Event, Read, Receipt};
pub use source::Source;
