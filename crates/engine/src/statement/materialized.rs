//! Materialized views: tables with the rows that a query gave when they were made, or when they were
//! refreshed last.

use crate::session::outcome::DONE;
use crate::session::{Outcome, Parameters, Session};
use crate::statement::ddl::{refuse_twice, refuse_twice_named, refuse_view_options};
use crate::statement::definer::Ddl;
use crate::statement::dialect::parse_query;
use crate::statement::refusal::refuse_other_kind;
use crate::statement::view_columns::with_written_columns;
use datafusion::sql::sqlparser::ast::{AlterTable, AlterTableOperation};
use hypostyle_catalog::scope::Name;
use hypostyle_sql::build;
use hypostyle_sql::identifier::quoted;
use hypostyle_sql::names::name_columns;
use hypostyle_sql::qualifiers;
use hypostyle_sql::statement::{CreateMaterialized, Refresh};
use hypostyle_storage::{NewColumn, StoredQuery, TableEntry, unknown_table};
use hypostyle_types::{Error, ErrorKind, Result};
use roaring::RoaringTreemap;

/// Refuses to write rows to a materialized view.
///
/// # Errors
/// `InvalidInput` (42809).
pub(super) fn refuse_materialized(table: &TableEntry) -> Result<()> {
    if table.query.is_none() {
        return Ok(());
    }
    Err(Error::invalid_input(format!(
        "cannot change materialized view \"{}\": REFRESH MATERIALIZED VIEW writes its rows anew",
        table.name
    ))
    .with_sqlstate("42809"))
}

/// Refuses to change more of a materialized view than names.
///
/// # Errors
/// `InvalidInput` (42809).
pub(super) fn refuse_alteration(table: &TableEntry, operations: &[AlterTableOperation]) -> Result<()> {
    let is_name = |operation: &AlterTableOperation| {
        matches!(
            operation,
            AlterTableOperation::RenameTable { .. } | AlterTableOperation::RenameColumn { .. }
        )
    };
    if table.query.is_none() || operations.iter().all(is_name) {
        return Ok(());
    }
    Err(Error::invalid_input(format!(
        "\"{}\" is a materialized view, whose query says what columns it has: only its names can be changed",
        table.name
    ))
    .with_sqlstate("42809"))
}

impl Ddl<'_> {
    /// Runs CREATE MATERIALIZED VIEW.
    pub(super) fn create_materialized(&self, view: CreateMaterialized) -> Result<Outcome> {
        let CreateMaterialized { mut create, with_data } = view;
        refuse_view_options(&create)?;
        if self.node.is_some() {
            return Err(Error::unsupported("materialized views are not supported in a cluster"));
        }
        let Name { database, schema, name } = self.resolve_new(&create.name, false)?;
        let catalog = self.databases.names().snapshot_of(&database)?;
        if create.if_not_exists
            && (catalog.table(&schema, &name).is_some() || catalog.catalog().view(&schema, &name).is_some())
        {
            return Ok(DONE);
        }
        if create.columns.is_empty() {
            refuse_twice_named(&create.query)?;
        }
        name_columns(&mut create.query);
        if let Some(written) = with_written_columns(self.queries, &database, &create.query) {
            *create.query = written;
        }
        let query = StoredQuery {
            sql: create.query.to_string(),
            schema: self.databases.scope.current().1,
            populated: with_data,
        };
        let asked = build::rows_of(create.query.as_ref().clone());
        let outcome = self.queries.start(asked.clone(), &Parameters::None)?;
        let described = Session::describe(&outcome)?;
        let given = create.columns.iter().map(|column| hypostyle_sql::identifier::fold(&column.name));
        let given: Vec<String> = given.collect();
        if given.len() > described.len() {
            return Err(Error::new(
                ErrorKind::Syntax,
                format!(
                    "materialized view \"{name}\" names {} columns, but its query has {}",
                    given.len(),
                    described.len()
                ),
            ));
        }
        let columns = described.into_iter().enumerate().map(|(place, (own, logical_type, _))| {
            NewColumn::new(given.get(place).cloned().unwrap_or(own), logical_type, true)
        });
        let mut columns: Vec<NewColumn> = columns.collect();
        refuse_twice(columns.iter().map(|column| column.name.as_str()))?;
        self.widen_computed(&mut columns, asked, &Parameters::None)?;
        self.databases.write(&database, |writer| {
            let id = writer.create_table(&schema, &name, columns)?;
            writer.alter_table(id, |table| {
                table.query = Some(query);
                Ok(())
            })?;
            let mut rows = 0;
            if with_data {
                self.queries.each_of(outcome, &mut |batch| {
                    rows += batch.num_rows() as u64;
                    writer.append(id, &batch)
                })?;
            }
            Ok(Outcome::Done { rows_affected: with_data.then_some(rows) })
        })
    }

    /// Makes a table that was imported the materialized view that a statement says, whose query is
    /// not planned: what it reads may come later, or be gone.
    pub(super) fn import_materialized(&self, view: CreateMaterialized) -> Result<()> {
        let CreateMaterialized { create, with_data: populated } = view;
        let name = self.databases.names().resolve(&create.name)?;
        let snapshot = self.databases.names().snapshot_of(&name.database)?;
        let table = snapshot.catalog().table(&name.schema, &name.name);
        let id = table.ok_or_else(|| unknown_table(snapshot.catalog(), &name.name))?.id;
        let query = StoredQuery { sql: create.query.to_string(), schema: name.schema.clone(), populated };
        self.databases.write(&name.database, |writer| {
            writer.alter_table(id, |table| {
                table.query = Some(query);
                Ok(())
            })
        })
    }

    /// Runs REFRESH MATERIALIZED VIEW: the rows become those that the query gives now.
    pub(super) fn refresh_materialized(&self, refresh: Refresh) -> Result<Outcome> {
        let Refresh { name: written, concurrently, with_data } = refresh;
        let (name, written) = (self.databases.names().resolve(&written)?, written.to_string());
        let snapshot = self.databases.names().snapshot_of(&name.database)?;
        refuse_other_kind(snapshot.catalog(), &name.schema, &name.name, "a materialized view")?;
        let Some(table) = snapshot.table(&name.schema, &name.name).cloned() else {
            return Err(unknown_table(snapshot.catalog(), &written));
        };
        let query = table.entry().query.clone();
        let query = query.ok_or_else(|| Error::internal("a materialized view without a query"))?;
        if concurrently && !query.populated {
            return Err(Error::invalid_input(format!(
                "CONCURRENTLY needs a materialized view with rows, and \"{written}\" has not been populated: \
                 leave CONCURRENTLY out"
            ))
            .with_sqlstate("55000"));
        }
        let outcome = match with_data {
            true => Some(self.rows_of(&name, &query)?),
            false => None,
        };
        let id = table.entry().id;
        if let Some(outcome) = &outcome {
            let (gives, has) = (Session::describe(outcome)?.len(), table.entry().columns.len());
            if gives != has {
                return Err(Error::invalid_input(format!(
                    "the query of materialized view \"{written}\" gives {gives} columns now, but it has {has}: \
                     drop it and create it anew"
                ))
                .with_sqlstate("42P16"));
            }
        }
        self.databases.write(&name.database, |writer| {
            if query.populated != with_data {
                writer.alter_table(id, |table| {
                    if let Some(query) = &mut table.query {
                        query.populated = with_data;
                    }
                    Ok(())
                })?;
            }
            let mut all = RoaringTreemap::new();
            all.insert_range(0..table.positions());
            writer.delete(id, &all)?;
            if let Some(outcome) = outcome {
                self.queries.each_of(outcome, &mut |batch| writer.append(id, &batch))?;
            }
            Ok(DONE)
        })
    }

    /// Runs the query of a materialized view, whose names are those of where it was made.
    fn rows_of(&self, name: &Name, query: &StoredQuery) -> Result<Outcome> {
        let before = self.databases.scope.path();
        self.databases.scope.set_current(&name.database, &query.schema);
        let full_name = |parts: &[String]| {
            let found = self.databases.scope.resolve(parts, None).ok()?;
            Some([found.database, found.schema, found.name])
        };
        let outcome = parse_query(&query.sql).and_then(|mut query| {
            // Older definitions may have a schema before names that FROM does not have.
            let _asked = qualifiers::rewrite(&mut query, &full_name);
            self.queries.start(build::rows_of(query), &Parameters::None)
        });
        self.databases.scope.set_path(before);
        outcome.map_err(|error| error.nowhere().context(format!("materialized view {}", quoted(&name.name))))
    }

    /// Runs ALTER MATERIALIZED VIEW, as the ALTER TABLE that it is.
    pub(super) fn alter_materialized(&self, alter: AlterTable) -> Result<Outcome> {
        let table = self.databases.names().table_data(&self.databases.names().resolve(&alter.name)?);
        if table.as_ref().is_some_and(|table| table.entry().query.is_none()) {
            let message = format!("\"{}\" is not a materialized view", alter.name);
            return Err(Error::invalid_input(message).with_sqlstate("42809"));
        }
        self.alter_table(alter)
    }
}
