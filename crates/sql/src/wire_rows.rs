//! Functions that return rows, among the columns of a query, for sessions that speak PostgreSQL's
//! protocol. Elsewhere they return lists there. PostgreSQL's return a row for each element, several
//! of them side by side, as `unnest` does.

use crate::call::call;
use crate::walk::{expressions_mut, walk_mut};
use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Select, SelectItem, Statement, VisitorMut,
};
use std::ops::ControlFlow;

/// The functions, with those that give the list of their rows.
const FUNCTIONS: [(&str, &str); 2] =
    [("generate_series", "generate_series"), ("string_to_table", "string_to_array")];

/// Has them give rows.
pub fn unnest_lists(statement: &mut Statement) {
    let _done = walk_mut(statement, &mut Unnester);
}

struct Unnester;

impl VisitorMut for Unnester {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                expressions_mut(expr, &mut |part| {
                    unnest(part);
                    ControlFlow::<()>::Continue(())
                })?;
            }
        }
        ControlFlow::Continue(())
    }
}

/// Returns the arguments of a call of a function that has such a name.
fn called(expr: &Expr) -> Option<(String, Vec<Expr>)> {
    let Expr::Function(function) = expr else { return None };
    let name = function.name.0.last()?.as_ident()?.value.to_ascii_lowercase();
    let FunctionArguments::List(list) = &function.args else { return None };
    let argument = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    Some((name, list.args.iter().map(argument).collect::<Option<_>>()?))
}

fn unnest(expr: &mut Expr) {
    let Some((name, arguments)) = called(expr) else { return };
    if name == "unnest" {
        // The argument is a list whose function returns rows already.
        if let [inner] = arguments.as_slice()
            && called(inner).is_some_and(|(name, lists)| {
                name == "unnest"
                    && lists.first().and_then(called).is_some_and(|(name, _)| list_of(&name).is_some())
            })
        {
            *expr = inner.clone();
        }
        return;
    }
    let Some(list) = list_of(&name) else { return };
    *expr = call("unnest", vec![call(list, arguments)]);
}

fn list_of(name: &str) -> Option<&'static str> {
    FUNCTIONS.iter().find(|(rows, _)| *rows == name).map(|(_, list)| *list)
}
