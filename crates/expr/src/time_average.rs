//! The average of points in time, and of dates, which is a point in time, as in DuckDB.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, Int64Type, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::common::{ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use datafusion::logical_expr::utils::format_state_name;
use std::sync::Arc;

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

/// The sum of points in time in microseconds, and their number.
#[derive(Debug)]
pub struct TimeAverage {
    zone: Option<Arc<str>>,
    count: i64,
    sum: i128,
}

/// The columns of its state.
pub fn state_fields(name: &str) -> Vec<FieldRef> {
    let field = |(part, of)| Arc::new(Field::new(format_state_name(name, part), of, true));
    [("count", DataType::Int64), ("sum", WIDE)].into_iter().map(field).collect()
}

impl TimeAverage {
    /// Makes the average of nothing, which is shown in a zone.
    pub fn new(zone: Option<Arc<str>>) -> Self {
        Self { zone, count: 0, sum: 0 }
    }

    /// Adds points in time, or takes them away.
    fn update(&mut self, values: &[ArrayRef], sign: i64) -> Result<()> {
        let values = values.first().and_then(|values| values.as_primitive_opt::<TimestampMicrosecondType>());
        let values = values.ok_or_else(|| internal_datafusion_err!("an average is of one column"))?;
        for value in values.iter().flatten() {
            self.count += sign;
            self.sum += i128::from(sign) * i128::from(value);
        }
        Ok(())
    }
}

impl Accumulator for TimeAverage {
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
        // It lies between the values, so that it has as few bits as they.
        let average = (self.count > 0).then(|| self.sum.div_euclid(i128::from(self.count)) as i64);
        Ok(ScalarValue::TimestampMicrosecond(average, self.zone.clone()))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.count.into(), ScalarValue::Decimal128(Some(self.sum), DECIMAL128_MAX_PRECISION, 0)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [counts, sums] = states else {
            return Err(internal_datafusion_err!(
                "the state of an average of points in time has two columns"
            ));
        };
        self.count += counts.as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
        self.sum += sums.as_primitive::<Decimal128Type>().iter().flatten().sum::<i128>();
        Ok(())
    }
}
