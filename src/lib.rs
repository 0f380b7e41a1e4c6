//! REST APIs as tables, with a mark of how far they were read that you can trust.
//!
//! **Batches prove nothing; a receipt proves a partition; a commit proves a plan; only a commit moves a checkpoint.**
//!
//! ```text
//! Source ─ table ─► Scan ─ plan ─► Plan ─ partitions ─► Read ─► Batch*, Receipt
//!                                   │                              │
//!                                   └────────── seal(receipts) ◄───┘
//!                                                    │
//!                                                  Commit ─► checkpoints().commit ─► <table>.checkpoint.json
//! ```
//!
//! A [`Source`] is one API, described by a HOCON file. A [`Scan`] says what is wanted of one of its tables; a [`Plan`]
//! freezes it together with the checkpoint that was loaded; each [`Partition`] is read by a [`Read`], which yields
//! batches and, if and only if paging ended by itself, a [`Receipt`]. [`Plan::seal`] turns the receipts into a
//! [`Commit`]: the only thing a [`commit::CheckpointStore`] accepts. Dropping any of them does nothing.
//!
//! The rules, with their numbers and reasons, are in [`semantics`]; the rooms of the house, in the order in which data
//! flows, are the modules below: config, schema, plan, fetch, decode, paginate, read, commit, source.

#[doc(hidden)]
pub mod cli;
pub mod column;
pub mod commit;
pub mod config;
pub mod counts;
pub mod decode;
mod disk;
pub mod effect;
mod epoch;
pub mod error;
pub mod fetch;
pub mod filter;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod fuzz;
mod gather;
pub mod integrity;
pub mod openapi;
pub mod paginate;
pub mod plan;
pub mod position;
pub mod read;
pub mod receipts;
pub mod rows;
pub mod run;
pub mod schema;
pub mod secret;
pub mod sink;
pub mod source;
#[cfg(feature = "sql")]
pub mod sql;
pub mod storage;
pub mod stream;
mod text;
pub mod verify;

#[doc = include_str!("../docs/semantics.md")]
pub mod semantics {}

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
mod readme {}

pub use arrow_array::RecordBatch;

pub use commit::{CheckpointStore, Commit};
pub use counts::Counts;
pub use error::{Error, ErrorKind, Problem, Result};
pub use plan::{Partition, Plan, Scan};
pub use position::{Checkpoint, Mode, Position};
pub use read::{Event, Read, Receipt};
pub use schema::TableSchema;
pub use source::{Checkpoints, Source, Table};
