//! The client against hostile servers on loopback, one module a promise.

mod auth;
mod bodies;
mod origins;
mod retries;
mod server;
