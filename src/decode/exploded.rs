//! The rows of a page of an exploded table: records and elements apart, put together batch by batch as they are asked for.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{Array as _, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use arrow_select::take::take;

use super::columns::TEXT_MAX;
use crate::error::{Error, ErrorKind, Result};

/// Where a column of the rows comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// A column of the records.
    Record(usize),
    /// A column of the elements.
    Element(usize),
}

/// Some elements and their records.
#[derive(Debug, Clone)]
pub(crate) struct Chunk {
    pub records: RecordBatch,
    pub elements: RecordBatch,
    /// The record of each element.
    pub of: UInt32Array,
}

/// Rows that become batches one after the other. A record's columns are repeated in each of its rows, so whole they
/// could take many times the memory of their page (R26).
#[derive(Debug, Clone)]
pub struct Exploded {
    schema: SchemaRef,
    sides: Arc<[Side]>,
    batch_rows: usize,
    chunks: VecDeque<Chunk>,
    /// Rows of the first chunk that were handed on.
    at: usize,
}

impl Default for Exploded {
    fn default() -> Self {
        Self::new(Arc::new(Schema::empty()), Vec::new(), 1)
    }
}

impl Exploded {
    pub(crate) fn new(schema: SchemaRef, sides: Vec<Side>, batch_rows: usize) -> Self {
        Self { schema, sides: sides.into(), batch_rows: batch_rows.max(1), chunks: VecDeque::new(), at: 0 }
    }

    pub(crate) fn push(&mut self, chunk: Chunk) {
        self.chunks.push_back(chunk);
    }

    /// The rows so far; none are left.
    pub(crate) fn take_all(&mut self) -> Self {
        let (schema, sides) = (Arc::clone(&self.schema), Arc::clone(&self.sides));
        let rest = Self { schema, sides, batch_rows: self.batch_rows, chunks: VecDeque::new(), at: 0 };
        std::mem::replace(self, rest)
    }

    /// Whether no row is left.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Rows that are left.
    pub fn rows(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.of.len()).sum::<usize>() - self.at
    }
}

impl Iterator for Exploded {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let chunk = self.chunks.front()?;
        let rows = fitting(chunk, self.at, self.batch_rows);
        let batch = put_together(chunk, self.at, rows, &self.schema, &self.sides)
            .map_err(|error| Error::new(ErrorKind::Bug, format!("rows could not be put together: {error}")));
        self.at += rows;
        if self.at >= chunk.of.len() {
            self.chunks.pop_front();
            self.at = 0;
        }
        Some(batch)
    }
}

/// How many of the chunk's rows from `at` on make a batch of bounded size; at least one.
fn fitting(chunk: &Chunk, at: usize, batch_rows: usize) -> usize {
    let most = (chunk.of.len() - at).min(batch_rows);
    if chunk.records.get_array_memory_size().saturating_mul(most) <= TEXT_MAX {
        return most;
    }
    let texts: Vec<_> = chunk.records.columns().iter().filter_map(|column| column.as_string_opt::<i32>()).collect();
    let mut size = 0_usize;
    let within = chunk.of.values().iter().skip(at).take(most).take_while(|record| {
        let length = |text: &&arrow_array::StringArray| usize::try_from(text.value_length(**record as usize)).ok();
        size += texts.iter().filter_map(length).sum::<usize>();
        size <= TEXT_MAX
    });
    within.count().max(1)
}

fn put_together(
    chunk: &Chunk,
    at: usize,
    rows: usize,
    schema: &SchemaRef,
    sides: &[Side],
) -> Result<RecordBatch, ArrowError> {
    let of = chunk.of.slice(at, rows);
    let columns = sides.iter().map(|side| match side {
        Side::Record(column) => take(chunk.records.column(*column), &of, None),
        Side::Element(column) => Ok(chunk.elements.column(*column).slice(at, rows)),
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}
