//! The rows of a plan, batch by batch.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyAny;
use pyo3_arrow::{PyRecordBatch, PySchema};
use restmark::error::ErrorKind;
use restmark::rows::{Rows as Reading, Settings};
use restmark::{Error, Result};

use crate::errors::raised;
use crate::waiting::wait;

/// An iterator of `pyarrow.RecordBatch`; when it has ended, it has receipts.
#[pyclass(module = "restmark")]
pub(crate) struct Rows {
    /// `None` after `close`. One thread at a time reads: the lock is never waited for, and makes it fit to be shared.
    reading: Option<Mutex<Reading>>,
    /// As they were made: asked for again they are the same.
    receipts: Option<Vec<String>>,
}

/// How rows are handed on.
pub(crate) fn settings(batch_rows: usize, limit: Option<u64>) -> Result<Settings> {
    let refuse = || Error::new(ErrorKind::Scan, "batch_rows must be positive");
    let batch_rows = NonZeroUsize::new(batch_rows).ok_or_else(refuse)?;
    let parallel = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    Ok(Settings { batch_rows, parallel, limit })
}

impl Rows {
    pub(crate) fn new(reading: Reading) -> Self {
        Self { reading: Some(Mutex::new(reading)), receipts: None }
    }

    fn reading(&mut self) -> PyResult<&mut Reading> {
        let reading = self.reading.as_mut().ok_or_else(|| PyValueError::new_err("this read was closed"))?;
        Ok(reading.get_mut().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl Rows {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let batch = wait(py, self.reading()?.try_next())?;
        batch.map(|batch| PyRecordBatch::new(batch).into_pyarrow(py)).transpose()
    }

    #[getter]
    fn schema<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let schema = wait(py, self.reading()?.schema())?;
        PySchema::new(schema).into_pyarrow(py)
    }

    fn receipts(&mut self, py: Python<'_>) -> PyResult<Vec<String>> {
        if self.receipts.is_none() {
            let receipts = self.reading()?.receipts().map_err(|error| raised(py, &error))?;
            self.receipts = Some(receipts.into_iter().map(|(receipt, rows)| receipt.carry(rows)).collect());
        }
        Ok(self.receipts.clone().unwrap_or_default())
    }

    fn counts<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let counts = serde_json::to_string(&self.reading()?.counts());
        let counts = counts.map_err(|e| PyValueError::new_err(format!("the counts have no text: {e}")))?;
        py.import("json")?.getattr("loads")?.call1((counts,))
    }

    fn rows(&mut self) -> PyResult<u64> {
        Ok(self.reading()?.emitted())
    }

    fn close(&mut self) {
        self.reading = None;
    }
}
