//! Casts beside their operands, and subqueries beside others. DataFusion gives a cast the name of its
//! operand, and all that compares with a subquery one name, and refuses two expressions of one name. Here
//! the operand becomes a call that tells the type of the cast, and what has a subquery one that tells
//! its number among those of other texts.

use crate::call::call;
use crate::walk::{expressions, expressions_mut, taken};
use datafusion_sql::parser::Statement as DfStatement;
use sqlparser::ast::{Expr as SqlExpr, FunctionArg, FunctionArgExpr, FunctionArguments, Value};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// The name of a function that users never call.
pub const NAME: &str = "__operand";

/// Says whether a statement has casts or subqueries, which may be told apart.
pub fn may_be_told_apart(statement: &DfStatement) -> bool {
    match statement {
        DfStatement::Statement(statement) => expressions(statement.as_ref(), &mut |expr| match expr {
            SqlExpr::Cast { .. }
            | SqlExpr::Exists { .. }
            | SqlExpr::InSubquery { .. }
            | SqlExpr::Subquery(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .is_break(),
        DfStatement::Explain(explain) => may_be_told_apart(&explain.statement),
        _ => false,
    }
}

/// Returns the statement with casts and subqueries that have names of their own; `None` where it has neither.
pub fn told_apart(statement: &DfStatement) -> Option<DfStatement> {
    let mut statement = match statement {
        DfStatement::Statement(statement) => statement.clone(),
        DfStatement::Explain(explain) => {
            let mut explain = explain.clone();
            *explain.statement = told_apart(&explain.statement)?;
            return Some(DfStatement::Explain(explain));
        }
        _ => return None,
    };
    let (mut some, mut subqueries) = (false, HashMap::new());
    let _done = expressions_mut(statement.as_mut(), &mut |expr| {
        match expr {
            SqlExpr::Cast { expr, data_type, .. } => {
                **expr = called(taken(expr), data_type.to_string());
                some = true;
            }
            SqlExpr::Exists { .. } | SqlExpr::InSubquery { .. } | SqlExpr::Subquery(_) => {
                number(expr, &mut subqueries);
                some = true;
            }
            SqlExpr::AnyOp { right, .. } | SqlExpr::AllOp { right, .. } => {
                // The planner knows the subquery there by its place.
                if let Some(subquery) = taken_subquery(right) {
                    **right = subquery;
                    number(expr, &mut subqueries);
                }
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    some.then_some(DfStatement::Statement(statement))
}

fn called(operand: SqlExpr, told: String) -> SqlExpr {
    call(NAME, vec![operand, SqlExpr::Value(Value::SingleQuotedString(told).into())])
}

/// Has an expression tell the number of its text: those within it are told apart by their numbers already, so
/// that no text has another one twice.
fn number(expr: &mut SqlExpr, numbers: &mut HashMap<String, usize>) {
    let next = numbers.len();
    let number = *numbers.entry(expr.to_string()).or_insert(next);
    *expr = called(taken(expr), number.to_string());
}

/// Takes the subquery out of what tells its number.
fn taken_subquery(expr: &mut SqlExpr) -> Option<SqlExpr> {
    let SqlExpr::Function(function) = expr else { return None };
    let FunctionArguments::List(list) = &mut function.args else { return None };
    match list.args.first_mut()? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(subquery @ SqlExpr::Subquery(_))) => Some(taken(subquery)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::told_apart;
    use crate::parse::{Extension, parse};

    fn text_apart(sql: &str) -> Option<String> {
        told_apart(&parse(sql, &Extension::NONE).unwrap()).map(|statement| statement.to_string())
    }

    #[test]
    fn subqueries_of_different_texts_have_different_numbers() {
        assert_eq!(
            text_apart("SELECT a IN (SELECT 1), a IN (SELECT 2), a IN (SELECT 1), EXISTS (SELECT 1) FROM t")
                .unwrap(),
            "SELECT __operand(a IN (SELECT 1), '0'), __operand(a IN (SELECT 2), '1'), \
             __operand(a IN (SELECT 1), '0'), __operand(EXISTS (SELECT 1), '2') FROM t"
        );
        assert_eq!(
            text_apart("SELECT a FROM t WHERE a > ALL (SELECT 1)").unwrap(),
            "SELECT a FROM t WHERE __operand(a > ALL(SELECT 1), '1')"
        );
        assert_eq!(text_apart("SELECT sum(a) FROM t"), None);
    }

    #[test]
    fn the_text_of_nested_subqueries_grows_with_their_number() {
        let nested = |depth: usize| {
            let (open, close) = ("EXISTS (SELECT 1 WHERE ".repeat(depth), ")".repeat(depth));
            text_apart(&format!("SELECT {open}true{close}")).unwrap().len()
        };
        assert!(nested(24) < 3 * nested(12));
    }
}
