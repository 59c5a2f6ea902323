//! Sums and averages of intervals, part by part, as in PostgreSQL, and averages of points in time, and of
//! dates, which are points in time, as in DuckDB.

use crate::interval::{INTERVAL, scaled};
use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::{ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use datafusion::logical_expr::utils::format_state_name;
use hypostyle_error::external;
use hypostyle_types::Error;
use std::sync::Arc;

/// A sum of parts: no column has enough rows to overflow it.
const WIDE: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);

/// Returns the type of an average of values of a type, if these are points in time or dates: they become ones
/// of that type first.
pub fn type_of_average(of: &DataType) -> Option<DataType> {
    match of {
        DataType::Date32 => Some(DataType::Timestamp(TimeUnit::Microsecond, None)),
        DataType::Timestamp(_, zone) => Some(DataType::Timestamp(TimeUnit::Microsecond, zone.clone())),
        _ => None,
    }
}

/// What is added up, and what comes of the sums.
#[derive(Debug)]
pub enum TimeAggregate {
    SumOfIntervals,
    AverageOfIntervals,
    /// The average is shown in the zone.
    AverageOfPoints(Option<Arc<str>>),
}

impl TimeAggregate {
    /// Returns what a function of values of a type is, if it is one of these.
    pub fn of(function: &str, input: &DataType) -> Option<Self> {
        match (function, input) {
            ("avg", DataType::Timestamp(_, zone)) => Some(Self::AverageOfPoints(zone.clone())),
            ("avg", of) if *of == INTERVAL => Some(Self::AverageOfIntervals),
            ("sum", of) if *of == INTERVAL => Some(Self::SumOfIntervals),
            _ => None,
        }
    }

    /// Returns what its values are called.
    pub fn values(&self) -> &'static str {
        match self {
            Self::SumOfIntervals | Self::AverageOfIntervals => "intervals",
            Self::AverageOfPoints(_) => "points in time",
        }
    }

    /// Returns the names of the parts of a value, each of which is added up by itself.
    fn parts(&self) -> &'static [&'static str] {
        match self {
            Self::SumOfIntervals | Self::AverageOfIntervals => &["months", "days", "nanoseconds"],
            Self::AverageOfPoints(_) => &["microseconds"],
        }
    }

    /// Returns the columns of the state: how many values there are, and the sums of their parts.
    pub fn state_fields(&self, name: &str) -> Vec<FieldRef> {
        let field = |part: &str, of| Arc::new(Field::new(format_state_name(name, part), of, true));
        let sums = self.parts().iter().map(|part| field(part, WIDE));
        std::iter::once(field("count", DataType::Int64)).chain(sums).collect()
    }

    /// Returns what comes of at least one value.
    fn result(&self, count: i64, sums: &[i128; PARTS_MAX]) -> Result<ScalarValue> {
        if let Self::AverageOfPoints(zone) = self {
            // It lies between the values, so that it has as few bits as they.
            let average = sums[0].div_euclid(i128::from(count)) as i64;
            return Ok(ScalarValue::TimestampMicrosecond(Some(average), zone.clone()));
        }
        let [months, days, nanoseconds] = *sums;
        let sum = || {
            let (months, days) = (i32::try_from(months).ok()?, i32::try_from(days).ok()?);
            Some(IntervalMonthDayNano::new(months, days, i64::try_from(nanoseconds).ok()?))
        };
        let sum = sum().ok_or_else(|| {
            external(Error::invalid_input("a sum of intervals is out of range").with_sqlstate("22008"))
        })?;
        let is_sum = matches!(self, Self::SumOfIntervals);
        let result = if is_sum { sum } else { scaled(sum, count as f64, true)? };
        Ok(ScalarValue::IntervalMonthDayNano(Some(result)))
    }

    /// Returns what comes of no values.
    fn nothing(&self) -> Result<ScalarValue> {
        match self {
            Self::SumOfIntervals | Self::AverageOfIntervals => ScalarValue::try_from(&INTERVAL),
            Self::AverageOfPoints(zone) => Ok(ScalarValue::TimestampMicrosecond(None, zone.clone())),
        }
    }
}

/// The parts that an interval has; a point in time has the first one alone.
const PARTS_MAX: usize = 3;

/// The number of values, and the sums of their parts.
#[derive(Debug)]
pub struct TimeSums {
    of: TimeAggregate,
    count: i64,
    sums: [i128; PARTS_MAX],
}

impl TimeSums {
    pub fn new(of: TimeAggregate) -> Self {
        Self { of, count: 0, sums: [0; PARTS_MAX] }
    }

    /// Adds values, or takes them away.
    fn update(&mut self, values: &[ArrayRef], sign: i64) -> Result<()> {
        let other =
            || internal_datafusion_err!("sums and averages are of one column of {}", self.of.values());
        let values = values.first().ok_or_else(other)?;
        match self.of {
            TimeAggregate::SumOfIntervals | TimeAggregate::AverageOfIntervals => {
                let values = values.as_primitive_opt::<IntervalMonthDayNanoType>().ok_or_else(other)?;
                for IntervalMonthDayNano { months, days, nanoseconds } in values.iter().flatten() {
                    self.add(sign, [months.into(), days.into(), nanoseconds.into()]);
                }
            }
            TimeAggregate::AverageOfPoints(_) => {
                let values = values.as_primitive_opt::<TimestampMicrosecondType>().ok_or_else(other)?;
                for value in values.iter().flatten() {
                    self.add(sign, [value.into(), 0, 0]);
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, sign: i64, parts: [i128; PARTS_MAX]) {
        self.count += sign;
        for (sum, part) in self.sums.iter_mut().zip(parts) {
            *sum += i128::from(sign) * part;
        }
    }
}

impl Accumulator for TimeSums {
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
        if self.count == 0 { self.of.nothing() } else { self.of.result(self.count, &self.sums) }
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sums = self.sums.iter().take(self.of.parts().len());
        let sums = sums.map(|sum| ScalarValue::Decimal128(Some(*sum), DECIMAL128_MAX_PRECISION, 0));
        Ok(std::iter::once(ScalarValue::from(self.count)).chain(sums).collect())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some((counts, parts)) = states.split_first().filter(|(_, parts)| parts.len() <= PARTS_MAX) else {
            return Err(internal_datafusion_err!("the state of {} has other columns", self.of.values()));
        };
        self.count += counts.as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
        for (sum, part) in self.sums.iter_mut().zip(parts) {
            *sum += part.as_primitive::<Decimal128Type>().iter().flatten().sum::<i128>();
        }
        Ok(())
    }
}
