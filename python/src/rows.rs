//! The rows of a plan, batch by batch.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, TryLockError};

use arrow_schema::SchemaRef;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyAny;
use pyo3_arrow::{PyRecordBatch, PySchema};
use restmark::counts::{Counts, Meters};
use restmark::error::ErrorKind;
use restmark::rows::{Rows as Reading, Settings};
use restmark::{Error, Result};

use crate::errors::raised;
use crate::waiting::{Process, wait};

/// An iterator of `pyarrow.RecordBatch`; when it has ended, it has receipts.
#[pyclass(frozen, module = "restmark")]
pub(crate) struct Rows {
    /// `None` after `close`. One thread at a time reads; others may look at the figures meanwhile.
    reading: Mutex<Option<Reading>>,
    /// As they were made: asked for again they are the same.
    receipts: OnceLock<Vec<String>>,
    schema: OnceLock<SchemaRef>,
    meters: Arc<Meters>,
    /// Rows that were handed out.
    emitted: AtomicU64,
    process: Process,
}

/// How rows are handed on; both numbers as Python gives them.
pub(crate) fn settings(batch_rows: i64, limit: Option<i64>) -> Result<Settings> {
    let refuse = |what: &str| Error::new(ErrorKind::Scan, what);
    let batch_rows = usize::try_from(batch_rows).ok().and_then(NonZeroUsize::new);
    let batch_rows = batch_rows.ok_or_else(|| refuse("batch_rows must be positive"))?;
    let limit = limit.map(u64::try_from).transpose().map_err(|_| refuse("limit must not be negative"))?;
    let parallel = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    Ok(Settings { batch_rows, parallel, limit })
}

impl Rows {
    pub(crate) fn new(reading: Reading) -> Self {
        Self {
            meters: Arc::clone(reading.meters()),
            reading: Mutex::new(Some(reading)),
            receipts: OnceLock::new(),
            schema: OnceLock::new(),
            emitted: AtomicU64::new(0),
            process: Process::this(),
        }
    }

    /// Does something with the read, unless another thread is at it.
    fn with<T>(&self, work: impl FnOnce(&mut Reading) -> PyResult<T>) -> PyResult<T> {
        self.process.check()?;
        let mut held = match self.reading.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(PyRuntimeError::new_err("another thread is reading this")),
        };
        work(held.as_mut().ok_or_else(|| PyValueError::new_err("this read was closed"))?)
    }
}

#[pymethods]
impl Rows {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(batch) = self.with(|reading| wait(py, reading.try_next()))? else { return Ok(None) };
        self.emitted.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        PyRecordBatch::new(batch).into_pyarrow(py).map(Some)
    }

    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let schema = if let Some(schema) = self.schema.get() {
            schema
        } else {
            let found = self.with(|reading| wait(py, reading.schema()))?;
            self.schema.get_or_init(|| found)
        };
        PySchema::new(Arc::clone(schema)).into_pyarrow(py)
    }

    fn receipts(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        if self.receipts.get().is_none() {
            let made = self.with(|reading| reading.receipts().map_err(|error| raised(py, &error)))?;
            let _ = self.receipts.set(made.into_iter().map(|(receipt, rows)| receipt.carry(rows)).collect());
        }
        Ok(self.receipts.get().cloned().unwrap_or_default())
    }

    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let counts = serde_json::to_string(&Counts { rows_emitted: self.rows(), ..self.meters.counts() });
        let counts = counts.map_err(|e| PyValueError::new_err(format!("the counts have no text: {e}")))?;
        py.import("json")?.getattr("loads")?.call1((counts,))
    }

    fn rows(&self) -> u64 {
        self.emitted.load(Ordering::Relaxed)
    }

    fn close(&self) {
        // One that is being read ends with its reader.
        if let Ok(mut held) = self.reading.try_lock() {
            *held = None;
        }
    }
}
