//! Functions of PostgreSQL and DuckDB that are short for others: the parser's tree gets the longer
//! form in place of the call.

use crate::call::call;
use crate::reading::parse_as_written;
use crate::walk::expressions_mut;
use crate::{build, literal};
use sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, ObjectNamePart, TimezoneInfo, Value,
};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::LazyLock;

/// A list in an order, in which NULL is the greatest.
const SORTED: &str =
    "array_sort($1, $2, CASE upper($2) WHEN 'DESC' THEN 'NULLS FIRST' ELSE 'NULLS LAST' END)";

/// The values of the rows that come first in an order, from its greatest key on, and from its least one.
const FIRST_DOWN: &str = "array_slice(array_agg($1 ORDER BY $2 DESC) FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL), \
     1, number_of_values($3))";
const FIRST_UP: &str = "array_slice(array_agg($1 ORDER BY $2) FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL), \
     1, number_of_values($3))";

/// The value beside the greatest key, and beside the least one, of a group.
const LAST_BY_KEY: &str = "last_value($1 ORDER BY $2) FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL)";
const FIRST_BY_KEY: &str = "first_value($1 ORDER BY $2) FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL)";

/// The same over windows, which take no aggregate with an order of its own: the greatest of what has the
/// key first.
const GREATEST_BY_KEY: &str = "get_field(max(named_struct('key', $2, 'value', $1)) \
     FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL), 'value')";
const LEAST_BY_KEY: &str = "get_field(min(named_struct('key', $2, 'value', $1)) \
     FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL), 'value')";

/// The average of values that have weights.
const WEIGHTED: &str = "sum(CAST($1 AS DOUBLE) * CAST($2 AS DOUBLE)) \
     / sum(CASE WHEN $1 IS NOT NULL THEN CAST($2 AS DOUBLE) END)";

/// Names, numbers of arguments, and what they stand for; `$1` is the first argument. What is in
/// WITHIN GROUP is the last.
pub const MACROS: &[(&str, usize, &str)] = &[
    ("mod", 2, "$1 % $2"),
    ("xor", 2, "$1 # $2"),
    ("random", 2, "random_between($1, $2)"),
    ("constant_or_null", 2, "CASE WHEN $2 IS NOT NULL THEN $1 END"),
    ("if", 3, "CASE WHEN $1 THEN $2 ELSE $3 END"),
    ("iff", 3, "CASE WHEN $1 THEN $2 ELSE $3 END"),
    ("assert_true", 1, "CASE WHEN $1 THEN CAST(NULL AS BOOLEAN) ELSE error('Assertion failed') END"),
    ("assert_true", 2, "CASE WHEN $1 THEN CAST(NULL AS BOOLEAN) ELSE error($2) END"),
    ("ceiling", 1, "ceil($1)"),
    ("even", 1, "ceil(abs($1) / 2.0) * 2 * sign($1)"),
    ("roundbankers", 2, "round_even($1, $2)"),
    ("fdiv", 2, "floor(CAST($1 AS DOUBLE) / CAST($2 AS DOUBLE))"),
    ("fmod", 2, "CAST($1 AS DOUBLE) - CAST($2 AS DOUBLE) * floor(CAST($1 AS DOUBLE) / CAST($2 AS DOUBLE))"),
    ("greatest_common_divisor", 2, "gcd($1, $2)"),
    ("least_common_multiple", 2, "lcm($1, $2)"),
    ("width_bucket", 2, "place_among($1, $2)"),
    // Names of types, called as functions.
    ("bool", 1, "CAST($1 AS BOOLEAN)"),
    ("date", 1, "CAST($1 AS DATE)"),
    ("float4", 1, "CAST($1 AS REAL)"),
    ("float8", 1, "CAST($1 AS DOUBLE)"),
    ("int2", 1, "CAST($1 AS SMALLINT)"),
    ("int4", 1, "CAST($1 AS INTEGER)"),
    ("int8", 1, "CAST($1 AS BIGINT)"),
    ("text", 1, "CAST($1 AS TEXT)"),
    // Parts of dates.
    ("year", 1, "date_part('year', $1)"),
    ("quarter", 1, "date_part('quarter', $1)"),
    ("month", 1, "date_part('month', $1)"),
    ("week", 1, "date_part('week', $1)"),
    ("weekofyear", 1, "date_part('week', $1)"),
    ("day", 1, "date_part('day', $1)"),
    ("dayofmonth", 1, "date_part('day', $1)"),
    ("dayofyear", 1, "date_part('doy', $1)"),
    ("dayofweek", 1, "date_part('dow', $1)"),
    ("weekday", 1, "date_part('dow', $1)"),
    ("isodow", 1, "date_part('isodow', $1)"),
    ("isoyear", 1, "date_part('isoyear', $1)"),
    ("hour", 1, "date_part('hour', $1)"),
    ("minute", 1, "date_part('minute', $1)"),
    ("second", 1, "date_part('second', $1)"),
    ("millisecond", 1, "date_part('millisecond', $1)"),
    ("microsecond", 1, "date_part('microsecond', $1)"),
    ("timezone_hour", 1, "date_part('timezone_hour', $1)"),
    ("timezone_minute", 1, "date_part('timezone_minute', $1)"),
    // The year before the first is 0 there.
    ("yearweek", 1, "year_and_week(counted_year(date_part('isoyear', $1)), date_part('week', $1))"),
    ("epoch", 1, "date_part('epoch', $1)"),
    ("dayname", 1, "to_char($1, '%A')"),
    ("monthname", 1, "to_char($1, '%B')"),
    ("last_day", 1, "CAST(date_trunc('month', $1) + INTERVAL '1 month' - INTERVAL '1 day' AS DATE)"),
    ("days_in_month", 1, "date_part('day', date_trunc('month', $1) + INTERVAL '1 month' - INTERVAL '1 day')"),
    ("era", 1, "CASE date_part('year', $1) > 0 WHEN true THEN 1 WHEN false THEN 0 END"),
    ("nanosecond", 1, "date_part('nanosecond', $1)"),
    ("make_date", 1, "DATE '1970-01-01' + CAST($1 AS INTEGER)"),
    ("make_timestamp_ms", 1, "epoch_ms(CAST($1 AS BIGINT))"),
    ("pg_sleep_for", 1, "pg_sleep(date_part('epoch', CAST($1 AS INTERVAL)))"),
    (
        "pg_sleep_until",
        1,
        "pg_sleep(greatest(CAST(0 AS DOUBLE), date_part('epoch', CAST($1 AS TIMESTAMPTZ) - clock_timestamp())))",
    ),
    ("sleep_ms", 1, "pg_sleep(CAST($1 AS DOUBLE) / 1000)"),
    ("make_timestamp", 6, "CAST(make_date($1, $2, $3) AS TIMESTAMP) + time_within_day($4, $5, $6)"),
    (
        "make_timestamptz",
        6,
        "CAST(CAST(make_date($1, $2, $3) AS TIMESTAMP) + time_within_day($4, $5, $6) AS TIMESTAMPTZ)",
    ),
    (
        "make_timestamptz",
        7,
        "timezone($7, CAST(make_date($1, $2, $3) AS TIMESTAMP) + time_within_day($4, $5, $6))",
    ),
    ("make_timestamptz", 1, "timezone('UTC', make_timestamp($1))"),
    // Intervals of so many of a unit.
    ("to_millennia", 1, "INTERVAL '12000 months' * $1"),
    ("to_centuries", 1, "INTERVAL '1200 months' * $1"),
    ("to_decades", 1, "INTERVAL '120 months' * $1"),
    ("to_years", 1, "INTERVAL '12 months' * $1"),
    ("to_quarters", 1, "INTERVAL '3 months' * $1"),
    ("to_months", 1, "INTERVAL '1 month' * $1"),
    ("to_weeks", 1, "INTERVAL '7 days' * $1"),
    ("to_days", 1, "INTERVAL '1 day' * $1"),
    ("to_hours", 1, "INTERVAL '1 hour' * $1"),
    ("to_minutes", 1, "INTERVAL '1 minute' * $1"),
    ("to_seconds", 1, "INTERVAL '1 second' * $1"),
    ("to_milliseconds", 1, "INTERVAL '1 millisecond' * $1"),
    ("to_microseconds", 1, "INTERVAL '1 microsecond' * $1"),
    ("date_trunc", 3, "timezone($3, date_trunc($1, timezone($3, CAST($2 AS TIMESTAMPTZ))))"),
    ("to_timestamp", 2, "CAST(time_by_pattern($1, $2) AS TIMESTAMPTZ)"),
    ("to_timestamp", 3, "CAST(time_by_pattern($1, $2, $3) AS TIMESTAMPTZ)"),
    ("localtimestamp", 0, "CAST(now() AS TIMESTAMP)"),
    ("localtime", 0, "CAST(now() AS TIME)"),
    ("current_localtimestamp", 0, "CAST(now() AS TIMESTAMP)"),
    ("current_localtime", 0, "CAST(now() AS TIME)"),
    ("get_current_time", 0, "CAST(now() AS TIME)"),
    ("ago", 1, "now() - CAST($1 AS INTERVAL)"),
    ("date_add", 2, "$1 + $2"),
    ("date_subtract", 2, "$1 - $2"),
    ("date_add", 3, "timezone($3, timezone($3, CAST($1 AS TIMESTAMPTZ)) + CAST($2 AS INTERVAL))"),
    ("date_subtract", 3, "timezone($3, timezone($3, CAST($1 AS TIMESTAMPTZ)) - CAST($2 AS INTERVAL))"),
    ("timeofday", 0, "to_char(clock_timestamp(), 'Dy Mon DD HH24:MI:SS.US YYYY TZ')"),
    ("century", 1, "date_part('century', $1)"),
    ("decade", 1, "date_part('decade', $1)"),
    ("millennium", 1, "date_part('millennium', $1)"),
    ("julian", 1, "date_part('julian', $1)"),
    // Aggregates.
    ("count_star", 0, "count(*)"),
    ("product", 1, "array_product(array_agg(CAST($1 AS DOUBLE)))"),
    ("geomean", 1, "exp(avg(ln(CAST($1 AS DOUBLE))))"),
    ("geometric_mean", 1, "exp(avg(ln(CAST($1 AS DOUBLE))))"),
    ("fsum", 1, "sum(CAST($1 AS DOUBLE))"),
    ("kahan_sum", 1, "sum(CAST($1 AS DOUBLE))"),
    ("sumkahan", 1, "sum(CAST($1 AS DOUBLE))"),
    ("favg", 1, "avg(CAST($1 AS DOUBLE))"),
    ("count_if", 1, "count(*) FILTER (WHERE $1)"),
    ("countif", 1, "count(*) FILTER (WHERE $1)"),
    ("arg_max", 2, LAST_BY_KEY),
    ("argmax", 2, LAST_BY_KEY),
    ("max_by", 2, LAST_BY_KEY),
    ("arg_min", 2, FIRST_BY_KEY),
    ("argmin", 2, FIRST_BY_KEY),
    ("min_by", 2, FIRST_BY_KEY),
    ("arg_max_null", 2, "last_value($1 ORDER BY $2) FILTER (WHERE $2 IS NOT NULL)"),
    ("arg_min_null", 2, "first_value($1 ORDER BY $2) FILTER (WHERE $2 IS NOT NULL)"),
    ("first over", 1, "first_value($1)"),
    ("arbitrary over", 1, "first_value($1)"),
    ("rank_dense", 0, "dense_rank()"),
    ("last over", 1, "last_value($1)"),
    ("arg_max over", 2, GREATEST_BY_KEY),
    ("argmax over", 2, GREATEST_BY_KEY),
    ("max_by over", 2, GREATEST_BY_KEY),
    ("arg_min over", 2, LEAST_BY_KEY),
    ("argmin over", 2, LEAST_BY_KEY),
    ("min_by over", 2, LEAST_BY_KEY),
    (
        "arg_max_null over",
        2,
        "get_field(max(named_struct('key', $2, 'value', $1)) FILTER (WHERE $2 IS NOT NULL), 'value')",
    ),
    (
        "arg_min_null over",
        2,
        "get_field(min(named_struct('key', $2, 'value', $1)) FILTER (WHERE $2 IS NOT NULL), 'value')",
    ),
    // The first ones of an order, as a list.
    ("arg_max", 3, FIRST_DOWN),
    ("argmax", 3, FIRST_DOWN),
    ("max_by", 3, FIRST_DOWN),
    ("arg_min", 3, FIRST_UP),
    ("argmin", 3, FIRST_UP),
    ("min_by", 3, FIRST_UP),
    (
        "max",
        2,
        "array_slice(array_agg($1 ORDER BY $1 DESC) FILTER (WHERE $1 IS NOT NULL), 1, number_of_values($2))",
    ),
    (
        "min",
        2,
        "array_slice(array_agg($1 ORDER BY $1) FILTER (WHERE $1 IS NOT NULL), 1, number_of_values($2))",
    ),
    ("histogram", 2, "histogram_of_bins(array_agg($1), $2)"),
    ("histogram_exact", 2, "histogram_of_values(array_agg($1), $2)"),
    ("approx_top_k", 2, "most_frequent(array_agg($1), $2)"),
    ("sem", 1, "stddev_pop($1) / sqrt(CAST(count($1) AS DOUBLE))"),
    ("weighted_avg", 2, WEIGHTED),
    ("wavg", 2, WEIGHTED),
    ("percentile_disc", 2, "quantile_disc($2, $1)"),
    ("percentile_disc desc", 2, "quantile_disc_desc($2, $1)"),
    ("mode", 1, "mode($1)"),
    ("approx_count_distinct", 1, "approx_distinct($1)"),
    ("approx_quantile", 2, "approx_percentile_cont($1, $2)"),
    ("reservoir_quantile", 2, "quantile_disc($1, $2)"),
    ("reservoir_quantile", 3, "quantile_disc($1, $2)"),
    // Lists.
    ("array_push_front", 2, "array_prepend($2, $1)"),
    ("array_fill", 2, "array_repeat($1, only_dimension($2))"),
    ("array_sort", 1, "array_sort($1, 'ASC', 'NULLS LAST')"),
    ("array_sort", 2, SORTED),
    ("list_distinct", 1, "array_distinct(array_compact($1))"),
    ("list_min", 1, "array_min($1)"),
    ("list_max", 1, "array_max($1)"),
    ("list_sort", 1, "array_sort($1, 'ASC', 'NULLS LAST')"),
    ("list_sort", 2, SORTED),
    ("list_unique", 1, "array_length(array_distinct(array_compact($1)))"),
    ("array_unique", 1, "array_length(array_distinct(array_compact($1)))"),
    ("list_reverse_sort", 1, "array_sort($1, 'DESC', 'NULLS FIRST')"),
    ("array_reverse_sort", 1, "array_sort($1, 'DESC', 'NULLS FIRST')"),
    ("list_cosine_distance", 2, "cosine_distance($1, $2)"),
    ("array_cosine_distance", 2, "cosine_distance($1, $2)"),
    ("list_cosine_similarity", 2, "1 - cosine_distance($1, $2)"),
    ("array_cosine_similarity", 2, "1 - cosine_distance($1, $2)"),
    ("list_inner_product", 2, "inner_product($1, $2)"),
    ("list_dot_product", 2, "inner_product($1, $2)"),
    ("array_inner_product", 2, "inner_product($1, $2)"),
    ("array_dot_product", 2, "inner_product($1, $2)"),
    ("list_negative_inner_product", 2, "-inner_product($1, $2)"),
    ("array_negative_inner_product", 2, "-inner_product($1, $2)"),
    ("list_negative_dot_product", 2, "-inner_product($1, $2)"),
    ("array_negative_dot_product", 2, "-inner_product($1, $2)"),
    // Maps.
    ("map_contains", 2, "array_has(map_keys($1), $2)"),
    ("map_contains_value", 2, "array_has(map_values($1), $2)"),
    ("map_contains_entry", 3, "array_has(map_entries($1), named_struct('key', $2, 'value', $3))"),
    ("map_extract_value", 2, "array_element(map_extract($1, $2), 1)"),
    // Structures.
    ("struct_extract", 2, "get_field($1, $2)"),
    // Texts.
    (
        "regexp_extract",
        2,
        "CASE WHEN $1 IS NOT NULL AND $2 IS NOT NULL \
         THEN coalesce(array_element(regexp_match($1, concat('(', $2, ')')), 1), '') END",
    ),
    (
        "regexp_extract",
        3,
        "CASE WHEN $1 IS NOT NULL AND $2 IS NOT NULL AND $3 IS NOT NULL \
         THEN coalesce(array_element(regexp_match($1, concat('(', $2, ')')), CAST($3 AS BIGINT) + 1), '') END",
    ),
    (
        "regexp_extract",
        4,
        "CASE WHEN $1 IS NOT NULL AND $2 IS NOT NULL AND $3 IS NOT NULL AND $4 IS NOT NULL \
         THEN coalesce(array_element(regexp_match($1, concat('(', $2, ')'), $4), CAST($3 AS BIGINT) + 1), '') END",
    ),
    ("regexp_split_to_table", 2, "unnest(regexp_split_to_array($1, $2))"),
    ("regexp_split_to_table", 3, "unnest(regexp_split_to_array($1, $2, $3))"),
    ("string_to_table", 2, "unnest(string_to_array($1, $2))"),
    ("string_to_table", 3, "unnest(string_to_array($1, $2, $3))"),
    ("unicode", 1, "CASE WHEN $1 = '' THEN -1 ELSE ascii($1) END"),
    ("ord", 1, "CASE WHEN $1 = '' THEN -1 ELSE ascii($1) END"),
    ("editdist3", 2, "levenshtein($1, $2)"),
    ("casefold", 1, "lower($1)"),
    ("lcase", 1, "lower($1)"),
    ("ucase", 1, "upper($1)"),
    ("uuid_extract_version", 1, "version_of_uuid(CAST(CAST($1 AS UUID) AS TEXT))"),
    ("uuid_extract_timestamp", 1, "moment_of_uuid(CAST(CAST($1 AS UUID) AS TEXT))"),
    // Points in time.
    ("age", 1, "age(CAST(current_date AS TIMESTAMP), $1)"),
    // JSON, and where functions give rows.
    ("json_scalar", 1, "to_json($1)"),
    ("json_serialize", 1, "CAST(CAST($1 AS JSON) AS TEXT)"),
    ("json_array_elements", 1, "unnest(json_elements($1))"),
    ("jsonb_array_elements", 1, "unnest(json_elements($1))"),
    ("json_array_elements_text", 1, "unnest(json_elements_text($1))"),
    ("jsonb_array_elements_text", 1, "unnest(json_elements_text($1))"),
    ("json_object_keys", 1, "unnest(json_keys_of_object($1))"),
    ("jsonb_object_keys", 1, "unnest(json_keys_of_object($1))"),
    ("jsonb_path_query", 2, "unnest(jsonb_path_list($1, $2))"),
    ("jsonb_path_query", 3, "unnest(jsonb_path_list($1, $2, $3))"),
    ("jsonb_path_query", 4, "unnest(jsonb_path_list($1, $2, $3, $4))"),
    ("jsonb_path_query_tz", 2, "unnest(jsonb_path_list($1, $2))"),
    ("jsonb_path_query_tz", 3, "unnest(jsonb_path_list($1, $2, $3))"),
    ("jsonb_path_query_tz", 4, "unnest(jsonb_path_list($1, $2, $3, $4))"),
];

/// The aggregates in them, which have the FILTER and the OVER of the call.
const AGGREGATES: [&str; 14] = [
    "approx_distinct",
    "approx_percentile_cont",
    "array_agg",
    "avg",
    "count",
    "first_value",
    "last_value",
    "max",
    "min",
    "mode",
    "quantile_disc",
    "quantile_disc_desc",
    "stddev_pop",
    "sum",
];

static TEMPLATES: LazyLock<HashMap<(&str, usize), Expr>> = LazyLock::new(|| {
    let template = |&(name, count, sql): &(&'static str, usize, &str)| {
        let mut expr = parse_as_written(sql).ok()?;
        literal::rewrite(&mut expr).ok()?;
        Some(((name, count), expr))
    };
    MACROS.iter().filter_map(template).collect()
});

/// Returns what a call stands for.
pub fn expanded(function: &Function) -> Option<Expr> {
    if let Some(values) = at_places(function) {
        return Some(values);
    }
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
    if function.null_treatment.is_some() || name.quote_style.is_some() {
        return None;
    }
    let given: &[FunctionArg] = match &function.args {
        FunctionArguments::None => &[],
        FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses })
            if clauses.is_empty() =>
        {
            args
        }
        _ => return None,
    };
    let within = match function.within_group.as_slice() {
        [] => None,
        [key] => Some(key),
        _ => return None,
    };
    let mut name = name.value.to_ascii_lowercase();
    // `mode() WITHIN GROUP (ORDER BY x)` stands for `mode(x)`, which stands for itself.
    if name == "mode" && within.is_none() {
        return None;
    }
    if within.is_some_and(|key| key.options.asc == Some(false)) {
        name.push_str(" desc");
    }
    let given = given.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    let arguments: Vec<&Expr> = given.chain(within.map(|key| Some(&key.expr))).collect::<Option<_>>()?;
    if let Some(meant) = by_arguments(&name, &arguments) {
        return Some(meant);
    }
    let mut expr = template(&name, arguments.len(), function.over.is_some())?;
    let is_qualified = function.over.is_some() || function.filter.is_some();
    let mut has_aggregate = false;
    let _all = expressions_mut(&mut expr, &mut |part| {
        if let Expr::Value(value) = part
            && let Value::Placeholder(mark) = &value.value
            && let Some(argument) = mark[1..].parse().ok().and_then(|number: usize| arguments.get(number - 1))
        {
            *part = Expr::Nested(Box::new((*argument).clone()));
        }
        if let Expr::Function(inner) = part
            && is_qualified
            && is_aggregate(inner)
        {
            qualify(inner, function);
            has_aggregate = true;
        }
        ControlFlow::<()>::Continue(())
    });
    match &mut expr {
        _ if !is_qualified => Some(Expr::Nested(Box::new(expr))),
        Expr::Function(inner) => {
            // What is no aggregate has no FILTER, as the planner says.
            if !has_aggregate {
                qualify(inner, function);
            }
            Some(expr)
        }
        _ => has_aggregate.then(|| Expr::Nested(Box::new(expr))),
    }
}

/// Returns what a call stands for because of how its arguments are written.
fn by_arguments(name: &str, arguments: &[&Expr]) -> Option<Expr> {
    with_digits(name, arguments)
        .or_else(|| in_order(name, arguments))
        .or_else(|| with_escape(name, arguments))
        .or_else(|| named_groups(name, arguments))
        .or_else(|| without_group(name, arguments))
}

/// Returns what calls of a name stand for, which over windows may be something else.
fn template(name: &str, arguments: usize, is_over: bool) -> Option<Expr> {
    let over = format!("{name} over");
    let of_window = TEMPLATES.get(&(over.as_str(), arguments)).filter(|_| is_over);
    of_window.or_else(|| TEMPLATES.get(&(name, arguments))).cloned()
}

fn is_aggregate(function: &Function) -> bool {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return false };
    AGGREGATES.contains(&name.value.as_str())
}

/// Gives an aggregate the FILTER and the OVER of the call that it stands for, beside a FILTER of its own.
fn qualify(aggregate: &mut Function, call: &Function) {
    aggregate.over.clone_from(&call.over);
    aggregate.filter = match (aggregate.filter.take(), call.filter.clone()) {
        (Some(own), Some(more)) => Some(Box::new(Expr::BinaryOp {
            left: Box::new(Expr::Nested(own)),
            op: BinaryOperator::And,
            right: Box::new(Expr::Nested(more)),
        })),
        (own, more) => own.or(more),
    };
}

/// Returns the point in time that `current_timestamp(0)` means: with so many digits of its second.
fn with_digits(name: &str, arguments: &[&Expr]) -> Option<Expr> {
    let zone = match name {
        "current_timestamp" => TimezoneInfo::Tz,
        "localtimestamp" => TimezoneInfo::None,
        _ => return None,
    };
    let [Expr::Value(value)] = arguments else { return None };
    let Value::Number(digits, _) = &value.value else { return None };
    let digits = digits.parse::<u64>().ok().filter(|digits| *digits <= 6)?;
    Some(build::cast(call("now", Vec::new()), DataType::Timestamp(Some(digits), zone)))
}

/// Returns what `like_escape(text, pattern, '$')` and its like stand for.
fn with_escape(name: &str, arguments: &[&Expr]) -> Option<Expr> {
    let (negated, is_insensitive) = match name {
        "like_escape" => (false, false),
        "ilike_escape" => (false, true),
        "not_like_escape" => (true, false),
        "not_ilike_escape" => (true, true),
        _ => return None,
    };
    let [text, pattern, Expr::Value(escape)] = arguments else { return None };
    let nested = |of: &Expr| Box::new(Expr::Nested(Box::new(of.clone())));
    let (expr, pattern, escape_char, any) = (nested(text), nested(pattern), Some(escape.clone()), false);
    let like = match is_insensitive {
        true => Expr::ILike { negated, any, expr, pattern, escape_char },
        false => Expr::Like { negated, any, expr, pattern, escape_char },
    };
    Some(Expr::Nested(Box::new(like)))
}

/// Returns what `array_sort(list, true)` stands for, which says whether the order is descending, and whether
/// NULLs are first.
fn in_order(name: &str, arguments: &[&Expr]) -> Option<Expr> {
    let truth = |expr: &Expr| match expr {
        Expr::Value(value) => match value.value {
            Value::Boolean(truth) => Some(truth),
            _ => None,
        },
        _ => None,
    };
    let [list, is_descending, nulls @ ..] = arguments else { return None };
    if name != "array_sort" || nulls.len() > 1 {
        return None;
    }
    let is_descending = truth(is_descending)?;
    let are_nulls_first = nulls.first().map_or(Some(is_descending), |nulls| truth(nulls))?;
    let order = if is_descending { "DESC" } else { "ASC" };
    let nulls = if are_nulls_first { "NULLS FIRST" } else { "NULLS LAST" };
    Some(call("array_sort", vec![(*list).clone(), build::text(order), build::text(nulls)]))
}

/// Returns `regexp_extract(text, pattern, ['a', 'b'])` as a function of a structure whose fields have these
/// names: the groups of the first match are their values.
fn named_groups(name: &str, arguments: &[&Expr]) -> Option<Expr> {
    let [text, pattern, Expr::Array(names), options @ ..] = arguments else { return None };
    let is_text = |name: &Expr| match name {
        Expr::Value(value) => matches!(value.value, Value::SingleQuotedString(_)),
        _ => false,
    };
    if name != "regexp_extract"
        || names.elem.is_empty()
        || !names.elem.iter().all(is_text)
        || options.len() > 1
    {
        return None;
    }
    let fields = names.elem.iter().flat_map(|name| [name.clone(), build::text("")]).collect();
    let of_match = [call("named_struct", fields), (*text).clone(), (*pattern).clone()];
    let options = options.iter().map(|option| (*option).clone());
    Some(call("named_groups", of_match.into_iter().chain(options).collect()))
}

/// Returns what `regexp_extract(text, pattern, 'i')` stands for, which has options in the place of a group.
fn without_group(name: &str, arguments: &[&Expr]) -> Option<Expr> {
    let [text, pattern, options] = arguments else { return None };
    let Expr::Value(value) = options else { return None };
    let Value::SingleQuotedString(letters) = &value.value else { return None };
    if name != "regexp_extract" || !letters.chars().all(|letter| letter.is_ascii_alphabetic()) {
        return None;
    }
    let whole = vec![(*text).clone(), (*pattern).clone(), build::number(0), (*options).clone()];
    match call(name, whole) {
        Expr::Function(function) => expanded(&function),
        _ => None,
    }
}

/// The text of a list of values at several places may be so long.
const PLACES_BYTES_MAX: usize = 1 << 20;

/// Returns what `percentile_cont(ARRAY[p, q])`, `quantile_cont(x, [p, q])` and the like stand for: the list
/// of the values at each place, or NULL without values.
fn at_places(function: &Function) -> Option<Expr> {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
    let place = match name.value.to_ascii_lowercase().as_str() {
        "percentile_cont" => 0,
        "quantile_cont" | "approx_quantile" => 1,
        _ => return None,
    };
    let FunctionArguments::List(list) = &function.args else { return None };
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Array(places))) = list.args.get(place)? else {
        return None;
    };
    // Within each other, calls would become larger with each level, by as many times as there are places.
    let bytes = Expr::Function(function.clone()).to_string().len();
    if bytes.saturating_mul(places.elem.len()) > PLACES_BYTES_MAX {
        return None;
    }
    let at = |of: &Expr| {
        let mut list = list.clone();
        list.args[place] = FunctionArg::Unnamed(FunctionArgExpr::Expr(of.clone()));
        let one = Function { args: FunctionArguments::List(list), ..function.clone() };
        expanded(&one).unwrap_or(Expr::Function(one))
    };
    let values: Vec<Expr> = places.elem.iter().map(at).collect();
    let first = values.first()?.clone();
    Some(build::case(build::is_known(first), call("make_array", values)))
}

#[cfg(test)]
mod tests {
    use super::{MACROS, TEMPLATES, expanded, is_aggregate};
    use crate::gate::DOUBLING_FUNCTIONS;
    use crate::reading::parse_as_written;
    use crate::walk::expressions;
    use sqlparser::ast::Expr;
    use std::ops::ControlFlow;

    #[test]
    fn all_can_be_read() {
        assert_eq!(TEMPLATES.len(), MACROS.len());
    }

    #[test]
    fn lists_of_places_within_each_other_have_an_end() {
        let mut call = "quantile_cont(x, [0.1, 0.2])".to_string();
        for _ in 0..20 {
            let Ok(Expr::Function(function)) = parse_as_written(&call) else { panic!("{call} is no call") };
            match expanded(&function) {
                Some(found) => call = format!("quantile_cont({found}, [{}])", ["0.5"; 50].join(", ")),
                None => return,
            }
        }
        panic!("{} bytes", call.len());
    }

    /// Calls within each other would double with every level; aggregates are not within each other.
    #[test]
    fn the_gate_counts_those_that_have_an_argument_twice() {
        for (name, count, sql) in MACROS {
            let times = |number: usize| sql.matches(&format!("${number}")).count();
            let times = (1..=*count).map(times).max().unwrap_or(0);
            let of_rows = expressions(&TEMPLATES[&(*name, *count)], &mut |part| match part {
                Expr::Function(function) if is_aggregate(function) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            });
            let is_counted = DOUBLING_FUNCTIONS.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
            let is_simple = times < 2 || of_rows.is_break() || (times == 2 && is_counted);
            assert!(is_simple, "{name} of {count} has an argument {times} times");
        }
    }

    #[test]
    fn aggregates_within_have_the_filter_of_the_call() {
        for (call, meant) in [
            ("geomean(x) FILTER (WHERE x > 1)", "exp(avg(ln(CAST((x) AS DOUBLE))) FILTER (WHERE x > 1))"),
            ("product(x) OVER w", "array_product(array_agg(CAST((x) AS DOUBLE)) OVER w)"),
            ("count_if(x) FILTER (WHERE y)", "count(*) FILTER (WHERE ((x)) AND (y))"),
            ("sem(x) OVER w", "(stddev_pop((x)) OVER w / sqrt(CAST(count((x)) OVER w AS DOUBLE)))"),
            (
                "arg_max(x, y) OVER w",
                "get_field(max(named_struct('key', (y), 'value', (x))) \
                 FILTER (WHERE (x) IS NOT NULL AND (y) IS NOT NULL) OVER w, 'value')",
            ),
            ("fsum(x) FILTER (WHERE y = $1)", "sum(CAST((x) AS DOUBLE)) FILTER (WHERE y = $1)"),
        ] {
            let Ok(Expr::Function(function)) = parse_as_written(call) else { panic!("{call} is no call") };
            let found = expanded(&function).map(|found| found.to_string());
            let meant = parse_as_written(meant).unwrap().to_string();
            assert!(
                found.as_deref().is_some_and(|found| found.eq_ignore_ascii_case(&meant)),
                "{call}: {found:?}"
            );
        }
    }
}
