//! The operator OVERLAPS, which the planner knows as a function of the four ends of two periods.

use crate::call::call;
use sqlparser::ast::{BinaryOperator, Expr};

/// The name of the function.
pub const NAME: &str = "overlaps";

/// Returns the call that the operator between two pairs stands for.
pub fn called(expr: &Expr) -> Option<Expr> {
    let Expr::BinaryOp { left, op: BinaryOperator::Overlaps, right } = expr else { return None };
    let (Expr::Tuple(one), Expr::Tuple(other)) = (left.as_ref(), right.as_ref()) else { return None };
    match one.len() == 2 && other.len() == 2 {
        true => Some(call(NAME, one.iter().chain(other).cloned().collect())),
        false => None,
    }
}
