//! The log of a Delta table, by the Delta kernel: what the table is, and one commit more.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::builder::{MapBuilder, MapFieldNames, StringBuilder};
use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, StructArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use delta_kernel::committer::{CommitMetadata, CommitResponse, Committer, FileSystemCommitter, PublishMetadata};
use delta_kernel::engine::arrow_conversion::TryFromArrow as _;
use delta_kernel::engine::arrow_data::ArrowEngineData;
use delta_kernel::schema::StructType;
use delta_kernel::snapshot::{Snapshot, SnapshotRef};
use delta_kernel::table_features::ColumnMappingMode;
use delta_kernel::transaction::create_table::create_table;
use delta_kernel::transaction::{CommitResult, UpdateTableOperation};
use delta_kernel::{FilteredEngineData, KernelError, KernelResult, KernelResultIterator};
use delta_kernel_default_engine::executor::tokio::TokioMultiThreadExecutor;
use delta_kernel_default_engine::{DefaultEngine, DefaultEngineBuilder};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tokio::runtime::{Handle, RuntimeFlavor};

use super::super::files::is_delta_table;
use super::store::LogStore;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::shelf::Shelf;

/// The table's directory as its store knows it; only the path counts.
const ROOT: &str = "memory:///";

/// Who writes, as the table's history says it.
const WRITER: &str = concat!("restmark/", env!("CARGO_PKG_VERSION"));

/// So many commits of others may come before ours; then it is an error.
const TRIES: u32 = 64;

/// Between two tries, so that two writers do not meet again and again; at random up to this.
const PAUSE: Duration = Duration::from_millis(50);

/// Commits from one checkpoint of the log to the next, unless the table says otherwise.
const CHECKPOINT_EVERY: u64 = 100;

/// What a path of the log holds that is no part of a name (RFC 3986).
const NOT_IN_PATHS: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}')
    .add(b'/');

/// What columns of a Delta table may not be called by.
const NOT_IN_NAMES: &[char] = &[' ', ',', ';', '{', '}', '(', ')', '\n', '\t', '='];

type Engine = DefaultEngine<TokioMultiThreadExecutor>;

/// The log of the table in a directory.
#[derive(Clone)]
pub(super) struct Log {
    table: Shelf,
    engine: Arc<Engine>,
}

/// What one commit says.
#[derive(Debug, Clone)]
pub(super) struct Change {
    /// Tells this commit from any other of the same application: `(id, version)`.
    pub(super) transaction: Option<(String, u64)>,
    pub(super) files: Vec<Added>,
    pub(super) rows: Rows,
}

/// What becomes of the rows that are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    /// They stay.
    Join,
    /// They go, as they stood at this version; `None` is no table.
    Replace(Option<u64>),
}

impl Rows {
    /// As the table's history calls it.
    fn mode(self) -> &'static str {
        match self {
            Self::Join => "Append",
            Self::Replace(_) => "Overwrite",
        }
    }
}

/// A file of rows.
#[derive(Debug, Clone)]
pub(super) struct Added {
    pub(super) name: String,
    /// In bytes.
    pub(super) size: u64,
    pub(super) rows: u64,
    /// Milliseconds since 1970.
    pub(super) modified: i64,
}

/// A table as it stood when it was looked at.
#[derive(Debug, Clone)]
pub(super) struct Known(SnapshotRef);

impl Known {
    /// Of its last commit.
    pub(super) fn version(&self) -> u64 {
        self.0.version()
    }

    /// Whether rows of these columns belong into the table.
    ///
    /// # Errors
    /// Kind `Config` with the first column that does not.
    pub(super) fn takes(&self, rows: &Schema) -> Result<()> {
        let (ours, theirs) = (columns(rows)?, self.0.schema());
        for field in ours.fields() {
            match theirs.field(field.name()) {
                Some(there)
                    if there.data_type() == field.data_type()
                        && (there.is_nullable() || !is_nullable(rows, field.name())) => {}
                Some(there) => {
                    let (is, null) = (there.data_type(), if there.is_nullable() { "" } else { " NOT NULL" });
                    let said =
                        format!("column {} is {is}{null} in the Delta table, {} here", field.name(), field.data_type());
                    return Err(refused(&said));
                }
                None => {
                    let said = format!(
                        "the Delta table has no column {}: add it there (ALTER TABLE ... ADD COLUMN), or leave it out with --select",
                        field.name()
                    );
                    return Err(refused(&said));
                }
            }
        }
        match theirs.fields().find(|there| !there.is_nullable() && ours.field(there.name()).is_none()) {
            Some(lacking) => {
                Err(refused(&format!("column {} of the Delta table is NOT NULL, and is not read", lacking.name())))
            }
            None => Ok(()),
        }
    }
}

impl Log {
    /// The log of the table in this directory, which need not exist.
    ///
    /// # Errors
    /// Kind `Config` outside a runtime of several threads.
    pub(super) fn new(table: Shelf) -> Result<Self> {
        let handle = Handle::current();
        if handle.runtime_flavor() != RuntimeFlavor::MultiThread {
            return Err(refused("a Delta table can be written only on a runtime of several threads"));
        }
        let store = Arc::new(LogStore::new(table.clone()));
        let executor = Arc::new(TokioMultiThreadExecutor::new(handle));
        let engine = Arc::new(DefaultEngineBuilder::new(store).with_task_executor(executor).build());
        Ok(Self { table, engine })
    }

    /// The table as it is now; `None` if there is none.
    pub(super) async fn look(&self) -> Result<Option<Known>> {
        if !is_delta_table(&self.table).await? {
            return Ok(None);
        }
        self.on_kernel(|engine| Snapshot::builder_for(ROOT).build(engine).map(Known).map(Some)).await
    }

    /// Whether one more commit of ours could be made: everything of it is done but the writing.
    ///
    /// # Errors
    /// Kind `Store` for a table that we cannot write to, as one that is partitioned by its columns.
    pub(super) async fn rehearse(&self, known: &Known, replaces: bool) -> Result<()> {
        let files = vec![Added { name: "rehearsal".to_owned(), size: 0, rows: 0, modified: 0 }];
        let rows = if replaces { Rows::Replace(Some(known.version())) } else { Rows::Join };
        let (known, change) = (known.0.clone(), Change { transaction: None, files, rows });
        self.on_kernel(move |engine| {
            attempt(engine, Some(known), &change, &Schema::empty(), Box::new(Rehearsal)).map(drop)
        })
        .await
    }

    /// The names of the files that hold the table's rows now.
    pub(super) async fn files(&self, known: &Known) -> Result<BTreeSet<String>> {
        let snapshot = known.0.clone();
        self.on_kernel(move |engine| {
            let mut names = BTreeSet::new();
            for found in snapshot.scan_builder().build()?.scan_metadata(engine)? {
                names = found?.visit_scan_files(names, |names, file| {
                    let decoded = percent_encoding::percent_decode_str(&file.path).decode_utf8_lossy();
                    names.insert(decoded.into_owned());
                })?;
            }
            Ok(names)
        })
        .await
    }

    /// Whether this commit of an application has been made.
    pub(super) async fn holds(&self, known: &Known, application: &str, version: u64) -> Result<bool> {
        let (snapshot, application) = (known.0.clone(), application.to_owned());
        let newest = self.on_kernel(move |engine| snapshot.get_app_id_version(&application, engine)).await?;
        Ok(newest.and_then(|newest| u64::try_from(newest).ok()).is_some_and(|newest| newest >= version))
    }

    /// Adds the change to the table as it was `known`, which has not seen it; after whatever others commit meanwhile.
    ///
    /// `rows` is the schema of the files; a table that does not exist is made with it.
    ///
    /// # Errors
    /// Kind `Config` where the table does not take such rows; kind `Conflict` where it changed since it was to be
    /// replaced; kind `Store` for a table or a store that cannot be used.
    pub(super) async fn commit(&self, change: Change, rows: SchemaRef, mut known: Option<Known>) -> Result<()> {
        for tries in 0..TRIES {
            if tries > 0 {
                tokio::time::sleep(PAUSE.mul_f64(fastrand::f64())).await;
                known = self.look().await?;
                if let (Some(known), Some((application, version))) = (&known, &change.transaction)
                    && self.holds(known, application, *version).await?
                {
                    return Ok(());
                }
            }
            if matches!(change.rows, Rows::Replace(version) if version != known.as_ref().map(Known::version)) {
                let said = "conflict: the Delta table was changed while this run read; nothing of it was replaced";
                return Err(self.at(Error::new(ErrorKind::Conflict, said)));
            }
            if let Some(known) = &known {
                known.takes(&rows).map_err(|error| self.at(error))?;
            }
            let (snapshot, change, rows) = (known.take().map(|known| known.0), change.clone(), rows.clone());
            let made = self.on_kernel(move |engine| {
                attempt(engine, snapshot, &change, &rows, Box::new(FileSystemCommitter::new()))
            });
            if let Some(after) = made.await? {
                self.keep_short(after).await;
                return Ok(());
            }
        }
        let said = format!("conflict: others committed to the Delta table {TRIES} times before this run could");
        Err(self.at(Error::new(ErrorKind::Conflict, said)))
    }

    /// Writes a checkpoint of the log now and then, so that nobody has to read all of it. One that fails does no harm.
    async fn keep_short(&self, after: SnapshotRef) {
        let every = after.table_properties().checkpoint_interval.map_or(CHECKPOINT_EVERY, Into::into);
        if after.version() == 0 || !after.version().is_multiple_of(every) {
            return;
        }
        if let Err(error) = self.on_kernel(move |engine| after.checkpoint(engine, None).map(drop)).await {
            tracing::warn!("the log of the Delta table got no checkpoint: {error}");
        }
    }

    /// Work of the kernel, which blocks.
    async fn on_kernel<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Engine) -> KernelResult<T> + Send + 'static,
    ) -> Result<T> {
        let engine = Arc::clone(&self.engine);
        let done = tokio::task::spawn_blocking(move || work(&engine)).await;
        let done = done.map_err(|e| Error::new(ErrorKind::Bug, "work on the Delta log ended early").caused_by(e))?;
        done.map_err(|e| self.at(Error::new(ErrorKind::Store, format!("the Delta table cannot be used: {}", said(&e)))))
    }

    fn at(&self, error: Error) -> Error {
        error.with("path", self.table.describe(""))
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Log").field(&self.table).finish()
    }
}

/// Whether a table can have these columns.
///
/// # Errors
/// Kind `Config` with the first that it cannot.
pub(super) fn columns(rows: &Schema) -> Result<StructType> {
    let mut seen = HashSet::new();
    for name in rows.fields().iter().map(|field| field.name()) {
        if name.contains(NOT_IN_NAMES) {
            return Err(refused(&format!(
                "column {name:?} cannot be one of a Delta table: {NOT_IN_NAMES:?} are not for names"
            )));
        }
        if !seen.insert(name.to_lowercase()) {
            return Err(refused(&format!("a Delta table has no two columns {name:?} that differ in case alone")));
        }
    }
    // Every column may be missing from a record of tomorrow.
    let fields: Vec<Field> =
        rows.fields().iter().map(|field| Field::new(field.name(), field.data_type().clone(), true)).collect();
    StructType::try_from_arrow(&Schema::new(fields))
        .map_err(|e| refused(&format!("no Delta table has such columns: {e}")))
}

/// One try; the table after it, or `None` if another writer was faster.
fn attempt(
    engine: &Engine,
    known: Option<SnapshotRef>,
    change: &Change,
    rows: &Schema,
    committer: Box<dyn Committer>,
) -> KernelResult<Option<SnapshotRef>> {
    let transaction = change.transaction.as_ref();
    let transaction = transaction.map(|(id, version)| (id.clone(), i64::try_from(*version).unwrap_or(i64::MAX)));
    let added = (!change.files.is_empty()).then(|| adds(&change.files)).transpose()?;
    let Some(known) = known else {
        let Some(added) = added else { return Ok(None) };
        let schema = columns(rows).map_err(|error| KernelError::generic(error.to_string()))?;
        let mut builder = create_table(ROOT, Arc::new(schema), WRITER, true);
        if let Some((id, version)) = transaction {
            builder = builder.with_transaction_id(id, version);
        }
        let mut made = builder.build(engine, committer)?;
        made.add_files(Box::new(ArrowEngineData::new(added)));
        return ended(made.commit(engine)?, engine);
    };
    let mut builder = Arc::clone(&known).update_table(UpdateTableOperation::Write, WRITER, true);
    if let Some((id, version)) = transaction {
        builder = builder.with_transaction_id(id, version);
    }
    builder = builder.with_operation_parameters([("mode", Some(change.rows.mode()))]);
    if change.rows == Rows::Join {
        builder = builder.with_blind_append();
    }
    let mut made = builder.build(engine, committer)?;
    if !made.logical_partition_columns().is_empty() {
        return Err(KernelError::unsupported("it is partitioned by columns, which restmark does not write"));
    }
    if made.write_state()?.write_context_builder().build()?.column_mapping_mode() != ColumnMappingMode::None {
        return Err(KernelError::unsupported("it maps its columns to other names, which restmark does not write"));
    }
    if change.rows != Rows::Join {
        for found in known.scan_builder().build()?.scan_metadata(engine)? {
            made.remove_files(found?.scan_files);
        }
    }
    if let Some(added) = added {
        made.add_files(Box::new(ArrowEngineData::new(added)));
    }
    ended(made.commit(engine)?, engine)
}

fn ended<S: fmt::Debug>(result: CommitResult<S>, engine: &Engine) -> KernelResult<Option<SnapshotRef>> {
    match result {
        CommitResult::Committed(done) => match done.post_commit_snapshot() {
            Some(snapshot) => Ok(Some(snapshot.clone())),
            None => Snapshot::builder_for(ROOT).build(engine).map(Some),
        },
        CommitResult::Conflicted(_) => Ok(None),
        CommitResult::Retryable(failed) => Err(failed.error),
    }
}

/// Takes a commit and loses it, as if another writer had been faster.
struct Rehearsal;

impl Committer for Rehearsal {
    fn commit(
        &self,
        _: &dyn delta_kernel::Engine,
        mut actions: KernelResultIterator<'_, FilteredEngineData>,
        commit: CommitMetadata,
    ) -> KernelResult<CommitResponse> {
        actions.try_for_each(|action| action.map(drop))?;
        Ok(CommitResponse::Conflict { version: commit.version() })
    }

    fn is_catalog_committer(&self) -> bool {
        false
    }

    fn publish(&self, _: &dyn delta_kernel::Engine, _: PublishMetadata) -> KernelResult<()> {
        Ok(())
    }
}

/// The rows of the log that add these files.
fn adds(files: &[Added]) -> KernelResult<RecordBatch> {
    let of = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let paths = files.iter().map(|file| utf8_percent_encode(&file.name, NOT_IN_PATHS).to_string());
    let names = MapFieldNames { entry: "key_value".into(), key: "key".into(), value: "value".into() };
    let mut partitions = MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new());
    for _ in files {
        partitions.append(true)?;
    }
    let partitions: ArrayRef = Arc::new(partitions.finish());
    let stats = StructArray::from(vec![
        (
            Arc::new(Field::new("numRecords", DataType::Int64, true)),
            of(files.iter().map(|file| signed(file.rows)).collect()),
        ),
        (
            Arc::new(Field::new("tightBounds", DataType::Boolean, true)),
            Arc::new(BooleanArray::from(vec![true; files.len()])) as ArrayRef,
        ),
    ]);
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("path", Arc::new(StringArray::from_iter_values(paths)), false),
        ("partitionValues", partitions, false),
        ("size", of(files.iter().map(|file| signed(file.size)).collect()), false),
        ("modificationTime", of(files.iter().map(|file| file.modified).collect()), false),
        ("stats", Arc::new(stats), true),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(columns)?)
}

fn is_nullable(rows: &Schema, name: &str) -> bool {
    rows.field_with_name(name).is_ok_and(Field::is_nullable)
}

/// What the kernel says, without the calls that led to it.
fn said(error: &KernelError) -> String {
    match error {
        KernelError::Backtraced { source, .. } => said(source),
        error => error.to_string(),
    }
}

fn refused(said: &str) -> Error {
    Error::new(ErrorKind::Config, said)
}
