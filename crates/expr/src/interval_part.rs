//! Parts of intervals, as in PostgreSQL's `extract`, and intervals without what is below a part.
//! DataFusion's have no fractions, and its months have 30 days also if they form a year.

use crate::impl_portable;
use crate::interval::is_interval;
use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, IntervalMonthDayNanoArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, exec_datafusion_err, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use hypostyle_error::external;
use hypostyle_types::Error;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    Millennium,
    Century,
    Decade,
    Year,
    Quarter,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Epoch,
}

impl Part {
    pub(crate) fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let singular = name.strip_suffix('s').filter(|_| !matches!(name.as_str(), "s" | "ms" | "us"));
        Some(match singular.unwrap_or(&name) {
            "millennium" | "millennia" | "mil" => Self::Millennium,
            "century" | "centurie" | "cent" | "c" => Self::Century,
            "decade" | "dec" => Self::Decade,
            "year" | "yr" | "y" => Self::Year,
            "quarter" | "qtr" => Self::Quarter,
            "month" | "mon" => Self::Month,
            "day" | "d" => Self::Day,
            "hour" | "hr" | "h" => Self::Hour,
            "minute" | "min" | "m" => Self::Minute,
            "second" | "sec" | "s" => Self::Second,
            "millisecond" | "msec" | "ms" => Self::Millisecond,
            "microsecond" | "usec" | "us" => Self::Microsecond,
            "epoch" => Self::Epoch,
            _ => return None,
        })
    }

    fn of(self, IntervalMonthDayNano { months, days, nanoseconds }: IntervalMonthDayNano) -> i64 {
        const MINUTE: i64 = 60_000_000_000;
        let months = i64::from(months);
        match self {
            Self::Millennium => months / 12_000,
            Self::Century => months / 1200,
            Self::Decade => months / 120,
            Self::Year => months / 12,
            Self::Quarter => months % 12 / 3 + 1,
            Self::Month => months % 12,
            Self::Day => i64::from(days),
            Self::Hour => nanoseconds / (60 * MINUTE),
            Self::Minute => nanoseconds / MINUTE % 60,
            Self::Second => nanoseconds % MINUTE / 1_000_000_000,
            Self::Millisecond => nanoseconds % MINUTE / 1_000_000,
            Self::Microsecond | Self::Epoch => nanoseconds % MINUTE / 1_000,
        }
    }

    /// Returns the part of all intervals.
    pub(crate) fn of_all(self, intervals: &IntervalMonthDayNanoArray) -> ArrayRef {
        match self {
            Self::Epoch => Arc::new(intervals.iter().map(|of| of.map(epoch)).collect::<Float64Array>()),
            part => Arc::new(intervals.iter().map(|of| of.map(|of| part.of(of))).collect::<Int64Array>()),
        }
    }
}

/// What `date_trunc` keeps of an interval: whole multiples of some months, days or nanoseconds, and what
/// is above them.
#[derive(Clone, Copy)]
enum Kept {
    Months(i32),
    Days(i32),
    Nanoseconds(i64),
}

impl Kept {
    fn named(name: &str) -> Result<Self> {
        if ["week", "weeks"].iter().any(|week| name.eq_ignore_ascii_case(week)) {
            return Ok(Self::Days(7));
        }
        Ok(match Part::named(name) {
            Some(Part::Millennium) => Self::Months(12_000),
            Some(Part::Century) => Self::Months(1200),
            Some(Part::Decade) => Self::Months(120),
            Some(Part::Year) => Self::Months(12),
            Some(Part::Quarter) => Self::Months(3),
            Some(Part::Month) => Self::Months(1),
            Some(Part::Day) => Self::Days(1),
            Some(Part::Hour) => Self::Nanoseconds(3_600_000_000_000),
            Some(Part::Minute) => Self::Nanoseconds(60_000_000_000),
            Some(Part::Second) => Self::Nanoseconds(1_000_000_000),
            Some(Part::Millisecond) => Self::Nanoseconds(1_000_000),
            Some(Part::Microsecond) => Self::Nanoseconds(1000),
            Some(Part::Epoch) | None => {
                let message = format!("date_trunc() of an interval has no unit '{name}'");
                return Err(external(Error::invalid_input(message).with_sqlstate("22023")));
            }
        })
    }

    fn of(
        self,
        IntervalMonthDayNano { months, days, nanoseconds }: IntervalMonthDayNano,
    ) -> IntervalMonthDayNano {
        match self {
            Self::Months(step) => IntervalMonthDayNano::new(months / step * step, 0, 0),
            Self::Days(step) => IntervalMonthDayNano::new(months, days / step * step, 0),
            Self::Nanoseconds(step) => IntervalMonthDayNano::new(months, days, nanoseconds / step * step),
        }
    }
}

/// Returns intervals without what is below the units that are named.
///
/// # Errors
/// 22023 for another name.
pub(crate) fn truncated(units: &ColumnarValue, intervals: &IntervalMonthDayNanoArray) -> Result<ArrayRef> {
    match units {
        ColumnarValue::Scalar(unit) => match unit.try_as_str().flatten() {
            Some(unit) => {
                let kept = Kept::named(unit)?;
                Ok(Arc::new(intervals.unary::<_, IntervalMonthDayNanoType>(|of| kept.of(of))))
            }
            None => Ok(Arc::new(IntervalMonthDayNanoArray::new_null(intervals.len()))),
        },
        ColumnarValue::Array(units) => {
            let units = cast(units, &DataType::Utf8)?;
            let cut = units.as_string::<i32>().iter().zip(intervals).map(|(unit, of)| match (unit, of) {
                (Some(unit), Some(of)) => Ok(Some(Kept::named(unit)?.of(of))),
                _ => Ok(None),
            });
            Ok(Arc::new(cut.collect::<Result<IntervalMonthDayNanoArray>>()?))
        }
    }
}

/// Returns the seconds of an interval: a year has 365.25 days, a month that makes no year 30.
pub(crate) fn epoch(IntervalMonthDayNano { months, days, nanoseconds }: IntervalMonthDayNano) -> f64 {
    const DAY: f64 = 86_400.0;
    let of_months = f64::from(months / 12) * 365.25 * DAY + f64::from(months % 12) * 30.0 * DAY;
    of_months + f64::from(days) * DAY + (nanoseconds / 1000) as f64 / 1e6
}

/// Takes this function for DataFusion's where a part of an interval is asked for.
pub fn parts_of_intervals(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let part = match &expression {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "date_part" => {
            match args.as_slice() {
                [Expr::Literal(part, _), of] if is_interval(of, schema) => {
                    part.try_as_str().flatten().and_then(Part::named)
                }
                _ => None,
            }
        }
        _ => None,
    };
    let (Some(part), Expr::ScalarFunction(ScalarFunction { mut args, .. })) = (part, expression.clone())
    else {
        return Ok(Transformed::no(expression));
    };
    let function = IntervalPart::new(part);
    let of = args.pop().ok_or_else(|| plan_datafusion_err!("a part is of an interval"))?;
    let call = ScalarFunction::new_udf(Arc::new(ScalarUDF::from(function)), vec![of]);
    Ok(Transformed::yes(Expr::ScalarFunction(call)))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct IntervalPart {
    part: Part,
    signature: Signature,
}

impl IntervalPart {
    fn new(part: Part) -> Self {
        Self { part, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl_portable!(IntervalPart, "interval_part", part: Part);

impl ScalarUDFImpl for IntervalPart {
    fn name(&self) -> &str {
        "interval_part"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let args: Vec<String> = args.iter().map(|of| of.schema_name().to_string()).collect();
        Ok(format!("{}({:?}, {})", self.name(), self.part, args.join(", ")))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(if self.part == Part::Epoch { DataType::Float64 } else { DataType::Int64 })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let intervals = arrays.first().and_then(|of| of.as_primitive_opt::<IntervalMonthDayNanoType>());
        let intervals = intervals.ok_or_else(|| exec_datafusion_err!("a part is of an interval"))?;
        Ok(ColumnarValue::Array(self.part.of_all(intervals)))
    }
}
