//! Arguments with names for tests, in which DataFusion plans calls of file functions: they become these and
//! their values, as where queries are bound.

use crate::function;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::planner::{RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr as SqlExpr, FunctionArg, FunctionArgExpr, TableFactor, Value,
};
use std::sync::Arc;

/// Makes the file functions known to a session, also by arguments with names.
pub fn register(context: &SessionContext) {
    function::register(context);
    context.register_relation_planner(Arc::new(NamedArguments)).unwrap();
}

/// Says whether a function reads files.
fn is_of_files(name: &str) -> bool {
    let name = name.to_lowercase();
    name.starts_with("read_") || name.starts_with("sniff_") || name == "glob"
}

#[derive(Debug)]
struct NamedArguments;

impl RelationPlanner for NamedArguments {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        _context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning, DataFusionError> {
        if let TableFactor::Table { name, args: Some(arguments), .. } = &mut relation
            && let [part] = name.0.as_slice()
            && let Some(ident) = part.as_ident()
            && is_of_files(&ident.value)
        {
            arguments.args = arguments.args.drain(..).flat_map(positional).collect();
        }
        Ok(RelationPlanning::Original(Box::new(relation)))
    }
}

fn positional(argument: FunctionArg) -> Vec<FunctionArg> {
    let (name, value) = match argument {
        FunctionArg::Named { name, arg, .. } => (name, arg),
        FunctionArg::ExprNamed { name: SqlExpr::Identifier(name), arg, .. } => (name, arg),
        // `name = value`, which the parser takes for a comparison.
        FunctionArg::Unnamed(FunctionArgExpr::Expr(SqlExpr::BinaryOp {
            left,
            op: BinaryOperator::Eq,
            right,
        })) => match *left {
            SqlExpr::Identifier(name) => (name, FunctionArgExpr::Expr(*right)),
            left => {
                let (left, op) = (Box::new(left), BinaryOperator::Eq);
                return vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(SqlExpr::BinaryOp {
                    left,
                    op,
                    right,
                }))];
            }
        },
        other => return vec![other],
    };
    let name = SqlExpr::value(Value::SingleQuotedString(name.value));
    vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(name)), FunctionArg::Unnamed(value)]
}
