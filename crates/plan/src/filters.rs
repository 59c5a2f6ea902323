//! Restricts how conditions move down a logical plan. DataFusion moves a condition that names no
//! column below any node that names none either. That may be an aggregate that gives a row for no
//! rows. If the condition's value differs from row to row, it may be a node that gives more rows or
//! fewer. Such conditions stay where they are.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Aggregate, Expr, Filter, JoinType, LogicalPlan};
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// DataFusion's rule for the conditions that may go down.
#[derive(Debug, Default)]
pub struct WhereRowsStay(PushDownFilter);

impl OptimizerRule for WhereRowsStay {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            LogicalPlan::Filter(filter) if stays_in(filter) => {}
            LogicalPlan::Join(join) if join.filter.as_ref().is_some_and(Expr::is_volatile) => {
                return self.volatile_behind_join(plan, config);
            }
            _ => return self.0.rewrite(plan, config),
        }
        let (mut stay, mut go, mut input) = (Vec::new(), Vec::new(), Arc::new(plan));
        while let LogicalPlan::Filter(filter) = input.as_ref() {
            let base = below_filters(&filter.input);
            let conditions = split_conjunction(&filter.predicate).into_iter().cloned();
            let (staying, going): (Vec<_>, Vec<_>) = conditions.partition(|condition| stays(condition, base));
            stay.splice(0..0, staying);
            go.splice(0..0, going);
            input = filter.input.clone();
        }
        let above = |conditions: Vec<Expr>, input: LogicalPlan| match conjunction(conditions) {
            Some(predicate) => Ok(LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input))?)),
            None => Ok(input),
        };
        let whole = || above([go.clone(), stay.clone()].concat(), input.as_ref().clone());
        if go.is_empty() {
            return whole().map(Transformed::no);
        }
        let below = self.0.rewrite(above(go.clone(), input.as_ref().clone())?, config)?;
        if !below.transformed {
            return whole().map(Transformed::no);
        }
        below.map_data(|plan| above(stay, plan))
    }
}

impl WhereRowsStay {
    /// Returns a join with conditions that are others for each pair of rows: they go behind an
    /// inner join, and leave others as they are.
    fn volatile_behind_join(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
        if join.join_type != JoinType::Inner {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        }
        let conditions = join.filter.take().map(split_conjunction_owned).unwrap_or_default();
        let (stay, others): (Vec<_>, Vec<_>) = conditions.into_iter().partition(Expr::is_volatile);
        join.filter = conjunction(others);
        let joined = self.0.rewrite(LogicalPlan::Join(join), config)?.data;
        let Some(predicate) = conjunction(stay) else { return Ok(Transformed::yes(joined)) };
        Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(joined))?)))
    }
}

/// Returns what filters that are above each other are of.
fn below_filters(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::Filter(filter) => below_filters(&filter.input),
        other => other,
    }
}

/// Says whether a condition of a filter, or of one below it, stays where it is.
fn stays_in(filter: &Filter) -> bool {
    let base = below_filters(&filter.input);
    split_conjunction(&filter.predicate).into_iter().any(|condition| stays(condition, base))
        || matches!(filter.input.as_ref(), LogicalPlan::Filter(inner) if stays_in(inner))
}

fn stays(condition: &Expr, below: &LogicalPlan) -> bool {
    match below {
        LogicalPlan::Projection(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::TableScan(_)
        | LogicalPlan::Repartition(_) => false,
        // The filter's own condition would move down with the others.
        LogicalPlan::Join(join) if join.filter.as_ref().is_some_and(Expr::is_volatile) => true,
        LogicalPlan::Aggregate(aggregate) if gives_row_for_none(aggregate) => {
            condition.is_volatile() || condition.column_refs().is_empty()
        }
        // Rows of other places of the plan pass through it, too. It keeps conditions on its columns
        // above it, and does not affect others.
        LogicalPlan::Extension(_) => condition.is_volatile() || condition.column_refs().is_empty(),
        _ => condition.is_volatile(),
    }
}

/// Says whether an aggregate gives a row where there is none, as without GROUP BY, or may do so.
fn gives_row_for_none(aggregate: &Aggregate) -> bool {
    aggregate.group_expr.iter().all(|group| matches!(group, Expr::GroupingSet(_)))
}
