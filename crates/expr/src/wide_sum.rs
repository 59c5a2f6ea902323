//! Sums and averages of DECIMALs of so many digits that 256 bits hold few of their sums. Each value is
//! taken as two numbers of 38 digits, which are added up by themselves.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{
    DECIMAL256_MAX_PRECISION, DataType, Decimal256Type, Field, FieldRef, Float64Type, Int64Type, i256,
};
use datafusion::common::{ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use hypostyle_error::external;
use hypostyle_error::type_name::type_name;
use hypostyle_types::Error;
use std::sync::Arc;

/// The digits of decimals whose sums 256 bits hold, whatever the number of rows.
pub(crate) const NARROW_DIGITS: u8 = DECIMAL256_MAX_PRECISION - 10;

/// The digits of the lower one of two numbers.
const LOWER_DIGITS: u32 = 38;

/// A sum of DECIMALs of a scale, or their average.
#[derive(Debug)]
pub(crate) struct WideSum {
    count: i64,
    upper: i256,
    lower: i256,
    scale: i8,
    /// A DOUBLE is the average.
    gives: DataType,
}

/// Returns the fields of what is added up so far.
pub(crate) fn state_fields(name: &str) -> Vec<FieldRef> {
    let part = DataType::Decimal256(DECIMAL256_MAX_PRECISION, 0);
    let parts = [("count", DataType::Int64), ("upper", part.clone()), ("lower", part)];
    parts.into_iter().map(|(of, part)| Arc::new(Field::new(format!("{name}[{of}]"), part, true))).collect()
}

impl WideSum {
    pub fn new(scale: i8, gives: DataType) -> Self {
        Self { count: 0, upper: i256::ZERO, lower: i256::ZERO, scale, gives }
    }

    fn change(&mut self, values: &[ArrayRef], is_new: bool) -> Result<()> {
        let values = values.first().and_then(|values| values.as_primitive_opt::<Decimal256Type>());
        let values = values.ok_or_else(|| internal_datafusion_err!("wide sums are of DECIMALs"))?;
        let half = i256::from_i128(10_i128.pow(LOWER_DIGITS));
        for value in values.iter().flatten() {
            let (upper, lower) = (value.wrapping_div(half), value.wrapping_rem(half));
            if is_new {
                self.count += 1;
                self.upper = self.upper.wrapping_add(upper);
                self.lower = self.lower.wrapping_add(lower);
            } else {
                self.count -= 1;
                self.upper = self.upper.wrapping_sub(upper);
                self.lower = self.lower.wrapping_sub(lower);
            }
        }
        Ok(())
    }

    /// Returns the sum, if it has no more digits than there are.
    fn exact(&self) -> Option<i256> {
        let half = i256::from_i128(10_i128.pow(LOWER_DIGITS));
        let sum = self.upper.checked_mul(half)?.checked_add(self.lower)?;
        let end = half.checked_mul(half)?;
        (sum < end && sum > end.wrapping_neg()).then_some(sum)
    }

    fn average(&self) -> Result<f64> {
        let double = |value: i256, scale: i8| -> Result<f64> {
            let value = ScalarValue::Decimal256(Some(value), DECIMAL256_MAX_PRECISION, scale);
            let value = value.to_array()?;
            let value = arrow::compute::cast(&value, &DataType::Float64)?;
            Ok(value.as_primitive::<Float64Type>().value(0))
        };
        let sum = match self.exact() {
            Some(sum) => double(sum, self.scale)?,
            None => {
                let upper = double(self.upper, 0)? * 10_f64.powi(LOWER_DIGITS as i32);
                (upper + double(self.lower, 0)?) / 10_f64.powi(i32::from(self.scale))
            }
        };
        Ok(sum / self.count as f64)
    }
}

impl Accumulator for WideSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.change(values, true)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.change(values, false)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match &self.gives {
            gives if self.count == 0 => ScalarValue::try_from(gives),
            DataType::Float64 => Ok(ScalarValue::Float64(Some(self.average()?))),
            DataType::Decimal256(digits, scale) if let Some(sum) = self.exact() => {
                Ok(ScalarValue::Decimal256(Some(sum), *digits, *scale))
            }
            gives => {
                let message =
                    format!("a sum is out of range of {}; add up DOUBLEs instead", type_name(gives));
                Err(external(Error::invalid_input(message).with_sqlstate("22003")))
            }
        }
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let part = |value| ScalarValue::Decimal256(Some(value), DECIMAL256_MAX_PRECISION, 0);
        Ok(vec![ScalarValue::Int64(Some(self.count)), part(self.upper), part(self.lower)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [counts, upper, lower] = states else {
            return Err(internal_datafusion_err!("the state of a wide sum is three numbers"));
        };
        self.count += counts.as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
        let total = |parts: &ArrayRef| {
            let parts = parts.as_primitive::<Decimal256Type>().iter().flatten();
            parts.fold(i256::ZERO, i256::wrapping_add)
        };
        self.upper = self.upper.wrapping_add(total(upper));
        self.lower = self.lower.wrapping_add(total(lower));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Decimal256Array;

    #[test]
    fn sums_are_exact_or_out_of_range() {
        let number = |text: &str| i256::from_string(text).unwrap();
        let nines = "9".repeat(76);
        let of = DataType::Decimal256(76, 0);
        for (values, sum) in [
            (vec![nines.clone(), "1".into()], None),
            (vec![nines.clone(), "1".into(), "-1".into()], Some(nines.clone())),
            (vec![nines.clone(); 10], None),
            (vec![format!("-{nines}"), "-1".into()], None),
            ([vec![nines.clone(); 10], vec![format!("-{nines}"); 10]].concat(), Some("0".into())),
            (vec!["-5".into(), format!("1{}", "0".repeat(40))], Some(format!("{}5", "9".repeat(39)))),
        ] {
            let expected = sum.as_deref().map(number);
            let array = Decimal256Array::from_iter_values(values.iter().map(|value| number(value)));
            let array: ArrayRef = Arc::new(array.with_precision_and_scale(76, 0).unwrap());
            let mut whole = WideSum::new(0, of.clone());
            for row in 0..array.len() {
                let mut part = WideSum::new(0, of.clone());
                part.update_batch(&[array.slice(row, 1)]).unwrap();
                let states: Vec<ArrayRef> =
                    part.state().unwrap().iter().map(|state| state.to_array().unwrap()).collect();
                whole.merge_batch(&states).unwrap();
            }
            match (whole.evaluate(), expected) {
                (Ok(ScalarValue::Decimal256(found, ..)), Some(_)) => {
                    assert_eq!(found, expected, "{values:?}")
                }
                (Err(_), None) => {}
                (found, _) => panic!("{values:?}: {found:?}"),
            }
            whole.retract_batch(&[array]).unwrap();
            assert_eq!(whole.evaluate().unwrap(), ScalarValue::Decimal256(None, 76, 0));
        }
    }
}
