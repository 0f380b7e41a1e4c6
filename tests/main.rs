//! Everything that is tested from outside, in one binary; a module for each promise.
//!
//! `support` drives the binary, scripts an API and starts the real servers that `scripts/setup` installs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod apart;
mod bodies;
mod children;
mod cli;
mod crash;
#[cfg(feature = "delta")]
mod delta;
mod epochs;
mod explode;
mod fuzz;
mod gate;
mod kill;
mod large;
mod ledgers;
mod openapi;
mod output;
mod outputs;
mod partitions;
mod pushdown;
mod readers;
mod real;
mod real_filters;
mod real_partitions;
mod real_streams;
mod shelf;
mod sinks;
#[cfg(feature = "sql")]
mod sql;
mod stores;
mod streams;
mod support;
mod tidy;
mod verify;
