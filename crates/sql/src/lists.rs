//! Lists and series in FROM, also those of the tables beside them (ISO/IEC 9075-2, 7.6, collection
//! derived table).

use crate::call::call;
use crate::identifier::fold;
use crate::walk::{expressions, expressions_mut};
use crate::{build, catalog_functions};
use hypostyle_types::{Error, ErrorKind, Result};
use sqlparser::ast::{
    AccessExpr, CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, Ident, Subscript, TableAlias,
    TableAliasColumnDef, TableFactor, TableFunctionArgs, TimezoneInfo, Value,
};
use std::ops::ControlFlow;

/// Functions that give rows in FROM: the lists of these, and their columns, which may have no names.
const OF_JSON: [(&str, &[&str], &[&str]); 10] = [
    ("json_array_elements", &["json_elements"], &["value"]),
    ("jsonb_array_elements", &["json_elements"], &["value"]),
    ("json_array_elements_text", &["json_elements_text"], &["value"]),
    ("jsonb_array_elements_text", &["json_elements_text"], &["value"]),
    ("json_object_keys", &["json_keys_of_object"], &[]),
    ("jsonb_object_keys", &["json_keys_of_object"], &[]),
    ("json_each", &["json_names", "json_values"], &["key", "value"]),
    ("jsonb_each", &["json_names", "json_values"], &["key", "value"]),
    ("json_each_text", &["json_names", "json_values_text"], &["key", "value"]),
    ("jsonb_each_text", &["json_names", "json_values_text"], &["key", "value"]),
];

/// Functions that give rows of one column in FROM, which has their name, and the lists of these.
const OF_PATHS: [(&str, &str); 2] =
    [("jsonb_path_query", "jsonb_path_list"), ("jsonb_path_query_tz", "jsonb_path_list")];

/// Functions that give rows whose columns are named in FROM, and those that give a column's list.
const OF_RECORDS: [(&str, &str); 4] = [
    ("json_to_record", "json_record_column"),
    ("jsonb_to_record", "json_record_column"),
    ("json_to_recordset", "json_recordset_column"),
    ("jsonb_to_recordset", "json_recordset_column"),
];

/// Functions that give one value, in FROM: PostgreSQL's programs take lists from there, to count
/// through them.
const OF_ONE_VALUE: [&str; 4] = ["string_to_array", "regexp_split_to_array", "current_setting", "version"];

/// Writes the ends of a slice that are left out, `l[2:]`; says whether there was one.
pub fn close(access: &mut AccessExpr) -> bool {
    let AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride: None }) = access else {
        return false;
    };
    let is_open = lower_bound.is_none() || upper_bound.is_none();
    let number = |number: &str| Expr::value(Value::Number(number.into(), false));
    lower_bound.get_or_insert_with(|| number("1"));
    upper_bound.get_or_insert_with(|| number("-1"));
    is_open
}

/// Writes `LATERAL unnest(…)` as UNNEST, a series whose bounds are columns, or that is WITH
/// ORDINALITY, as UNNEST of a list, and that clause as another list; gives the columns of UNNEST
/// the names that PostgreSQL gives them.
///
/// # Errors
/// `Unsupported` for WITH ORDINALITY of anything else than lists or a series.
pub fn rewrite(factor: &mut TableFactor) -> Result<()> {
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
            if let Some((_, lists, columns)) = OF_JSON.iter().find(|(known, ..)| *known == function)
                && arguments.len() == 1
            {
                let arguments = (&*function, arguments);
                *factor = of_json(lists, columns, arguments, alias.take(), *with_ordinality);
                return rewrite(factor);
            }
            if let Some(query) = catalog_functions::query(&function, &arguments).filter(|_| !*with_ordinality)
            {
                let name = Ident::new(function.trim_start_matches("pg_catalog."));
                let alias = alias.take().unwrap_or_else(|| build::called(name, Vec::new()));
                *factor = TableFactor::Derived {
                    lateral: false,
                    subquery: Box::new(query),
                    alias: Some(alias),
                    sample: None,
                };
                return Ok(());
            }
            if let Some((_, list)) = OF_PATHS.iter().find(|(known, _)| *known == function) {
                *factor = of_json(&[*list], &[], (&*function, arguments), alias.take(), *with_ordinality);
                return rewrite(factor);
            }
            if let Some((_, column)) = OF_RECORDS.iter().find(|(known, _)| *known == function)
                && let [json] = arguments.as_slice()
                && !*with_ordinality
            {
                *factor = of_records(column, json, alias.take())?;
                return rewrite(factor);
            }
            let is_series = matches!(function.as_str(), "generate_series" | "range");
            if let Some(TableAlias { name, columns, .. }) = alias
                && is_series
                && columns.is_empty()
            {
                columns.push(column(name));
            }
            let lists = match function.as_str() {
                "unnest" => arguments,
                _ if is_series
                    && (*with_ordinality || is_computed(&arguments) || is_of_times(&arguments)) =>
                {
                    let of_times = is_of_times(&arguments);
                    let bounds = arguments.into_iter().map(|bound| as_moment(bound, of_times));
                    vec![call(&function, bounds.collect())]
                }
                // The result is one row, as for any function that returns one value.
                _ if OF_ONE_VALUE.contains(&function.as_str()) && !*with_ordinality => {
                    vec![call("make_array", vec![call(&function, arguments)])]
                }
                // psql uses this form to ask for a table's triggers.
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
    // DataFusion does not see the tables beside it within ARRAY[…].
    let _done = expressions_mut(&mut lists, &mut |expr| {
        if let Expr::Array(array) = expr {
            *expr = call("make_array", std::mem::take(&mut array.elem));
        }
        ControlFlow::<()>::Continue(())
    });
    if alias.is_none() && !matches!(lists.as_slice(), [Expr::Dictionary(_) | Expr::Struct { .. }]) {
        let name = Ident::new("unnest");
        alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
    }
    if let Some(TableAlias { name, columns, .. }) = &mut alias {
        if columns.is_empty() && lists.len() == 1 {
            columns.push(column(name));
        } else if columns.is_empty() && numbered {
            let names = (0..lists.len()).map(|place| match place {
                0 => "unnest".to_string(),
                place => format!("unnest_{place}"),
            });
            columns.extend(names.map(|name| column(&Ident::new(name))));
        }
        if numbered && columns.len() == lists.len() {
            columns.push(column(&Ident::new("ordinality")));
        }
    }
    if numbered {
        let mut lengths: Vec<Expr> =
            lists.iter().map(|list| call("array_length", vec![list.clone()])).collect();
        let length = match lengths.pop() {
            Some(only) if lengths.is_empty() => only,
            last => call("greatest", lengths.into_iter().chain(last).collect()),
        };
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

/// Returns a function of JSON whose columns are named with their types, as in `AS r (a INTEGER, b TEXT)`, as
/// lists that are unnested.
///
/// # Errors
/// `Syntax` where there are no columns, or one has no type.
fn of_records(function: &str, json: &Expr, alias: Option<TableAlias>) -> Result<TableFactor> {
    let untyped = || {
        let message = "rows of JSON have columns with types, as in AS r (a INTEGER, b TEXT)";
        Error::new(ErrorKind::Syntax, message)
    };
    let mut alias = alias.filter(|alias| !alias.columns.is_empty()).ok_or_else(untyped)?;
    let mut lists = Vec::with_capacity(alias.columns.len());
    for column in &mut alias.columns {
        let of = column.data_type.take().ok_or_else(untyped)?;
        let names = [build::text(&fold(&column.name)), build::text(&of.to_string())];
        lists.push(call(function, std::iter::once(json.clone()).chain(names).collect()));
    }
    Ok(TableFactor::UNNEST {
        alias: Some(alias),
        array_exprs: lists,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    })
}

/// Returns a function of JSON that gives rows as lists that are unnested. Its columns have their names
/// where none are given; a function of one column is also called by the name of its result, and a column
/// without a name as its function is called.
fn of_json(
    lists: &[&str],
    columns: &[&str],
    (function, arguments): (&str, Vec<Expr>),
    alias: Option<TableAlias>,
    with_ordinality: bool,
) -> TableFactor {
    let column = |name: Ident| TableAliasColumnDef { name, data_type: None };
    let name = Ident::new(*columns.last().unwrap_or(&function));
    let mut alias = alias.unwrap_or(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
    if alias.columns.is_empty() {
        alias.columns = match columns {
            [] => vec![column(alias.name.clone())],
            named => named.iter().map(|name| column(Ident::new(*name))).collect(),
        };
        if with_ordinality {
            alias.columns.push(column(Ident::new("ordinality")));
        }
    }
    TableFactor::UNNEST {
        alias: Some(alias),
        array_exprs: lists.iter().map(|list| call(list, arguments.clone())).collect(),
        with_offset: false,
        with_offset_alias: None,
        with_ordinality,
    }
}

/// Says whether values are to be computed that a table function would want to know at once.
fn is_computed(arguments: &Vec<Expr>) -> bool {
    let found = expressions(arguments, &mut |expr| match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Function(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Casts a series of days to points in time, which is what the table function returns, and NULL in a series
/// that is `of_times`.
fn as_moment(bound: Expr, of_times: bool) -> Expr {
    let is_day = match &bound {
        Expr::Cast { data_type, .. } => *data_type == DataType::Date,
        Expr::TypedString(string) => string.data_type == DataType::Date,
        Expr::Value(value) => of_times && value.value == Value::Null,
        _ => false,
    };
    match is_day {
        true => Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(bound),
            data_type: DataType::Timestamp(None, TimezoneInfo::None),
            array: false,
            format: None,
        },
        false => bound,
    }
}

/// Says whether a series goes by an interval: its days and months are those of the session's
/// clocks, which a table function does not know.
fn is_of_times(arguments: &[Expr]) -> bool {
    match arguments.get(2) {
        Some(Expr::Interval(_)) => true,
        Some(Expr::Cast { data_type, .. }) => matches!(data_type, DataType::Interval { .. }),
        _ => false,
    }
}
