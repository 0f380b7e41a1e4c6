//! One JSON record a line, as the bytes arrive: pages of up to `batch-rows` records.
//!
//! A streamed body has no envelope; with an `error-path`, every line may be the error. Lines end in LF or CRLF, blank
//! ones are nothing, the last one needs no end. Memory is one chunk, one line and one batch (R26).

use super::Page;
use super::decoder::text_of;
use super::record::Place;
use super::records::Records;
use super::spec::DecodeSpec;
use super::stream::too_long;
use crate::error::Result;
use crate::position::Boundary;
use crate::schema::TableSchema;

/// Reads the lines of one body. `data-path` and `results-path` say nothing about it. After an error it is of no use.
#[derive(Debug)]
pub(super) struct LineDecoder {
    records: Records,
    /// Bytes that are not read yet.
    buffer: Vec<u8>,
    /// The longest line.
    max_line: u64,
    /// Lines and bytes that were read.
    lines: u64,
    bytes: u64,
}

impl LineDecoder {
    /// As [`Decoder::new`](super::Decoder::new); a line longer than `max_body_bytes` is an error.
    pub(super) fn new(
        spec: DecodeSpec,
        schema: Option<TableSchema>,
        select: Option<Vec<String>>,
        max_body_bytes: u64,
    ) -> Result<Self> {
        let records = Records::new(spec, schema, select)?;
        Ok(Self { records, buffer: Vec::new(), max_line: max_body_bytes, lines: 0, bytes: 0 })
    }

    /// Another body begins, or the same one again: what is half read is forgotten, columns that are known stay.
    pub(super) fn begin(&mut self) -> Result<()> {
        self.records.begin()?;
        self.buffer.clear();
        (self.lines, self.bytes) = (0, 0);
        Ok(())
    }

    /// The columns of the batches, once they are known.
    pub(super) fn schema(&self) -> Option<&TableSchema> {
        self.records.schema()
    }

    /// Takes the next bytes of the body; yields the pages that are full.
    pub(super) fn push(&mut self, chunk: &[u8], boundary: &mut Boundary) -> Result<Vec<Page>> {
        if self.bytes == 0 && self.buffer.is_empty() {
            boundary.begin_page();
        }
        let end = chunk.iter().rposition(|byte| *byte == b'\n').map(|end| self.buffer.len() + end + 1);
        self.buffer.extend_from_slice(chunk);
        let complete = end.unwrap_or(0);
        if complete > 0 {
            self.read(complete, boundary)?;
        }
        if self.buffer.len() as u64 > self.max_line {
            return Err(too_long(Place::Line(self.lines + 1), self.max_line));
        }
        Ok(self.records.pages())
    }

    /// The body has ended: the last line, and the page at hand.
    pub(super) fn finish(&mut self, boundary: &mut Boundary) -> Result<Vec<Page>> {
        self.read(self.buffer.len(), boundary)?;
        self.flush(boundary)
    }

    /// Ends the page at hand early, for a body that pauses.
    pub(super) fn flush(&mut self, boundary: &mut Boundary) -> Result<Vec<Page>> {
        self.records.flush(boundary)?;
        Ok(self.records.pages())
    }

    fn read(&mut self, length: usize, boundary: &mut Boundary) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.read_lines(buffer.get(..length).unwrap_or_default(), boundary)?;
        buffer.drain(..length.min(buffer.len()));
        self.buffer = buffer;
        self.bytes += length as u64;
        Ok(())
    }

    fn read_lines(&mut self, block: &[u8], boundary: &mut Boundary) -> Result<()> {
        let mut text = text_of(block, self.bytes)?;
        if self.bytes == 0 {
            text = text.strip_prefix('\u{feff}').unwrap_or(text);
        }
        while !text.is_empty() {
            let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
            text = rest;
            self.lines += 1;
            if line.len() as u64 > self.max_line {
                return Err(too_long(Place::Line(self.lines), self.max_line));
            }
            if !line.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
                self.records.take(Place::Line(self.lines), line, boundary)?;
            }
        }
        Ok(())
    }
}
