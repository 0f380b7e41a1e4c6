//! A CSV body, as its bytes arrive: a header row, then pages of up to `batch-rows` records.
//!
//! The header says which cell is which: a column's path `/name` is the cell under `name`. Where columns are inferred,
//! all of them are strings. Memory is one chunk, one record and one batch (R26).

use std::collections::HashSet;

use super::Page;
use super::csv_frame::{Row, RowFramer};
use super::csv_row::{self, RowWriter, name_of};
use super::decoder::project;
use super::record::cut;
use super::spec::DecodeSpec;
use super::utf8::Utf8;
use crate::config::SchemaMode;
use crate::error::{Error, ErrorKind, Result};
use crate::position::Boundary;
use crate::schema::{TableSchema, infer};

/// Reads the records of one body.
#[derive(Debug)]
pub(super) struct CsvDecoder {
    utf8: Utf8,
    framer: RowFramer,
    begun: bool,
    table: Table,
}

/// What records are read into.
#[derive(Debug)]
struct Table {
    spec: DecodeSpec,
    select: Option<Vec<String>>,
    inferred: bool,
    /// The columns before and after projection, once they are known.
    schemas: Option<(TableSchema, TableSchema)>,
    /// Of the body at hand, once its header is read.
    writer: Option<RowWriter>,
    received: u64,
    pages: Vec<Page>,
    /// What was said of headers: the same is not said of every page.
    said: HashSet<String>,
    warnings: Vec<String>,
}

impl CsvDecoder {
    pub(super) fn new(
        spec: DecodeSpec,
        schema: Option<TableSchema>,
        select: Option<Vec<String>>,
        max_body_bytes: u64,
    ) -> Result<Self> {
        let mut table = Table {
            inferred: schema.is_none() || spec.schema.mode == SchemaMode::Infer,
            spec,
            select,
            schemas: None,
            writer: None,
            received: 0,
            pages: Vec::new(),
            said: HashSet::new(),
            warnings: Vec::new(),
        };
        if let Some(full) = schema {
            table.know(full)?;
        }
        Ok(Self { utf8: Utf8::default(), framer: RowFramer::new(max_body_bytes), begun: false, table })
    }

    pub(super) fn begin(&mut self) {
        self.utf8 = Utf8::default();
        self.framer.begin();
        self.begun = false;
        self.table.writer = None;
        self.table.received = 0;
        self.table.pages.clear();
    }

    pub(super) fn schema(&self) -> Option<&TableSchema> {
        self.table.schemas.as_ref().map(|(_, selected)| selected)
    }

    pub(super) fn push(&mut self, chunk: &[u8], boundary: &mut Boundary) -> Result<Vec<Page>> {
        if !std::mem::replace(&mut self.begun, true) {
            boundary.begin_page();
        }
        let Self { utf8, framer, table, .. } = self;
        utf8.push(chunk, |text| framer.push(text, |row| table.take(row, boundary)))?;
        Ok(std::mem::take(&mut table.pages))
    }

    pub(super) fn finish(&mut self, boundary: &mut Boundary) -> Result<Vec<Page>> {
        self.utf8.finish()?;
        let Self { framer, table, .. } = self;
        framer.finish(|row| table.take(row, boundary))?;
        self.flush()
    }

    pub(super) fn flush(&mut self) -> Result<Vec<Page>> {
        if let Some(writer) = &mut self.table.writer {
            writer.end_batch()?;
            if self.table.received > 0 {
                self.table.end_page();
            }
        }
        Ok(std::mem::take(&mut self.table.pages))
    }
}

impl Table {
    /// The columns are known from here on.
    fn know(&mut self, full: TableSchema) -> Result<()> {
        let selected = project(&full, self.select.as_deref(), &self.spec)?;
        self.schemas = Some((full, selected));
        Ok(())
    }

    fn take(&mut self, row: Row<'_>, boundary: &mut Boundary) -> Result<()> {
        let Some(writer) = &mut self.writer else { return self.header(row) };
        self.received += 1;
        writer.row(row, boundary)?;
        if writer.pending() == 0 {
            self.end_page();
        }
        Ok(())
    }

    fn header(&mut self, row: Row<'_>) -> Result<()> {
        let names: Vec<String> = row.cells().map(str::to_owned).collect();
        let refuse = |said: String| Err(Error::new(ErrorKind::Decode, format!("the header at {}: {said}", row.place)));
        if let Some(what) = foreign(&names) {
            return refuse(format!("this is {what}, not CSV: {}", cut(&names.join(","), 120)));
        }
        let mut seen = HashSet::new();
        for (at, name) in names.iter().enumerate() {
            if name.is_empty() {
                return refuse(format!("field {} has no name", at + 1));
            }
            if !seen.insert(name.as_str()) {
                return refuse(format!("the name {} stands twice", cut(&format!("{name:?}"), 120)));
            }
        }
        if self.schemas.is_none() {
            let record = csv_row::inferred(&names);
            self.know(infer::infer([record.as_str()], &self.spec.schema)?)?;
        }
        let Some((full, selected)) = &self.schemas else { return Ok(()) };
        let wanted: Vec<String> = full.columns.iter().filter_map(|column| name_of(&column.path)).collect();
        let missing: Vec<&String> = wanted.iter().filter(|name| !seen.contains(name.as_str())).collect();
        if !wanted.is_empty() && missing.len() == wanted.len() {
            let (there, wanted) = (cut(&names.join(","), 120), cut(&wanted.join(", "), 120));
            return refuse(format!("it has none of the table's columns ({wanted}), but {there}"));
        }
        for name in missing {
            if self.said.insert(name.clone()) {
                let said = format!("the CSV header has no {}: that column is NULL", cut(&format!("{name:?}"), 120));
                self.warnings.push(said);
            }
        }
        self.writer = Some(RowWriter::new(&self.spec, full, selected, self.inferred, &names));
        Ok(())
    }

    fn end_page(&mut self) {
        let Some(writer) = &mut self.writer else { return };
        let mut page = Page { received: std::mem::take(&mut self.received), ..Page::default() };
        page.batches = writer.take_batches(&mut page.counts);
        page.counts.warnings = std::mem::take(&mut self.warnings);
        self.pages.push(page);
    }
}

/// What a body is that only looks like a header: an error with status 200 must not be an empty table (R16).
fn foreign(names: &[String]) -> Option<&'static str> {
    let first = names.first()?.trim_start().to_ascii_lowercase();
    let begins = |any: &[&str]| any.iter().any(|start| first.starts_with(start));
    if begins(&["{", "["]) {
        Some("JSON")
    } else if begins(&["<!doctype", "<html", "<?xml"]) {
        Some("a document")
    } else {
        None
    }
}
