//! The catalog that DataFusion plans against: the tables and views of one snapshot.

use crate::error::from_datafusion;
use crate::file::table_from_path;
use crate::information_schema::{INFORMATION_SCHEMA, InformationSchema};
use crate::scan::StoredTable;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, MemTable, SchemaProvider, TableProvider};
use datafusion::common::DFSchema;
use datafusion::datasource::ViewTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, TableType};
use hypostyle_storage::{SCHEMA_MAIN, Snapshot, TableData};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

/// The name of our catalog in three-part names.
pub(crate) const CATALOG: &str = "hypostyle";

/// In front of a schema's name: its tables with the positions of their rows.
pub(crate) const WITH_POSITIONS: &str = "__positions:";

/// In front of a position, a colon and a schema's name: the same, from that position on.
pub(crate) const FROM_POSITION: &str = "__from:";

/// Rows that belong to the caller, such as a data frame, found by name.
#[derive(Clone, Debug)]
pub struct ExternalTable {
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
}

/// Asked for a name that no table or view has.
pub type TableResolver = Arc<dyn Fn(&str) -> Option<hypostyle_types::Result<ExternalTable>> + Send + Sync>;

/// What one session plans against; the session changes it between statements.
pub(crate) struct Scope {
    pub snapshot: RwLock<Arc<Snapshot>>,
    pub resolver: RwLock<Option<TableResolver>>,
    /// Tables of the running statement, such as the rows that it has written.
    pub given: RwLock<HashMap<String, Arc<dyn TableProvider>>>,
    state: OnceLock<Weak<RwLock<SessionState>>>,
}

impl std::fmt::Debug for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").field("version", &self.snapshot.read().version()).finish_non_exhaustive()
    }
}

impl Scope {
    pub fn new(snapshot: Arc<Snapshot>) -> Arc<Self> {
        Arc::new(Self {
            snapshot: RwLock::new(snapshot),
            resolver: RwLock::new(None),
            given: RwLock::default(),
            state: OnceLock::new(),
        })
    }

    /// Views and defaults are SQL text: planning them needs the session.
    pub fn bind(&self, state: Weak<RwLock<SessionState>>) {
        let _already = self.state.set(state);
    }

    pub fn state(&self) -> Result<SessionState> {
        let state = self.state.get().and_then(Weak::upgrade);
        let state = state.ok_or_else(|| DataFusionError::Internal("the session is closed".into()))?;
        let state = state.read().clone();
        Ok(state)
    }
}

#[derive(Debug)]
pub(crate) struct SnapshotCatalog(pub Arc<Scope>);

impl CatalogProvider for SnapshotCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.0.snapshot.read().catalog().schemas.iter().map(|schema| schema.name.clone()).collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if name == INFORMATION_SCHEMA {
            let schema = InformationSchema::new(self.0.clone(), Arc::new(Self(self.0.clone())))?;
            return Some(Arc::new(schema));
        }
        let (name, positions) = from_position(name);
        self.0.snapshot.read().catalog().has_schema(name).then(|| {
            let schema = SnapshotSchema { scope: self.0.clone(), name: name.to_string(), positions };
            Arc::new(schema) as Arc<dyn SchemaProvider>
        })
    }
}

#[derive(Debug)]
struct SnapshotSchema {
    scope: Arc<Scope>,
    name: String,
    /// Tables have the positions of their rows as a column, and only the rows from here on.
    positions: Option<u64>,
}

/// A schema's name, and the position from which rows are wanted with theirs.
fn from_position(name: &str) -> (&str, Option<u64>) {
    if let Some(name) = name.strip_prefix(WITH_POSITIONS) {
        return (name, Some(0));
    }
    let from = name.strip_prefix(FROM_POSITION).and_then(|rest| rest.split_once(':'));
    let from = from.and_then(|(position, name)| Some((name, position.parse().ok()?)));
    from.map_or((name, None), |(name, position)| (name, Some(position)))
}

#[async_trait]
impl SchemaProvider for SnapshotSchema {
    fn table_names(&self) -> Vec<String> {
        let snapshot = self.scope.snapshot.read();
        let catalog = snapshot.catalog();
        let tables = catalog.tables.iter().filter(|table| table.schema == self.name).map(|table| &table.name);
        let views = catalog.views.iter().filter(|view| view.schema == self.name).map(|view| &view.name);
        tables.chain(views).cloned().collect()
    }

    fn table_exist(&self, name: &str) -> bool {
        let snapshot = self.scope.snapshot.read();
        snapshot.catalog().table(&self.name, name).is_some()
            || snapshot.catalog().view(&self.name, name).is_some()
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        let snapshot = self.scope.snapshot.read();
        let (table, view) =
            (snapshot.catalog().table(&self.name, name), snapshot.catalog().view(&self.name, name));
        Ok(table.map(|_| TableType::Base).or(view.map(|_| TableType::View)))
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let snapshot = self.scope.snapshot.read().clone();
        if let Some(given) = self.scope.given.read().get(name) {
            return Ok(Some(given.clone()));
        }
        if let Some(data) = snapshot.table(&self.name, name) {
            let data = data.clone();
            if let Some(first) = self.positions {
                return Ok(Some(Arc::new(StoredTable::with_positions(data, snapshot, first))));
            }
            let defaults = defaults(&self.scope, &data).await?;
            return Ok(Some(Arc::new(StoredTable::new(data, snapshot, defaults))));
        }
        if let Some(view) = snapshot.catalog().view(&self.name, name) {
            let state = self.scope.state()?;
            let sql = view.sql.clone();
            let plan =
                Box::pin(async move { state.create_logical_plan(&sql).await }).await.map_err(|error| {
                    let error = from_datafusion(error).context(format!("view \"{name}\""));
                    DataFusionError::External(Box::new(error))
                })?;
            return Ok(Some(Arc::new(ViewTable::new(plan, Some(view.sql.clone())))));
        }
        // DataFusion also asks for the names of table functions: an unknown name is no error here.
        if self.name != SCHEMA_MAIN {
            return Ok(None);
        }
        let resolver = self.scope.resolver.read().clone();
        if let Some(found) = resolver.and_then(|resolver| resolver(name)) {
            let found = found.map_err(external)?;
            return Ok(Some(Arc::new(MemTable::try_new(found.schema, vec![found.batches])?)));
        }
        let state = self.scope.state()?;
        match table_from_path(&state, name).await {
            Some(found) => found.map(Some).map_err(external),
            None => Ok(None),
        }
    }
}

fn external(error: hypostyle_types::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The planned DEFAULT expressions of a table.
async fn defaults(scope: &Scope, data: &TableData) -> Result<HashMap<String, Expr>> {
    let mut defaults = HashMap::new();
    for column in &data.entry().columns {
        if let Some(sql) = &column.default {
            let state = scope.state()?;
            defaults.insert(column.name.clone(), state.create_logical_expr(sql, &DFSchema::empty())?);
        }
    }
    Ok(defaults)
}
