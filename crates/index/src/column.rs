//! The values of a column in the forms that indexes compare: whole numbers of 64 and 128 bits, and
//! bytes.

use crate::NO_ROW;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, ByteArrayType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, FixedSizeBinaryArray, GenericByteArray, StringViewArray,
};
use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, TimeUnit};
use hypostyle_types::{Error, Result};
use std::cmp::Ordering;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Rows that are hashed or looked up at a time: their intermediate values stay in the cache.
pub(crate) const BATCH_ROWS: usize = 4096;

const SIGN: u64 = 1 << 63;

/// What the values of a column are, as far as comparing them goes: values of one type are compared,
/// of two types never. All integers that fit 64 bits with a sign are of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    Integer,
    /// 64 bits without a sign.
    Unsigned,
    Date,
    Time(TimeUnit),
    Timestamp(TimeUnit),
    Duration(TimeUnit),
    /// A decimal of up to 64 bits with this scale.
    Decimal(i8),
    /// A decimal of 128 bits with this scale.
    WideDecimal(i8),
    /// A floating-point number. Not a key: equal ones can have other bytes.
    Float,
    Text,
    Bytes,
}

impl KeyType {
    /// Returns the type of an Arrow type's values; `None` where no index has such values.
    pub fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Self::Integer,
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => Self::Integer,
            DataType::UInt64 => Self::Unsigned,
            DataType::Date32 => Self::Date,
            DataType::Time64(unit) => Self::Time(*unit),
            DataType::Timestamp(unit, _) => Self::Timestamp(*unit),
            DataType::Duration(unit) => Self::Duration(*unit),
            DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) => Self::Decimal(*scale),
            DataType::Decimal128(_, scale) => Self::WideDecimal(*scale),
            DataType::Float32 | DataType::Float64 => Self::Float,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Self::Bytes,
            DataType::FixedSizeBinary(_) => Self::Bytes,
            DataType::Dictionary(_, value) if !matches!(**value, DataType::Dictionary(..)) => {
                return Self::of(value);
            }
            _ => return None,
        })
    }

    /// Tells whether equal values are always the same bytes, so that they can be keys.
    pub fn is_key(self) -> bool {
        self != Self::Float
    }

    /// Returns the number that stands for the type in a file.
    pub(crate) fn code(self) -> u32 {
        let (number, parameter) = match self {
            Self::Integer => (1, 0),
            Self::Unsigned => (2, 0),
            Self::Date => (3, 0),
            Self::Time(unit) => (4, code_of(unit)),
            Self::Timestamp(unit) => (5, code_of(unit)),
            Self::Duration(unit) => (6, code_of(unit)),
            Self::Decimal(scale) => (7, scale as u8),
            Self::WideDecimal(scale) => (8, scale as u8),
            Self::Float => (9, 0),
            Self::Text => (10, 0),
            Self::Bytes => (11, 0),
        };
        number | u32::from(parameter) << 8
    }

    pub(crate) fn of_code(code: u32) -> Option<Self> {
        let [number, parameter, 0, 0] = code.to_le_bytes() else { return None };
        let unit = unit_of(parameter);
        let found = match number {
            1 => Self::Integer,
            2 => Self::Unsigned,
            3 => Self::Date,
            4 => Self::Time(unit?),
            5 => Self::Timestamp(unit?),
            6 => Self::Duration(unit?),
            7 => Self::Decimal(parameter as i8),
            8 => Self::WideDecimal(parameter as i8),
            9 => Self::Float,
            10 => Self::Text,
            11 => Self::Bytes,
            _ => return None,
        };
        (found.code() == code).then_some(found)
    }
}

fn code_of(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

fn unit_of(code: u8) -> Option<TimeUnit> {
    Some(match code {
        0 => TimeUnit::Second,
        3 => TimeUnit::Millisecond,
        6 => TimeUnit::Microsecond,
        9 => TimeUnit::Nanosecond,
        _ => return None,
    })
}

/// A value that is a whole number of up to 64 bits, or is ordered as one.
pub(crate) trait Word: Copy + ArrowNativeType {
    fn word(self) -> i64;
}

macro_rules! words {
    ($($native:ty),*) => {
        $(impl Word for $native {
            fn word(self) -> i64 {
                self.into()
            }
        })*
    };
}

words!(i8, i16, i32, i64, u8, u16, u32);

impl Word for u64 {
    /// Keeps the order: the least number becomes the least one with a sign.
    fn word(self) -> i64 {
        (self ^ SIGN) as i64
    }
}

impl Word for f64 {
    /// Keeps the order, with one zero, and one NaN behind all numbers.
    fn word(self) -> i64 {
        if self.is_nan() {
            return i64::MAX;
        }
        let bits = (self + 0.0).to_bits() as i64;
        bits ^ ((bits >> 63) as u64 >> 1) as i64
    }
}

impl Word for f32 {
    fn word(self) -> i64 {
        f64::from(self).word()
    }
}

/// The values of a column of words.
#[derive(Clone, Debug)]
pub(crate) enum Words {
    I8(ScalarBuffer<i8>),
    I16(ScalarBuffer<i16>),
    I32(ScalarBuffer<i32>),
    I64(ScalarBuffer<i64>),
    U8(ScalarBuffer<u8>),
    U16(ScalarBuffer<u16>),
    U32(ScalarBuffer<u32>),
    U64(ScalarBuffer<u64>),
    F32(ScalarBuffer<f32>),
    F64(ScalarBuffer<f64>),
}

/// Runs an expression over the values of a column of words, compiled for each of their types.
macro_rules! with_words {
    ($words:expr, $values:ident => $body:expr) => {
        match $words {
            Words::I8($values) => $body,
            Words::I16($values) => $body,
            Words::I32($values) => $body,
            Words::I64($values) => $body,
            Words::U8($values) => $body,
            Words::U16($values) => $body,
            Words::U32($values) => $body,
            Words::U64($values) => $body,
            Words::F32($values) => $body,
            Words::F64($values) => $body,
        }
    };
}
pub(crate) use with_words;

impl Words {
    fn of(array: &dyn Array) -> Option<Self> {
        let data = array.to_data();
        fn values<T: ArrowNativeType>(data: &ArrayData) -> Option<ScalarBuffer<T>> {
            let buffer: &Buffer = data.buffers().first()?;
            Some(ScalarBuffer::new(buffer.clone(), data.offset(), data.len()))
        }
        Some(match array.data_type() {
            DataType::Int8 => Self::I8(values(&data)?),
            DataType::Int16 => Self::I16(values(&data)?),
            DataType::Int32 | DataType::Date32 | DataType::Decimal32(..) => Self::I32(values(&data)?),
            DataType::Int64
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Duration(_)
            | DataType::Decimal64(..) => Self::I64(values(&data)?),
            DataType::UInt8 => Self::U8(values(&data)?),
            DataType::UInt16 => Self::U16(values(&data)?),
            DataType::UInt32 => Self::U32(values(&data)?),
            DataType::UInt64 => Self::U64(values(&data)?),
            DataType::Float32 => Self::F32(values(&data)?),
            DataType::Float64 => Self::F64(values(&data)?),
            _ => return None,
        })
    }

    fn get(&self, row: usize) -> i64 {
        with_words!(self, values => values[row].word())
    }
}

/// The values of a column of bytes or text.
#[derive(Clone, Debug)]
enum Bytes {
    Small(OffsetBuffer<i32>, Buffer),
    Large(OffsetBuffer<i64>, Buffer),
    Text(StringViewArray),
    View(BinaryViewArray),
    Fixed(FixedSizeBinaryArray),
}

impl Bytes {
    fn of(array: &dyn Array) -> Option<Self> {
        fn parts<T: ByteArrayType>(array: &GenericByteArray<T>) -> (OffsetBuffer<T::Offset>, Buffer) {
            (array.offsets().clone(), array.values().clone())
        }
        let small = |(offsets, bytes)| Self::Small(offsets, bytes);
        let large = |(offsets, bytes)| Self::Large(offsets, bytes);
        Some(match array.data_type() {
            DataType::Utf8 => small(parts(array.as_string::<i32>())),
            DataType::LargeUtf8 => large(parts(array.as_string::<i64>())),
            DataType::Binary => small(parts(array.as_binary::<i32>())),
            DataType::LargeBinary => large(parts(array.as_binary::<i64>())),
            DataType::Utf8View => Self::Text(array.as_string_view().clone()),
            DataType::BinaryView => Self::View(array.as_binary_view().clone()),
            DataType::FixedSizeBinary(_) => Self::Fixed(array.as_fixed_size_binary().clone()),
            _ => return None,
        })
    }

    fn get(&self, row: usize) -> &[u8] {
        match self {
            Self::Small(offsets, bytes) => &bytes[offsets[row] as usize..offsets[row + 1] as usize],
            Self::Large(offsets, bytes) => &bytes[offsets[row] as usize..offsets[row + 1] as usize],
            Self::Text(views) => views.value(row).as_bytes(),
            Self::View(views) => views.value(row),
            Self::Fixed(values) => values.value(row),
        }
    }
}

#[derive(Clone, Debug)]
enum Values {
    Words(Words),
    Wide(ScalarBuffer<i128>),
    Bytes(Bytes),
    /// Codes, and the values that they stand for.
    Dictionary(ScalarBuffer<u32>, Arc<Column>),
}

/// A value in the form that its column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Value<'a> {
    Word(i64),
    Wide(i128),
    Bytes(&'a [u8]),
    /// Stands for a code that no value has.
    Missing,
}

/// A column whose values can be compared with those of others of its type. Values under a NULL are
/// never looked at.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    key_type: KeyType,
    values: Values,
    nulls: Option<NullBuffer>,
    rows: usize,
}

impl Column {
    /// Takes the values of an array; `None` for one of a type that no index has.
    pub fn of(array: &ArrayRef) -> Option<Self> {
        let key_type = KeyType::of(array.data_type())?;
        let values = match array.data_type() {
            DataType::Decimal128(..) => {
                let data = array.to_data();
                let buffer = data.buffers().first()?.clone();
                Values::Wide(ScalarBuffer::new(buffer, data.offset(), data.len()))
            }
            DataType::Dictionary(key, _) => {
                let (codes, values) = match **key {
                    DataType::Int8 => dictionary::<Int8Type>(array),
                    DataType::Int16 => dictionary::<Int16Type>(array),
                    DataType::Int32 => dictionary::<Int32Type>(array),
                    DataType::Int64 => dictionary::<Int64Type>(array),
                    DataType::UInt8 => dictionary::<UInt8Type>(array),
                    DataType::UInt16 => dictionary::<UInt16Type>(array),
                    DataType::UInt32 => dictionary::<UInt32Type>(array),
                    DataType::UInt64 => dictionary::<UInt64Type>(array),
                    _ => return None,
                };
                Values::Dictionary(codes.into(), Arc::new(Self::of(&values)?))
            }
            _ => match Words::of(array) {
                Some(words) => Values::Words(words),
                None => Values::Bytes(Bytes::of(array)?),
            },
        };
        Some(Self { key_type, values, nulls: array.logical_nulls(), rows: array.len() })
    }

    /// [`Self::of`] for each column of a table; `None` unless all can be taken and are as long.
    pub fn all(arrays: &[ArrayRef]) -> Option<Vec<Self>> {
        let rows = arrays.first()?.len();
        if arrays.iter().any(|array| array.len() != rows) {
            return None;
        }
        arrays.iter().map(Self::of).collect()
    }

    pub fn key_type(&self) -> KeyType {
        self.key_type
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn nulls(&self) -> Option<&NullBuffer> {
        self.nulls.as_ref().filter(|nulls| nulls.null_count() > 0)
    }

    /// Returns the values where each is a word of its own.
    pub fn words(&self) -> Option<&Words> {
        match &self.values {
            Values::Words(words) => Some(words),
            _ => None,
        }
    }

    fn value(&self, row: usize) -> Value<'_> {
        match &self.values {
            Values::Words(words) => Value::Word(words.get(row)),
            Values::Wide(values) => Value::Wide(values[row]),
            Values::Bytes(values) => Value::Bytes(values.get(row)),
            Values::Dictionary(codes, values) => match codes[row] as usize {
                code if code < values.rows => values.value(code),
                _ => Value::Missing,
            },
        }
    }

    /// Tells whether two values, neither of them NULL, are the same.
    pub fn is_equal(&self, row: usize, other: &Self, other_row: usize) -> bool {
        self.value(row) == other.value(other_row)
    }

    /// Compares two values, neither of them NULL.
    pub fn compare(&self, row: usize, other: &Self, other_row: usize) -> Ordering {
        self.value(row).cmp(&other.value(other_row))
    }

    /// Returns a word that is no less than that of any smaller value.
    pub fn ordered_word(&self, row: usize) -> i64 {
        match self.value(row) {
            Value::Word(word) => word,
            Value::Wide(value) => value.clamp(i64::MIN.into(), i64::MAX.into()) as i64,
            Value::Bytes(bytes) => {
                let mut first = [0; 8];
                let length = bytes.len().min(8);
                first[..length].copy_from_slice(&bytes[..length]);
                u64::from_be_bytes(first).word()
            }
            Value::Missing => i64::MIN,
        }
    }

    /// Takes the values of rows from `first` on into their hashes.
    pub fn hash(&self, first: usize, hashes: &mut [u64]) {
        match &self.values {
            Values::Words(words) => with_words!(words, values => {
                for (hash, value) in hashes.iter_mut().zip(&values[first..]) {
                    *hash = step(*hash, value.word() as u64);
                }
            }),
            _ => {
                for (row, hash) in (first..).zip(hashes) {
                    *hash = match self.value(row) {
                        Value::Word(word) => step(*hash, word as u64),
                        Value::Wide(value) => step(step(*hash, value as u64), (value >> 64) as u64),
                        Value::Bytes(bytes) => step(*hash, xxh3_64(bytes)),
                        Value::Missing => *hash,
                    };
                }
            }
        }
    }
}

/// Takes one more value into a hash (docs/format.md §10): the halves of a product, one over the
/// other. The second factor is odd, so that the lower half tells all values apart.
fn step(hash: u64, value: u64) -> u64 {
    const FIRST: u64 = 0x9E37_79B9_7F4A_7C15;
    const SECOND: u64 = 0xD1B5_4A32_D192_ED03;
    let product = u128::from(value ^ FIRST) * u128::from((hash ^ SECOND) | 1);
    (product >> 64) as u64 ^ product as u64
}

/// Returns the codes of a dictionary array, those under a NULL being [`NO_ROW`], and its values.
fn dictionary<K: ArrowDictionaryKeyType>(array: &ArrayRef) -> (Vec<u32>, ArrayRef) {
    let array = array.as_dictionary::<K>();
    let code = |key: K::Native| key.to_usize().and_then(|code| u32::try_from(code).ok()).unwrap_or(NO_ROW);
    (array.keys().values().iter().map(|key| code(*key)).collect(), array.values().clone())
}

/// Returns the types of columns.
pub(crate) fn types_of(columns: &[Column]) -> Vec<KeyType> {
    columns.iter().map(Column::key_type).collect()
}

/// Returns which rows have a NULL in none of the columns; `None` when all have.
pub(crate) fn valid_rows(columns: &[Column]) -> Option<NullBuffer> {
    columns.iter().fold(None, |valid, column| NullBuffer::union(valid.as_ref(), column.nulls()))
}

/// Takes columns that are to be compared with others of the given types.
///
/// # Errors
/// `Internal` when their types or lengths do not fit: the planner has not cast them.
pub(crate) fn matching(arrays: &[ArrayRef], types: &[KeyType]) -> Result<Vec<Column>> {
    let columns = Column::all(arrays).filter(|columns| types_of(columns) == types);
    columns.ok_or_else(|| {
        let given: Vec<_> = arrays.iter().map(|array| array.data_type()).collect();
        Error::internal(format!("keys of the types {given:?} are looked up in an index of {types:?}"))
    })
}

/// Hashes the keys of rows from `first` on.
pub(crate) fn hash_rows(columns: &[Column], seed: u64, first: usize, hashes: &mut [u64]) {
    hashes.fill(seed);
    columns.iter().for_each(|column| column.hash(first, hashes));
}

/// Tells whether two keys without NULLs are the same.
pub(crate) fn is_same_key(one: &[Column], row: usize, other: &[Column], other_row: usize) -> bool {
    one.iter().zip(other).all(|(one, other)| one.is_equal(row, other, other_row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_codes_of_their_own() {
        let types = [
            KeyType::Integer,
            KeyType::Unsigned,
            KeyType::Date,
            KeyType::Time(TimeUnit::Microsecond),
            KeyType::Timestamp(TimeUnit::Second),
            KeyType::Timestamp(TimeUnit::Nanosecond),
            KeyType::Duration(TimeUnit::Millisecond),
            KeyType::Decimal(-3),
            KeyType::WideDecimal(38),
            KeyType::Float,
            KeyType::Text,
            KeyType::Bytes,
        ];
        for key_type in types {
            assert_eq!(KeyType::of_code(key_type.code()), Some(key_type));
        }
        for code in [0, 12, 0x101, 0x0104, 0x1_0001, u32::MAX] {
            assert_eq!(KeyType::of_code(code), None, "{code:#x}");
        }
    }

    #[test]
    fn words_keep_the_order_of_values() {
        let floats = [f64::NEG_INFINITY, -2.5, -f64::MIN_POSITIVE, 0.0, 1e-300, 7.0, f64::INFINITY, f64::NAN];
        assert!(floats.is_sorted_by(|one, other| one.word() < other.word()));
        assert_eq!((-0.0_f64).word(), 0.0_f64.word());
        assert_eq!((-f64::NAN).word(), f64::NAN.word());
        assert!([0, 1, u64::MAX / 2, u64::MAX].is_sorted_by(|one, other| one.word() < other.word()));
    }
}
