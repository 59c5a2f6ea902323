//! Columns of all types for tests, and values as plainly as can be.

use crate::value::value_type;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_schema::{DataType, TimeUnit};
use proptest::prelude::*;
use std::cmp::Ordering;
use std::sync::Arc;

/// A value that is not NULL.
#[derive(Clone, Debug)]
pub(crate) enum Datum {
    Integer(i128),
    Float(f64),
    Text(Vec<u8>),
}

impl Ord for Datum {
    /// PostgreSQL's order.
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => one.cmp(other),
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Float(one), Self::Float(other)) => match (one.is_nan(), other.is_nan()) {
                (false, false) => one.partial_cmp(other).unwrap(),
                (one, other) => one.cmp(&other),
            },
            _ => panic!("{self:?} and {other:?} are never compared"),
        }
    }
}

impl PartialOrd for Datum {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Datum {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Datum {}

impl std::hash::Hash for Datum {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        match self {
            Self::Integer(value) => value.hash(state),
            Self::Text(value) => value.hash(state),
            Self::Float(value) if value.is_nan() => 1.hash(state),
            Self::Float(value) => (value + 0.0).to_bits().hash(state),
        }
    }
}

/// Returns the value of a row, or `None` if it is NULL.
pub(crate) fn datum(array: &dyn Array, row: usize) -> Option<Datum> {
    if array.is_null(row) {
        return None;
    }
    macro_rules! integer {
        ($type:ty) => {
            Datum::Integer(array.as_primitive::<$type>().value(row).into())
        };
    }
    Some(match array.data_type() {
        DataType::Int8 => integer!(Int8Type),
        DataType::Int16 => integer!(Int16Type),
        DataType::Int32 => integer!(Int32Type),
        DataType::Int64 => integer!(Int64Type),
        DataType::UInt8 => integer!(UInt8Type),
        DataType::UInt16 => integer!(UInt16Type),
        DataType::UInt32 => integer!(UInt32Type),
        DataType::UInt64 => integer!(UInt64Type),
        DataType::Decimal64(..) => integer!(Decimal64Type),
        DataType::Decimal128(..) => integer!(Decimal128Type),
        DataType::Date32 => integer!(Date32Type),
        DataType::Timestamp(TimeUnit::Microsecond, _) => integer!(TimestampMicrosecondType),
        DataType::Float32 => Datum::Float(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => Datum::Float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Boolean => Datum::Integer(array.as_boolean().value(row).into()),
        DataType::Utf8 => Datum::Text(array.as_string::<i32>().value(row).into()),
        DataType::LargeUtf8 => Datum::Text(array.as_string::<i64>().value(row).into()),
        DataType::Utf8View => Datum::Text(array.as_string_view().value(row).into()),
        DataType::Binary => Datum::Text(array.as_binary::<i32>().value(row).into()),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let Some(Datum::Integer(code)) = datum(dictionary.keys(), row) else { panic!("no code") };
            return datum(dictionary.values(), code as usize);
        }
        other => panic!("no test has values of {other}"),
    })
}

/// Returns the values of a row in several columns.
pub(crate) fn row(columns: &[ArrayRef], row: usize) -> Vec<Option<Datum>> {
    columns.iter().map(|column| datum(column, row)).collect()
}

/// The seeds of a column's values, and of its NULLs.
type Seeds = Vec<(u64, bool)>;

/// Makes a column of one of many types. Few of its values differ, and some are at the edges of the
/// type.
pub(crate) fn column_of(kind: usize, seeds: &[(u64, bool)]) -> ArrayRef {
    let nulls = || Some(NullBuffer::from_iter(seeds.iter().map(|(_, valid)| *valid)));
    macro_rules! integers {
        ($array:ty, $native:ty) => {
            <$array>::new(
                seeds
                    .iter()
                    .map(|(seed, _)| match seed % 9 {
                        0 => <$native>::MIN,
                        1 => <$native>::MAX,
                        small => (small as $native).wrapping_sub(5),
                    })
                    .collect(),
                nulls(),
            )
        };
    }
    let floats = [0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.5, 2.0];
    let texts =
        ["", "a", "ab", "abcdefghi", "abcdefghj", "abcdefgh", "b", "ä", "a\0", "longer than twelve bytes"];
    let text = |(seed, valid): &(u64, bool)| valid.then(|| texts[(seed % 10) as usize]);
    match kind % KINDS {
        0 => Arc::new(integers!(Int8Array, i8)),
        1 => Arc::new(integers!(Int16Array, i16)),
        2 => Arc::new(integers!(Int32Array, i32)),
        3 => Arc::new(integers!(Int64Array, i64)),
        4 => Arc::new(integers!(UInt8Array, u8)),
        5 => Arc::new(integers!(UInt16Array, u16)),
        6 => Arc::new(integers!(UInt32Array, u32)),
        7 => Arc::new(integers!(UInt64Array, u64)),
        8 => Arc::new(integers!(Decimal64Array, i64)),
        9 => Arc::new(integers!(Decimal128Array, i128)),
        10 => Arc::new(integers!(Date32Array, i32)),
        11 => Arc::new(integers!(TimestampMicrosecondArray, i64)),
        12 => Arc::new(Float32Array::new(
            seeds.iter().map(|(seed, _)| floats[(seed % 8) as usize] as f32).collect(),
            nulls(),
        )),
        13 => Arc::new(Float64Array::new(
            seeds.iter().map(|(seed, _)| floats[(seed % 8) as usize]).collect(),
            nulls(),
        )),
        14 => Arc::new(BooleanArray::new(seeds.iter().map(|(seed, _)| seed % 2 == 1).collect(), nulls())),
        15 => Arc::new(seeds.iter().map(text).collect::<StringArray>()),
        16 => Arc::new(seeds.iter().map(text).collect::<LargeStringArray>()),
        17 => Arc::new(seeds.iter().map(text).collect::<StringViewArray>()),
        18 => Arc::new(seeds.iter().map(|seed| text(seed).map(str::as_bytes)).collect::<BinaryArray>()),
        19 => dictionary::<Int8Type>(seeds, Arc::new(LargeStringArray::from(texts.to_vec()))),
        20 => dictionary::<Int16Type>(seeds, Arc::new(StringViewArray::from(texts.to_vec()))),
        21 => {
            // A dictionary with a value twice and a NULL among its values.
            let values =
                [Some(7), None, Some(-3), Some(7), Some(0), Some(1), Some(2), Some(i64::MIN), None, Some(5)];
            dictionary::<Int32Type>(seeds, Arc::new(Int64Array::from(values.to_vec())))
        }
        22 => {
            let values = texts.map(|text| (text != "b").then(|| text.replace("ab", "a")));
            dictionary::<UInt8Type>(seeds, Arc::new(StringArray::from(values.to_vec())))
        }
        _ => unreachable!("there are {KINDS} kinds"),
    }
}

/// Makes a dictionary column; under a NULL there is what a code of −1 is in its type.
fn dictionary<K: ArrowDictionaryKeyType>(seeds: &[(u64, bool)], values: ArrayRef) -> ArrayRef
where
    K::Native: TryFrom<u64>,
{
    let none = K::Native::usize_as(usize::MAX);
    let code = |(seed, valid): &(u64, bool)| {
        let code = K::Native::try_from(seed % values.len() as u64).ok().unwrap();
        if *valid { code } else { none }
    };
    let nulls = NullBuffer::from_iter(seeds.iter().map(|(_, valid)| *valid));
    let keys = PrimitiveArray::<K>::new(seeds.iter().map(code).collect(), Some(nulls));
    Arc::new(DictionaryArray::new(keys, values))
}

/// How many kinds of columns there are.
pub(crate) const KINDS: usize = 23;

/// Makes the seeds of so many rows; of some columns no row is NULL.
fn seeds(rows: usize) -> impl Strategy<Value = Seeds> {
    (prop::collection::vec((any::<u64>(), prop::bool::weighted(0.8)), rows), any::<bool>()).prop_map(
        |(mut seeds, nullable)| {
            seeds.iter_mut().for_each(|(_, valid)| *valid |= !nullable);
            seeds
        },
    )
}

/// Makes a column of any type with so many rows.
pub(crate) fn column(rows: usize) -> impl Strategy<Value = ArrayRef> {
    (0..KINDS, seeds(rows)).prop_map(|(kind, seeds)| column_of(kind, &seeds))
}

/// Makes some columns of any types with equally many rows.
pub(crate) fn columns(
    count: std::ops::Range<usize>,
    rows: std::ops::Range<usize>,
) -> impl Strategy<Value = Vec<ArrayRef>> {
    (count, rows).prop_flat_map(|(count, rows)| prop::collection::vec(column(rows), count))
}

/// Makes columns of the same types for two tables, and how many rows these have.
pub(crate) fn tables(
    count: std::ops::Range<usize>,
    rows: std::ops::Range<usize>,
) -> impl Strategy<Value = (Vec<ArrayRef>, Vec<ArrayRef>)> {
    (count, rows.clone(), rows).prop_flat_map(|(count, one, other)| {
        let pair = (0..KINDS, seeds(one), seeds(other));
        let pair = pair.prop_map(|(kind, one, other)| (column_of(kind, &one), column_of(kind, &other)));
        prop::collection::vec(pair, count).prop_map(|pairs| pairs.into_iter().unzip())
    })
}

/// Makes rows of a table that has at least one: a range, or positions in any order.
pub(crate) fn some_rows(rows: usize) -> impl Strategy<Value = crate::Selection> {
    let last = rows as u32;
    prop_oneof![
        (0..=last, 0..=last).prop_map(|(one, other)| crate::Selection::Range(one.min(other), one.max(other))),
        prop::collection::vec(0..last, 0..2 * rows).prop_map(crate::Selection::List),
    ]
}

/// Returns the type of a column's values, whatever they are encoded as.
pub(crate) fn plain(array: &dyn Array) -> DataType {
    value_type(array.data_type()).clone()
}
