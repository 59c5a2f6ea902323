//! The types in which DECIMALs meet DOUBLEs and texts. DataFusion's common type of a DECIMAL and a
//! DOUBLE is DECIMAL(30,15), which has not all DOUBLEs, and that of a DECIMAL and a text the
//! DECIMAL itself, to which the text would be rounded.

use crate::arithmetic::type_of;
use crate::cast::cast_scalar;
use crate::comparison::is_text;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Case, Cast, InSubquery, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, Projection, Subquery, Union};
use std::sync::Arc;

/// Functions that give one of their arguments, which are of one type. Another name of `nvl` is `ifnull`.
pub const CHOOSING: [&str; 5] = ["coalesce", "greatest", "least", "nullif", "nvl"];

/// Says whether a function gives one of its arguments, or a list of them.
pub(crate) fn takes_one_type(name: &str) -> bool {
    name == "make_array" || CHOOSING.contains(&name)
}

/// DECIMALs beside DOUBLEs as DOUBLEs: what is computed with, what is chosen from, and what IN
/// looks for in a subquery.
pub fn with_doubles(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Expr::InSubquery(of) = &mut expression {
        let changed = in_subquery(of, schema)?;
        return Ok(Transformed::new_transformed(expression, changed));
    }
    if let Expr::ScalarFunction(ScalarFunction { func, args }) = &mut expression
        && func.name() == "log"
    {
        // DataFusion's takes the logarithm of the digits.
        let changed = args.iter_mut().fold(false, |changed, arg| {
            let is_decimal = type_of(arg, schema).is_ok_and(|of| of.is_decimal());
            if is_decimal {
                *arg = as_double(std::mem::take(arg));
            }
            changed | is_decimal
        });
        return Ok(Transformed::new_transformed(expression, changed));
    }
    let alike: Vec<&mut Expr> = match &mut expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_arithmetic(*op) => {
            vec![right.as_mut(), left.as_mut()]
        }
        Expr::Case(Case { when_then_expr, else_expr, .. }) => {
            let results = when_then_expr.iter_mut().map(|(_, result)| result);
            results.chain(else_expr).map(|result| result.as_mut()).collect()
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if takes_one_type(func.name()) => {
            args.iter_mut().collect()
        }
        _ => return Ok(Transformed::no(expression)),
    };
    let mut types = Vec::with_capacity(alike.len());
    for expr in &alike {
        let of = type_of(expr, schema).unwrap_or(DataType::Null);
        if types.is_empty() && alike.len() == 2 && !of.is_floating() && !of.is_decimal() {
            return Ok(Transformed::no(expression));
        }
        types.push(of);
    }
    if !are_mixed(&types) {
        return Ok(Transformed::no(expression));
    }
    for (expr, of) in alike.into_iter().zip(&types) {
        make_double(expr, of);
    }
    Ok(Transformed::yes(expression))
}

fn is_arithmetic(operator: Operator) -> bool {
    use Operator::{Divide, Minus, Modulo, Multiply, Plus};
    matches!(operator, Divide | Minus | Modulo | Multiply | Plus)
}

/// Whether both DECIMALs and floating-point numbers are among the types.
fn are_mixed<'a>(types: impl IntoIterator<Item = &'a DataType> + Clone) -> bool {
    types.clone().into_iter().any(DataType::is_decimal) && types.into_iter().any(DataType::is_floating)
}

/// Makes a DOUBLE of a DECIMAL, or of a FLOAT beside one; of a constant at once.
fn make_double(expr: &mut Expr, of: &DataType) {
    if of.is_decimal() || *of == DataType::Float32 {
        *expr = as_double(std::mem::take(expr));
    }
}

fn as_double(expr: Expr) -> Expr {
    let double = Field::new("", DataType::Float64, true);
    match &expr {
        Expr::Literal(value, metadata) if let Ok(value) = cast_scalar(value, &double) => {
            Expr::Literal(value, metadata.clone())
        }
        _ => Expr::Cast(Cast::new(Box::new(expr), DataType::Float64)),
    }
}

/// Makes DOUBLEs of DECIMALs in those columns of VALUES that have both: their common type would be a DECIMAL,
/// which has not all DOUBLEs.
///
/// # Errors
/// That of a value that has no type.
pub fn columns_of_doubles(rows: &mut [Vec<Expr>]) -> Result<()> {
    let empty = DFSchema::empty();
    for place in 0..rows.first().map_or(0, Vec::len) {
        let mut column: Vec<&mut Expr> = rows.iter_mut().filter_map(|row| row.get_mut(place)).collect();
        let types = column.iter().map(|value| type_of(value, &empty)).collect::<Result<Vec<_>>>()?;
        if are_mixed(&types) {
            column.iter_mut().zip(&types).for_each(|(value, of)| make_double(value, of));
        }
    }
    Ok(())
}

/// Makes DOUBLEs of what is sought in a subquery and of what it gives, where one of them is such a
/// number and one a DECIMAL.
fn in_subquery(of: &mut InSubquery, schema: &DFSchema) -> Result<bool> {
    let plan = &of.subquery.subquery;
    let [column]: &[Column] = &plan.schema().columns() else { return Ok(false) };
    let types = [type_of(&of.expr, schema)?, plan.schema().field(0).data_type().clone()];
    if !are_mixed(&types) {
        return Ok(false);
    }
    make_double(&mut of.expr, &types[0]);
    let (mut found, input) = match plan.as_ref() {
        // What it computes has no table: DataFusion would take its name, above it, for one more column.
        LogicalPlan::Projection(projection) => (projection.expr[0].clone(), projection.input.clone()),
        _ => (Expr::Column(column.clone()), plan.clone()),
    };
    let name = NamePreserver::new_for_projection().save(&found);
    make_double(&mut found, &types[1]);
    let found = LogicalPlan::Projection(Projection::try_new(vec![name.restore(found)], input)?);
    of.subquery = Subquery { subquery: Arc::new(found), ..of.subquery.clone() };
    Ok(true)
}

/// What is compared with DECIMALs in a type that has the values of all of it: constants as the
/// DECIMALs that they are, else all as DOUBLEs. Says whether it was something else.
pub fn of_compared(compared: &mut [&mut Expr], types: &mut [DataType]) -> bool {
    if !types.iter().any(DataType::is_decimal) {
        return false;
    }
    let mut changed = false;
    let mut as_doubles = false;
    for place in 0..compared.len() {
        let expr = &mut *compared[place];
        if !types[place].is_floating() && !types[place].is_string() {
            continue;
        }
        let exact = constant(expr).and_then(|text| exact_decimal(&text));
        match exact.filter(|exact| fits(&exact.data_type(), types)) {
            Some(exact) => {
                types[place] = exact.data_type();
                *expr = Expr::Literal(exact, None);
                changed = true;
            }
            // What is no number is refused where it is cast.
            None if is_text(expr) && !is_without_digits(expr) => {}
            None => as_doubles = true,
        }
    }
    if as_doubles {
        for (expr, of) in compared.iter_mut().zip(types.iter_mut()) {
            if of.is_decimal() || of.is_string() || *of == DataType::Float32 {
                **expr = as_double(std::mem::take(*expr));
                *of = DataType::Float64;
            }
        }
    }
    changed || as_doubles
}

/// Gives `nullif` the type of its first argument, as in PostgreSQL and DuckDB: the type that both have in
/// common is for the comparison alone.
pub fn of_nullif(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let of = match &expression {
        Expr::ScalarFunction(call) if call.func.name() == "nullif" => kept_type(&call.args, schema),
        _ => None,
    };
    Ok(match of {
        Some(of) => Transformed::yes(Expr::Cast(Cast::new(Box::new(expression), of))),
        None => Transformed::no(expression),
    })
}

/// Returns the type of the first of two values, if the other one has another type, and the first comes back
/// from the one that both have in common as it was.
fn kept_type(values: &[Expr], schema: &DFSchema) -> Option<DataType> {
    let [first, second] = values else { return None };
    let (of, beside) = (type_of(first, schema).ok()?, type_of(second, schema).ok()?);
    let is_exact = |of: &DataType| of.is_integer() || of.is_decimal();
    let is_day = of == DataType::Date32 && matches!(beside, DataType::Timestamp(_, None));
    (of != beside && (is_exact(&of) && is_exact(&beside) || is_day)).then_some(of)
}

/// Says whether a text is a number that no DECIMAL is: `'nan'` or `'-infinity'`.
fn is_without_digits(text: &Expr) -> bool {
    let is_number =
        |text: &str| text.parse::<f64>().is_ok() && !text.contains(|of: char| of.is_ascii_digit());
    constant(text).is_some_and(|text| is_number(text.trim()))
}

/// A constant text or DOUBLE in digits.
fn constant(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => Some(value.to_string()),
        Expr::Literal(ScalarValue::Float32(Some(value)), _) => Some(f64::from(*value).to_string()),
        Expr::Literal(text, _) => text.try_as_str().flatten().map(str::to_string),
        Expr::Negative(of) => constant(of).map(|text| format!("-{text}")),
        // A DOUBLE as it is written.
        Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Float64 && is_text(expr) => {
            Some(constant(expr)?.trim().parse::<f64>().ok()?.to_string())
        }
        _ => None,
    }
}

/// The DECIMAL that a text as it is written shows, with all its digits, beside one of another type.
pub(crate) fn exact_text(text: &Expr, of: &DataType) -> Option<Expr> {
    if !of.is_decimal() {
        return None;
    }
    let exact = constant(text).and_then(|text| exact_decimal(&text))?;
    fits(&exact.data_type(), std::slice::from_ref(of)).then(|| Expr::Literal(exact, None))
}

/// The digits before and behind the point of numbers that are exact.
pub(crate) fn digits(of: &DataType) -> Option<(i8, i8)> {
    Some(match of {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale) => (*precision as i8 - scale, *scale),
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (10, 0),
        DataType::Int64 | DataType::UInt64 => (20, 0),
        _ => return None,
    })
}

/// The DECIMAL that has all digits of several types.
fn widest<'a>(types: impl IntoIterator<Item = &'a DataType>) -> Option<DataType> {
    let all = types.into_iter().filter_map(digits);
    let (whole, scale) = all.fold((0, 0), |one, other| (one.0.max(other.0), one.1.max(other.1)));
    let precision = u8::try_from(i32::from(whole) + i32::from(scale)).ok()?;
    (precision <= DECIMAL128_MAX_PRECISION).then_some(DataType::Decimal128(precision, scale))
}

/// Whether a DECIMAL has a common type with others that has all digits of both.
fn fits(of: &DataType, others: &[DataType]) -> bool {
    widest(others.iter().chain([of])).is_some()
}

/// The common type of numbers of which some, but not all, are DECIMALs of one type; `None` where it
/// is not for us to say.
pub fn of_decimals(types: &[DataType]) -> Option<DataType> {
    let is_known = |of: &DataType| of.is_null() || of.is_floating() || digits(of).is_some();
    let mut numbers = types.iter().filter(|of| !of.is_null());
    let first = numbers.next()?;
    if !types.iter().all(is_known) || !types.iter().any(DataType::is_decimal) || numbers.all(|of| of == first)
    {
        return None;
    }
    match types.iter().any(DataType::is_floating) {
        true => Some(DataType::Float64),
        false => Some(widest(types).unwrap_or(DataType::Float64)),
    }
}

/// The type in which numbers of several types are compared by their values: a DECIMAL of up to 76 digits, or
/// a DOUBLE beside one. `None` for those of one type, where no DECIMAL has all digits, and for integers that
/// have a common type.
pub(crate) fn of_compared_numbers(types: &[DataType]) -> Option<DataType> {
    let known: Vec<&DataType> = types.iter().filter(|of| !of.is_null()).collect();
    let first = known.first()?;
    let is_wide = |of: &&DataType| of.is_decimal() || matches!(of, DataType::UInt64);
    if known.iter().all(|of| of == first) || !known.iter().any(is_wide) {
        return None;
    }
    let (mut whole, mut scale) = (0, 0);
    for of in known.iter().filter(|of| !of.is_floating()) {
        let digits = match of {
            DataType::Decimal256(precision, scale) => (*precision as i8 - scale, *scale),
            narrow => digits(narrow)?,
        };
        (whole, scale) = (digits.0.max(whole), digits.1.max(scale));
    }
    if known.iter().any(|of| of.is_floating()) {
        return Some(DataType::Float64);
    }
    match u8::try_from(i32::from(whole) + i32::from(scale)).ok()? {
        precision @ ..=DECIMAL128_MAX_PRECISION => Some(DataType::Decimal128(precision, scale)),
        precision @ ..=DECIMAL256_MAX_PRECISION => Some(DataType::Decimal256(precision, scale)),
        _ => None,
    }
}

/// The type of bytes, lists, structures and maps beside NULLs, and that of bytes in several layouts.
/// DataFusion finds none; `None` where it is not for us to say.
pub(crate) fn beside_nulls(types: &[DataType]) -> Option<DataType> {
    let known: Vec<&DataType> = types.iter().filter(|of| !of.is_null()).collect();
    let first = *known.first()?;
    if known.iter().all(|of| *of == first) {
        let is_alone = known.len() == types.len();
        return (!is_alone && (first.is_binary() || first.is_nested())).then(|| first.clone());
    }
    let layouts = [DataType::BinaryView, DataType::LargeBinary, DataType::Binary];
    let are_bytes = known.iter().all(|of| layouts.contains(of));
    layouts.into_iter().find(|layout| are_bytes && known.contains(&layout))
}

/// A number of digits, which may have a sign and a point, as a DECIMAL of no more digits than it
/// has.
pub fn exact_decimal(number: &str) -> Option<ScalarValue> {
    let number = number.trim();
    let (is_negative, number) = match number.strip_prefix('-') {
        Some(number) => (true, number),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let digits = digits.trim_start_matches('0');
    let precision = digits.len().max(fraction.len()).max(1);
    let value: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let precision = u8::try_from(precision).ok().filter(|digits| *digits <= DECIMAL128_MAX_PRECISION)?;
    let scale = i8::try_from(fraction.len()).ok()?;
    Some(ScalarValue::Decimal128(Some(if is_negative { -value } else { value }), precision, scale))
}

/// The parts of a UNION, and the keys of a join, of which some are DECIMALs and some are DOUBLEs.
pub fn of_relations(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Union(mut union) => {
            let places = 0..union.schema.fields().len();
            let mixed: Vec<bool> = places
                .map(|place| {
                    are_mixed(union.inputs.iter().map(|input| input.schema().field(place).data_type()))
                })
                .collect();
            if !mixed.contains(&true) {
                return Ok(Transformed::no(LogicalPlan::Union(union)));
            }
            for input in &mut union.inputs {
                let items = input.schema().iter().zip(&mixed).map(|((relation, field), is_mixed)| {
                    let mut item = Expr::Column(Column::new(relation.cloned(), field.name()));
                    if *is_mixed {
                        make_double(&mut item, field.data_type());
                    }
                    item.alias_qualified(relation.cloned(), field.name())
                });
                *input =
                    Arc::new(LogicalPlan::Projection(Projection::try_new(items.collect(), input.clone())?));
            }
            Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(union.inputs)?)))
        }
        LogicalPlan::Join(mut join) => {
            let mut changed = false;
            for (left, right) in &mut join.on {
                let types = (type_of(left, join.left.schema()), type_of(right, join.right.schema()));
                let (Ok(one), Ok(other)) = types else { continue };
                if are_mixed([&one, &other]) {
                    make_double(left, &one);
                    make_double(right, &other);
                    changed = true;
                }
            }
            Ok(Transformed::new_transformed(LogicalPlan::Join(join), changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_meet_nulls_and_bytes_of_other_layouts() {
        use DataType::{Binary, BinaryView, Int32, LargeBinary, Null, Utf8};
        let list = DataType::new_list(Int32, true);
        assert_eq!(beside_nulls(&[BinaryView, Null]), Some(BinaryView));
        assert_eq!(beside_nulls(&[Null, list.clone(), Null]), Some(list.clone()));
        assert_eq!(beside_nulls(&[Binary, LargeBinary, Null]), Some(LargeBinary));
        assert_eq!(beside_nulls(&[Binary, BinaryView, LargeBinary]), Some(BinaryView));
        for others in [
            vec![],
            vec![Null],
            vec![Binary, Binary],
            vec![Int32, Null],
            vec![Binary, Utf8],
            vec![list, Binary],
        ] {
            assert_eq!(beside_nulls(&others), None, "{others:?}");
        }
    }

    #[test]
    fn numbers_have_their_own_digits() {
        for (text, precision, scale, value) in [
            ("0.1", 1, 1, 1),
            ("0.001", 3, 3, 1),
            ("-1.50", 3, 2, -150),
            ("00.5", 1, 1, 5),
            ("5.", 1, 0, 5),
            (".25", 2, 2, 25),
            ("+0.0", 1, 1, 0),
            ("0", 1, 0, 0),
        ] {
            let expected = ScalarValue::Decimal128(Some(value), precision, scale);
            assert_eq!(exact_decimal(text), Some(expected), "{text}");
        }
        for text in ["", ".", "-", "1e5", "NaN", "inf", "1.2.3", "123456789012345678901234567890123456789"] {
            assert_eq!(exact_decimal(text), None, "{text}");
        }
    }
}
