//! Waits for what is asynchronous: without the GIL, and not beyond a Ctrl-C.

use std::pin::pin;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::{PyResult, Python};
use tokio::runtime::Runtime;

use crate::errors::raised;

/// How often Python is asked whether a signal came.
const SIGNALS: Duration = Duration::from_millis(50);

/// The process that something was made in: after a fork its connections and threads are the parent's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn this() -> Self {
        Self(process::id())
    }

    /// Whether it is this one.
    pub(crate) fn check(self) -> PyResult<()> {
        if self.0 == process::id() {
            return Ok(());
        }
        Err(PyRuntimeError::new_err("this belongs to the process that was forked: open the configuration again here"))
    }
}

/// The runtime of this process: a fork has no threads of its parent's.
static RUNTIME: Mutex<Option<(u32, Arc<Runtime>)>> = Mutex::new(None);

fn runtime() -> PyResult<Arc<Runtime>> {
    let mut held = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    match &*held {
        Some((process, runtime)) if *process == process::id() => Ok(Arc::clone(runtime)),
        _ => {
            let made = tokio::runtime::Builder::new_multi_thread().enable_all().build();
            let made = made.map_err(|e| PyRuntimeError::new_err(format!("no threads to read with: {e}")))?;
            let runtime = Arc::new(made);
            // Its threads are the parent's: nothing of it may be awaited or dropped here.
            std::mem::forget(held.replace((process::id(), Arc::clone(&runtime))));
            Ok(runtime)
        }
    }
}

/// The outcome of some work of restmark's.
///
/// # Errors
/// The exception of its kind; `KeyboardInterrupt` where one came first: the work is then dropped.
pub(crate) fn wait<T: Send>(py: Python<'_>, work: impl Future<Output = restmark::Result<T>> + Send) -> PyResult<T> {
    let runtime = runtime()?;
    let mut work = pin!(work);
    loop {
        let done = py.detach(|| runtime.block_on(async { tokio::time::timeout(SIGNALS, &mut work).await }));
        match done {
            Ok(outcome) => return outcome.map_err(|error| raised(py, &error)),
            Err(_) => py.check_signals()?,
        }
    }
}
