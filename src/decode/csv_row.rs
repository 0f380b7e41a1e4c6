//! CSV records of one header become batches: which cell goes where, and what the boundary says of each record.

use arrow_array::RecordBatch;
use jsonptr::Pointer;

use super::cell;
use super::columns::Columns;
use super::csv_frame::Row;
use super::json::said;
use super::record::{Undeclared, misfit};
use super::scan::{Kind, Token};
use super::spec::DecodeSpec;
use crate::config::OnMismatch;
use crate::counts::{Counts, Tally};
use crate::error::{Error, ErrorKind, Result};
use crate::position::{Boundary, Observed};
use crate::schema::{Column, TableSchema};

/// Reads records into batches.
#[derive(Debug)]
pub(super) struct RowWriter {
    columns: Columns,
    selected: Vec<Column>,
    on_mismatch: OnMismatch,
    undeclared: Undeclared,
    undeclared_keys: Tally,
    cells: Vec<Cell>,
    /// The cell at `error-path`.
    error: Option<usize>,
    /// Columns that hold the whole record.
    whole: Vec<usize>,
    /// Which rows of the batch at hand stay; empty while all do.
    keep: Vec<bool>,
    batches: Vec<RecordBatch>,
    room: Room,
}

/// What becomes of the cells under one name.
#[derive(Debug)]
struct Cell {
    name: String,
    /// Selected columns that read it.
    columns: Vec<usize>,
    /// Whether a column of the table reads it, selected or not.
    declared: bool,
    /// Whether `timestamp-path` or `dedup-key` is this cell.
    is_timestamp: bool,
    is_identity: bool,
}

/// Texts that are made anew for each record, in the room of the one before.
#[derive(Debug, Default)]
struct Room {
    token: String,
    timestamp: String,
    identity: String,
    record: String,
    rest: String,
}

/// The name that a pointer means in a record without nesting.
pub(super) fn name_of(path: &Pointer) -> Option<String> {
    let (token, rest) = path.split_front()?;
    rest.is_root().then(|| token.decoded().into_owned())
}

impl RowWriter {
    /// Reads the columns of `selected` from records whose cells have these names; `full` is the schema before any
    /// projection, `inferred` says that names outside it are to be counted.
    pub(super) fn new(
        spec: &DecodeSpec,
        full: &TableSchema,
        selected: &TableSchema,
        inferred: bool,
        names: &[String],
    ) -> Self {
        let is_at =
            |path: Option<&jsonptr::PointerBuf>, name: &str| path.and_then(|p| name_of(p)).as_deref() == Some(name);
        let cells = names.iter().map(|name| Cell {
            name: name.clone(),
            columns: positions(selected, |column| is_at(Some(&column.path), name)),
            declared: full.columns.iter().any(|column| column.path.is_root() || is_at(Some(&column.path), name)),
            is_timestamp: is_at(spec.timestamp.as_ref(), name),
            is_identity: is_at(spec.identity.as_ref(), name),
        });
        let undeclared = match (&selected.rest, inferred) {
            (Some(_), _) => Undeclared::Keep,
            (None, true) if full.rest.is_none() => Undeclared::Count,
            _ => Undeclared::Skip,
        };
        Self {
            columns: Columns::new(selected, spec.batch_rows),
            selected: selected.columns.clone(),
            on_mismatch: selected.on_mismatch,
            undeclared,
            undeclared_keys: Tally::default(),
            cells: cells.collect(),
            error: names.iter().position(|name| is_at(spec.error.as_ref(), name)),
            whole: positions(selected, |column| column.path.is_root()),
            keep: Vec::new(),
            batches: Vec::new(),
            room: Room::default(),
        }
    }

    /// Reads a record, which has a cell for each name.
    pub(super) fn row(&mut self, row: Row<'_>, boundary: &mut Boundary) -> Result<()> {
        if let Some(error) = self.error.and_then(|at| row.cells().nth(at)).filter(|text| !text.is_empty()) {
            return Err(Error::new(ErrorKind::Http, format!("{}: the API says: {}", row.place, said(error))));
        }
        let (mut timestamp, mut identity) = (None, None);
        self.room.rest.clear();
        for (cell, text) in self.cells.iter().zip(row.cells()) {
            for at in &cell.columns {
                let Some(column) = self.selected.get(*at) else { continue };
                let token = cell::token(column.data_type, column.format.as_ref(), text, &mut self.room.token);
                let raw = match token {
                    Some(token) if self.columns.push(*at, &token) => continue,
                    Some(token) => token.raw,
                    None if self.columns.push_mismatch(*at, text) => continue,
                    None => text,
                };
                if self.on_mismatch == OnMismatch::Fail {
                    return Err(misfit(&self.columns, *at, raw, row.place));
                }
            }
            timestamp = if cell.is_timestamp { Some(text) } else { timestamp };
            identity = if cell.is_identity { Some(text).filter(|text| !text.is_empty()) } else { identity };
            match self.undeclared {
                Undeclared::Keep if !cell.declared => member(&cell.name, text, &mut self.room.rest),
                Undeclared::Count if !cell.declared => {
                    self.undeclared_keys.add(|| format!("`{}` in {}", cell.name, row.place));
                }
                _ => {}
            }
        }
        let observed = !boundary.is_idle();
        if observed || !self.whole.is_empty() {
            self.room.record.clear();
            for (cell, text) in self.cells.iter().zip(row.cells()) {
                member(&cell.name, text, &mut self.room.record);
            }
            close(&mut self.room.record);
        }
        for at in &self.whole {
            let fits = self.columns.push(*at, &Token { kind: Kind::Object, raw: &self.room.record });
            if !fits && self.on_mismatch == OnMismatch::Fail {
                return Err(misfit(&self.columns, *at, &self.room.record, row.place));
            }
        }
        close(&mut self.room.rest);
        self.columns.end_row(Some(self.room.rest.as_str()).filter(|rest| *rest != "{}"));
        if observed {
            let Room { timestamp: when, identity: who, record, .. } = &mut self.room;
            let timestamp = timestamp.map(|text| cell::text(text, when).raw);
            let identity = identity.map(|text| cell::text(text, who).raw);
            let stays = boundary.observe(Observed { timestamp, identity, record });
            if !stays && self.keep.is_empty() {
                self.keep.resize(self.columns.rows() - 1, true);
            }
            if !stays || !self.keep.is_empty() {
                self.keep.push(stays);
            }
        }
        if self.columns.is_full() { self.end_batch() } else { Ok(()) }
    }

    /// Rows that are not in a finished batch.
    pub(super) fn pending(&self) -> usize {
        self.columns.rows()
    }

    /// The finished batches, without the rows that were dropped; the one at hand is not ended.
    pub(super) fn take_batches(&mut self, counts: &mut Counts) -> Vec<RecordBatch> {
        self.columns.report(counts);
        counts.undeclared.merge(std::mem::take(&mut self.undeclared_keys));
        std::mem::take(&mut self.batches)
    }

    /// Ends the batch at hand, if it has rows.
    pub(super) fn end_batch(&mut self) -> Result<()> {
        if self.columns.rows() > 0 {
            let keep = std::mem::take(&mut self.keep);
            let batch = self.columns.finish((!keep.is_empty()).then_some(keep))?;
            if batch.num_rows() > 0 {
                self.batches.push(batch);
            }
        }
        Ok(())
    }
}

fn positions(schema: &TableSchema, wanted: impl Fn(&Column) -> bool) -> Vec<usize> {
    schema.columns.iter().enumerate().filter(|(_, column)| wanted(column)).map(|(at, _)| at).collect()
}

/// Appends a member to a JSON object that [`close`] ends.
fn member(name: &str, text: &str, out: &mut String) {
    out.push(if out.is_empty() { '{' } else { ',' });
    cell::quote(name, out);
    out.push(':');
    cell::quote(text, out);
}

fn close(object: &mut String) {
    if object.is_empty() {
        object.push('{');
    }
    object.push('}');
}

/// The schema of records with these names where none is declared: cells are texts, and nothing says otherwise.
pub(super) fn inferred(names: &[String]) -> String {
    let mut object = String::new();
    for name in names {
        member(name, "", &mut object);
    }
    close(&mut object);
    object
}
