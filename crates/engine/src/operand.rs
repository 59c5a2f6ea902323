//! Casts beside what they cast. DataFusion names a cast as its operand, and refuses two expressions of one name, as
//! `SELECT sum(i), sum(i::BIGINT)` and `GROUP BY t, t::DATE` have them: there the operands tell to what they are cast.

use crate::walk::any_node;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, Value, visit_expressions_mut,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// No function of this name is called by users.
pub(crate) const NAME: &str = "__operand";

/// The statement with casts that have names of their own; `None` where it has no casts.
pub(crate) fn told_apart(statement: &DfStatement) -> Option<DfStatement> {
    let mut statement = match statement {
        DfStatement::Statement(statement) => statement.clone(),
        DfStatement::Explain(explain) => {
            let mut explain = explain.clone();
            *explain.statement = told_apart(&explain.statement)?;
            return Some(DfStatement::Explain(explain));
        }
        _ => return None,
    };
    let mut some = false;
    let _done = visit_expressions_mut(statement.as_mut(), |expr| {
        if let SqlExpr::Cast { expr, data_type, .. } = expr {
            let operand = std::mem::replace(expr.as_mut(), SqlExpr::Value(Value::Null.into()));
            let wanted = SqlExpr::Value(Value::SingleQuotedString(data_type.to_string()).into());
            **expr = call(NAME, vec![operand, wanted]);
            some = true;
        }
        ControlFlow::<()>::Continue(())
    });
    some.then_some(DfStatement::Statement(statement))
}

/// Whether rows are grouped by two expressions of one name, which is refused only later.
pub(crate) fn groups_twice_named(plan: &LogicalPlan) -> bool {
    any_node(plan, |node| {
        let LogicalPlan::Aggregate(aggregate) = node else { return false };
        let mut names = HashSet::new();
        !aggregate.group_expr.iter().all(|key| names.insert(key.schema_name().to_string()))
    })
}

/// A call as it is written.
pub(crate) fn call(name: &str, arguments: Vec<SqlExpr>) -> SqlExpr {
    let args = arguments.into_iter().map(|of| FunctionArg::Unnamed(FunctionArgExpr::Expr(of))).collect();
    let args = FunctionArgumentList { duplicate_treatment: None, args, clauses: vec![] };
    SqlExpr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(args),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}

/// Leaves of an operand what it is.
pub(crate) fn alone(expression: Expr, _: &DFSchema) -> Result<Transformed<Expr>> {
    match expression {
        Expr::ScalarFunction(ScalarFunction { func, mut args }) if func.name() == NAME && args.len() == 2 => {
            Ok(Transformed::yes(args.swap_remove(0)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// The first of two arguments.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Operand {
    signature: Signature,
}

pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::from(Operand { signature: Signature::any(2, Volatility::Immutable) })
}

impl ScalarUDFImpl for Operand {
    fn name(&self) -> &str {
        NAME
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
    plan_datafusion_err!("{NAME} has two arguments")
}
