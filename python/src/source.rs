//! One API: its tables, their plans, and the positions that a commit moves.

use std::sync::Arc;

use chrono::{SecondsFormat, Utc};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};
use pyo3_arrow::PySchema;
use restmark::column::Column;
use restmark::config::SchemaMode;
use restmark::error::ErrorKind;
use restmark::filter::Predicate;
use restmark::position::{Instant, Position, TimestampFormat, Window};
use restmark::receipts::{Left, Receipts};
use restmark::source::Origin;
use restmark::{Error, Result, Scan, stream};

use crate::errors::raised;
use crate::plan::Plan;
use crate::rows::{Rows, settings};
use crate::waiting::{Process, wait};

/// One API, ready to be read.
#[pyclass(frozen, module = "restmark")]
pub(crate) struct Source {
    inner: Arc<restmark::Source>,
    /// The file; `None` of a text that has travelled.
    origin: Option<Origin>,
    process: Process,
}

#[pymethods]
impl Source {
    #[staticmethod]
    fn open(py: Python<'_>, path: &str) -> PyResult<Self> {
        let (source, origin) = wait(py, async {
            let origin = Origin::read(path).await?;
            Ok((origin.open()?, origin))
        })?;
        Ok(Self { inner: Arc::new(source), origin: Some(origin), process: Process::this() })
    }

    #[staticmethod]
    fn load(py: Python<'_>, text: &str, name: &str) -> PyResult<Self> {
        let source = Origin::arrived(name, text).map_err(|error| raised(py, &error))?;
        Ok(Self { inner: Arc::new(source), origin: None, process: Process::this() })
    }

    fn travelling(&self, py: Python<'_>) -> PyResult<String> {
        let origin = self.origin.as_ref().ok_or_else(|| PyValueError::new_err("this source has travelled already"))?;
        origin.travelling().map_err(|error| raised(py, &error))
    }

    fn tables(&self) -> Vec<String> {
        self.inner.config().tables.iter().map(|table| table.name.clone()).collect()
    }

    fn warnings(&self) -> Vec<String> {
        self.inner.config().warnings.iter().map(ToString::to_string).collect()
    }

    fn is_checkpointed(&self, py: Python<'_>, table: &str) -> PyResult<bool> {
        let table = self.inner.table(table).map_err(|error| raised(py, &error))?;
        Ok(table.config().checkpoint.is_some())
    }

    #[pyo3(signature = (table, columns = None))]
    fn schema<'py>(&self, py: Python<'py>, table: &str, columns: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
        self.process.check()?;
        let columns = columns.map(columns_of).transpose()?;
        let schema = wait(py, async {
            match columns {
                // A plan apart asks nobody: its columns are known.
                Some(columns) => {
                    let plan = self.inner.plan(self.inner.table(table)?.scan().apart().shaped(columns)).await?;
                    self.reading(plan, 1, None)?.schema().await
                }
                None => Ok(self.inner.shape(table).await?.schema),
            }
        })?;
        PySchema::new(schema).into_pyarrow(py)
    }

    fn columns(&self, py: Python<'_>, table: &str) -> PyResult<Option<String>> {
        self.process.check()?;
        let found = wait(py, async {
            let config = self.inner.table(table)?.config();
            let is_asked = config.is_from_spec || config.schema.mode == SchemaMode::Infer;
            Ok(if is_asked { Some(self.inner.shape(table).await?.table.columns) } else { None })
        })?;
        // An exploded table has columns of two kinds of records, which do not travel.
        let found = found.filter(|columns| !columns.is_empty()).map(|columns| serde_json::to_string(&columns));
        found.transpose().map_err(|e| PyValueError::new_err(format!("the columns have no text: {e}")))
    }

    fn position<'py>(&self, py: Python<'py>, table: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.process.check()?;
        let checkpoint = wait(py, self.inner.checkpoints().load(table))?;
        checkpoint.map(|checkpoint| described(py, &checkpoint.position)).transpose()
    }

    #[pyo3(signature = (
        table, *, select = None, r#where = None, limit = None, full = false, distributed = false, columns = None, window = None,
    ))]
    #[allow(clippy::too_many_arguments, reason = "they have names in Python")]
    fn plan(
        &self,
        py: Python<'_>,
        table: &str,
        select: Option<Vec<String>>,
        r#where: Option<&str>,
        limit: Option<i64>,
        full: bool,
        distributed: bool,
        columns: Option<&str>,
        window: Option<(Option<String>, String)>,
    ) -> PyResult<Plan> {
        self.process.check()?;
        let columns = columns.map(columns_of).transpose()?;
        let plan = wait(py, async {
            let mut scan = self.inner.table(table)?.scan();
            if let Some(text) = r#where {
                scan = scan.filter(Predicate::parse(text)?);
            }
            scan = select.into_iter().fold(scan, Scan::select);
            scan = settings(1, limit)?.limit.into_iter().fold(scan, Scan::limit);
            scan = columns.into_iter().fold(scan, Scan::shaped);
            if let Some((start, end)) = window {
                let window = Window { start: start.as_deref().map(second).transpose()?, end: second(&end)? };
                scan = scan.batch(restmark::plan::Batch { window, watermark: None });
            }
            scan = if full { scan.full() } else { scan };
            self.inner.plan(if distributed { scan.distributed() } else { scan }).await
        })?;
        Ok(Plan(plan))
    }

    #[pyo3(signature = (plan, batch_rows = 10_000, limit = None))]
    fn read(&self, py: Python<'_>, plan: &Plan, batch_rows: i64, limit: Option<i64>) -> PyResult<Rows> {
        self.process.check()?;
        self.reading(plan.0.clone(), batch_rows, limit).map(Rows::new).map_err(|error| raised(py, &error))
    }

    #[allow(clippy::needless_pass_by_value, reason = "Python hands over a list")]
    fn commit<'py>(&self, py: Python<'py>, plan: &Plan, receipts: Vec<String>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.process.check()?;
        let position = wait(py, async {
            let receipts = receipts.iter().map(|text| plan.0.receive(text)).collect::<Result<_>>()?;
            let commit = plan.0.seal(receipts)?;
            self.inner.checkpoints().commit(&commit).await?;
            Ok(commit.position().cloned())
        })?;
        position.map(|position| described(py, &position)).transpose()
    }

    fn leave_receipts(&self, py: Python<'_>, plan: &Plan, attempt: String, receipts: Vec<String>) -> PyResult<()> {
        self.process.check()?;
        wait(py, async { Receipts::of(&self.inner, &plan.0)?.leave(&Left { attempt, receipts }).await })
    }

    fn receipts(&self, py: Python<'_>, plan: &Plan) -> PyResult<Vec<(String, String)>> {
        self.process.check()?;
        let all = wait(py, async { Receipts::of(&self.inner, &plan.0)?.all().await })?;
        let each = |left: Left| left.receipts.into_iter().map(move |receipt| (left.attempt.clone(), receipt));
        Ok(all.into_iter().flat_map(each).collect())
    }

    fn forget_receipts(&self, py: Python<'_>, plan: &Plan) -> PyResult<()> {
        self.process.check()?;
        wait(py, async { Receipts::of(&self.inner, &plan.0)?.forget(Utc::now()).await })
    }

    fn check_stream(&self, py: Python<'_>, table: &str) -> PyResult<()> {
        self.lag(table).map(drop).map_err(|error| raised(py, &error))
    }

    fn horizon(&self, py: Python<'_>, table: &str) -> PyResult<String> {
        let at = self.lag(table).and_then(|lag| stream::horizon(Utc::now(), lag));
        at.map(|at| at.to_rfc3339_opts(SecondsFormat::Secs, true)).map_err(|error| raised(py, &error))
    }

    fn __repr__(&self) -> String {
        format!("Source({:?})", self.inner.config().file.display().to_string())
    }
}

impl Source {
    fn reading(&self, plan: restmark::Plan, batch_rows: i64, limit: Option<i64>) -> Result<restmark::rows::Rows> {
        let settings = settings(batch_rows, limit)?;
        restmark::rows::Rows::new(Arc::clone(&self.inner), plan, settings)
    }

    fn lag(&self, table: &str) -> Result<std::time::Duration> {
        stream::lag_of(self.inner.table(table)?.config())
    }
}

/// The columns of a text that `columns` gave.
fn columns_of(text: &str) -> PyResult<Vec<Column>> {
    serde_json::from_str(text).map_err(|e| PyValueError::new_err(format!("these are no columns: {e}")))
}

/// An end of a window.
fn second(text: &str) -> Result<Instant> {
    TimestampFormat::Rfc3339
        .parse(text)
        .filter(|at| at.timestamp_subsec_nanos() == 0)
        .ok_or_else(|| Error::new(ErrorKind::Scan, format!("{text:?} is no whole second as 2026-01-02T03:04:05Z")))
}

fn described<'py>(py: Python<'py>, position: &Position) -> PyResult<Bound<'py, PyDict>> {
    let described = PyDict::new(py);
    described.set_item("type", position.mode().to_string())?;
    match position {
        Position::Offset(offset) => described.set_item("value", offset)?,
        other => described.set_item("value", other.text())?,
    }
    Ok(described)
}
