//! Keys of groups over joins.
//!
//! A join may repeat what was a key below it, and `GROUP BY a, b` over it has the key (a, b). DataFusion 55 takes b alone for one where
//! it was one below the join, and then leaves out a DISTINCT, a join or a key that is needed. It knows keys by the names of columns,
//! so these get others on the way.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Dependency, FunctionalDependence};
use datafusion::error::Result;
use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan, Projection};
use std::sync::Arc;

/// Gives the keys of a node's groups names of their own, of which `made` have been given in the plan.
pub(crate) fn with_own_keys(plan: LogicalPlan, made: &mut usize) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Aggregate(Aggregate { input, group_expr, aggr_expr, schema, .. })
            if group_expr.iter().any(|key| is_repeated(key, input.schema())) =>
        {
            grouped(input, group_expr, aggr_expr, &schema, made).map(Transformed::yes)
        }
        // Its columns are a key, too, and it would be left out where they seem to be one already.
        LogicalPlan::Distinct(Distinct::All(input)) if !input.schema().fields().is_empty() => {
            let columns = input.schema().columns().into_iter().map(Expr::Column).collect();
            let schema = input.schema().clone();
            grouped(input, columns, Vec::new(), &schema, made).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Whether a column is of a key that a join has repeated.
fn is_repeated(key: &Expr, schema: &DFSchema) -> bool {
    let Expr::Column(column) = key else { return false };
    let Some(place) = schema.maybe_index_of_column(column) else { return false };
    let repeated = |dependency: &FunctionalDependence| {
        dependency.mode == Dependency::Multi && dependency.source_indices.contains(&place)
    };
    schema.functional_dependencies().iter().any(repeated)
}

/// The groups, by keys of other names, under the names of a schema.
fn grouped(
    input: Arc<LogicalPlan>,
    keys: Vec<Expr>,
    aggregates: Vec<Expr>,
    schema: &DFSchema,
    made: &mut usize,
) -> Result<LogicalPlan> {
    let keys = keys.into_iter().map(|key| match is_repeated(&key, input.schema()) {
        true => {
            *made += 1;
            key.alias(format!("__key_{made}"))
        }
        false => key,
    });
    let groups = Aggregate::try_new(input.clone(), keys.collect(), aggregates)?;
    let columns = groups.schema.columns().into_iter().zip(schema.columns());
    let items = columns.map(|(made, Column { relation, name, .. })| {
        let is_same = made.relation == relation && made.name == name;
        let made = Expr::Column(made);
        if is_same { made } else { made.alias_qualified(relation, name) }
    });
    let items: Vec<Expr> = items.collect();
    let groups = LogicalPlan::Aggregate(groups);
    if items.iter().all(|item| matches!(item, Expr::Column(_))) {
        return Ok(groups);
    }
    Ok(LogicalPlan::Projection(Projection::try_new(items, Arc::new(groups))?))
}
