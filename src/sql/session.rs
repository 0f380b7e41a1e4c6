//! A DataFusion session over sources, whose tables are looked at when a query names them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::internal_datafusion_err;
use datafusion::error::{DataFusionError, Result as Answer};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::TableType;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::aggregate::AskEndpoints;
use super::failure::external;
use super::table::RestTable;
use crate::counts::Counts;
use crate::error::ErrorKind;
use crate::source::Source;

/// The tables of a source: those of the configuration, and `<table>_<field>` of array columns (R31).
///
/// A table that no query names is not asked for; an inferred one keeps the columns of its first rows.
#[derive(Debug)]
pub struct RestSchema {
    source: Arc<Source>,
    known: Mutex<HashMap<String, Arc<RestTable>>>,
}

impl RestSchema {
    /// The tables of a source.
    pub fn new(source: Arc<Source>) -> Self {
        Self { source, known: Mutex::default() }
    }

    /// The loss report of each table that queries named so far, by name (R25).
    pub fn counts(&self) -> Vec<(String, Counts)> {
        let known = self.known.lock();
        let mut counts: Vec<_> =
            known.iter().flat_map(|known| known.iter()).map(|(name, table)| (name.clone(), table.counts())).collect();
        counts.sort_by(|(one, _), (other, _)| one.cmp(other));
        counts
    }

    fn known(&self, name: &str) -> Option<Arc<RestTable>> {
        self.known.lock().ok()?.get(name).cloned()
    }
}

#[async_trait]
impl SchemaProvider for RestSchema {
    fn table_names(&self) -> Vec<String> {
        self.source.config().tables.iter().map(|table| table.name.clone()).collect()
    }

    async fn table(&self, name: &str) -> Answer<Option<Arc<dyn TableProvider>>, DataFusionError> {
        if let Some(table) = self.known(name) {
            return Ok(Some(table));
        }
        // Said by us, since we know which tables there are.
        self.source.table(name).map_err(external)?;
        let table = Arc::new(RestTable::new(Arc::clone(&self.source), name).await.map_err(external)?);
        if let Ok(mut known) = self.known.lock() {
            known.insert(name.to_owned(), Arc::clone(&table));
        }
        Ok(Some(table))
    }

    async fn table_type(&self, name: &str) -> Answer<Option<TableType>> {
        Ok(self.table_exist(name).then_some(TableType::Base))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.source.table(name).is_ok()
    }
}

/// A session over the tables of a source. Names are read as they are written, quoted or not.
///
/// `parallel` is how many partitions of a table are read at a time; `None` is the number of cores.
///
/// # Errors
/// Kind `Bug`, when DataFusion does not take the tables.
pub fn session(tables: Arc<RestSchema>, parallel: Option<usize>) -> crate::Result<SessionContext> {
    let mut config = SessionConfig::new();
    if let Some(parallel) = parallel {
        config = config.with_target_partitions(parallel.max(1));
    }
    config.options_mut().sql_parser.enable_ident_normalization = false;
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_optimizer_rule(Arc::new(AskEndpoints))
        .build();
    let context = SessionContext::new_with_state(state);
    let schema = context.state().config_options().catalog.default_schema.clone();
    add(&context, &schema, tables)?;
    Ok(context)
}

/// Adds the tables of another source as `<schema>.<table>`.
///
/// # Errors
/// As [`session`].
pub fn add(context: &SessionContext, schema: &str, tables: Arc<RestSchema>) -> crate::Result<()> {
    let name = context.state().config_options().catalog.default_catalog.clone();
    let catalog = context.catalog(&name).ok_or_else(|| internal_datafusion_err!("there is no catalog {name}"));
    let added = catalog.and_then(|catalog| catalog.register_schema(schema, tables));
    added.map(|_| ()).map_err(|error| crate::Error::new(ErrorKind::Bug, format!("no schema {schema}: {error}")))
}
