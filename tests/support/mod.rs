//! What the tests stand on.

pub(crate) mod api;
pub(crate) mod clocked;
pub(crate) mod files;
pub(crate) mod hdfs;
pub(crate) mod http;
pub(crate) mod place;
pub(crate) mod process;
pub(crate) mod proxy;
pub(crate) mod run;
pub(crate) mod servers;
pub(crate) mod stores;

pub(crate) use api::{Api, Reply, Route, Trap, get};
pub(crate) use place::{Mark, Place};
pub(crate) use run::{Output, Run, Stdout};

use std::time::{Duration, Instant};

/// How long anything may take that should happen at once, on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Asks again and again, for a bounded time, until there is an answer.
pub(crate) fn wait_for<T>(what: &str, limit: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
