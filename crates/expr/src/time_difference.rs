//! The difference of two points in time, or of two times of day: an INTERVAL of days and a time, as in
//! PostgreSQL and DuckDB. DataFusion's is a number of ticks. That of two dates is a number of days.

use crate::comparison::is_text;
use crate::impl_portable;
use crate::interval::INTERVAL;
use arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray};
use arrow::compute::{binary, cast};
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNano, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use hypostyle_error::external;
use hypostyle_types::DAY_MICROSECONDS;
use hypostyle_types::Error;
use std::sync::{Arc, LazyLock};

/// The difference of two expressions, if they are points in time, of which one may be a date or a
/// text; or times of day, of which one may be a text.
pub fn of(left: &Expr, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    let is_point = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Timestamp(..)));
    let is_like_one = |expr: &Expr| {
        is_text(expr) || matches!(expr.get_type(schema), Ok(DataType::Date32 | DataType::Timestamp(..)))
    };
    let is_time = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Time64(_)));
    let is_like_time = |expr: &Expr| is_text(expr) || is_time(expr);
    let is_meant = is_point(left) && is_like_one(right)
        || is_like_one(left) && is_point(right)
        || is_time(left) && is_like_time(right)
        || is_like_time(left) && is_time(right);
    is_meant.then(|| call(left.clone(), right.clone()))
}

/// [`of`] what was not known to be points in time when it was planned.
pub fn in_plan(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let found = match &expression {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }) => of(left, right, schema),
        _ => None,
    };
    Ok(found.map_or_else(|| Transformed::no(expression), Transformed::yes))
}

/// Returns the days between two dates as a function of them. DataFusion takes the bounds of a difference of
/// dates for durations, and fails to compare them with the days.
pub fn of_dates(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_date = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Date32));
    Ok(match expression {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right })
            if is_date(left.as_ref()) && is_date(right.as_ref()) =>
        {
            Transformed::yes(call(*left, *right))
        }
        other => Transformed::no(other),
    })
}

fn call(left: Expr, right: Expr) -> Expr {
    static DIFFERENCE: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(Difference::default())));
    Expr::ScalarFunction(ScalarFunction::new_udf(DIFFERENCE.clone(), vec![left, right]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Difference {
    signature: Signature,
}

impl Default for Difference {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl_portable!(Difference, "time_difference");

impl ScalarUDFImpl for Difference {
    fn name(&self) -> &str {
        "time_difference"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [left, right] => Ok(format!("{} - {}", left.schema_name(), right.schema_name())),
            _ => Err(of_two()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// One type for both: in nanoseconds if one of them is, with a time zone if one of them has it.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if types.iter().all(|of| *of == DataType::Date32) {
            return Ok(types.to_vec());
        }
        if types.iter().any(|of| matches!(of, DataType::Time64(_))) {
            let has = |unit| types.contains(&DataType::Time64(unit));
            let unit = if has(TimeUnit::Nanosecond) { TimeUnit::Nanosecond } else { TimeUnit::Microsecond };
            return Ok(vec![DataType::Time64(unit); types.len()]);
        }
        let (mut unit, mut zone) = (TimeUnit::Microsecond, None);
        for of in types {
            if let DataType::Timestamp(of_unit, of_zone) = of {
                unit = if *of_unit == TimeUnit::Nanosecond { TimeUnit::Nanosecond } else { unit };
                zone = zone.or(of_zone.clone());
            }
        }
        Ok(vec![DataType::Timestamp(unit, zone); types.len()])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match types {
            [DataType::Date32, DataType::Date32] => DataType::Int64,
            _ => INTERVAL,
        })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [left, right] = arrays.as_slice() else { return Err(of_two()) };
        let is_of_dates = *left.data_type() == DataType::Date32;
        let tick = match left.data_type() {
            DataType::Timestamp(TimeUnit::Microsecond, _) | DataType::Time64(TimeUnit::Microsecond) => 1000,
            _ => 1,
        };
        let ticks = |times: &ArrayRef| cast(times, &DataType::Int64);
        let (left, right) = (ticks(left)?, ticks(right)?);
        let (left, right) = (left.as_primitive::<Int64Type>(), right.as_primitive::<Int64Type>());
        if is_of_dates {
            let days = binary::<_, _, _, Int64Type>(left, right, |left, right| left - right)?;
            return Ok(ColumnarValue::Array(Arc::new(days)));
        }
        let differences = left.iter().zip(right).map(|pair| match pair {
            (Some(left), Some(right)) => difference(left, right, tick).map(Some).ok_or_else(|| {
                external(Error::invalid_input("interval out of range").with_sqlstate("22008"))
            }),
            _ => Ok(None),
        });
        let differences: IntervalMonthDayNanoArray = differences.collect::<Result<_>>()?;
        Ok(ColumnarValue::Array(Arc::new(differences)))
    }
}

/// The days and the rest of a difference of ticks of so many nanoseconds.
fn difference(left: i64, right: i64, tick: i64) -> Option<IntervalMonthDayNano> {
    let day = DAY_MICROSECONDS * 1000 / tick;
    let ticks = left.checked_sub(right)?;
    let days = i32::try_from(ticks / day).ok()?;
    Some(IntervalMonthDayNano::new(0, days, ticks % day * tick))
}

fn of_two() -> datafusion::error::DataFusionError {
    plan_datafusion_err!("a difference is of two points in time, or of two times of day")
}

#[cfg(test)]
mod tests {
    use super::difference;
    use arrow::datatypes::IntervalMonthDayNano;

    #[test]
    fn differences_have_days() {
        const HOUR: i64 = 3_600_000_000;
        for (ticks, days, hours) in [(25 * HOUR, 1, 1), (-25 * HOUR, -1, -1), (23 * HOUR, 0, 23), (0, 0, 0)] {
            let expected = IntervalMonthDayNano::new(0, days, hours * HOUR * 1000);
            assert_eq!(difference(ticks, 0, 1000), Some(expected));
            assert_eq!(difference(ticks * 1000, 0, 1), Some(expected));
        }
        assert_eq!(difference(i64::MAX, -1, 1000), None);
    }
}
