//! NaN, of which there is one: it is equal to itself and greater than all numbers, as in
//! PostgreSQL. What processors make of `'inf' - 'inf'` has a sign, by which it would be compared,
//! sorted and grouped as another value, less than all numbers.

use crate::comparison::operands;
use crate::impl_portable;
use crate::walk::{contains, keys_mut};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, ScalarValue, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunctionParams, Alias, ScalarFunction, WindowFunctionParams};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, Projection, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
pub use hypostyle_position::nan::{is_of_floats, one};
use std::sync::{Arc, LazyLock};

const NAME: &str = "one_nan";

static ONE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(ScalarUDF::from(OneNan { signature: Signature::any(1, Volatility::Immutable) }))
});

/// Returns the function that makes all NaNs one, for values that come from others.
pub fn one_nan() -> Arc<ScalarUDF> {
    ONE.clone()
}

/// What is compared, chosen by its order, or told apart, with one NaN where it is computed.
pub fn where_compared(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let compared: Vec<&mut Expr> = match &mut expression {
        Expr::AggregateFunction(call)
            if call.params.distinct || matches!(call.func.name(), "min" | "max") =>
        {
            let AggregateFunctionParams { args, order_by, .. } = &mut call.params;
            args.iter_mut().chain(order_by.iter_mut().map(|key| &mut key.expr)).collect()
        }
        Expr::AggregateFunction(call) => call.params.order_by.iter_mut().map(|key| &mut key.expr).collect(),
        Expr::WindowFunction(call) => {
            let is_of_order = matches!(call.fun.name(), "min" | "max");
            let WindowFunctionParams { args, partition_by, order_by, .. } = &mut call.params;
            let args = args.iter_mut().filter(|_| is_of_order);
            args.chain(partition_by).chain(order_by.iter_mut().map(|key| &mut key.expr)).collect()
        }
        other => match operands(other) {
            Some(compared) => compared,
            None => return Ok(Transformed::no(expression)),
        },
    };
    let mut changed = false;
    for expr in compared {
        changed |= with_one(expr, schema);
    }
    Ok(Transformed::new_transformed(expression, changed))
}

/// What rows are sorted and grouped by, and what is computed of them, for what is above.
pub fn in_rows(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let preserver = NamePreserver::new(&plan);
    let with_name = |expr: &mut Expr, schema: &DFSchema| {
        let name = preserver.save(expr);
        let changed = with_one(expr, schema);
        if changed {
            *expr = name.restore(std::mem::take(expr));
        }
        changed
    };
    match plan {
        LogicalPlan::Sort(mut sort) => {
            let schema = sort.input.schema().clone();
            let mut changed = false;
            for key in &mut sort.expr {
                changed |= with_one(&mut key.expr, &schema);
            }
            Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), changed))
        }
        LogicalPlan::Projection(mut projection) => {
            let schema = projection.input.schema().clone();
            let mut changed = false;
            for expr in &mut projection.expr {
                changed |= with_name(expr, &schema);
            }
            Ok(Transformed::new_transformed(LogicalPlan::Projection(projection), changed))
        }
        LogicalPlan::Values(mut values) => {
            let schema = DFSchema::empty();
            let exprs = values.values.iter_mut().flatten();
            let changed = exprs.fold(false, |changed, expr| with_one(expr, &schema) | changed);
            Ok(Transformed::new_transformed(LogicalPlan::Values(values), changed))
        }
        LogicalPlan::Aggregate(mut aggregate) => {
            let schema = aggregate.input.schema().clone();
            let mut changed = false;
            for key in aggregate.group_expr.iter_mut().flat_map(keys_mut) {
                changed |= with_name(key, &schema);
            }
            Ok(Transformed::new_transformed(LogicalPlan::Aggregate(aggregate), changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// What aggregates and windows make, with one NaN for what is above.
pub fn made_of_rows(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let made = match &plan {
        LogicalPlan::Aggregate(aggregate) => &aggregate.aggr_expr,
        LogicalPlan::Window(window) => &window.window_expr,
        _ => return Ok(Transformed::no(plan)),
    };
    let columns = plan.schema().columns();
    let given = columns.len() - made.len();
    let fields = plan.schema().fields();
    let is_made = |place: usize| {
        let made = place.checked_sub(given).and_then(|place| made.get(place));
        fields[place].data_type().is_floating() && made.is_some_and(calculates)
    };
    if !(0..columns.len()).any(is_made) {
        return Ok(Transformed::no(plan));
    }
    let items = columns.into_iter().enumerate().map(|(place, column)| match is_made(place) {
        true => {
            let Column { relation, name, .. } = column.clone();
            ONE.call(vec![Expr::Column(column)]).alias_qualified(relation, name)
        }
        false => Expr::Column(column),
    });
    let items = items.collect();
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(items, Arc::new(plan))?)))
}

/// Whether a function of rows calculates with their values.
fn calculates(expr: &Expr) -> bool {
    const CHOOSING: [&str; 13] = [
        "any_value",
        "cume_dist",
        "first_value",
        "lag",
        "last_value",
        "lead",
        "max",
        "min",
        "mode",
        "nth_value",
        "percent_rank",
        "quantile_disc",
        "single_value",
    ];
    match expr {
        Expr::Alias(Alias { expr, .. }) => calculates(expr),
        Expr::AggregateFunction(call) => !CHOOSING.contains(&call.func.name()),
        Expr::WindowFunction(call) => !CHOOSING.contains(&call.fun.name()),
        _ => false,
    }
}

/// Makes all NaNs of an expression one, if it may have several, and says whether it did.
fn with_one(expr: &mut Expr, schema: &DFSchema) -> bool {
    if let Expr::Alias(Alias { expr, .. }) = expr {
        return with_one(expr, schema);
    }
    let is_one = matches!(expr, Expr::ScalarFunction(ScalarFunction { func, .. }) if func.name() == NAME);
    if is_one
        || !contains(expr, |expr| makes(expr, schema))
        || !expr.get_type(schema).is_ok_and(|of| of.is_floating())
    {
        return false;
    }
    let of = std::mem::take(expr);
    *expr = Expr::ScalarFunction(ScalarFunction::new_udf(ONE.clone(), vec![of]));
    true
}

/// Whether an expression may make a NaN of what is none.
fn makes(expr: &Expr, schema: &DFSchema) -> bool {
    use Operator::{Divide, Minus, Modulo, Multiply, Plus};
    let is_text = |expr: &Expr| expr.get_type(schema).is_ok_and(|of| of.is_string());
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => matches!(op, Divide | Minus | Modulo | Multiply | Plus),
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => value.is_nan() && value.is_sign_negative(),
        Expr::Literal(ScalarValue::Float32(Some(value)), _) => value.is_nan() && value.is_sign_negative(),
        Expr::Cast(cast) => is_text(&cast.expr),
        Expr::TryCast(cast) => is_text(&cast.expr),
        // Exact arithmetic makes none, nor do casts of numbers. A text may say '-nan'.
        Expr::ScalarFunction(ScalarFunction { func, args }) => match func.name() {
            NAME => false,
            "cast" | "try_cast" => args.iter().any(is_text),
            _ => crate::arithmetic::operands(expr).is_none(),
        },
        _ => false,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct OneNan {
    signature: Signature,
}

impl Default for OneNan {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl_portable!(OneNan, "one_nan");

impl ScalarUDFImpl for OneNan {
    fn name(&self) -> &str {
        NAME
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.first().map(|of| of.schema_name().to_string()).unwrap_or_default())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().cloned().ok_or_else(|| plan_datafusion_err!("{NAME} is of one number"))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = args.arg_fields.first();
        let field = field.ok_or_else(|| plan_datafusion_err!("{NAME} is of one number"))?;
        Ok(Arc::new(field.as_ref().clone().with_name(NAME)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let of =
            args.args.into_iter().next().ok_or_else(|| plan_datafusion_err!("{NAME} is of one number"))?;
        Ok(match of {
            ColumnarValue::Scalar(ScalarValue::Float64(Some(value))) if value.is_nan() => {
                ColumnarValue::Scalar(ScalarValue::Float64(Some(f64::NAN)))
            }
            ColumnarValue::Scalar(ScalarValue::Float32(Some(value))) if value.is_nan() => {
                ColumnarValue::Scalar(ScalarValue::Float32(Some(f32::NAN)))
            }
            ColumnarValue::Array(values) => ColumnarValue::Array(one(values)),
            scalar => scalar,
        })
    }
}

/// Tells whether rows have floating-point numbers.
pub fn has_floats(schema: &Schema) -> bool {
    schema.fields().iter().any(|field| is_of_floats(field.data_type()))
}

/// Returns rows whose NaNs are all the same.
///
/// # Errors
/// Those of Arrow.
pub fn with_one_nan(batch: RecordBatch) -> Result<RecordBatch> {
    if !has_floats(batch.schema_ref()) {
        return Ok(batch);
    }
    let (schema, mut columns, _) = batch.into_parts();
    columns.iter_mut().for_each(|column| *column = one(column.clone()));
    Ok(RecordBatch::try_new(schema, columns)?)
}
