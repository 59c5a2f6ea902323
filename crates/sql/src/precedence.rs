//! Corrects the precedence of operators that the parser binds in another order than SQL:
//! `a IS DISTINCT FROM b OR c`, where it takes everything behind IS [NOT] DISTINCT FROM for the
//! right side (ISO/IEC 9075-2, 8.15); `d ->> 'k' = 'v'`, where it takes `'k' = 'v'` for the key in
//! a JSON value; and `2 * 3 ^ 2`.

use crate::walk::expressions_mut;
use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value, VisitMut};
use std::ops::ControlFlow;

/// Puts AND and OR above IS [NOT] DISTINCT FROM in a statement's expressions, and the operators of
/// JSON below all others. Parentheses stay: they are nodes.
pub fn correct<Node: VisitMut>(statement: &mut Node) {
    // The walk goes from the bottom up: operands are correct before the expression around them is
    // visited.
    let _done = expressions_mut(statement, &mut |expr| {
        let taken = std::mem::replace(expr, Expr::Value(Value::Null.into()));
        *expr = lifted(taken);
        ControlFlow::<()>::Continue(())
    });
}

/// Returns an expression with AND or OR above it that its last operand had.
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
        Expr::BinaryOp { left, op, right } if is_tight(&op) => picked(*left, op, *right),
        other => other,
    }
}

/// Returns the operators of JSON, and `^`, which is that of powers.
fn is_tight(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Arrow, BitwiseXor, HashArrow, HashLongArrow, LongArrow, PGExp};
    matches!(op, Arrow | LongArrow | HashArrow | HashLongArrow | BitwiseXor | PGExp)
}

/// Returns an operator between its neighbours: the last operand of what is on its left, the first
/// of what is on its right.
fn picked(mut left: Expr, op: BinaryOperator, mut right: Expr) -> Expr {
    let null = || Expr::Value(Value::Null.into());
    let key = std::mem::replace(first_operand(&mut right), null());
    let json = last_operand(&mut left);
    let value = std::mem::replace(json, null());
    *json = Expr::BinaryOp { left: Box::new(value), op, right: Box::new(key) };
    let place = first_operand(&mut right);
    *place = left;
    right
}

/// Returns what an expression begins with.
fn first_operand(expr: &mut Expr) -> &mut Expr {
    if matches!(expr, Expr::BinaryOp { op, .. } if is_tight(op)) {
        return expr;
    }
    match expr {
        Expr::BinaryOp { left, .. } => first_operand(left),
        Expr::AnyOp { left, .. } | Expr::AllOp { left, .. } => first_operand(left),
        Expr::IsDistinctFrom(left, _) | Expr::IsNotDistinctFrom(left, _) => first_operand(left),
        Expr::IsNull(inner)
        | Expr::IsNotNull(inner)
        | Expr::IsTrue(inner)
        | Expr::IsNotTrue(inner)
        | Expr::IsFalse(inner)
        | Expr::IsNotFalse(inner)
        | Expr::IsUnknown(inner)
        | Expr::IsNotUnknown(inner) => first_operand(inner),
        Expr::InList { expr, .. }
        | Expr::InSubquery { expr, .. }
        | Expr::Between { expr, .. }
        | Expr::Like { expr, .. }
        | Expr::ILike { expr, .. }
        | Expr::SimilarTo { expr, .. }
        | Expr::RLike { expr, .. } => first_operand(expr),
        other => other,
    }
}

/// Returns what an expression ends with.
fn last_operand(expr: &mut Expr) -> &mut Expr {
    if matches!(expr, Expr::BinaryOp { op, .. } if is_tight(op)) {
        return expr;
    }
    match expr {
        Expr::BinaryOp { right, .. } => last_operand(right),
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => last_operand(right),
        Expr::UnaryOp { expr, .. } => last_operand(expr),
        Expr::Between { high, .. } => last_operand(high),
        Expr::Like { pattern, escape_char: None, .. }
        | Expr::ILike { pattern, escape_char: None, .. }
        | Expr::SimilarTo { pattern, escape_char: None, .. }
        | Expr::RLike { pattern, .. } => last_operand(pattern),
        other => other,
    }
}

/// Returns `around(a op b)` as `around(a) op b`, for operators that bind less tightly than what is
/// around.
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
    use crate::parse::{Extension, parse};

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

    #[test]
    fn operators_of_json_bind_most_tightly() {
        for (sql, meant) in [
            ("d ->> 'a' = 'x'", "(d ->> 'a') = 'x'"),
            ("k = 1 AND d ->> 'a' = 'x' OR b", "(k = 1 AND ((d ->> 'a') = 'x')) OR b"),
            ("d -> 'a' -> 0 ->> 'b' = e ->> 'f'", "(((d -> 'a') -> 0) ->> 'b') = (e ->> 'f')"),
            ("d ->> 'a' || '-' || d ->> 'b'", "((d ->> 'a') || '-') || (d ->> 'b')"),
            ("d ->> 'a' IS NOT NULL", "(d ->> 'a') IS NOT NULL"),
            ("d ->> 'a' IN ('x', 'y')", "(d ->> 'a') IN ('x', 'y')"),
            ("d ->> 'a' LIKE e ->> 'b'", "(d ->> 'a') LIKE (e ->> 'b')"),
            ("x BETWEEN d -> 'a' AND d -> 'b'", "x BETWEEN (d -> 'a') AND (d -> 'b')"),
            ("- d -> 'a' + 1", "(- (d -> 'a')) + 1"),
            ("NOT d -> 'a' = true", "NOT ((d -> 'a') = true)"),
            ("2 * a ^ 2 + 1 = b", "((2 * (a ^ 2)) + 1) = b"),
            ("a ^ b ^ c * d", "((a ^ b) ^ c) * d"),
            ("d::json -> 'a' = 1", "((d::json) -> 'a') = 1"),
            (
                "(d ->> 'a') IS NULL AND d #>> '{a}' <> 'b'",
                "((d ->> 'a') IS NULL) AND ((d #>> '{a}') <> 'b')",
            ),
        ] {
            let shape = |sql: &str| format!("{:?}", without_parentheses(sql));
            assert_eq!(shape(sql), shape(meant), "{sql}");
        }
    }

    /// Returns the tree of an expression.
    fn without_parentheses(sql: &str) -> super::Expr {
        use super::*;
        use datafusion_sql::parser::Statement as DfStatement;
        use sqlparser::ast::{SelectItem, SetExpr, Statement};
        use sqlparser::tokenizer::Span;
        let DfStatement::Statement(statement) = parse(&format!("SELECT {sql}"), &Extension::NONE).unwrap()
        else {
            panic!()
        };
        let Statement::Query(query) = *statement else { panic!() };
        let SetExpr::Select(select) = *query.body else { panic!() };
        let item = select.projection.into_iter().next().unwrap();
        // What a later pass rewrites keeps its written name as an alias.
        let (SelectItem::UnnamedExpr(mut expr) | SelectItem::ExprWithAlias { mut expr, .. }) = item else {
            panic!("not an expression: {item}")
        };
        let _done = expressions_mut(&mut expr, &mut |expr| {
            while let Expr::Nested(inner) = expr {
                *expr = std::mem::replace(inner.as_mut(), Expr::Value(Value::Null.into()));
            }
            // The place in the text does not matter.
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
