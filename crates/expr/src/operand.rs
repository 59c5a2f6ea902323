//! Operands that differ from others of their text: volatile calls within windows that are written alike, and
//! keys of grouping sets that are one expression, but differ all the same.

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use hypostyle_sql::forms::OPERAND;
use hypostyle_sql::twin_keys;

/// Leaves of an operand what it is.
pub fn alone(expression: Expr, _: &DFSchema) -> Result<Transformed<Expr>> {
    match expression {
        Expr::ScalarFunction(ScalarFunction { func, mut args })
            if func.name() == OPERAND && args.len() == 2 =>
        {
            Ok(Transformed::yes(args.swap_remove(0)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// The first of two arguments.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Operand {
    name: &'static str,
    signature: Signature,
}

/// Returns the functions that give the first of their arguments.
pub fn functions() -> [ScalarUDF; 2] {
    let signature = Signature::any(2, Volatility::Immutable);
    [OPERAND, twin_keys::NAME].map(|name| ScalarUDF::from(Operand { name, signature: signature.clone() }))
}

impl ScalarUDFImpl for Operand {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().cloned().ok_or_else(of_two)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        args.arg_fields.first().cloned().ok_or_else(of_two)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        args.args.into_iter().next().ok_or_else(of_two)
    }
}

fn of_two() -> datafusion::error::DataFusionError {
    plan_datafusion_err!("the first of two arguments was expected")
}
