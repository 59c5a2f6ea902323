//! Aggregates over UNION ALL: each of its inputs is aggregated by itself, where its rows are, and the
//! results are combined (Yan and Larson, "Eager aggregation and lazy aggregation", VLDB 1995).

use crate::eager_aggregates::{combined, combining, is_grouped, shown_as};
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, Union};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// Comes behind the rules that move filters and projections into unions.
#[derive(Debug)]
pub struct UnionAggregates;

impl OptimizerRule for UnionAggregates {
    fn name(&self) -> &str {
        "union_aggregates"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::Aggregate(aggregate) = &plan
            && let Some((union, places)) = united(&aggregate.input)
            && let Some(calls) = calls(aggregate)
            && have_one_type(union)
            && !union.inputs.iter().any(|input| is_grouped(input))
        {
            return Ok(Transformed::yes(of_inputs(aggregate, union, &places, &calls, config)?));
        }
        Ok(Transformed::no(plan))
    }
}

/// Returns a UNION ALL below aliases and projections that only leave columns out, and where each
/// column of the plan is among its columns.
fn united(plan: &LogicalPlan) -> Option<(&Union, Vec<usize>)> {
    match plan {
        LogicalPlan::Union(union) => Some((union, (0..union.schema.fields().len()).collect())),
        LogicalPlan::SubqueryAlias(alias) => united(&alias.input),
        LogicalPlan::Projection(projection) => {
            let (union, places) = united(&projection.input)?;
            let schema = projection.input.schema();
            let place = |item: &Expr| match item {
                Expr::Column(column) => places.get(schema.maybe_index_of_column(column)?).copied(),
                _ => None,
            };
            Some((union, projection.expr.iter().map(place).collect::<Option<_>>()?))
        }
        _ => None,
    }
}

fn have_one_type(union: &Union) -> bool {
    let is_one = |input: &Arc<LogicalPlan>| {
        let own = input.schema().fields().iter().map(|field| field.data_type());
        own.eq(union.schema.fields().iter().map(|field| field.data_type()))
    };
    union.inputs.iter().all(is_one)
}

/// Returns the aggregates, if the results of all can be combined.
fn calls(aggregate: &Aggregate) -> Option<Vec<&AggregateFunction>> {
    let is_volatile = aggregate.group_expr.iter().chain(&aggregate.aggr_expr).any(Expr::is_volatile);
    let has_sets = aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)));
    if is_volatile || has_sets || aggregate.aggr_expr.is_empty() {
        return None;
    }
    aggregate.aggr_expr.iter().map(combining).collect()
}

fn of_inputs(
    aggregate: &Aggregate,
    union: &Union,
    places: &[usize],
    calls: &[&AggregateFunction],
    config: &dyn OptimizerConfig,
) -> Result<LogicalPlan> {
    let alias = config.alias_generator().next("part");
    let mut parts = Vec::with_capacity(union.inputs.len());
    for input in &union.inputs {
        let columns = input.schema().columns();
        let own = |expr: &Expr| {
            let replaced = |part| match &part {
                Expr::Column(column) => {
                    let place = aggregate.input.schema().maybe_index_of_column(column);
                    let column = place.and_then(|place| columns.get(*places.get(place)?)).cloned();
                    let column =
                        column.ok_or_else(|| DataFusionError::Internal(format!("no column {part}")))?;
                    Ok(Transformed::yes(Expr::Column(column)))
                }
                _ => Ok(Transformed::no(part)),
            };
            expr.clone().transform(replaced).data()
        };
        let keys = aggregate.group_expr.iter().map(own).collect::<Result<Vec<_>>>()?;
        let results = aggregate.aggr_expr.iter().map(own).collect::<Result<Vec<_>>>()?;
        let part = LogicalPlanBuilder::from(input.as_ref().clone()).aggregate(keys, results)?.build()?;
        let items = part.schema().columns().into_iter().enumerate();
        let items = items.map(|(place, column)| Expr::Column(column).alias(format!("{alias}_{place}")));
        let items: Vec<Expr> = items.collect();
        parts.push(Arc::new(LogicalPlanBuilder::from(part).project(items)?.build()?));
    }
    let union = LogicalPlan::Union(Union::try_new(parts)?);
    let columns: Vec<Column> = union.schema().columns();
    let (keys, results) = columns.split_at(aggregate.group_expr.len());
    let keys: Vec<Expr> = keys.iter().cloned().map(Expr::Column).collect();
    let whole = LogicalPlanBuilder::from(union).aggregate(keys, combined(results, calls))?.build()?;
    shown_as(aggregate, whole, calls)
}
