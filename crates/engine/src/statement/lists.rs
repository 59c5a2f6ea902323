//! Lists and series in FROM, also those of the tables beside them (ISO/IEC 9075-2, 7.6, collection derived table).

use crate::operand::call;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, TableAlias, TableAliasColumnDef, TableFactor,
    TableFunctionArgs, Value, visit_expressions, visit_expressions_mut,
};
use hypostyle_types::{Error, Result};
use std::ops::ControlFlow;

/// Writes `LATERAL unnest(…)` as UNNEST, a series whose bounds are columns, or that is WITH ORDINALITY, as UNNEST of a list, and
/// that clause as another list; gives the columns of UNNEST the names that PostgreSQL gives them.
///
/// # Errors
/// `Unsupported` for WITH ORDINALITY of anything else than one list or series.
pub(super) fn rewrite(factor: &mut TableFactor) -> Result<()> {
    let plain = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    let column = |name: &Ident| TableAliasColumnDef { name: name.clone(), data_type: None };
    let (mut alias, mut lists, numbered) = match factor {
        TableFactor::UNNEST { alias, array_exprs, with_ordinality, with_offset: false, .. } => {
            (alias.take(), std::mem::take(array_exprs), *with_ordinality)
        }
        TableFactor::Function { name, args, alias, with_ordinality, .. }
        | TableFactor::Table {
            name,
            args: Some(TableFunctionArgs { args, .. }),
            alias,
            with_ordinality,
            ..
        } => {
            let arguments: Option<Vec<Expr>> = args.iter().map(plain).collect();
            let (Some(arguments), function) = (arguments, name.to_string().to_lowercase()) else {
                return Ok(());
            };
            let is_series = matches!(function.as_str(), "generate_series" | "range");
            if let Some(TableAlias { name, columns, .. }) = alias
                && is_series
                && columns.is_empty()
            {
                columns.push(column(name));
            }
            let lists = match function.as_str() {
                "unnest" => arguments,
                _ if is_series && (*with_ordinality || has_column(&arguments)) => {
                    vec![call(&function, arguments)]
                }
                // One row, as of any function that gives one value; psql asks so for a table's triggers.
                "pg_partition_ancestors" | "pg_catalog.pg_partition_ancestors" if *with_ordinality => {
                    vec![call("make_array", vec![call("pg_partition_ancestors", arguments)])]
                }
                _ if *with_ordinality => {
                    let message = format!("{function}(…) WITH ORDINALITY is not supported");
                    return Err(Error::unsupported(message));
                }
                _ => return Ok(()),
            };
            (alias.take(), lists, *with_ordinality)
        }
        _ => return Ok(()),
    };
    // DataFusion loses sight of the tables beside it within ARRAY[…].
    let _done = visit_expressions_mut(&mut lists, |expr| {
        if let Expr::Array(array) = expr {
            *expr = call("make_array", std::mem::take(&mut array.elem));
        }
        ControlFlow::<()>::Continue(())
    });
    if alias.is_none() && !matches!(lists.as_slice(), [Expr::Dictionary(_) | Expr::Struct { .. }]) {
        let name = Ident::new("unnest");
        alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
    }
    if let (Some(TableAlias { name, columns, .. }), [_]) = (&mut alias, lists.as_slice()) {
        if columns.is_empty() {
            columns.push(column(name));
        }
        if numbered && columns.len() == 1 {
            columns.push(column(&Ident::new("ordinality")));
        }
    }
    if numbered {
        let [list] = lists.as_slice() else {
            return Err(Error::unsupported("UNNEST of several lists WITH ORDINALITY is not supported"));
        };
        let length = call("array_length", vec![list.clone()]);
        let one = Expr::value(Value::Number("1".into(), false));
        lists.push(call("generate_series", vec![one, length]));
    }
    *factor = TableFactor::UNNEST {
        alias,
        array_exprs: lists,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    };
    Ok(())
}

fn has_column(arguments: &Vec<Expr>) -> bool {
    let found = visit_expressions(arguments, |expr| match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}
