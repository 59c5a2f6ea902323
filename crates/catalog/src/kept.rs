//! Plans that are kept for later statements. Such a plan names the tables that it reads. It holds
//! neither their rows nor their files, and each statement binds it to the snapshots that it sees.

use crate::given::Relation;
use crate::of_cluster::of_cluster;
use crate::scope::{Name, OWN_DATABASE, Scope};
use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{LogicalPlan, TableScan, TableSource};
use hypostyle_cluster::table::PartitionedTable;
use hypostyle_exec::scan::StoredTable;
use hypostyle_foreign::AttachedDatabase;
use hypostyle_storage::{Definitions, Snapshot};
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

/// What all names of a statement depend on: the databases that it can name with all that they
/// define, and where names without a database are looked up.
#[derive(Debug)]
pub struct Meaning {
    databases: Vec<(String, Arc<Definitions>)>,
    foreign: Vec<Arc<AttachedDatabase>>,
    current: (String, Vec<String>),
}

impl Meaning {
    pub fn of(scope: &Scope) -> Self {
        let databases = scope.databases.read();
        let definitions = |snapshot: &Snapshot| snapshot.definitions().clone();
        let databases =
            databases.iter().map(|named| (named.name.clone(), definitions(&named.snapshot))).collect();
        let foreign = scope.foreign_databases.read().clone();
        Self { databases, foreign, current: scope.search() }
    }

    /// Says whether each name surely means the same as it did.
    pub fn is_that_of(&self, scope: &Scope) -> bool {
        let now = scope.databases.read();
        let is_same = |((name, definitions), named): (&(String, Arc<Definitions>), &crate::scope::Named)| {
            *name == named.name && Arc::ptr_eq(definitions, named.snapshot.definitions())
        };
        let foreign = scope.foreign_databases.read();
        self.databases.len() == now.len()
            && self.databases.iter().zip(now.iter()).all(is_same)
            && self.foreign.len() == foreign.len()
            && self.foreign.iter().zip(foreign.iter()).all(|(then, now)| Arc::ptr_eq(then, now))
            && self.current == scope.search()
    }
}

/// A table in a plan that is kept.
struct NamedTable {
    of: Of,
    schema: SchemaRef,
}

/// Where its rows are.
enum Of {
    Table(Name),
    /// What the engine gives its own queries by this name, in memory.
    Given(String),
}

impl TableSource for NamedTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// A plan that is kept, and how many rows the stored tables that it reads had when it was made.
#[derive(Clone, Debug)]
pub struct KeptPlan {
    plan: LogicalPlan,
    reads_tables: bool,
    rows: Vec<(Name, u64)>,
}

impl KeptPlan {
    /// Returns the plan to keep; `None` for one that reads anything but whole stored tables and rows that the
    /// engine gives it.
    pub fn of(plan: &LogicalPlan, scope: &Scope) -> Option<Self> {
        let (mut reads_tables, mut rows) = (false, Vec::new());
        let unbound = plan.clone().transform_down_with_subqueries(|node| {
            let LogicalPlan::TableScan(mut scan) = node else { return Ok(Transformed::no(node)) };
            let (table, found) = named(&scan, scope).ok_or_else(cannot)?;
            reads_tables = true;
            rows.extend(found);
            scan.source = Arc::new(table);
            Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
        });
        Some(Self { plan: unbound.data().ok()?, reads_tables, rows })
    }

    /// Returns the plan for the rows that the running statement sees; `None` when a table is not
    /// what it was.
    pub fn bound(&self, scope: &Scope) -> Option<LogicalPlan> {
        if !self.reads_tables {
            return Some(self.plan.clone());
        }
        let mut tables: HashMap<Name, Arc<dyn TableSource>> = HashMap::new();
        let bound = self.plan.clone().transform_down_with_subqueries(|node| {
            let LogicalPlan::TableScan(mut scan) = node else { return Ok(Transformed::no(node)) };
            let table = (scan.source.as_ref() as &dyn Any).downcast_ref::<NamedTable>().ok_or_else(cannot)?;
            let source = match &table.of {
                Of::Given(name) => given(name, scope).ok_or_else(cannot)?,
                Of::Table(name) => match tables.get(name) {
                    Some(source) => source.clone(),
                    None => {
                        let source = stored(name, scope).ok_or_else(cannot)?;
                        tables.insert(name.clone(), source.clone());
                        source
                    }
                },
            };
            if source.schema() != table.schema {
                return Err(cannot());
            }
            scan.source = source;
            Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
        });
        bound.data().ok()
    }

    /// Says whether the tables have about as many rows as when the plan was made: what is best for
    /// them may be another plan.
    pub fn fits(&self, scope: &Scope) -> bool {
        self.rows.iter().all(|(name, before)| {
            rows_of(name, scope).is_some_and(|now| {
                let (now, before) = (now + FEW_ROWS, before + FEW_ROWS);
                now <= 2 * before && before <= 2 * now
            })
        })
    }
}

/// Rows that make no difference to a plan.
const FEW_ROWS: u64 = 1000;

fn cannot() -> DataFusionError {
    DataFusionError::Internal("a plan that cannot be kept".into())
}

/// Returns what the table of a scan is, and the name and the rows of a stored one.
fn named(scan: &TableScan, scope: &Scope) -> Option<(NamedTable, Option<(Name, u64)>)> {
    let provider = source_as_provider(&scan.source).ok()?;
    let name = scan.table_name.table();
    if let Some(Relation::Rows { rows, .. }) = scope.given(name)
        && Arc::ptr_eq(&rows, &provider)
    {
        return Some((NamedTable { of: Of::Given(name.to_string()), schema: rows.schema() }, None));
    }
    let any = provider.as_ref() as &dyn Any;
    let partitioned = any.downcast_ref::<PartitionedTable>();
    let table = partitioned.map(PartitionedTable::shell).or_else(|| any.downcast_ref::<StoredTable>())?;
    let (entry, schema) = (table.data().entry(), table.schema());
    if !table.has_all_rows() || schema.fields().len() != table.data().columns().len() {
        return None;
    }
    if let Some(id) = partitioned.map(PartitionedTable::id).or_else(|| table.replicated()) {
        let catalog = scope.catalog_of_cluster()?;
        let table = catalog.table(id)?;
        let name = Name::new(OWN_DATABASE, &table.schema, &table.name);
        return Some((NamedTable { of: Of::Table(name.clone()), schema }, Some((name, table.rows()))));
    }
    let databases = scope.databases.read();
    let named = databases.iter().find(|named| Arc::ptr_eq(&named.snapshot, table.snapshot()))?;
    let name = Name::new(&named.name, &entry.schema, &entry.name);
    Some((NamedTable { of: Of::Table(name.clone()), schema }, Some((name, table.data().rows()))))
}

/// Returns the rows that a table has now, on all nodes if it is one of a cluster.
fn rows_of(name: &Name, scope: &Scope) -> Option<u64> {
    match scope.cluster_table(name) {
        Some((_, catalog, id)) => Some(catalog.table(id)?.rows()),
        None => Some(scope.snapshot_of(&name.database)?.table(&name.schema, &name.name)?.rows()),
    }
}

/// Returns rows that the running statement is given.
fn given(name: &str, scope: &Scope) -> Option<Arc<dyn TableSource>> {
    match scope.given(name)? {
        Relation::Rows { rows, .. } => Some(provider_as_source(rows)),
        _ => None,
    }
}

fn stored(name: &Name, scope: &Scope) -> Option<Arc<dyn TableSource>> {
    let snapshot = scope.snapshot_of(&name.database)?;
    let data = snapshot.table(&name.schema, &name.name)?.clone();
    // Defaults are for rows that are written.
    if let Some(cluster) = scope.cluster_table(name) {
        let shell = StoredTable::new(data.with_views(), snapshot, HashMap::new());
        return of_cluster(scope, cluster, shell).ok().map(provider_as_source);
    }
    Some(provider_as_source(Arc::new(StoredTable::new(data, snapshot, HashMap::new()))))
}
