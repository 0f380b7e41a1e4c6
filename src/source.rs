//! The composition root: a configuration becomes tables, a client and stores.

use std::path::Path;

use crate::commit::Commit;
use crate::config::{SourceConfig, TableConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::{Partition, Plan, Scan};
use crate::position::Checkpoint;
use crate::read::Read;
use crate::schema::TableSchema;
use crate::secret::Redactor;

/// One API, ready to be read.
#[derive(Debug)]
pub struct Source {
    config: SourceConfig,
    redactor: Redactor,
}

impl Source {
    /// Loads a configuration file, checks it and makes the client. Sends nothing.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::new(crate::config::load::load(path.as_ref())?)
    }

    /// A source of a loaded configuration.
    pub fn new(config: SourceConfig) -> Result<Self> {
        Ok(Self { config, redactor: Redactor::default() })
    }

    /// The settings.
    pub fn config(&self) -> &SourceConfig {
        &self.config
    }

    /// What removes this source's secrets from texts (R23).
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// A table by name; the error names the tables there are.
    pub fn table(&self, name: &str) -> Result<Table<'_>> {
        let config = self.config.tables.iter().find(|t| t.name == name);
        config.map(|config| Table { config }).ok_or_else(|| Error::new(ErrorKind::Scan, format!("no table {name}")))
    }

    /// Freezes a scan into a plan; loads the table's checkpoint (R6).
    pub async fn plan(&self, _scan: Scan) -> Result<Plan> {
        Err(Error::new(ErrorKind::Bug, "not built"))
    }

    /// Starts reading a partition.
    pub fn read(&self, _partition: &Partition) -> Result<Read> {
        Err(Error::new(ErrorKind::Bug, "not built"))
    }

    /// Where this source's checkpoints are loaded from and committed to.
    pub fn checkpoints(&self) -> Checkpoints<'_> {
        Checkpoints { source: self }
    }
}

/// A table of a source.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a> {
    config: &'a TableConfig,
}

impl Table<'_> {
    /// Its settings.
    pub fn config(&self) -> &TableConfig {
        self.config
    }

    /// The columns, when they are known without asking the API (strict and variant).
    pub fn schema(&self) -> Option<TableSchema> {
        None
    }

    /// A scan of the whole table from its checkpoint.
    pub fn scan(&self) -> Scan {
        Scan::default()
    }
}

/// The checkpoints of a source.
#[derive(Debug)]
pub struct Checkpoints<'a> {
    source: &'a Source,
}

impl Checkpoints<'_> {
    /// Moves a checkpoint: the only way there is. Committing the same plan again is success (R8).
    pub async fn commit(&self, _commit: &Commit) -> Result<()> {
        let _ = self.source;
        Err(Error::new(ErrorKind::Bug, "not built"))
    }

    /// The stored checkpoint of a table; `None` is a first run (R6).
    pub async fn load(&self, _table: &str) -> Result<Option<Checkpoint>> {
        Err(Error::new(ErrorKind::Bug, "not built"))
    }

    /// Sets a position by hand and records who did it and when. `value` is read as the table's mode writes it.
    pub async fn set(&self, _table: &str, _value: &str, _who: &str) -> Result<Checkpoint> {
        Err(Error::new(ErrorKind::Bug, "not built"))
    }

    /// Removes a stored position, readable or not; `false` if there was none.
    pub async fn clear(&self, _table: &str) -> Result<bool> {
        Err(Error::new(ErrorKind::Bug, "not built"))
    }

    /// The file of a table's checkpoint, for messages; `None` without an enabled checkpoint.
    pub fn path(&self, _table: &str) -> Option<String> {
        None
    }
}
