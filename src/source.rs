//! The composition root: a configuration becomes tables, a client and stores. No rule lives here.

mod ask;
mod origin;
mod sample;

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use chrono::Utc;
use tokio::sync::OnceCell;
use url::Url;

use crate::column::Column;
use crate::commit::{self, CheckpointStore, Commit};
use crate::config::{
    self, CheckpointConfig, Named, ResponseFormat, SchemaMode, SourceConfig, SpecPlace, Style, TableConfig,
};
use crate::effect::Effects;
use crate::error::{Error, ErrorKind, Result};
use crate::fetch::Client;
use crate::openapi::{self, Ask, Spec};
use crate::plan::{Base, Partition, Plan, Scan, fingerprint, with_parents};
use crate::position::{Checkpoint, Edit, Instant, Mode, Position};
use crate::read::{Read, first_request};
use crate::schema::TableSchema;
use crate::secret::Redactor;
use crate::storage::Location;

pub use origin::Origin;
pub use sample::Shape;

/// One API, ready to be read.
#[derive(Debug)]
pub struct Source {
    config: SourceConfig,
    client: Client,
    /// The store of each table's checkpoint, in the order of the tables.
    stores: Vec<Option<Arc<dyn CheckpointStore>>>,
    /// The columns that the document at a URL gives, by table; asked for once.
    described: OnceCell<HashMap<String, Result<Vec<Column>, String>>>,
    /// Exploded tables that somebody has named.
    exploded: Kept,
    /// Of its ledgers and outputs.
    effects: Effects,
}

/// Tables that are made when they are first named, and then stay.
#[derive(Debug, Default)]
struct Kept(OnceLock<Box<(TableConfig, Kept)>>);

impl Kept {
    fn named(&self, name: &str) -> Option<&TableConfig> {
        let mut at = self;
        while let Some(kept) = at.0.get() {
            if kept.0.name == name {
                return Some(&kept.0);
            }
            at = &kept.1;
        }
        None
    }

    /// Keeps a table; if somebody else has just kept it, theirs stays.
    fn keep(&self, table: &TableConfig) -> &TableConfig {
        let mut at = self;
        loop {
            let kept = at.0.get_or_init(|| Box::new((table.clone(), Self::default())));
            if kept.0.name == table.name {
                return &kept.0;
            }
            at = &kept.1;
        }
    }
}

impl Source {
    /// Loads a configuration file, checks it and makes the client. Sends nothing.
    ///
    /// # Errors
    /// Kind `Config` with all problems at once (R11).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::new(config::load::load(path.as_ref())?)
    }

    /// A source of a loaded configuration.
    pub fn new(config: SourceConfig) -> Result<Self> {
        let client = Client::new(&config, Redactor::default())?;
        let stores = stores(&config)?;
        Ok(Self {
            config,
            client,
            stores,
            described: OnceCell::new(),
            exploded: Kept::default(),
            effects: Effects::default(),
        })
    }

    /// Keeps the checkpoints in a store of your own instead of where the configuration says.
    #[must_use]
    pub fn checkpoints_in(mut self, store: &Arc<dyn CheckpointStore>) -> Self {
        for kept in self.stores.iter_mut().flatten() {
            *kept = Arc::clone(store);
        }
        self
    }

    /// Lets a test stop what its ledgers and outputs do to the world.
    #[must_use]
    pub fn watched(mut self, effects: Effects) -> Self {
        self.effects = effects;
        self
    }

    pub(crate) fn effects(&self) -> &Effects {
        &self.effects
    }

    /// The settings.
    pub fn config(&self) -> &SourceConfig {
        &self.config
    }

    /// What removes this source's secrets from texts (R23).
    pub fn redactor(&self) -> &Redactor {
        self.client.redactor()
    }

    /// A table by name: one of the configuration, or `<table>_<field>` of an array column (R31).
    ///
    /// # Errors
    /// Kind `Scan`, naming the tables there are, or the reason why an array column has no table.
    pub fn table(&self, name: &str) -> Result<Table<'_>> {
        let configured = self.config.tables.iter().find(|table| table.name == name);
        if let Some(config) = configured.or_else(|| self.exploded.named(name)) {
            return Ok(Table { config });
        }
        match config::named(&self.config.tables, name) {
            Named::Table(table) => Ok(Table { config: self.exploded.keep(&table) }),
            Named::Nothing(said) => Err(Error::new(ErrorKind::Scan, said).with("file", self.config.file.display())),
        }
    }

    /// Where the `openapi` document is, for messages.
    pub fn openapi(&self) -> Option<String> {
        self.config.openapi.as_ref().map(|place| match place {
            SpecPlace::File(path) => path.display().to_string(),
            SpecPlace::Url(url) => self.client.shown(url),
        })
    }

    /// The columns of a table; `None` where they are inferred from its first page.
    ///
    /// Where `openapi` is a URL, the first call asks there; otherwise nothing is sent.
    ///
    /// # Errors
    /// Kind `Schema`, naming the URL, when the document cannot be had or does not describe the table.
    pub async fn schema(&self, table: &str) -> Result<Option<TableSchema>> {
        Ok(crate::schema::for_table(&*self.resolved(self.table(table)?.config).await?))
    }

    /// The settings of a table with its columns, wherever they stand.
    async fn resolved<'a>(&self, table: &'a TableConfig) -> Result<Cow<'a, TableConfig>> {
        let Some(SpecPlace::Url(url)) = self.config.openapi.as_ref().filter(|_| table.awaits_columns()) else {
            return Ok(Cow::Borrowed(table));
        };
        let described = self.described.get_or_try_init(|| self.describe(url)).await?;
        let refuse = |why: String| {
            let said = self.redactor().scrub(&format!("the openapi document does not describe the table: {why}"));
            Error::new(ErrorKind::Schema, said).with("table", &table.name).with("url", self.client.shown(url))
        };
        let name = table.array().map_or(&table.name, |of| &of.table);
        let columns = described.get(name).cloned().unwrap_or_else(|| Err("it is not known".into()));
        with_columns(table, columns.map_err(refuse)?).map(Cow::Owned)
    }

    /// What the document at a URL says of every table that needs it.
    async fn describe(&self, url: &Url) -> Result<HashMap<String, Result<Vec<Column>, String>>> {
        let refuse = |why: &str| {
            let said = self.redactor().scrub(&format!("the openapi document {why}"));
            Error::new(ErrorKind::Schema, said).with("url", self.client.shown(url))
        };
        let response = self
            .client
            .document(url)
            .await
            .map_err(|e| refuse(&format!("cannot be had: {}", e.message())).caused_by(e))?;
        // A large document takes a while, and stops nothing else.
        let body = response.body.clone();
        let parsed = tokio::task::spawn_blocking(move || openapi::parse(&body)).await;
        let spec = parsed.unwrap_or_else(|_| Err("could not be parsed".into())).map_err(|why| refuse(&why))?;
        let waiting = self.config.tables.iter().filter(|table| table.awaits_columns());
        Ok(waiting.map(|table| (table.name.clone(), self.columns_of(&spec, table, &response.url))).collect())
    }

    fn columns_of(&self, spec: &Spec, table: &TableConfig, origin: &Url) -> Result<Vec<Column>, String> {
        let ask = Ask {
            url: &table.url,
            base: &self.config.base_url,
            origin: Some(origin),
            method: table.method.as_str(),
            data_path: table.data_path.as_ref(),
            is_paged: table.pagination.style != Style::None,
            is_streamed: self.config.http.response_format != ResponseFormat::Json,
            flatten_depth: table.schema.flatten_depth,
        };
        spec.columns(&ask).map_err(|fault| match fault.about {
            openapi::About::Endpoint => fault.message,
            openapi::About::DataPath => format!("data-path: {}", fault.message),
        })
    }

    /// Freezes a scan into a plan that begins now; loads the table's checkpoint.
    ///
    /// # Errors
    /// Kind `Store` for a stored position that cannot be used (R6): never a silent first run. Kind `Scan` for an
    /// unknown column. Kind `Schema` as [`Source::schema`].
    pub async fn plan(&self, scan: Scan) -> Result<Plan> {
        self.plan_at(scan, Utc::now()).await
    }

    /// The plan of a scan as far as it can be told without asking the API: columns that are still to be asked for or
    /// inferred are not known to it. For looking at, not for reading.
    ///
    /// # Errors
    /// As [`Source::plan`].
    pub async fn draft(&self, scan: Scan) -> Result<Plan> {
        let table = self.table(&scan.table)?.config;
        self.freeze(scan, table, table, Utc::now()).await
    }

    /// [`Source::plan`] with the clock passed in.
    pub async fn plan_at(&self, mut scan: Scan, now: Instant) -> Result<Plan> {
        let table = self.table(&scan.table)?;
        if let Some(columns) = scan.columns.take() {
            let resolved = with_columns(table.config, columns)?;
            return self.freeze(scan, table.config, &resolved, now).await;
        }
        let mut resolved = self.resolved(table.config).await?;
        if !scan.apart && resolved.is_sliced() && resolved.schema.mode == SchemaMode::Infer {
            let sample = self.sampled(&resolved, scan.filter.clone(), now).await?;
            if let Some(columns) = sample.and_then(|sample| sample.columns) {
                resolved = Cow::Owned(with_columns(&resolved, columns)?);
            }
        }
        self.freeze(scan, table.config, &resolved, now).await
    }

    async fn freeze(&self, scan: Scan, table: &TableConfig, resolved: &TableConfig, now: Instant) -> Result<Plan> {
        if let (Some(schema), Some(names)) = (crate::schema::for_table(resolved), &scan.select) {
            schema.project(names).map_err(|unknown| {
                let said = format!("there is no column {unknown:?}; columns: {}", schema.names().join(", "));
                Error::new(ErrorKind::Scan, said).with("table", &scan.table)
            })?;
        }
        let loaded = match table.checkpoint {
            Some(_) if !scan.apart && scan.batch.is_none() => Some(self.checkpoints().usable(table).await?),
            _ => None,
        };
        let local = match &table.checkpoint {
            Some(CheckpointConfig { location: Location::Local(dir), .. }) if scan.distributed && loaded.is_some() => {
                Some(format!(
                    "the checkpoint path {} is local: a task on another host leaves its receipt there, where nobody finds it; name \
                     a store, or a directory that all hosts share",
                    dir.display()
                ))
            }
            _ => None,
        };
        let mut plan = Plan::freeze(scan, &self.config, resolved, loaded, unique_id(now), now)?;
        plan.warnings.extend(local);
        Ok(plan)
    }

    /// Starts reading a partition; must be called inside a Tokio runtime.
    ///
    /// # Errors
    /// Kind `Scan` when this source's table is not the one that was planned.
    pub fn read(&self, partition: &Partition) -> Result<Read> {
        Read::start(&self.client, &self.config, &*self.planned(partition)?, partition)
    }

    /// The request that a partition begins with, as messages may show it: nothing is sent. `{key}` stands where a
    /// parent's key will.
    ///
    /// # Errors
    /// Kind `Scan` for a table that this source does not have.
    pub fn first_request(&self, partition: &Partition) -> Result<String> {
        let request = first_request(self.table(&partition.table)?.config, partition)?;
        let url = self.client.shown(&request.url).replace("%7B", "{").replace("%7D", "}");
        let body = request.body.map(|body| format!(" {}", self.redactor().scrub(&body))).unwrap_or_default();
        Ok(format!("{} {url}{body}", request.method.as_str()))
    }

    /// The table of a partition, with the columns it was planned with.
    pub(crate) fn planned(&self, partition: &Partition) -> Result<Cow<'_, TableConfig>> {
        let table = self.table(&partition.table)?;
        if with_parents(&self.config, table.config) != partition.fingerprint {
            let said = "the partition was planned with another configuration of this table: plan it again";
            return Err(Error::new(ErrorKind::Scan, said).with("table", &partition.table));
        }
        match partition.columns.clone() {
            Some(columns) => with_columns(table.config, columns).map(Cow::Owned),
            None if table.config.awaits_columns() => {
                let said = "the partition was planned without the columns of the openapi document: plan it again";
                Err(Error::new(ErrorKind::Scan, said).with("table", &partition.table))
            }
            None => Ok(Cow::Borrowed(table.config)),
        }
    }

    fn store(&self, table: &TableConfig) -> Option<&dyn CheckpointStore> {
        let at = self.config.tables.iter().position(|other| other.name == table.name)?;
        self.stores.get(at)?.as_deref()
    }

    fn enabled<'a>(&'a self, table: &'a TableConfig) -> Result<(&'a dyn CheckpointStore, &'a CheckpointConfig)> {
        self.store(table).zip(table.checkpoint.as_ref()).ok_or_else(|| {
            Error::new(ErrorKind::Scan, "this table has no enabled checkpoint").with("table", &table.name)
        })
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

impl<'a> Table<'a> {
    /// Its settings.
    pub fn config(&self) -> &'a TableConfig {
        self.config
    }

    /// The columns, when they are known without asking anybody (strict and variant); see [`Source::schema`].
    pub fn schema(&self) -> Option<TableSchema> {
        crate::schema::for_table(self.config)
    }

    /// A scan of the whole table from its checkpoint.
    pub fn scan(&self) -> Scan {
        Scan::of(&self.config.name)
    }
}

/// The checkpoints of a source.
#[derive(Debug, Clone, Copy)]
pub struct Checkpoints<'a> {
    source: &'a Source,
}

impl Checkpoints<'_> {
    /// Moves a checkpoint: the only way there is. Committing the same plan again is success (R8).
    ///
    /// # Errors
    /// Kind `Conflict` when another run moved it first; kind `Store` when it cannot be written.
    pub async fn commit(&self, commit: &Commit) -> Result<()> {
        let table = self.source.table(commit.table())?;
        match self.source.store(table.config) {
            Some(store) => store.commit(commit, Utc::now()).await,
            None => Ok(()),
        }
    }

    /// What stands in the store, unread.
    pub(crate) async fn bytes(&self, table: &str) -> Result<Option<Vec<u8>>> {
        let table = self.source.table(table)?.config;
        match self.source.store(table) {
            Some(store) => store.load(&table.name).await,
            None => Ok(None),
        }
    }

    /// The stored checkpoint of a table; `None` is a first run, or a table without a checkpoint.
    ///
    /// # Errors
    /// Kind `Store` for a file that is not a readable position of this table's mode and read (R6).
    pub async fn load(&self, table: &str) -> Result<Option<Checkpoint>> {
        let table = self.source.table(table)?;
        match table.config.checkpoint {
            Some(_) => self.usable(table.config).await.map(|(_, checkpoint)| checkpoint),
            None => Ok(None),
        }
    }

    /// Sets a position by hand, under the protocol of any commit; `who` and the time are recorded in the file.
    ///
    /// `value` is what the file would hold: a cursor, a number, a timestamp in the table's format, a token.
    ///
    /// # Errors
    /// Kind `Config` for a value that the table's mode cannot hold; otherwise as [`Checkpoints::commit`].
    pub async fn set(&self, table: &str, value: &str, who: &str) -> Result<Checkpoint> {
        let table = self.source.table(table)?.config;
        let (store, mode) = self.source.enabled(table)?;
        let position = position_of(value, mode)?;
        if self.source.redactor().finds(value) {
            return Err(Error::new(ErrorKind::Config, "the value holds a credential: it cannot be stored (R23)"));
        }
        let now = Utc::now();
        let bytes = store.load(&table.name).await?;
        let old = bytes.as_deref().and_then(|bytes| Checkpoint::parse(bytes).ok());
        let from = match (&old, &bytes) {
            (Some(old), _) => Some(old.position.to_string()),
            (None, Some(_)) => Some("an unreadable file".to_owned()),
            (None, None) => None,
        };
        let edit = Edit { who: who.to_owned(), at: now, from };
        let print = fingerprint(&self.source.config, table);
        let loaded = (Base::of(bytes.as_deref()), old);
        let commit = Commit::by_hand(&table.name, unique_id(now), loaded, position.clone(), print, edit);
        store.commit(&commit, now).await?;
        Ok(self.load(&table.name).await?.unwrap_or_else(|| Checkpoint::at(position)))
    }

    /// Removes a stored position, readable or not; `false` if there was none. As before [`Checkpoints::set`], an epoch that
    /// was decided and not done has to be finished (`restmark::run::finish`), or it moves the position again.
    pub async fn clear(&self, table: &str) -> Result<bool> {
        let table = self.source.table(table)?.config;
        self.source.enabled(table)?.0.clear(&table.name).await
    }

    /// The file of a table's checkpoint, for messages; `None` without an enabled checkpoint.
    pub fn path(&self, table: &str) -> Option<String> {
        let table = self.source.table(table).ok()?.config;
        self.source.store(table).map(|store| store.describe(&table.name))
    }

    /// What stands in the store, if it belongs to this table's read (R6).
    async fn usable(&self, table: &TableConfig) -> Result<(Base, Option<Checkpoint>)> {
        let (store, config) = self.source.enabled(table)?;
        let bytes = store.load(&table.name).await?;
        let base = Base::of(bytes.as_deref());
        let Some(bytes) = bytes else { return Ok((base, None)) };
        let checkpoint = Checkpoint::parse(&bytes).and_then(|checkpoint| {
            let (stored, wanted) = (checkpoint.position.mode(), config.mode.mode());
            if stored != wanted {
                return Err(format!("it holds a {stored}, the table's mode is {wanted}"));
            }
            if let (Position::Timestamp(text), Some(format)) = (&checkpoint.position, config.timestamp_format())
                && format.parse(text).is_none()
            {
                return Err(format!("its timestamp {text:?} does not read as {format}"));
            }
            let print = fingerprint(&self.source.config, table);
            if checkpoint.fingerprint.as_ref().is_some_and(|stored| *stored != print) {
                return Err("it belongs to another read: the base URL, endpoint, fixed parameters, body, paging or \
                            paths of this table have changed since"
                    .to_owned());
            }
            Ok(checkpoint)
        });
        match checkpoint {
            Ok(checkpoint) => Ok((base, Some(checkpoint))),
            Err(why) => {
                let file = store.describe(&table.name);
                let (source, name) = (self.source.config.file.display(), &table.name);
                Err(Error::new(
                    ErrorKind::Store,
                    format!(
                        "the stored checkpoint {file} cannot be used: {why}; to mend it: restmark checkpoint clear \
                         {source} {name} (reads everything again) or restmark checkpoint set {source} {name} VALUE"
                    ),
                )
                .with("table", name))
            }
        }
    }
}

/// A table with columns of the document, which must leave the rest-column its name.
fn with_columns(table: &TableConfig, columns: Vec<Column>) -> Result<TableConfig> {
    if let Some(column) = columns.iter().find(|column| Some(&column.name) == table.schema.rest_column.as_ref()) {
        let said = format!("the field {} would be column `{}`, which is the rest-column", column.path, column.name);
        return Err(Error::new(ErrorKind::Schema, said).with("table", &table.name));
    }
    Ok(TableConfig { columns, ..table.clone() })
}

/// One store for each place, however many tables keep their checkpoints there.
fn stores(config: &SourceConfig) -> Result<Vec<Option<Arc<dyn CheckpointStore>>>> {
    let mut open: Vec<(&Location, Arc<dyn CheckpointStore>)> = Vec::new();
    let mut stores = Vec::new();
    for table in &config.tables {
        let Some(CheckpointConfig { location, .. }) = &table.checkpoint else {
            stores.push(None);
            continue;
        };
        let known = open.iter().find(|(place, _)| *place == location).map(|(_, store)| Arc::clone(store));
        let store = match known {
            Some(store) => store,
            None => commit::open(location, &config.storage).map_err(|e| e.with("table", &table.name))?,
        };
        open.push((location, Arc::clone(&store)));
        stores.push(Some(store));
    }
    Ok(stores)
}

fn now_in(config: &CheckpointConfig) -> String {
    config.timestamp_format().map(|format| format.render(Utc::now())).unwrap_or_default()
}

fn position_of(value: &str, config: &CheckpointConfig) -> Result<Position> {
    let refuse = |what: String| Error::new(ErrorKind::Config, what);
    if value.is_empty() {
        return Err(refuse(
            "an empty value is no position; restmark checkpoint clear makes the next read a first run".into(),
        ));
    }
    Ok(match config.mode.mode() {
        Mode::Cursor => Position::Cursor(value.to_owned()),
        Mode::Token => Position::Token(value.to_owned()),
        Mode::Offset => Position::Offset(
            value.parse().map_err(|_| refuse(format!("{value:?} is no offset: a whole number is needed")))?,
        ),
        Mode::Timestamp => {
            let format = config.timestamp_format();
            if format.is_none_or(|format| format.parse(value).is_none()) {
                let format = format.map(ToString::to_string).unwrap_or_default();
                return Err(refuse(format!(
                    "{value:?} is no timestamp of the table's format {format}; now would be {}",
                    now_in(config)
                )));
            }
            Position::Timestamp(value.to_owned())
        }
    })
}

/// Unique among all plans of all runs: the time and 64 random bits.
fn unique_id(now: Instant) -> String {
    format!("{}-{:016x}", now.format("%Y%m%dT%H%M%S%3fZ"), fastrand::u64(..))
}
