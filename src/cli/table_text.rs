//! Batches as an aligned text table, cells as NDJSON writes them.

use arrow_array::RecordBatch;

use crate::error::{Error, ErrorKind, Result};
use crate::sink::as_texts;

pub(super) fn render(batches: &[RecordBatch]) -> Result<String> {
    let texts = batches.iter().map(as_texts).collect::<Result<Vec<_>>>()?;
    arrow_cast::pretty::pretty_format_batches(&texts)
        .map(|table| table.to_string())
        .map_err(|error| Error::new(ErrorKind::Bug, format!("the rows could not be shown: {error}")))
}
