//! `a IS DISTINCT FROM b OR c`: the parser takes all that follows for the right side of IS [NOT] DISTINCT FROM, where
//! SQL has AND and OR bind less tightly (ISO/IEC 9075-2, 8.15).

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, UnaryOperator, Value, VisitMut, visit_expressions_mut,
};
use std::ops::ControlFlow;

/// Puts AND and OR above IS [NOT] DISTINCT FROM in a statement's expressions. Parentheses stay: they are nodes.
pub(super) fn correct<Node: VisitMut>(statement: &mut Node) {
    // Bottom-up: an operand is right before what is around it is looked at.
    let _done = visit_expressions_mut(statement, |expr| {
        let taken = std::mem::replace(expr, Expr::Value(Value::Null.into()));
        *expr = lifted(taken);
        ControlFlow::<()>::Continue(())
    });
}

/// An expression with AND or OR above it that its last operand had.
fn lifted(expr: Expr) -> Expr {
    use BinaryOperator::{And, Or};
    match expr {
        Expr::IsDistinctFrom(left, right) => {
            lift(*right, &[And, Or], |right| Expr::IsDistinctFrom(left, Box::new(right)))
        }
        Expr::IsNotDistinctFrom(left, right) => {
            lift(*right, &[And, Or], |right| Expr::IsNotDistinctFrom(left, Box::new(right)))
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
            lift(*expr, &[And, Or], |expr| Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) })
        }
        Expr::BinaryOp { left, op: And, right } => {
            lift(*right, &[Or], |right| Expr::BinaryOp { left, op: And, right: Box::new(right) })
        }
        other => other,
    }
}

/// `around(a op b)` as `around(a) op b`, for operators that bind less tightly than what is around.
fn lift(operand: Expr, looser: &[BinaryOperator], around: impl FnOnce(Expr) -> Expr) -> Expr {
    match operand {
        Expr::BinaryOp { left, op, right } if looser.contains(&op) => {
            Expr::BinaryOp { left: Box::new(lift(*left, looser, around)), op, right }
        }
        other => around(other),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn and_and_or_bind_less_tightly() {
        for (sql, meant) in [
            ("a IS DISTINCT FROM b OR c", "(a IS DISTINCT FROM b) OR c"),
            ("x AND a IS DISTINCT FROM b OR c AND d", "(x AND (a IS DISTINCT FROM b)) OR (c AND d)"),
            ("x OR a IS NOT DISTINCT FROM b AND c", "x OR ((a IS NOT DISTINCT FROM b) AND c)"),
            ("NOT a IS DISTINCT FROM b AND c", "(NOT (a IS DISTINCT FROM b)) AND c"),
            (
                "a IS DISTINCT FROM b + 1 AND c IS DISTINCT FROM d OR e",
                "((a IS DISTINCT FROM (b + 1)) AND (c IS DISTINCT FROM d)) OR e",
            ),
            ("a IS DISTINCT FROM (b OR c)", "a IS DISTINCT FROM (b OR c)"),
        ] {
            let shape = |sql: &str| format!("{:?}", without_parentheses(sql));
            assert_eq!(shape(sql), shape(meant), "{sql}");
        }
    }

    /// The tree of an expression.
    fn without_parentheses(sql: &str) -> super::Expr {
        use super::*;
        use datafusion::sql::parser::Statement as DfStatement;
        use datafusion::sql::sqlparser::ast::{SelectItem, SetExpr, Statement};
        use datafusion::sql::sqlparser::tokenizer::Span;
        let DfStatement::Statement(statement) = parse(&format!("SELECT {sql}")).unwrap() else { panic!() };
        let Statement::Query(query) = *statement else { panic!() };
        let SetExpr::Select(select) = *query.body else { panic!() };
        let SelectItem::UnnamedExpr(mut expr) = select.projection.into_iter().next().unwrap() else {
            panic!()
        };
        let _done = visit_expressions_mut(&mut expr, |expr| {
            while let Expr::Nested(inner) = expr {
                *expr = std::mem::replace(inner.as_mut(), Expr::Value(Value::Null.into()));
            }
            // Where it stood in the text does not matter.
            match expr {
                Expr::Identifier(name) => name.span = Span::empty(),
                Expr::Value(value) => value.span = Span::empty(),
                _ => {}
            }
            ControlFlow::<()>::Continue(())
        });
        expr
    }
}
