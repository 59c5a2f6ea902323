//! Calls whose arguments are more than values: names of fields, paths into JSON, aggregates of
//! lists. The parser's tree is rewritten to forms that DataFusion knows.

use crate::call::call;
use crate::parse::{Extension, parse_expression, parse_query};
use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident,
    ObjectName, ObjectNamePart, OrderByExpr, Value,
};

/// Aggregates of the elements of a list that are called `list_` and their names.
const OF_LISTS: [&str; 21] = [
    "any_value",
    "approx_count_distinct",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "count",
    "first",
    "histogram",
    "kurtosis",
    "last",
    "median",
    "mode",
    "skewness",
    "stddev_pop",
    "stddev_samp",
    "string_agg",
    "var_pop",
    "var_samp",
];

/// Aggregates that give a JSON array, of values in an order or some of them, too.
const JSON_ARRAYS: [&str; 3] = ["json_agg", "jsonb_agg", "json_group_array"];

/// Returns what a call is written as, if it is such a one.
pub fn rewritten(function: &Function) -> Option<Expr> {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
    if JSON_ARRAYS.iter().any(|known| name.value.eq_ignore_ascii_case(known)) {
        let name = ObjectName::from(vec![Ident::new("array_agg")]);
        return Some(call("to_json", vec![Expr::Function(Function { name, ..function.clone() })]));
    }
    let is_plain = function.filter.is_none() && function.over.is_none() && function.within_group.is_empty();
    let FunctionArguments::List(list) = &function.args else { return None };
    if !is_plain || !list.clauses.is_empty() || list.duplicate_treatment.is_some() {
        return None;
    }
    let name = name.value.to_ascii_lowercase();
    match name.as_str() {
        "struct_pack" => return structure(&list.args),
        "make_interval" => return interval(&list.args),
        _ => {}
    }
    let arguments: Vec<&Expr> = list.args.iter().map(plain).collect::<Option<_>>()?;
    match (name.as_str(), arguments.as_slice()) {
        ("json_extract" | "json_extract_json" | "jsonb_extract", [json, path]) => {
            located("json_get_json", json, text_of(path)?)
        }
        ("json_extract_string" | "json_extract_text", [json, path]) => {
            located("json_as_text", json, text_of(path)?)
        }
        ("json_extract_path" | "jsonb_extract_path", [_, _, ..]) => Some(along("json_get_json", &arguments)),
        ("json_extract_path_text" | "jsonb_extract_path_text", [_, _, ..]) => {
            Some(along("json_as_text", &arguments))
        }
        ("list_aggr" | "list_aggregate" | "array_aggr" | "array_aggregate", [list, what, more @ ..]) => {
            of_elements(text_of(what)?, list, more)
        }
        (name, [list, more @ ..]) => {
            let what = name.strip_prefix("list_").filter(|what| OF_LISTS.contains(what))?;
            of_elements(what, list, more)
        }
        _ => None,
    }
}

/// Leaves numbers out of the order within an aggregate, where they are values and order nothing;
/// DataFusion takes them for places of columns. Says whether there was one.
pub fn leave_out_places(function: &mut Function) -> bool {
    let FunctionArguments::List(list) = &mut function.args else { return false };
    let is_value = |key: &OrderByExpr| match &key.expr {
        Expr::Value(value) => matches!(value.value, Value::Number(..)),
        _ => false,
    };
    let mut changed = false;
    for clause in &mut list.clauses {
        if let FunctionArgumentClause::OrderBy(keys) = clause {
            let before = keys.len();
            keys.retain(|key| !is_value(key));
            changed |= keys.len() < before;
        }
    }
    list.clauses.retain(|clause| !matches!(clause, FunctionArgumentClause::OrderBy(keys) if keys.is_empty()));
    changed
}

/// Returns a JSON value and a path into it, as in `json ->> '$.a.b'`, for a path that begins as
/// one.
pub fn by_path(json: &Expr, path: &Expr) -> Option<Expr> {
    let path = text_of(path).filter(|path| path.starts_with("$.") || path.starts_with("$["))?;
    located("json_as_text", json, path)
}

fn plain(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn literal(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.into()).into())
}

/// The arguments of `make_interval`, in their order, with what they are of.
const INTERVAL_PARTS: [(&str, &str); 7] = [
    ("years", "12 months"),
    ("months", "1 month"),
    ("weeks", "7 days"),
    ("days", "1 day"),
    ("hours", "1 hour"),
    ("mins", "1 minute"),
    ("secs", "1 second"),
];

/// Returns `make_interval(1, days => 3)` as a sum.
fn interval(arguments: &[FunctionArg]) -> Option<Expr> {
    let mut sum = vec!["INTERVAL '0 seconds'".to_string()];
    for (place, argument) in arguments.iter().enumerate() {
        let (unit, value) = match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => (INTERVAL_PARTS.get(place)?.1, value),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. }
            | FunctionArg::ExprNamed {
                name: Expr::Identifier(name),
                arg: FunctionArgExpr::Expr(value),
                ..
            } => (INTERVAL_PARTS.iter().find(|(known, _)| name.value.eq_ignore_ascii_case(known))?.1, value),
            _ => return None,
        };
        sum.push(format!("CAST({value} AS DOUBLE) * INTERVAL '{unit}'"));
    }
    parse_expression(&format!("({})", sum.join(" + ")), &Extension::NONE).ok()
}

/// Returns `struct_pack(a := 1, b := 2)`.
fn structure(arguments: &[FunctionArg]) -> Option<Expr> {
    let mut parts = Vec::new();
    for argument in arguments {
        let FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } = argument else {
            return None;
        };
        parts.extend([literal(&name.value), value.clone()]);
    }
    Some(call("named_struct", parts))
}

/// Returns a path in one of DuckDB's forms: `$.a[0]."b c"`, `/a/0/b`, or one name.
fn located(function: &str, json: &Expr, path: &str) -> Option<Expr> {
    let steps = steps(path)?.into_iter().map(|step| match step.parse::<u32>() {
        Ok(place) => Expr::Value(Value::Number(place.to_string(), false).into()),
        Err(_) => literal(&step),
    });
    Some(call(function, std::iter::once(json.clone()).chain(steps).collect()))
}

fn along(function: &str, arguments: &[&Expr]) -> Expr {
    call(function, arguments.iter().map(|argument| (*argument).clone()).collect())
}

fn steps(path: &str) -> Option<Vec<String>> {
    if let Some(pointer) = path.strip_prefix('/') {
        return Some(pointer.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect());
    }
    let Some(mut rest) = path.strip_prefix('$') else { return Some(vec![path.to_string()]) };
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix('[') {
            let (place, behind) = behind.split_once(']')?;
            steps.push(place.parse::<u32>().ok()?.to_string());
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix(".\"") {
            let (name, behind) = behind.split_once('"')?;
            steps.push(name.to_string());
            rest = behind;
        } else {
            let behind = rest.strip_prefix('.')?;
            let end = behind.find(['.', '[']).unwrap_or(behind.len());
            let (name, behind) = behind.split_at(end);
            // Wildcards give lists.
            if name.is_empty() || name.contains('*') {
                return None;
            }
            steps.push(name.to_string());
            rest = behind;
        }
    }
    Some(steps)
}

/// Returns an aggregate of a list's elements, by its name.
fn of_elements(what: &str, list: &Expr, more: &[&Expr]) -> Option<Expr> {
    if !what.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return None;
    }
    let more: String = more.iter().map(|argument| format!(", {argument}")).collect();
    let query = format!("SELECT {what}(__element{more}) FROM unnest({list}) AS __elements (__element)");
    Some(Expr::Subquery(Box::new(parse_query(&query, &Extension::NONE).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::steps;

    #[test]
    fn paths_have_steps() {
        for (path, expected) in [
            ("$.a.b", Some(vec!["a", "b"])),
            ("$.a[0].\"b c\"", Some(vec!["a", "0", "b c"])),
            ("$", Some(vec![])),
            ("/a/0/b~1c", Some(vec!["a", "0", "b/c"])),
            ("a", Some(vec!["a"])),
            ("$.a[*]", None),
            ("$.*", None),
            ("$a", None),
        ] {
            let found = steps(path);
            let found: Option<Vec<&str>> = found.as_ref().map(|of| of.iter().map(String::as_str).collect());
            assert_eq!(found, expected, "{path}");
        }
    }
}
