//! Functions that give something else each time: numbers by chance, and lists in another order.

use crate::arguments::refused;
use crate::wrapped::equal_by;
use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, GenericListArray, Int64Array, OffsetSizeTrait,
    UInt64Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::take;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use std::sync::Arc;
use uuid::Uuid;

/// What is given by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    /// A number from one to another, each as likely.
    Between,
    /// A number of a normal distribution: its mean and its standard deviation.
    Normal,
    /// A list in another order.
    Shuffled,
    /// So many elements of a list.
    Sample,
}

/// One of these functions.
#[derive(Debug)]
pub(crate) struct Chance {
    what: What,
    signature: Signature,
}

equal_by!(Chance: what);

pub(super) fn register(context: &SessionContext) {
    for what in [What::Between, What::Normal, What::Shuffled, What::Sample] {
        let signature = Signature::user_defined(Volatility::Volatile);
        context.register_udf(ScalarUDF::from(Chance { what, signature }));
    }
}

/// Numbers by chance (SplitMix64), from where a random UUID says.
struct Random(u64);

impl Random {
    fn new() -> Self {
        let bits = Uuid::new_v4().as_u128();
        Self(bits as u64 ^ (bits >> 64) as u64)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let state = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^ state >> 31
    }

    /// Returns a number from 0 to one, which may be the greatest.
    fn up_to(&mut self, last: u128) -> u128 {
        let mask = u128::MAX.checked_shr(last.leading_zeros()).unwrap_or(0);
        loop {
            let number = (u128::from(self.next()) << 64 | u128::from(self.next())) & mask;
            if number <= last {
                return number;
            }
        }
    }

    /// Returns a number above 0 and up to 1.
    fn share(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (radius, turn) = ((-2.0 * self.share().ln()).sqrt(), self.share());
        radius * (std::f64::consts::TAU * turn).cos()
    }
}

fn places(of: &DataType) -> Option<i8> {
    match of {
        of if of.is_integer() || of.is_null() => Some(0),
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
            Some((*scale).max(0))
        }
        _ => None,
    }
}

impl Chance {
    fn wrong(&self) -> DataFusionError {
        refused(match self.what {
            What::Between => "random() takes nothing, or two integers or DECIMALs",
            What::Normal => "random_normal() takes a mean and a standard deviation, or none",
            What::Shuffled => "array_shuffle() takes a list",
            What::Sample => "array_sample() takes a list and a number of elements",
        })
    }

    fn list(&self, of: &DataType) -> Result<DataType> {
        match of {
            DataType::List(_) | DataType::LargeList(_) | DataType::Null => Ok(of.clone()),
            DataType::FixedSizeList(field, _) => Ok(DataType::List(field.clone())),
            _ => Err(self.wrong()),
        }
    }
}

impl ScalarUDFImpl for Chance {
    fn name(&self) -> &str {
        match self.what {
            What::Between => "random_between",
            What::Normal => "random_normal",
            What::Shuffled => "array_shuffle",
            What::Sample => "array_sample",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_integer = |of: &DataType| of.is_integer() || of.is_null();
        match (self.what, types) {
            (What::Between, [low, high]) if is_integer(low) && is_integer(high) => {
                Ok(vec![DataType::Int64, DataType::Int64])
            }
            (What::Between, [low, high]) => match (places(low), places(high)) {
                (Some(low), Some(high)) => Ok(vec![DataType::Decimal128(38, low.max(high)); 2]),
                _ => Err(self.wrong()),
            },
            (What::Normal, types) if types.len() <= 2 => {
                let is_number = |of: &DataType| of.is_numeric() || of.is_null();
                match types.iter().all(is_number) {
                    true => Ok(vec![DataType::Float64; types.len()]),
                    false => Err(self.wrong()),
                }
            }
            (What::Shuffled, [list]) => Ok(vec![self.list(list)?]),
            (What::Sample, [list, count]) if is_integer(count) => Ok(vec![self.list(list)?, DataType::Int64]),
            _ => Err(self.wrong()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match (self.what, types) {
            (What::Normal, _) => Ok(DataType::Float64),
            (_, [first, ..]) => Ok(first.clone()),
            _ => Err(self.wrong()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let columns = args.args.iter().map(|value| value.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let mut random = Random::new();
        let values = match (self.what, columns.as_slice()) {
            (What::Normal, columns) => normal(columns, rows, &mut random),
            (What::Between, [low, high]) => between(low, high, &mut random)?,
            (What::Shuffled | What::Sample, [lists, counts @ ..]) => {
                let counts = counts.first().map(|counts| counts.as_primitive::<Int64Type>());
                match lists.data_type() {
                    DataType::List(_) => sampled(lists.as_list::<i32>(), counts, &mut random)?,
                    DataType::LargeList(_) => sampled(lists.as_list::<i64>(), counts, &mut random)?,
                    _ => lists.clone(),
                }
            }
            _ => return Err(self.wrong()),
        };
        Ok(ColumnarValue::Array(values))
    }
}

fn normal(columns: &[ArrayRef], rows: usize, random: &mut Random) -> ArrayRef {
    let given = |place: usize, row: usize, default: f64| match columns.get(place) {
        Some(values) => values.is_valid(row).then(|| values.as_primitive::<Float64Type>().value(row)),
        None => Some(default),
    };
    let numbers = (0..rows).map(|row| {
        let (mean, deviation) = (given(0, row, 0.0)?, given(1, row, 1.0)?);
        Some(mean + deviation * random.normal())
    });
    Arc::new(numbers.collect::<Float64Array>())
}

fn between(low: &ArrayRef, high: &ArrayRef, random: &mut Random) -> Result<ArrayRef> {
    let mut number = |low: i128, high: i128| -> Result<i128> {
        let span = high.checked_sub(low).and_then(|span| u128::try_from(span).ok());
        let span = span.ok_or_else(|| refused("lower bound must be less than or equal to upper bound"))?;
        Ok(low.wrapping_add(random.up_to(span) as i128))
    };
    if let (Some(low), Some(high)) =
        (low.as_primitive_opt::<Decimal128Type>(), high.as_primitive_opt::<Decimal128Type>())
    {
        let pairs = low.iter().zip(high);
        let numbers = pairs.map(|(low, high)| low.zip(high).map(|(low, high)| number(low, high)).transpose());
        let numbers = numbers.collect::<Result<Decimal128Array>>()?;
        return Ok(Arc::new(numbers.with_precision_and_scale(38, low.scale())?));
    }
    let pairs = low.as_primitive::<Int64Type>().iter().zip(high.as_primitive::<Int64Type>());
    let numbers = pairs.map(|(low, high)| -> Result<Option<i64>> {
        let found = low.zip(high).map(|(low, high)| number(low.into(), high.into())).transpose()?;
        Ok(found.map(|number| number as i64))
    });
    Ok(Arc::new(numbers.collect::<Result<Int64Array>>()?))
}

/// Returns the elements of lists in another order: so many of them, or all.
fn sampled<O: OffsetSizeTrait>(
    lists: &GenericListArray<O>,
    counts: Option<&Int64Array>,
    random: &mut Random,
) -> Result<ArrayRef> {
    let (DataType::List(field) | DataType::LargeList(field)) = lists.data_type() else {
        return Err(refused("a list was expected"));
    };
    let (mut taken, mut lengths, mut known) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..lists.len() {
        if lists.is_null(row) || counts.is_some_and(|counts| counts.is_null(row)) {
            lengths.push(0);
            known.push(false);
            continue;
        }
        let offsets = lists.value_offsets();
        let (start, end) = (offsets[row].as_usize(), offsets[row + 1].as_usize());
        let wanted = match counts {
            None => end - start,
            Some(counts) => usize::try_from(counts.value(row))
                .ok()
                .filter(|count| *count <= end - start)
                .ok_or_else(|| refused(format!("sample size must be between 0 and {}", end - start)))?,
        };
        let mut places: Vec<u64> = (start as u64..end as u64).collect();
        for place in 0..wanted {
            let other = place + random.up_to((places.len() - place - 1) as u128) as usize;
            places.swap(place, other);
        }
        taken.extend(places.into_iter().take(wanted));
        lengths.push(wanted);
        known.push(true);
    }
    let values = take(lists.values(), &UInt64Array::from(taken), None)?;
    let offsets = OffsetBuffer::<O>::from_lengths(lengths);
    Ok(Arc::new(GenericListArray::<O>::try_new(field.clone(), offsets, values, Some(known.into()))?))
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn numbers_are_within_their_bounds() {
        let mut random = Random::new();
        let mut seen = [false; 4];
        for _ in 0..1000 {
            seen[random.up_to(3) as usize] = true;
            let share = random.share();
            assert!(share > 0.0 && share <= 1.0 && random.normal().is_finite());
        }
        assert_eq!((seen, random.up_to(0)), ([true; 4], 0));
        random.up_to(u128::MAX);
    }
}
