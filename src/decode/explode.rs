//! The elements of an array become rows (R31): each carries its record's columns, which are kept once until they are
//! handed on, so that a page of a million elements takes the memory of the page.

use super::columns::Columns;
use super::exploded::{Chunk, Exploded, Side};
use super::record::{Halt, Node, Place, Sink, Undeclared, Walk, Watched, cut};
use super::repeated::Walked;
use super::scan::Scanner;
use crate::config::OnMismatch;
use crate::counts::{Counts, Tally};
use crate::error::{Error, ErrorKind, Result};
use crate::schema::TableSchema;
use crate::schema::explode::{Elements, Layout};

use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::concat::concat_batches;

/// The record of a row that is to be dropped.
const NONE: u32 = u32::MAX;

/// Reads the elements of one record after the other.
#[derive(Debug)]
pub(crate) struct Exploder {
    array: Elements,
    root: Node,
    sink: Sink,
    /// Elements so far; the mark of the one at hand.
    stamp: u64,
    /// The record of each row, as a row of `carried` and the record columns behind it.
    records: Vec<u32>,
    /// The last record of the chunk before, which may have more elements.
    carried: Option<RecordBatch>,
    /// Arrays that were none.
    nulled: Tally,
    rows: Exploded,
}

impl Exploder {
    /// Splits the selected columns of a layout: those of the records, and what reads those of the elements.
    pub(crate) fn split(full: &Layout, selected: &TableSchema, batch_rows: usize) -> (TableSchema, Option<Self>) {
        let Some(array) = &full.elements else { return (selected.clone(), None) };
        let all = full.schema.columns.get(array.first..).unwrap_or_default();
        let is_element = |name: &str| all.iter().any(|column| column.name == name);
        let (of_elements, of_records) = selected.columns.iter().cloned().partition(|column| is_element(&column.name));
        let elements =
            TableSchema { columns: of_elements, rest: None, parent: None, on_mismatch: selected.on_mismatch };
        let records = TableSchema { columns: of_records, ..selected.clone() };
        let mut root = Node::default();
        for column in all {
            root.declare(&column.path);
        }
        for (at, column) in elements.columns.iter().enumerate() {
            root.read(&column.path, at);
        }
        let (mut next_record, mut next_element) = (0.., 0..);
        let place = |name: &str| {
            if is_element(name) { next_element.next().map(Side::Element) } else { next_record.next().map(Side::Record) }
        };
        let places = selected.names().into_iter().filter_map(place).collect();
        let sink = Sink::new(Columns::new(&elements, batch_rows), selected.on_mismatch, Undeclared::Count);
        let exploder = Self {
            array: array.clone(),
            root,
            sink,
            stamp: 0,
            records: Vec::new(),
            carried: None,
            nulled: Tally::default(),
            rows: Exploded::new(selected.arrow(), places, batch_rows),
        };
        (records, Some(exploder))
    }

    /// Where the array stands in a record.
    pub(crate) fn array(&self) -> &Elements {
        &self.array
    }

    /// Takes the array of the record whose columns were ended last.
    pub(crate) fn record(&mut self, watched: &Watched<'_>, place: Place, columns: &mut Columns) -> Result<(), Halt> {
        let mut is_empty = true;
        match (watched.elements, watched.blocked) {
            (Some(raw), _) if raw.starts_with('[') => {
                let mut scanner = Scanner::new(raw);
                let mut more = scanner.enter(b']')?;
                while more {
                    is_empty = false;
                    self.element(&mut scanner, place)?;
                    self.end_row(columns)?;
                    more = scanner.more(b']')?;
                }
            }
            (Some(raw), _) | (None, Some(raw)) => self.mismatch(raw, place)?,
            (None, None) => {}
        }
        if is_empty && self.array.outer {
            self.sink.columns.end_row(None);
            self.end_row(columns)?;
        }
        if columns.is_full() {
            self.close(columns)?;
        }
        Ok(())
    }

    fn element(&mut self, scanner: &mut Scanner<'_>, place: Place) -> Result<(), Halt> {
        self.stamp += 1;
        let walked = Walked { scanner: scanner.clone(), place, keep: true };
        let (watched, stamp) = (Watched::default(), self.stamp);
        let mut walk = Walk { scanner, sink: &mut self.sink, watched, stamp, is_again: false, place };
        let outcome = walk.value(&mut self.root, true);
        if !self.sink.superseded.is_empty() || matches!(outcome, Err(Halt::Error(_))) {
            (*scanner, _) = walked.again(&mut self.root, &mut self.sink, &mut self.stamp, outcome)?;
            self.records.push(NONE);
        } else {
            outcome?;
        }
        self.sink.columns.end_row(None);
        Ok(())
    }

    fn end_row(&mut self, columns: &mut Columns) -> Result<()> {
        // Without rows of its own, the chunk goes on with the record it was given.
        let record = (columns.rows() + usize::from(self.carried.is_some())).saturating_sub(1);
        self.records.push(u32::try_from(record).unwrap_or(NONE));
        if self.sink.columns.is_full() { self.close(columns) } else { Ok(()) }
    }

    #[cold]
    fn mismatch(&mut self, raw: &str, place: Place) -> Result<()> {
        self.nulled.add(|| cut(raw, 200));
        if self.sink.on_mismatch == OnMismatch::Null {
            return Ok(());
        }
        let said = format!(
            "{place}, column `{}`: {} is not an array; set schema.on-mismatch = null to read such values as NULL",
            self.array.column,
            cut(raw, 120)
        );
        Err(Error::new(ErrorKind::Decode, said))
    }

    /// Ends the chunk at hand. Its last record goes on to the next one.
    fn close(&mut self, columns: &mut Columns) -> Result<()> {
        let fresh = columns.finish(None)?;
        let records = match self.carried.take() {
            Some(carried) if fresh.num_rows() == 0 => carried,
            Some(carried) => concat_batches(&fresh.schema(), [&carried, &fresh])
                .map_err(|error| Error::new(ErrorKind::Bug, format!("records could not be carried on: {error}")))?,
            None => fresh,
        };
        self.carried = records.num_rows().checked_sub(1).map(|last| records.slice(last, 1));
        let mut of = std::mem::take(&mut self.records);
        let keep: Vec<bool> = of.iter().map(|record| *record != NONE).collect();
        let elements = self.sink.columns.finish(keep.contains(&false).then_some(keep))?;
        of.retain(|record| *record != NONE);
        if !of.is_empty() {
            self.rows.push(Chunk { records, elements, of: UInt32Array::from(of) });
        }
        Ok(())
    }

    /// Ends the last chunk of a page.
    pub(crate) fn end(&mut self, columns: &mut Columns) -> Result<()> {
        self.close(columns)?;
        self.carried = None;
        Ok(())
    }

    /// Whether rows are ready.
    pub(crate) fn has_rows(&self) -> bool {
        !self.rows.is_empty()
    }

    /// The rows that are ready, and what happened to their values.
    pub(crate) fn take(&mut self, counts: &mut Counts) -> Exploded {
        self.sink.columns.report(counts);
        counts.duplicate_keys.merge(std::mem::take(&mut self.sink.duplicate_keys));
        counts.undeclared.merge(std::mem::take(&mut self.sink.undeclared_keys));
        if self.nulled.count > 0 {
            let nulled = std::mem::take(&mut self.nulled);
            counts.nulled.entry(self.array.column.clone()).or_default().merge(nulled);
        }
        self.rows.take_all()
    }
}
