//! Resolves names in a session: the databases that it can name, and where a name without a database
//! or a schema is looked up.

use crate::given::Relations;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::catalog::MemTable;
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::context::SessionState;
use hypostyle_cluster::node::{Node, SCHEMA};
use hypostyle_cluster::shown;
use hypostyle_exec::memory::Held;
use hypostyle_foreign::AttachedDatabase;
use hypostyle_placement::catalog::Catalog;
use hypostyle_storage::{ColumnEntry, Database, SCHEMA_MAIN, Snapshot};
use hypostyle_sync::{Mutex, RwLock};
use hypostyle_types::{Error, ErrorKind, Privileges, Result, TableId, did_you_mean};
use roaring::RoaringTreemap;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, OnceLock};

/// PostgreSQL's name of the schema that each database has. Its programs write it in front of names;
/// it has this meaning unless there is such a schema.
pub const SCHEMA_PUBLIC: &str = "public";

/// The database that the engine was opened for.
pub const OWN_DATABASE: &str = "hypostyle";

/// The session's own database in memory, with its temporary tables.
pub const TEMPORARY: &str = "temp";

/// The catalog and the schema of names that have none.
pub const SEARCH: &str = "search_path";

/// Rows that belong to the caller, such as a data frame, found by name.
#[derive(Clone, Debug)]
pub struct ExternalTable {
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
}

/// Asked for a name that no table or view has; rows that are made for it take memory of the
/// statement's.
pub type TableResolver =
    Arc<dyn Fn(&str, TakeMemory<'_>) -> Option<hypostyle_types::Result<ExternalTable>> + Send + Sync>;

/// Called with rows before they are kept.
///
/// # Errors
/// `OutOfMemory` when the statement may not have memory for them.
pub type TakeMemory<'a> = &'a dyn Fn(&RecordBatch) -> hypostyle_types::Result<()>;

/// A database that a session can name, as the running statement sees it.
#[derive(Clone, Debug)]
pub struct Named {
    pub name: String,
    pub database: Arc<Database>,
    pub snapshot: Arc<Snapshot>,
}

/// The full name of a table, a view or a sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Name {
    pub database: String,
    pub schema: String,
    pub name: String,
}

impl Name {
    pub fn new(database: impl Into<String>, schema: impl Into<String>, name: impl Into<String>) -> Self {
        Self { database: database.into(), schema: schema.into(), name: name.into() }
    }
}

/// Where names without a schema are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPath {
    database: String,
    /// The schemas that are searched, the first of which gets what is made; empty where there is none of
    /// those that SET has named.
    schema: String,
    further: Vec<String>,
    /// Those that SET has named, also ones that there are not yet; none if a schema was chosen by USE.
    named: Vec<String>,
}

impl SearchPath {
    fn of_schema(database: &str, schema: &str) -> Self {
        Self { database: database.into(), schema: schema.into(), further: Vec::new(), named: Vec::new() }
    }
}

/// Returns the state of a session, as long as there is the session.
type StateOfSession = Box<dyn Fn() -> Option<SessionState> + Send + Sync>;

/// A table of the caller's, or the error of reading it.
pub struct Callers {
    pub table: Result<Arc<MemTable>>,
    /// The memory of its rows.
    pub memory: Held,
}

/// The names that one session plans against. The session changes them between statements.
pub struct Scope {
    /// The engine's own first.
    pub databases: RwLock<Vec<Named>>,
    /// The attached databases of other systems.
    pub foreign_databases: RwLock<Vec<Arc<AttachedDatabase>>>,
    /// Where names without a database or a schema are looked up.
    path: RwLock<SearchPath>,
    pub resolver: RwLock<Option<TableResolver>>,
    pub(crate) relations: Relations,
    /// The caller's tables that the running statement reads, by their names. A stream is read once,
    /// however often the statement names it and is planned.
    pub callers: Mutex<HashMap<String, Callers>>,
    /// The number of nested views whose queries are being planned.
    pub views: AtomicUsize,
    /// The number of views that the outermost of them has read, counting each time.
    pub views_read: AtomicUsize,
    /// The running statement is of a transaction that is to change nothing.
    pub read_only: AtomicBool,
    /// The node of a cluster that the own database is, and the catalog that the running statement
    /// reads.
    cluster: RwLock<Option<(Arc<Node>, Arc<Catalog>)>>,
    /// The places of the rows that the open transaction has deleted of tables of the cluster.
    deleted: RwLock<BTreeMap<TableId, Arc<RoaringTreemap>>>,
    state: OnceLock<StateOfSession>,
}

/// A snapshot that is shown in the place of another one, also where what looks at it fails.
pub struct Shown<'a> {
    scope: &'a Scope,
    name: String,
    before: Arc<Snapshot>,
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        // A database that was detached shows nothing.
        let _staged = self.scope.replace(&self.name, self.before.clone());
    }
}

impl std::fmt::Debug for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").field("databases", &*self.databases.read()).finish_non_exhaustive()
    }
}

impl Scope {
    pub fn new(database: Arc<Database>, snapshot: Arc<Snapshot>) -> Arc<Self> {
        Arc::new(Self {
            databases: RwLock::new(vec![Named { name: OWN_DATABASE.into(), database, snapshot }]),
            foreign_databases: RwLock::default(),
            path: RwLock::new(SearchPath::of_schema(OWN_DATABASE, SCHEMA_MAIN)),
            resolver: RwLock::new(None),
            relations: Relations::default(),
            callers: Mutex::default(),
            views: AtomicUsize::new(0),
            views_read: AtomicUsize::new(0),
            read_only: AtomicBool::new(false),
            cluster: RwLock::new(None),
            deleted: RwLock::default(),
            state: OnceLock::new(),
        })
    }

    /// Views and defaults are SQL text: planning them needs the session.
    pub fn bind(&self, state: impl Fn() -> Option<SessionState> + Send + Sync + 'static) {
        let _already = self.state.set(Box::new(state));
    }

    pub fn state(&self) -> PlanResult<SessionState> {
        let state = self.state.get().and_then(|state| state());
        state.ok_or_else(|| DataFusionError::Internal("the session is closed".into()))
    }

    /// Returns what the session's user may do; who is not known may only read.
    pub fn privileges(&self) -> Privileges {
        let state = self.state().ok();
        let privileges = state.and_then(|state| state.config().get_extension::<Privileges>());
        privileges.map_or(Privileges::READ, |privileges| *privileges)
    }

    /// # Errors
    /// `UnknownName` when no database has that name; `Unsupported` for one of another system.
    pub fn database(&self, name: &str) -> Result<Named> {
        let databases = self.databases.read();
        databases.iter().find(|named| named.name == name).cloned().ok_or_else(|| {
            if let Some(foreign) = self.foreign(name) {
                let address = foreign.database().shown();
                return Error::unsupported(format!(
                    "\"{name}\" is the database {address}: its tables are read and inserted into from here, and \
                     all other statements are run there"
                ));
            }
            let suggestion = did_you_mean(name, databases.iter().map(|named| named.name.as_str()));
            Error::new(ErrorKind::UnknownName, format!("no database \"{name}\"{suggestion}"))
                .with_sqlstate("3D000")
        })
    }

    /// Returns an attached database of another system.
    pub fn foreign(&self, name: &str) -> Option<Arc<AttachedDatabase>> {
        let databases = self.foreign_databases.read();
        databases.iter().find(|attached| attached.database().name() == name).cloned()
    }

    /// Lets the next statement read snapshots of its own in the databases of other systems.
    pub fn end_readings(&self) {
        for attached in self.foreign_databases.read().iter() {
            attached.end_reading();
        }
    }

    pub fn snapshot_of(&self, name: &str) -> Option<Arc<Snapshot>> {
        let databases = self.databases.read();
        databases.iter().find(|named| named.name == name).map(|named| named.snapshot.clone())
    }

    /// Returns the name of a database that is open here.
    pub fn name_of(&self, database: &Arc<Database>) -> Result<String> {
        let databases = self.databases.read();
        let found = databases.iter().find(|named| Arc::ptr_eq(&named.database, database));
        found
            .map(|named| named.name.clone())
            .ok_or_else(|| Error::internal("a transaction of a database that was detached"))
    }

    /// Shows another snapshot of a database, until what is returned is dropped.
    ///
    /// # Errors
    /// `Internal` for a database that was detached.
    pub fn show(&self, name: &str, snapshot: Arc<Snapshot>) -> Result<Shown<'_>> {
        let before = self.replace(name, snapshot);
        let before = before.ok_or_else(|| Error::internal("a database was detached while it is written"))?;
        Ok(Shown { scope: self, name: name.to_string(), before })
    }

    fn replace(&self, name: &str, snapshot: Arc<Snapshot>) -> Option<Arc<Snapshot>> {
        let mut databases = self.databases.write();
        let named = databases.iter_mut().find(|named| named.name == name)?;
        Some(std::mem::replace(&mut named.snapshot, snapshot))
    }

    /// Returns the database and the schema of names that have none; the schema is empty where there is none
    /// of those that are searched.
    pub fn current(&self) -> (String, String) {
        let path = self.path.read();
        (path.database.clone(), path.schema.clone())
    }

    /// Looks names that have no schema up in this one, and in no other.
    pub fn set_current(&self, database: &str, schema: &str) {
        *self.path.write() = SearchPath::of_schema(database, schema);
    }

    /// Returns the database and the schemas in which names without one are looked up, in order.
    pub fn search(&self) -> (String, Vec<String>) {
        let path = self.path.read();
        let first = std::iter::once(&path.schema).filter(|schema| !schema.is_empty());
        (path.database.clone(), first.chain(&path.further).cloned().collect())
    }

    /// Returns where names without a schema are looked up, also in schemas that there are not yet.
    pub fn path(&self) -> SearchPath {
        self.path.read().clone()
    }

    /// Looks names up as they were when [`Self::path`] told it.
    pub fn set_path(&self, path: SearchPath) {
        *self.path.write() = path;
    }

    /// Looks names that have no schema up in those of these that there are, which is seen again for each
    /// statement. As long as there is none of them, nothing has such a name.
    pub fn set_search(&self, database: &str, named: Vec<String>) {
        {
            let mut path = self.path.write();
            (path.database, path.named) = (database.into(), named);
        }
        self.renew_search();
    }

    /// Takes over which schemas of those that are searched there are now.
    pub fn renew_search(&self) {
        let (database, named) = {
            let path = self.path.read();
            if path.named.is_empty() {
                return;
            }
            (path.database.clone(), path.named.clone())
        };
        let mut found = self.schemas_among(&database, &named).into_iter();
        let first = found.next().unwrap_or_default();
        let mut path = self.path.write();
        (path.schema, path.further) = (first, found.collect());
    }

    /// Returns which of some schemas a database has, each once. `public` is `main` where there is none.
    pub fn schemas_among(&self, database: &str, named: &[String]) -> Vec<String> {
        let Some(snapshot) = self.snapshot_of(database) else { return Vec::new() };
        let catalog = snapshot.catalog();
        let mut found: Vec<String> = Vec::new();
        for schema in named {
            let is_other_name = schema == SCHEMA_PUBLIC && !catalog.has_schema(schema);
            let schema = if is_other_name { SCHEMA_MAIN } else { schema.as_str() };
            if catalog.has_schema(schema) && !found.iter().any(|known| known == schema) {
                found.push(schema.into());
            }
        }
        found
    }

    /// Returns the schema of a name that has none: the first of those that are searched which has
    /// such a table, view or sequence, or else the first one.
    pub fn schema_of(&self, name: &str) -> String {
        let SearchPath { database, schema, further, .. } = self.path();
        if further.is_empty() {
            return schema;
        }
        let Some(snapshot) = self.snapshot_of(&database) else { return schema };
        let catalog = snapshot.catalog();
        let has = |schema: &&String| {
            catalog.table(schema, name).is_some()
                || catalog.view(schema, name).is_some()
                || catalog.sequence(schema, name).is_some()
        };
        std::iter::once(&schema).chain(further.iter()).find(has).unwrap_or(&schema).clone()
    }

    pub fn current_database(&self) -> Result<Named> {
        self.database(&self.current().0)
    }

    /// Says whether any of the databases has macros.
    pub fn has_macros(&self) -> bool {
        self.databases.read().iter().any(|named| !named.snapshot.catalog().macros.is_empty())
    }

    /// Shows the tables of a cluster as its newest catalog has them.
    pub fn pin_cluster(&self, node: Option<&Arc<Node>>) {
        let pinned = node.and_then(|node| Some((node.clone(), node.catalog()?)));
        *self.cluster.write() = pinned;
    }

    /// Shows the tables of a cluster as a catalog has them, in place of the one before, which is returned.
    pub fn replace_cluster(
        &self,
        pinned: Option<(Arc<Node>, Arc<Catalog>)>,
    ) -> Option<(Arc<Node>, Arc<Catalog>)> {
        std::mem::replace(&mut *self.cluster.write(), pinned)
    }

    /// Returns the table of the cluster that a name stands for.
    pub fn cluster_table(&self, name: &Name) -> Option<(Arc<Node>, Arc<Catalog>, TableId)> {
        if name.database != OWN_DATABASE {
            return None;
        }
        let cluster = self.cluster.read();
        let (node, catalog) = cluster.as_ref()?;
        let id = catalog.table_named(&name.schema, &name.name)?.id;
        Some((node.clone(), catalog.clone(), id))
    }

    /// Returns the column of a table of the cluster whose values a sequence gives out, if it is an identity
    /// column: the sequence says its bounds, and the cluster counts.
    pub fn counted_column(&self, sequence: &Name) -> Option<(Arc<Node>, TableId, u32)> {
        let snapshot = self.snapshot_of(&sequence.database)?;
        let owner = snapshot.catalog().sequence(&sequence.schema, &sequence.name)?.owner?;
        let table = snapshot.catalog().table_by_id(owner.table)?;
        let is_owner = |column: &ColumnEntry| column.id == owner.column && column.identity.is_some();
        let place = table.columns.iter().position(is_owner)?;
        let name = Name::new(&sequence.database, &table.schema, &table.name);
        let (node, catalog, id) = self.cluster_table(&name)?;
        Some((node, id, catalog.table(id)?.layout.number(place)?))
    }

    /// Notes which rows of tables of the cluster the open transaction has deleted, by their places: its
    /// statements see them no more.
    pub fn note_deleted(&self, deleted: &BTreeMap<TableId, RoaringTreemap>) {
        let some = deleted.iter().filter(|(_, places)| !places.is_empty());
        *self.deleted.write() = some.map(|(table, places)| (*table, Arc::new(places.clone()))).collect();
    }

    /// Returns the places of the rows that the open transaction has deleted of a table of the cluster, if
    /// there are any.
    pub(crate) fn deleted_of(&self, table: TableId) -> Option<Arc<RoaringTreemap>> {
        self.deleted.read().get(&table).cloned()
    }

    /// Returns what a relation of the schema `hypostyle_cluster` tells of the cluster, if it is one.
    ///
    /// # Errors
    /// `Internal`, which no catalog leads to.
    pub fn relation_of_cluster(&self, name: &Name) -> Result<Option<RecordBatch>> {
        match self.cluster.read().as_ref() {
            Some((node, catalog))
                if (name.database.as_str(), name.schema.as_str()) == (OWN_DATABASE, SCHEMA) =>
            {
                shown::relation(node, catalog, &name.name)
            }
            _ => Ok(None),
        }
    }

    /// Returns the catalog that tables of the cluster are shown by.
    pub fn catalog_of_cluster(&self) -> Option<Arc<Catalog>> {
        self.cluster.read().as_ref().map(|(_, catalog)| catalog.clone())
    }

    /// Keeps no files, only definitions.
    pub fn unpin(&self) {
        for named in self.databases.write().iter_mut() {
            named.snapshot = Arc::new(named.snapshot.unpinned());
        }
    }

    /// Returns what a name of one to three parts stands for, whether there is such a table or not.
    /// `home` is the database whose definition has the name: it never means a temporary table.
    ///
    /// # Errors
    /// `UnknownName` for a database that there is not.
    pub fn resolve(&self, parts: &[String], home: Option<&str>) -> Result<Name> {
        let (database, schema) = match home {
            Some(home) => (home.to_string(), SCHEMA_MAIN.to_string()),
            None => self.current(),
        };
        match parts {
            [name] => {
                let is_temporary = home.is_none()
                    && self.snapshot_of(TEMPORARY).is_some_and(|snapshot| {
                        let catalog = snapshot.catalog();
                        catalog.table(SCHEMA_MAIN, name).is_some()
                            || catalog.view(SCHEMA_MAIN, name).is_some()
                            || catalog.sequence(SCHEMA_MAIN, name).is_some()
                    });
                Ok(match (is_temporary, home) {
                    (true, _) => Name::new(TEMPORARY, SCHEMA_MAIN, name),
                    (false, None) => Name::new(database, self.schema_of(name), name),
                    (false, Some(_)) => Name::new(database, schema, name),
                })
            }
            [qualifier, name] => {
                let is_schema = self
                    .snapshot_of(&database)
                    .is_some_and(|snapshot| snapshot.catalog().has_schema(qualifier));
                let is_database = self.snapshot_of(qualifier).is_some();
                if !is_schema && !is_database && self.foreign(qualifier).is_some() {
                    return Ok(Name::new(qualifier, SCHEMA_PUBLIC, name));
                }
                Ok(match (is_schema, is_database) {
                    (false, true) => Name::new(qualifier, SCHEMA_MAIN, name),
                    (false, false) if qualifier == SCHEMA_PUBLIC => Name::new(database, SCHEMA_MAIN, name),
                    _ => Name::new(database, qualifier, name),
                })
            }
            [database, schema, name] => {
                if self.foreign(database).is_none() {
                    self.database(database)?;
                }
                Ok(Name::new(database, schema, name))
            }
            _ => Err(Error::invalid_input(format!("{} has too many parts for a name", parts.join(".")))),
        }
    }

    /// Returns [`Self::resolve`] for a table to be made, which a temporary one of that name does
    /// not keep from it.
    ///
    /// # Errors
    /// `UnknownName` (3F000) where no schema is searched; `InvalidInput` (42P16) for a temporary one
    /// elsewhere.
    pub fn resolve_new(&self, parts: &[String], temporary: bool) -> Result<Name> {
        let (database, schema) = self.current();
        match (parts, temporary) {
            ([name], true) => Ok(Name::new(TEMPORARY, SCHEMA_MAIN, name)),
            ([_], false) if schema.is_empty() => {
                let message = "no schema has been selected to create in: there is none of the search_path";
                Err(Error::new(ErrorKind::UnknownName, message).with_sqlstate("3F000"))
            }
            ([name], false) => Ok(Name::new(database, schema, name)),
            _ => match self.resolve(parts, None)? {
                name if temporary && name.database != TEMPORARY => Err(Error::invalid_input(format!(
                    "a temporary table is in the database \"{TEMPORARY}\"; leave \"{}\" out of its name",
                    parts[0]
                ))
                .with_sqlstate("42P16")),
                name => Ok(name),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn what_is_shown_ends_with_what_looks_at_it() {
        let database = Database::in_memory().unwrap();
        let before = database.snapshot().unwrap();
        let scope = Scope::new(database, before.clone());
        let is_seen =
            |snapshot: &Arc<Snapshot>| Arc::ptr_eq(&scope.database(OWN_DATABASE).unwrap().snapshot, snapshot);
        let (staged, later) = (Arc::new(before.unpinned()), Arc::new(before.unpinned()));
        {
            let _shown = scope.show(OWN_DATABASE, staged.clone()).unwrap();
            assert!(is_seen(&staged));
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                let _shown = scope.show(OWN_DATABASE, later.clone()).unwrap();
                if is_seen(&later) {
                    panic!("a constraint is checked");
                }
            }));
            assert!(panicked.is_err() && is_seen(&staged));
        }
        assert!(is_seen(&before));
        assert!(scope.show("nothing", staged).is_err());
    }
    #[test]
    fn names_are_looked_up_in_schemas_that_there_are() {
        let database = Database::in_memory().unwrap();
        let snapshot = database.snapshot().unwrap();
        let scope = Scope::new(database, snapshot);
        let (name, of) = (["t".to_string()], |schemas: &[&str]| {
            scope.set_search(OWN_DATABASE, schemas.iter().map(ToString::to_string).collect());
            scope.search().1
        });
        assert_eq!(of(&["nosuch", SCHEMA_PUBLIC]), [SCHEMA_MAIN]);
        assert!(scope.resolve_new(&name, false).is_ok());
        assert!(of(&["nosuch"]).is_empty());
        assert_eq!(scope.resolve_new(&name, false).unwrap_err().sqlstate(), "3F000");
        assert!(scope.resolve_new(&name, true).is_ok());
        assert_eq!(scope.resolve(&name, None).unwrap().schema, "");
        assert_eq!(of(&[SCHEMA_MAIN]), [SCHEMA_MAIN]);
    }
}
