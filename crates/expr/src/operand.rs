//! Casts beside their operands. DataFusion gives a cast the name of its operand, and refuses two
//! expressions of one name, as in `SELECT sum(i), sum(i::BIGINT)` and `GROUP BY t, t::DATE`. Here
//! the operand's name tells the type of the cast. What has a subquery tells which one, as in
//! `GROUP BY i IN (SELECT …), i IN (SELECT …)`. And keys of grouping sets that are one expression, but
//! differ all the same.

use crate::walk::{any_node, map_expressions};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use hypostyle_sql::cast_operand::NAME;
use hypostyle_sql::twin_keys;
use std::collections::HashSet;

/// Says whether rows are grouped by two expressions of one name, which is refused only later.
pub fn groups_twice_named(plan: &LogicalPlan) -> bool {
    any_node(plan, |node| {
        let LogicalPlan::Aggregate(aggregate) = node else { return false };
        let mut names = HashSet::new();
        !aggregate.group_expr.iter().all(|key| names.insert(key.schema_name().to_string()))
    })
}

/// Leaves of an operand what it is.
pub fn alone(expression: Expr, _: &DFSchema) -> Result<Transformed<Expr>> {
    match expression {
        Expr::ScalarFunction(ScalarFunction { func, mut args }) if func.name() == NAME && args.len() == 2 => {
            Ok(Transformed::yes(args.swap_remove(0)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Leaves of the operands in conditions what they are: conditions give no column a name, and which of their
/// subqueries become joins is known by their shapes.
///
/// # Errors
/// Those of DataFusion.
pub fn alone_in_conditions(plan: LogicalPlan) -> Result<LogicalPlan> {
    let none = DFSchema::empty();
    let plan = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Filter(_) | LogicalPlan::Join(_) => map_expressions(node, |expr| alone(expr, &none)),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(plan.data)
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
    [NAME, twin_keys::NAME].map(|name| ScalarUDF::from(Operand { name, signature: signature.clone() }))
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
