//! One JSON record an event of an event stream, as the bytes arrive.
//!
//! Data is what a line is in NDJSON: an object is a record, blank data is nothing, anything else is an error. `[DONE]`,
//! with which some APIs end their streams, is skipped. An event named `error` is the API's error (R16). A body that
//! ends is a page: nobody reconnects here, and an `id` is no position. Memory is one chunk, one event, one batch (R26).

use super::Page;
use super::json::said;
use super::record::Place;
use super::records::Records;
use super::spec::DecodeSpec;
use super::sse_frame::{Event, EventFramer};
use super::utf8::Utf8;
use crate::error::{Error, ErrorKind, Result};
use crate::position::Boundary;
use crate::schema::TableSchema;

/// What some APIs send after the last record, instead of JSON.
const SENTINEL: &str = "[DONE]";

/// Reads the events of one body.
#[derive(Debug)]
pub(super) struct EventDecoder {
    records: Records,
    utf8: Utf8,
    framer: EventFramer,
    begun: bool,
}

impl EventDecoder {
    pub(super) fn new(
        spec: DecodeSpec,
        schema: Option<TableSchema>,
        select: Option<Vec<String>>,
        max_body_bytes: u64,
    ) -> Result<Self> {
        let records = Records::new(spec, schema, select)?;
        Ok(Self { records, utf8: Utf8::default(), framer: EventFramer::new(max_body_bytes), begun: false })
    }

    pub(super) fn begin(&mut self) -> Result<()> {
        self.records.begin()?;
        self.utf8 = Utf8::default();
        self.framer.begin();
        self.begun = false;
        Ok(())
    }

    pub(super) fn schema(&self) -> Option<&TableSchema> {
        self.records.schema()
    }

    pub(super) fn push(&mut self, chunk: &[u8], boundary: &mut Boundary) -> Result<Vec<Page>> {
        if !std::mem::replace(&mut self.begun, true) {
            boundary.begin_page();
        }
        let Self { records, utf8, framer, .. } = self;
        utf8.push(chunk, |text| framer.push(text, |event| take(records, event, boundary)))?;
        Ok(records.pages())
    }

    pub(super) fn finish(&mut self, boundary: &mut Boundary) -> Result<Vec<Page>> {
        self.utf8.finish()?;
        // After the sentinel nothing is missing, not even its blank line.
        if self.framer.open_data() != Some(SENTINEL) {
            self.framer.finish()?;
        }
        self.flush(boundary)
    }

    pub(super) fn flush(&mut self, boundary: &mut Boundary) -> Result<Vec<Page>> {
        self.records.flush(boundary)?;
        Ok(self.records.pages())
    }
}

fn take(records: &mut Records, event: Event<'_>, boundary: &mut Boundary) -> Result<()> {
    let place = Place::Event(event.line);
    if event.name == "error" {
        return Err(Error::new(ErrorKind::Http, format!("{place}: the API says: {}", said(event.data))));
    }
    if event.data == SENTINEL || event.data.trim_matches([' ', '\t', '\n', '\r']).is_empty() {
        return Ok(());
    }
    records.take(place, event.data, boundary)
}
