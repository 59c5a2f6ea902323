//! COLLATE. Texts are compared by their code points, which is the meaning of the collations "C",
//! "POSIX", ucs_basic and default here. NOCASE compares them in lower case. Other collations are
//! refused.

use crate::call::call;
use crate::walk::{checked, taken, walk_mut};
use hypostyle_types::{Error, Result};
use sqlparser::ast::{BinaryOperator, Expr, ObjectName, OrderByKind, Query, Statement, VisitorMut};
use std::ops::ControlFlow;

/// Says whether texts that a collation orders are as they are.
///
/// # Errors
/// `Unsupported` for a collation that there is not.
pub fn is_by_code_point(collation: &ObjectName) -> Result<bool> {
    let parts: Vec<String> =
        collation.0.iter().filter_map(|part| part.as_ident()).map(|part| part.value.to_lowercase()).collect();
    match parts.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["c" | "posix" | "ucs_basic" | "default" | "binary"]
        | ["pg_catalog", "c" | "posix" | "ucs_basic" | "default"] => Ok(true),
        ["nocase"] => Ok(false),
        _ => Err(unsupported(
            format!(
                "COLLATE {collation} is not supported: texts are compared by code points (COLLATE \"C\"), or without case (COLLATE NOCASE)"
            ),
            collation,
        )),
    }
}

fn unsupported(message: String, collation: &ObjectName) -> Error {
    let last = collation.0.last().and_then(|part| part.as_ident());
    Error::unsupported(message).about(last.map_or("COLLATE", |last| &last.value))
}

/// Writes comparisons and orders without collations.
///
/// # Errors
/// `Unsupported` for a collation that there is not, and for NOCASE elsewhere.
pub fn rewrite(statement: &mut Statement) -> Result<()> {
    checked(walk_mut(statement, &mut Collations))
}

struct Collations;

impl VisitorMut for Collations {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(keys) = &mut order.kind
        {
            for key in keys {
                if let Some(text) = without_case(&key.expr) {
                    key.expr = call("lower", vec![text]);
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        match expr {
            Expr::BinaryOp { left, op: Eq | NotEq | Lt | LtEq | Gt | GtEq, right }
            | Expr::IsDistinctFrom(left, right)
            | Expr::IsNotDistinctFrom(left, right) => fold_all(&mut [left.as_mut(), right.as_mut()]),
            Expr::Like { expr, pattern, any: false, .. } => fold_all(&mut [expr.as_mut(), pattern.as_mut()]),
            Expr::Between { expr, low, high, .. } => {
                fold_all(&mut [expr.as_mut(), low.as_mut(), high.as_mut()])
            }
            Expr::InList { expr, list, .. } => {
                let mut all: Vec<&mut Expr> = list.iter_mut().collect();
                all.push(expr.as_mut());
                fold_all(&mut all);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let Expr::Collate { expr: text, collation } = expr else { return ControlFlow::Continue(()) };
        match is_by_code_point(collation) {
            Ok(true) => {
                *expr = taken(text);
                ControlFlow::Continue(())
            }
            Ok(false) => ControlFlow::Break(unsupported(
                format!("COLLATE {collation} is for comparisons and ORDER BY; write lower(…) here"),
                collation,
            )),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// Puts all sides of a comparison in lower case, if one of them is to be compared so.
fn fold_all(sides: &mut [&mut Expr]) {
    if sides.iter().any(|side| without_case(side).is_some()) {
        for side in sides {
            let text = without_case(side).unwrap_or_else(|| side.clone());
            **side = call("lower", vec![text]);
        }
    }
}

/// Returns what COLLATE NOCASE is written behind.
fn without_case(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Nested(inner) => without_case(inner),
        Expr::Collate { expr, collation } if matches!(is_by_code_point(collation), Ok(false)) => {
            Some(expr.as_ref().clone())
        }
        _ => None,
    }
}
