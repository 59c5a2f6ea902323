//! Aggregates that are joined by their keys compute only the groups that the join finds.
//!
//! An aggregate below a join is an operator of its own, whose rows are collected. Where the rows on
//! the join's other side are few, their keys are collected first, and the aggregate leaves out rows
//! with other keys (magic sets). It may be under filters and projections: the keys go round them.

use super::build::Built;
use super::pipeline::PipelineExec;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use std::sync::Arc;

/// Which keys an aggregate can be asked for. The keys themselves belong to one run of the pipeline
/// that asks: the plan may run several times at once.
#[derive(Debug)]
pub(super) struct Restriction {
    /// The places of the keys among those of the groups.
    pub keys: Vec<usize>,
    /// The rows of the aggregate's largest table.
    pub rows: u64,
}

/// A restriction, and which keys of the join it is about.
#[derive(Clone, Debug)]
pub(super) struct Restricted {
    pub restriction: Arc<Restriction>,
    /// The places of the keys among those of the join.
    pub places: Vec<usize>,
}

/// Returns an input whose aggregate computes only the groups of some keys.
pub(super) fn with_wanted(
    plan: &Arc<dyn ExecutionPlan>,
    restriction: &Arc<Restriction>,
    keys: &Arc<Built>,
) -> Result<Arc<dyn ExecutionPlan>> {
    plan.clone()
        .transform_up(|plan| match plan.downcast_ref::<PipelineExec>() {
            Some(pipeline) if pipeline.is_restricted_by(restriction) => {
                Ok(Transformed::yes(Arc::new(pipeline.wanting(keys)) as Arc<dyn ExecutionPlan>))
            }
            _ => Ok(Transformed::no(plan)),
        })
        .data()
}

/// Returns an input whose aggregate can be restricted, if some columns are keys of its groups.
pub(super) fn restrict(
    plan: &Arc<dyn ExecutionPlan>,
    columns: &[Option<usize>],
) -> Result<Option<(Arc<dyn ExecutionPlan>, Restricted)>> {
    if let Some(pipeline) = plan.downcast_ref::<PipelineExec>() {
        let (mut keys, mut places) = (Vec::new(), Vec::new());
        for (place, column) in columns.iter().enumerate() {
            if let Some(column) = column.filter(|column| *column < pipeline.keys()) {
                keys.push(column);
                places.push(place);
            }
        }
        if keys.is_empty() {
            return Ok(None);
        }
        let restriction = Arc::new(Restriction { keys, rows: pipeline.rows() });
        let restricted = pipeline.restricted(&restriction);
        return Ok(Some((Arc::new(restricted), Restricted { restriction, places })));
    }
    let inner: Vec<Option<usize>> = if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let source =
            |column: usize| projection.expr().get(column)?.expr.downcast_ref::<Column>().map(Column::index);
        columns.iter().map(|column| column.and_then(source)).collect()
    } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let source = |column: usize| match filter.projection() {
            Some(places) => places.get(column).copied(),
            None => Some(column),
        };
        columns.iter().map(|column| column.and_then(source)).collect()
    } else {
        return Ok(None);
    };
    let [input] = plan.children()[..] else { return Ok(None) };
    let Some((input, restricted)) = restrict(input, &inner)? else { return Ok(None) };
    let kept = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    Ok(Some((plan.clone().replace_children(vec![input], kept)?, restricted)))
}
