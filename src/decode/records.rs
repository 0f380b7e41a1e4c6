//! Records that come one by one become pages; columns are inferred from the first of them.

use super::Page;
use super::decoder::{Rows, Setup, stopped};
use super::record::Place;
use super::scan::Scanner;
use super::spec::DecodeSpec;
use crate::error::Result;
use crate::position::Boundary;
use crate::schema::TableSchema;
use crate::schema::explode::Layout;

/// While columns are to be inferred, records are held back to this size.
const HELD_MAX: usize = 8 << 20;

/// Makes pages of up to `batch-rows` records. After an error it is of no use until [`begin`](Self::begin).
#[derive(Debug)]
pub(super) struct Records {
    setup: Setup,
    rows: Option<Rows>,
    /// Records that wait for their columns, and the bytes of their texts.
    held: Vec<(Place, String)>,
    held_bytes: usize,
    /// Records of the page at hand.
    received: u64,
    pages: Vec<Page>,
}

impl Records {
    /// As [`Decoder::new`](super::Decoder::new); every record is a document that could be the error.
    pub(super) fn new(mut spec: DecodeSpec, schema: Option<TableSchema>, select: Option<Vec<String>>) -> Result<Self> {
        spec.line_error = spec.error.take();
        let setup = Setup::new(spec, select, schema.is_none());
        let rows = schema.map(|schema| setup.rows(Layout::plain(schema))).transpose()?;
        Ok(Self { setup, rows, held: Vec::new(), held_bytes: 0, received: 0, pages: Vec::new() })
    }

    /// Another body begins: what is half read is forgotten, columns that are known stay.
    pub(super) fn begin(&mut self) -> Result<()> {
        self.rows = self.rows.take().map(|rows| self.setup.rows(rows.into_full())).transpose()?;
        self.held.clear();
        self.pages.clear();
        (self.held_bytes, self.received) = (0, 0);
        Ok(())
    }

    /// The columns of the batches, once they are known.
    pub(super) fn schema(&self) -> Option<&TableSchema> {
        self.rows.as_ref().map(Rows::schema)
    }

    /// The next record, a JSON text of its own.
    pub(super) fn take(&mut self, place: Place, text: &str, boundary: &mut Boundary) -> Result<()> {
        if self.rows.is_some() {
            return self.read(place, text, boundary);
        }
        self.held_bytes += text.len();
        self.held.push((place, text.to_owned()));
        // What is inferred depends on records alone, never on the pieces they came in.
        if self.held.len() >= self.setup.spec.batch_rows || self.held_bytes >= HELD_MAX {
            self.release(boundary)?;
        }
        Ok(())
    }

    /// Ends the page at hand, for a body that ends or pauses.
    pub(super) fn flush(&mut self, boundary: &mut Boundary) -> Result<()> {
        self.release(boundary)?;
        if let Some(rows) = &mut self.rows {
            rows.decoder.end_batch()?;
        }
        if self.received > 0 {
            self.end_page();
        }
        Ok(())
    }

    /// The pages that are full.
    pub(super) fn pages(&mut self) -> Vec<Page> {
        std::mem::take(&mut self.pages)
    }

    fn release(&mut self, boundary: &mut Boundary) -> Result<()> {
        let held = std::mem::take(&mut self.held);
        self.held_bytes = 0;
        if self.rows.is_none() && !held.is_empty() {
            let texts: Vec<&str> = held.iter().map(|(_, text)| text.as_str()).collect();
            self.rows = self.setup.inferred_rows(&texts)?;
        }
        held.iter().try_for_each(|(place, text)| self.read(*place, text, boundary))
    }

    fn read(&mut self, place: Place, text: &str, boundary: &mut Boundary) -> Result<()> {
        self.received += 1;
        let mut scanner = Scanner::new(text);
        let Some(rows) = &mut self.rows else {
            // A record without a row: an exploded table whose arrays were all empty so far.
            let whole = scanner.skip().and_then(|()| scanner.end());
            return whole.map_err(|flaw| stopped(flaw.into(), text, &place.to_string()));
        };
        rows.decoder
            .record(&mut scanner, place, boundary)
            .and_then(|()| Ok(scanner.end()?))
            .map_err(|halt| stopped(halt, text, &place.to_string()))?;
        if rows.decoder.pending() == 0 {
            self.end_page();
        }
        Ok(())
    }

    fn end_page(&mut self) {
        let mut page = Page { received: std::mem::take(&mut self.received), ..Page::default() };
        if let Some(rows) = &mut self.rows {
            rows.decoder.take_rows(&mut page);
        }
        self.pages.push(page);
    }
}
