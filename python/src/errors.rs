//! An error of restmark's becomes the exception of its kind, see `_errors.py`.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use restmark::{Error, Problem};

/// The exception of an error: its one line, its kind, and the problems of a configuration.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    exception(py, error).unwrap_or_else(|failed| failed)
}

fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let class = py.import("restmark._errors")?.getattr(format!("{:?}Error", error.kind()))?;
    let problems = error.config_problems().iter().map(|problem| described(py, problem));
    let problems = problems.collect::<PyResult<Vec<_>>>()?;
    // Each problem on a line of its own: the one line of several only counts them.
    let said = match error.config_problems() {
        [] | [_] => error.to_string(),
        many => many.iter().fold(error.to_string(), |said, problem| format!("{said}\n  {problem}")),
    };
    Ok(PyErr::from_value(class.call1((said, problems, error.kind().is_retryable()))?))
}

fn described<'py>(py: Python<'py>, problem: &Problem) -> PyResult<Bound<'py, PyDict>> {
    let described = PyDict::new(py);
    described.set_item("key", &problem.key)?;
    described.set_item("message", &problem.message)?;
    described.set_item("file", problem.file.as_ref().map(|file| file.display().to_string()))?;
    described.set_item("line", problem.line)?;
    Ok(described)
}
