//! One JSON record a line, as the bytes arrive: pages of up to `batch-rows` records.
//!
//! A streamed body has no envelope; with an `error-path`, every line may be the error. Lines end in LF or CRLF, blank
//! ones are nothing, the last one needs no end. Memory is one chunk, one line and one batch (R26).

use super::Page;
use super::decoder::{Rows, Setup, stopped, text_of};
use super::record::Place;
use super::scan::Scanner;
use super::spec::DecodeSpec;
use crate::error::{Error, ErrorKind, Result};
use crate::position::Boundary;
use crate::schema::TableSchema;
use crate::schema::explode::Layout;

/// While columns are to be inferred, lines are held back to this size.
const HELD_MAX: usize = 8 << 20;

/// Reads the lines of one body. `data-path` and `results-path` say nothing about it. After an error it is of no use.
#[derive(Debug)]
pub struct LineDecoder {
    setup: Setup,
    rows: Option<Rows>,
    /// Bytes that are not read yet; up to `complete` they are whole lines.
    buffer: Vec<u8>,
    complete: usize,
    /// The longest line.
    max_line: u64,
    /// Lines and bytes that were read.
    lines: u64,
    bytes: u64,
    /// The page at hand.
    received: u64,
}

impl LineDecoder {
    /// As [`Decoder::new`](super::Decoder::new); a line longer than `max_body_bytes` is an error.
    pub fn new(
        mut spec: DecodeSpec,
        schema: Option<TableSchema>,
        select: Option<Vec<String>>,
        max_body_bytes: u64,
    ) -> Result<Self> {
        spec.line_error = spec.error.take();
        let setup = Setup::new(spec, select, schema.is_none());
        let rows = schema.map(|schema| setup.rows(Layout::plain(schema))).transpose()?;
        let max_line = max_body_bytes;
        Ok(Self { setup, rows, buffer: Vec::new(), complete: 0, max_line, lines: 0, bytes: 0, received: 0 })
    }

    /// Another body begins, or the same one again: what is half read is forgotten, columns that are known stay.
    pub fn begin(&mut self) -> Result<()> {
        self.rows = self.rows.take().map(|rows| self.setup.rows(rows.into_full())).transpose()?;
        self.buffer.clear();
        (self.complete, self.lines, self.bytes, self.received) = (0, 0, 0, 0);
        Ok(())
    }

    /// The columns of the batches, once they are known.
    pub fn schema(&self) -> Option<&TableSchema> {
        self.rows.as_ref().map(Rows::schema)
    }

    /// Takes the next bytes of the body; yields the pages that are full.
    pub fn push(&mut self, chunk: &[u8], boundary: &mut Boundary) -> Result<Vec<Page>> {
        if self.bytes == 0 && self.buffer.is_empty() {
            boundary.begin_page();
        }
        if let Some(end) = chunk.iter().rposition(|byte| *byte == b'\n') {
            self.complete = self.buffer.len() + end + 1;
        }
        self.buffer.extend_from_slice(chunk);
        if (self.buffer.len() - self.complete) as u64 > self.max_line {
            return Err(self.too_long(self.lines + 1));
        }
        if self.complete == 0 || (self.rows.is_none() && !self.can_infer()) {
            return Ok(Vec::new());
        }
        self.read(self.complete, boundary)
    }

    /// The body has ended: the last line, and the page at hand.
    pub fn finish(&mut self, boundary: &mut Boundary) -> Result<Vec<Page>> {
        let mut pages = self.read(self.buffer.len(), boundary)?;
        pages.extend(self.flush()?);
        Ok(pages)
    }

    /// Ends the page at hand early, for a body that pauses.
    pub fn flush(&mut self) -> Result<Option<Page>> {
        if self.received == 0 {
            return Ok(None);
        }
        let Some(rows) = &mut self.rows else {
            // Records without a row: an exploded table whose arrays were all empty.
            return Ok(Some(Page { received: std::mem::take(&mut self.received), ..Page::default() }));
        };
        rows.decoder.end_batch()?;
        Ok(Some(page_of(rows, &mut self.received)))
    }

    fn can_infer(&self) -> bool {
        let lines = self.buffer.iter().take(self.complete).filter(|byte| **byte == b'\n').count();
        self.complete >= HELD_MAX || lines >= self.setup.spec.batch_rows
    }

    fn read(&mut self, length: usize, boundary: &mut Boundary) -> Result<Vec<Page>> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let pages = self.read_lines(buffer.get(..length).unwrap_or_default(), boundary);
        buffer.drain(..length.min(buffer.len()));
        self.buffer = buffer;
        self.complete = 0;
        self.bytes += length as u64;
        pages
    }

    fn read_lines(&mut self, block: &[u8], boundary: &mut Boundary) -> Result<Vec<Page>> {
        let mut text = text_of(block, self.bytes)?;
        if self.bytes == 0 {
            text = text.strip_prefix('\u{feff}').unwrap_or(text);
        }
        if self.rows.is_none() {
            let records: Vec<&str> = text.split('\n').map(str::trim_ascii).filter(|line| !line.is_empty()).collect();
            if !records.is_empty() {
                self.rows = self.setup.inferred_rows(&records)?;
            }
        }
        let mut pages = Vec::new();
        while !text.is_empty() {
            let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
            text = rest;
            self.lines += 1;
            if line.len() as u64 > self.max_line {
                return Err(self.too_long(self.lines));
            }
            let mut scanner = Scanner::new(line);
            if scanner.peek().is_none() {
                continue;
            }
            self.received += 1;
            let Some(rows) = &mut self.rows else {
                scanner.skip().and_then(|()| scanner.end()).map_err(|flaw| stopped(flaw.into(), line, &self.line()))?;
                continue;
            };
            rows.decoder
                .record(&mut scanner, Place::Line(self.lines), boundary)
                .and_then(|()| Ok(scanner.end()?))
                .map_err(|halt| stopped(halt, line, &format!("line {}", self.lines)))?;
            if rows.decoder.pending() == 0 {
                pages.push(page_of(rows, &mut self.received));
            }
        }
        Ok(pages)
    }

    fn line(&self) -> String {
        format!("line {}", self.lines)
    }

    fn too_long(&self, line: u64) -> Error {
        let said = format!("line {line} is longer than http.max-body-bytes ({} bytes)", self.max_line);
        Error::new(ErrorKind::Decode, said)
    }
}

fn page_of(rows: &mut Rows, received: &mut u64) -> Page {
    let mut page = Page { received: std::mem::take(received), ..Page::default() };
    rows.decoder.take_rows(&mut page);
    page
}
