//! Arithmetic with intervals, and their order.

use crate::comparison::{is_text, operands};
use crate::impl_portable;
use crate::time_difference;
use crate::wanted::check_wanted;
use arrow::array::{
    AsArray, Date32Array, Decimal128Array, IntervalMonthDayNanoArray, Time64MicrosecondArray,
};
use arrow::compute::kernels::arity::try_binary;
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Date32Type, Float64Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType, TimeUnit,
};
use arrow::error::ArrowError;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, plan_datafusion_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions::datetime::expr_fn::date_part;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, Cast, ScalarFunction, Sort, WindowFunctionParams};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, binary_expr, lit,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use hypostyle_types::DAY_MICROSECONDS;
use hypostyle_types::Error;
use std::sync::{Arc, LazyLock};

pub const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

pub fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|of| of == INTERVAL)
}

/// Plans products and quotients of intervals and numbers, for which there are no operators.
#[derive(Debug)]
pub struct Scaling;

impl ExprPlanner for Scaling {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        check_wanted()?;
        let is_factor = |expr: &Expr| {
            matches!(expr, Expr::Placeholder(_)) || expr.get_type(schema).is_ok_and(|of| of.is_numeric())
        };
        let (interval, factor) = match expr.op {
            BinaryOperator::Multiply if is_interval(&expr.left, schema) && is_factor(&expr.right) => {
                (expr.left, expr.right)
            }
            BinaryOperator::Multiply if is_interval(&expr.right, schema) && is_factor(&expr.left) => {
                (expr.right, expr.left)
            }
            BinaryOperator::Divide if is_interval(&expr.left, schema) && is_factor(&expr.right) => {
                (expr.left, expr.right)
            }
            BinaryOperator::Plus | BinaryOperator::Minus => return moved(expr, schema),
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let is_quotient = expr.op == BinaryOperator::Divide;
        Ok(PlannerResult::Planned(scaled_by(interval, factor, is_quotient)))
    }
}

/// An interval so many times, or its so manieth part.
pub fn scaled_by(interval: Expr, factor: Expr, is_quotient: bool) -> Expr {
    static SCALED: LazyLock<[Arc<ScalarUDF>; 2]> = LazyLock::new(|| {
        [false, true].map(|is_quotient| Arc::new(ScalarUDF::from(Scaled::new(is_quotient))))
    });
    let function = SCALED[usize::from(is_quotient)].clone();
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![interval, factor]))
}

/// A day, or a point in time, and a time of day after it, or before it, as in PostgreSQL.
fn at_time(day: &Expr, op: Operator, time: &Expr, schema: &DFSchema) -> Option<Expr> {
    if !matches!(time.get_type(schema), Ok(DataType::Time64(_))) {
        return None;
    }
    let day = match day.get_type(schema) {
        Ok(DataType::Date32) => {
            let timestamp = DataType::Timestamp(TimeUnit::Microsecond, None);
            Expr::Cast(Cast::new(Box::new(day.clone()), timestamp))
        }
        Ok(DataType::Timestamp(..)) => day.clone(),
        _ => return None,
    };
    let second = IntervalMonthDayNano::new(0, 0, 1_000_000_000);
    let second = lit(ScalarValue::IntervalMonthDayNano(Some(second)));
    let seconds = date_part(lit("epoch"), time.clone());
    Some(binary_expr(day, op, scaled_by(second, seconds, false)))
}

/// A date so many days later or earlier, as many as there are: DataFusion makes nanoseconds of the days, of
/// which 64 bits have 106,751.
fn days_later(day: &Expr, op: Operator, days: &Expr, schema: &DFSchema) -> Option<Expr> {
    let is_date = matches!(day.get_type(schema), Ok(DataType::Date32));
    if !is_date || !days.get_type(schema).is_ok_and(|of| of.is_integer()) {
        return None;
    }
    static LATER: LazyLock<[Arc<ScalarUDF>; 2]> =
        LazyLock::new(|| [false, true].map(|is_plus| Arc::new(ScalarUDF::from(DaysLater::new(is_plus)))));
    let function = LATER[usize::from(op == Operator::Plus)].clone();
    let days = Expr::Cast(Cast::new(Box::new(days.clone()), DataType::Int64));
    Some(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![day.clone(), days])))
}

/// A difference of points in time, or of times of day. And a date and an interval, which make a TIMESTAMP,
/// as a part of a day may be in it; and a time of day and an interval.
fn moved(mut expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    let is_plus = expr.op == BinaryOperator::Plus;
    if !is_plus && let Some(difference) = time_difference::of(&expr.left, &expr.right, schema) {
        return Ok(PlannerResult::Planned(difference));
    }
    let op = if is_plus { Operator::Plus } else { Operator::Minus };
    let turned = || days_later(&expr.right, op, &expr.left, schema).filter(|_| is_plus);
    if let Some(day) = days_later(&expr.left, op, &expr.right, schema).or_else(turned) {
        return Ok(PlannerResult::Planned(day));
    }
    let turned = || at_time(&expr.right, op, &expr.left, schema).filter(|_| is_plus);
    if let Some(moment) = at_time(&expr.left, op, &expr.right, schema).or_else(turned) {
        return Ok(PlannerResult::Planned(moment));
    }
    if is_plus && is_interval(&expr.left, schema) {
        std::mem::swap(&mut expr.left, &mut expr.right);
    }
    if !is_interval(&expr.right, schema) {
        return Ok(PlannerResult::Original(expr));
    }
    let is_whole = |interval: &Expr| matches!(interval, Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(value)), _) if value.nanoseconds == 0);
    match expr.left.get_type(schema) {
        Ok(DataType::Date32) if !is_whole(&expr.right) => {
            let timestamp = DataType::Timestamp(TimeUnit::Microsecond, None);
            let left = Expr::Cast(Cast::new(Box::new(expr.left), timestamp));
            Ok(PlannerResult::Planned(binary_expr(left, op, expr.right)))
        }
        Ok(time @ DataType::Time64(TimeUnit::Microsecond))
        | Ok(time @ DataType::Time64(TimeUnit::Nanosecond)) => {
            static MOVED: LazyLock<[Arc<ScalarUDF>; 2]> = LazyLock::new(|| {
                [false, true].map(|is_plus| Arc::new(ScalarUDF::from(TimeMoved::new(is_plus))))
            });
            let micros = DataType::Time64(TimeUnit::Microsecond);
            let left = match time == micros {
                true => expr.left,
                false => Expr::Cast(Cast::new(Box::new(expr.left), micros)),
            };
            let function = MOVED[usize::from(is_plus)].clone();
            let call = ScalarFunction::new_udf(function, vec![left, expr.right]);
            Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
        }
        _ => Ok(PlannerResult::Original(expr)),
    }
}

/// A date so many days later or earlier.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct DaysLater {
    is_plus: bool,
    signature: Signature,
}

impl DaysLater {
    fn new(is_plus: bool) -> Self {
        let types = vec![DataType::Date32, DataType::Int64];
        Self { is_plus, signature: Signature::exact(types, Volatility::Immutable) }
    }
}

impl_portable!(DaysLater, "days_later", is_plus: bool);

impl ScalarUDFImpl for DaysLater {
    fn name(&self) -> &str {
        if self.is_plus { "date_plus" } else { "date_minus" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Date32)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [dates, days] = args.args.as_slice() else {
            return Err(plan_datafusion_err!("a date is moved by one number of days"));
        };
        let (dates, days) = (dates.to_array(args.number_rows)?, days.to_array(args.number_rows)?);
        let later = |date: i32, days: i64| {
            let date = i64::from(date);
            let day = if self.is_plus { date.checked_add(days) } else { date.checked_sub(days) };
            day.and_then(|day| i32::try_from(day).ok()).ok_or_else(|| {
                let error = Error::invalid_input("date out of range").with_sqlstate("22008");
                ArrowError::ExternalError(Box::new(error))
            })
        };
        let (dates, days) = (dates.as_primitive::<Date32Type>(), days.as_primitive::<Int64Type>());
        let later: Date32Array = try_binary(dates, days, later)?;
        Ok(ColumnarValue::Array(Arc::new(later)))
    }
}

/// A time of day so much later or earlier, modulo 24 hours.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct TimeMoved {
    is_plus: bool,
    signature: Signature,
}

impl TimeMoved {
    fn new(is_plus: bool) -> Self {
        Self { is_plus, signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl_portable!(TimeMoved, "time_moved", is_plus: bool);

impl ScalarUDFImpl for TimeMoved {
    fn name(&self) -> &str {
        if self.is_plus { "time_plus" } else { "time_minus" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Time64(TimeUnit::Microsecond))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [times, intervals] = args.args.as_slice() else {
            return Err(plan_datafusion_err!("a time of day is moved by one interval"));
        };
        let times = times.to_array(args.number_rows)?;
        let intervals = intervals.to_array(args.number_rows)?;
        let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>().iter();
        let moved = times.as_primitive::<Time64MicrosecondType>().iter().zip(intervals);
        let moved: Time64MicrosecondArray = moved
            .map(|(time, interval)| {
                let by = interval?.nanoseconds / 1000 % DAY_MICROSECONDS;
                Some((time? + if self.is_plus { by } else { -by }).rem_euclid(DAY_MICROSECONDS))
            })
            .collect();
        Ok(ColumnarValue::Array(Arc::new(moved)))
    }
}

/// An interval so many times, or divided by so many: a fraction of a month becomes days of it, one
/// of a day becomes a time, as in PostgreSQL.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scaled {
    is_quotient: bool,
    signature: Signature,
}

impl Scaled {
    fn new(is_quotient: bool) -> Self {
        let signature = Signature::exact(vec![INTERVAL, DataType::Float64], Volatility::Immutable);
        Self { is_quotient, signature }
    }
}

impl_portable!(Scaled, "interval_scaled", is_quotient: bool);

impl ScalarUDFImpl for Scaled {
    fn name(&self) -> &str {
        if self.is_quotient { "interval_quotient" } else { "interval_scaled" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [intervals, factors] = args.args.as_slice() else {
            return Err(plan_datafusion_err!("an interval is multiplied with one number"));
        };
        let (intervals, factors) =
            (intervals.to_array(args.number_rows)?, factors.to_array(args.number_rows)?);
        let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>().iter();
        let factors = factors.as_primitive::<Float64Type>().iter();
        let scaled = intervals.zip(factors).map(|pair| match pair {
            (Some(_), Some(0.0)) if self.is_quotient => Err(ArrowError::DivideByZero.into()),
            (Some(interval), Some(factor)) => scaled(interval, factor, self.is_quotient).map(Some),
            _ => Ok(None),
        });
        let scaled: IntervalMonthDayNanoArray = scaled.collect::<Result<_>>()?;
        Ok(ColumnarValue::Array(Arc::new(scaled)))
    }
}

/// # Errors
/// 22008 where it is out of range, or the factor is no number.
pub fn scaled(
    interval: IntervalMonthDayNano,
    factor: f64,
    is_quotient: bool,
) -> Result<IntervalMonthDayNano> {
    let times = |part: f64| if is_quotient { part / factor } else { part * factor };
    in_parts(interval, times).ok_or_else(|| {
        let error = Error::invalid_input("interval out of range").with_sqlstate("22008");
        DataFusionError::External(Box::new(error))
    })
}

/// Returns an interval whose parts are multiplied or divided, as PostgreSQL's `interval_mul` and
/// `interval_div` do: each rest is rounded to the microsecond before it goes on to the next part.
fn in_parts(interval: IntervalMonthDayNano, times: impl Fn(f64) -> f64) -> Option<IntervalMonthDayNano> {
    const DAY_SECONDS: f64 = 86_400.0;
    // A sum of binary parts has no exact tenths.
    let rounded = |value: f64| (value * 1e6).round_ties_even() / 1e6;
    let whole = |value: f64, max: f64| (-max - 1.0..=max).contains(&value.trunc()).then_some(value.trunc());
    let max = f64::from(i32::MAX);
    let (months, days) = (times(f64::from(interval.months)), times(f64::from(interval.days)));
    let days_of_months = rounded(months.fract() * 30.0);
    let seconds = rounded((days.fract() + days_of_months.fract()) * DAY_SECONDS);
    let days_of_seconds = (seconds / DAY_SECONDS).trunc();
    let seconds = seconds - days_of_seconds * DAY_SECONDS;
    let days = whole(days.trunc() + days_of_months.trunc() + days_of_seconds, max)? as i32;
    let microseconds = (times(interval.nanoseconds as f64 / 1e3) + seconds * 1e6).round_ties_even();
    let nanoseconds = (whole(microseconds, 9.2e15)? as i64).checked_mul(1000)?;
    Some(IntervalMonthDayNano::new(whole(months, max)? as i32, days, nanoseconds))
}

/// Casts text that is compared with an interval to an interval.
pub fn with_intervals(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Some(compared) = operands(&mut expression) else { return Ok(Transformed::no(expression)) };
    if !compared.iter().any(|expr| is_text(expr)) || !compared.iter().any(|expr| is_interval(expr, schema)) {
        return Ok(Transformed::no(expression));
    }
    for expr in compared.into_iter().filter(|expr| is_text(expr)) {
        *expr = Expr::Cast(Cast::new(Box::new(std::mem::take(expr)), INTERVAL));
    }
    Ok(Transformed::yes(expression))
}

/// Reads hours, minutes and seconds of a difference of two points in time as those of its last day,
/// hour and minute, as for an interval. DataFusion gives all of them.
pub fn parts_of_durations(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = &expression else {
        return Ok(Transformed::no(expression));
    };
    let [Expr::Literal(part, _), of] = args.as_slice() else { return Ok(Transformed::no(expression)) };
    let part = part.try_as_str().flatten().map(str::to_ascii_lowercase);
    let whole = match part.as_deref() {
        Some("hour" | "hours") => 24,
        Some("minute" | "minutes" | "second" | "seconds") => 60,
        Some("millisecond" | "milliseconds") => 60_000,
        Some("microsecond" | "microseconds") => 60_000_000,
        _ => return Ok(Transformed::no(expression)),
    };
    if func.name() != "date_part" || !matches!(of.get_type(schema), Ok(DataType::Duration(_))) {
        return Ok(Transformed::no(expression));
    }
    Ok(Transformed::yes(binary_expr(expression, Operator::Modulo, lit(whole))))
}

/// Intervals are compared by their lengths, as in PostgreSQL and DuckDB: a month has 30 days, a day
/// 24 hours. Arrow compares the months, then the days, then the rest.
pub fn by_length(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Expr::AggregateFunction(call) = &mut expression {
        let changed = first_by_length(call, schema);
        return Ok(Transformed::new_transformed(expression, changed));
    }
    let Some(compared) = operands(&mut expression) else { return Ok(Transformed::no(expression)) };
    if !compared.iter().all(|expr| is_interval(expr, schema)) {
        return Ok(Transformed::no(expression));
    }
    for expr in compared {
        *expr = length_of(std::mem::take(expr));
    }
    Ok(Transformed::yes(expression))
}

/// Windows that are divided and ordered by intervals go by their lengths, before the types of their
/// frames are looked at.
pub fn windows_by_length(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(call) = &mut expression else { return Ok(Transformed::no(expression)) };
    let WindowFunctionParams { partition_by, order_by, .. } = &mut call.params;
    let keys = partition_by.iter_mut().chain(order_by.iter_mut().map(|key| &mut key.expr));
    let mut changed = false;
    for key in keys.filter(|key| is_interval(key, schema)) {
        *key = length_of(std::mem::take(key));
        changed = true;
    }
    Ok(Transformed::new_transformed(expression, changed))
}

/// Makes of `min` and `max` of intervals the first one by length, and counts those of other
/// lengths.
fn first_by_length(call: &mut AggregateFunction, schema: &DFSchema) -> bool {
    if let ("count", true, [of]) = (call.func.name(), call.params.distinct, call.params.args.as_mut_slice())
        && is_interval(of, schema)
    {
        *of = length_of(std::mem::take(of));
        return true;
    }
    let asc = match (call.func.name(), call.params.args.as_slice()) {
        (name @ ("min" | "max"), [of]) if is_interval(of, schema) => name == "min",
        _ => return false,
    };
    let expr = length_of(call.params.args[0].clone());
    call.params.order_by = vec![Sort { expr, asc, nulls_first: false }];
    call.params.distinct = false;
    call.func = first_value_udaf();
    true
}

/// Returns what intervals are compared and sorted by.
pub fn length_of(interval: Expr) -> Expr {
    static LENGTH: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(IntervalLength::default())));
    Expr::ScalarFunction(ScalarFunction::new_udf(LENGTH.clone(), vec![interval]))
}

/// Sorts intervals by their lengths.
pub fn sorted_by_length(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Sort(sort) = &plan else { return Ok(Transformed::no(plan)) };
    let schema = sort.input.schema();
    if !sort.expr.iter().any(|key| is_interval(&key.expr, schema)) {
        return Ok(Transformed::no(plan));
    }
    let mut sort = sort.clone();
    for key in sort.expr.iter_mut().filter(|key| is_interval(&key.expr, schema)) {
        key.expr = length_of(std::mem::take(&mut key.expr));
    }
    Ok(Transformed::yes(LogicalPlan::Sort(sort)))
}

/// The nanoseconds of an interval: a month has 30 days, a day 24 hours.
pub fn length(IntervalMonthDayNano { months, days, nanoseconds }: IntervalMonthDayNano) -> i128 {
    const DAY: i128 = 86_400_000_000_000;
    (i128::from(months) * 30 + i128::from(days)) * DAY + i128::from(nanoseconds)
}

/// The nanoseconds of intervals.
pub fn lengths(intervals: &IntervalMonthDayNanoArray) -> Result<Decimal128Array> {
    let lengths: Decimal128Array = intervals.unary(length);
    Ok(lengths.with_precision_and_scale(DECIMAL128_MAX_PRECISION, 0)?)
}

/// [`lengths`].
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct IntervalLength {
    signature: Signature,
}

impl Default for IntervalLength {
    fn default() -> Self {
        Self { signature: Signature::exact(vec![INTERVAL], Volatility::Immutable) }
    }
}

impl_portable!(IntervalLength, "interval_length");

impl ScalarUDFImpl for IntervalLength {
    fn name(&self) -> &str {
        "interval_length"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        Ok(ColumnarValue::Array(Arc::new(lengths(arrays[0].as_primitive())?)))
    }
}
