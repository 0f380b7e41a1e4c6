//! What a directory should hold: a hidden file for each run or epoch, written before its files come into sight.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::Finished;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::shelf::Shelf;

/// Of a manifest that we can read.
const VERSION: u32 = 1;

/// A hundred thousand files make about twenty megabytes.
const SIZE_MAX: u64 = 64 << 20;

const LEAD: &str = "_restmark-";
const END: &str = ".json";

/// The files of one run or epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    #[serde(rename = "restmark-manifest")]
    version: u32,
    pub(crate) table: String,
    /// Of a table or stream with a ledger.
    epoch: Option<u64>,
    run: String,
    pub(crate) files: Vec<Listed>,
}

/// A file as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// The CRC-32C of its bytes.
    pub(crate) crc: u32,
    /// The checksum of its batches.
    pub(crate) content: u32,
}

/// The name of the manifest of files that are called so.
pub(super) fn name(stem: &str) -> String {
    format!("{LEAD}{stem}{END}")
}

/// Whether a file is a manifest, by its name.
pub(crate) fn is_one(name: &str) -> bool {
    name.starts_with(LEAD) && name.ends_with(END)
}

impl Manifest {
    pub(super) fn new(table: &str, run: &str, epoch: Option<u64>, parts: &[Finished]) -> Self {
        let listed = |part: &Finished| {
            let file = part.file.as_ref()?;
            let (name, bytes, crc) = (file.name.clone(), file.bytes, file.crc);
            Some(Listed { name, rows: part.rows, bytes, crc, content: part.content })
        };
        let files = parts.iter().filter_map(listed).collect();
        Self { version: VERSION, table: table.to_owned(), epoch, run: run.to_owned(), files }
    }

    /// Whether its files are an epoch's: a position has moved past their rows.
    pub(super) fn is_of_epoch(&self) -> bool {
        self.epoch.is_some()
    }

    /// Writes it; any number of times. Of no files there is none.
    pub(super) async fn write(&self, to: &Shelf, stem: &str) -> Result<()> {
        if self.files.is_empty() {
            return Ok(());
        }
        let name = name(stem);
        let json = serde_json::to_string(self)
            .map_err(|e| Error::new(ErrorKind::Bug, format!("a manifest cannot be written: {e}")))?;
        let bytes = Bytes::from(json + "\n");
        if to.create(&name, bytes.clone()).await? {
            return Ok(());
        }
        // Of the same run in other words: another version of us began to publish it.
        to.remove(&name).await?;
        to.create(&name, bytes).await.map(drop)
    }

    /// Reads one, or says why it cannot be used; `None` if it has gone.
    pub(crate) async fn read(to: &Shelf, name: &str) -> Result<Option<Result<Self, String>>> {
        let Some(bytes) = to.read(name, SIZE_MAX).await? else { return Ok(None) };
        let read = serde_json::from_slice::<Self>(&bytes).map_err(|e| e.to_string());
        Ok(Some(read.and_then(|read| match read.version {
            VERSION => Ok(read),
            other => Err(format!("its version is {other}, and this restmark knows {VERSION}")),
        })))
    }
}
