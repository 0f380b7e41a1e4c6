//! Records of one schema become batches: the trie of its paths, the rows, and what the boundary says of them.

use arrow_array::RecordBatch;

use super::Page;
use super::columns::Columns;
use super::explode::Exploder;
use super::record::{Halt, Node, Place, Sink, Undeclared, Walk, Watch, Watched, cut};
use super::repeated::Walked;
use super::scan::Scanner;
use super::spec::DecodeSpec;
use crate::error::{Error, ErrorKind, Result};
use crate::position::{Boundary, Observed};
use crate::schema::TableSchema;
use crate::schema::explode::Layout;

/// Reads records into batches.
#[derive(Debug)]
pub(crate) struct RowDecoder {
    root: Node,
    sink: Sink,
    /// Records so far; the mark of the one at hand.
    stamp: u64,
    /// Which rows of the batch at hand stay; empty while all do.
    keep: Vec<bool>,
    batches: Vec<RecordBatch>,
    /// Where rows are the elements of an array.
    exploder: Option<Box<Exploder>>,
}

impl RowDecoder {
    /// Reads the columns of `selected`; `full` is what there is before any projection, `inferred` says that keys
    /// outside it are to be counted.
    pub(crate) fn new(spec: &DecodeSpec, full: &Layout, selected: &TableSchema, inferred: bool) -> Self {
        let (selected, exploder) = Exploder::split(full, selected, spec.batch_rows);
        let own = full.elements.as_ref().map_or(full.schema.columns.len(), |elements| elements.first);
        let inferred = full.elements.as_ref().map_or(inferred, |elements| elements.inferred);
        let mut root = Node::default();
        let known = full.schema.columns.iter().take(own).map(|column| &column.path).chain(&full.aside);
        for path in known.chain(selected.rest.iter().flat_map(|rest| &rest.declared)) {
            root.declare(path);
        }
        for (at, column) in selected.columns.iter().enumerate() {
            root.read(&column.path, at);
        }
        let watched =
            [(&spec.timestamp, Watch::Timestamp), (&spec.identity, Watch::Identity), (&spec.line_error, Watch::Error)];
        for (path, watch) in watched {
            if let Some(path) = path {
                root.watch(path, watch);
            }
        }
        if let Some(exploder) = &exploder {
            root.watch(&exploder.array().path, Watch::Elements);
        }
        let undeclared = match (&selected.rest, inferred) {
            (Some(_), _) => Undeclared::Keep,
            // A rest column that is not selected was not asked for.
            (None, true) if full.schema.rest.is_none() => Undeclared::Count,
            _ => Undeclared::Skip,
        };
        let sink = Sink::new(Columns::new(&selected, spec.batch_rows), selected.on_mismatch, undeclared);
        let exploder = exploder.map(Box::new);
        Self { root, sink, stamp: 0, keep: Vec::new(), batches: Vec::new(), exploder }
    }

    /// Reads the array that is next; says how many records it has. `already` of the page stand before it.
    pub(crate) fn array(
        &mut self,
        scanner: &mut Scanner<'_>,
        already: u64,
        boundary: &mut Boundary,
    ) -> Result<u64, Halt> {
        let mut records = 0;
        let mut more = scanner.enter(b']')?;
        while more {
            records += 1;
            self.record(scanner, Place::Record(already + records), boundary)?;
            more = scanner.more(b']')?;
        }
        Ok(records)
    }

    /// Reads the record that is next.
    #[inline]
    pub(crate) fn record(
        &mut self,
        scanner: &mut Scanner<'_>,
        place: Place,
        boundary: &mut Boundary,
    ) -> Result<(), Halt> {
        let first = scanner.peek();
        let start = scanner.at();
        if first != Some(b'{') && !self.root.is_read() {
            let token = scanner.value()?;
            let said = format!("{place} is not an object: {}", cut(token.raw, 120));
            return Err(Error::new(ErrorKind::Decode, said).into());
        }
        self.stamp += 1;
        self.sink.rest.clear();
        let keep = self.sink.undeclared != Undeclared::Skip;
        let (watched, stamp) = (Watched::default(), self.stamp);
        let mut walk = Walk { scanner, sink: &mut self.sink, watched, stamp, is_again: false, place };
        let outcome = walk.value(&mut self.root, keep);
        let mut watched = walk.watched;
        if !self.sink.superseded.is_empty() || matches!(outcome, Err(Halt::Error(_))) {
            let walked = Walked { scanner: scanner.again_at(start), place, keep };
            (*scanner, watched) = walked.again(&mut self.root, &mut self.sink, &mut self.stamp, outcome)?;
            self.drop_row();
        } else {
            outcome?;
        }
        if let Some(error) = watched.error {
            return Err(Error::new(ErrorKind::Http, format!("{place}: the API says: {}", said(error))).into());
        }
        let Sink { columns, rest, .. } = &mut self.sink;
        columns.end_row(Some(rest.as_str()).filter(|text| !matches!(*text, "" | "{}")));
        if let Some(exploder) = &mut self.exploder {
            return exploder.record(&watched, place, columns);
        }
        if !boundary.is_idle() {
            let record = scanner.since(start);
            let stays = boundary.observe(Observed { timestamp: watched.timestamp, identity: watched.identity, record });
            if !stays && self.keep.is_empty() {
                self.keep.resize(self.sink.columns.rows() - 1, true);
            }
            if !stays || !self.keep.is_empty() {
                self.keep.push(stays);
            }
        } else if !self.keep.is_empty() {
            self.keep.push(true);
        }
        if self.sink.columns.is_full() {
            self.end_batch()?;
        }
        Ok(())
    }

    /// The row that was ended last is none. An exploder refers to rows itself.
    #[cold]
    fn drop_row(&mut self) {
        if self.exploder.is_none() {
            self.keep.resize(self.sink.columns.rows() - 1, true);
            self.keep.push(false);
        }
    }

    /// Rows that are not in a finished batch.
    pub(crate) fn pending(&self) -> usize {
        if let Some(exploder) = &self.exploder {
            return usize::from(!exploder.has_rows());
        }
        self.sink.columns.rows()
    }

    /// Puts the finished batches into a page, without the rows that were dropped; the one at hand is not ended.
    pub(crate) fn take_rows(&mut self, page: &mut Page) {
        self.sink.columns.report(&mut page.counts);
        page.counts.duplicate_keys.merge(std::mem::take(&mut self.sink.duplicate_keys));
        page.counts.undeclared.merge(std::mem::take(&mut self.sink.undeclared_keys));
        page.batches = std::mem::take(&mut self.batches);
        if let Some(exploder) = &mut self.exploder {
            page.exploded = exploder.take(&mut page.counts);
        }
    }

    /// Ends the batch at hand, if it has rows.
    pub(crate) fn end_batch(&mut self) -> Result<()> {
        if let Some(exploder) = &mut self.exploder {
            return exploder.end(&mut self.sink.columns);
        }
        if self.sink.columns.rows() > 0 {
            let keep = std::mem::take(&mut self.keep);
            let batch = self.sink.columns.finish((!keep.is_empty()).then_some(keep))?;
            if batch.num_rows() > 0 {
                self.batches.push(batch);
            }
        }
        Ok(())
    }
}

/// A raw JSON value for a message: the text of a string, else the JSON, cut to a line.
pub(super) fn said(raw: &str) -> String {
    let text = serde_json::from_str::<String>(raw).unwrap_or_else(|_| raw.to_owned());
    cut(&text, 300)
}
