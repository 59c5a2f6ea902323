//! Parameters that are operands have the types of their values. The planner would give one the type
//! of what stands beside it, and an INTERVAL beside a TIMESTAMP is none. They become casts to their
//! own types before the statement is planned, which go away again when the values are put in. JSON is
//! cast everywhere: its values are texts, and a text is another value than the JSON that it shows.

use crate::session::Parameters;
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::logical_expr::Expr as PlanExpr;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType as SqlType, ExactNumberInfo, Expr, FunctionArg, FunctionArgExpr,
    FunctionArguments, Statement, TimezoneInfo, UnaryOperator, Value,
};
use hypostyle_expr::walk::map_expressions;
use hypostyle_sql::walk::expressions_mut;
use std::ops::ControlFlow;

/// Functions that operators of JSON are written as.
const OF_JSON: [&str; 4] = ["json_as_text", "json_get", "json_get_json", "json_get_str"];

/// What is known of a parameter's type.
enum Known {
    Type(DataType),
    /// It is a text or NULL, or nobody has said it.
    Open,
}

/// Writes casts around parameters whose types the planner would not find, and says whether it did.
pub(super) fn give_types(statement: &mut Statement, parameters: &Parameters) -> bool {
    give(statement, &|mark| match parameters.value(mark).map(ScalarValue::data_type) {
        Some(known) if !(known.is_null() || known.is_string()) => Known::Type(known),
        _ => Known::Open,
    })
}

/// Does the same for a statement that is described, of which the caller knows some types.
pub(super) fn give_told(statement: &mut Statement, told: &[Option<DataType>]) {
    give(statement, &|mark| {
        let number = mark.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
        let told = number.and_then(|number| told.get(number.checked_sub(1)?)?.clone());
        match told.filter(|told| !(told.is_null() || told.is_string())) {
            Some(known) => Known::Type(known),
            None => Known::Open,
        }
    });
}

fn give(statement: &mut Statement, known: &dyn Fn(&str) -> Known) -> bool {
    let mut some = false;
    let of_json = |mark: &str| match known(mark) {
        Known::Type(of) if of == Parameters::json_type() => Some(SqlType::JSON),
        _ => None,
    };
    let _done: ControlFlow<()> = expressions_mut(statement, &mut |expr| {
        some |= cast_parameter(expr, &of_json);
        some |= give_operands(expr, known);
        ControlFlow::Continue(())
    });
    some
}

/// Writes casts around the operands of an expression, and says whether it did.
fn give_operands(expr: &mut Expr, known: &dyn Fn(&str) -> Known) -> bool {
    let typed = |operand: &mut Expr, wanted: fn(&DataType) -> Option<SqlType>| {
        cast_parameter(operand, &|mark| match known(mark) {
            Known::Type(known) => wanted(&known),
            Known::Open => None,
        })
    };
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::Plus | BinaryOperator::Minus, right } => {
            typed(left, number_or_time) | typed(right, number_or_time)
        }
        Expr::BinaryOp { left, op: BinaryOperator::Multiply | BinaryOperator::Divide, right } => {
            typed(left, time) | typed(right, time)
        }
        Expr::BinaryOp { left, op, .. } if is_of_json(op) => cast_parameter(left, &json(known)),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => typed(expr, any_number_or_time),
        Expr::Extract { expr, .. } | Expr::AtTimeZone { timestamp: expr, .. } => typed(expr, time),
        Expr::Function(function) => {
            let name = function.name.to_string();
            let is_of_json = OF_JSON.contains(&name.as_str());
            // DataFusion has no sum of what it knows no type of.
            let wanted: fn(&DataType) -> Option<SqlType> =
                if name.eq_ignore_ascii_case("sum") { any_number_or_time } else { time };
            let FunctionArguments::List(list) = &mut function.args else { return false };
            let mut some = false;
            for (place, argument) in list.args.iter_mut().enumerate() {
                let (FunctionArg::Unnamed(argument)
                | FunctionArg::Named { arg: argument, .. }
                | FunctionArg::ExprNamed { arg: argument, .. }) = argument;
                let FunctionArgExpr::Expr(argument) = argument else { continue };
                some |= typed(argument, wanted);
                if place == 0 && is_of_json {
                    some |= cast_parameter(argument, &json(known));
                }
            }
            some
        }
        _ => false,
    }
}

fn is_of_json(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Arrow, HashArrow, HashLongArrow, LongArrow, Question};
    matches!(op, Arrow | LongArrow | HashArrow | HashLongArrow | Question)
}

/// Returns JSON for a parameter that is not surely something else.
fn json(known: &dyn Fn(&str) -> Known) -> impl Fn(&str) -> Option<SqlType> {
    move |mark| matches!(known(mark), Known::Open).then_some(SqlType::JSON)
}

/// Writes a cast around an operand that is a parameter.
fn cast_parameter(operand: &mut Expr, of: &dyn Fn(&str) -> Option<SqlType>) -> bool {
    match operand {
        Expr::Nested(inner) => cast_parameter(inner, of),
        Expr::Value(value) => {
            let Value::Placeholder(mark) = &value.value else { return false };
            let Some(data_type) = of(mark) else { return false };
            let parameter = std::mem::replace(operand, Expr::Value(Value::Null.into()));
            let expr = Box::new(parameter);
            *operand = Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None };
            true
        }
        _ => false,
    }
}

/// Returns SQL's name of a type of times, dates and intervals.
fn time(of: &DataType) -> Option<SqlType> {
    let digits = |unit: &TimeUnit| match unit {
        TimeUnit::Second => Some(0),
        TimeUnit::Millisecond => Some(3),
        TimeUnit::Microsecond => None,
        TimeUnit::Nanosecond => Some(9),
    };
    Some(match of {
        DataType::Date32 => SqlType::Date,
        DataType::Time64(TimeUnit::Microsecond) => SqlType::Time(None, TimezoneInfo::None),
        DataType::Timestamp(unit, None) => SqlType::Timestamp(digits(unit), TimezoneInfo::None),
        DataType::Timestamp(unit, Some(_)) => SqlType::Timestamp(digits(unit), TimezoneInfo::Tz),
        // What Python has for both.
        DataType::Interval(IntervalUnit::MonthDayNano) | DataType::Duration(_) => {
            SqlType::Interval { fields: None, precision: None }
        }
        _ => return None,
    })
}

fn any_number_or_time(of: &DataType) -> Option<SqlType> {
    match of {
        DataType::Float32 => Some(SqlType::Real),
        DataType::Float64 => Some(SqlType::Double(ExactNumberInfo::None)),
        DataType::Decimal128(precision, scale) => {
            let digits = ExactNumberInfo::PrecisionAndScale(u64::from(*precision), i64::from(*scale));
            Some(SqlType::Decimal(digits))
        }
        other => number_or_time(other),
    }
}

fn number_or_time(of: &DataType) -> Option<SqlType> {
    match of {
        DataType::Int8 => Some(SqlType::TinyInt(None)),
        DataType::Int16 => Some(SqlType::SmallInt(None)),
        DataType::Int32 => Some(SqlType::Integer(None)),
        DataType::Int64 => Some(SqlType::BigInt(None)),
        other => time(other),
    }
}

/// Takes the casts away of parameters whose values have the types already: the plan is then the one
/// of the values as they are.
pub(super) fn without_own_casts(
    plan: LogicalPlan,
    values: &ParamValues,
) -> datafusion::error::Result<LogicalPlan> {
    let is_own = |expr: &PlanExpr| match expr {
        PlanExpr::Cast(cast) => match cast.expr.as_ref() {
            PlanExpr::Placeholder(placeholder) => values
                .get_placeholders_with_values(&placeholder.id)
                .is_ok_and(|value| value.value.data_type() == *cast.field.data_type()),
            _ => false,
        },
        _ => false,
    };
    let found = plan.transform_up_with_subqueries(|node| {
        let mut some = false;
        node.apply_expressions(|expr| {
            some |= expr.exists(|part| Ok(is_own(part)))?;
            Ok(if some { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !some {
            return Ok(Transformed::no(node));
        }
        map_expressions(node, |part| match part {
            PlanExpr::Cast(cast) if is_own(&PlanExpr::Cast(cast.clone())) => match *cast.expr {
                // One without a type would get that of its neighbour now.
                PlanExpr::Placeholder(placeholder) => {
                    let field = Some(cast.field);
                    let typed = Placeholder { field, ..placeholder };
                    Ok(Transformed::yes(PlanExpr::Placeholder(typed)))
                }
                other => Ok(Transformed::yes(other)),
            },
            other => Ok(Transformed::no(other)),
        })
    })?;
    Ok(found.data)
}
