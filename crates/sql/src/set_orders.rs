//! ORDER BY of UNION, INTERSECT and EXCEPT, which names columns of the result (ISO/IEC 9075-2, 7.17),
//! also behind parentheses. Of a column of one side that the result does not have, the error is to say so.

use crate::identifier::fold;
use crate::names::names_given;
use crate::walk::{checked, expressions, walk, walk_mut};
use hypostyle_types::{Error, ErrorKind, Result};
use sqlparser::ast::{
    Expr, Ident, OrderByKind, Query, SelectItem, SetExpr, SetQuantifier, Statement, Values, Visitor,
    VisitorMut,
};
use std::ops::ControlFlow;

/// Takes off the parentheses in `(SELECT a FROM t) ORDER BY b`: the clauses behind them are the query's
/// own, as in PostgreSQL. Those stay that have clauses within.
pub fn without_parentheses(statement: &mut Statement) {
    let _done = walk_mut(statement, &mut Parentheses);
}

struct Parentheses;

impl VisitorMut for Parentheses {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        while let SetExpr::Query(inner) = query.body.as_mut()
            && has_no_clauses(inner)
            && (query.with.is_none() || inner.with.is_none())
        {
            let nothing = Values { explicit_row: false, value_keyword: false, rows: Vec::new() };
            let body = std::mem::replace(inner.body.as_mut(), SetExpr::Values(nothing));
            query.with = query.with.take().or_else(|| inner.with.take());
            *query.body = body;
        }
        ControlFlow::Continue(())
    }
}

/// Says whether nothing stands behind the body of a query.
fn has_no_clauses(query: &Query) -> bool {
    query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty()
        && query.for_clause.is_none()
        && query.settings.is_none()
        && query.format_clause.is_none()
        && query.pipe_operators.is_empty()
}

/// # Errors
/// `UnknownName` for a name that is none of the result's: 42P01 with a table before it, or else 42703.
pub fn check(statement: &Statement) -> Result<()> {
    checked(walk(statement, &mut Orders))
}

struct Orders;

impl Visitor for Orders {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        if !sorts_set_operation(query) || !tells_names(&query.body) {
            return ControlFlow::Continue(());
        }
        check_keys(query, &names_given(query)).map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }
}

fn sorts_set_operation(query: &Query) -> bool {
    let Some(OrderByKind::Expressions(keys)) = query.order_by.as_ref().map(|order| &order.kind) else {
        return false;
    };
    let is_name = |expr: &Expr| match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    is_set_operation(&query.body)
        && keys.iter().any(|key| expressions(&key.expr, &mut |expr| is_name(expr)).is_break())
}

fn is_set_operation(body: &SetExpr) -> bool {
    match body {
        SetExpr::SetOperation { .. } => true,
        SetExpr::Query(query) => is_set_operation(&query.body),
        _ => false,
    }
}

/// Looks whether ORDER BY of a set operation names only columns of its result, which has these names.
///
/// # Errors
/// `UnknownName` for a name that is none of the result's: 42P01 with a table before it, or else 42703.
pub fn check_keys(query: &Query, names: &[String]) -> Result<()> {
    let Some(OrderByKind::Expressions(keys)) = query.order_by.as_ref().map(|order| &order.kind) else {
        return Ok(());
    };
    let unknown = |expr: &Expr| unknown_in(expr, names).map_or(ControlFlow::Continue(()), ControlFlow::Break);
    let mut found = keys
        .iter()
        .filter(|key| has_own_names(&key.expr))
        .filter_map(|key| expressions(&key.expr, &mut |expr| unknown(expr)).break_value());
    found.next().map_or(Ok(()), Err)
}

/// Says whether the names of a set operation's columns are written in its first query.
fn tells_names(body: &SetExpr) -> bool {
    match body {
        SetExpr::SetOperation {
            set_quantifier: SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName,
            ..
        } => false,
        SetExpr::SetOperation { left, .. } => tells_names(left),
        SetExpr::Query(query) => tells_names(&query.body),
        // Some functions stand for several columns.
        SetExpr::Select(select) => select.projection.iter().all(|item| match item {
            SelectItem::UnnamedExpr(expr) => !matches!(expr, Expr::Function(_)),
            SelectItem::ExprWithAlias { .. } => true,
            _ => false,
        }),
        _ => false,
    }
}

/// Says whether all names in a key are its own: subqueries and functions of elements have others.
fn has_own_names(key: &Expr) -> bool {
    let is_other = |expr: &Expr| match expr {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } | Expr::Lambda(_) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    };
    expressions(key, &mut |expr| is_other(expr)).is_continue()
}

fn unknown_in(expr: &Expr, names: &[String]) -> Option<Error> {
    // The name of a column may differ in upper and lower case.
    let is_known = |part: &Ident| names.iter().any(|name| name.to_lowercase() == part.value.to_lowercase());
    let there_are = || names.join(", ");
    match expr {
        // A name between quotation marks may be the text of an expression.
        Expr::Identifier(name)
            if name.quote_style.is_none() && !name.value.eq_ignore_ascii_case("all") && !is_known(name) =>
        {
            let name = fold(name);
            let message = format!("no column \"{name}\"; there are {}", there_are());
            Some(Error::new(ErrorKind::UnknownName, message).with_sqlstate("42703").about(&name))
        }
        Expr::CompoundIdentifier(parts) => {
            let table = parts.first().filter(|first| !is_known(first)).map(fold)?;
            let message = format!(
                "no table \"{table}\": ORDER BY of a set operation names columns of its result; there are {}",
                there_are()
            );
            Some(Error::new(ErrorKind::UnknownName, message).with_sqlstate("42P01").about(&table))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{check_keys, without_parentheses};
    use crate::parse::{Extension, parse, parse_query};
    use sqlparser::dialect::GenericDialect;
    use sqlparser::parser::Parser;

    #[test]
    fn names_are_checked_once_they_are_known() {
        let query = |sql: &str| parse_query(sql, &Extension::NONE).unwrap();
        let names = ["a".to_string(), "b".to_string()];
        let sql = "SELECT t.* FROM t, c UNION ALL SELECT * FROM u ORDER BY ";
        for (key, state) in [("x", "42703"), ("c.x", "42P01"), ("t.a", "42P01"), ("a, b + x", "42703")] {
            let query = query(&format!("{sql}{key}"));
            assert_eq!(check_keys(&query, &names).unwrap_err().sqlstate(), state, "{key}");
        }
        for key in ["a, B DESC", "b.f", "(SELECT x FROM c)"] {
            assert!(check_keys(&query(&format!("{sql}{key}")), &names).is_ok(), "{key}");
        }
    }

    #[test]
    fn names_are_those_of_the_result() {
        for (sql, state) in [
            ("SELECT x FROM t UNION ALL SELECT y FROM t ORDER BY y", "42703"),
            ("SELECT x FROM t UNION SELECT y FROM t ORDER BY x, t.y", "42P01"),
            ("(SELECT x FROM t) EXCEPT SELECT y FROM t ORDER BY t.x", "42P01"),
            ("SELECT * FROM (SELECT x + 1 FROM t INTERSECT SELECT y FROM t ORDER BY y)", "42703"),
            ("((SELECT x FROM t UNION SELECT y FROM t)) ORDER BY y", "42703"),
            ("(WITH w AS (SELECT 1) SELECT x FROM t UNION SELECT y FROM t) ORDER BY t.x", "42P01"),
            ("(SELECT x FROM t UNION SELECT y FROM t LIMIT 1) ORDER BY y", "42703"),
            ("SELECT 1 UNION ALL ((SELECT x FROM t UNION SELECT y FROM t) ORDER BY y)", "42703"),
        ] {
            assert_eq!(parse(sql, &Extension::NONE).unwrap_err().sqlstate(), state, "{sql}");
        }
        for sql in [
            "SELECT x FROM t UNION ALL SELECT y FROM t ORDER BY x, X + 1, 1, \"x\"",
            "SELECT t.x FROM t UNION ALL SELECT y FROM t ORDER BY x",
            "SELECT x AS a FROM t UNION ALL SELECT y FROM t ORDER BY a, a.f",
            "SELECT * FROM t UNION ALL SELECT y FROM t ORDER BY y",
            "SELECT x FROM t UNION ALL BY NAME SELECT y FROM t ORDER BY y",
            "SELECT x FROM t UNION ALL SELECT y FROM t ORDER BY ALL",
            "SELECT x FROM t ORDER BY t.y",
            "((SELECT x FROM t UNION SELECT y FROM t)) ORDER BY x",
        ] {
            assert!(parse(sql, &Extension::NONE).is_ok(), "{sql}");
        }
    }

    #[test]
    fn clauses_behind_parentheses_are_those_of_the_query() {
        for (sql, meant) in [
            ("((SELECT a FROM t)) ORDER BY b LIMIT 1", "SELECT a FROM t ORDER BY b LIMIT 1"),
            ("(WITH w AS (SELECT 1) SELECT 2) ORDER BY 1", "WITH w AS (SELECT 1) SELECT 2 ORDER BY 1"),
            ("(SELECT a FROM t LIMIT 1) ORDER BY a", "(SELECT a FROM t LIMIT 1) ORDER BY a"),
            ("SELECT * FROM ((SELECT 3) ORDER BY 1) AS s", "SELECT * FROM (SELECT 3 ORDER BY 1) AS s"),
        ] {
            let mut statements = Parser::parse_sql(&GenericDialect {}, sql).unwrap();
            without_parentheses(&mut statements[0]);
            assert_eq!(statements[0].to_string(), meant);
        }
    }
}
