//! Sums, which are exact for integers and decimals.
//!
//! Values are added up in 64 bits as long as that cannot overflow: the greatest magnitude of each
//! piece of rows, times its rows, is spent of a budget of 2⁶³. When the budget is used up, the sums
//! move to 128 bits and start again. Whatever does not fit a piece's budget is added in 128 bits,
//! with a check.

use super::{Fold, Ids, KERNEL, NO_COLUMN, Seen, Sums, check, same_kind};
use crate::rows::for_each;
use crate::value::{Value, Values, Word, nulls};
use crate::{Column, Error, Result, Rows};
use arrow_array::{
    ArrayRef, Decimal64Array, Decimal128Array, Float32Array, Float64Array, Int64Array, UInt64Array,
};
use arrow_buffer::{ArrowNativeType, NullBuffer, ScalarBuffer};
use arrow_schema::DataType;
use std::sync::Arc;

/// Rows whose magnitudes are looked at together.
const PIECE: usize = 1 << 14;

/// Makes a fold that adds the values of a column of one type up to a sum of another.
///
/// * Integers and decimals are exact; a sum that does not fit into Int64, UInt64, Decimal64 or
///   Decimal128 is an error. Decimals keep their scale.
/// * Floats are added up in 64 bits, in the order of the rows, in as many interleaved sums as lanes
///   where ids are few; the result is the same for the same pieces of rows.
///
/// With `nullable` an id that has had no value gives NULL. Without, it gives 0, which saves a byte
/// and a write for each row: for columns that have no NULL, where ids without a row are left out
/// anyway.
pub fn sum(values: &DataType, result: &DataType, nullable: bool) -> Result<Box<dyn Fold>> {
    let seen = nullable.then(|| Seen(Vec::new()));
    Ok(match SumKind::new(values, result)? {
        SumKind::Float => Box::new(FloatSum { sums: Sums::new(), seen, result: result.clone() }),
        SumKind::Exact => Box::new(ExactSum::new(seen, result)),
    })
}

/// How values are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SumKind {
    /// Floats are added up in 64 bits.
    Float,
    /// Integers and decimals are added up in at most 128 bits.
    Exact,
}

impl SumKind {
    /// Fails where there is no sum of one type in another.
    pub fn new(values: &DataType, result: &DataType) -> Result<Self> {
        use DataType::*;
        match (values, result) {
            (Float32 | Float64, Float32 | Float64) => Ok(Self::Float),
            (
                Decimal32(_, from) | Decimal64(_, from) | Decimal128(_, from),
                Decimal64(_, to) | Decimal128(_, to),
            ) => match from == to {
                true => Ok(Self::Exact),
                false => Err(Error::TypeMismatch { left: values.clone(), right: result.clone() }),
            },
            (values, Int64 | UInt64 | Decimal64(_, 0) | Decimal128(_, 0)) if values.is_integer() => {
                Ok(Self::Exact)
            }
            _ => Err(unsupported(values)),
        }
    }
}

fn unsupported(data_type: &DataType) -> Error {
    Error::UnsupportedType { kernel: "sum", data_type: data_type.clone() }
}

/// An integer whose sums are exact.
trait Integer: Value {
    /// Returns a word that has at least the bits of the value's magnitude, less one.
    fn magnitude(self) -> u128;
    /// Returns the value, which fits.
    fn narrow(self) -> i64;
    fn wide(self) -> i128;
}

macro_rules! integer {
    ($($value:ty),*) => {$(
        impl Integer for $value {
            #[inline(always)]
            fn magnitude(self) -> u128 {
                // The bits of a negative value are those of −1 − value.
                #[allow(unused_comparisons)]
                let bits = if self < 0 { !self } else { self };
                bits as u128
            }
            #[inline(always)]
            fn narrow(self) -> i64 {
                self as i64
            }
            #[inline(always)]
            fn wide(self) -> i128 {
                self as i128
            }
        }
    )*};
}
integer!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

/// Returns a bound of the magnitudes of some values, those under NULL among them.
fn bound<T: Integer>(values: &[T], rows: Rows<'_>) -> u128 {
    if T::BITS <= 32 {
        return 1 << T::BITS;
    }
    let mut bits = T::Word::narrow(0);
    for_each(values, rows, |_, value| bits = bits.or(T::Word::narrow(value.magnitude())));
    bits.wide().saturating_add(1)
}

struct ExactSum {
    narrow: Sums<i64>,
    /// What no longer fitted into 64 bits; empty until then.
    wide: Vec<i128>,
    /// No narrow sum's magnitude is greater.
    spent: u128,
    seen: Option<Seen>,
    result: DataType,
}

impl ExactSum {
    fn new(seen: Option<Seen>, result: &DataType) -> Self {
        Self { narrow: Sums::new(), wide: Vec::new(), spent: 0, seen, result: result.clone() }
    }

    /// Moves the narrow sums to 128 bits.
    fn widen(&mut self) -> Result<()> {
        self.wide.resize(self.narrow.len(), 0);
        let narrow = std::mem::replace(&mut self.narrow, Sums::new());
        self.narrow.grow(narrow.len());
        self.spent = 0;
        (0..narrow.len()).try_for_each(|id| self.add_wide(id, narrow.get(id).into()))
    }

    fn add_wide(&mut self, id: usize, value: i128) -> Result<()> {
        if self.wide.is_empty() {
            self.wide.resize(self.narrow.len(), 0);
        }
        let sum = self.wide[id].checked_add(value);
        self.wide[id] = sum.ok_or_else(|| Error::Overflow(self.result.clone()))?;
        Ok(())
    }

    fn total(&self, id: usize) -> Result<i128> {
        let wide = self.wide.get(id).copied().unwrap_or(0);
        wide.checked_add(self.narrow.get(id).into()).ok_or_else(|| Error::Overflow(self.result.clone()))
    }

    fn fold_piece<T: Integer>(
        &mut self,
        ids: Ids<'_>,
        values: &[T],
        rows: Rows<'_>,
        nulls: Option<&NullBuffer>,
    ) -> Result<()> {
        let need = bound(values, rows).saturating_mul(rows.len() as u128);
        if need > i64::MAX as u128 {
            for (id, row) in ids.iter().zip(rows.iter()) {
                if nulls.is_none_or(|nulls| nulls.is_valid(row as usize)) {
                    self.add_wide(id as usize, values[row as usize].wide())?;
                }
            }
            return Ok(());
        }
        if self.spent + need > i64::MAX as u128 {
            self.widen()?;
        }
        self.spent += need;
        match nulls {
            None => self.narrow.add_each(ids, values, rows, T::narrow),
            Some(nulls) => {
                for (id, row) in ids.iter().zip(rows.iter()) {
                    let value = values[row as usize].narrow();
                    self.narrow.add(id as usize, if nulls.is_valid(row as usize) { value } else { 0 });
                }
            }
        }
        Ok(())
    }

    fn fold_values<T: Integer>(&mut self, ids: Ids<'_>, values: &[T], column: Column<'_>) -> Result<()> {
        let nulls = nulls(column.array);
        let rows = ids.len();
        for start in (0..rows).step_by(PIECE) {
            let places = start..rows.min(start + PIECE);
            self.fold_piece(ids.part(places.clone()), values, column.rows.part(places), nulls)?;
        }
        Ok(())
    }
}

impl Fold for ExactSum {
    fn grow(&mut self, groups: usize) {
        self.narrow.grow(groups);
        if !self.wide.is_empty() {
            self.wide.resize(self.narrow.len(), 0);
        }
        if let Some(seen) = &mut self.seen {
            seen.grow(groups);
        }
    }

    fn fold(&mut self, ids: Ids<'_>, column: Option<Column<'_>>) -> Result<()> {
        check(ids, column, self.narrow.len())?;
        let column = column.ok_or(NO_COLUMN)?;
        match &mut self.seen {
            Some(seen) => seen.mark(ids, Some(column)),
            None => check_not_null(column)?,
        }
        match Values::of(KERNEL, column.array)? {
            Values::I8(values) => self.fold_values(ids, values, column),
            Values::I16(values) => self.fold_values(ids, values, column),
            Values::I32(values) => self.fold_values(ids, values, column),
            Values::I64(values) => self.fold_values(ids, values, column),
            Values::I128(values) => self.fold_values(ids, values, column),
            Values::U8(values) => self.fold_values(ids, values, column),
            Values::U16(values) => self.fold_values(ids, values, column),
            Values::U32(values) => self.fold_values(ids, values, column),
            Values::U64(values) => self.fold_values(ids, values, column),
            _ => Err(unsupported(column.array.data_type())),
        }
    }

    fn merge(&mut self, other: &dyn Fold, ids: Ids<'_>) -> Result<()> {
        let other = same_kind::<Self>(other, ids, |other| other.narrow.len())?;
        ids.check(self.narrow.len())?;
        for (place, id) in ids.iter().enumerate() {
            self.add_wide(id as usize, other.total(place)?)?;
        }
        if let (Some(seen), Some(other)) = (&mut self.seen, &other.seen) {
            seen.merge(other, ids);
        }
        Ok(())
    }

    fn finish(&self) -> Result<ArrayRef> {
        let sums = (0..self.narrow.len()).map(|id| self.total(id));
        exact_array(&self.result, sums, self.seen.as_ref().map(Seen::nulls))
    }

    fn bytes(&self) -> usize {
        self.narrow.bytes() + self.wide.capacity() * 16 + self.seen.as_ref().map_or(0, Fold::bytes)
    }
}

/// Returns exact sums as an array of their type, or an error if one does not fit.
pub(crate) fn exact_array(
    result: &DataType,
    sums: impl Iterator<Item = Result<i128>>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    fn fitting<T: ArrowNativeType + TryFrom<i128>>(
        result: &DataType,
        sums: impl Iterator<Item = Result<i128>>,
        digits: u8,
    ) -> Result<ScalarBuffer<T>> {
        let bound = 10_u128.checked_pow(digits.into()).unwrap_or(u128::MAX);
        let values = sums.map(|sum| {
            let sum = sum?;
            let value = T::try_from(sum).ok().filter(|_| sum.unsigned_abs() < bound);
            value.ok_or_else(|| Error::Overflow(result.clone()))
        });
        Ok(values.collect::<Result<Vec<T>>>()?.into())
    }
    // No 64-bit integer has more digits.
    const DIGITS: u8 = 20;
    Ok(match result {
        DataType::Int64 => Arc::new(Int64Array::new(fitting(result, sums, DIGITS)?, nulls)),
        DataType::UInt64 => Arc::new(UInt64Array::new(fitting(result, sums, DIGITS)?, nulls)),
        DataType::Decimal64(precision, scale) => {
            let array = Decimal64Array::new(fitting(result, sums, *precision)?, nulls);
            Arc::new(array.with_precision_and_scale(*precision, *scale)?)
        }
        DataType::Decimal128(precision, scale) => {
            let array = Decimal128Array::new(fitting(result, sums, *precision)?, nulls);
            Arc::new(array.with_precision_and_scale(*precision, *scale)?)
        }
        other => return Err(unsupported(other)),
    })
}

/// Calls a function with the place and the value of each row that is not NULL.
pub(crate) fn for_each_exact(column: Column<'_>, mut function: impl FnMut(usize, i128)) -> Result<()> {
    fn each<T: Integer>(values: &[T], column: Column<'_>, function: &mut impl FnMut(usize, i128)) {
        let nulls = nulls(column.array);
        for (place, row) in column.rows.iter().enumerate() {
            if nulls.is_none_or(|nulls| nulls.is_valid(row as usize)) {
                function(place, values[row as usize].wide());
            }
        }
    }
    match Values::of(KERNEL, column.array)? {
        Values::I8(values) => each(values, column, &mut function),
        Values::I16(values) => each(values, column, &mut function),
        Values::I32(values) => each(values, column, &mut function),
        Values::I64(values) => each(values, column, &mut function),
        Values::I128(values) => each(values, column, &mut function),
        Values::U8(values) => each(values, column, &mut function),
        Values::U16(values) => each(values, column, &mut function),
        Values::U32(values) => each(values, column, &mut function),
        Values::U64(values) => each(values, column, &mut function),
        _ => return Err(unsupported(column.array.data_type())),
    }
    Ok(())
}

fn check_not_null(column: Column<'_>) -> Result<()> {
    match nulls(column.array) {
        Some(_) => Err(Error::Inputs { kernel: "sum", reason: "a column that is not nullable has NULLs" }),
        None => Ok(()),
    }
}

struct FloatSum {
    sums: Sums<f64>,
    seen: Option<Seen>,
    result: DataType,
}

impl FloatSum {
    fn fold_values<T: Copy + Into<f64>>(&mut self, ids: Ids<'_>, values: &[T], column: Column<'_>) {
        match nulls(column.array) {
            None => self.sums.add_each(ids, values, column.rows, T::into),
            Some(nulls) => {
                for (id, row) in ids.iter().zip(column.rows.iter()) {
                    if nulls.is_valid(row as usize) {
                        self.sums.add(id as usize, values[row as usize].into());
                    }
                }
            }
        }
    }
}

impl Fold for FloatSum {
    fn grow(&mut self, groups: usize) {
        self.sums.grow(groups);
        if let Some(seen) = &mut self.seen {
            seen.grow(groups);
        }
    }

    fn fold(&mut self, ids: Ids<'_>, column: Option<Column<'_>>) -> Result<()> {
        check(ids, column, self.sums.len())?;
        let column = column.ok_or(NO_COLUMN)?;
        match &mut self.seen {
            Some(seen) => seen.mark(ids, Some(column)),
            None => check_not_null(column)?,
        }
        match Values::of(KERNEL, column.array)? {
            Values::F32(values) => self.fold_values(ids, values, column),
            Values::F64(values) => self.fold_values(ids, values, column),
            _ => return Err(unsupported(column.array.data_type())),
        }
        Ok(())
    }

    fn merge(&mut self, other: &dyn Fold, ids: Ids<'_>) -> Result<()> {
        let other = same_kind::<Self>(other, ids, |other| other.sums.len())?;
        ids.check(self.sums.len())?;
        ids.iter().enumerate().for_each(|(place, id)| self.sums.add(id as usize, other.sums.get(place)));
        if let (Some(seen), Some(other)) = (&mut self.seen, &other.seen) {
            seen.merge(other, ids);
        }
        Ok(())
    }

    fn finish(&self) -> Result<ArrayRef> {
        let sums = (0..self.sums.len()).map(|id| self.sums.get(id));
        Ok(float_array(&self.result, sums, self.seen.as_ref().map(Seen::nulls)))
    }

    fn bytes(&self) -> usize {
        self.sums.bytes() + self.seen.as_ref().map_or(0, Fold::bytes)
    }
}

/// Returns sums of floats as an array of their type.
pub(crate) fn float_array(
    result: &DataType,
    sums: impl Iterator<Item = f64>,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    match result {
        DataType::Float32 => Arc::new(Float32Array::new(sums.map(|sum| sum as f32).collect(), nulls)),
        _ => Arc::new(Float64Array::new(sums.collect(), nulls)),
    }
}
