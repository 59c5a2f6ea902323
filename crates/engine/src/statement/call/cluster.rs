//! The tables of a benchmark, over the nodes of a cluster.

use crate::session::{Outcome, Parameters, Session};
use crate::statement::new_columns;
use crate::statement::queries::Queries;
use arrow::array::RecordBatch;
use datafusion::sql::sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use datafusion::sql::sqlparser::ast::{ColumnDef, ColumnOption, ColumnOptionDef, ObjectName};
use hypostyle_catalog::scope::OWN_DATABASE;
use hypostyle_cluster::node::Node;
use hypostyle_error::from_datafusion;
use hypostyle_exec::counters::Counters;
use hypostyle_placement::StatementId;
use hypostyle_placement::catalog::{Catalog, Change};
use hypostyle_placement::partition::FRAGMENTS_MAX;
use hypostyle_sql::build;
use hypostyle_sql::cluster::{ClusterStatement, Distribution};
use hypostyle_sql::type_tree::type_of;
use hypostyle_storage::{SCHEMA_MAIN, Snapshot, TableEntry};
use hypostyle_tpch::Table;
use hypostyle_types::{Error, ErrorKind, Result, TableId};
use std::sync::atomic::Ordering;
use uuid::Uuid;

/// Rows of one append. They are in memory twice while they are shared out among the fragments.
const PIECE_ROWS: usize = 2 << 20;

/// Fragments of a partitioned table for each node, so that REBALANCE can move whole ones.
const FRAGMENTS_OF_NODE: u32 = 4;

impl Session {
    /// Fills the tables of a benchmark, which must be empty where they are there already. Those that
    /// are made here are dropped again if the statement fails; others keep the pieces that were
    /// appended.
    pub(super) fn generate_in_cluster(&self, node: &Node, tables: &[Table]) -> Result<Outcome> {
        self.identity.privileges.check_write()?;
        self.ddl().outside_transaction()?;
        let catalog = node.catch_up()?;
        let snapshot = self.scope.database(OWN_DATABASE)?.snapshot;
        let mut missing = Vec::new();
        for table in tables {
            if is_missing(table, &catalog, &snapshot)? {
                missing.push(table);
            }
        }
        let filled = self.make_and_fill(node, &missing, tables);
        if filled.is_err() {
            for table in missing {
                if let Some(made) = node.known_catalog()?.table_named(SCHEMA_MAIN, table.name) {
                    node.define(Change::DropTable(made.id))?;
                }
            }
        }
        filled
    }

    fn make_and_fill(&self, node: &Node, missing: &[&Table], all: &[Table]) -> Result<Outcome> {
        for table in missing {
            self.execute_on_cluster(definition(table, node)?, &Parameters::None)?;
        }
        let threads = self.engine.threads();
        let mut filler = Filler { queries: self, counters: &self.counters, node, threads, rows: 0 };
        for table in all {
            filler.fill(table)?;
        }
        Ok(Outcome::Done { rows_affected: Some(filler.rows) })
    }
}

/// Fills tables of the cluster, and counts the rows.
struct Filler<'a> {
    queries: &'a dyn Queries,
    counters: &'a Counters,
    node: &'a Node,
    threads: usize,
    rows: u64,
}

impl Filler<'_> {
    /// Appends the rows of a table piece by piece, so that they need not be in memory all at once.
    fn fill(&mut self, table: &Table) -> Result<()> {
        let catalog = self.node.known_catalog()?;
        let entry = catalog.table_named(SCHEMA_MAIN, table.name);
        let id = entry.map(|entry| entry.id).ok_or_else(|| {
            Error::new(ErrorKind::Conflict, format!("table \"{}\" was dropped meanwhile", table.name))
        })?;
        let (mut piece, mut rows) = (Vec::new(), 0);
        for batch in table.read(self.threads)? {
            let batch = batch.map_err(|error| from_datafusion(error.into()))?;
            rows += batch.num_rows();
            piece.push(batch);
            self.queries.proceed()?;
            if rows >= PIECE_ROWS {
                self.append_piece(&catalog, id, &mut piece)?;
                rows = 0;
            }
        }
        self.append_piece(&catalog, id, &mut piece)
    }

    fn append_piece(&mut self, seen: &Catalog, id: TableId, piece: &mut Vec<RecordBatch>) -> Result<()> {
        if !piece.is_empty() {
            self.rows += self.node.append(id, StatementId(Uuid::new_v4()), piece, seen)?;
            self.counters.done.store(self.rows, Ordering::Relaxed);
            piece.clear();
        }
        Ok(())
    }
}

/// Says whether a table has to be made; one that is there can be filled.
///
/// # Errors
/// `AlreadyExists` for a table with rows and for one that is not of the cluster, `InvalidInput` for
/// other columns.
fn is_missing(table: &Table, catalog: &Catalog, snapshot: &Snapshot) -> Result<bool> {
    let name = table.name;
    let own = snapshot.table(SCHEMA_MAIN, name);
    let Some(entry) = catalog.table_named(SCHEMA_MAIN, name) else {
        return match own.is_some() || snapshot.catalog().view(SCHEMA_MAIN, name).is_some() {
            true => Err(Error::new(
                ErrorKind::AlreadyExists,
                format!("there is a table or view \"{name}\" already, which is not of the cluster: drop it"),
            )),
            false => Ok(true),
        };
    };
    if entry.rows() > 0 {
        let message = format!(
            "table \"{name}\" of the cluster has {} rows already: CALL fills empty tables, or makes them; drop it",
            entry.rows()
        );
        return Err(Error::new(ErrorKind::AlreadyExists, message));
    }
    let own = own.ok_or_else(|| Error::internal(format!("the node has not made table \"{name}\"")))?;
    match own.entry().constraints.is_empty() && has_columns(own.entry(), table)? {
        true => Ok(false),
        false => Err(Error::invalid_input(format!(
            "table \"{name}\" of the cluster has other columns than that of the benchmark, or constraints: drop it"
        ))),
    }
}

fn has_columns(entry: &TableEntry, table: &Table) -> Result<bool> {
    let wanted = new_columns(&table.schema)?;
    let is_same = entry.columns.len() == wanted.len()
        && entry.columns.iter().zip(&wanted).all(|(own, wanted)| {
            own.name == wanted.name && own.logical_type == wanted.logical_type && own.generated.is_none()
        });
    Ok(is_same)
}

/// Returns the statement that makes a table with two replicas of each fragment, where there are two
/// nodes for them.
fn definition(table: &Table, node: &Node) -> Result<ClusterStatement> {
    let columns = new_columns(&table.schema)?.into_iter().map(|column| {
        let not_null = ColumnOptionDef { name: None, option: ColumnOption::NotNull };
        let options = if column.nullable { Vec::new() } else { vec![not_null] };
        ColumnDef { name: build::name(&column.name), data_type: type_of(&column.logical_type), options }
    });
    let name = ObjectName::from(vec![build::name(SCHEMA_MAIN), build::name(table.name)]);
    let create = CreateTableBuilder::new(name).columns(columns.collect()).build();
    let nodes = node.known_catalog()?.active_nodes().len().clamp(1, FRAGMENTS_MAX as usize) as u32;
    let distribution = match table.partition_key() {
        None => Distribution::Replicated,
        Some(key) => Distribution::Hash {
            columns: vec![key.into()],
            fragments: (nodes * FRAGMENTS_OF_NODE).min(FRAGMENTS_MAX),
            replicas: nodes.min(2),
        },
    };
    Ok(ClusterStatement::CreateTable { create: Box::new(create), distribution })
}
