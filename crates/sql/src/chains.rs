//! Rebuilds long chains of AND and OR as trees of the least height. `a OR b OR c OR …` is parsed to
//! a tree as deep as it is long. The time to walk it, name it and find its types grows with the
//! square of the depth.

use crate::walk::{Part, taken, walk_mut};
use sqlparser::ast::{BinaryOperator, Expr, Value, VisitorMut};
use std::ops::ControlFlow;

/// Shorter chains stay as they are written.
const TERMS_MIN: usize = 64;

/// Balances the chains of a statement. Their terms stay in their order, and a chain is named as
/// before.
pub fn balance<Node: Part>(statement: &mut Node) {
    // The walk goes from the top down: the balanced chain is visited next.
    let _done: ControlFlow<()> = walk_mut(statement, &mut Balancing);
}

struct Balancing;

impl VisitorMut for Balancing {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } = expr {
            let op = op.clone();
            if terms(expr, &op) >= TERMS_MIN {
                let mut terms = Vec::new();
                take_terms(taken(expr), &op, &mut terms);
                *expr = joined(&mut terms.into_iter(), &op);
            }
        }
        ControlFlow::Continue(())
    }
}

/// Terms of a chain that leans to the left, as the parser makes them.
fn terms(mut expr: &Expr, of: &BinaryOperator) -> usize {
    let mut count = 1;
    while let Expr::BinaryOp { left, op, .. } = expr
        && op == of
    {
        (expr, count) = (left, count + 1);
    }
    // A chain that is balanced already leans to neither side.
    count
}

fn take_terms(mut expr: Expr, of: &BinaryOperator, terms: &mut Vec<Expr>) {
    loop {
        match expr {
            Expr::BinaryOp { left, op, right } if op == *of => {
                terms.push(*right);
                expr = *left;
            }
            first => {
                terms.push(first);
                break;
            }
        }
    }
    terms.reverse();
}

/// Returns the terms under the operator, half of them on each side.
fn joined(terms: &mut std::vec::IntoIter<Expr>, op: &BinaryOperator) -> Expr {
    fn of_next(count: usize, terms: &mut std::vec::IntoIter<Expr>, op: &BinaryOperator) -> Expr {
        if count <= 1 {
            return terms.next().unwrap_or(Expr::Value(Value::Null.into()));
        }
        let left = Box::new(of_next(count.div_ceil(2), terms, op));
        let right = Box::new(of_next(count / 2, terms, op));
        Expr::BinaryOp { left, op: op.clone(), right }
    }
    of_next(terms.len(), terms, op)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Extension, parse_query};
    use sqlparser::ast::{SelectItem, SetExpr};

    fn depth(expr: &Expr) -> usize {
        match expr {
            Expr::BinaryOp { left, right, .. } => 1 + depth(left).max(depth(right)),
            _ => 0,
        }
    }

    #[test]
    fn a_long_chain_becomes_low_and_keeps_its_text() {
        for (count, deepest) in [(TERMS_MIN - 1, TERMS_MIN - 2), (TERMS_MIN, 6), (5000, 13)] {
            for between in [" OR ", " AND "] {
                let terms: Vec<String> = (0..count).map(|term| format!("a{term}")).collect();
                let text = terms.join(between);
                let query = parse_query(&format!("SELECT {text}"), &Extension::NONE).unwrap();
                let SetExpr::Select(select) = *query.body else { panic!("{text}") };
                let Some(SelectItem::UnnamedExpr(expr)) = select.projection.into_iter().next() else {
                    panic!("{text}");
                };
                assert_eq!(expr.to_string(), text);
                assert_eq!(depth(&expr), deepest, "{count}");
            }
        }
    }
}
