//! Heads and buffers into Arrow arrays (protocol.md §10.1), in place where a buffer is plain.

use crate::encode::{fixed_bytes, integer_type};
use crate::error::refused;
use crate::floats::{DECIMAL, decode_decimals};
use crate::integers::{EarlierColumns, NoColumns, PLAIN, decode_array, no_earlier_column};
use crate::source::{Mask, Source};
use crate::text::{OFFSETS, offsets_of};
use crate::text_decode::{Decoded, Lengths, decode_lengths, decode_offsets, decode_text};
use crate::word::{Word, words};
use arrow_array::types::{ArrowDictionaryKeyType, Int8Type, Int16Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, FixedSizeListArray, LargeBinaryArray, LargeListArray,
    LargeStringArray, MapArray, NullArray, PrimitiveArray, RecordBatch, RecordBatchOptions, StructArray,
    make_array, new_null_array,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_data::ArrayDataBuilder;
use arrow_schema::{DataType, FieldRef, Fields, SchemaRef};
use hypostyle_types::{Error, Result};
use std::sync::Arc;

/// Columns that were decoded before, of one chunk.
pub(crate) struct ChunkColumns<'a>(pub &'a [ArrayRef]);

impl EarlierColumns for ChunkColumns<'_> {
    fn add<T: Word>(&self, column: u32, out: &mut [T]) -> Result<()> {
        let array = self.0.get(column as usize).ok_or_else(|| no_earlier_column(column))?;
        if integer_type(array.data_type()).is_none_or(|(bytes, _)| bytes != T::BYTES) {
            return Err(no_earlier_column(column));
        }
        let data = array.to_data();
        let values =
            words::<T>(data.buffers()[0].slice_with_length(data.offset() * T::BYTES, out.len() * T::BYTES));
        out.iter_mut().zip(values.iter()).for_each(|(out, value)| *out = out.plus(*value));
        Ok(())
    }
}

/// Reads an array of `count` elements.
pub(crate) fn decode(
    source: &mut Source<'_>,
    data_type: &DataType,
    count: usize,
    earlier: &impl EarlierColumns,
) -> Result<ArrayRef> {
    let (encoding, mask) = source.array(count)?;
    let nulls = match mask {
        Mask::None if *data_type == DataType::Null => return Err(Error::protocol("a NULL has a value")),
        Mask::None => None,
        Mask::Some(nulls) => Some(nulls),
        Mask::All => return all_null(source, data_type, count),
    };
    decode_masked(source, data_type, count, encoding, nulls, earlier)
}

fn all_null(source: &mut Source<'_>, data_type: &DataType, count: usize) -> Result<ArrayRef> {
    source.claim(count, null_bytes(data_type))?;
    if *data_type == DataType::Null {
        return Ok(Arc::new(NullArray::new(count)));
    }
    Ok(new_null_array(data_type, count))
}

/// Bytes that a NULL of a type takes in memory.
fn null_bytes(data_type: &DataType) -> usize {
    let children = |fields: &Fields| {
        fields.iter().map(|field| null_bytes(field.data_type())).fold(1, usize::saturating_add)
    };
    match data_type {
        DataType::Null => 0,
        DataType::Boolean => 1,
        DataType::FixedSizeList(element, length) => {
            null_bytes(element.data_type()).saturating_mul(length.unsigned_abs() as usize).saturating_add(1)
        }
        DataType::Struct(members) => children(members),
        other => {
            integer_type(other).map(|(bytes, _)| bytes).or(fixed_bytes(other)).unwrap_or(8).saturating_add(1)
        }
    }
}

/// Reads what follows encoding and mask.
pub(crate) fn decode_masked(
    source: &mut Source<'_>,
    data_type: &DataType,
    count: usize,
    encoding: u8,
    nulls: Option<NullBuffer>,
    earlier: &impl EarlierColumns,
) -> Result<ArrayRef> {
    if let Some((bytes, _)) = integer_type(data_type) {
        let values = match bytes {
            1 => decode_array::<u8>(source, encoding, count, earlier)?,
            2 => decode_array::<u16>(source, encoding, count, earlier)?,
            4 => decode_array::<u32>(source, encoding, count, earlier)?,
            _ => decode_array::<u64>(source, encoding, count, earlier)?,
        };
        return fixed_array(data_type, count, values, nulls);
    }
    let plain = || match encoding {
        PLAIN => Ok(()),
        other => Err(Error::protocol(format!("there is no encoding {other} of {data_type}"))),
    };
    match data_type {
        DataType::Boolean => {
            plain()?;
            Ok(Arc::new(BooleanArray::new(source.bits(count)?, nulls)))
        }
        DataType::Float32 if encoding == DECIMAL => {
            let values: Buffer = decode_decimals::<f32>(source, count)?.into();
            fixed_array(data_type, count, values, nulls)
        }
        DataType::Float64 if encoding == DECIMAL => {
            let values: Buffer = decode_decimals::<f64>(source, count)?.into();
            fixed_array(data_type, count, values, nulls)
        }
        DataType::Decimal128(..) if encoding != PLAIN => {
            let narrow = words::<u64>(decode_array::<u64>(source, encoding, count, &NoColumns)?);
            source.claim(count, 16)?;
            let values: Vec<i128> = narrow.iter().map(|value| i128::from(*value as i64)).collect();
            fixed_array(data_type, count, values.into(), nulls)
        }
        DataType::LargeUtf8 | DataType::LargeBinary => {
            let Decoded { lengths, bytes } = decode_text(source, encoding, count)?;
            let offsets = match lengths {
                Lengths::Lengths(lengths) => {
                    source.claim(count + 1, size_of::<i64>())?;
                    offsets_of(&lengths)
                }
                Lengths::Offsets(offsets) => OffsetBuffer::new(offsets),
            };
            if *data_type == DataType::LargeUtf8 {
                Ok(Arc::new(LargeStringArray::try_new(offsets, bytes, nulls).map_err(refused)?))
            } else {
                Ok(Arc::new(LargeBinaryArray::try_new(offsets, bytes, nulls).map_err(refused)?))
            }
        }
        DataType::LargeList(element) => {
            let (offsets, total) = list_offsets(source, encoding, count)?;
            let values = decode_child(source, element.data_type(), total)?;
            Ok(Arc::new(LargeListArray::try_new(element.clone(), offsets, values, nulls).map_err(refused)?))
        }
        DataType::Map(entries, sorted) => {
            let (offsets, total) = list_offsets(source, encoding, count)?;
            decode_map(source, entries, *sorted, offsets, total, nulls)
        }
        DataType::FixedSizeList(element, length) => {
            plain()?;
            let total = count
                .checked_mul(length.unsigned_abs() as usize)
                .filter(|total| i32::try_from(*total).is_ok());
            let total =
                total.ok_or_else(|| Error::protocol(format!("{count} arrays of {length} are too many")))?;
            let values = decode_child(source, element.data_type(), total)?;
            let data = ArrayDataBuilder::new(data_type.clone())
                .len(count)
                .nulls(nulls)
                .add_child_data(values.to_data());
            Ok(Arc::new(FixedSizeListArray::from(data.build().map_err(refused)?)))
        }
        DataType::Struct(members) => {
            plain()?;
            decode_struct(source, members, count, nulls)
        }
        _ => {
            plain()?;
            let bytes = fixed_bytes(data_type)
                .ok_or_else(|| Error::protocol(format!("{data_type} is not canonical")))?;
            let length = count.checked_mul(bytes).ok_or_else(|| Error::protocol("too long a column"))?;
            let values = source.buffer(length)?;
            fixed_array(data_type, count, values, nulls)
        }
    }
}

/// An array of values of fixed width, copied when they do not lie as Arrow wants them.
fn fixed_array(
    data_type: &DataType,
    count: usize,
    values: Buffer,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let data = ArrayDataBuilder::new(data_type.clone())
        .len(count)
        .nulls(nulls)
        .add_buffer(values)
        .align_buffers(true);
    Ok(make_array(data.build().map_err(refused)?))
}

fn decode_child(source: &mut Source<'_>, data_type: &DataType, count: usize) -> Result<ArrayRef> {
    if i32::try_from(count).is_err() {
        return Err(Error::protocol(format!("{count} elements of an array are too many")));
    }
    source.within(|source| decode(source, data_type, count, &NoColumns))
}

/// Where the lists of an array begin, and how many elements they have.
fn list_offsets(source: &mut Source<'_>, encoding: u8, count: usize) -> Result<(OffsetBuffer<i64>, usize)> {
    match encoding {
        PLAIN => {
            let (lengths, total) = decode_lengths(source, count)?;
            source.claim(count + 1, size_of::<i64>())?;
            Ok((offsets_of(&lengths), total))
        }
        OFFSETS => {
            let (offsets, total) = decode_offsets(source, count)?;
            Ok((OffsetBuffer::new(offsets), total))
        }
        other => Err(Error::protocol(format!("there is no encoding {other} of lists"))),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "`decode_child` has seen that short offsets suffice")]
fn decode_map(
    source: &mut Source<'_>,
    entries: &FieldRef,
    sorted: bool,
    offsets: OffsetBuffer<i64>,
    total: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let pairs = decode_child(source, entries.data_type(), total)?;
    // Maps have short offsets in Arrow.
    let offsets = OffsetBuffer::new(offsets.iter().map(|offset| *offset as i32).collect());
    let pairs = StructArray::from(pairs.to_data());
    Ok(Arc::new(MapArray::try_new(entries.clone(), offsets, pairs, nulls, sorted).map_err(refused)?))
}

fn decode_struct(
    source: &mut Source<'_>,
    members: &Fields,
    count: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    if members.is_empty() {
        source.claim(count, 1)?;
        return Ok(Arc::new(StructArray::new_empty_fields(count, nulls)));
    }
    let columns = members.iter().map(|member| decode_child(source, member.data_type(), count));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(StructArray::try_new(members.clone(), columns, nulls).map_err(refused)?))
}

/// Reads the codes of a dictionary's column (protocol.md §10.3).
pub(crate) fn decode_codes(
    source: &mut Source<'_>,
    code: &DataType,
    count: usize,
    values: &ArrayRef,
) -> Result<ArrayRef> {
    match code {
        DataType::Int8 => decode_code_words::<u8, Int8Type>(source, count, values),
        DataType::Int16 => decode_code_words::<u16, Int16Type>(source, count, values),
        _ => decode_code_words::<u32, Int32Type>(source, count, values),
    }
}

fn decode_code_words<T: Word, K: ArrowDictionaryKeyType>(
    source: &mut Source<'_>,
    count: usize,
    values: &ArrayRef,
) -> Result<ArrayRef> {
    let (encoding, mask) = source.array(count)?;
    let none = T::from_u64(u64::MAX);
    let (codes, nulls) = match mask {
        Mask::All => {
            source.claim(count, T::BYTES)?;
            (Buffer::from(vec![none; count]), Some(NullBuffer::new_null(count)))
        }
        Mask::Some(nulls) => (decode_array::<T>(source, encoding, count, &NoColumns)?, Some(nulls)),
        Mask::None => (decode_array::<T>(source, encoding, count, &NoColumns)?, None),
    };
    let codes = words::<T>(codes);
    let most = T::from_usize(values.len()).filter(|most| *most < T::SIGN).unwrap_or(T::SIGN);
    let wrong = match &nulls {
        None => codes.iter().any(|code| *code >= most),
        Some(nulls) => {
            codes.iter().zip(nulls).any(|(code, valid)| if valid { *code >= most } else { *code != none })
        }
    };
    if wrong {
        return Err(Error::protocol(format!("a code is not of its dictionary of {} values", values.len())));
    }
    let keys = PrimitiveArray::<K>::new(codes.into_inner().into(), nulls);
    Ok(Arc::new(DictionaryArray::try_new(keys, values.clone()).map_err(refused)?))
}

/// A chunk of these columns; there may be none.
pub(crate) fn to_batch(schema: SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(refused)
}
