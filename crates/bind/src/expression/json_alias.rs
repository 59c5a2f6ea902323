//! Names within the expressions of JSON's operators. `->` gives each of its results a name.
//! DataFusion finds the type of a named expression by finding it twice, which doubles with every
//! operator in a row.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Leaves an operand of JSON's operators its own name, by which the result's is made, and takes
/// those within it.
#[derive(Debug)]
pub struct Unaliased;

impl ExprPlanner for Unaliased {
    fn plan_binary_op(
        &self,
        RawBinaryExpr { op, left, right }: RawBinaryExpr,
        _: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Arrow, HashArrow, HashLongArrow, LongArrow, Question};
        let (left, right) = match op {
            Arrow | LongArrow | HashArrow | HashLongArrow | Question => (outermost(left)?, outermost(right)?),
            _ => (left, right),
        };
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// Returns an expression without names within it.
fn outermost(expr: Expr) -> Result<Expr> {
    match expr {
        Expr::Alias(Alias { expr, relation, name, metadata }) => {
            let expr = Box::new(without_names(*expr)?);
            Ok(Expr::Alias(Alias { expr, relation, name, metadata }))
        }
        other => without_names(other),
    }
}

fn without_names(expr: Expr) -> Result<Expr> {
    let within = expr.transform_up(|expr| match expr {
        Expr::Alias(alias) => Ok(Transformed::yes(*alias.expr)),
        other => Ok(Transformed::no(other)),
    });
    within.map(|within| within.data)
}
