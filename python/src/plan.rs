//! A plan: a value that travels as text.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use restmark::filter::Predicate;

use crate::errors::raised;

/// What is read, frozen: its partitions, where it starts, what the API is asked for. It holds no secret.
#[pyclass(frozen, module = "restmark")]
pub(crate) struct Plan(pub(crate) restmark::Plan);

#[pymethods]
impl Plan {
    /// The plan of a text that `text()` gave.
    #[staticmethod]
    fn of(text: &str) -> PyResult<Self> {
        serde_json::from_str(text).map(Self).map_err(|e| PyValueError::new_err(format!("this is no plan: {e}")))
    }

    fn text(&self) -> PyResult<String> {
        serde_json::to_string(&self.0).map_err(|e| PyValueError::new_err(format!("the plan has no text: {e}")))
    }

    fn split(&self) -> Vec<Self> {
        self.0.split().into_iter().map(Self).collect()
    }

    /// Of the receipts of several reads of one partition, that of the read that reached least.
    #[allow(clippy::needless_pass_by_value, reason = "Python hands over a list")]
    fn least(&self, py: Python<'_>, receipts: Vec<String>) -> PyResult<String> {
        self.0.least(&receipts).map_err(|error| raised(py, &error))
    }

    #[getter]
    fn id(&self) -> &str {
        self.0.id()
    }

    #[getter]
    fn table(&self) -> &str {
        self.0.table()
    }

    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings().to_vec()
    }

    #[getter]
    fn partitions(&self) -> Vec<String> {
        self.0.partitions().iter().map(|partition| partition.id().to_owned()).collect()
    }

    #[getter]
    fn is_checkpointed(&self) -> bool {
        self.0.is_checkpointed()
    }

    #[getter]
    fn pushed(&self) -> Option<String> {
        let pushed = self.0.pushdown().sent.iter().map(|sent| sent.predicate.to_string());
        Some(pushed.collect::<Vec<_>>().join(" AND ")).filter(|text| !text.is_empty())
    }

    #[getter]
    fn residual(&self) -> Option<String> {
        self.0.residual().map(Predicate::to_string)
    }

    fn __repr__(&self) -> String {
        format!("Plan({:?}, {} partitions)", self.0.table(), self.0.partitions().len())
    }
}
