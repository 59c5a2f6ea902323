//! AT TIME ZONE, as PostgreSQL's function `timezone`, and the session's time zone.

use crate::cast::{cast as cast_as_sql, nested, only_value};
use crate::cast_target::{CastTarget, as_cast, portable_cast};
use crate::impl_portable;
use crate::structures::places;
use crate::walk::{has_expression, map_expressions, schema_below};
use crate::zone_name;
use arrow::array::timezone::Tz;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Datum, Int64Array, IntervalMonthDayNanoArray, StringArray,
};
use arrow::compute::cast;
use arrow::compute::kernels::numeric::{add, sub};
use arrow::compute::kernels::zip::zip;
use arrow::datatypes::DataType::{Date32, Date64, Interval, Time32, Time64, Timestamp};
use arrow::datatypes::{
    DataType, Field, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
    TimeUnit,
};
use arrow::error::{ArrowError, Result as ArrowResult};
use chrono::{DateTime, Duration, NaiveDateTime, Offset, TimeZone};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, TryCast, Volatility, lit,
};
use datafusion::optimizer::AnalyzerRule;
use hypostyle_error::{external, from_datafusion};
use hypostyle_types::{Error, LogicalType, recurring};
use std::sync::Arc;

/// Returns the name of a time zone that a session is to have, as the table of zones writes it: in a
/// statement it has any case.
///
/// # Errors
/// `InvalidInput` (22023).
pub fn session_zone(name: &str) -> hypostyle_types::Result<String> {
    // PostgreSQL has several names of this one, and two that mean what a session begins with.
    const UTC: [&str; 8] = ["utc", "gmt", "z", "zulu", "0", "etc/utc", "local", "default"];
    let trimmed = name.trim();
    if UTC.iter().any(|known| trimmed.eq_ignore_ascii_case(known)) {
        return Ok("UTC".into());
    }
    let of_hours = || offset_of_hours(trimmed).and_then(|offset| zone_name::of_table(&offset).ok());
    zone_name::of_table(trimmed).ok().or_else(of_hours).map(|zone| zone.to_string()).ok_or_else(|| {
        let message = format!(
            "invalid value for parameter \"TimeZone\": \"{name}\"; see pg_timezone_names, or write an offset, as '+02:00'"
        );
        Error::invalid_input(message).with_sqlstate("22023")
    })
}

/// Returns the offset that a number of hours is, which may have a fraction.
fn offset_of_hours(text: &str) -> Option<String> {
    let hours: f64 = text.parse().ok().filter(|hours: &f64| hours.abs() < 24.0)?;
    let minutes = (hours.abs() * 60.0).round() as u32;
    let sign = if hours < 0.0 { '-' } else { '+' };
    Some(format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60))
}

pub fn function() -> ScalarUDF {
    let signature = Signature::variadic_any(Volatility::Immutable);
    ScalarUDF::from(InZone { signature })
}

fn any(arguments: usize) -> Signature {
    Signature::any(arguments, Volatility::Immutable)
}

/// Converts a point in time to the time that clocks in a zone show, or back. A third argument says
/// that the zone is the session's, whose offsets are as in ISO 8601.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct InZone {
    signature: Signature,
}

impl ScalarUDFImpl for InZone {
    fn name(&self) -> &str {
        "timezone"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [zone, of] | [zone, of, _] if is_zone(zone) => match of {
                Timestamp(_, None) => Ok(LogicalType::timestamp_with_time_zone().arrow_type()),
                Timestamp(_, Some(_)) | Date32 | DataType::Null => Ok(LogicalType::timestamp().arrow_type()),
                other => Err(plan_datafusion_err!(
                    "AT TIME ZONE is of a TIMESTAMP, not of {}",
                    hypostyle_error::type_name::type_name(other)
                )),
            },
            _ => Err(plan_datafusion_err!(
                "a time zone is named by a text, such as 'Europe/Amsterdam' or '+02:00'"
            )),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (zone, of, zone_of): (_, _, fn(&str) -> Result<Tz>) = match args.args.as_slice() {
            [zone, of] => (zone, of, zone_name::of_statement),
            [zone, of, _] => (zone, of, zone_name::of_table),
            _ => return Err(plan_datafusion_err!("timezone(zone, timestamp)")),
        };
        let rows = args.number_rows;
        let zones = zone_names(&zone.to_array(rows)?)?;
        let name = |row| (!zones.is_null(row)).then(|| zones.value(row));
        let moved = in_zones_by(&of.to_array(rows)?, name, zone_of)?;
        Ok(ColumnarValue::Array(cast(&moved, args.return_field.data_type())?))
    }
}

fn is_zone(of: &DataType) -> bool {
    of.is_string() || of.is_null() || matches!(of, Interval(_))
}

/// Returns the names of zones, of which some may be given by how far they are ahead of UTC.
fn zone_names(zones: &ArrayRef) -> Result<StringArray> {
    if !matches!(zones.data_type(), Interval(_)) {
        return Ok(cast(zones, &DataType::Utf8)?.as_string::<i32>().clone());
    }
    let intervals = cast(zones, &Interval(IntervalUnit::MonthDayNano))?;
    let names = intervals.as_primitive::<IntervalMonthDayNanoType>().iter().map(|ahead| match ahead {
        None => Ok(None),
        // An offset that a statement names is that of UTC, as seen from there.
        Some(IntervalMonthDayNano { months: 0, days: 0, nanoseconds }) => {
            Ok(Some(zone_name::offset_text(-nanoseconds / 1_000_000_000)))
        }
        Some(_) => Err(external(
            Error::invalid_input("an interval that is a time zone has no months and no days")
                .with_sqlstate("22023"),
        )),
    });
    names.collect()
}

/// Points in time as what clocks in a zone, which each row has, show then; what they show as the
/// point in time.
pub fn in_zones<'a>(times: &ArrayRef, zone_of_row: impl Fn(usize) -> Option<&'a str>) -> Result<ArrayRef> {
    in_zones_by(times, zone_of_row, zone_name::of_table)
}

/// [`in_zones`] of names that a function knows.
fn in_zones_by<'a>(
    times: &ArrayRef,
    zone_of_row: impl Fn(usize) -> Option<&'a str>,
    zone_of: fn(&str) -> Result<Tz>,
) -> Result<ArrayRef> {
    let (unit, is_local) = match times.data_type() {
        Timestamp(TimeUnit::Nanosecond, zone) => (TimeUnit::Nanosecond, zone.is_none()),
        Timestamp(_, zone) => (TimeUnit::Microsecond, zone.is_none()),
        // For a date, clocks in UTC show its midnight.
        _ => (TimeUnit::Microsecond, false),
    };
    let second = if unit == TimeUnit::Nanosecond { 1_000_000_000 } else { 1_000_000 };
    let ticks = cast(&cast(times, &Timestamp(unit, of_zone(times.data_type())))?, &DataType::Int64)?;
    let ticks = ticks.as_primitive::<Int64Type>();
    let mut last: Option<(&str, Tz)> = None;
    let moved = (0..ticks.len()).map(|row| {
        let Some(name) = zone_of_row(row).filter(|_| ticks.is_valid(row)) else { return Ok(None) };
        let zone = match last {
            Some((known, zone)) if known == name => zone,
            _ => last.insert((name, zone_of(name)?)).1,
        };
        moved(ticks.value(row), second, zone, is_local).map(Some)
    });
    let moved: Int64Array = moved.collect::<Result<_>>()?;
    let zone = is_local.then(|| Arc::from("UTC"));
    Ok(cast(&moved, &Timestamp(unit, zone))?)
}

/// Applies the session's time zone, as in PostgreSQL: to times that are written without one, to a
/// point in time that is shown, to its parts, and to days and months that are added to it. Types
/// stay what they are.
#[derive(Debug)]
pub struct InSessionZone;

impl AnalyzerRule for InSessionZone {
    fn name(&self) -> &str {
        "in_session_zone"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let Some(zone) = config.execution.time_zone.as_deref().map(Arc::from) else { return Ok(plan) };
        let plan = plan.transform_up_with_subqueries(|plan| {
            if !has_expression(&plan, may_be_zoned) {
                return Ok(Transformed::no(plan));
            }
            let schema = schema_below(&plan);
            map_expressions(plan, |expr| in_zone(expr, &schema, &zone))
        });
        Ok(plan?.data)
    }
}

fn may_be_zoned(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(_) | Expr::TryCast(_) => true,
        Expr::BinaryExpr(BinaryExpr { op, .. }) => matches!(op, Operator::Plus | Operator::Minus),
        Expr::ScalarFunction(call) => {
            let name = call.func.name();
            ZONED.contains(&name) || ZONED_TOGETHER.contains(&name) || SERIES.contains(&name)
        }
        _ => false,
    }
}

fn in_zone(mut expr: Expr, schema: &DFSchema, zone: &Arc<str>) -> Result<Transformed<Expr>> {
    // If the type of an expression cannot be determined, planning refuses the statement anyway.
    let local = |expr: &Expr| match expr.get_type(schema) {
        Ok(Timestamp(unit, Some(other))) if other != *zone => Some((unit, Timestamp(unit, Some(other)))),
        _ => None,
    };
    let make_local = |expr: &mut Expr, unit| {
        let zoned = Timestamp(unit, Some(zone.clone()));
        *expr = Expr::Cast(Cast::new(Box::new(std::mem::take(expr)), zoned));
    };
    let is_try = matches!(expr, Expr::TryCast(_));
    let is_series = matches!(&expr, Expr::ScalarFunction(call) if SERIES.contains(&call.func.name()));
    let given = if is_series { expr.get_type(schema).ok() } else { None };
    match &mut expr {
        Expr::Cast(Cast { expr: of, field }) | Expr::TryCast(TryCast { expr: of, field }) => {
            let Some(step) = first_step(of.get_type(schema), field.data_type(), zone) else {
                return Ok(Transformed::no(expr));
            };
            let from = std::mem::take(of);
            **of = match step {
                FirstStep::Clocks => clocks(*from, zone),
                FirstStep::Midnight(time) if is_try => clocks(Expr::TryCast(TryCast::new(from, time)), zone),
                FirstStep::Midnight(time) => clocks(Expr::Cast(Cast::new(from, time)), zone),
                FirstStep::Zoned(local) if is_try => Expr::TryCast(TryCast::new(from, local)),
                FirstStep::Zoned(local) => Expr::Cast(Cast::new(from, local)),
                FirstStep::Within => {
                    let function = ScalarUDF::from(CastWithin::new(CastTarget::new(field.clone(), is_try)));
                    let call = ScalarFunction::new_udf(Arc::new(function), vec![lit(zone.as_ref()), *from]);
                    return Ok(Transformed::yes(Expr::ScalarFunction(call)));
                }
            };
            Ok(Transformed::yes(expr))
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            if SERIES.contains(&func.name()) {
                let mut changed = false;
                for arg in args.iter_mut() {
                    if let Some((unit, _)) = local(arg) {
                        make_local(arg, unit);
                        changed = true;
                    }
                }
                // The result has no zone of its own, as any list of points in time.
                return Ok(match given {
                    Some(given) if changed => Transformed::yes(Expr::Cast(Cast::new(Box::new(expr), given))),
                    _ => Transformed::no(expr),
                });
            }
            if ZONED_TOGETHER.contains(&func.name()) {
                let is_moment = |arg: &&mut Expr| local(arg).is_some();
                let mut moved = None;
                for arg in args.iter_mut().filter(is_moment) {
                    moved = local(arg).map(|(_, data_type)| data_type);
                    *arg = clocks(std::mem::take(arg), zone);
                }
                let Some(data_type) = moved else { return Ok(Transformed::no(expr)) };
                let is_bucket = func.name() == "time_bucket";
                let expr = if is_bucket {
                    Expr::Cast(Cast::new(Box::new(clocks(expr, zone)), data_type))
                } else {
                    expr
                };
                return Ok(Transformed::yes(expr));
            }
            if !ZONED.contains(&func.name()) {
                return Ok(Transformed::no(expr));
            }
            let shown_by_clocks = is_shown_by_clocks(func.name(), args);
            let found = args.iter_mut().find_map(|arg| local(arg).map(|found| (arg, found)));
            let Some((arg, (unit, data_type))) = found else { return Ok(Transformed::no(expr)) };
            if shown_by_clocks {
                *arg = clocks(std::mem::take(arg), zone);
                let is_moment = func.name() == "date_trunc";
                return Ok(Transformed::yes(match is_moment {
                    true => Expr::Cast(Cast::new(Box::new(clocks(expr, zone)), data_type)),
                    false => expr,
                }));
            }
            make_local(arg, unit);
            let expr = match func.name() {
                "date_trunc" => Expr::Cast(Cast::new(Box::new(expr), data_type)),
                _ => expr,
            };
            Ok(Transformed::yes(expr))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right }) => {
            let is_interval = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Interval(_)));
            let (time, interval) = match () {
                () if is_interval(right) => (left, right),
                () if is_interval(left) => (right, left),
                () => return Ok(Transformed::no(expr)),
            };
            if local(time).is_none() {
                return Ok(Transformed::no(expr));
            }
            let function = Shift::new(*op == Operator::Minus);
            let (time, interval) = (std::mem::take(time), std::mem::take(interval));
            let args = vec![lit(zone.as_ref()), *time, *interval];
            let call = ScalarFunction::new_udf(Arc::new(ScalarUDF::from(function)), args);
            Ok(Transformed::yes(Expr::ScalarFunction(call)))
        }
        _ => Ok(Transformed::no(expr)),
    }
}

/// A point in time, months and days by the clocks of a zone and then a time later, or before.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shift {
    minus: bool,
    signature: Signature,
}

impl Shift {
    fn new(minus: bool) -> Self {
        Self { minus, signature: any(3) }
    }
}

impl_portable!(Shift, "shift_in_zone", minus: bool);

impl ScalarUDFImpl for Shift {
    fn name(&self) -> &str {
        if self.minus { "minus_within" } else { "plus_within" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[1].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(zone), time, interval] = args.args.as_slice() else {
            return Err(plan_datafusion_err!("{}(zone, time, interval)", self.name()));
        };
        let zone = zone.try_as_str().flatten().unwrap_or("UTC");
        let intervals = cast(&interval.to_array(args.number_rows)?, &Interval(IntervalUnit::MonthDayNano))?;
        let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
        let part = |of: fn(IntervalMonthDayNano) -> IntervalMonthDayNano| -> IntervalMonthDayNanoArray {
            intervals.unary(of)
        };
        let days = part(|of| IntervalMonthDayNano::new(of.months, of.days, 0));
        let times = part(|of| IntervalMonthDayNano::new(0, 0, of.nanoseconds));
        let shift: fn(&dyn Datum, &dyn Datum) -> ArrowResult<ArrayRef> = if self.minus { sub } else { add };
        let time = time.to_array(args.number_rows)?;
        let clocks = in_zones(&time, |_| Some(zone))?;
        let moments = in_zones(&shift(&clocks, &days)?, |_| Some(zone))?;
        // Clocks may show a time twice; only the later one is the result.
        let same: BooleanArray =
            days.iter().map(|days| days.map(|days| days == IntervalMonthDayNano::ZERO)).collect();
        let moments = zip(&same, &cast(&time, moments.data_type())?, &moments)?;
        Ok(ColumnarValue::Array(cast(&shift(&moments, &times)?, args.return_field.data_type())?))
    }
}

/// A cast of lists, structures or maps in which some values depend on the time zone.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct CastWithin {
    to: CastTarget,
    signature: Signature,
}

impl CastWithin {
    fn new(to: CastTarget) -> Self {
        Self { to, signature: any(2) }
    }
}

portable_cast!(CastWithin: "cast_in_zone");

impl ScalarUDFImpl for CastWithin {
    fn name(&self) -> &str {
        if self.to.is_safe() { "try_cast_within" } else { "cast_within" }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [_, of] => Ok(self.to.schema_name(self.name(), of)),
            _ => Err(plan_datafusion_err!("a cast is of one value")),
        }
    }

    as_cast!();

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(zone), values] = args.args.as_slice() else {
            return Err(plan_datafusion_err!("{}(zone, value)", self.name()));
        };
        let zone: Arc<str> = Arc::from(zone.try_as_str().flatten().unwrap_or("UTC"));
        let cast = |values: &ArrayRef| cast_in_zone(values, self.to.field(), &zone, self.to.is_safe());
        Ok(match values {
            ColumnarValue::Array(values) => ColumnarValue::Array(cast(values)?),
            ColumnarValue::Scalar(value) => ColumnarValue::Scalar(only_value(&cast(&value.to_array()?)?)?),
        })
    }
}

/// The step before a cast that depends on the time zone.
enum FirstStep {
    /// A cast to a type that has the zone.
    Zoned(DataType),
    /// Casts between points in time and the times that clocks show: casts of Arrow do not move the
    /// latter, or not all of them.
    Clocks,
    /// A cast of dates to the times that clocks show when they begin, which is then moved as these: Arrow
    /// refuses a midnight that a zone leaves out.
    Midnight(DataType),
    /// Casts of what is within, some of which have steps of their own.
    Within,
}

fn first_step(from: Result<DataType>, to: &DataType, zone: &Arc<str>) -> Option<FirstStep> {
    let is_text_or_date = |data_type: &DataType| {
        data_type.is_string() || matches!(data_type, Date32 | Date64 | Time32(_) | Time64(_))
    };
    match (from.ok()?, to) {
        (Timestamp(_, Some(other)), Timestamp(_, None)) if other != *zone => Some(FirstStep::Clocks),
        (Timestamp(unit, Some(other)), to) if other != *zone && to.is_string() => {
            Some(FirstStep::Zoned(Timestamp(unit, Some(zone.clone()))))
        }
        (Timestamp(_, Some(other)), to) if other != *zone && is_text_or_date(to) => Some(FirstStep::Clocks),
        (Timestamp(_, None), Timestamp(_, Some(other))) if other != zone => Some(FirstStep::Clocks),
        (Date32 | Date64, Timestamp(unit, Some(other))) if other != zone => {
            Some(FirstStep::Midnight(Timestamp(*unit, None)))
        }
        (from, Timestamp(unit, Some(other))) if other != zone && is_text_or_date(&from) => {
            Some(FirstStep::Zoned(Timestamp(*unit, Some(zone.clone()))))
        }
        (from, to) if from.is_nested() && to.is_string() => {
            let local = type_in_zone(&from, zone);
            (local != from).then_some(FirstStep::Zoned(local))
        }
        (from, to) if from.is_string() && to.is_nested() => {
            let local = type_in_zone(to, zone);
            (local != *to).then_some(FirstStep::Zoned(local))
        }
        (from, to) if has_step_within(&from, to, zone) => Some(FirstStep::Within),
        _ => None,
    }
}

/// Says whether a cast of lists, structures or maps has a step for some of the values within.
fn has_step_within(from: &DataType, to: &DataType, zone: &Arc<str>) -> bool {
    use DataType::{FixedSizeList, LargeList, List, Map, Struct};
    let has = |from: &FieldRef, to: &FieldRef| {
        first_step(Ok(from.data_type().clone()), to.data_type(), zone).is_some()
    };
    match (from, to) {
        (
            List(from) | LargeList(from) | FixedSizeList(from, _),
            List(to) | LargeList(to) | FixedSizeList(to, _),
        ) => has(from, to),
        (Struct(given), Struct(wanted)) => {
            let places = places(given, wanted).unwrap_or_default();
            let mut pairs = places.into_iter().zip(wanted);
            pairs.any(|(place, field)| place.is_some_and(|place| has(&given[place], field)))
        }
        (Map(from, _), Map(to, _)) => match (from.data_type(), to.data_type()) {
            (Struct(from), Struct(to)) => from.iter().zip(to).any(|(from, to)| has(from, to)),
            _ => false,
        },
        _ => false,
    }
}

/// Returns a type whose points in time, also those within lists and structures, have a zone.
fn type_in_zone(of: &DataType, zone: &Arc<str>) -> DataType {
    let within = |field: &FieldRef| {
        Arc::new(field.as_ref().clone().with_data_type(type_in_zone(field.data_type(), zone)))
    };
    match of {
        Timestamp(unit, Some(_)) => Timestamp(*unit, Some(zone.clone())),
        DataType::List(field) => DataType::List(within(field)),
        DataType::LargeList(field) => DataType::LargeList(within(field)),
        DataType::FixedSizeList(field, length) => DataType::FixedSizeList(within(field), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(within).collect()),
        DataType::Map(entries, are_sorted) => DataType::Map(within(entries), *are_sorted),
        other => other.clone(),
    }
}

/// Says whether a cast gives something else in another time zone.
pub fn is_zoned(from: DataType, to: &DataType, zone: &Arc<str>) -> bool {
    first_step(Ok(from), to, zone).is_some()
}

/// Returns a cast as in a query of a session with a time zone.
pub fn cast_within(values: &ArrayRef, to: &Field, zone: &Arc<str>) -> ArrowResult<ArrayRef> {
    cast_in_zone(values, to, zone, false)
}

fn cast_in_zone(values: &ArrayRef, to: &Field, zone: &Arc<str>, safe: bool) -> ArrowResult<ArrayRef> {
    match first_step(Ok(values.data_type().clone()), to.data_type(), zone) {
        Some(FirstStep::Zoned(local)) => {
            cast_as_sql(&cast_as_sql(values, &Field::new("", local, true), safe)?, to, safe)
        }
        Some(FirstStep::Midnight(time)) => {
            cast_in_zone(&cast_as_sql(values, &Field::new("", time, true), safe)?, to, zone, safe)
        }
        Some(FirstStep::Clocks) => {
            let clocks = in_zones(values, |_| Some(zone.as_ref()));
            cast_as_sql(&clocks.map_err(|error| ArrowError::ExternalError(error.into()))?, to, safe)
        }
        Some(FirstStep::Within) => {
            nested(values, to, safe, &|values, to| cast_in_zone(values, to, zone, safe))
        }
        None => cast_as_sql(values, to, safe),
    }
}

/// Texts as values of a type, as a cast takes them in a session with a time zone.
///
/// # Errors
/// `InvalidInput` naming a text that is no value of the type.
pub fn of_texts(texts: &ArrayRef, to: &LogicalType, zone: &str) -> hypostyle_types::Result<ArrayRef> {
    let cast = cast_within(texts, &to.arrow_field("", true), &zone.into());
    cast.map_err(|error| from_datafusion(error.into()))
}

fn clocks(moment: Expr, zone: &Arc<str>) -> Expr {
    let zone = lit(zone.as_ref());
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function()), vec![zone, moment, lit(true)]))
}

/// Says whether a function of a part of a point in time looks only at what clocks show then: not at
/// how far they are from UTC, nor at which of two equal hours it is.
fn is_shown_by_clocks(function: &str, args: &[Expr]) -> bool {
    let Some(Expr::Literal(part, _)) = args.first() else { return false };
    let Some(part) = part.try_as_str().flatten().map(str::to_ascii_lowercase) else { return false };
    match function {
        "date_part" => !part.starts_with("epoch") && !part.starts_with("timezone"),
        "date_trunc" => ["day", "week", "month", "quarter", "year", "decade", "century", "millennium"]
            .contains(&part.as_str()),
        _ => false,
    }
}

/// Functions of what clocks show at a point in time.
const ZONED: [&str; 10] = [
    "computed_part",
    "date_trunc",
    "date_part",
    "extract_microseconds",
    "extract_milliseconds",
    "extract_seconds",
    "named_parts",
    "strftime",
    "timezone_part",
    "to_char",
];

/// Series of points in time, by what clocks show.
const SERIES: [&str; 2] = ["generate_series", "range"];

/// Functions of what they show at several.
const ZONED_TOGETHER: [&str; 4] = ["age", "date_diff", "date_sub", "time_bucket"];

fn of_zone(of: &DataType) -> Option<Arc<str>> {
    match of {
        Timestamp(_, zone) => zone.clone(),
        _ => None,
    }
}

/// Parts of a second since 1970, of the clocks in a zone or of UTC, as the other.
pub(crate) fn moved(ticks: i64, second: i64, zone: Tz, is_local: bool) -> Result<i64> {
    let out_of_range = || external(Error::invalid_input("timestamp out of range").with_sqlstate("22008"));
    // Tables of zones end, and their last rule goes on.
    let known = recurring(ticks.div_euclid(second));
    let time = DateTime::from_timestamp_secs(known).ok_or_else(out_of_range)?.naive_utc();
    let seconds = match is_local {
        true => -offset_of_local(time, zone),
        false => zone.offset_from_utc_datetime(&time).fix().local_minus_utc(),
    };
    ticks.checked_add(i64::from(seconds) * second).ok_or_else(out_of_range)
}

/// Returns the offset from UTC in seconds. Of an hour that clocks show twice it is the later one,
/// of one that they leave out that before it, as in PostgreSQL. Zones that have crossed the date line left
/// out a day.
fn offset_of_local(time: NaiveDateTime, zone: Tz) -> i32 {
    let found = [0, 3, 27]
        .into_iter()
        .find_map(|hours| zone.offset_from_local_datetime(&(time - Duration::hours(hours))).latest());
    found.map_or(0, |offset| offset.fix().local_minus_utc())
}
