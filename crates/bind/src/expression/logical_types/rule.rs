//! What expressions give, by what their operands are.

use super::found::Found;
use arrow::datatypes::{DataType, Field};
use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::{Case, Cast, HigherOrderFunction, Lambda, ScalarFunction, TryCast};
use datafusion::logical_expr::{Expr, ExprSchemable};
use hypostyle_expr::builtin::chooses_elements;
use hypostyle_expr::common_type::CHOOSING;
use hypostyle_expr::nested_type::{element, is_list};
use hypostyle_types::LogicalType;

/// Says whether a function gives any of its arguments: `nullif` gives its first one, if any.
fn gives_any(name: &str) -> bool {
    name != "nullif" && CHOOSING.contains(&name)
}

/// Aggregates and window functions that give a value of their first argument.
const OF_FIRST: [&str; 12] = [
    "any_value",
    "first_value",
    "last_value",
    "max",
    "min",
    "mode",
    "mode_first",
    "mode_last",
    "nth_value",
    "quantile_disc",
    "quantile_disc_desc",
    "random_value",
];

/// Functions that give an element of a list.
const OF_ELEMENT: [&str; 8] = [
    "array_any_value",
    "array_element",
    "array_first",
    "array_max",
    "array_min",
    "list_any_value",
    "list_first",
    "list_last",
];

/// Functions that give a list of elements of their first argument, which is a list, too, and that compare
/// none of them.
const OF_SAME_LIST: [&str; 13] = [
    "array_compact",
    "array_filter",
    "array_pop_back",
    "array_pop_front",
    "array_resize",
    "array_reverse",
    "array_sample",
    "array_shuffle",
    "array_slice",
    "array_sort",
    "list_select",
    "list_where",
    "most_frequent",
];

/// Says whether a function gives a list of elements of its first argument.
fn is_of_same_list(name: &str) -> bool {
    OF_SAME_LIST.contains(&name) || chooses_elements(name)
}

/// Functions that write values by what they are, or tell it.
const BY_TYPE: [&str; 14] = [
    "json_build_array",
    "json_build_object",
    "json_object",
    "json_of_list",
    "json_of_pairs",
    "jsonb_build_array",
    "jsonb_build_object",
    "jsonb_object",
    "jsonb_of_list",
    "jsonb_of_pairs",
    "pg_typeof",
    "to_json",
    "to_jsonb",
    "typeof",
];

/// Says whether a function writes values by what they are, or tells it.
pub(super) fn is_by_type(call: &ScalarFunction) -> bool {
    BY_TYPE.contains(&call.func.name())
}

/// What an expression is, as its field says.
pub(super) fn own(expr: &Expr, schema: &DFSchema) -> Found {
    match expr {
        Expr::Literal(value, None) if value.is_null() => Found::Null,
        Expr::Literal(_, None) => Found::Plain,
        Expr::Literal(value, Some(metadata)) => {
            Found::of_field(&Field::new("", value.data_type(), true).with_metadata(metadata.to_hashmap()))
        }
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
            match Found::of_field(field) {
                Found::Plain if matches!(expr.as_ref(), Expr::Literal(value, _) if value.is_null()) => {
                    Found::Null
                }
                // DataFusion casts lists and structures of NULLs to the type of what stands beside them.
                Found::Plain
                    if expr
                        .get_type(schema)
                        .is_ok_and(|of| of.is_nested() && is_alike(&of, field.data_type())) =>
                {
                    own(expr, schema).of_nulls()
                }
                found => found,
            }
        }
        // Its type is that of some element, where it has none that is not NULL.
        Expr::ScalarFunction(call) if is_of_nulls(call, schema) => Found::Null,
        // DataFusion finds the type of what has a name twice.
        Expr::Alias(alias) if alias.metadata.is_none() => own(&alias.expr, schema),
        Expr::Placeholder(placeholder) if placeholder.field.is_none() => Found::Null,
        other => other.to_field(schema).map_or(Found::Plain, |(_, field)| Found::of_field(&field)),
    }
}

/// Says whether an expression makes a list without an element that is not NULL.
fn is_of_nulls(call: &ScalarFunction, schema: &DFSchema) -> bool {
    call.func.name() == "make_array" && call.args.iter().all(|arg| own(arg, schema) == Found::Null)
}

/// Says whether a type has lists and structures where another one has them.
fn is_alike(one: &DataType, other: &DataType) -> bool {
    if let (Some(one), Some(other)) = (element(one), element(other)) {
        return is_alike(one.data_type(), other.data_type());
    }
    match (one, other) {
        (DataType::Struct(one), DataType::Struct(other)) => {
            let mut pairs = one.iter().zip(other);
            one.len() == other.len() && pairs.all(|(one, other)| is_alike(one.data_type(), other.data_type()))
        }
        (one, _) => !one.is_nested(),
    }
}

/// Says whether an expression is a text or a parameter as it is written, which is of the type of what stands
/// beside it.
pub(super) fn is_open(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, None) => !value.is_null() && value.data_type().is_string(),
        Expr::Placeholder(placeholder) => placeholder.field.is_none(),
        Expr::Alias(alias) => is_open(&alias.expr),
        _ => false,
    }
}

/// Returns the values that one is chosen from, or that become elements of one list.
pub(super) fn alike(expr: &mut Expr) -> Vec<&mut Expr> {
    match expr {
        Expr::Case(Case { when_then_expr, else_expr, .. }) => {
            let results = when_then_expr.iter_mut().map(|(_, result)| result);
            results.chain(else_expr).map(|result| result.as_mut()).collect()
        }
        Expr::ScalarFunction(ScalarFunction { func, args })
            if gives_any(func.name()) || func.name() == "make_array" =>
        {
            args.iter_mut().collect()
        }
        _ => Vec::new(),
    }
}

/// What an expression gives by what its operands are; `None` where its own field says all.
pub(super) fn given(expr: &Expr, schema: &DFSchema) -> Option<Found> {
    match expr {
        Expr::Case(Case { when_then_expr, else_expr, .. }) => {
            let results = when_then_expr.iter().map(|(_, result)| result).chain(else_expr);
            Some(Found::of_all(results.map(|result| own(result, schema))))
        }
        Expr::ScalarFunction(call) => by_function(call, schema),
        Expr::HigherOrderFunction(call) => by_lambda(call, schema),
        Expr::AggregateFunction(call) => by_rows(call.func.name(), &call.params.args, schema),
        Expr::WindowFunction(call) => by_rows(call.fun.name(), &call.params.args, schema),
        Expr::Alias(alias) => given(&alias.expr, schema),
        Expr::ScalarSubquery(subquery) => {
            subquery.subquery.schema().fields().first().map(|field| Found::of_field(field))
        }
        _ => None,
    }
}

/// What an aggregate or a window function gives.
fn by_rows(name: &str, args: &[Expr], schema: &DFSchema) -> Option<Found> {
    let first = || args.first().map_or(Found::Plain, |expr| own(expr, schema));
    Some(match name {
        "array_agg" => first().listed(),
        "histogram" => Found::mapped(first(), Found::Plain),
        "lag" | "lead" => first().or(args.get(2).map_or(Found::Null, |expr| own(expr, schema))),
        "quantile_disc" | "quantile_disc_desc" if gives_list(args.get(1), schema) => first().listed(),
        name if OF_FIRST.contains(&name) => first(),
        _ => return None,
    })
}

fn gives_list(expr: Option<&Expr>, schema: &DFSchema) -> bool {
    expr.and_then(|expr| expr.get_type(schema).ok()).is_some_and(|of| is_list(&of))
}

/// What a function of values gives.
fn by_function(call: &ScalarFunction, schema: &DFSchema) -> Option<Found> {
    let mut args = call.args.iter().map(|arg| own(arg, schema));
    let mut next = || args.next().unwrap_or(Found::Plain);
    Some(match call.func.name() {
        name if gives_any(name) => Found::of_all(args),
        name if is_of_same_list(name) => next(),
        name if OF_ELEMENT.contains(&name) => next().element(),
        "array_append" => next().or(next().listed()),
        "array_prepend" => next().listed().or(next()),
        "array_concat" | "array_union" => Found::of_all(args),
        "array_repeat" => next().listed(),
        "arrays_zip" => Found::of_fields(args.map(Found::element).collect()).listed(),
        "flatten" => next().element(),
        "get_field" => match call.args.as_slice() {
            [of, steps @ ..] => steps_into(next(), of.get_type(schema).ok()?, steps),
            _ => Found::Plain,
        },
        "make_array" => Found::of_all(args).listed(),
        "map" => Found::mapped(next().element(), next().element()),
        "map_concat" => Found::of_all(args),
        "map_entries" => {
            let (key, value) = next().entry();
            Found::of_fields(vec![key, value]).listed()
        }
        "map_extract" | "map_values" => next().entry().1.listed(),
        "map_keys" => next().entry().0.listed(),
        "map_from_entries" => {
            let entry = next().element();
            Found::mapped(entry.clone().field(0), entry.field(1))
        }
        "nullif" => next(),
        "nvl2" => Found::of_all(args.skip(1)),
        "named_struct" => Found::of_fields(args.skip(1).step_by(2).collect()),
        "row" | "struct" => Found::of_fields(args.collect()),
        "uuid" | "uuidv7" => Found::of_type(&LogicalType::Uuid),
        _ => return None,
    })
}

/// What steps into structures and maps lead to.
fn steps_into(found: Found, of: DataType, steps: &[Expr]) -> Found {
    let [key, steps @ ..] = steps else { return found };
    match of {
        DataType::Struct(fields) => {
            let Expr::Literal(key, _) = key else { return Found::Plain };
            let name = key.try_as_str().flatten();
            let place = name.and_then(|name| fields.iter().position(|field| field.name() == name));
            place.map_or(Found::Plain, |place| {
                steps_into(found.field(place), fields[place].data_type().clone(), steps)
            })
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 => {
                steps_into(found.entry().1, pair[1].data_type().clone(), steps)
            }
            _ => Found::Plain,
        },
        _ => Found::Plain,
    }
}

/// What a function of a list and of a function of its elements gives.
fn by_lambda(call: &HigherOrderFunction, schema: &DFSchema) -> Option<Found> {
    let body = call.args.iter().find_map(|arg| match arg {
        Expr::Lambda(Lambda { body, .. }) => Some(own(body, schema)),
        _ => None,
    });
    let first = || call.args.first().map_or(Found::Plain, |expr| own(expr, schema));
    Some(match call.func.name() {
        "array_transform" => body?.listed(),
        "list_reduce" => body?,
        name if is_of_same_list(name) => first(),
        name if OF_ELEMENT.contains(&name) => first().element(),
        _ => return None,
    })
}
