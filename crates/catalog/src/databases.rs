//! The catalogs that DataFusion plans against: the tables and views of the session's databases.
//!
//! A name of three parts is looked up unchanged. In front of shorter names DataFusion puts
//! [`SEARCH`], under which [`Scope::resolve`] resolves them.

use crate::foreign::ForeignCatalog;
use crate::given::Relation;
use crate::information_schema::InformationSchema;
use crate::of_cluster::{of_cluster, of_cluster_with_places, staged, with_places};
use crate::pg_catalog;
use crate::pg_catalog::standard::INFORMATION_SCHEMA;
use crate::pg_catalog::{PG_CATALOG, PgCatalog};
use crate::planning_error::planning_error;
use crate::scope::{Callers, Name, SEARCH, Scope};
use crate::sequence_default::default_of;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, MemTable, SchemaProvider, TableProvider};
use datafusion::common::DFSchema;
use datafusion::datasource::ViewTable;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use hypostyle_bind::{bind_expression, bind_statement};
use hypostyle_error::complexity::too_complex;
use hypostyle_error::external;
use hypostyle_exec::memory::Held;
use hypostyle_exec::scan::StoredTable;
use hypostyle_expr::wanted::check_wanted;
use hypostyle_files::{reader_of, table_from_path};
use hypostyle_sql::parse::{explained, parse_stored};
use hypostyle_sql::qualifiers;
use hypostyle_storage::{Budget, Snapshot, TableData, TableEntry};
use hypostyle_types::{Error, ErrorKind};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Views within each other: planning one recurses.
const VIEWS_MAX: usize = 64;

/// Views that a view may read, those within views among them, each as often as it is read.
const VIEWS_READ_MAX: usize = 4096;

fn system_catalog(scope: &Arc<Scope>) -> PgCatalog {
    PgCatalog::new(scope.clone(), Arc::new(Databases::new(scope.clone())))
}

/// All databases of a session, by name.
#[derive(Debug)]
pub struct Databases {
    scope: Arc<Scope>,
    /// The database whose definitions have the names; `None` for statements.
    home: Option<String>,
}

impl Databases {
    /// Returns the databases for the names of statements.
    pub fn new(scope: Arc<Scope>) -> Self {
        Self { scope, home: None }
    }

    /// Returns the databases for the names in the definitions of one of them.
    pub fn for_definitions_of(scope: Arc<Scope>, database: &str) -> Self {
        Self { scope, home: Some(database.into()) }
    }
}

impl CatalogProviderList for Databases {
    fn register_catalog(&self, _: String, _: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        self.scope.databases.read().iter().map(|named| named.name.clone()).collect()
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let scope = self.scope.clone();
        if name == SEARCH {
            return Some(Arc::new(SearchCatalog { scope, home: self.home.clone() }));
        }
        if let Some(foreign) = scope.foreign(name) {
            return Some(Arc::new(ForeignCatalog(foreign)));
        }
        scope.snapshot_of(name)?;
        Some(Arc::new(SnapshotCatalog { scope, database: name.to_string() }))
    }
}

/// Resolves names of less than three parts.
#[derive(Debug)]
struct SearchCatalog {
    scope: Arc<Scope>,
    /// The database whose definitions have the names; `None` for statements.
    home: Option<String>,
}

impl CatalogProvider for SearchCatalog {
    fn schema_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let scope = self.scope.clone();
        if name == SEARCH {
            return Some(Arc::new(SearchSchema { scope, home: self.home.clone() }));
        }
        let found = scope.resolve(&[name.to_string(), String::new()], self.home.as_deref()).ok()?;
        if let Some(foreign) = scope.foreign(&found.database) {
            return ForeignCatalog(foreign).schema(&found.schema);
        }
        SnapshotCatalog { scope, database: found.database }.schema(&found.schema)
    }
}

#[derive(Debug)]
struct SnapshotCatalog {
    scope: Arc<Scope>,
    database: String,
}

impl CatalogProvider for SnapshotCatalog {
    fn schema_names(&self) -> Vec<String> {
        let snapshot = self.scope.snapshot_of(&self.database);
        let schemas = |snapshot: Arc<Snapshot>| {
            snapshot.catalog().schemas.iter().map(|schema| schema.name.clone()).collect()
        };
        snapshot.map(schemas).unwrap_or_default()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let scope = self.scope.clone();
        if name == INFORMATION_SCHEMA {
            return Some(Arc::new(InformationSchema::new(scope.clone(), Arc::new(Databases::new(scope)))));
        }
        if name == PG_CATALOG {
            return Some(Arc::new(system_catalog(&scope)));
        }
        scope.snapshot_of(&self.database)?.catalog().has_schema(name).then(|| {
            let (database, schema) = (self.database.clone(), name.to_string());
            Arc::new(SnapshotSchema { scope, database, schema }) as Arc<dyn SchemaProvider>
        })
    }
}

#[derive(Debug)]
struct SnapshotSchema {
    scope: Arc<Scope>,
    database: String,
    schema: String,
}

#[async_trait]
impl SchemaProvider for SnapshotSchema {
    fn table_names(&self) -> Vec<String> {
        let Some(snapshot) = self.scope.snapshot_of(&self.database) else { return Vec::new() };
        let catalog = snapshot.catalog();
        let tables =
            catalog.tables.iter().filter(|table| table.schema == self.schema).map(|table| &table.name);
        let views = catalog.views.iter().filter(|view| view.schema == self.schema).map(|view| &view.name);
        tables.chain(views).cloned().collect()
    }

    fn table_exist(&self, name: &str) -> bool {
        let snapshot = self.scope.snapshot_of(&self.database);
        snapshot.is_some_and(|snapshot| {
            let catalog = snapshot.catalog();
            catalog.table(&self.schema, name).is_some() || catalog.view(&self.schema, name).is_some()
        })
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        let Some(snapshot) = self.scope.snapshot_of(&self.database) else { return Ok(None) };
        let catalog = snapshot.catalog();
        let (table, view) = (catalog.table(&self.schema, name), catalog.view(&self.schema, name));
        Ok(table.map(|_| TableType::Base).or(view.map(|_| TableType::View)))
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        relation(&self.scope, &Name::new(&self.database, &self.schema, name), None).await
    }
}

/// Returns a table or view; `None` when there is none of that name. A table is given with the
/// positions of its rows where those from one on are wanted; one of a cluster with their places.
async fn relation(
    scope: &Arc<Scope>,
    name: &Name,
    positions: Option<u64>,
) -> Result<Option<Arc<dyn TableProvider>>> {
    check_wanted()?;
    let Some(snapshot) = scope.snapshot_of(&name.database) else { return Ok(None) };
    if let Some(data) = snapshot.table(&name.schema, &name.name) {
        let data = data.clone();
        check_populated(data.entry()).map_err(external)?;
        if let Some(cluster) = scope.cluster_table(name) {
            if positions.is_some() {
                let shell = StoredTable::with_positions(data.with_views(), snapshot, 0);
                return Ok(Some(of_cluster_with_places(scope, cluster, shell)));
            }
            let defaults = defaults(scope, &name.database, &snapshot, &data)?;
            let shell = StoredTable::new(data.with_views(), snapshot, defaults);
            return of_cluster(scope, cluster, shell).map(Some).map_err(external);
        }
        if let Some(first) = positions {
            return Ok(Some(Arc::new(StoredTable::with_positions(data, snapshot, first))));
        }
        let defaults = defaults(scope, &name.database, &snapshot, &data)?;
        return Ok(Some(Arc::new(StoredTable::new(data, snapshot, defaults))));
    }
    if let Some(rows) = scope.relation_of_cluster(name).map_err(external)? {
        return Ok(Some(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?)));
    }
    let Some(view) = snapshot.catalog().view(&name.schema, &name.name) else { return Ok(None) };
    let _one_more = Nesting::new(scope, &name.name)?;
    let mut state = scope.state()?;
    state.register_catalog_list(Arc::new(Databases::for_definitions_of(scope.clone(), &name.database)));
    let of_view =
        |error: hypostyle_types::Error| external(error.nowhere().context(format!("view \"{}\"", name.name)));
    let mut statement = parse_stored(&view.sql).map_err(of_view)?;
    if let Some(tree) = explained(&mut statement) {
        let full_name = |parts: &[String]| {
            let found = scope.resolve(parts, Some(&name.database)).ok()?;
            Some([found.database, found.schema, found.name])
        };
        // Older definitions may have a schema before names that FROM does not have.
        let _asked = qualifiers::rewrite(tree, &full_name);
    }
    let plan = Box::pin(async move { bind_statement(&state, statement).await })
        .await
        .map_err(|error| of_view(planning_error(error, &snapshot)))?;
    Ok(Some(Arc::new(ViewTable::new(plan, Some(view.sql.clone())))))
}

/// Refuses to read a materialized view that has no rows yet.
///
/// # Errors
/// `InvalidInput` (55000).
pub fn check_populated(table: &TableEntry) -> hypostyle_types::Result<()> {
    if !table.is_unpopulated() {
        return Ok(());
    }
    Err(Error::invalid_input(format!(
        "materialized view \"{}\" has not been populated: run REFRESH MATERIALIZED VIEW",
        table.name
    ))
    .with_sqlstate("55000"))
}

/// A view within others.
struct Nesting<'a>(&'a Scope);

impl<'a> Nesting<'a> {
    /// # Errors
    /// `Syntax` (54001) when there are too many: a view may have been replaced by one that reads
    /// it.
    fn new(scope: &'a Scope, view: &str) -> Result<Self> {
        if scope.views.load(Ordering::Relaxed) == 0 {
            scope.views_read.store(0, Ordering::Relaxed);
        }
        if scope.views_read.fetch_add(1, Ordering::Relaxed) >= VIEWS_READ_MAX {
            return Err(external(too_complex(format!(
                "view \"{view}\" is one of more than {VIEWS_READ_MAX} within another one; store some of them in a table"
            ))));
        }
        if scope.views.fetch_add(1, Ordering::Relaxed) < VIEWS_MAX {
            return Ok(Self(scope));
        }
        scope.views.fetch_sub(1, Ordering::Relaxed);
        Err(external(too_complex(format!(
            "view \"{view}\" reads itself, or is one of more than {VIEWS_MAX} within each other"
        ))))
    }
}

impl Drop for Nesting<'_> {
    fn drop(&mut self) {
        self.0.views.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Names without a schema: in statements also tables of the caller and files.
#[derive(Debug)]
struct SearchSchema {
    scope: Arc<Scope>,
    home: Option<String>,
}

#[async_trait]
impl SchemaProvider for SearchSchema {
    fn table_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn table_exist(&self, name: &str) -> bool {
        let found = self.scope.resolve(&[name.to_string()], self.home.as_deref());
        found.is_ok_and(|found| {
            let snapshot = self.scope.snapshot_of(&found.database);
            snapshot.is_some_and(|snapshot| {
                let catalog = snapshot.catalog();
                catalog.table(&found.schema, name).is_some() || catalog.view(&found.schema, name).is_some()
            })
        })
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.scope.given(name).filter(|_| self.home.is_none()) {
            Some(Relation::Rows { rows, .. }) => return Ok(Some(rows)),
            Some(Relation::Positions { table, first }) => {
                return relation(&self.scope, &table, Some(first)).await;
            }
            Some(Relation::Staged { table, first }) => return Ok(staged(&self.scope, &table, first)),
            Some(Relation::Published { table, places }) => {
                return Ok(with_places(&self.scope, &table, places));
            }
            None => {}
        }
        let full = self.scope.resolve(&[name.to_string()], self.home.as_deref()).map_err(external)?;
        if let Some(found) = relation(&self.scope, &full, None).await? {
            return Ok(Some(found));
        }
        if pg_catalog::has_relation(name) {
            return system_catalog(&self.scope).table(name).await;
        }
        // A definition refers to objects of its database, whoever reads it. It refers neither to
        // the caller's tables nor to files of this machine, which its author may not have been
        // allowed to read.
        if self.home.is_some() {
            return reader_of(name).map_or(Ok(None), |function| Err(external(no_file(name, function))));
        }
        // DataFusion also asks for the names of table functions: an unknown name is no error here.
        if let Some(found) = self.callers(name)? {
            return Ok(Some(found));
        }
        let state = self.scope.state()?;
        match table_from_path(&state, name).await {
            Some(found) => found.map(Some).map_err(external),
            None => Ok(None),
        }
    }
}

impl SearchSchema {
    /// Returns a table of the caller's.
    fn callers(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(known) = self.scope.callers.lock().get(name) {
            return known.table.clone().map(|table| Some(table as _)).map_err(external);
        }
        let resolver = self.scope.resolver.read().clone();
        let Some(resolver) = resolver else { return Ok(None) };
        let pool = self.scope.state()?.runtime_env().memory_pool.clone();
        let memory = Held::new(format!("rows of \"{name}\""), &pool);
        let take = |batch: &RecordBatch| memory.take(get_record_batch_memory_size(batch) as u64);
        let Some(found) = resolver(name, &take) else { return Ok(None) };
        let table: hypostyle_types::Result<_> = match found {
            Ok(found) => Ok(Arc::new(MemTable::try_new(found.schema, vec![found.batches])?)),
            Err(error) => Err(error),
        };
        let known = Callers { table: table.clone(), memory };
        self.scope.callers.lock().insert(name.to_string(), known);
        table.map(|table| Some(table as _)).map_err(external)
    }
}

/// Returns the error for a name of a file in a definition.
fn no_file(name: &str, function: &str) -> Error {
    let file = name.replace('\'', "''");
    let message =
        format!("no table or view \"{name}\"; a definition reads a file by a function: {function}('{file}')");
    Error::new(ErrorKind::UnknownName, message).about(name)
}

/// Returns the planned expressions of a table's columns for rows that have no value for them.
fn defaults(
    scope: &Scope,
    database: &str,
    snapshot: &Snapshot,
    data: &TableData,
) -> Result<HashMap<String, Expr>> {
    let mut defaults = HashMap::new();
    for column in &data.entry().columns {
        if let Some(sql) = default_of(database, snapshot.catalog(), data.entry(), column) {
            let state = scope.state()?;
            defaults.insert(column.name.clone(), bind_expression(&state, &sql, &DFSchema::empty())?);
        }
    }
    Ok(defaults)
}
