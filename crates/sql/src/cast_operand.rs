//! Casts beside their operands. DataFusion gives a cast the name of its operand, and refuses two
//! expressions of one name. Here the operand becomes a call that tells the type of the cast.

use crate::call::call;
use crate::walk::{expressions_mut, taken};
use datafusion_sql::parser::Statement as DfStatement;
use sqlparser::ast::{Expr as SqlExpr, Value};
use std::ops::ControlFlow;

/// The name of a function that users never call.
pub const NAME: &str = "__operand";

/// Returns the statement with casts that have names of their own; `None` where it has no casts.
pub fn told_apart(statement: &DfStatement) -> Option<DfStatement> {
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
    let _done = expressions_mut(statement.as_mut(), &mut |expr| {
        if let SqlExpr::Cast { expr, data_type, .. } = expr {
            let operand = taken(expr);
            let wanted = SqlExpr::Value(Value::SingleQuotedString(data_type.to_string()).into());
            **expr = call(NAME, vec![operand, wanted]);
            some = true;
        }
        ControlFlow::<()>::Continue(())
    });
    some.then_some(DfStatement::Statement(statement))
}
