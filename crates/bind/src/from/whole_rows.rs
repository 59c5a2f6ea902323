//! Whole rows: the name of a relation in FROM that is no column's, as in `SELECT t FROM t` and
//! `row_to_json(t)`. It is the structure of the relation's columns, and of a function that gives one
//! column its value (PostgreSQL, DuckDB). In a row that an outer join adds, it is NULL, as in PostgreSQL;
//! so it is in one whose columns are all NULL, which cannot be told from that.

use crate::scope::{Scope, change_select, first_select};
use datafusion::common::DFSchema;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, JoinConstraint, JoinOperator, ObjectName, Select, SelectItem,
    SelectItemQualifiedWildcardKind, Statement, TableFactor, TableWithJoins, Value,
    WildcardAdditionalOptions,
};
use hypostyle_error::column_name::unmarked_name;
use hypostyle_error::culprit::Unknown;
use hypostyle_sql::build;
use hypostyle_sql::call::call;
use hypostyle_sql::identifier::fold;
use hypostyle_sql::plain::{alias_of, constraint_of_mut, relations_of};
use hypostyle_sql::references::names_in;

/// Writes the row in the place of a name that is no column's, in the innermost SELECT that has a relation
/// of that name and names it; whether there is one.
pub async fn write(scope: Scope<'_>, statement: &mut Statement, unknown: &Unknown) -> bool {
    if unknown.table.is_some() {
        return false;
    }
    let name = unknown.name.as_str();
    let mut done = 0;
    loop {
        let mut number = 0;
        let found = first_select(statement, |select, context| {
            number += 1;
            let relation = relation_called(&select.from, name).filter(|_| number > done)?;
            let columns = SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(relation.table.clone()),
                WildcardAdditionalOptions::default(),
            );
            let query = context.query(vec![columns], without_conditions(&select.from));
            is_named(select, name).then(|| (number, relation, has_outer_join(&select.from), query))
        });
        let Some((number, relation, may_be_added, query)) = found else { return false };
        done = number;
        // The name is unknown within FROM: the question would ask itself.
        if matches!(statement, Statement::Query(asking) if **asking == query) {
            continue;
        }
        if let Ok(columns) = scope.schema_of(query).await
            && let Some(row) = relation.row(&columns, may_be_added)
        {
            change_select(statement, number, |select| write_rows(select, name, &row));
            return true;
        }
    }
}

/// What a SELECT calls one of its relations.
struct Relation {
    alias: Ident,
    /// The name by which the planner knows the wildcard of its columns: with its schema, if that is written.
    table: ObjectName,
    is_function: bool,
}

impl Relation {
    /// Returns the row of the relation.
    fn row(&self, columns: &DFSchema, may_be_added: bool) -> Option<Expr> {
        let names: Vec<&String> = columns.fields().iter().map(|field| field.name()).collect();
        let column = |name: &str| Expr::CompoundIdentifier(vec![self.alias.clone(), build::name(name)]);
        match names.as_slice() {
            [] => None,
            [only] if self.is_function => Some(column(only)),
            several => {
                let fields = several.iter().flat_map(|name| [build::text(name), column(name)]).collect();
                let row = call("named_struct", fields);
                if !may_be_added {
                    return Some(row);
                }
                let are_null = build::all_of(several.iter().map(|name| build::is_null(column(name))))?;
                Some(build::case(build::not(are_null), row))
            }
        }
    }
}

fn relation_called(from: &[TableWithJoins], name: &str) -> Option<Relation> {
    relations_of(from).into_iter().find_map(|factor| called(factor, name))
}

/// Returns a relation that is called by a name.
fn called(factor: &TableFactor, name: &str) -> Option<Relation> {
    let (alias, table) = match factor {
        TableFactor::Table { name, alias: None, args: None, .. } => {
            (name.0.last()?.as_ident()?.clone(), name.clone())
        }
        other => {
            let name = alias_of(other)?.name.clone();
            (name.clone(), ObjectName::from(vec![name]))
        }
    };
    let is_function = match factor {
        TableFactor::Table { args, .. } => args.is_some(),
        other => !matches!(other, TableFactor::Derived { .. } | TableFactor::NestedJoin { .. }),
    };
    // A relation may have got another name, which is shown as this one.
    (unmarked_name(&fold(&alias)) == name).then_some(Relation { alias, table, is_function })
}

/// Returns relations that are joined on any condition: it says nothing of their columns, and may itself
/// name a row.
fn without_conditions(from: &[TableWithJoins]) -> Vec<TableWithJoins> {
    let mut from = from.to_vec();
    let joins = from.iter_mut().flat_map(|tables| &mut tables.joins);
    for join in joins {
        if let Some(JoinConstraint::On(condition)) = constraint_of_mut(&mut join.join_operator) {
            *condition = Expr::value(Value::Boolean(true));
        }
    }
    from
}

/// Says whether rows may be added to those of a relation.
fn has_outer_join(from: &[TableWithJoins]) -> bool {
    from.iter().any(|tables| {
        let factors = std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation));
        let mut nested = factors.filter_map(|factor| match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => Some(table_with_joins.as_ref()),
            _ => None,
        });
        tables.joins.iter().any(|join| is_outer(&join.join_operator))
            || nested.any(|tables| has_outer_join(std::slice::from_ref(tables)))
    })
}

fn is_outer(operator: &JoinOperator) -> bool {
    use JoinOperator::{FullOuter, Left, LeftOuter, Right, RightOuter};
    matches!(operator, FullOuter(_) | Left(_) | LeftOuter(_) | Right(_) | RightOuter(_))
}

/// Says whether a SELECT itself has a name, with no table before it.
fn is_named(select: &Select, name: &str) -> bool {
    let mut found = false;
    names_in(&mut select.clone(), &mut |ident, table| {
        found |= table.is_none() && fold(ident) == name;
        None
    });
    found
}

/// Writes rows in a SELECT where a name means them.
fn write_rows(select: &mut Select, name: &str, row: &Expr) {
    // A name alone keeps its own name.
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(Expr::Identifier(ident)) = item
            && fold(ident) == name
        {
            *item = SelectItem::ExprWithAlias { alias: ident.clone(), expr: row.clone() };
        }
    }
    names_in(select, &mut |ident, table| (table.is_none() && fold(ident) == name).then(|| row.clone()));
}
