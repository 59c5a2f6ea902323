//! The form in which a query with subqueries is planned. It is chosen once, by what the subqueries are, and
//! no other one is tried: what is refused in it is an error of the query.
//!
//! DataFusion has better plans for these, which read the rows around once:
//!
//! * values that depend on no row: they are computed before the rows around them;
//! * an EXISTS or IN that is a condition of WHERE by itself: a semi join or an anti join;
//! * one that is a part of a condition, where it is known, or not known is as good as false: a mark join;
//! * an aggregate of the rows that have the same keys as the row around: a join with groups.
//!
//! Which subqueries are of these kinds is known by the columns of the rows around that they name, by where
//! these stand in them, and by the clause that they stand in (`subquery_shape`). All others, and what is
//! LATERAL, become joins by the distinct outer values (`unnest`). Beside one of them those of the last two
//! kinds do so, too. Where subqueries are deep within others all do.

use crate::subquery_shape::must_be_unnested;
use crate::unnest::{Extent, has_subqueries, nested_apart, nests_deep, unnest};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;

/// Returns a query with joins in the place of those subqueries that DataFusion makes none of, or not the
/// right ones.
///
/// # Errors
/// `NotImplemented` for a subquery that depends on the rows around it in a way that is not supported;
/// `Syntax` (54001) for more joins than a plan may have; those of DataFusion.
pub fn in_chosen_form(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    match extent(&plan) {
        None => Ok(plan),
        Some(Extent::Needed) => unnest(state, plan, Extent::Needed),
        Some(Extent::All) => nested_apart(state, unnest(state, plan, Extent::All)?),
    }
}

/// Returns which subqueries of a query become joins before it is optimized; `None` where all are
/// DataFusion's.
fn extent(plan: &LogicalPlan) -> Option<Extent> {
    if !has_subqueries(plan) {
        return None;
    }
    // DataFusion takes twice as long with each level.
    if nests_deep(plan) {
        return Some(Extent::All);
    }
    must_be_unnested(plan).then_some(Extent::Needed)
}

#[cfg(test)]
mod tests {
    use super::{extent, in_chosen_form};
    use crate::subquery_shape::is_test;
    use crate::unnest::Extent;
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use datafusion::execution::SessionState;
    use datafusion::logical_expr::{Expr, LogicalPlan};
    use datafusion::prelude::SessionContext;
    use futures::executor::block_on;
    use hypostyle_expr::walk::{any_node, has_expression};
    use std::sync::Arc;

    /// Returns the plan of a statement as DataFusion makes it, and what optimizes it.
    fn planned(sql: &str) -> (SessionState, LogicalPlan) {
        let context = SessionContext::new();
        let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        for name in ["t", "u"] {
            let columns = [("a", number.clone()), ("b", number.clone())];
            context.register_batch(name, RecordBatch::try_from_iter(columns).unwrap()).unwrap();
        }
        let state = context.state();
        let plan = block_on(state.create_logical_plan(sql)).unwrap();
        (state, plan)
    }

    /// Says whether a plan has subqueries that no operator computes.
    fn has_tests_or_dependent_values(plan: &LogicalPlan) -> bool {
        let is_left = |expr: &Expr| match expr {
            Expr::ScalarSubquery(value) => !value.outer_ref_columns.is_empty(),
            other => is_test(other),
        };
        any_node(plan, |node| has_expression(node, is_left))
    }

    const OF_DATAFUSION: [&str; 7] = [
        "SELECT a FROM t WHERE b > 1",
        "SELECT a, (SELECT max(u.b) FROM u) FROM t",
        "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a)",
        "SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.b > t.b)",
        "SELECT a FROM t WHERE a NOT IN (SELECT u.a FROM u)",
        "SELECT a FROM t WHERE b = 2 OR EXISTS (SELECT 1 FROM u WHERE u.a = t.a)",
        "SELECT a FROM t WHERE b < (SELECT avg(u.b) FROM u WHERE u.a = t.a)",
    ];

    const OURS: [&str; 8] = [
        "SELECT a, (SELECT u.b FROM u WHERE u.a = t.a) FROM t",
        "SELECT a FROM t WHERE b > (SELECT count(*) FROM u WHERE u.b > t.b)",
        "SELECT a, EXISTS (SELECT 1 FROM u WHERE u.a = t.a) FROM t",
        "SELECT a, a IN (SELECT u.b FROM u) FROM t",
        "SELECT a FROM t WHERE EXISTS (SELECT count(*) FROM u WHERE u.a = t.a)",
        "SELECT a FROM t WHERE a NOT IN (SELECT u.b FROM u WHERE u.a = t.a)",
        "SELECT a FROM t WHERE (SELECT max(u.b) FROM u WHERE u.a = t.a) IN (SELECT b FROM u)",
        "SELECT max((SELECT sum(u.b) FROM u WHERE u.a = t.a)) FROM t",
    ];

    #[test]
    fn a_form_is_chosen_by_what_the_subqueries_are() {
        for sql in OF_DATAFUSION {
            assert_eq!(extent(&planned(sql).1), None, "{sql}");
        }
        for sql in OURS {
            assert_eq!(extent(&planned(sql).1), Some(Extent::Needed), "{sql}");
        }
        let deep = (0..6).fold("SELECT b FROM u".to_string(), |within, _| {
            format!("SELECT b FROM u WHERE a IN ({within})")
        });
        assert_eq!(extent(&planned(&deep).1), Some(Extent::All));
    }

    #[test]
    fn no_subquery_is_left_of_the_form_that_is_chosen() {
        for sql in OF_DATAFUSION.into_iter().chain(OURS) {
            let (state, plan) = planned(sql);
            let form = in_chosen_form(&state, plan).unwrap();
            let optimized = state.optimize(&form).unwrap();
            assert!(!has_tests_or_dependent_values(&optimized), "{sql}");
        }
    }
}
