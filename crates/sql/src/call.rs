//! Calls of functions as a statement writes them.

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
};

/// Returns a call as it is written.
pub fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let args = arguments.into_iter().map(|of| FunctionArg::Unnamed(FunctionArgExpr::Expr(of))).collect();
    let args = FunctionArgumentList { duplicate_treatment: None, args, clauses: vec![] };
    Expr::Function(Function {
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
