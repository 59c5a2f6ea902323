//! What CREATE and ALTER have in common.

use crate::session::Session;
use crate::statement::completion::Compiler;
use crate::statement::constraint::{Checks, constrain, guard, with_view_of};
use crate::statement::databases::InDatabases;
use crate::statement::declared_constraint::{Declared, check_keys};
use crate::statement::names::Names;
use crate::statement::queries::Queries;
use crate::statement::refusal::refused_reference;
use hypostyle_catalog::scope::Scope;
use hypostyle_cluster::node::Node;
use hypostyle_storage::{ColumnEntry, ConstraintEntry, ConstraintRule, Transaction};
use hypostyle_types::{Error, Identity, Result, TableId};
use std::sync::Arc;

/// What gives tables their columns and constraints, and looks whether their rows keep these. The transaction
/// is handed to it; it neither begins nor commits one.
pub(crate) struct Definer<'a> {
    pub(super) queries: &'a dyn Queries,
    pub(super) scope: &'a Arc<Scope>,
    pub(super) checks: Checks<'a>,
    pub(super) compiler: Compiler<'a>,
    /// The threads of transactions that try a definition.
    pub(super) threads: usize,
}

/// What statements that define databases, schemas, tables, views, sequences and indexes may touch: names,
/// definitions, and transactions. They know no settings, and nothing that is kept for later statements.
pub(super) struct Ddl<'a> {
    pub queries: &'a dyn Queries,
    pub databases: InDatabases<'a>,
    pub identity: &'a Identity,
    /// The node of a cluster that the session's database is.
    pub node: Option<&'a Arc<Node>>,
    pub definer: Definer<'a>,
}

impl Session {
    pub(super) fn ddl(&self) -> Ddl<'_> {
        Ddl {
            queries: self,
            databases: InDatabases { scope: &self.scope, transactions: self },
            identity: &self.identity,
            node: self.engine.node(),
            definer: self.definer(),
        }
    }

    pub(crate) fn definer(&self) -> Definer<'_> {
        Definer {
            queries: self,
            scope: &self.scope,
            checks: self.checks(),
            compiler: self.compiler(),
            threads: self.engine.threads(),
        }
    }
}

impl Definer<'_> {
    pub(super) fn names(&self) -> Names<'_> {
        Names { scope: self.scope }
    }

    /// Declares constraints, and checks the rows that are there.
    pub(super) fn add_constraints(
        &self,
        writer: &mut Transaction,
        id: TableId,
        declared: &[Declared],
    ) -> Result<()> {
        self.declare(writer, id, declared)?;
        let table = writer
            .catalog()
            .table_by_id(id)
            .filter(|_| self.checks.cluster.cluster_table_of(writer, id).is_none());
        let mut constraints = table.into_iter().flat_map(|table| &table.constraints);
        let leads_away = |constraint: &ConstraintEntry| match constraint.rule {
            ConstraintRule::ForeignKey { table, .. } => {
                self.checks.cluster.cluster_table_of(writer, table).is_some()
            }
            _ => false,
        };
        if constraints.any(leads_away) { Err(refused_reference()) } else { Ok(()) }
    }

    /// Declares constraints of a table, which may become one of the cluster.
    pub(super) fn declare(&self, writer: &mut Transaction, id: TableId, declared: &[Declared]) -> Result<()> {
        let of_cluster = match declared {
            [] => None,
            _ => self.checks.looks_at_rows(writer, id)?,
        };
        if let Some(of_cluster) = of_cluster {
            check_declared_in_cluster(self.scope, writer, (id, of_cluster), declared)?;
        }
        for constraint in declared {
            let Some(table) = writer.catalog().table_by_id(id).cloned() else {
                return Err(Error::internal("a table that is being altered is missing"));
            };
            let entry = constraint.resolve(self.names(), &table, writer)?;
            if let ConstraintRule::Check { sql } = &entry.rule {
                self.compiler.check_condition(&table, &entry.name, sql)?;
            }
            let key = match &entry.rule {
                ConstraintRule::PrimaryKey { columns } => columns.clone(),
                _ => Vec::new(),
            };
            let in_key = |column: &&ColumnEntry| key.contains(&column.id);
            // The values may still be NULL.
            with_view_of(self.scope, writer, |writer, _| {
                let database = self.scope.name_of(writer.database())?;
                let mut nullable = table.columns.iter().filter(in_key).filter(|column| column.nullable);
                nullable
                    .try_for_each(|column| self.checks.check_not_null(&database, &table, &column.name))?;
                match of_cluster {
                    Some(of_cluster) => self.checks.check_published(writer, (&table, of_cluster), &entry),
                    None => Ok(()),
                }
            })?;
            writer.alter_table(id, |table| {
                constrain(table, entry);
                Ok(())
            })?;
        }
        with_view_of(self.scope, writer, |writer, snapshot| {
            let Some(table) = snapshot.table_by_id(id) else { return Ok(()) };
            let added = table.entry().constraints.len() - declared.len();
            for constraint in &table.entry().constraints[added..] {
                guard(writer, id, constraint);
                self.checks.check_new(writer, snapshot, id, constraint, None, true)?;
            }
            Ok(())
        })
    }
}

/// Checks that a table of the cluster can have constraints.
fn check_declared_in_cluster(
    scope: &Scope,
    writer: &Transaction,
    (id, of_cluster): (TableId, TableId),
    declared: &[Declared],
) -> Result<()> {
    let catalog = scope.catalog_of_cluster();
    let table = catalog.as_ref().and_then(|catalog| catalog.table(of_cluster));
    let entry = writer.catalog().table_by_id(id);
    let (table, entry) = table.zip(entry).ok_or_else(|| Error::internal("an altered table that is gone"))?;
    let names: Vec<&str> = entry.columns.iter().map(|column| column.name.as_str()).collect();
    check_keys(declared, &names, &table.partitioning)
}
