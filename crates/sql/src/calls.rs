//! Calls whose arguments are more than values: names of fields, paths into JSON, aggregates of
//! lists. The parser's tree is rewritten to forms that DataFusion knows.

use crate::call::call;
use crate::macros::expanded;
use crate::reading::parse_as_written;
use crate::text_value::text_of;
use crate::{build, lists, number_pattern};
use sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgOperator, FunctionArgumentClause, FunctionArguments, Ident, Interval, JsonNullClause,
    ObjectName, ObjectNamePart, OrderByExpr, TableFactor, TimezoneInfo, Value,
};

/// Aggregates of the elements of a list that are functions of it (`expr::builtin::of_list`), called likewise.
pub const FUNCTIONS_OF_LISTS: [&str; 20] = [
    "approx_count_distinct",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "count",
    "entropy",
    "histogram",
    "kurtosis",
    "kurtosis_pop",
    "mad",
    "median",
    "mode",
    "skewness",
    "stddev_pop",
    "stddev_samp",
    "var_pop",
    "var_samp",
];

/// Other aggregates that are functions of a list, called likewise, and the numbers of their further
/// arguments.
const FUNCTIONS_LIKE_THEM: [(&str, usize); 9] = [
    ("any_value", 0),
    ("first", 0),
    ("last", 0),
    ("max", 0),
    ("min", 0),
    ("product", 0),
    ("string_agg", 0),
    ("string_agg", 1),
    ("sum", 0),
];

/// Aggregates that give a JSON array or object, of values in an order or some of them, too: the
/// numbers of their arguments, and the functions that make JSON of all values.
const OF_JSON: [(&str, usize, &str); 8] = [
    ("json_agg", 1, "json_of_list"),
    ("json_arrayagg", 1, "json_of_list"),
    ("json_objectagg", 2, "json_of_pairs"),
    ("jsonb_agg", 1, "jsonb_of_list"),
    ("json_group_array", 1, "json_of_list"),
    ("json_object_agg", 2, "json_of_pairs"),
    ("jsonb_object_agg", 2, "jsonb_of_pairs"),
    ("json_group_object", 2, "json_of_pairs"),
];

/// Returns what a call is written as, if it is such a one.
pub fn rewritten(function: &Function) -> Option<Expr> {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
    let found = json_aggregate(&name.value, function)
        .or_else(|| object_of_pairs(&name.value, function))
        .or_else(|| joined(&name.value, function));
    if found.is_some() {
        return found;
    }
    let is_plain = function.filter.is_none() && function.over.is_none() && function.within_group.is_empty();
    let FunctionArguments::List(list) = &function.args else { return None };
    if !is_plain || !list.clauses.is_empty() || list.duplicate_treatment.is_some() {
        return None;
    }
    let name = name.value.to_ascii_lowercase();
    match name.as_str() {
        "struct_pack" => return structure(&list.args),
        "struct_insert" => return with_fields("struct_concat", &list.args),
        "struct_update" => return with_fields("struct_updated", &list.args),
        "make_interval" => return interval(&list.args),
        _ => {}
    }
    let arguments: Vec<&Expr> = list.args.iter().map(plain).collect::<Option<_>>()?;
    match (name.as_str(), arguments.as_slice()) {
        ("date_part" | "datepart", [Expr::Array(parts), of]) => named_parts(&parts.elem, of),
        ("date_part" | "datepart", [part, of]) if !is_written(part) => {
            Some(call("computed_part", vec![(*part).clone(), (*of).clone()]))
        }
        // The last one says whether the result is as long as the shortest list.
        ("list_zip" | "array_zip", [lists @ .., Expr::Value(is_short)])
            if !lists.is_empty() && matches!(is_short.value, Value::Boolean(_)) =>
        {
            Some(zipped(lists, is_short.value == Value::Boolean(true)))
        }
        ("list_sem", [list]) => of_elements("sem", list, &[]),
        // The form is a word.
        ("normalize", [text, Expr::Identifier(form)]) if form.quote_style.is_none() => {
            Some(call("normalize", vec![(*text).clone(), literal(&form.value)]))
        }
        ("pg_input_is_valid", [text, of]) => is_valid(text, text_of(of)?),
        ("to_number", [text, pattern]) => Some(number_pattern::read(text, pattern)),
        (
            "aggregate" | "list_aggr" | "list_aggregate" | "array_aggr" | "array_aggregate",
            [list, what, more @ ..],
        ) => of_elements(text_of(what)?, list, more),
        // Buckets by the clocks of a zone; a text that is no name is the point in time where one begins.
        ("time_bucket", [width, of, zone])
            if text_of(zone).is_some_and(|text| text.starts_with(|c: char| c.is_ascii_alphabetic())) =>
        {
            Some(buckets_in_zone(width, of, zone))
        }
        // The pattern may come first, as in DuckDB.
        ("strftime", [pattern, of])
            if text_of(pattern).is_some_and(|text| text.contains('%')) && text_of(of).is_none() =>
        {
            Some(call("strftime", vec![(*of).clone(), (*pattern).clone()]))
        }
        _ => None,
    }
}

/// Returns lists of the elements at each place, as many as the longest list has, or the shortest.
fn zipped(lists: &[&Expr], is_short: bool) -> Expr {
    let lists: Vec<Expr> = lists.iter().map(|list| (*list).clone()).collect();
    let zipped = call("arrays_zip", lists.clone());
    if !is_short {
        return zipped;
    }
    let lengths =
        lists.into_iter().map(|list| build::coalesce(call("array_length", vec![list]), build::number(0)));
    let length = call("least", lengths.collect());
    call("array_slice", vec![zipped, build::number(1), length])
}

/// Returns whether a text can be read as a value of a type.
fn is_valid(text: &Expr, of: &str) -> Option<Expr> {
    let Expr::Cast { data_type, .. } = parse_as_written(&format!("CAST(NULL AS {of})")).ok()? else {
        return None;
    };
    let (kind, expr) = (CastKind::TryCast, Box::new(text.clone()));
    let read = Expr::Cast { kind, expr, data_type, array: false, format: None };
    Some(build::case(build::is_known(text.clone()), build::is_known(read)))
}

/// Returns `timezone(zone, time_bucket(width, timezone(zone, of)))`.
fn buckets_in_zone(width: &Expr, of: &Expr, zone: &Expr) -> Expr {
    let moment = build::cast(of.clone(), DataType::Timestamp(None, TimezoneInfo::Tz));
    let clocks = call("timezone", vec![zone.clone(), moment]);
    call("timezone", vec![zone.clone(), call("time_bucket", vec![width.clone(), clocks])])
}

/// Says whether an expression is a value that is known as it is written.
fn is_written(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_written(inner),
        Expr::Value(value) => !matches!(value.value, Value::Placeholder(_) | Value::Null),
        _ => false,
    }
}

/// Returns several parts of a point in time as a function of a structure whose fields have their names.
fn named_parts(parts: &[Expr], of: &Expr) -> Option<Expr> {
    let mut names = Vec::with_capacity(parts.len() * 2);
    for part in parts {
        names.extend([literal(text_of(part)?), Expr::value(Value::Number("0".into(), false))]);
    }
    (!names.is_empty()).then(|| call("named_parts", vec![call("named_struct", names), of.clone()]))
}

/// Returns an aggregate that joins texts under its one name, with a comma between them where nothing is
/// given, and the order that is in WITHIN GROUP.
fn joined(name: &str, function: &Function) -> Option<Expr> {
    let names = ["string_agg", "listagg", "group_concat"];
    let known = names.iter().position(|known| name.eq_ignore_ascii_case(known))?;
    let FunctionArguments::List(list) = &function.args else { return None };
    let is_whole = list.args.len() == 2 && function.within_group.is_empty();
    if !matches!(list.args.len(), 1 | 2) || known == 0 && is_whole {
        return None;
    }
    let mut aggregate = function.clone();
    aggregate.name = ObjectName::from(vec![Ident::new("string_agg")]);
    let order = std::mem::take(&mut aggregate.within_group);
    if let FunctionArguments::List(list) = &mut aggregate.args {
        if list.args.len() == 1 {
            list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(literal(","))));
        }
        if !order.is_empty() {
            list.clauses.push(FunctionArgumentClause::OrderBy(order));
        }
    }
    Some(Expr::Function(aggregate))
}

/// Returns a name and a value that are written as `name VALUE value` or `name : value`.
fn pair(argument: &FunctionArg) -> Option<(Expr, Expr)> {
    use FunctionArgOperator::{Colon, Value};
    match argument {
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), operator: Colon | Value } => {
            // A dialect takes what is in quotes for a name, too.
            let name = match name.quote_style {
                Some('\'') => literal(&name.value),
                _ => Expr::Identifier(name.clone()),
            };
            Some((name, value.clone()))
        }
        FunctionArg::ExprNamed { name, arg: FunctionArgExpr::Expr(value), operator: Colon | Value } => {
            Some((name.clone(), value.clone()))
        }
        _ => None,
    }
}

/// Returns what clauses of SQL/JSON say: whether NULL is left out, and the type of the result.
fn of_clauses(clauses: &[FunctionArgumentClause]) -> (Option<bool>, Option<DataType>) {
    let is_absent = clauses.iter().find_map(|clause| match clause {
        FunctionArgumentClause::JsonNullClause(clause) => Some(*clause == JsonNullClause::AbsentOnNull),
        _ => None,
    });
    let returning = clauses.iter().find_map(|clause| match clause {
        FunctionArgumentClause::JsonReturningClause(clause) => Some(clause.data_type.clone()),
        _ => None,
    });
    (is_absent, returning)
}

fn is_of_json(clause: &FunctionArgumentClause) -> bool {
    matches!(
        clause,
        FunctionArgumentClause::JsonNullClause(_) | FunctionArgumentClause::JsonReturningClause(_)
    )
}

fn returned(expr: Expr, returning: Option<DataType>) -> Expr {
    match returning {
        Some(data_type) => build::cast(expr, data_type),
        None => expr,
    }
}

/// Returns `json_object('a' VALUE 1, 'b': 2)`; a member that is NULL stays, as it does where nothing is said.
fn object_of_pairs(name: &str, function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let (is_absent, returning) = of_clauses(&list.clauses);
    let is_it = name.eq_ignore_ascii_case("json_object") && list.clauses.iter().all(is_of_json);
    if !is_it || list.args.is_empty() || is_absent == Some(true) {
        return None;
    }
    let pairs: Vec<(Expr, Expr)> = list.args.iter().map(pair).collect::<Option<_>>()?;
    let arguments = pairs.into_iter().flat_map(|(name, value)| [name, value]).collect();
    Some(returned(call("json_build_object", arguments), returning))
}

/// Returns an aggregate that gives JSON as a function of a list: of values that are JSON, so that
/// each stays what it is.
fn json_aggregate(name: &str, function: &Function) -> Option<Expr> {
    let (_, arguments, made) = OF_JSON.iter().find(|(known, ..)| name.eq_ignore_ascii_case(known))?;
    let FunctionArguments::List(list) = &function.args else { return None };
    let given: Vec<Expr> = match list.args.as_slice() {
        [one] if let Some((name, value)) = pair(one) => vec![name, value],
        args => args.iter().map(|argument| plain(argument).cloned()).collect::<Option<_>>()?,
    };
    let (is_absent, returning) = of_clauses(&list.clauses);
    let is_absent = is_absent.unwrap_or(name.eq_ignore_ascii_case("json_arrayagg"));
    let json = |value: &Expr| call("to_json", vec![value.clone()]);
    let (value, made) = match given.as_slice() {
        // Distinct values are so in their own type.
        [value] if *arguments == 1 && list.duplicate_treatment.is_some() => (value.clone(), "to_json"),
        [value] if *arguments == 1 => (json(value), *made),
        [name, value] if *arguments == 2 => {
            let parts = vec![literal("k"), name.clone(), literal("v"), json(value)];
            (call("named_struct", parts), *made)
        }
        _ => return None,
    };
    let mut aggregate = function.clone();
    aggregate.name = ObjectName::from(vec![Ident::new("array_agg")]);
    if is_absent && let Some(value) = given.last() {
        let conditions = aggregate.filter.take().map(Expr::Nested);
        let conditions = conditions.into_iter().chain([build::is_known(value.clone())]);
        aggregate.filter = build::all_of(conditions).map(Box::new);
    }
    if let FunctionArguments::List(list) = &mut aggregate.args {
        list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(value))];
        list.clauses.retain(|clause| !is_of_json(clause));
    }
    Some(returned(call(made, vec![Expr::Function(aggregate)]), returning))
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

fn plain(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
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
    // A sum nests as deep as it is long.
    if arguments.len() > INTERVAL_PARTS.len() {
        return None;
    }
    let mut sum = interval_of("0 seconds");
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
        let number = build::cast(value.clone(), DataType::Double(ExactNumberInfo::None));
        let part = build::binary(number, BinaryOperator::Multiply, interval_of(unit));
        sum = build::binary(sum, BinaryOperator::Plus, part);
    }
    crate::literal::rewrite(&mut sum).ok()?;
    Some(Expr::Nested(Box::new(sum)))
}

fn interval_of(text: &str) -> Expr {
    Expr::Interval(Interval {
        value: Box::new(literal(text)),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    })
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

/// Returns `struct_insert(s, a := 1)` as a function of the structure and one of the fields.
fn with_fields(function: &str, arguments: &[FunctionArg]) -> Option<Expr> {
    let (of, fields) = arguments.split_first().filter(|(_, fields)| !fields.is_empty())?;
    Some(call(function, vec![plain(of)?.clone(), structure(fields)?]))
}

/// Returns an aggregate of a list's elements, by its name.
fn of_elements(what: &str, list: &Expr, more: &[&Expr]) -> Option<Expr> {
    if !what.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return None;
    }
    let is = |known: &str| what.eq_ignore_ascii_case(known);
    let is_function = more.is_empty() && FUNCTIONS_OF_LISTS.iter().any(|known| is(known))
        || FUNCTIONS_LIKE_THEM.iter().any(|(known, further)| is(known) && more.len() == *further);
    if is_function {
        let arguments = std::iter::once(list).chain(more.iter().copied()).cloned().collect();
        // list_min and list_max stand for these.
        let group = if is("min") || is("max") { "array" } else { "list" };
        return Some(call(&format!("{group}_{}", what.to_ascii_lowercase()), arguments));
    }
    let (elements, element) = ("__elements", "__element");
    let arguments = std::iter::once(build::column(element)).chain(more.iter().copied().cloned()).collect();
    let mut aggregate = call(what, arguments);
    if let Expr::Function(function) = &mut aggregate {
        match expanded(function).or_else(|| rewritten(function)) {
            Some(meant) => aggregate = meant,
            None => rename(function),
        }
    }
    let mut from = TableFactor::UNNEST {
        alias: Some(build::called(build::name(elements), vec![build::name(element)])),
        array_exprs: vec![list.clone()],
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    };
    lists::rewrite(&mut from).ok()?;
    Some(Expr::Subquery(Box::new(build::select(vec![build::item(aggregate)], vec![from]))))
}

/// Gives a function the name that DataFusion has for it, which may have another one of the name:
/// `array_remove` of PostgreSQL removes all.
pub fn rename(function: &mut Function) {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_mut_slice() else { return };
    let other = match name.value.to_ascii_lowercase().as_str() {
        "array_remove" => "array_remove_all",
        "array_replace" => "array_replace_all",
        "every" => "bool_and",
        _ => return,
    };
    *name = Ident::new(other);
}
