//! Joins in which NULLs are equal, such as those of subqueries and of IS NOT DISTINCT FROM.
//!
//! DataFusion supports this for all keys of a join or for none. Its optimizer adds equalities of
//! filters to the keys, in which NULLs are then equal, too. So such a join becomes one by keys that
//! are never NULL.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, NullEquality, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, Join, LogicalPlan, lit, when};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use hypostyle_expr::value_keys::nested_key;

/// Comes before the rules that add keys.
#[derive(Debug)]
pub struct NullKeys;

impl OptimizerRule for NullKeys {
    fn name(&self) -> &str {
        "null_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = plan else { return Ok(Transformed::no(plan)) };
        // Semi joins and anti joins get no keys: nothing above sees both sides.
        let gets_keys =
            matches!(join.join_type, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full);
        if join.null_equality != NullEquality::NullEqualsNull || !gets_keys || join.null_aware {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        }
        let on = join.on.iter().map(|pair| keys(&join, pair)).collect::<Result<Vec<_>>>()?;
        let on = on.into_iter().flatten().collect();
        Ok(Transformed::yes(LogicalPlan::Join(Join {
            on,
            null_equality: NullEquality::NullEqualsNothing,
            ..join
        })))
    }
}

/// Says whether both are NULL, and their values; a key that cannot be NULL on one side is itself
/// enough. Lists, structures and maps are compared by their bytes.
fn keys(join: &Join, (left, right): &(Expr, Expr)) -> Result<Vec<(Expr, Expr)>> {
    let (of_left, of_right) = (join.left.schema(), join.right.schema());
    if left.get_type(of_left)?.is_nested() {
        return keys(join, &(nested_key(left.clone()), nested_key(right.clone())));
    }
    let are_null = (left.clone().is_null(), right.clone().is_null());
    // What has the type of NULL has no other value.
    if left.get_type(of_left)?.is_null() || right.get_type(of_right)?.is_null() {
        return Ok(vec![are_null]);
    }
    if !left.nullable(of_left)? || !right.nullable(of_right)? {
        return Ok(vec![(left.clone(), right.clone())]);
    }
    let never_null = |expr: &Expr, schema| {
        let some = lit(ScalarValue::new_default(&expr.get_type(schema)?)?);
        when(expr.clone().is_null(), some).otherwise(expr.clone())
    };
    Ok(vec![are_null, (never_null(left, of_left)?, never_null(right, of_right)?)])
}
