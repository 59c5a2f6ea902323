//! The text of statements as syntax trees.

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{Expr, Query, Statement};
use hypostyle_sql::names::name_told_columns;
use hypostyle_sql::parse::{self, Extension};
use hypostyle_sql::type_tree::type_of;
use hypostyle_sql::{build, derived_names, literal, wire_names};
use hypostyle_types::{LogicalType, Result};

/// The additions to SQL in the dialect of statements: the names of PostgreSQL's catalogs, and those of
/// columns that are written in another way before they are planned.
const DIALECT: Extension = Extension {
    as_written: derived_names::keep_written,
    system_names: hypostyle_catalog::pg_catalog::rewrite,
};

/// The dialect of sessions that speak PostgreSQL's protocol: unnamed columns get the names that
/// PostgreSQL gives them, and functions that give rows give them among the columns of a query, too.
const WIRE_DIALECT: Extension = Extension { as_written: wire_names::rewrite, ..DIALECT };

/// Returns the additions for sessions that speak PostgreSQL's protocol, or for others.
pub(super) fn extension(is_wire: bool) -> &'static Extension {
    if is_wire { &WIRE_DIALECT } else { &DIALECT }
}

pub(super) fn parse(sql: &str) -> Result<DfStatement> {
    parse::parse(sql, &DIALECT)
}

pub(super) fn parse_query(sql: &str) -> Result<Query> {
    parse::parse_query(sql, &DIALECT)
}

/// Returns a query as a statement.
pub(super) fn as_statement(query: Query) -> DfStatement {
    DfStatement::Statement(Box::new(Statement::Query(Box::new(query))))
}

/// Names the columns of a query that gives what a statement of the caller's asks for, as PostgreSQL does for
/// sessions that speak its protocol.
pub(super) fn name_columns_for(query: &mut Query, is_wire: bool) {
    if is_wire {
        wire_names::name_query(query);
    }
    name_told_columns(query);
}

/// Returns a value as one of a type.
pub(super) fn cast(value: Expr, to: &LogicalType) -> Result<Expr> {
    let mut cast = build::cast(value, type_of(to));
    literal::rewrite(&mut cast)?;
    Ok(cast)
}
