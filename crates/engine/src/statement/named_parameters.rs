//! Parameters that have names: they get numbers, which the planner knows.

use crate::session::Parameters;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{Expr, Value};
use hypostyle_sql::walk::expressions_mut;
use hypostyle_types::{Error, Result};
use std::ops::ControlFlow;

/// Numbers the parameters of a statement that have names, and gives their values in that order;
/// `None` where they have none.
///
/// # Errors
/// `InvalidInput` (07001) for a parameter without a value.
pub(super) fn numbered(statement: &mut DfStatement, parameters: &Parameters) -> Result<Option<Parameters>> {
    let (DfStatement::Statement(statement), Parameters::Named(values)) = (statement, parameters) else {
        return Ok(None);
    };
    let mut names: Vec<String> = Vec::new();
    let _all = expressions_mut(statement, &mut |expr| {
        if let Expr::Value(value) = expr
            && let Value::Placeholder(text) = &mut value.value
            && let Some(name) = text.strip_prefix(['$', ':'])
        {
            let known = names.iter().position(|known| known == name);
            let place = known.unwrap_or_else(|| {
                names.push(name.to_string());
                names.len() - 1
            });
            *text = format!("${}", place + 1);
        }
        ControlFlow::<()>::Continue(())
    });
    let value = |name: &String| {
        let found = values.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone()).ok_or_else(|| {
            Error::invalid_input(format!("no value was given for the parameter ${name}"))
                .with_sqlstate("07001")
        })
    };
    names.iter().map(value).collect::<Result<_>>().map(|values| Some(Parameters::Positional(values)))
}
