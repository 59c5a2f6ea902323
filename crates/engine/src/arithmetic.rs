//! Integer arithmetic that fails on overflow.
//!
//! DataFusion's `+`, `-` and `*` wrap around silently. An analyzer rule, after the types are known and
//! before constants are folded, puts checked functions in their places; they keep the operators' names,
//! so that nothing else in a plan changes.

use arrow::compute::kernels::numeric::{add, mul, sub};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{BinaryExpr, ScalarFunction};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct CheckedArithmetic {
    functions: [Arc<ScalarUDF>; 3],
}

impl CheckedArithmetic {
    pub fn new() -> Self {
        let function = |operator, name| Arc::new(ScalarUDF::from(Checked::new(operator, name)));
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
        match (left.get_type(schema), right.get_type(schema)) {
            (Ok(one), Ok(other)) if one == other && one.is_integer() => {
                let function = ScalarFunction::new_udf(function.clone(), vec![*left, *right]);
                Transformed::yes(Expr::ScalarFunction(function))
            }
            _ => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
        }
    }
}

impl AnalyzerRule for CheckedArithmetic {
    fn name(&self) -> &str {
        "checked_arithmetic"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|plan| {
            let mut schema = merge_schema(&plan.inputs());
            if let LogicalPlan::TableScan(scan) = &plan {
                let source = scan.source.schema();
                schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &source)?);
            }
            plan.map_expressions(|expression| {
                expression.transform_up(|expression| Ok(self.checked(expression, &schema)))
            })
        })?;
        Ok(plan.data)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operator: Operator,
    name: &'static str,
    signature: Signature,
}

impl Checked {
    fn new(operator: Operator, name: &'static str) -> Self {
        Self { operator, name, signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Checked {
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
            [one, other] if one == other && one.is_integer() => Ok(one.clone()),
            _ => Err(plan_datafusion_err!("{} takes two integers of one type", self.name)),
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
        match self.operator {
            Operator::Plus => apply(left, right, add),
            Operator::Minus => apply(left, right, sub),
            _ => apply(left, right, mul),
        }
    }
}
