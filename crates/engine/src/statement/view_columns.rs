//! The columns of a view are those that its query has when the view is made, also where `*` stands for
//! them, as in PostgreSQL: a column that a table gets later is none of the view's.

use crate::statement::queries::Queries;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
};
use hypostyle_sql::build;
use hypostyle_sql::printable::{self, is_printable};
use hypostyle_types::LogicalType;

/// Returns the query of a view of a database with names of columns in the place of `*` and `t.*`,
/// in its own SELECT and in those of its set operations. `None` where there is no wildcard, or one
/// whose columns cannot be written as names: REPLACE gives other values, and of two joined columns
/// of one name neither has a name of its own.
pub(super) fn with_written_columns(queries: &dyn Queries, database: &str, query: &Query) -> Option<Query> {
    let mut written = query.clone();
    if !write_columns(queries, database, query, &mut written.body)? {
        return None;
    }
    printable::rewrite(&mut written);
    let is_same = columns_of(queries, database, &written)? == columns_of(queries, database, query)?;
    is_same.then_some(written)
}

/// Returns the columns of a query.
pub(super) fn columns_of(
    queries: &dyn Queries,
    database: &str,
    query: &Query,
) -> Option<Vec<(String, LogicalType, bool)>> {
    let asking = build::limited(build::rows_of(query.clone()), 0);
    queries.columns_in(database, asking).ok()
}

/// Writes the columns of a part of a query, and says whether there was a wildcard.
fn write_columns(queries: &dyn Queries, database: &str, query: &Query, body: &mut SetExpr) -> Option<bool> {
    match body {
        SetExpr::Select(select) => write_items(queries, database, query, select),
        SetExpr::SetOperation { left, right, .. } => {
            let of_left = write_columns(queries, database, query, left)?;
            Some(write_columns(queries, database, query, right)? | of_left)
        }
        SetExpr::Query(inner) if inner.with.is_none() => {
            write_columns(queries, database, query, &mut inner.body)
        }
        _ => Some(false),
    }
}

fn write_items(queries: &dyn Queries, database: &str, query: &Query, select: &mut Select) -> Option<bool> {
    let is_wildcard =
        |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    if !select.projection.iter().any(is_wildcard) {
        return Some(false);
    }
    let mut items = Vec::with_capacity(select.projection.len());
    for item in &select.projection {
        match table_of(item) {
            Some(table) => {
                let names = names_of(queries, database, query, select, item)?;
                if !names.iter().all(|name| is_printable(name)) {
                    return None;
                }
                items.extend(names.into_iter().map(|name| column(&table, name)));
            }
            None if is_wildcard(item) => return None,
            None => items.push(item.clone()),
        }
    }
    select.projection = items;
    Some(true)
}

/// Returns the names of the columns that an item of a SELECT stands for.
fn names_of(
    queries: &dyn Queries,
    database: &str,
    query: &Query,
    select: &Select,
    item: &SelectItem,
) -> Option<Vec<String>> {
    if select.having.is_some() || !is_without_groups(&select.group_by) {
        return None;
    }
    let select = Select {
        projection: vec![item.clone()],
        distinct: None,
        selection: None,
        named_window: Vec::new(),
        qualify: None,
        ..select.clone()
    };
    let body = Box::new(SetExpr::Select(Box::new(select)));
    let of_item = Query { body, order_by: None, limit_clause: None, fetch: None, ..query.clone() };
    let columns = columns_of(queries, database, &of_item)?;
    Some(columns.into_iter().map(|(name, ..)| name).collect())
}

/// Returns what is written in front of the columns of a wildcard, if it leaves them as they are.
fn table_of(item: &SelectItem) -> Option<Vec<Ident>> {
    let (table, options) = match item {
        SelectItem::Wildcard(options) => (Vec::new(), options),
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
            let parts = name.0.iter().map(|part| part.as_ident().cloned());
            (parts.collect::<Option<Vec<Ident>>>()?, options)
        }
        _ => return None,
    };
    (options.opt_rename.is_none() && options.opt_replace.is_none()).then_some(table)
}

fn is_without_groups(groups: &GroupByExpr) -> bool {
    matches!(groups, GroupByExpr::Expressions(keys, modifiers) if keys.is_empty() && modifiers.is_empty())
}

fn column(table: &[Ident], name: String) -> SelectItem {
    let name = Ident::with_quote('"', name);
    SelectItem::UnnamedExpr(match table {
        [] => Expr::Identifier(name),
        table => Expr::CompoundIdentifier(table.iter().cloned().chain([name]).collect()),
    })
}
