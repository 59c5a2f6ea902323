//! The sum of intervals, part by part, and their average: the sum divided by their number, as in
//! PostgreSQL.

use crate::interval::{INTERVAL, scaled};
use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType,
};
use datafusion::common::{ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use datafusion::logical_expr::utils::format_state_name;
use hypostyle_error::external;
use hypostyle_types::Error;
use std::sync::Arc;

const WIDE: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);

/// The sums of the parts of intervals, and their number.
#[derive(Debug)]
pub struct IntervalSum {
    is_average: bool,
    count: i64,
    months: i64,
    days: i64,
    nanoseconds: i128,
}

/// The columns of its state.
pub fn state_fields(name: &str) -> Vec<FieldRef> {
    let parts = [
        ("count", DataType::Int64),
        ("months", DataType::Int64),
        ("days", DataType::Int64),
        ("nanoseconds", WIDE),
    ];
    let field = |(part, of)| Arc::new(Field::new(format_state_name(name, part), of, true));
    parts.into_iter().map(field).collect()
}

impl IntervalSum {
    /// Makes the sum, or the average, of no intervals.
    pub fn new(is_average: bool) -> Self {
        Self { is_average, count: 0, months: 0, days: 0, nanoseconds: 0 }
    }

    /// Adds intervals, or takes them away.
    fn update(&mut self, values: &[ArrayRef], sign: i64) -> Result<()> {
        let values = values.first().and_then(|values| values.as_primitive_opt::<IntervalMonthDayNanoType>());
        let values = values.ok_or_else(|| internal_datafusion_err!("a sum of intervals is of one column"))?;
        for IntervalMonthDayNano { months, days, nanoseconds } in values.iter().flatten() {
            self.count += sign;
            self.months += sign * i64::from(months);
            self.days += sign * i64::from(days);
            self.nanoseconds += i128::from(sign) * i128::from(nanoseconds);
        }
        Ok(())
    }
}

impl Accumulator for IntervalSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.update(values, 1)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.update(values, -1)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return ScalarValue::try_from(&INTERVAL);
        }
        let sum = || {
            let (months, days) = (i32::try_from(self.months).ok()?, i32::try_from(self.days).ok()?);
            Some(IntervalMonthDayNano::new(months, days, i64::try_from(self.nanoseconds).ok()?))
        };
        let sum = sum().ok_or_else(|| {
            external(Error::invalid_input("a sum of intervals is out of range").with_sqlstate("22008"))
        })?;
        let result = if self.is_average { scaled(sum, self.count as f64, true)? } else { sum };
        Ok(ScalarValue::IntervalMonthDayNano(Some(result)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let wide = ScalarValue::Decimal128(Some(self.nanoseconds), DECIMAL128_MAX_PRECISION, 0);
        Ok(vec![self.count.into(), self.months.into(), self.days.into(), wide])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [counts, months, days, nanoseconds] = states else {
            return Err(internal_datafusion_err!("the state of a sum of intervals has four columns"));
        };
        let total = |of: &ArrayRef| of.as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
        self.count += total(counts);
        self.months += total(months);
        self.days += total(days);
        self.nanoseconds += nanoseconds.as_primitive::<Decimal128Type>().iter().flatten().sum::<i128>();
        Ok(())
    }
}
