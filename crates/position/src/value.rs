//! The values of a column as they lie in memory, whatever SQL calls their type.
//!
//! Integers, dates, times, timestamps, decimals and floats become unsigned words of their own
//! width, whose order and equality are PostgreSQL's: −0.0 equals 0.0, and NaN equals NaN and is
//! greater than all other numbers.

use crate::rows::for_each;
use crate::{Error, Result, Rows};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    AnyDictionaryArray, Array, ArrayRef, BinaryViewArray, BooleanArray, GenericBinaryArray, LargeStringArray,
    OffsetSizeTrait, StringArray, StringViewArray, make_array, new_empty_array,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, TimeUnit};
use std::cmp::Ordering;
use std::sync::Arc;

/// An unsigned integer that stands for a value.
pub(crate) trait Word: Copy + Ord + Send + Sync + std::hash::Hash + std::fmt::Debug + 'static {
    const MAX: Self;
    /// Subtracts modulo 2 to the power of the width.
    fn minus(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn wide(self) -> u128;
    /// Keeps the low bits of a wide word.
    fn narrow(wide: u128) -> Self;
}

macro_rules! word {
    ($($word:ty),*) => {$(
        impl Word for $word {
            const MAX: Self = <$word>::MAX;
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
            #[inline(always)]
            fn wide(self) -> u128 {
                self as u128
            }
            #[inline(always)]
            fn narrow(wide: u128) -> Self {
                wide as $word
            }
        }
    )*};
}
word!(u8, u16, u32, u64, u128);

/// A value of fixed width.
pub(crate) trait Value: ArrowNativeType + Send + Sync {
    type Word: Word;
    const BITS: u32;
    /// Returns a word that is ordered as the value is.
    fn word(self) -> Self::Word;
    /// Returns a word that also tells −0.0, which is the smaller one, from 0.0.
    fn exact(self) -> Self::Word;
    /// Returns a value that has the word.
    fn of_word(word: Self::Word) -> Self;
    /// Returns the values of a column if they are of this type.
    fn slice<'a>(values: &Values<'a>) -> Option<&'a [Self]>;
}

macro_rules! signed {
    ($($variant:ident $value:ty => $word:ty),*) => {$(
        impl Value for $value {
            type Word = $word;
            const BITS: u32 = <$word>::BITS;
            #[inline(always)]
            fn word(self) -> $word {
                self as $word ^ (1 << (<$word>::BITS - 1))
            }
            #[inline(always)]
            fn exact(self) -> $word {
                self.word()
            }
            #[inline(always)]
            fn of_word(word: $word) -> Self {
                (word ^ (1 << (<$word>::BITS - 1))) as $value
            }
            fn slice<'a>(values: &Values<'a>) -> Option<&'a [Self]> {
                match values {
                    Values::$variant(slice) => Some(slice),
                    _ => None,
                }
            }
        }
    )*};
}
signed!(I8 i8 => u8, I16 i16 => u16, I32 i32 => u32, I64 i64 => u64, I128 i128 => u128);

macro_rules! unsigned {
    ($($variant:ident $value:ty),*) => {$(
        impl Value for $value {
            type Word = $value;
            const BITS: u32 = <$value>::BITS;
            #[inline(always)]
            fn word(self) -> $value {
                self
            }
            #[inline(always)]
            fn exact(self) -> $value {
                self
            }
            #[inline(always)]
            fn of_word(word: $value) -> Self {
                word
            }
            fn slice<'a>(values: &Values<'a>) -> Option<&'a [Self]> {
                match values {
                    Values::$variant(slice) => Some(slice),
                    _ => None,
                }
            }
        }
    )*};
}
unsigned!(U8 u8, U16 u16, U32 u32, U64 u64);

macro_rules! float {
    ($($variant:ident $value:ty => $word:ty, $signed:ty),*) => {$(
        impl Value for $value {
            type Word = $word;
            const BITS: u32 = <$word>::BITS;
            #[inline(always)]
            fn word(self) -> $word {
                // Adding zero makes 0.0 of −0.0.
                (self + 0.0).exact()
            }
            #[inline(always)]
            fn exact(self) -> $word {
                let bits = self.to_bits();
                let sign = ((bits as $signed) >> (<$word>::BITS - 1)) as $word;
                let word = bits ^ (sign | 1 << (<$word>::BITS - 1));
                if self.is_nan() { <$value>::NAN.to_bits() | 1 << (<$word>::BITS - 1) } else { word }
            }
            #[inline(always)]
            fn of_word(word: $word) -> Self {
                let sign = ((!word as $signed) >> (<$word>::BITS - 1)) as $word;
                <$value>::from_bits(word ^ (sign | 1 << (<$word>::BITS - 1)))
            }
            fn slice<'a>(values: &Values<'a>) -> Option<&'a [Self]> {
                match values {
                    Values::$variant(slice) => Some(slice),
                    _ => None,
                }
            }
        }
    )*};
}
float!(F32 f32 => u32, i32, F64 f64 => u64, i64);

/// The values of a column of strings or bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bytes<'a> {
    Small(&'a [i32], &'a [u8]),
    Large(&'a [i64], &'a [u8]),
    TextView(&'a StringViewArray),
    View(&'a BinaryViewArray),
}

/// Where empty strings are.
static EMPTY: [u8; 1] = [0];

/// Returns the same bytes, at an address that there is.
///
/// An empty string may point into a page of a mapping that nobody has read yet, and an empty box
/// nowhere. To compare nothing there costs a fault that the processor suppresses: ten times the whole
/// test of `text <> ''`.
#[inline]
pub(crate) fn somewhere(bytes: &[u8]) -> &[u8] {
    if bytes.is_empty() { &EMPTY[..0] } else { bytes }
}

impl<'a> Bytes<'a> {
    /// Returns the bytes of a row; what they are under a NULL is not defined.
    #[inline]
    pub fn get(&self, row: usize) -> &'a [u8] {
        let bytes = match self {
            Self::Small(offsets, heap) => &heap[offsets[row] as usize..offsets[row + 1] as usize],
            Self::Large(offsets, heap) => &heap[offsets[row] as usize..offsets[row + 1] as usize],
            Self::TextView(array) => array.value(row).as_bytes(),
            Self::View(array) => array.value(row),
        };
        somewhere(bytes)
    }
}

/// The values of a column, by how they lie in memory.
#[derive(Clone, Copy)]
pub(crate) enum Values<'a> {
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    I128(&'a [i128]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    F32(&'a [f32]),
    F64(&'a [f64]),
    Boolean(&'a BooleanBuffer),
    Bytes(Bytes<'a>),
    Dictionary(&'a dyn AnyDictionaryArray),
}

/// Runs the body for the slice of values of fixed width, whatever their type, and else the other
/// one.
macro_rules! fixed {
    ($values:expr, $slice:ident => $body:expr, $other:pat => $otherwise:expr) => {
        match $values {
            $crate::value::Values::I8($slice) => $body,
            $crate::value::Values::I16($slice) => $body,
            $crate::value::Values::I32($slice) => $body,
            $crate::value::Values::I64($slice) => $body,
            $crate::value::Values::I128($slice) => $body,
            $crate::value::Values::U8($slice) => $body,
            $crate::value::Values::U16($slice) => $body,
            $crate::value::Values::U32($slice) => $body,
            $crate::value::Values::U64($slice) => $body,
            $crate::value::Values::F32($slice) => $body,
            $crate::value::Values::F64($slice) => $body,
            $other => $otherwise,
        }
    };
}
pub(crate) use fixed;

impl<'a> Values<'a> {
    /// Looks at the values of a column, for a kernel that is named in the error.
    pub fn of(kernel: &'static str, array: &'a dyn Array) -> Result<Self> {
        macro_rules! slice {
            ($variant:ident, $type:ty) => {
                Self::$variant(array.as_primitive::<$type>().values())
            };
        }
        Ok(match array.data_type() {
            DataType::Int8 => slice!(I8, Int8Type),
            DataType::Int16 => slice!(I16, Int16Type),
            DataType::Int32 => slice!(I32, Int32Type),
            DataType::Int64 => slice!(I64, Int64Type),
            DataType::UInt8 => slice!(U8, UInt8Type),
            DataType::UInt16 => slice!(U16, UInt16Type),
            DataType::UInt32 => slice!(U32, UInt32Type),
            DataType::UInt64 => slice!(U64, UInt64Type),
            DataType::Float32 => slice!(F32, Float32Type),
            DataType::Float64 => slice!(F64, Float64Type),
            DataType::Decimal32(..) => slice!(I32, Decimal32Type),
            DataType::Decimal64(..) => slice!(I64, Decimal64Type),
            DataType::Decimal128(..) => slice!(I128, Decimal128Type),
            DataType::Date32 => slice!(I32, Date32Type),
            DataType::Date64 => slice!(I64, Date64Type),
            DataType::Time32(TimeUnit::Second) => slice!(I32, Time32SecondType),
            DataType::Time32(_) => slice!(I32, Time32MillisecondType),
            DataType::Time64(TimeUnit::Microsecond) => slice!(I64, Time64MicrosecondType),
            DataType::Time64(_) => slice!(I64, Time64NanosecondType),
            DataType::Timestamp(TimeUnit::Second, _) => slice!(I64, TimestampSecondType),
            DataType::Timestamp(TimeUnit::Millisecond, _) => slice!(I64, TimestampMillisecondType),
            DataType::Timestamp(TimeUnit::Microsecond, _) => slice!(I64, TimestampMicrosecondType),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => slice!(I64, TimestampNanosecondType),
            DataType::Boolean => Self::Boolean(array.as_boolean().values()),
            DataType::Utf8 => {
                let array = array.as_string::<i32>();
                Self::Bytes(Bytes::Small(array.value_offsets(), array.value_data()))
            }
            DataType::Binary => {
                let array = array.as_binary::<i32>();
                Self::Bytes(Bytes::Small(array.value_offsets(), array.value_data()))
            }
            DataType::LargeUtf8 => {
                let array = array.as_string::<i64>();
                Self::Bytes(Bytes::Large(array.value_offsets(), array.value_data()))
            }
            DataType::LargeBinary => {
                let array = array.as_binary::<i64>();
                Self::Bytes(Bytes::Large(array.value_offsets(), array.value_data()))
            }
            DataType::Utf8View => Self::Bytes(Bytes::TextView(array.as_string_view())),
            DataType::BinaryView => Self::Bytes(Bytes::View(array.as_binary_view())),
            DataType::Dictionary(..) => Self::Dictionary(array.as_any_dictionary()),
            other => return Err(Error::UnsupportedType { kernel, data_type: other.clone() }),
        })
    }
}

/// Returns the NULLs of a column, unless it has none. Those of a dictionary's values are not among
/// them.
pub(crate) fn nulls(array: &dyn Array) -> Option<&NullBuffer> {
    array.nulls().filter(|nulls| nulls.null_count() > 0)
}

/// Returns the type of the values of a dictionary, and any other type itself.
pub(crate) fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// Fails unless the values of two types are ordered together as they lie in memory.
pub(crate) fn check_comparable(left: &DataType, right: &DataType) -> Result<()> {
    use DataType::*;
    let (one, other) = (value_type(left), value_type(right));
    let comparable = match (one, other) {
        (Decimal32(_, one), Decimal32(_, other))
        | (Decimal64(_, one), Decimal64(_, other))
        | (Decimal128(_, one), Decimal128(_, other)) => one == other,
        (Timestamp(one, _), Timestamp(other, _)) => one == other,
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => true,
        (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView) => true,
        _ => one == other,
    };
    match comparable {
        true => Ok(()),
        false => Err(Error::TypeMismatch { left: left.clone(), right: right.clone() }),
    }
}

/// Returns the words of some values of fixed width, or of booleans; `None` for other types.
pub(crate) fn wide_words(kernel: &'static str, array: &dyn Array) -> Result<Option<Vec<u128>>> {
    Ok(fixed!(Values::of(kernel, array)?, values => {
        Some(values.iter().map(|value| value.word().wide()).collect())
    }, other => match other {
        Values::Boolean(bits) => Some(bits.iter().map(u128::from).collect()),
        _ => None,
    }))
}

/// Returns an array of a type of fixed width, or of booleans, from words.
pub(crate) fn array_of_words(
    kernel: &'static str,
    data_type: &DataType,
    words: impl Iterator<Item = u128>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let empty = new_empty_array(data_type);
    fixed!(Values::of(kernel, &empty)?, sample => array_of(data_type, values_of(sample, words), nulls), other => {
        match other {
            Values::Boolean(_) => {
                let bits = words.map(|word| word != 0).collect();
                Ok(Arc::new(BooleanArray::new(bits, nulls)))
            }
            _ => Err(Error::UnsupportedType { kernel, data_type: data_type.clone() }),
        }
    })
}

fn values_of<T: Value>(_sample: &[T], words: impl Iterator<Item = u128>) -> Buffer {
    words.map(|word| T::of_word(T::Word::narrow(word))).collect::<Vec<T>>().into()
}

/// Returns an array of a type of fixed width from the bytes of its values.
pub(crate) fn array_of(data_type: &DataType, values: Buffer, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let width = data_type.primitive_width().unwrap_or(1);
    let data = ArrayData::builder(data_type.clone())
        .len(values.len() / width)
        .nulls(nulls)
        .add_buffer(values)
        .build()?;
    Ok(make_array(data))
}

/// Returns an array of a type of strings or bytes, which come from values of that type.
pub(crate) fn array_of_bytes<'a>(
    kernel: &'static str,
    data_type: &DataType,
    values: impl Iterator<Item = Option<&'a [u8]>> + Clone,
) -> Result<ArrayRef> {
    let bytes: usize = values.clone().flatten().map(<[u8]>::len).sum();
    if matches!(data_type, DataType::Utf8 | DataType::Binary) && i32::try_from(bytes).is_err() {
        return Err(Error::TooMany("the bytes of strings"));
    }
    /// The values one behind the other.
    fn joined<'a, O: OffsetSizeTrait>(
        values: impl Iterator<Item = Option<&'a [u8]>> + Clone,
        bytes: usize,
    ) -> GenericBinaryArray<O> {
        let mut heap = Vec::with_capacity(bytes);
        values.clone().flatten().for_each(|value| heap.extend_from_slice(value));
        let offsets = OffsetBuffer::from_lengths(values.clone().map(|value| value.map_or(0, <[u8]>::len)));
        let nulls = NullBuffer::from_iter(values.map(|value| value.is_some()));
        let nulls = (nulls.null_count() > 0).then_some(nulls);
        GenericBinaryArray::new(offsets, heap.into(), nulls)
    }
    Ok(match data_type {
        DataType::Binary => Arc::new(joined::<i32>(values, bytes)),
        DataType::LargeBinary => Arc::new(joined::<i64>(values, bytes)),
        DataType::BinaryView => Arc::new(BinaryViewArray::from_iter(values)),
        DataType::Utf8 => Arc::new(StringArray::try_from_binary(joined(values, bytes))?),
        DataType::LargeUtf8 => Arc::new(LargeStringArray::try_from_binary(joined(values, bytes))?),
        DataType::Utf8View => Arc::new(BinaryViewArray::from_iter(values).to_string_view()?),
        other => return Err(Error::UnsupportedType { kernel, data_type: other.clone() }),
    })
}

/// Compares a row of one column with a row of another one, which may be the same; neither may be
/// NULL.
pub(crate) type Comparator<'a> = Box<dyn Fn(usize, usize) -> Ordering + Send + Sync + 'a>;

/// Returns the order of the values of two columns whose types are comparable.
pub(crate) fn comparator<'a>(
    kernel: &'static str,
    left: &'a dyn Array,
    right: &'a dyn Array,
) -> Result<Comparator<'a>> {
    check_comparable(left.data_type(), right.data_type())?;
    fn typed<'a, T: Value>(kernel: &'static str, left: &'a [T], right: Values<'a>) -> Result<Comparator<'a>> {
        let right = T::slice(&right).ok_or(Error::Inputs { kernel, reason: "types differ in memory" })?;
        Ok(Box::new(move |one, other| left[one].word().cmp(&right[other].word())))
    }
    let (one, other) = (Values::of(kernel, left)?, Values::of(kernel, right)?);
    Ok(match (one, other) {
        (Values::Dictionary(one), _) => {
            let (row, inner) =
                (row_of_value(kernel, one)?, comparator(kernel, one.values().as_ref(), right)?);
            Box::new(move |left, right| inner(row(left), right))
        }
        (_, Values::Dictionary(other)) => {
            let (row, inner) =
                (row_of_value(kernel, other)?, comparator(kernel, left, other.values().as_ref())?);
            Box::new(move |left, right| inner(left, row(right)))
        }
        (Values::Boolean(one), Values::Boolean(other)) => {
            Box::new(move |left, right| one.value(left).cmp(&other.value(right)))
        }
        (Values::Bytes(one), Values::Bytes(other)) => {
            Box::new(move |left, right| one.get(left).cmp(other.get(right)))
        }
        (one, other) => fixed!(one, slice => typed(kernel, slice, other)?, _ => {
            return Err(Error::Inputs { kernel, reason: "types differ in memory" });
        }),
    })
}

/// Returns the function from rows of a dictionary, which are not NULL, to rows of its values.
fn row_of_value<'a>(
    kernel: &'static str,
    dictionary: &'a dyn AnyDictionaryArray,
) -> Result<Box<dyn Fn(usize) -> usize + Send + Sync + 'a>> {
    Ok(match Values::of(kernel, dictionary.keys())? {
        Values::I8(keys) => Box::new(move |row| keys[row] as usize),
        Values::I16(keys) => Box::new(move |row| keys[row] as usize),
        Values::I32(keys) => Box::new(move |row| keys[row] as usize),
        Values::I64(keys) => Box::new(move |row| keys[row] as usize),
        Values::U8(keys) => Box::new(move |row| keys[row] as usize),
        Values::U16(keys) => Box::new(move |row| keys[row] as usize),
        Values::U32(keys) => Box::new(move |row| keys[row] as usize),
        Values::U64(keys) => Box::new(move |row| keys[row] as usize),
        _ => return Err(Error::Inputs { kernel, reason: "the codes of a dictionary are not integers" }),
    })
}

/// Returns the code of each row of a dictionary, and `u32::MAX` where it is NULL.
pub(crate) fn codes(
    kernel: &'static str,
    dictionary: &dyn AnyDictionaryArray,
    rows: Rows<'_>,
) -> Result<Vec<u32>> {
    let mut codes = vec![u32::MAX; rows.len()];
    let keys = dictionary.keys();
    macro_rules! copy {
        ($values:expr) => {
            for_each($values, rows, |place, code| codes[place] = code as u32)
        };
    }
    match Values::of(kernel, keys)? {
        Values::I8(keys) => copy!(keys),
        Values::I16(keys) => copy!(keys),
        Values::I32(keys) => copy!(keys),
        Values::I64(keys) => copy!(keys),
        Values::U8(keys) => copy!(keys),
        Values::U16(keys) => copy!(keys),
        Values::U32(keys) => copy!(keys),
        Values::U64(keys) => copy!(keys),
        _ => return Err(Error::Inputs { kernel, reason: "the codes of a dictionary are not integers" }),
    }
    let values = dictionary.values();
    if nulls(keys).is_some() || nulls(values).is_some() {
        for (code, row) in codes.iter_mut().zip(rows.iter()) {
            if keys.is_null(row as usize) || values.is_null(*code as usize) {
                *code = u32::MAX;
            }
        }
    }
    Ok(codes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int8Type;
    use arrow_array::{DictionaryArray, Int8Array, IntervalYearMonthArray};
    use proptest::prelude::*;

    /// PostgreSQL's order of floats, as its documentation says it.
    fn compare(one: f64, other: f64) -> Ordering {
        match (one.is_nan(), other.is_nan()) {
            (false, false) => one.partial_cmp(&other).unwrap(),
            (one, other) => one.cmp(&other),
        }
    }

    proptest! {
        #[test]
        fn words_are_ordered_as_values(one: f64, other: f64, pick in 0..8_usize) {
            let edges = [0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, 1.0];
            for (one, other) in [(one, other), (edges[pick], other), (edges[pick], edges[7 - pick])] {
                prop_assert_eq!(one.word().cmp(&other.word()), compare(one, other));
                prop_assert_eq!((one as f32).word().cmp(&(other as f32).word()), compare(one as f32 as f64, other as f32 as f64));
                prop_assert_eq!(compare(f64::of_word(one.word()), one), Ordering::Equal);
                prop_assert_eq!(compare(f32::of_word((one as f32).word()).into(), one as f32 as f64), Ordering::Equal);
            }
        }

        #[test]
        fn integers_come_back(one: i64, other: i64, wide: i128) {
            prop_assert_eq!(one.word().cmp(&other.word()), one.cmp(&other));
            prop_assert_eq!(i64::of_word(one.word()), one);
            prop_assert_eq!(i128::of_word(wide.word()), wide);
            prop_assert_eq!(wide.word().cmp(&(one as i128).word()), wide.cmp(&(one as i128)));
        }
    }

    #[test]
    fn codes_of_nulls_are_the_greatest() {
        let keys = Int8Array::new(vec![0, -1, 1, 2].into(), Some(vec![true, false, true, true].into()));
        let values = StringArray::from(vec![Some("a"), None, Some("b")]);
        let dictionary = DictionaryArray::<Int8Type>::new(keys, Arc::new(values));
        let found = codes("a test", &dictionary, Rows::List(&[3, 0, 1, 2])).unwrap();
        assert_eq!(found, [2, 0, u32::MAX, u32::MAX]);
    }

    #[test]
    fn other_types_are_refused() {
        let array = IntervalYearMonthArray::from(vec![1]);
        assert!(matches!(Values::of("a test", &array), Err(Error::UnsupportedType { .. })));
        assert!(check_comparable(&DataType::Decimal64(9, 2), &DataType::Decimal64(18, 2)).is_ok());
        assert!(check_comparable(&DataType::Decimal64(9, 2), &DataType::Decimal64(9, 3)).is_err());
        assert!(check_comparable(&DataType::Utf8View, &DataType::LargeUtf8).is_ok());
        assert!(check_comparable(&DataType::Utf8, &DataType::Binary).is_err());
    }
}
