//! Batches as an aligned text table.

use arrow_array::RecordBatch;

use crate::error::{Error, ErrorKind, Result};

pub(super) fn render(batches: &[RecordBatch]) -> Result<String> {
    let options = arrow_cast::display::FormatOptions::default();
    arrow_cast::pretty::pretty_format_batches_with_options(batches, &options)
        .map(|table| table.to_string())
        .map_err(|error| Error::new(ErrorKind::Bug, format!("the rows could not be shown: {error}")))
}
