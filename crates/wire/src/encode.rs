//! Arrow arrays into heads and buffers (protocol.md §10.1).
//!
//! Whatever has a canonical type goes as it is; strings are read from where they lie; the rest is cast.

#![expect(
    clippy::cast_possible_truncation,
    reason = "what is encoded is the program's own, and has fewer than 2^32 rows"
)]

use crate::error::arrow_error;
use crate::floats::{Float, encode_decimals};
use crate::integers::{Earlier, PLAIN, encode_inner, encode_integers, encode_narrower};
use crate::sink::{Sink, too_long};
use crate::text::{OFFSETS, Text, encode_text};
use crate::word::{Word, words};
use arrow_array::cast::AsArray;
use arrow_array::types::{Date64Type, Time64NanosecondType};
use arrow_array::{Array, ArrayRef, OffsetSizeTrait, downcast_primitive_array};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use hypostyle_types::{Error, Result};

/// Columns that a column's differences are sought to.
const EARLIER_MAX: usize = 8;

/// Bytes of a type's values where they are carried as integers, and whether those have a sign.
pub(crate) fn integer_type(data_type: &DataType) -> Option<(usize, bool)> {
    use DataType as D;
    Some(match data_type {
        D::Int8 => (1, true),
        D::Int16 => (2, true),
        D::Int32 | D::Decimal32(..) | D::Date32 => (4, true),
        D::Int64 | D::Decimal64(..) | D::Time64(_) | D::Timestamp(..) | D::Duration(_) => (8, true),
        D::UInt8 => (1, false),
        D::UInt16 => (2, false),
        D::UInt32 => (4, false),
        D::UInt64 => (8, false),
        _ => return None,
    })
}

/// Bytes of the values of types that are not carried as integers, but are as long.
pub(crate) fn fixed_bytes(data_type: &DataType) -> Option<usize> {
    use DataType as D;
    Some(match data_type {
        D::Float32 => 4,
        D::Float64 => 8,
        D::Decimal128(..) | D::Interval(_) => 16,
        D::Decimal256(..) => 32,
        D::FixedSizeBinary(bytes) => bytes.unsigned_abs() as usize,
        _ => return None,
    })
}

/// The one buffer of values of an array of fixed width.
fn values_of(array: &dyn Array, bytes: usize) -> Buffer {
    downcast_primitive_array!(
        array => array.values().inner().clone(),
        _ => {
            let data = array.to_data();
            data.buffers()[0].slice_with_length(data.offset() * bytes, data.len() * bytes)
        }
    )
}

/// The array with the type of `field`, except for strings, which are read as they are.
pub(crate) fn canonical(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let (own, text) = (array.data_type(), matches!(data_type, DataType::LargeUtf8 | DataType::LargeBinary));
    let is_text = matches!(
        own,
        DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
    );
    let nested = match (own, data_type) {
        (DataType::List(_) | DataType::LargeList(_), DataType::LargeList(_)) => true,
        (DataType::Struct(own), DataType::Struct(wanted)) => own.len() == wanted.len(),
        (DataType::FixedSizeList(_, own), DataType::FixedSizeList(_, wanted)) => own == wanted,
        (DataType::Map(..), DataType::Map(..)) => true,
        (DataType::Dictionary(own, values), DataType::Dictionary(wanted, _)) => {
            own == wanted && (values.is_string() || values.is_binary())
        }
        _ => false,
    };
    if own == data_type || text && is_text || nested {
        return Ok(array.clone());
    }
    refuse_finer(array)?;
    arrow_cast::cast(array, data_type).map_err(arrow_error)
}

/// Refuses values that the canonical types would cut: a date with a time of day, and a time with nanoseconds.
fn refuse_finer(array: &ArrayRef) -> Result<()> {
    const DAY: i64 = 86_400_000;
    let cut = |values: &[i64], unit: i64| {
        let is_valid = |index: &usize| array.is_valid(*index) && values[*index] % unit != 0;
        (0..values.len()).find(is_valid).map(|index| values[index])
    };
    let problem = if let Some(dates) = array.as_primitive_opt::<Date64Type>() {
        cut(dates.values(), DAY).map(|moment| {
            format!(
                "a date64 of {moment} ms since 1970 is no DATE: it has a time of day; append it as a timestamp"
            )
        })
    } else if let Some(times) = array.as_primitive_opt::<Time64NanosecondType>() {
        cut(times.values(), 1_000).map(|time| format!("a time of {time} ns after midnight does not fit TIME"))
    } else {
        None
    };
    problem.map_or(Ok(()), |problem| Err(Error::invalid_input(problem).with_sqlstate("22003")))
}

/// Columns of a chunk that later ones may differ from: of integers, without NULLs.
#[derive(Default)]
pub(crate) struct Columns<'a> {
    /// Places of those of four and of eight bytes.
    four: Vec<(u32, &'a ArrayRef)>,
    eight: Vec<(u32, &'a ArrayRef)>,
}

impl<'a> Columns<'a> {
    /// Adds the next column, if it is one of them.
    pub fn add(&mut self, column: u32, array: &'a ArrayRef, data_type: &DataType) {
        let same = match integer_type(data_type) {
            Some((4, _)) => &mut self.four,
            Some((8, _)) => &mut self.eight,
            _ => return,
        };
        if array.null_count() == 0 && array.data_type() == data_type {
            same.push((column, array));
        }
    }

    /// The last ones that are as wide.
    fn last<T: Word>(&self) -> Vec<Earlier<T>> {
        let same = match T::BYTES {
            4 => &self.four,
            8 => &self.eight,
            _ => return Vec::new(),
        };
        let last = same.iter().rev().take(EARLIER_MAX);
        let earlier = |column: u32, array| Earlier { column, values: words(values_of(array, T::BYTES)) };
        last.map(|(column, array)| earlier(*column, array)).collect()
    }
}

/// Writes an array, and says its encoding.
pub(crate) fn encode_array(
    sink: &mut Sink,
    array: &ArrayRef,
    data_type: &DataType,
    columns: &Columns<'_>,
) -> Result<u8> {
    let array = &canonical(array, data_type)?;
    let all_null = array.null_count() == array.len() && !array.is_empty();
    if all_null || *data_type == DataType::Null {
        sink.head.u8(PLAIN).u8(2);
        return Ok(PLAIN);
    }
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    if let Some((bytes, signed)) = integer_type(data_type) {
        return match bytes {
            1 => encode_words::<u8>(sink, array, signed, nulls, columns),
            2 => encode_words::<u16>(sink, array, signed, nulls, columns),
            4 => encode_words::<u32>(sink, array, signed, nulls, columns),
            _ => encode_words::<u64>(sink, array, signed, nulls, columns),
        };
    }
    match data_type {
        DataType::Boolean => {
            sink.array(PLAIN, nulls)?;
            sink.bits(array.as_boolean().values())?;
            Ok(PLAIN)
        }
        DataType::Float32 => encode_floats::<f32>(sink, array, nulls),
        DataType::Float64 => encode_floats::<f64>(sink, array, nulls),
        DataType::Decimal128(..) => encode_wide_decimals(sink, array, nulls),
        DataType::LargeUtf8 | DataType::LargeBinary => {
            let text = Text::gather(array).ok_or_else(|| unknown(array.data_type()))??;
            encode_text(sink, text, nulls)
        }
        DataType::LargeList(element) => match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                encode_lists(sink, list.offsets(), list.values(), element.data_type(), nulls)
            }
            _ => {
                let list = array.as_list::<i64>();
                encode_lists(sink, list.offsets(), list.values(), element.data_type(), nulls)
            }
        },
        DataType::Map(entries, _) => {
            let map = array.as_map();
            let pairs: ArrayRef = std::sync::Arc::new(map.entries().clone());
            encode_lists(sink, map.offsets(), &pairs, entries.data_type(), nulls)
        }
        DataType::FixedSizeList(element, length) => {
            sink.array(PLAIN, nulls)?;
            let list = array.as_fixed_size_list();
            let length = length.unsigned_abs() as usize;
            let values = list.values().slice(list.value_offset(0) as usize, array.len() * length);
            encode_alone(sink, &values, element.data_type())?;
            Ok(PLAIN)
        }
        DataType::Struct(members) => {
            sink.array(PLAIN, nulls)?;
            for (member, column) in members.iter().zip(array.as_struct().columns()) {
                encode_alone(sink, column, member.data_type())?;
            }
            Ok(PLAIN)
        }
        _ => {
            let bytes = fixed_bytes(data_type).ok_or_else(|| unknown(data_type))?;
            sink.array(PLAIN, nulls)?;
            sink.buffer(values_of(array, bytes))?;
            Ok(PLAIN)
        }
    }
}

fn unknown(data_type: &DataType) -> Error {
    Error::internal(format!("{data_type} is not a canonical type"))
}

/// An array that is no column of a chunk.
pub(crate) fn encode_alone(sink: &mut Sink, array: &ArrayRef, data_type: &DataType) -> Result<u8> {
    encode_array(sink, array, data_type, &Columns::default())
}

fn encode_words<T: Word>(
    sink: &mut Sink,
    array: &ArrayRef,
    signed: bool,
    nulls: Option<&NullBuffer>,
    columns: &Columns<'_>,
) -> Result<u8> {
    let mut values = words::<T>(values_of(array, T::BYTES));
    if let (Some(nulls), true) = (nulls, sink.settings.light) {
        values = fill(&values, nulls);
    }
    encode_integers(sink, &values, signed, nulls, || columns.last())
}

/// The values, each under a NULL replaced by the one before it, which packs better than what an engine left.
fn fill<T: Word>(values: &[T], nulls: &NullBuffer) -> ScalarBuffer<T> {
    const BITS: usize = u64::BITS as usize;
    let mut last = nulls.valid_indices().next().map_or(T::from_u64(0), |index| values[index]);
    let mut filled = Vec::with_capacity(values.len());
    let masks = nulls.inner().bit_chunks();
    for (some, mut mask) in values.chunks(BITS).zip(masks.iter_padded()) {
        if mask == u64::MAX {
            filled.extend_from_slice(some);
            last = some[some.len() - 1];
            continue;
        }
        filled.extend(some.iter().map(|value| {
            last = if mask & 1 == 1 { *value } else { last };
            mask >>= 1;
            last
        }));
    }
    filled.into()
}

fn encode_floats<F: Float>(sink: &mut Sink, array: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<u8> {
    let values = words::<F::Integer>(values_of(array, size_of::<F>()));
    let floats: ScalarBuffer<F> = values.into_inner().into();
    if sink.settings.light && encode_decimals(sink, &floats, nulls)? {
        return Ok(crate::floats::DECIMAL);
    }
    sink.array(PLAIN, nulls)?;
    sink.buffer(floats.into_inner())?;
    Ok(PLAIN)
}

/// Decimals of 16 bytes, which mostly hold what 8 would.
fn encode_wide_decimals(sink: &mut Sink, array: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<u8> {
    let buffer = values_of(array, 16);
    if sink.settings.light {
        let pairs = words::<u64>(buffer.clone());
        let narrow = pairs.chunks_exact(2).enumerate().map(|(index, pair)| {
            let fits = pair[1] == ((pair[0] as i64) >> 63) as u64;
            let is_null = || nulls.is_some_and(|nulls| nulls.is_null(index));
            (fits || is_null()).then_some(pair[0])
        });
        if let Some(narrow) = narrow.collect::<Option<Vec<u64>>>() {
            let narrow = nulls.map_or_else(|| narrow.clone().into(), |nulls| fill(&narrow, nulls));
            if let Some(encoding) = encode_narrower(sink, &narrow, true, nulls, Vec::new)? {
                return Ok(encoding);
            }
        }
    }
    sink.array(PLAIN, nulls)?;
    sink.buffer(buffer)?;
    Ok(PLAIN)
}

fn encode_lists<O: OffsetSizeTrait>(
    sink: &mut Sink,
    offsets: &OffsetBuffer<O>,
    values: &ArrayRef,
    element: &DataType,
    nulls: Option<&NullBuffer>,
) -> Result<u8> {
    let (first, last) = (offsets[0].as_usize(), offsets[offsets.len() - 1].as_usize());
    if u32::try_from(last - first).is_err() {
        return Err(too_long(last - first));
    }
    let values = values.slice(first, last - first);
    let encoding = if sink.settings.in_place {
        sink.array(OFFSETS, nulls)?;
        let rebased: Vec<i64> = offsets.iter().map(|offset| (offset.as_usize() - first) as i64).collect();
        sink.buffer(rebased.into())?;
        OFFSETS
    } else {
        sink.array(PLAIN, nulls)?;
        let lengths: Vec<u32> = offsets.lengths().map(|length| length as u32).collect();
        encode_inner(sink, lengths, false)?;
        PLAIN
    };
    encode_alone(sink, &values, element)?;
    Ok(encoding)
}

/// The codes of a dictionary's array, −1 under each NULL (protocol.md §10.3).
pub(crate) fn encode_codes(sink: &mut Sink, array: &ArrayRef, code_bytes: usize) -> Result<u8> {
    if array.null_count() == array.len() && !array.is_empty() {
        sink.head.u8(PLAIN).u8(2);
        return Ok(PLAIN);
    }
    match code_bytes {
        1 => encode_code_words::<u8>(sink, array),
        2 => encode_code_words::<u16>(sink, array),
        _ => encode_code_words::<u32>(sink, array),
    }
}

fn encode_code_words<T: Word>(sink: &mut Sink, array: &ArrayRef) -> Result<u8> {
    let mut codes = words::<T>(values_of(array, T::BYTES));
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    if let Some(nulls) = nulls {
        let none = T::from_u64(u64::MAX);
        if codes.iter().zip(nulls).any(|(code, valid)| !valid && *code != none) {
            let marked = codes.iter().zip(nulls).map(|(code, valid)| if valid { *code } else { none });
            codes = marked.collect::<Vec<T>>().into();
        }
    }
    encode_integers(sink, &codes, true, nulls, Vec::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Date64Array, Time64NanosecondArray};
    use std::sync::Arc;

    #[test]
    fn what_would_be_cut_is_refused() {
        let whole: ArrayRef = Arc::new(Date64Array::from(vec![Some(86_400_000), None, Some(-86_400_000)]));
        let days = canonical(&whole, &DataType::Date32).unwrap();
        assert_eq!(days.as_primitive::<arrow_array::types::Date32Type>().values(), &[1, 0, -1]);
        let moment: ArrayRef = Arc::new(Date64Array::from(vec![86_400_001]));
        let error = canonical(&moment, &DataType::Date32).unwrap_err();
        assert!(error.message().contains("86400001 ms"), "{error}");
        let fine: ArrayRef = Arc::new(Time64NanosecondArray::from(vec![Some(1_000), None, Some(1_001)]));
        let microseconds = DataType::Time64(arrow_schema::TimeUnit::Microsecond);
        assert!(canonical(&fine.slice(0, 2), &microseconds).is_ok());
        let error = canonical(&fine, &microseconds).unwrap_err();
        assert!(error.message().contains("1001 ns"), "{error}");
    }
}
