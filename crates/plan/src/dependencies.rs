//! Keys of groups over joins.
//!
//! A join may repeat a row, so that a key below it is no key above it, and `GROUP BY a, b` over it
//! has the key (a, b). DataFusion 55 uses b alone if it was a key below the join, and then removes
//! a DISTINCT, a join or a key that is needed. It identifies keys by the names of columns, so the
//! columns get other names on the way.

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Dependency, FunctionalDependence, plan_datafusion_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    Aggregate, ColumnarValue, Distinct, Expr, LogicalPlan, Projection, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use hypostyle_expr::impl_portable;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

/// Gives the keys of a node's groups names of their own, of which `made` have been given in the
/// plan.
pub fn with_own_keys(plan: LogicalPlan, made: &mut usize) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Aggregate(Aggregate { input, group_expr, aggr_expr, schema, .. })
            if group_expr.iter().any(|key| is_repeated(key, input.schema())) =>
        {
            grouped(input, group_expr, aggr_expr, &schema, made).map(Transformed::yes)
        }
        // The columns of DISTINCT are a key, too, and DataFusion would remove it where they seem to
        // be one already.
        LogicalPlan::Distinct(Distinct::All(input)) if !input.schema().fields().is_empty() => {
            let columns = input.schema().columns().into_iter().map(Expr::Column).collect();
            let schema = input.schema().clone();
            grouped(input, columns, Vec::new(), &schema, made).map(Transformed::yes)
        }
        LogicalPlan::Unnest(mut unnest) if !unnest.list_type_columns.is_empty() => {
            let Some(input) = without_keys(&unnest.input)? else {
                return Ok(Transformed::no(LogicalPlan::Unnest(unnest)));
            };
            unnest.input = Arc::new(input);
            LogicalPlan::Unnest(unnest).recompute_schema().map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Returns a plan for the same rows of which nothing is known to be a key; `None` where nothing is.
fn without_keys(plan: &Arc<LogicalPlan>) -> Result<Option<LogicalPlan>> {
    static SAME: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Same::default())));
    let schema = plan.schema();
    let keys: HashSet<usize> = schema
        .functional_dependencies()
        .iter()
        .flat_map(|dependency| dependency.source_indices.iter().copied())
        .collect();
    if keys.is_empty() {
        return Ok(None);
    }
    let items = schema.columns().into_iter().enumerate().map(|(place, column)| match keys.contains(&place) {
        true => {
            let Column { relation, name, .. } = column.clone();
            SAME.call(vec![Expr::Column(column)]).alias_qualified(relation, name)
        }
        false => Expr::Column(column),
    });
    let items = items.collect();
    Ok(Some(LogicalPlan::Projection(Projection::try_new(items, plan.clone())?)))
}

/// A function that gives its argument.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Same {
    signature: Signature,
}

impl Default for Same {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl_portable!(Same, "same");

impl ScalarUDFImpl for Same {
    fn name(&self) -> &str {
        "same"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().cloned().ok_or_else(of_one_value)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        args.arg_fields.first().cloned().ok_or_else(of_one_value)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        args.args.pop().ok_or_else(of_one_value)
    }
}

fn of_one_value() -> DataFusionError {
    plan_datafusion_err!("same() is of one value")
}

/// Says whether a column is of a key that a join has repeated.
fn is_repeated(key: &Expr, schema: &DFSchema) -> bool {
    let Expr::Column(column) = key else { return false };
    let Some(place) = schema.maybe_index_of_column(column) else { return false };
    let repeated = |dependency: &FunctionalDependence| {
        dependency.mode == Dependency::Multi && dependency.source_indices.contains(&place)
    };
    schema.functional_dependencies().iter().any(repeated)
}

/// Returns the groups, by keys of other names, under the names of a schema.
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
