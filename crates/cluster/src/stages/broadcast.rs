//! Has a small side of a join go to all tasks, in place of both sides being shared out by their keys: the
//! other side stays where it is.

use crate::gather::GatherExec;
use datafusion::common::JoinType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion_distributed::NetworkBroadcastExec;
use std::sync::Arc;

/// The bytes that are expected of a side that goes to all tasks, at most: each of its tasks keeps what it
/// gives until all have it, and each of those that take it keeps all of it.
const BYTES_MAX: f64 = (8 << 20) as f64;

/// The bytes of such a side if all rows of its largest table passed all conditions, at most: an estimate may
/// be wrong.
const BYTES_OF_TABLES_MAX: f64 = (64 << 20) as f64;

/// Returns a plan that no rule has seen yet, with the joins that collect a small side of it for each task.
///
/// # Errors
/// Those of DataFusion.
pub(super) fn with_small_sides(
    plan: Arc<dyn ExecutionPlan>,
    nodes: usize,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    plan.transform_up(|node| {
        let collecting = match node.downcast_ref::<HashJoinExec>() {
            Some(join) => collecting(join, nodes)?,
            None => None,
        };
        Ok(collecting.map_or_else(|| Transformed::no(node), Transformed::yes))
    })
}

/// Returns a join that collects its small side; `None` if it has none, or may not.
fn collecting(join: &HashJoinExec, nodes: usize) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if *join.partition_mode() != PartitionMode::Auto || join.null_aware {
        return Ok(None);
    }
    let (left, right, kind) = (join.left(), join.right(), *join.join_type());
    if gives_no_rows_of_left_alone(kind) && is_small(left, right, nodes) {
        let join = join.builder().with_partition_mode(PartitionMode::CollectLeft).build()?;
        return Ok(Some(Arc::new(join)));
    }
    if kind.supports_swap() && gives_no_rows_of_left_alone(kind.swap()) && is_small(right, left, nodes) {
        return join.swap_inputs(PartitionMode::CollectLeft).map(Some);
    }
    Ok(None)
}

/// Says whether each row of a join's result is of one of its right side: those of the left side, which all
/// tasks have, would be given by each of them.
fn gives_no_rows_of_left_alone(kind: JoinType) -> bool {
    matches!(
        kind,
        JoinType::Inner | JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark
    )
}

/// Says whether a side of a join has fewer bytes on all nodes than the other one has once, and not too many.
fn is_small(side: &Arc<dyn ExecutionPlan>, other: &Arc<dyn ExecutionPlan>, nodes: usize) -> bool {
    let Some(side) = table_of(side) else { return false };
    let other = table_of(other).map(GatherExec::bytes_expected);
    side.bytes_of_tables().is_some_and(|most| may_go_to_all(side.bytes_expected(), most, other, nodes))
}

/// Says so of expected bytes, those of all its rows, and the expected ones of the other side, if that is a
/// table.
fn may_go_to_all(bytes: f64, most: f64, other: Option<f64>, nodes: usize) -> bool {
    bytes <= BYTES_MAX
        && most <= BYTES_OF_TABLES_MAX
        && other.is_none_or(|other| bytes * nodes as f64 <= other)
}

/// Returns the part that a side of a join is, with nothing above it but what keeps rows.
fn table_of(side: &Arc<dyn ExecutionPlan>) -> Option<&GatherExec> {
    if let Some(gather) = side.downcast_ref::<GatherExec>() {
        return Some(gather);
    }
    let keeps_rows = side.is::<ProjectionExec>() || side.is::<FilterExec>() || side.is::<CooperativeExec>();
    match side.children().as_slice() {
        [input] if keeps_rows => table_of(input),
        _ => None,
    }
}

/// Returns the rows that a join collects, if each task that runs it has all of them.
pub(super) fn collected_by_all(join: &HashJoinExec) -> Option<&Arc<dyn ExecutionPlan>> {
    if join.null_aware || !gives_no_rows_of_left_alone(*join.join_type()) {
        return None;
    }
    let collected = join.left().downcast_ref::<CoalescePartitionsExec>()?;
    let rows = collected.input();
    (collected.fetch().is_none() && rows.is::<NetworkBroadcastExec>()).then_some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_side_that_all_tasks_have_come_once() {
        for kind in
            [JoinType::Left, JoinType::Full, JoinType::LeftSemi, JoinType::LeftAnti, JoinType::LeftMark]
        {
            assert!(!gives_no_rows_of_left_alone(kind), "{kind}");
            assert_eq!(gives_no_rows_of_left_alone(kind.swap()), kind != JoinType::Full, "{kind}");
        }
        assert!(gives_no_rows_of_left_alone(JoinType::Inner));
    }

    #[test]
    fn a_side_goes_to_all_if_that_is_less_than_to_share_the_other_out() {
        let mebibytes = f64::from(1 << 20);
        let may = |bytes: f64, most: f64, other: Option<f64>| {
            may_go_to_all(bytes * mebibytes, most * mebibytes, other.map(|other| other * mebibytes), 4)
        };
        // Those of TPC-H 9 at SF 1: parts of one colour with their suppliers, and all of lineitem.
        assert!(may(5.5, 55.0, Some(400.0)));
        assert!(may(1.0, 1.0, None));
        assert!(!may(5.5, 55.0, Some(20.0)));
        assert!(!may(9.0, 9.0, Some(400.0)));
        // If the estimate is wrong, it is not too much, either.
        assert!(!may(1.0, 100.0, Some(400.0)));
    }
}
