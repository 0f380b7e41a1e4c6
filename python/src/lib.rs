//! The native module of the Python package: restmark's own types in Python's words, without logic of their own.

mod errors;
mod plan;
mod rows;
mod source;
mod waiting;

/// `restmark._restmark`, typed in `_restmark.pyi`.
#[pyo3::pymodule]
mod _restmark {
    #[pymodule_export]
    use super::plan::Plan;
    #[pymodule_export]
    use super::rows::Rows;
    #[pymodule_export]
    use super::source::Source;
}
