//! Estimates how many groups an aggregate has, by what this node knows of the columns that it groups by.

use crate::node::Node;
use crate::state::{SCHEMA, fragment_table};
use crate::table::FragmentScanExec;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use hypostyle_placement::FragmentId;
use hypostyle_storage::{Bound, ColumnData};
use std::sync::Arc;

/// Returns how many groups the uppermost aggregate of a plan has at most, whose scans read such fragments.
/// Returns `None` where it groups by anything but columns of which this node has values.
pub(crate) fn groups(plan: &Arc<dyn ExecutionPlan>, node: &Node, fragments: &[u32]) -> Option<u64> {
    let mut found = None;
    plan.apply(|node| {
        let Some(aggregate) = node.downcast_ref::<AggregateExec>() else {
            return Ok(TreeNodeRecursion::Continue);
        };
        found = columns(aggregate);
        Ok(TreeNodeRecursion::Stop)
    })
    .ok()?;
    let snapshot = node.database().snapshot().ok()?;
    let distinct = |(scan, place): (&FragmentScanExec, usize)| {
        let name = scan.table_schema.fields().get(place)?.name();
        let mut tables = fragments.iter().filter_map(|number| {
            snapshot.table(SCHEMA, &fragment_table(FragmentId { table: scan.table, number: *number }))
        });
        distinct_values(tables.find(|table| table.rows_in_files() > 0)?.column(name).ok()?)
    };
    found?.into_iter().map(distinct).try_fold(1_u64, |all, one| Some(all.saturating_mul(one?)))
}

/// Returns the columns that an aggregate groups by, each as a scan, and its place among the columns of the
/// table.
fn columns(aggregate: &AggregateExec) -> Option<Vec<(&FragmentScanExec, usize)>> {
    let keys = aggregate.group_expr();
    let source = |(key, _): &(Arc<dyn PhysicalExpr>, String)| {
        source(key.downcast_ref::<Column>()?.index(), aggregate.input())
    };
    match keys.is_single() {
        true => keys.expr().iter().map(source).collect(),
        false => None,
    }
}

/// Returns the scan that a column of a plan comes from as it is, and its place there.
fn source(mut index: usize, mut plan: &Arc<dyn ExecutionPlan>) -> Option<(&FragmentScanExec, usize)> {
    loop {
        if let Some(scan) = plan.downcast_ref::<FragmentScanExec>() {
            return Some((scan, *scan.projection.get(index)?));
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            index = projection.expr().get(index)?.expr.downcast_ref::<Column>()?.index();
        } else if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            let (key, _) = aggregate.group_expr().expr().get(index)?;
            index = key.downcast_ref::<Column>()?.index();
        } else if let Some(filter) = plan.downcast_ref::<FilterExec>()
            && let Some(projection) = filter.projection()
        {
            index = *projection.get(index)?;
        }
        let inputs = plan.children();
        let [input] = inputs.as_slice() else { return None };
        let has_own_columns =
            plan.is::<ProjectionExec>() || plan.is::<AggregateExec>() || plan.is::<FilterExec>();
        if !has_own_columns && input.schema() != plan.schema() {
            return None;
        }
        plan = *input;
    }
}

/// Returns how many values a column has at most; `None` of types of which that is not known.
fn distinct_values(column: &ColumnData) -> Option<u64> {
    if let Some(known) = column.distinct_count() {
        return Some(known);
    }
    let (mut least, mut most) = (i128::MAX, i128::MIN);
    for block in column.synopses().ok()? {
        match &block.bounds {
            Some((Bound::Integer(first), Bound::Integer(last))) => {
                least = least.min(*first);
                most = most.max(*last);
            }
            // Texts of few values have a dictionary.
            Some((Bound::Bytes { .. }, _)) => return Some(u64::MAX),
            Some(_) => return None,
            None => {}
        }
    }
    let range = most.checked_sub(least)?.checked_add(1)?;
    // Nothing but NULLs is one group.
    Some(u64::try_from(range.max(1)).unwrap_or(u64::MAX))
}
