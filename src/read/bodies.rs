//! The bodies of one partition, whole documents or streams, as one decoder.

use super::lineage;
use crate::column::Column;
use crate::config::{SourceConfig, TableConfig};
use crate::decode::{DecodeSpec, Decoder, Page, StreamDecoder};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::Partition;
use crate::position::Boundary;
use crate::schema::TableSchema;

/// How bodies are read.
pub(super) enum Bodies {
    /// One document a page.
    Whole(Decoder),
    /// Records as they come.
    Streamed(StreamDecoder),
}

impl Bodies {
    pub(super) fn new(
        config: &SourceConfig,
        table: &TableConfig,
        partition: &Partition,
        mut select: Option<Vec<String>>,
    ) -> Result<Self> {
        let (mut spec, mut schema) = (DecodeSpec::for_table(table), crate::schema::for_table(table));
        if let Some(child) = &table.child {
            // The parent's key is put beside the rows, once these are there.
            spec.beside = lineage::beside(child, config.http.response_format);
            schema = schema.map(|schema| TableSchema { parent: None, ..schema });
            let own = |names: Vec<String>| names.into_iter().filter(|name| *name != child.column()).collect();
            select = select.map(own);
        }
        if let (Some(limit), Some(_)) = (partition.limit, &schema) {
            // A stream that never ends would have to fill a batch first.
            spec.batch_rows = spec.batch_rows.min(usize::try_from(limit).unwrap_or(usize::MAX)).max(1);
        }
        let (format, max) = (config.http.response_format, config.http.max_body_bytes);
        Ok(match StreamDecoder::new(format, spec.clone(), schema.clone(), select.clone(), max)? {
            Some(decoder) => Self::Streamed(decoder),
            None => Self::Whole(Decoder::new(spec, schema, select)?),
        })
    }

    /// The columns of the batches.
    pub(super) fn columns(&self) -> Vec<Column> {
        let schema = match self {
            Self::Whole(decoder) => decoder.schema(),
            Self::Streamed(decoder) => decoder.schema(),
        };
        schema.map(|schema| schema.columns.clone()).unwrap_or_default()
    }

    /// A page begins that is too large to be held.
    pub(super) fn begin_page(&mut self, boundary: &mut Boundary) -> Result<()> {
        match self {
            Self::Whole(decoder) => decoder.begin_large(boundary),
            Self::Streamed(_) => Ok(()),
        }
    }

    /// Takes bytes of such a page, or its end, which yields the page itself.
    pub(super) fn piece(
        &mut self,
        chunk: Option<&[u8]>,
        status: u16,
        boundary: &mut Boundary,
    ) -> Result<(Vec<Page>, Option<Page>)> {
        match (self, chunk) {
            (Self::Whole(decoder), Some(bytes)) => decoder.push_large(bytes, boundary).map(|pages| (pages, None)),
            (Self::Whole(decoder), None) => decoder.finish_large(status, boundary).map(|page| (Vec::new(), Some(page))),
            (Self::Streamed(_), _) => Err(Error::new(ErrorKind::Bug, "a streamed body came as a page")),
        }
    }

    /// A streamed body begins.
    pub(super) fn begin(&mut self) -> Result<()> {
        match self {
            Self::Streamed(decoder) => decoder.begin(),
            Self::Whole(_) => Ok(()),
        }
    }

    /// Takes bytes of a streamed body, or its end.
    pub(super) fn feed(&mut self, chunk: Option<&[u8]>, boundary: &mut Boundary) -> Result<Vec<Page>> {
        match (self, chunk) {
            (Self::Streamed(decoder), Some(bytes)) => decoder.push(bytes, boundary),
            (Self::Streamed(decoder), None) => decoder.finish(boundary),
            (Self::Whole(_), _) => Ok(Vec::new()),
        }
    }
}
