//! Comparisons for which DataFusion's rules differ from SQL's: UUIDs with text in another notation,
//! SIMILAR TO, and the two zeros of floating-point numbers.

use crate::common_type::of_compared;
use crate::pattern::{ESCAPE, check_pattern};
use crate::walk::map_expressions;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{
    AggregateFunctionParams, Between, Case, Cast, InList, ScalarFunction, WindowFunctionParams,
};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Like, LogicalPlan, Operator, binary_expr, lit,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use hypostyle_sql::operators::ANY_EQUAL;
use hypostyle_types::parse_uuid;
use hypostyle_types::{Error, LogicalType};
use std::sync::Arc;

/// Returns a comparison of UUIDs, which are text in plans, with literals in the notation that they
/// are written in.
///
/// # Errors
/// `InvalidInput` (22P02) for a literal that is no UUID.
pub fn with_uuids(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Some((list, wanted)) = list_of_uuids(&mut expression, schema)? {
        *list = Expr::Cast(Cast::new(Box::new(std::mem::take(list)), wanted));
        return Ok(Transformed::yes(expression));
    }
    let Some(compared) = operands_or_arguments(&mut expression) else {
        return Ok(Transformed::no(expression));
    };
    if !compared.iter().any(|expr| is_text(expr)) || !compared.iter().any(|expr| is_uuid(expr, schema)) {
        return Ok(Transformed::no(expression));
    }
    let mut changed = false;
    for expr in compared {
        let Expr::Literal(value, _) = &*expr else { continue };
        let Some(text) = text_of(value) else { continue };
        let uuid = parse_uuid(text).map_err(|error| DataFusionError::External(Box::new(error)))?;
        let uuid = uuid.hyphenated().to_string();
        if uuid != text {
            *expr = lit(uuid);
            changed = true;
        }
    }
    Ok(Transformed::new_transformed(expression, changed))
}

/// Comparisons of a DECIMAL with a DOUBLE or a text, in a type that has both. And comparisons of a
/// DATE with a TIMESTAMP, as TIMESTAMPs of its unit: DataFusion's nanoseconds begin in 1677.
pub fn in_wider_type(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Some(mut compared) = operands(&mut expression) else { return Ok(Transformed::no(expression)) };
    let mut types: Vec<DataType> =
        compared.iter().map(|expr| expr.get_type(schema).unwrap_or(DataType::Null)).collect();
    let mut changed = of_compared(&mut compared, &mut types);
    let timestamp = types.iter().find(|of| matches!(of, DataType::Timestamp(..))).cloned();
    let wider = |of: &DataType| match of {
        DataType::Date32 => timestamp.clone().map(|timestamp| match timestamp {
            DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone),
            other => other,
        }),
        DataType::Timestamp(TimeUnit::Nanosecond, zone) if types.contains(&DataType::Date32) => {
            Some(DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))
        }
        _ => None,
    };
    for (expr, of) in compared.into_iter().zip(&types) {
        if let Some(wider) = wider(of) {
            *expr = Expr::Cast(Cast::new(Box::new(std::mem::take(expr)), wider));
            changed = true;
        }
    }
    Ok(Transformed::new_transformed(expression, changed))
}

/// Bytes that are joined with a text as it is written, which is bytes in that notation.
pub fn joined_bytes(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) = &mut expression else {
        return Ok(Transformed::no(expression));
    };
    let is_bytes = |expr: &Expr| {
        matches!(expr.get_type(schema), Ok(DataType::LargeBinary | DataType::Binary | DataType::BinaryView))
    };
    let text = match (is_text(left), is_text(right)) {
        (true, false) if is_bytes(right) => left,
        (false, true) if is_bytes(left) => right,
        _ => return Ok(Transformed::no(expression)),
    };
    **text = Expr::Cast(Cast::new(Box::new(std::mem::take(text.as_mut())), DataType::LargeBinary));
    Ok(Transformed::yes(expression))
}

/// Returns the list that a UUID is sought in by `= ANY`, and the type that it must have: its
/// elements may be texts, or bytes.
fn list_of_uuids<'a>(
    expression: &'a mut Expr,
    schema: &DFSchema,
) -> Result<Option<(&'a mut Expr, DataType)>> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expression else { return Ok(None) };
    let [list, sought] = args.as_mut_slice() else { return Ok(None) };
    if func.name() != ANY_EQUAL || !is_uuid(sought, schema) {
        return Ok(None);
    }
    let element = sought.to_field(schema)?.1.as_ref().clone().with_name("item").with_nullable(true);
    let wanted = DataType::List(Arc::new(element));
    Ok((list.get_type(schema)? != wanted).then_some((list, wanted)))
}

/// Returns what an expression compares.
pub fn operands(expression: &mut Expr) -> Option<Vec<&mut Expr>> {
    Some(match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(*op) => {
            vec![left.as_mut(), right.as_mut()]
        }
        Expr::InList(InList { expr, list, .. }) => [expr.as_mut()].into_iter().chain(list).collect(),
        Expr::Between(Between { expr, low, high, .. }) => {
            vec![expr.as_mut(), low.as_mut(), high.as_mut()]
        }
        Expr::Case(Case { expr: Some(expr), when_then_expr, .. }) => [expr.as_mut()]
            .into_iter()
            .chain(when_then_expr.iter_mut().map(|(when, _)| when.as_mut()))
            .collect(),
        _ => return None,
    })
}

/// Returns the same, and the arguments of functions that compare or choose.
fn operands_or_arguments(expression: &mut Expr) -> Option<Vec<&mut Expr>> {
    if !matches!(expression, Expr::ScalarFunction(_)) {
        return operands(expression);
    }
    match expression {
        Expr::ScalarFunction(ScalarFunction { func, args })
            if matches!(func.name(), "nullif" | "coalesce" | "greatest" | "least") =>
        {
            Some(args.iter_mut().collect())
        }
        _ => None,
    }
}

fn compares(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn is_uuid(expr: &Expr, schema: &DFSchema) -> bool {
    !matches!(expr, Expr::Literal(..))
        && expr.to_field(schema).is_ok_and(|(_, field)| {
            !field.metadata().is_empty()
                && LogicalType::from_arrow(&field).is_ok_and(|known| known == LogicalType::Uuid)
        })
}

/// Says whether an expression is a text as it is written.
pub fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if text_of(value).is_some())
}

fn text_of(value: &ScalarValue) -> Option<&str> {
    match value {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => {
            text.as_deref()
        }
        _ => None,
    }
}

/// Rewrites SIMILAR TO, whose pattern is that of LIKE with some signs of regular expressions, and
/// matches the whole text.
///
/// # Errors
/// `Unsupported` for a pattern that is no constant; `InvalidInput` for one that ends in its escape
/// character.
pub fn similar(expression: Expr, _: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::SimilarTo(Like { negated, expr, pattern, escape_char, .. }) = expression else {
        return Ok(Transformed::no(expression));
    };
    let pattern = match pattern.as_ref() {
        Expr::Literal(value, _) if value.is_null() => lit(ScalarValue::Utf8(None)),
        Expr::Literal(value, _) if let Some(pattern) = text_of(value) => {
            if escape_char.is_none_or(|escape| escape == ESCAPE) {
                check_pattern(pattern)?;
            }
            lit(regular_expression(pattern, escape_char.unwrap_or('\\')))
        }
        _ => {
            let error =
                Error::unsupported("SIMILAR TO with a pattern that is not a constant is not supported");
            return Err(DataFusionError::External(Box::new(error)));
        }
    };
    let operator = if negated { Operator::RegexNotMatch } else { Operator::RegexMatch };
    Ok(Transformed::yes(binary_expr(*expr, operator, pattern)))
}

/// Writes the regular expression of any text as the empty one, which means the same: DataFusion makes
/// `IS NOT NULL` of it, which is false for NULL, and not NULL.
pub fn any_text(mut expression: Expr, _: &DFSchema) -> Result<Transformed<Expr>> {
    let pattern = match &mut expression {
        Expr::BinaryExpr(BinaryExpr { op: Operator::RegexMatch | Operator::RegexIMatch, right, .. }) => {
            Some(right.as_mut())
        }
        Expr::ScalarFunction(call) if call.func.name() == "regexp_like" => call.args.get_mut(1),
        _ => None,
    };
    let Some(Expr::Literal(
        ScalarValue::Utf8(Some(pattern))
        | ScalarValue::LargeUtf8(Some(pattern))
        | ScalarValue::Utf8View(Some(pattern)),
        _,
    )) = pattern
    else {
        return Ok(Transformed::no(expression));
    };
    if pattern.as_str() != ".*" {
        return Ok(Transformed::no(expression));
    }
    pattern.clear();
    Ok(Transformed::yes(expression))
}

/// Returns a pattern of SIMILAR TO as a regular expression.
fn regular_expression(pattern: &str, escape: char) -> String {
    let mut regex = String::from("(?s)^(?:");
    let mut characters = pattern.chars();
    let mut in_brackets = false;
    while let Some(character) = characters.next() {
        match character {
            _ if character == escape => {
                let escaped = characters.next().unwrap_or(escape);
                if !escaped.is_alphanumeric() && escaped.is_ascii() {
                    regex.push('\\');
                }
                regex.push(escaped);
            }
            ']' if in_brackets => {
                in_brackets = false;
                regex.push(']');
            }
            '[' if !in_brackets => {
                in_brackets = true;
                regex.push('[');
            }
            // This is a class of characters, such as [:alpha:].
            '[' if characters.as_str().starts_with(':') && characters.as_str().contains(":]") => {
                regex.push('[');
                for character in characters.by_ref() {
                    regex.push(character);
                    if character == ']' {
                        break;
                    }
                }
            }
            '\\' | '[' | '&' | '~' => regex.extend(['\\', character]),
            _ if in_brackets => regex.push(character),
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            '(' => regex.push_str("(?:"),
            '.' | '^' | '$' => regex.extend(['\\', character]),
            other => regex.push(other),
        }
    }
    regex.push_str(")$");
    regex
}

/// Gives floating-point numbers one zero where their bits would tell the two zeros apart: in the comparisons
/// of CASE and `nullif`, in aggregates of distinct values, in the keys of windows, and in constants that
/// something is equal to or not: `a = 0 AND a <> '-0.0'` was taken for `a = 0`.
pub fn equal_zeros(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let compared: Vec<&mut Expr> = match &mut expression {
        Expr::Case(Case { expr: Some(compared), when_then_expr, .. }) => [compared]
            .into_iter()
            .chain(when_then_expr.iter_mut().map(|(when, _)| when))
            .map(|expr| &mut **expr)
            .collect(),
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "nullif" => {
            args.iter_mut().collect()
        }
        Expr::AggregateFunction(call) if call.params.distinct => {
            let AggregateFunctionParams { args, order_by, .. } = &mut call.params;
            args.iter_mut().chain(order_by.iter_mut().map(|key| &mut key.expr)).collect()
        }
        Expr::WindowFunction(call) => {
            let WindowFunctionParams { partition_by, order_by, .. } = &mut call.params;
            partition_by.iter_mut().chain(order_by.iter_mut().map(|key| &mut key.expr)).collect()
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq | Operator::NotEq, right }) => [left, right]
            .into_iter()
            .map(|expr| &mut **expr)
            .filter(|expr| may_be_negative_zero(expr))
            .collect(),
        _ => return Ok(Transformed::no(expression)),
    };
    let mut changed = false;
    for expr in compared {
        changed |= with_one_zero(expr, schema);
    }
    Ok(Transformed::new_transformed(expression, changed))
}

/// Says whether a constant may be −0.0, which a number that is written without a sign is not.
fn may_be_negative_zero(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => *value == 0.0 && value.is_sign_negative(),
        Expr::Literal(ScalarValue::Float32(Some(value)), _) => *value == 0.0 && value.is_sign_negative(),
        Expr::Literal(..) => false,
        Expr::Cast(cast) => match &*cast.expr {
            Expr::Literal(value, _) => value.data_type().is_string(),
            other => may_be_negative_zero(other),
        },
        Expr::Negative(of) => is_constant(of),
        Expr::ScalarFunction(call) => !call.args.is_empty() && call.args.iter().all(is_constant),
        _ => false,
    }
}

/// Says whether an expression is made of literals alone.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..) => true,
        Expr::Cast(cast) => is_constant(&cast.expr),
        Expr::Negative(of) => is_constant(of),
        Expr::ScalarFunction(call) => call.args.iter().all(is_constant),
        _ => false,
    }
}

/// Makes a floating-point number's −0.0 a 0.0, and says whether it is such a number.
fn with_one_zero(expr: &mut Expr, schema: &DFSchema) -> bool {
    let zero = match expr.get_type(schema) {
        Ok(DataType::Float64) => lit(0.0_f64),
        Ok(DataType::Float32) => lit(0.0_f32),
        _ => return false,
    };
    if matches!(expr, Expr::BinaryExpr(BinaryExpr { op: Operator::Plus, right, .. }) if **right == zero) {
        return false;
    }
    // −0.0 + 0.0 is 0.0.
    *expr = binary_expr(std::mem::take(expr), Operator::Plus, zero);
    true
}

/// Returns rows that are sorted by floating-point numbers, and those of which are equal by
/// something else.
pub fn sorted_with_equal_zeros(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Sort(mut sort) = plan else { return Ok(Transformed::no(plan)) };
    let schema = sort.input.schema().clone();
    let last = sort.expr.len().saturating_sub(1);
    let mut changed = false;
    for key in &mut sort.expr[..last] {
        changed |= with_one_zero(&mut key.expr, &schema);
    }
    Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), changed))
}

/// 0.0 and −0.0 are equal, but a list is looked up by the bits of its values: where it has one of
/// them, it gets the other. And what is no constant in a list is compared apart: DataFusion takes
/// for one what a CASE gives for no rows. The last rule, because others make lists of comparisons.
#[derive(Debug)]
pub struct BothZeros;

impl OptimizerRule for BothZeros {
    fn name(&self) -> &str {
        "both_zeros"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        map_expressions(plan, |expression| {
            with_both_zeros(expression).transform_data(|expression| Ok(of_constants(expression)))
        })
    }
}

/// A list of constants, beside comparisons with the rest.
fn of_constants(mut expression: Expr) -> Transformed<Expr> {
    let Expr::InList(of) = &mut expression else { return Transformed::no(expression) };
    let is_constant = |value: &Expr| matches!(value, Expr::Literal(..));
    if of.expr.is_volatile() || of.list.iter().all(is_constant) {
        return Transformed::no(expression);
    }
    let (constants, others): (Vec<Expr>, Vec<Expr>) =
        std::mem::take(&mut of.list).into_iter().partition(is_constant);
    let (operator, joined) = match of.negated {
        true => (Operator::NotEq, Operator::And),
        false => (Operator::Eq, Operator::Or),
    };
    let sought = of.expr.as_ref().clone();
    let mut parts: Vec<Expr> =
        others.into_iter().map(|other| binary_expr(sought.clone(), operator, other)).collect();
    if !constants.is_empty() {
        of.list = constants;
        parts.push(expression);
    }
    // In a tree that is no deeper than it must be.
    while parts.len() > 1 {
        let mut pairs = parts.into_iter();
        parts = Vec::new();
        while let Some(one) = pairs.next() {
            parts.push(match pairs.next() {
                Some(other) => binary_expr(one, joined, other),
                None => one,
            });
        }
    }
    parts.pop().map_or_else(|| Transformed::no(lit(false)), Transformed::yes)
}

fn with_both_zeros(mut expression: Expr) -> Transformed<Expr> {
    let Expr::InList(InList { list, .. }) = &mut expression else { return Transformed::no(expression) };
    let other_zero = |value: &Expr| match value {
        Expr::Literal(ScalarValue::Float64(Some(zero)), _) if *zero == 0.0 => {
            Some(Expr::Literal(ScalarValue::Float64(Some(-zero)), None))
        }
        Expr::Literal(ScalarValue::Float32(Some(zero)), _) if *zero == 0.0 => {
            Some(Expr::Literal(ScalarValue::Float32(Some(-zero)), None))
        }
        _ => None,
    };
    let others: Vec<Expr> =
        list.iter().filter_map(other_zero).filter(|other| !list.contains(other)).collect();
    if others.is_empty() {
        return Transformed::no(expression);
    }
    list.extend(others);
    Transformed::yes(expression)
}

#[cfg(test)]
mod tests {
    use super::regular_expression;

    #[test]
    fn patterns_become_regular_expressions() {
        for (pattern, regex) in [
            ("abc", "(?s)^(?:abc)$"),
            ("%(b|d)_", "(?s)^(?:.*(?:b|d).)$"),
            ("a.c$^", "(?s)^(?:a\\.c\\$\\^)$"),
            ("a\\%\\_", "(?s)^(?:a\\%\\_)$"),
            ("[a-c_%]+", "(?s)^(?:[a-c_%]+)$"),
            ("[[:alpha:]_]", "(?s)^(?:[[:alpha:]_])$"),
            ("x{2,3}", "(?s)^(?:x{2,3})$"),
        ] {
            assert_eq!(regular_expression(pattern, '\\'), regex, "{pattern}");
        }
        assert_eq!(regular_expression("a#%#n", '#'), "(?s)^(?:a\\%n)$");
        assert_eq!(regular_expression("a\\d", '#'), "(?s)^(?:a\\\\d)$");
    }
}
