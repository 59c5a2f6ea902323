//! Parts of points in time that DataFusion's `date_part` has not: decades, centuries and millennia,
//! and days since 4714 BC, as in PostgreSQL.

use crate::builtin::{bins, timezone_part};
use crate::impl_portable;
use crate::year_part::{JULIAN_DAY_1970, Part, counted};
use arrow::array::{ArrayRef, AsArray, Int32Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type, IntervalMonthDayNano, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, binary_expr, lit,
};
use hypostyle_sql::interval_text;
use std::sync::Arc;

/// Takes the functions of this module for DataFusion's where such a part is asked for. A NULL without a type
/// is a point in time.
pub fn of_points(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Expr::ScalarFunction(ScalarFunction { func, args }) = &mut expression
        && func.name() == "date_part"
        && let [_, of] = args.as_mut_slice()
        && of.get_type(schema).is_ok_and(|of| of.is_null())
    {
        let clock = DataType::Timestamp(TimeUnit::Microsecond, None);
        *of = Expr::Cast(Cast::new(Box::new(std::mem::take(of)), clock));
        return of_points(expression, schema).map(|found| Transformed::yes(found.data));
    }
    let Expr::ScalarFunction(ScalarFunction { func, args }) = &expression else {
        return Ok(Transformed::no(expression));
    };
    let [Expr::Literal(part, metadata), of] = args.as_slice() else { return Ok(Transformed::no(expression)) };
    if func.name() == "date_part"
        && let Some(named) = part.try_as_str().flatten().map(str::to_ascii_lowercase)
        && ["timezone", "timezone_hour", "timezone_minute"].contains(&named.as_str())
        && let Some(function) = timezone_part()
    {
        let args = vec![lit(named), of.clone()];
        let call = ScalarFunction::new_udf(Arc::new(function), args);
        return Ok(Transformed::yes(Expr::ScalarFunction(call)));
    }
    let part = match func.name() {
        "date_part" => part.try_as_str().flatten().and_then(Part::named),
        _ => None,
    };
    let is_point = matches!(
        of.get_type(schema),
        Ok(DataType::Date32 | DataType::Timestamp(..) | DataType::Utf8 | DataType::Utf8View)
    );
    let Some(part) = part.filter(|_| is_point) else { return Ok(Transformed::no(expression)) };
    let other = |name: &str, of: Expr| {
        let name = Expr::Literal(name.into(), metadata.clone());
        Expr::ScalarFunction(ScalarFunction::new_udf(func.clone(), vec![name, of]))
    };
    Ok(Transformed::yes(match part {
        Part::Julian => {
            let clock = DataType::Timestamp(TimeUnit::Microsecond, None);
            let seconds = other("epoch", Expr::Cast(Cast::new(Box::new(of.clone()), clock)));
            let days = binary_expr(seconds, Operator::Divide, lit(86_400.0));
            binary_expr(days, Operator::Plus, lit(JULIAN_DAY_1970))
        }
        part => {
            let function = Arc::new(ScalarUDF::from(OfYear::new(part)));
            Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![other("year", of.clone())]))
        }
    }))
}

/// Looks at the width of `date_bin`, which is of days and less, and more than nothing; and takes what is
/// beside a point in time for one, too.
///
/// # Errors
/// `Unsupported` for months, `InvalidInput` (22008) for a width that is not positive.
pub fn width_of_bins(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = &expression else {
        return Ok(Transformed::no(expression));
    };
    let ([width, times @ ..], bins::NAME) = (args.as_slice(), func.name()) else {
        return Ok(Transformed::no(expression));
    };
    if let Some(width) = constant_interval(width) {
        bins::width_of(width)?;
    }
    let zone = times.iter().find_map(|time| match time.get_type(schema) {
        Ok(DataType::Timestamp(_, zone)) => zone,
        _ => None,
    });
    let is_of_clocks =
        |of: DataType| matches!(of, DataType::Timestamp(_, None) | DataType::Date32) || of.is_string();
    let is_other = |time: &Expr| time.get_type(schema).is_ok_and(is_of_clocks);
    let Some(zone) = zone.filter(|_| times.iter().any(is_other)) else {
        return Ok(Transformed::no(expression));
    };
    let moment = DataType::Timestamp(TimeUnit::Microsecond, Some(zone));
    let times = times.iter().map(|time| match is_other(time) {
        true => Expr::Cast(Cast::new(Box::new(time.clone()), moment.clone())),
        false => time.clone(),
    });
    let args = std::iter::once(width.clone()).chain(times).collect();
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(func.clone(), args))))
}

fn constant_interval(expr: &Expr) -> Option<IntervalMonthDayNano> {
    match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(value), _) => *value,
        Expr::Literal(value, _) => interval_text::read(value.try_as_str()??).ok(),
        Expr::Negative(of) => {
            let IntervalMonthDayNano { months, days, nanoseconds } = constant_interval(of)?;
            Some(IntervalMonthDayNano::new(
                months.checked_neg()?,
                days.checked_neg()?,
                nanoseconds.checked_neg()?,
            ))
        }
        Expr::Cast(Cast { expr, .. }) => constant_interval(expr),
        _ => None,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct OfYear {
    part: Part,
    signature: Signature,
}

impl OfYear {
    fn new(part: Part) -> Self {
        Self { part, signature: Signature::exact(vec![DataType::Int32], Volatility::Immutable) }
    }
}

impl_portable!(OfYear, "part_of_year", part: Part);

impl ScalarUDFImpl for OfYear {
    fn name(&self) -> &str {
        match self.part {
            Part::Millennium => "millennium_of_year",
            Part::Century => "century_of_year",
            Part::Decade | Part::Julian => "decade_of_year",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int32)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let years = arrays.first().ok_or_else(|| plan_datafusion_err!("a part is of a year"))?;
        let years: ArrayRef = cast(years, &DataType::Int32)?;
        let parts: Int32Array =
            years.as_primitive::<Int32Type>().unary(|year| self.part.of_year(counted(year)));
        Ok(ColumnarValue::Array(Arc::new(parts)))
    }
}
