//! Arithmetic that is exact or fails.
//!
//! DataFusion's `+`, `-` and `*` wrap around on integers and run out of a decimal's digits without a
//! word, and its quotient of decimals is cut after four more digits. Two analyzer rules put functions in
//! the operators' places, under the operators' names, so that nothing else in a plan changes. Before the
//! types are coerced, `/` of decimals becomes the DOUBLE nearest to the quotient, as in DuckDB; after
//! that, and before constants are folded, what may overflow becomes checked.

use arrow::array::{Array, AsArray};
use arrow::compute::kernels::numeric::{add, div, mul, sub};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type, Field,
    FieldRef, Float64Type,
};
use arrow::error::ArrowError;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue, plan_datafusion_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{BinaryExpr, InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::{Analyzer, AnalyzerRule, ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_expr_common::datum::apply;
use std::sync::Arc;

/// The analyzer rules of DataFusion with ours in their places.
pub(crate) fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules = Analyzer::new().rules;
    let coercion = rules.iter().position(|rule| rule.name() == "type_coercion").unwrap_or(rules.len());
    rules.insert(coercion, Arc::new(DecimalDivision::new()));
    rules.push(Arc::new(CheckedArithmetic::new()));
    rules
}

/// Rewrites every expression of a plan by a function that may ask for types.
fn rewrite(plan: LogicalPlan, rewrite: impl Fn(Expr, &DFSchema) -> Transformed<Expr>) -> Result<LogicalPlan> {
    let mut changed = false;
    let plan = plan.transform_up_with_subqueries(|plan| {
        let mut schema = merge_schema(&plan.inputs());
        if let LogicalPlan::TableScan(scan) = &plan {
            let source = scan.source.schema();
            schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &source)?);
        }
        let preserver = NamePreserver::new(&plan);
        let plan = plan.map_expressions(|expression| {
            let name = preserver.save(&expression);
            let expression = expression.transform_up(|expression| Ok(rewrite(expression, &schema)))?;
            Ok(expression.update_data(|expression| name.restore(expression)))
        })?;
        changed |= plan.transformed;
        // A type that changed below changes the types above, whether or not anything changes here.
        if changed { plan.map_data(LogicalPlan::recompute_schema) } else { Ok(plan) }
    })?;
    Ok(plan.data)
}

#[derive(Debug)]
struct DecimalDivision {
    function: Arc<ScalarUDF>,
}

impl DecimalDivision {
    fn new() -> Self {
        Self { function: Arc::new(ScalarUDF::from(Arithmetic::new(Operator::Divide, "divide"))) }
    }
}

impl AnalyzerRule for DecimalDivision {
    fn name(&self) -> &str {
        "decimal_division"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite(plan, |expression, schema| match expression {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Divide, right })
                if exact_quotient(&left, &right, schema) =>
            {
                let function = ScalarFunction::new_udf(self.function.clone(), vec![*left, *right]);
                Transformed::yes(Expr::ScalarFunction(function))
            }
            other => Transformed::no(other),
        })
    }
}

/// Whether a quotient is one of a decimal and a decimal or an integer.
fn exact_quotient(left: &Expr, right: &Expr, schema: &DFSchema) -> bool {
    let exact = |data_type: &DataType| data_type.is_decimal() || data_type.is_integer();
    match (left.get_type(schema), right.get_type(schema)) {
        (Ok(left), Ok(right)) => (left.is_decimal() || right.is_decimal()) && exact(&left) && exact(&right),
        _ => false,
    }
}

#[derive(Debug)]
struct CheckedArithmetic {
    functions: [Arc<ScalarUDF>; 3],
}

impl CheckedArithmetic {
    fn new() -> Self {
        let function = |operator, name| Arc::new(ScalarUDF::from(Arithmetic::new(operator, name)));
        Self {
            functions: [
                function(Operator::Plus, "checked_add"),
                function(Operator::Minus, "checked_subtract"),
                function(Operator::Multiply, "checked_multiply"),
            ],
        }
    }

    fn checked(&self, expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expression else {
            return Transformed::no(expression);
        };
        let function = match op {
            Operator::Plus => &self.functions[0],
            Operator::Minus => &self.functions[1],
            Operator::Multiply => &self.functions[2],
            _ => return Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
        };
        // An expression whose type cannot be told is one that planning refuses.
        let exact = |data_type: &DataType| data_type.is_decimal() || data_type.is_integer();
        let result = match (left.get_type(schema), right.get_type(schema)) {
            (Ok(left), Ok(right)) if exact(&left) && exact(&right) => result_type(op, &left, &right).ok(),
            _ => None,
        };
        let may_overflow = result.is_some_and(|result| match result {
            DataType::Decimal128(precision, _) => precision == DECIMAL128_MAX_PRECISION,
            DataType::Decimal256(precision, _) => precision == DECIMAL256_MAX_PRECISION,
            other => other.is_integer(),
        });
        if may_overflow {
            let function = ScalarFunction::new_udf(function.clone(), vec![*left, *right]);
            Transformed::yes(Expr::ScalarFunction(function))
        } else {
            Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
    }
}

/// The type of `left operator right`, for operands that have been coerced.
fn result_type(operator: Operator, left: &DataType, right: &DataType) -> Result<DataType> {
    BinaryTypeCoercer::new(left, &operator, right).get_result_type()
}

impl AnalyzerRule for CheckedArithmetic {
    fn name(&self) -> &str {
        "checked_arithmetic"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite(plan, |expression, schema| self.checked(expression, schema))
    }
}

/// 0.0 and −0.0 are equal, but a list is looked up by the bits of its values: where it has one of them, it gets the other.
/// The last rule, because others make lists of comparisons.
#[derive(Debug)]
pub(crate) struct BothZeros;

impl OptimizerRule for BothZeros {
    fn name(&self) -> &str {
        "both_zeros"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let preserver = NamePreserver::new(&plan);
        plan.map_expressions(|expression| {
            let name = preserver.save(&expression);
            let expression = expression.transform_up(|expression| Ok(with_both_zeros(expression)))?;
            Ok(expression.update_data(|expression| name.restore(expression)))
        })
    }
}

fn with_both_zeros(mut expression: Expr) -> Transformed<Expr> {
    let Expr::InList(InList { list, .. }) = &mut expression else { return Transformed::no(expression) };
    let other_zero = |value: &Expr| match value {
        Expr::Literal(ScalarValue::Float64(Some(zero)), _) if *zero == 0.0 => {
            Some(Expr::Literal(ScalarValue::Float64(Some(-zero)), None))
        }
        Expr::Literal(ScalarValue::Float32(Some(zero)), _) if *zero == 0.0 => {
            Some(Expr::Literal(ScalarValue::Float32(Some(-zero)), None))
        }
        _ => None,
    };
    let others: Vec<Expr> =
        list.iter().filter_map(other_zero).filter(|other| !list.contains(other)).collect();
    if others.is_empty() {
        return Transformed::no(expression);
    }
    list.extend(others);
    Transformed::yes(expression)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Arithmetic {
    operator: Operator,
    name: &'static str,
    signature: Signature,
}

impl Arithmetic {
    fn new(operator: Operator, name: &'static str) -> Self {
        Self { operator, name, signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Arithmetic {
    fn name(&self) -> &str {
        self.name
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [left, right] => Ok(format!("{} {} {}", left.schema_name(), self.operator, right.schema_name())),
            _ => Err(plan_datafusion_err!("{} takes two arguments", self.name)),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [_, _] if self.operator == Operator::Divide => Ok(DataType::Float64),
            [left, right] => result_type(self.operator, left, right),
            _ => Err(plan_datafusion_err!("{} takes two arguments", self.name)),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name, self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return Err(plan_datafusion_err!("{} takes two arguments", self.name));
        };
        let result = match self.operator {
            Operator::Plus => apply(left, right, add),
            Operator::Minus => apply(left, right, sub),
            Operator::Multiply => apply(left, right, mul),
            _ => quotient(left, right),
        }?;
        check_digits(&result)?;
        Ok(result)
    }
}

fn quotient(left: &ColumnarValue, right: &ColumnarValue) -> Result<ColumnarValue> {
    let double = |value: &ColumnarValue| value.cast_to(&DataType::Float64, None);
    apply(&double(left)?, &double(right)?, |left, right| {
        let divisors = right.get().0.as_primitive::<Float64Type>();
        // A NULL is no division by zero, and what lies under it may be 0.
        if divisors.iter().flatten().any(|divisor| divisor == 0.0) {
            return Err(ArrowError::DivideByZero);
        }
        div(left, right)
    })
}

/// Refuses decimals with more digits than their type has.
fn check_digits(value: &ColumnarValue) -> Result<()> {
    let array = match value {
        ColumnarValue::Array(array) => array.clone(),
        ColumnarValue::Scalar(scalar) => scalar.to_array()?,
    };
    let checked = match array.data_type() {
        DataType::Decimal128(precision, _) => {
            array.as_primitive::<Decimal128Type>().validate_decimal_precision(*precision)
        }
        DataType::Decimal256(precision, _) => {
            array.as_primitive::<Decimal256Type>().validate_decimal_precision(*precision)
        }
        _ => Ok(()),
    };
    checked.map_err(|error| {
        let message = error.to_string();
        let message = message.trim_start_matches("Invalid argument error: ");
        DataFusionError::ArrowError(Box::new(ArrowError::ArithmeticOverflow(message.into())), None)
    })
}
