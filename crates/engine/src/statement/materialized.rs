//! Materialized views: tables with the rows that a query gave when they were made, or when they were
//! refreshed last.

use crate::session::outcome::DONE;
use crate::session::{Outcome, Parameters, Session};
use crate::statement::ddl::{refuse_twice, refuse_twice_named, refuse_view_options};
use crate::statement::dialect::parse;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{AlterTableOperation, Statement};
use hypostyle_catalog::scope::Name;
use hypostyle_sql::identifier::{quoted, split_name};
use hypostyle_sql::lexer::{Token, TokenKind, tokens};
use hypostyle_sql::names::name_columns;
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

/// Returns a statement without `WITH [NO] DATA` at its end, and whether the view gets rows.
fn data_clause(sql: &str) -> (&str, bool) {
    let words: Vec<Token<'_>> = tokens(sql).filter(|token| token.kind != TokenKind::Comment).collect();
    let is = |from_end: usize, word: &str| {
        words
            .len()
            .checked_sub(from_end)
            .is_some_and(|at| words[at].kind == TokenKind::Word && words[at].text.eq_ignore_ascii_case(word))
    };
    let until = |from_end: usize| &sql[..words[words.len() - from_end].start];
    match (is(1, "DATA"), is(2, "NO")) {
        (true, true) if is(3, "WITH") => (until(3), false),
        (true, _) if is(2, "WITH") => (until(2), true),
        _ => (sql, true),
    }
}

/// What REFRESH says.
struct Refresh<'a> {
    name: &'a str,
    concurrently: bool,
    with_data: bool,
}

impl<'a> Refresh<'a> {
    fn of(sql: &'a str) -> Result<Self> {
        let usage = || {
            Error::new(
                ErrorKind::Syntax,
                "write REFRESH MATERIALIZED VIEW [CONCURRENTLY] name [WITH [NO] DATA]",
            )
        };
        let (text, with_data) = data_clause(sql);
        let mut words = tokens(text).filter(|token| token.kind != TokenKind::Comment).skip(2).peekable();
        let mut accept = |word: &str| {
            words
                .next_if(|token| token.kind == TokenKind::Word && token.text.eq_ignore_ascii_case(word))
                .is_some()
        };
        if !accept("VIEW") {
            return Err(usage());
        }
        let concurrently = accept("CONCURRENTLY");
        let start = words.next().ok_or_else(usage)?.start;
        if concurrently && !with_data {
            return Err(Error::new(ErrorKind::Syntax, "REFRESH has CONCURRENTLY or WITH NO DATA, not both"));
        }
        Ok(Self { name: text[start..].trim(), concurrently, with_data })
    }
}

impl Session {
    /// Runs CREATE MATERIALIZED VIEW.
    pub(super) fn create_materialized(&self, sql: &str) -> Result<Outcome> {
        let (text, with_data) = data_clause(sql);
        let DfStatement::Statement(statement) = self.parse_own(text)? else {
            return Err(Error::internal("a materialized view that is no statement"));
        };
        let Statement::CreateView(mut create) = *statement else {
            return Err(Error::new(ErrorKind::Syntax, "write CREATE MATERIALIZED VIEW name AS query"));
        };
        refuse_view_options(&create)?;
        if self.engine.node().is_some() {
            return Err(Error::unsupported("materialized views are not supported in a cluster"));
        }
        let Name { database, schema, name } = self.resolve_new(&create.name, false)?;
        let catalog = self.snapshot_of(&database)?;
        if create.if_not_exists
            && (catalog.table(&schema, &name).is_some() || catalog.catalog().view(&schema, &name).is_some())
        {
            return Ok(DONE);
        }
        if create.columns.is_empty() {
            refuse_twice_named(&create.query)?;
        }
        name_columns(&mut create.query);
        if let Some(written) = self.with_written_columns(&database, &create.query) {
            *create.query = written;
        }
        let query = StoredQuery {
            sql: create.query.to_string(),
            schema: self.scope.current().1,
            populated: with_data,
        };
        let statement = as_source(&query.sql)?;
        let outcome = self.query(statement.clone(), &Parameters::None)?;
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
        self.widen_computed(&mut columns, statement, &Parameters::None)?;
        self.write(&database, |writer| {
            let id = writer.create_table(&schema, &name, columns)?;
            writer.alter_table(id, |table| {
                table.query = Some(query);
                Ok(())
            })?;
            let mut rows = 0;
            if with_data {
                self.each_batch(outcome, |batch| {
                    rows += batch.num_rows() as u64;
                    writer.append(id, &batch)
                })?;
            }
            Ok(Outcome::Done { rows_affected: with_data.then_some(rows) })
        })
    }

    /// Makes a table that was imported the materialized view that a statement says, whose query is
    /// not planned: what it reads may come later, or be gone.
    pub(super) fn import_materialized(&self, sql: &str) -> Result<()> {
        let (text, populated) = data_clause(sql);
        let wrong =
            || Error::invalid_input("an exported materialized view is CREATE MATERIALIZED VIEW … AS …");
        let DfStatement::Statement(statement) = parse(text)? else { return Err(wrong()) };
        let Statement::CreateView(create) = *statement else { return Err(wrong()) };
        let name = self.resolve(&create.name)?;
        let snapshot = self.snapshot_of(&name.database)?;
        let table = snapshot.catalog().table(&name.schema, &name.name);
        let id = table.ok_or_else(|| unknown_table(snapshot.catalog(), &name.name))?.id;
        let query = StoredQuery { sql: create.query.to_string(), schema: name.schema.clone(), populated };
        self.write(&name.database, |writer| {
            writer.alter_table(id, |table| {
                table.query = Some(query);
                Ok(())
            })
        })
    }

    /// Runs REFRESH MATERIALIZED VIEW: the rows become those that the query gives now.
    pub(super) fn refresh_materialized(&self, sql: &str) -> Result<Outcome> {
        let Refresh { name: written, concurrently, with_data } = Refresh::of(sql)?;
        let name = self.scope.resolve(&split_name(written), None)?;
        let snapshot = self.snapshot_of(&name.database)?;
        let Some(table) = snapshot.table(&name.schema, &name.name).cloned() else {
            return Err(unknown_table(snapshot.catalog(), written));
        };
        let Some(query) = table.entry().query.clone() else {
            return Err(Error::invalid_input(format!("\"{written}\" is not a materialized view"))
                .with_sqlstate("42809"));
        };
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
        self.write(&name.database, |writer| {
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
                self.each_batch(outcome, |batch| writer.append(id, &batch))?;
            }
            Ok(DONE)
        })
    }

    /// Runs the query of a materialized view, whose names are those of where it was made.
    fn rows_of(&self, name: &Name, query: &StoredQuery) -> Result<Outcome> {
        let before = self.scope.search();
        self.scope.set_current(&name.database, &query.schema);
        let outcome = as_source(&query.sql).and_then(|statement| self.query(statement, &Parameters::None));
        self.scope.set_search(before);
        outcome.map_err(|error| error.nowhere().context(format!("materialized view {}", quoted(&name.name))))
    }

    /// Runs ALTER MATERIALIZED VIEW, as the ALTER TABLE that it is.
    pub(super) fn alter_materialized(&self, sql: &str) -> Result<Outcome> {
        let mut words = tokens(sql).filter(|token| token.kind != TokenKind::Comment).skip(1);
        let start = words.next().map(|token| token.start);
        let end =
            words.next().filter(|token| token.text.eq_ignore_ascii_case("VIEW")).map(|token| token.end());
        let (Some(start), Some(end)) = (start, end) else {
            return Err(Error::new(ErrorKind::Syntax, "write ALTER MATERIALIZED VIEW name RENAME TO other"));
        };
        match self.parse_own(&format!("{}TABLE{}", &sql[..start], &sql[end..]))? {
            DfStatement::Statement(statement) => match *statement {
                Statement::AlterTable(alter) => {
                    let table = self.table_data(&self.resolve(&alter.name)?);
                    if table.as_ref().is_some_and(|table| table.entry().query.is_none()) {
                        let message = format!("\"{}\" is not a materialized view", alter.name);
                        return Err(Error::invalid_input(message).with_sqlstate("42809"));
                    }
                    self.alter_table(alter)
                }
                _ => Err(Error::internal("not an ALTER TABLE")),
            },
            _ => Err(Error::internal("not an ALTER TABLE")),
        }
    }
}

/// Returns a query that is planned as a part of another: some run as soon as they are planned.
fn as_source(sql: &str) -> Result<DfStatement> {
    parse(&format!("SELECT * FROM ({sql}) AS source"))
}

#[cfg(test)]
mod tests {
    use super::{Refresh, data_clause};

    #[test]
    fn the_clause_of_the_data_is_the_last_one() {
        for (sql, text, with_data) in [
            ("CREATE … AS SELECT 1 WITH DATA", "CREATE … AS SELECT 1 ", true),
            ("CREATE … AS SELECT 1 with no /* … */ data -- x", "CREATE … AS SELECT 1 ", false),
            ("CREATE … AS SELECT 'WITH DATA'", "CREATE … AS SELECT 'WITH DATA'", true),
            ("CREATE … AS SELECT no DATA", "CREATE … AS SELECT no DATA", true),
        ] {
            assert_eq!(data_clause(sql), (text, with_data), "{sql}");
        }
        let of =
            |sql| Refresh::of(sql).map(|refresh| (refresh.name, refresh.concurrently, refresh.with_data));
        assert_eq!(of("REFRESH MATERIALIZED VIEW a.\"B\" WITH NO DATA").unwrap(), ("a.\"B\"", false, false));
        assert_eq!(of("refresh materialized view concurrently m").unwrap(), ("m", true, true));
        for wrong in [
            "REFRESH MATERIALIZED VIEW",
            "REFRESH MATERIALIZED m",
            "REFRESH MATERIALIZED VIEW CONCURRENTLY m WITH NO DATA",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
