//! Values as statements write them: literals, parameters, `now()`, DEFAULT and casts of them, which
//! are known without a plan.

use arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType as SqlType, ExactNumberInfo, Expr, TimezoneInfo, UnaryOperator, Value,
};
use hypostyle_exec::scan::engine_type;
use hypostyle_expr::cast::{cast_scalar, exact_double};
use hypostyle_expr::common_type::exact_decimal;
use hypostyle_expr::types::{TypeNames, logical_type};
use hypostyle_sql::doubles::is_double;
use hypostyle_types::LogicalType;

/// A value as a statement writes it.
#[derive(Debug)]
pub(crate) enum GivenValue {
    Literal(ScalarValue),
    /// The parameter, from 0.
    Parameter(usize),
    /// DEFAULT.
    Default,
    /// The point in time at which the transaction began.
    Now,
    /// One of them, cast to the type of a field.
    Cast(Box<GivenValue>, Field),
}

/// Returns an expression as such a value, and counts parameters up to the highest; `None` for what has to be
/// planned.
pub(crate) fn given(value: &Expr, parameters: &mut usize) -> Option<GivenValue> {
    let literal = |value| Some(GivenValue::Literal(value));
    match value {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number_of(number).and_then(literal),
            Value::SingleQuotedString(text) => literal(ScalarValue::Utf8(Some(text.clone()))),
            Value::Boolean(value) => literal(ScalarValue::Boolean(Some(*value))),
            Value::Null => literal(ScalarValue::Null),
            Value::Placeholder(name) => {
                let number: usize = name.strip_prefix('$')?.parse().ok().filter(|number| *number > 0)?;
                *parameters = number.max(*parameters);
                Some(GivenValue::Parameter(number - 1))
            }
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(value) => match &value.value {
                Value::Number(number, _) => match number_of(number)? {
                    ScalarValue::Int64(Some(number)) => literal(ScalarValue::Int64(Some(-number))),
                    ScalarValue::Float64(Some(number)) => literal(ScalarValue::Float64(Some(-number))),
                    ScalarValue::Decimal128(Some(number), precision, scale) => {
                        literal(ScalarValue::Decimal128(Some(-number), precision, scale))
                    }
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        },
        Expr::Nested(inner) => given(inner, parameters),
        value if is_default(value) => Some(GivenValue::Default),
        Expr::Function(function) => of_the_time(&function.to_string()),
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr,
            data_type,
            array: false,
            format: None,
        } => {
            let field = cast_field(data_type)?;
            given(expr, parameters).map(|value| GivenValue::Cast(Box::new(value), field))
        }
        Expr::TypedString(typed) => {
            let Value::SingleQuotedString(text) = &typed.value.value else { return None };
            let text = GivenValue::Literal(ScalarValue::Utf8(Some(text.clone())));
            cast_field(&typed.data_type).map(|field| GivenValue::Cast(Box::new(text), field))
        }
        _ => None,
    }
}

pub(crate) fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(name) if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default"))
}

/// Returns the parameter that an expression is, as it is or cast to types that mean the same everywhere.
pub(crate) fn parameter_of(expr: &Expr) -> Option<GivenValue> {
    fn is_parameter(value: &GivenValue) -> bool {
        match value {
            GivenValue::Parameter(_) => true,
            GivenValue::Cast(value, _) => is_parameter(value),
            _ => false,
        }
    }
    given(expr, &mut 0).filter(is_parameter)
}

/// Says whether an expression is a cast to a type that no catalog has to be asked for.
pub(crate) fn is_plain_cast(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, data_type, array: false, format: None, .. }
        if cast_field(data_type).is_some())
}

/// Returns the value of a parameter; `None` if there is none, or a cast fails or depends on settings.
pub(crate) fn value_alone(value: &GivenValue, parameters: &[ScalarValue]) -> Option<ScalarValue> {
    match value {
        GivenValue::Parameter(number) => parameters.get(*number).cloned(),
        GivenValue::Cast(value, field) => {
            let value = value_alone(value, parameters)?;
            let (from, to) = (value.data_type(), field.data_type());
            let is_simple = |of: &DataType| of.is_integer() || of.is_string() || *of == DataType::Boolean;
            let is_number = |of: &DataType| of.is_floating() || is_decimal(of);
            let fits =
                is_simple(&from) && (is_simple(to) || is_number(to)) || is_number(&from) && is_number(to);
            (fits && field.metadata().is_empty()).then(|| cast_to(&value, field)).flatten()
        }
        GivenValue::Literal(_) | GivenValue::Default | GivenValue::Now => None,
    }
}

/// Casts a value without arrays, if it is one of the usual casts.
pub(crate) fn cast_to(value: &ScalarValue, field: &Field) -> Option<ScalarValue> {
    // A text is not yet JSON or a UUID.
    let is_checked = field.data_type().is_string() && !field.metadata().is_empty();
    match (value, field.data_type()) {
        _ if is_checked => cast_scalar(value, field).ok(),
        (ScalarValue::Int64(Some(number)), DataType::Int32) => {
            i32::try_from(*number).ok().map(|number| ScalarValue::Int32(Some(number)))
        }
        (ScalarValue::Utf8(text), DataType::Utf8View) => Some(ScalarValue::Utf8View(text.clone())),
        (ScalarValue::Decimal128(Some(number), _, scale), DataType::Float64)
            if let Some(double) = exact_double(*number, *scale) =>
        {
            Some(ScalarValue::Float64(Some(double)))
        }
        (value, data_type) if value.data_type() == *data_type => Some(value.clone()),
        _ => cast_scalar(value, field).ok(),
    }
}

pub(crate) fn is_decimal(of: &DataType) -> bool {
    matches!(of, DataType::Decimal128(..) | DataType::Decimal256(..))
}

/// Returns the value of a call of a function that gives the transaction's time.
fn of_the_time(call: &str) -> Option<GivenValue> {
    match call.trim_end_matches("()").to_ascii_lowercase().as_str() {
        "now" | "current_timestamp" | "transaction_timestamp" => Some(GivenValue::Now),
        "current_date" => {
            let field = Field::new("", engine_type(&LogicalType::Date), true);
            Some(GivenValue::Cast(Box::new(GivenValue::Now), field))
        }
        _ => None,
    }
}

/// Returns the type of a cast; `None` for those that the planner must look at.
fn cast_field(data_type: &SqlType) -> Option<Field> {
    let is_plain = match data_type {
        SqlType::Boolean
        | SqlType::Bool
        | SqlType::TinyInt(None)
        | SqlType::SmallInt(None)
        | SqlType::Int2(None)
        | SqlType::Int(None)
        | SqlType::Integer(None)
        | SqlType::Int4(None)
        | SqlType::BigInt(None)
        | SqlType::Int8(None)
        | SqlType::Real
        | SqlType::Float(_)
        | SqlType::Float4
        | SqlType::Double(_)
        | SqlType::DoublePrecision
        | SqlType::Float8
        | SqlType::Text
        | SqlType::Varchar(None)
        | SqlType::CharacterVarying(None)
        | SqlType::Bytea
        | SqlType::Date
        | SqlType::Time(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone)
        | SqlType::Timestamp(None, _)
        | SqlType::Interval { fields: None, precision: None }
        | SqlType::Uuid
        | SqlType::JSON => true,
        SqlType::Decimal(info) | SqlType::Numeric(info) => *info != ExactNumberInfo::None,
        _ => false,
    };
    if *data_type == SqlType::JSONB {
        // Its text is written in one way.
        return TypeNames.plan_type_field(data_type).ok()?.map(|field| field.as_ref().clone());
    }
    let logical_type = is_plain.then(|| logical_type(data_type).ok())??;
    Some(logical_type.mark(Field::new("", engine_type(&logical_type), true)))
}

/// Returns the types that the planner gives to numbers.
fn number_of(number: &str) -> Option<ScalarValue> {
    match number.parse::<i64>() {
        Ok(number) => Some(ScalarValue::Int64(Some(number))),
        Err(_) if is_double(number) => number.parse().ok().map(|number| ScalarValue::Float64(Some(number))),
        Err(_) if number.contains('.') => exact_decimal(number),
        Err(_) => None,
    }
}
