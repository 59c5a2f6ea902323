//! Aggregates that are joined by their keys compute only the groups that the join finds.
//!
//! An aggregate below a join is an operator of its own, whose rows are collected. Where the rows on
//! the join's other side are few, their keys are collected first, and the aggregate leaves out rows
//! with other keys (magic sets). It may be under filters and projections: the keys go round them.

use super::build::Built;
use super::flow::{Expression, Flow, Restricted, Restriction, SlotColumn, Source, Step, Universe};
use super::pipeline::PipelineExec;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use std::sync::Arc;

impl Universe {
    /// Has aggregates among the inputs compute only groups that a join of a flow finds.
    pub fn restrict(&mut self, flow: &mut Flow) -> Result<()> {
        for step in &mut flow.steps {
            let Step::Join(join) = step else { continue };
            self.restrict(&mut join.build)?;
            // The keys that are asked for have no NULL.
            if !join.nulls_equal {
                join.restricted = self.restrict_side(&join.build, &join.keys)?;
            }
        }
        for mark in &mut flow.marks {
            self.restrict(&mut mark.other)?;
            if !mark.nulls_equal {
                mark.restricted = self.restrict_side(&mark.other, &mark.keys)?;
            }
        }
        Ok(())
    }

    /// Has the aggregate that is the side of a join be told which groups are wanted.
    fn restrict_side(
        &mut self,
        side: &Flow,
        keys: &[(Expression, Expression)],
    ) -> Result<Option<Restricted>> {
        let Some(Source::Input { input, .. }) = self.sources.get(side.slot) else { return Ok(None) };
        if !side.is_plain() {
            return Ok(None);
        }
        let own = |column: &SlotColumn| (column.slot == side.slot).then_some(column.column);
        let of_key = |(_, key): &(Expression, Expression)| {
            self.columns.get(key.downcast_ref::<Column>()?.index()).and_then(own)
        };
        let columns: Vec<Option<usize>> = keys.iter().map(of_key).collect();
        match restrict(&self.inputs[*input], &columns)? {
            Some((plan, restricted)) => {
                self.inputs[*input] = plan;
                Ok(Some(restricted))
            }
            None => Ok(None),
        }
    }
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
