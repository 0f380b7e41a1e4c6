//! Batches become the bytes of one file.

use std::fs::File;
use std::io::{BufWriter, Write as _};

use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::{Format, csv, ndjson};
use crate::error::{Error, ErrorKind, Result};
use crate::integrity::Summed;

/// What the writers of a run may hold back together, in bytes: Parquet's row groups before they are written out.
pub(super) const MEMORY: usize = 64 << 20;

/// What each of them may hold back, however many they are: row groups of less would be slow to read.
pub(super) const MEMORY_LEAST: usize = 4 << 20;

/// A file whose bytes are counted and checked as they pass.
type Out = BufWriter<Summed<File>>;

/// Writes one file of one format.
pub(super) enum Encoder {
    Parquet(Box<ArrowWriter<Out>>, usize),
    Arrow(Box<FileWriter<Out>>),
    Csv(Out),
    Ndjson(Out),
}

impl Encoder {
    /// Begins a file of rows of this schema, which holds back no more than `memory` bytes of them.
    pub(super) fn new(format: Format, file: File, schema: &Schema, memory: usize) -> Result<Self> {
        let mut file = BufWriter::with_capacity(1 << 16, Summed::new(file));
        Ok(match format {
            Format::Parquet | Format::Delta => {
                let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                let writer = ArrowWriter::try_new(file, schema.clone().into(), Some(properties)).map_err(parquet)?;
                Self::Parquet(Box::new(writer), memory)
            }
            Format::Arrow => Self::Arrow(Box::new(FileWriter::try_new(file, schema).map_err(arrow)?)),
            Format::Csv => {
                let mut names = Vec::new();
                csv::header(schema, &mut names);
                file.write_all(&names).map_err(io)?;
                Self::Csv(file)
            }
            Format::Ndjson => Self::Ndjson(file),
        })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match self {
            Self::Parquet(writer, memory) => {
                writer.write(batch).map_err(parquet)?;
                if writer.memory_size() > *memory {
                    writer.flush().map_err(parquet)?;
                }
                Ok(())
            }
            Self::Arrow(writer) => writer.write(batch).map_err(arrow),
            Self::Csv(file) => text(file, batch, csv::write),
            Self::Ndjson(file) => text(file, batch, ndjson::write),
        }
    }

    /// Ends the file: the bytes in it and their checksum. It is not durable yet.
    pub(super) fn finish(self) -> Result<(File, u64, u32)> {
        let file = match self {
            Self::Parquet(writer, _) => writer.into_inner().map_err(parquet)?,
            Self::Arrow(writer) => writer.into_inner().map_err(arrow)?,
            Self::Csv(file) | Self::Ndjson(file) => file,
        };
        Ok(file.into_inner().map_err(|e| io(e.into_error()))?.into_parts())
    }
}

type Render = fn(&RecordBatch, &mut Vec<u8>) -> Result<()>;

fn text(file: &mut Out, batch: &RecordBatch, render: Render) -> Result<()> {
    let mut bytes = Vec::new();
    render(batch, &mut bytes)?;
    file.write_all(&bytes).map_err(io)
}

fn io(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Store, format!("rows could not be written: {error}")).caused_by(error)
}

fn arrow(error: ArrowError) -> Error {
    Error::new(ErrorKind::Store, format!("rows could not be written as Arrow: {error}")).caused_by(error)
}

fn parquet(error: ParquetError) -> Error {
    Error::new(ErrorKind::Store, format!("rows could not be written as Parquet: {error}")).caused_by(error)
}
