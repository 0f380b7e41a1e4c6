//! A streamed body becomes pages as its bytes arrive, whichever way its records are written.

use super::Page;
use super::csv::CsvDecoder;
use super::ndjson::LineDecoder;
use super::record::Place;
use super::spec::DecodeSpec;
use super::sse::EventDecoder;
use crate::config::ResponseFormat;
use crate::error::{Error, ErrorKind, Result};
use crate::position::Boundary;
use crate::schema::TableSchema;

/// Reads the streamed bodies of one partition, in order. `data-path` and `results-path` say nothing about them. After
/// an error it is of no use until another body begins.
#[derive(Debug)]
pub struct StreamDecoder(Form);

/// How records are written.
#[derive(Debug)]
enum Form {
    Lines(LineDecoder),
    Events(EventDecoder),
    Cells(CsvDecoder),
}

/// Does the same with whichever form it is.
macro_rules! each {
    ($form:expr, $decoder:ident => $do:expr) => {
        match $form {
            Form::Lines($decoder) => $do,
            Form::Events($decoder) => $do,
            Form::Cells($decoder) => $do,
        }
    };
}

impl StreamDecoder {
    /// As [`Decoder::new`](super::Decoder::new), for bodies of `format`; `None` where that is no streamed one. A line,
    /// an event or a CSV record longer than `max_body_bytes` is an error.
    pub fn new(
        format: ResponseFormat,
        spec: DecodeSpec,
        schema: Option<TableSchema>,
        select: Option<Vec<String>>,
        max_body_bytes: u64,
    ) -> Result<Option<Self>> {
        let form = match format {
            ResponseFormat::Json => return Ok(None),
            ResponseFormat::Ndjson => Form::Lines(LineDecoder::new(spec, schema, select, max_body_bytes)?),
            ResponseFormat::Sse => Form::Events(EventDecoder::new(spec, schema, select, max_body_bytes)?),
            ResponseFormat::Csv => Form::Cells(CsvDecoder::new(spec, schema, select, max_body_bytes)?),
        };
        Ok(Some(Self(form)))
    }

    /// Another body begins, or the same one again: what is half read is forgotten, columns that are known stay.
    pub fn begin(&mut self) -> Result<()> {
        match &mut self.0 {
            Form::Lines(decoder) => decoder.begin(),
            Form::Events(decoder) => decoder.begin(),
            Form::Cells(decoder) => {
                decoder.begin();
                Ok(())
            }
        }
    }

    /// The columns of the batches, once they are known.
    pub fn schema(&self) -> Option<&TableSchema> {
        each!(&self.0, decoder => decoder.schema())
    }

    /// Takes the next bytes of the body; yields the pages that are full.
    pub fn push(&mut self, chunk: &[u8], boundary: &mut Boundary) -> Result<Vec<Page>> {
        each!(&mut self.0, decoder => decoder.push(chunk, boundary))
    }

    /// The body has ended: what is left of it, and the page at hand.
    pub fn finish(&mut self, boundary: &mut Boundary) -> Result<Vec<Page>> {
        each!(&mut self.0, decoder => decoder.finish(boundary))
    }

    /// Ends the page at hand early, for a body that pauses.
    pub fn flush(&mut self, boundary: &mut Boundary) -> Result<Vec<Page>> {
        match &mut self.0 {
            Form::Lines(decoder) => decoder.flush(boundary),
            Form::Events(decoder) => decoder.flush(boundary),
            Form::Cells(decoder) => decoder.flush(),
        }
    }
}

/// A record that would take more memory than is allowed (R26).
pub(super) fn too_long(place: Place, max: u64) -> Error {
    Error::new(ErrorKind::Decode, format!("{place} is longer than http.max-body-bytes ({max} bytes)"))
}
