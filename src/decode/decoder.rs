//! A body becomes a page: text, envelope, rows; columns are inferred from the first page that has records.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::value::RawValue;

use super::Page;
use super::envelope::{Outline, length};
use super::json::RowDecoder;
use super::large::Large;
use super::record::{Halt, Place, cut};
use super::scan::{Flaw, Scanner};
use super::spec::DecodeSpec;
use crate::config::SchemaMode;
use crate::error::{Error, ErrorKind, Result};
use crate::position::Boundary;
use crate::schema::TableSchema;
use crate::schema::explode::{self, Layout, Sampled};

/// Reads the pages of one partition, in order.
#[derive(Debug)]
pub struct Decoder {
    pub(super) outline: Outline,
    pub(super) setup: Setup,
    pub(super) rows: Option<Rows>,
    /// The page at hand, if it is too large to be held.
    pub(super) large: Option<Large>,
}

/// What rows are made from.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) spec: DecodeSpec,
    select: Option<Vec<String>>,
    inferred: bool,
    /// The array of an exploded table was there, though without elements.
    has_array: AtomicBool,
}

/// The columns, once they are known, and what fills them.
#[derive(Debug)]
pub(super) struct Rows {
    full: Layout,
    selected: TableSchema,
    pub(super) decoder: RowDecoder,
}

impl Setup {
    pub(super) fn new(spec: DecodeSpec, select: Option<Vec<String>>, inferred: bool) -> Self {
        let inferred = inferred || spec.schema.mode == SchemaMode::Infer;
        Self { spec, select, inferred, has_array: AtomicBool::new(false) }
    }

    /// Rows of a layout, projected.
    pub(super) fn rows(&self, full: Layout) -> Result<Rows> {
        let selected = project(&full.schema, self.select.as_deref(), &self.spec)?;
        let decoder = RowDecoder::new(&self.spec, &full, &selected, self.inferred);
        Ok(Rows { full, selected, decoder })
    }

    /// Rows of the schema that these records show; `None` if they do not show it yet.
    pub(super) fn inferred_rows(&self, records: &[&str]) -> Result<Option<Rows>> {
        match explode::sampled(records, &self.spec.schema, self.spec.declared.as_ref())? {
            Sampled::Known(layout) => self.rows(layout).map(Some),
            Sampled::NoElement => {
                self.has_array.store(true, Ordering::Relaxed);
                Ok(None)
            }
            Sampled::NoArray(_) if self.has_array.load(Ordering::Relaxed) => Ok(None),
            Sampled::NoArray(arrays) => {
                let of = self.spec.schema.explode.as_ref().and_then(|explode| explode.of.as_ref());
                Err(explode::no_array(of, &arrays))
            }
        }
    }
}

impl Rows {
    /// The columns before projection.
    pub(super) fn into_full(self) -> Layout {
        self.full
    }

    /// The columns of the batches.
    pub(super) fn schema(&self) -> &TableSchema {
        &self.selected
    }
}

impl Decoder {
    /// A decoder of `schema`, or one that infers it from the first page with records (`None`); `select` names the
    /// columns that are wanted. An unknown name is an error that names the columns there are; in an inferred schema
    /// it can only be found when the schema is known.
    pub fn new(spec: DecodeSpec, schema: Option<TableSchema>, select: Option<Vec<String>>) -> Result<Self> {
        let outline = Outline::new(&spec);
        let setup = Setup::new(spec, select, schema.is_none());
        let rows = schema.map(|schema| setup.rows(Layout::plain(schema))).transpose()?;
        Ok(Self { outline, setup, rows, large: None })
    }

    /// The columns of the batches, once they are known.
    pub fn schema(&self) -> Option<&TableSchema> {
        self.rows.as_ref().map(Rows::schema)
    }

    /// Decodes the body of one good response. The boundary is told that a page begins and is shown every record.
    ///
    /// After an error the rows of that page are forgotten (the boundary has seen them) and the decoder can go on.
    pub fn page(&mut self, status: u16, body: &[u8], boundary: &mut Boundary) -> Result<Page> {
        let known = self.rows.is_some();
        boundary.begin_page();
        let page = self.document(status, body, boundary);
        if page.is_err() {
            self.forget_rows(known)?;
        }
        page
    }

    /// Forgets rows of a page that failed: half a record may be in the builders, and columns that were not `known`
    /// before it were never shown to anyone.
    pub(super) fn forget_rows(&mut self, known: bool) -> Result<()> {
        let full = self.rows.take().filter(|_| known).map(|rows| rows.full);
        self.rows = full.map(|full| self.setup.rows(full)).transpose()?;
        Ok(())
    }

    pub(super) fn document(&mut self, status: u16, body: &[u8], boundary: &mut Boundary) -> Result<Page> {
        let text = text_of(body, 0)?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if status == 204 || text.trim_ascii().is_empty() {
            return Ok(Page::default());
        }
        let Self { outline, setup, rows, .. } = self;
        let found = outline
            .walk(text, setup.spec.paged, |scanner| records_at(setup, rows, scanner, 0, boundary))
            .map_err(|halt| stopped(halt, text, "the body"))?;
        let said = found.judge(&setup.spec, status, text)?;
        let mut page = Page { received: said.received, envelope: said.envelope, ..Page::default() };
        if let Some(rows) = rows {
            rows.decoder.end_batch()?;
            rows.decoder.take_rows(&mut page);
        }
        if setup.spec.hash_content {
            page.content = hash(said.content.as_bytes());
        }
        Ok(page)
    }
}

/// The columns of a schema that are wanted (`None` is all of them), and the one beside them.
pub(super) fn project(full: &TableSchema, select: Option<&[String]>, spec: &DecodeSpec) -> Result<TableSchema> {
    let mut selected = match select {
        None => full.clone(),
        Some(names) => full.project(names).map_err(|name| {
            let said = format!("there is no column `{name}`; the columns are {}", full.names().join(", "));
            Error::new(ErrorKind::Scan, said)
        })?,
    };
    selected.columns.extend(spec.beside.clone());
    Ok(selected)
}

/// Reads the records that are next, an array or one object, and says how many they are; `already` stand before them.
pub(super) fn records_at(
    setup: &Setup,
    rows: &mut Option<Rows>,
    scanner: &mut Scanner<'_>,
    already: u64,
    boundary: &mut Boundary,
) -> Result<u64, Halt> {
    let is_array = scanner.peek() == Some(b'[');
    if rows.is_none() {
        *rows = first_rows(setup, scanner, is_array)?;
    }
    let Some(rows) = rows else {
        return if is_array { Ok(length(scanner)?) } else { Ok(scanner.skip().map(|()| 1)?) };
    };
    if is_array {
        return rows.decoder.array(scanner, already, boundary);
    }
    rows.decoder.record(scanner, Place::Record(1), boundary)?;
    Ok(1)
}

/// Infers the columns from the records that are next, if there are any.
fn first_rows(setup: &Setup, scanner: &Scanner<'_>, is_array: bool) -> Result<Option<Rows>, Halt> {
    let raw = scanner.clone().value()?.raw;
    if !is_array {
        return Ok(setup.inferred_rows(&[raw])?);
    }
    let records: Vec<&RawValue> = serde_json::from_str(raw)
        .map_err(|error| Error::new(ErrorKind::Decode, format!("the records cannot be read: {error}")))?;
    if records.is_empty() {
        return Ok(None);
    }
    let records: Vec<&str> = records.into_iter().map(RawValue::get).collect();
    Ok(setup.inferred_rows(&records)?)
}

/// The text of a body; `base` is where it begins in the whole body.
pub(super) fn text_of(body: &[u8], base: u64) -> Result<&str> {
    simdutf8::basic::from_utf8(body).map_err(|_| {
        let at = std::str::from_utf8(body).map_or_else(|error| error.valid_up_to(), str::len);
        Error::new(ErrorKind::Decode, format!("the body is not valid UTF-8 at byte {}", base + at as u64))
    })
}

/// The error of a walk that stopped.
pub(super) fn stopped(halt: Halt, text: &str, what: &str) -> Error {
    let Flaw { at, what: flaw } = match halt {
        Halt::Error(error) => return error,
        Halt::Flaw(flaw) => flaw,
    };
    let near = (at.saturating_sub(20)..=at).find_map(|from| text.get(from..)).unwrap_or_default();
    let near = if near.is_empty() { String::new() } else { format!(", near {}", cut(near, 60)) };
    Error::new(ErrorKind::Decode, format!("{what} is not JSON: {flaw} at byte {at}{near}"))
}

/// A fast hash of the record array, to tell whether two pages are the same (R15); never 0 for a text.
fn hash(text: &[u8]) -> u128 {
    const SEEDS: (u64, u64) = (0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93);
    let mix = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        #[allow(clippy::cast_possible_truncation, reason = "the halves are what is wanted")]
        let halves = (product as u64, (product >> 64) as u64);
        halves.0 ^ halves.1
    };
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
    let both = |bytes: &[u8; 16]| {
        let both = u128::from_le_bytes(*bytes);
        #[allow(clippy::cast_possible_truncation, reason = "the halves are what is wanted")]
        let halves = (both as u64, (both >> 64) as u64);
        halves
    };
    // Four lanes that do not wait for one another.
    let mut lanes = [SEEDS.0 ^ text.len() as u64, SEEDS.1, SEEDS.0.rotate_left(23), SEEDS.1.rotate_left(41)];
    let mut rest = text;
    while let Some((block, after)) = rest.split_first_chunk::<64>() {
        let (sixteens, _) = block.as_chunks::<16>();
        for (lane, sixteen) in lanes.iter_mut().zip(sixteens) {
            let (a, b) = both(sixteen);
            *lane = mix(*lane ^ a, SEEDS.1 ^ b).wrapping_add(*lane ^ b);
        }
        rest = after;
    }
    let (mut left, mut right) = (mix(lanes[0] ^ SEEDS.1, lanes[1]), mix(lanes[2] ^ SEEDS.0, lanes[3]));
    left = left.wrapping_add(lanes[2].rotate_left(17));
    right = right.wrapping_add(lanes[0].rotate_left(29));
    while let Some((sixteen, after)) = rest.split_first_chunk::<16>() {
        let (a, b) = both(sixteen);
        left = mix(left ^ a, SEEDS.1 ^ b.rotate_left(32)).wrapping_add(a);
        right = mix(right ^ b, SEEDS.0 ^ a).wrapping_add(b);
        rest = after;
    }
    let (low, high) = rest.split_at(rest.len().min(8));
    left = mix(left ^ word(low), SEEDS.1);
    right = mix(right ^ word(high), SEEDS.0 ^ left);
    u128::from(left) << 64 | u128::from(right) | 1
}
