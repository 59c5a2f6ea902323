//! Groups of one key whose values lie close together.

use super::{Groups, KERNEL};
use crate::rows::for_each;
use crate::value::{Value, Values, Word, array_of_words, fixed, wide_words};
use crate::{Column, Error, NO_POSITION, Result, Rows};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

/// Groups of one key, a number or date between two bounds, numbered in order of appearance: an array
/// has the number of each value between the bounds.
///
/// Takes a few instructions for each row, and one miss of the cache where keys come in no order. A
/// value outside of the bounds is an error.
pub struct DenseGroups {
    data_type: DataType,
    low: u128,
    /// The number of each value from the lowest on.
    numbers: Vec<u32>,
    /// The distances from the lowest value, in order of appearance; anything for NULL.
    distances: Vec<u32>,
    /// The number of NULL.
    null: Option<u32>,
}

impl DenseGroups {
    /// The most values that there are between the bounds.
    pub const VALUES_MAX: u128 = 1 << 26;

    /// Makes groups of values between the two rows of an array, the least and the greatest value of
    /// a column. Fails if there are more than [`VALUES_MAX`](Self::VALUES_MAX).
    pub fn new(bounds: &ArrayRef) -> Result<Self> {
        let unsupported = || Error::UnsupportedType { kernel: KERNEL, data_type: bounds.data_type().clone() };
        if matches!(bounds.data_type(), DataType::Float32 | DataType::Float64 | DataType::Boolean) {
            return Err(unsupported());
        }
        let words = wide_words(KERNEL, bounds)?.ok_or_else(unsupported)?;
        let (&[low, high], 0) = (&words[..], bounds.null_count()) else {
            return Err(Error::Inputs { kernel: KERNEL, reason: "there are not two bounds" });
        };
        if low > high || high - low >= Self::VALUES_MAX {
            return Err(Error::TooMany("the values of a domain"));
        }
        Ok(Self {
            data_type: bounds.data_type().clone(),
            low,
            numbers: vec![NO_POSITION; (high - low) as usize + 1],
            distances: Vec::new(),
            null: None,
        })
    }

    /// Returns the bytes that groups of values between bounds take at most.
    pub fn bytes_for(bounds: &ArrayRef) -> Result<usize> {
        let words = wide_words(KERNEL, bounds)?.unwrap_or_default();
        match words[..] {
            [low, high] if low <= high => {
                Ok(usize::try_from(high - low).unwrap_or(usize::MAX).saturating_mul(8))
            }
            _ => Ok(0),
        }
    }
}

impl Groups for DenseGroups {
    fn ids(&mut self, keys: &[Column<'_>], ids: &mut Vec<u32>) -> Result<()> {
        let [Column { array, rows }] = keys else {
            return Err(Error::Inputs { kernel: KERNEL, reason: "there is not one column" });
        };
        rows.check(array.len())?;
        if *array.data_type() != self.data_type {
            let (left, right) = (array.data_type().clone(), self.data_type.clone());
            return Err(Error::TypeMismatch { left, right });
        }
        ids.clear();
        ids.resize(rows.len(), NO_POSITION);
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let valid: Option<NullBuffer> =
            nulls.map(|nulls| rows.iter().map(|row| nulls.is_valid(row as usize)).collect());
        let Self { low, numbers, distances, null, .. } = self;
        let outside = fixed!(Values::of(KERNEL, *array)?, values => {
            number(values, *rows, *low, valid.as_ref(), numbers, distances, null, ids)
        }, _ => return Err(Error::UnsupportedType { kernel: KERNEL, data_type: array.data_type().clone() }));
        match outside {
            true => Err(Error::OutsideDomain),
            false => Ok(()),
        }
    }

    fn len(&self) -> usize {
        self.distances.len()
    }

    fn keys(&self, ids: Rows<'_>) -> Result<Vec<ArrayRef>> {
        ids.check(self.len())?;
        let words = ids.iter().map(|id| self.low + u128::from(self.distances[id as usize]));
        let nulls = self.null.map(|null| ids.iter().map(|id| id != null).collect::<NullBuffer>());
        Ok(vec![array_of_words(KERNEL, &self.data_type, words, nulls)?])
    }

    fn bytes(&self) -> usize {
        (self.numbers.len() + self.distances.capacity()) * 4
    }
}

/// Gives rows their ids. Returns whether a value lay outside of the bounds.
#[allow(clippy::too_many_arguments)]
fn number<T: Value>(
    values: &[T],
    rows: Rows<'_>,
    low: u128,
    valid: Option<&NullBuffer>,
    numbers: &mut [u32],
    distances: &mut Vec<u32>,
    null: &mut Option<u32>,
    ids: &mut [u32],
) -> bool {
    let low = T::Word::narrow(low);
    let mut outside = false;
    for_each(values, rows, |place, value| {
        if valid.is_some_and(|valid| valid.is_null(place)) {
            ids[place] = *null.get_or_insert_with(|| {
                distances.push(0);
                distances.len() as u32 - 1
            });
            return;
        }
        let distance = value.word().minus(low).wide();
        let Some(entry) = usize::try_from(distance).ok().and_then(|place| numbers.get_mut(place)) else {
            outside = true;
            return;
        };
        if *entry == NO_POSITION {
            *entry = distances.len() as u32;
            distances.push(distance as u32);
        }
        ids[place] = *entry;
    });
    outside
}
