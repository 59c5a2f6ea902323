//! Statements that write within WITH, as `WITH gone AS (DELETE FROM a RETURNING *) INSERT INTO b SELECT *
//! FROM gone` (PostgreSQL). They run one after the other in one transaction, and what they return are rows
//! that the others read. In PostgreSQL each of them sees what there was before all of them. So that it makes
//! no difference here, a table that one of them changes is named in no other.

use crate::session::{Outcome, Parameters, Session};
use crate::statement::constraint::referring;
use crate::statement::given_rows::given_table;
use crate::statement::names::Names;
use crate::statement::queries::Queries;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Cte, FromTable, ObjectName, Query, Statement, TableFactor, TableObject, Visitor, With,
};
use hypostyle_catalog::scope::Name;
use hypostyle_sql::build;
use hypostyle_sql::common_table::{main_of, writes_within, writing};
use hypostyle_sql::identifier::fold;
use hypostyle_sql::walk::walk;
use hypostyle_types::{Error, Result};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// A part of such a statement: a query of WITH, or what is behind WITH.
struct Part {
    /// The table that it changes, and whether it changes or removes rows that are there.
    written: Option<(Name, bool)>,
    /// The tables that it names.
    named: HashSet<Name>,
}

impl Session {
    /// Runs a query whose WITH has statements that write.
    ///
    /// # Errors
    /// `Unsupported` where one part would see what another one has changed.
    pub(super) fn query_with_writes(&self, query: Query, parameters: &Parameters) -> Result<Outcome> {
        self.names().check_apart(&query)?;
        if self.is_in_transaction() {
            return self.run_parts(query, parameters);
        }
        self.begin(&[])?;
        match self.run_parts(query, parameters) {
            Ok(outcome) => self.commit(false).map(|_| outcome),
            Err(error) => {
                // What went wrong first is what is told.
                let _rolled_back = self.roll_back(false, None);
                Err(error)
            }
        }
    }

    fn run_parts(&self, mut query: Query, parameters: &Parameters) -> Result<Outcome> {
        let Some(with) = query.with.take() else {
            return Err(Error::internal("a query without WITH that writes within it"));
        };
        let (mut defined, mut returned) = (Vec::with_capacity(with.cte_tables.len()), Vec::new());
        for mut table in with.cte_tables.clone() {
            if writing(&table.query).is_some() {
                let own = table.query.with.take();
                let tables = defined.iter().cloned().chain(own.into_iter().flat_map(|own| own.cte_tables));
                let part = Query { with: with_of(&with, tables.collect()), ..table.query.as_ref().clone() };
                let outcome = self.execute_parsed(as_written(main_of(part)), parameters)?;
                // One that returns nothing is no relation.
                if matches!(outcome, Outcome::Done { .. }) {
                    continue;
                }
                let (schema, rows) = self.collect_rows(outcome)?;
                // Others of the statement have rows of their own.
                let rows = given_table(&self.scope, "changed", schema, rows)?.shown_only();
                *table.query = build::all_rows(rows.factor(None));
                returned.push(rows);
            }
            defined.push(table);
        }
        query.with = with_of(&with, defined);
        let outcome = self.execute_parsed(as_written(main_of(query)), parameters)?;
        // Rows that are returned are there until they have been read.
        let outcome = self.computed(outcome);
        drop(returned);
        outcome
    }
}

impl Names<'_> {
    /// Looks whether each part of a statement sees the same rows, whatever the others change.
    fn check_apart(&self, query: &Query) -> Result<()> {
        let Some(with) = &query.with else { return Ok(()) };
        let tables = &with.cte_tables;
        if tables.iter().any(|table| writes_within(&table.query)) {
            return Err(Error::unsupported("a statement that writes stands within the outermost WITH alone"));
        }
        let defined: HashSet<String> = tables.iter().map(|table| fold(&table.alias.name)).collect();
        let main = Query { with: None, ..query.clone() };
        let queries = tables.iter().map(|table| table.query.as_ref()).chain([&main]);
        let parts = queries.map(|query| self.part_of(query, &defined)).collect::<Result<Vec<_>>>()?;
        for (place, part) in parts.iter().enumerate() {
            let Some((table, changes_rows)) = &part.written else { continue };
            let mut others = parts.iter().enumerate().filter(|(other, _)| *other != place);
            let is_named = others.any(|(_, other)| {
                other.named.contains(table)
                    || other.written.as_ref().is_some_and(|(written, _)| written == table)
                    || (*changes_rows && self.is_referred_by(table, &other.named))
            });
            if is_named {
                return Err(Error::unsupported(format!(
                    "table \"{}\" is changed by one part of the statement, and another one names it, or a table that \
                     refers to it, whose rows are those of before; run them one after the other, in a transaction",
                    table.name
                )));
            }
        }
        Ok(())
    }

    /// Says whether one of some tables has a foreign key to a table.
    fn is_referred_by(&self, table: &Name, named: &HashSet<Name>) -> bool {
        let Ok(snapshot) = self.snapshot_of(&table.database) else { return true };
        let Some(data) = snapshot.table(&table.schema, &table.name) else { return false };
        let mut referring = referring(snapshot.catalog(), data.entry().id);
        referring.any(|(other, _)| named.contains(&Name::new(&*table.database, &*other.schema, &*other.name)))
    }

    fn part_of(&self, query: &Query, defined: &HashSet<String>) -> Result<Part> {
        let mut named = HashSet::new();
        for name in names_in(query) {
            let is_defined = |name: &ObjectName| match name.0.as_slice() {
                [part] => part.as_ident().is_some_and(|part| defined.contains(&fold(part))),
                _ => false,
            };
            let Some(found) = self.resolve(&name).ok().filter(|_| !is_defined(&name)) else { continue };
            let snapshot = self.snapshot_of(&found.database).ok();
            let view = snapshot.as_ref().and_then(|own| own.catalog().view(&found.schema, &found.name));
            if view.is_some() {
                return Err(Error::unsupported(format!(
                    "view \"{}\" beside a statement that writes within WITH is not supported; write its query",
                    found.name
                )));
            }
            named.insert(found);
        }
        let written = match writing(query) {
            Some(statement) => written_by(statement).map(|name| self.resolve(name)).transpose()?,
            None => None,
        };
        let changes_rows = !matches!(writing(query), Some(Statement::Insert(_)));
        Ok(Part { written: written.map(|written| (written, changes_rows)), named })
    }
}

fn as_written(statement: Statement) -> DfStatement {
    DfStatement::Statement(Box::new(statement))
}

/// Returns a WITH of these queries; `None` for none.
fn with_of(with: &With, tables: Vec<Cte>) -> Option<With> {
    (!tables.is_empty()).then(|| With { cte_tables: tables, ..with.clone() })
}

/// Returns the table that a statement writes to.
fn written_by(statement: &Statement) -> Option<&ObjectName> {
    match statement {
        Statement::Insert(insert) => match &insert.table {
            TableObject::TableName(name) => Some(name),
            _ => None,
        },
        Statement::Update(update) => name_of(&update.table.relation),
        Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            from.first().and_then(|table| name_of(&table.relation))
        }
        Statement::Merge(merge) => name_of(&merge.table),
        _ => None,
    }
}

fn name_of(factor: &TableFactor) -> Option<&ObjectName> {
    match factor {
        TableFactor::Table { name, .. } => Some(name),
        _ => None,
    }
}

/// Returns the names of relations in a query.
fn names_in(query: &Query) -> Vec<ObjectName> {
    struct Names(Vec<ObjectName>);
    impl Visitor for Names {
        type Break = ();

        fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
            self.0.push(relation.clone());
            ControlFlow::Continue(())
        }
    }
    let mut names = Names(Vec::new());
    let _all = walk(query, &mut names);
    names.0
}
