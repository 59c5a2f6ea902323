//! Aggregates over the rows that a left join adds, before the join: of customers with the number of
//! their orders, orders are counted by customer first, and then joined. The join has one row at most
//! for each customer then, and its other side is as small as the groups are few (Yan and Larson,
//! "Eager aggregation and lazy aggregation", VLDB 1995).

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Dependency, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, cast, lit, when,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Comes behind the rules that move filters and find join keys.
#[derive(Debug)]
pub struct EagerAggregates;

impl OptimizerRule for EagerAggregates {
    fn name(&self) -> &str {
        "eager_aggregates"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::Aggregate(aggregate) = &plan
            && let Some(join) = joined(&aggregate.input)
            && let Some(calls) = calls(aggregate, join)
        {
            return Ok(Transformed::yes(before_join(aggregate, join, &calls, config)?));
        }
        Ok(Transformed::no(plan))
    }
}

/// Returns a left join of equal columns, below projections that only leave columns out.
fn joined(mut plan: &LogicalPlan) -> Option<&Join> {
    while let LogicalPlan::Projection(projection) = plan {
        if !projection.expr.iter().all(|item| matches!(item, Expr::Column(_))) {
            return None;
        }
        plan = &projection.input;
    }
    let LogicalPlan::Join(join) = plan else { return None };
    let is_plain = join.join_type == JoinType::Left
        && join.filter.is_none()
        && join.null_equality == NullEquality::NullEqualsNothing
        && !join.on.is_empty();
    is_plain.then_some(join)
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(_))
}

/// Returns the aggregates, if all of them can be computed of the right side alone: the groups are those
/// of the join's keys and of other columns of the left side.
fn calls<'a>(aggregate: &'a Aggregate, join: &Join) -> Option<Vec<&'a AggregateFunction>> {
    let left = join.left.schema();
    let are_left = aggregate.group_expr.iter().all(|key| match key {
        Expr::Column(column) => left.has_column(column),
        _ => false,
    });
    let are_grouped = join
        .on
        .iter()
        .all(|(key, other)| is_column(key) && is_column(other) && aggregate.group_expr.contains(key));
    if !are_left || !are_grouped || aggregate.aggr_expr.is_empty() || has_one_row_for_each_key(join) {
        return None;
    }
    aggregate.aggr_expr.iter().map(|expr| call(expr, join)).collect()
}

/// Returns an aggregate whose partial results can be combined, and which sees nothing but the right side.
fn call<'a>(expr: &'a Expr, join: &Join) -> Option<&'a AggregateFunction> {
    let call = combining(expr)?;
    let [argument] = call.params.args.as_slice() else { return None };
    let columns = argument.column_refs();
    let is_of_right = !columns.is_empty()
        && columns.iter().all(|column| join.right.schema().has_column(column))
        && !argument.is_volatile()
        // An argument that gives a value for NULL counts rows without a partner.
        && is_column(argument);
    (is_of_right && call.params.filter.is_none()).then_some(call)
}

/// Returns an aggregate whose results over parts of the rows can be combined.
pub fn combining(expr: &Expr) -> Option<&AggregateFunction> {
    let Expr::AggregateFunction(call) = expr else { return None };
    let AggregateFunctionParams { distinct, order_by, null_treatment, .. } = &call.params;
    let is_plain = !distinct && order_by.is_empty() && null_treatment.is_none();
    let combines = matches!(call.func.name(), "count" | "sum" | "min" | "max");
    (is_plain && combines).then_some(call)
}

/// Returns the aggregates that combine the results of others.
pub fn combined(results: &[Column], calls: &[&AggregateFunction]) -> Vec<Expr> {
    let combined = results.iter().zip(calls).map(|(result, call)| {
        let func = if call.func.name() == "count" { sum_udaf() } else { call.func.clone() };
        let of = vec![Expr::Column(result.clone())];
        Expr::AggregateFunction(AggregateFunction::new_udf(func, of, false, None, Vec::new(), None))
    });
    combined.collect()
}

/// Says whether the right side is known to have one row for each key: nothing is gained then.
fn has_one_row_for_each_key(join: &Join) -> bool {
    let right = join.right.schema();
    let keys: Vec<usize> = join
        .on
        .iter()
        .filter_map(|(_, key)| key.try_as_col().and_then(|column| right.maybe_index_of_column(column)))
        .collect();
    let is_unique = right.functional_dependencies().iter().any(|dependency| {
        dependency.mode == Dependency::Single
            && dependency.source_indices.iter().all(|key| keys.contains(key))
    });
    is_unique || is_grouped(&join.right)
}

/// Says whether a side is an aggregate, which this rule may have made.
pub(crate) fn is_grouped(side: &LogicalPlan) -> bool {
    match side {
        LogicalPlan::Projection(projection) => is_grouped(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_grouped(&alias.input),
        LogicalPlan::Filter(filter) => is_grouped(&filter.input),
        LogicalPlan::Aggregate(_) => true,
        _ => false,
    }
}

fn before_join(
    aggregate: &Aggregate,
    join: &Join,
    calls: &[&AggregateFunction],
    config: &dyn OptimizerConfig,
) -> Result<LogicalPlan> {
    let alias = config.alias_generator().next("eager");
    let (left_keys, right_keys): (Vec<Expr>, Vec<Expr>) = join.on.iter().cloned().unzip();
    let names = (0..).map(|place| format!("{alias}_{place}"));
    let mut items = Vec::with_capacity(right_keys.len() + calls.len());
    let of_right = aggregate.aggr_expr.clone();
    let partial = LogicalPlanBuilder::from(join.right.as_ref().clone())
        .aggregate(right_keys.clone(), of_right)?
        .build()?;
    let made = partial.schema().columns();
    for (column, name) in made.iter().zip(names) {
        items.push(Expr::Column(column.clone()).alias(name));
    }
    let partial = LogicalPlanBuilder::from(partial).project(items)?.build()?;
    let columns = partial.schema().columns();
    let (keys, results) = columns.split_at(right_keys.len());
    let left_keys: Vec<Column> = left_keys.iter().filter_map(|key| key.try_as_col().cloned()).collect();
    let whole = LogicalPlanBuilder::from(join.left.as_ref().clone())
        .join(partial.clone(), JoinType::Left, (left_keys, keys.to_vec()), None)?
        .aggregate(aggregate.group_expr.clone(), combined(results, calls))?
        .build()?;
    shown_as(aggregate, whole, calls)
}

/// Gives the columns of combined aggregates the names and types of those that they stand for.
pub fn shown_as(
    aggregate: &Aggregate,
    whole: LogicalPlan,
    calls: &[&AggregateFunction],
) -> Result<LogicalPlan> {
    let wanted = aggregate.schema.iter().zip(aggregate.schema.columns()).enumerate();
    let mut shown = Vec::with_capacity(aggregate.schema.fields().len());
    for ((place, ((_, field), column)), made) in wanted.zip(whole.schema().columns()) {
        let made = Expr::Column(made);
        let Some(call) = place.checked_sub(aggregate.group_expr.len()).and_then(|place| calls.get(place))
        else {
            shown.push(made.alias_qualified(column.relation.clone(), column.name));
            continue;
        };
        let made = match made.get_type(whole.schema())? == *field.data_type() {
            true => made,
            false => cast(made, field.data_type().clone()),
        };
        let made = match call.func.name() {
            "count" => when(made.clone().is_null(), lit(0_i64)).otherwise(made)?,
            _ => made,
        };
        shown.push(made.alias_qualified(column.relation.clone(), column.name));
    }
    LogicalPlanBuilder::from(whole).project(shown)?.build()
}
