//! Columns as C reads and writes them: pointers to the buffers of one array.

use crate::call::{Slot, call, check_place, check_struct, give, write_struct};
use crate::handle::{Handle, Kind};
use crate::layout::{self, DICTIONARY, MAPPED, MISSING, PLAIN, PRIVATE, Values};
use crate::results::QueryRows;
use crate::rows::texts_of;
use crate::text::{bytes, misuse};
use crate::value::type_of;
use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BooleanArray, LargeBinaryArray, LargeStringArray, make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::{ArrowDictionaryKeyType, DataType, Field, Int8Type, Int16Type, Int32Type, TimeUnit};
use arrow::error::ArrowError;
use hypostyle::{Error, ErrorKind, LogicalType, Result};
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

/// Bytes of the caller's for which there is memory, or else for nothing.
const BELIEVED_BYTES: usize = 1 << 30;

/// What `hypostyle_values` points into.
pub struct Owner(#[expect(dead_code, reason = "C reads its buffers")] ArrayRef);

impl Kind for Owner {
    const MAGIC: u64 = 0x4859_504f_0000_0006;
    const NAME: &'static str = "column's values";
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_result_values(
    result: *mut Handle<QueryRows>,
    column: usize,
    flags: u32,
    values: *mut Values,
    error: Slot,
) -> i32 {
    let work = || {
        // SAFETY: the header says what they are.
        let rows = unsafe {
            check_struct(values)?;
            Handle::get(result)?
        };
        rows.check_column(column)?;
        let of = &rows.result.columns()[column].logical_type;
        if is_nested(of) {
            return Err(Error::unsupported(format!(
                "a column of {of} has no values side by side; take the stream of the result"
            )));
        }
        let found = rows.call(|result| result.values(column, flags & PRIVATE != 0))?;
        let array = readable(&found.array, flags & PLAIN != 0)?;
        let is_same = Arc::ptr_eq(&array, &found.array);
        let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
        let flags = flag(found.is_mapped && is_same, MAPPED)
            | flag(flags & PRIVATE != 0, PRIVATE)
            | flag(found.nulls_hold_missing && is_same && *of != LogicalType::Boolean, MISSING);
        // SAFETY: the header says what it is, and its size was checked.
        unsafe { give_values(values, array, of, flags) }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

/// Gives an array as the values of a column, with flags of the header besides those that the array tells.
///
/// # Safety
/// `values` is a place for them, whose size was checked.
unsafe fn give_values(values: *mut Values, array: ArrayRef, of: &LogicalType, flags: u32) -> Result<()> {
    let mut told = described(&array)?;
    (told.of, _, told.scale) = type_of(of);
    told.flags |= flags;
    told.owner = Handle::give(Owner(array)).cast();
    // SAFETY: as above.
    unsafe { write_struct(values, told) }
}

fn is_nested(of: &LogicalType) -> bool {
    matches!(
        of,
        LogicalType::List { .. }
            | LogicalType::Array { .. }
            | LogicalType::Struct { .. }
            | LogicalType::Map { .. }
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_batch_values(
    result: *const Handle<QueryRows>,
    column: usize,
    flags: u32,
    values: *mut Values,
    error: Slot,
) -> i32 {
    let work = || {
        // SAFETY: the header says what they are.
        let rows = unsafe {
            check_struct(values)?;
            Handle::get(result)?
        };
        rows.check_column(column)?;
        let found = rows.cursor.lock().column(column)?.clone();
        let of = &rows.result.columns()[column].logical_type;
        let array = match is_nested(of) {
            true => Arc::new(texts_of(found.as_ref())?),
            false => readable(&found, flags & PLAIN != 0)?,
        };
        let is_mapped = rows.result.is_mapped() && Arc::ptr_eq(&array, &found);
        // SAFETY: the header says what it is, and its size was checked.
        unsafe { give_values(values, array, of, if is_mapped { MAPPED } else { 0 }) }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_result_map(
    result: *mut Handle<QueryRows>,
    column: usize,
    address: *mut c_void,
    length: usize,
    mapped: *mut i32,
    error: Slot,
) -> i32 {
    let work = || {
        check_place(mapped, "mapped")?;
        // SAFETY: the header says what it is.
        let rows = unsafe { Handle::get(result) }?;
        rows.check_column(column)?;
        let values = rows.call(|result| result.values_file(column))?;
        let file = values.as_ref().and_then(|values| Some((values.file.as_ref()?, values.length)));
        if let Some((file, bytes)) = file {
            if bytes > length as u64 {
                return Err(misuse(format!("the column has {bytes} bytes, and there is room for {length}")));
            }
            // SAFETY: the header says that the pages are the caller's.
            unsafe { file.map_private_at(bytes, address) }?;
        }
        // SAFETY: it is a place.
        unsafe { give(mapped, i32::from(file.is_some()), "mapped") }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_values_free(values: *mut Values) {
    if values.is_null() {
        return;
    }
    // SAFETY: the header says what it is; the owner is set to NULL whatever the size says.
    unsafe {
        Handle::<Owner>::free((&raw mut (*values).owner).cast());
        let _set = write_struct(values, NOTHING);
    }
}

const NOTHING: Values = Values {
    size: 0,
    of: 0,
    scale: 0,
    width: 0,
    flags: 0,
    reserved: 0,
    count: 0,
    null_count: 0,
    data: ptr::null(),
    data_offset: 0,
    validity: ptr::null(),
    validity_offset: 0,
    offsets: ptr::null(),
    heap: ptr::null(),
    heap_length: 0,
    dictionary_count: 0,
    owner: ptr::null_mut(),
};

fn refused(error: ArrowError) -> Error {
    Error::internal(format!("a column cannot be read: {error}"))
}

/// Returns an array in one of the layouts that the header describes.
fn readable(array: &ArrayRef, is_plain: bool) -> Result<ArrayRef> {
    let target = match array.data_type() {
        DataType::Utf8 | DataType::Utf8View => DataType::LargeUtf8,
        DataType::Binary | DataType::BinaryView => DataType::LargeBinary,
        DataType::Null => DataType::LargeUtf8,
        DataType::Dictionary(key, value) => match (key.as_ref(), value.as_ref()) {
            (DataType::Int8 | DataType::Int16 | DataType::Int32, DataType::LargeUtf8) if !is_plain => {
                return Ok(array.clone());
            }
            (DataType::Int8 | DataType::Int16 | DataType::Int32, DataType::Utf8 | DataType::Utf8View)
                if !is_plain =>
            {
                DataType::Dictionary(key.clone(), Box::new(DataType::LargeUtf8))
            }
            (_, DataType::Utf8 | DataType::Utf8View) => DataType::LargeUtf8,
            (_, DataType::Binary | DataType::BinaryView) => DataType::LargeBinary,
            (_, value) => value.clone(),
        },
        DataType::Time32(_) | DataType::Time64(TimeUnit::Nanosecond) => {
            DataType::Time64(TimeUnit::Microsecond)
        }
        DataType::Date64 => DataType::Date32,
        _ => return Ok(array.clone()),
    };
    cast(array, &target).map_err(refused)
}

/// Describes an array for C. The caller keeps it.
fn described(array: &ArrayRef) -> Result<Values> {
    let mut told = Values { count: array.len() as u64, null_count: array.null_count() as u64, ..NOTHING };
    if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
        told.validity = nulls.validity().as_ptr();
        told.validity_offset = nulls.offset() as u64;
    }
    match array.data_type() {
        DataType::Boolean => {
            let bits = array.as_boolean().values();
            told.data = bits.values().as_ptr().cast();
            told.data_offset = bits.offset() as u64;
        }
        DataType::LargeUtf8 => {
            let texts = array.as_string::<i64>();
            point(&mut told, texts.value_offsets(), texts.value_data());
        }
        DataType::LargeBinary => {
            let texts = array.as_binary::<i64>();
            point(&mut told, texts.value_offsets(), texts.value_data());
        }
        DataType::Dictionary(key, _) => match key.as_ref() {
            DataType::Int8 => point_to_dictionary::<Int8Type>(&mut told, array)?,
            DataType::Int16 => point_to_dictionary::<Int16Type>(&mut told, array)?,
            _ => point_to_dictionary::<Int32Type>(&mut told, array)?,
        },
        data_type => {
            let width = match data_type {
                DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
                other => other.primitive_width(),
            };
            let width = width.ok_or_else(|| {
                Error::unsupported(format!(
                    "a column of {data_type} has no values side by side; take the stream of the result"
                ))
            })?;
            let data = array.to_data();
            told.width = width as u32;
            told.data = match data.buffers().first() {
                Some(buffer) => buffer.as_slice()[data.offset() * width..].as_ptr().cast(),
                None => ptr::null(),
            };
        }
    }
    Ok(told)
}

fn point(told: &mut Values, offsets: &[i64], heap: &[u8]) {
    (told.offsets, told.heap, told.heap_length) = (offsets.as_ptr(), heap.as_ptr(), heap.len() as u64);
}

fn point_to_dictionary<K: ArrowDictionaryKeyType>(told: &mut Values, array: &ArrayRef) -> Result<()> {
    let dictionary = array.as_dictionary::<K>();
    let values = dictionary.values();
    let Some(texts) = values.as_string_opt::<i64>() else {
        return Err(Error::internal(format!("a dictionary of {}", values.data_type())));
    };
    point(told, texts.value_offsets(), texts.value_data());
    told.width = size_of::<K::Native>() as u32;
    told.data = dictionary.keys().values().as_ptr().cast();
    told.dictionary_count = texts.len() as u64;
    told.flags |= DICTIONARY;
    Ok(())
}

/// Copies a column of the caller's.
///
/// # Errors
/// `InvalidInput` for buffers that do not fit its count, and for text that is not UTF-8.
///
/// # Safety
/// Its pointers are NULL or point to what the header says.
pub unsafe fn copied(values: &Values, name: &str) -> Result<(Field, ArrayRef)> {
    let count = usize::try_from(values.count).map_err(|_| misuse("a column has more values than memory"))?;
    let wrong = |error: ArrowError| misuse(format!("the values of the column \"{name}\": {error}"));
    let nulls = match values.validity.is_null() {
        true if values.null_count > 0 => {
            return Err(misuse(format!("the column \"{name}\" has NULLs, but no validity")));
        }
        true => None,
        // SAFETY: the caller promises this.
        false => Some(NullBuffer::new(unsafe {
            bits(values.validity, values.validity_offset, count, "the validity")
        }?)),
    };
    let array: ArrayRef = match values.of {
        layout::BOOLEAN => {
            // SAFETY: the caller promises this.
            let bits = unsafe { bits(values.data.cast(), values.data_offset, count, "the data") }?;
            Arc::new(BooleanArray::new(bits, nulls))
        }
        layout::VARCHAR | layout::JSON | layout::BLOB => {
            // SAFETY: the caller promises this.
            unsafe { copied_texts(values, count, nulls, &wrong) }?
        }
        of => {
            let (data_type, width) = element(of, values)?;
            let length = count.checked_mul(width);
            let length = length.ok_or_else(|| misuse("a column has more values than memory"))?;
            // SAFETY: the caller promises this.
            let data = unsafe { bytes(values.data.cast(), length, "the data") }?;
            let data = ArrayData::builder(data_type).len(count).nulls(nulls).add_buffer(copy_of(data)?);
            make_array(data.build().map_err(wrong)?)
        }
    };
    let field = Field::new(name, array.data_type().clone(), true);
    Ok((
        match values.of {
            layout::JSON => LogicalType::Json.mark(field),
            layout::UUID => LogicalType::Uuid.mark(field),
            _ => field,
        },
        array,
    ))
}

/// # Safety
/// The pointers are what the header says.
unsafe fn copied_texts(
    values: &Values,
    count: usize,
    nulls: Option<NullBuffer>,
    wrong: &dyn Fn(ArrowError) -> Error,
) -> Result<ArrayRef> {
    if values.flags & DICTIONARY != 0 {
        // SAFETY: the caller promises this.
        return unsafe { copied_dictionary(values, count, nulls, wrong) };
    }
    let length = count.saturating_add(1).saturating_mul(size_of::<i64>());
    // SAFETY: the caller promises this.
    let offsets = unsafe { bytes(values.offsets.cast(), length, "the offsets") }?;
    let heap_length = usize::try_from(values.heap_length).unwrap_or(usize::MAX);
    // SAFETY: the caller promises this.
    let heap = unsafe { bytes(values.heap, heap_length, "the heap") }?;
    let data_type = if values.of == layout::BLOB { DataType::LargeBinary } else { DataType::LargeUtf8 };
    let data = ArrayData::builder(data_type.clone())
        .len(count)
        .nulls(nulls)
        .add_buffer(copy_of(offsets)?)
        .add_buffer(copy_of(heap)?)
        .build()
        .map_err(wrong)?;
    data.validate_full().map_err(wrong)?;
    Ok(match data_type {
        DataType::LargeBinary => Arc::new(LargeBinaryArray::from(data)),
        _ => Arc::new(LargeStringArray::from(data)),
    })
}

/// # Safety
/// The pointers are what the header says.
unsafe fn copied_dictionary(
    values: &Values,
    count: usize,
    nulls: Option<NullBuffer>,
    wrong: &dyn Fn(ArrowError) -> Error,
) -> Result<ArrayRef> {
    let key = match values.width {
        1 => DataType::Int8,
        2 => DataType::Int16,
        4 => DataType::Int32,
        other => return Err(misuse(format!("a code has 1, 2 or 4 bytes, not {other}"))),
    };
    let length = count.saturating_mul(values.width as usize);
    // SAFETY: the caller promises this.
    let codes = unsafe { bytes(values.data.cast(), length, "the codes") }?;
    let texts = usize::try_from(values.dictionary_count).unwrap_or(usize::MAX);
    let plain = Values { flags: 0, ..*values };
    // SAFETY: the caller promises this of the dictionary's offsets and heap.
    let texts = unsafe { copied_texts(&plain, texts, None, wrong) }?;
    let data_type = DataType::Dictionary(Box::new(key), Box::new(texts.data_type().clone()));
    let data = ArrayData::builder(data_type).len(count).nulls(nulls).add_buffer(copy_of(codes)?);
    let data = data.add_child_data(texts.to_data()).build().map_err(wrong)?;
    data.validate_full().map_err(wrong)?;
    Ok(make_array(data))
}

/// # Safety
/// `pointer` is NULL or points to as many bits.
unsafe fn bits(pointer: *const u8, offset: u64, count: usize, what: &str) -> Result<BooleanBuffer> {
    let offset = usize::try_from(offset).ok().filter(|offset| offset.checked_add(count).is_some());
    let offset = offset.ok_or_else(|| misuse(format!("the offset of {what} is out of memory")))?;
    // SAFETY: the caller promises this.
    let bytes = unsafe { bytes(pointer, (offset + count).div_ceil(8), what) }?;
    Ok(BooleanBuffer::new(copy_of(bytes)?, offset, count))
}

/// Copies bytes of the caller's. A number of them that is not true is found when there is no memory for them,
/// which would end the process where it is taken for granted.
fn copy_of(bytes: &[u8]) -> Result<Buffer> {
    let mut room: Vec<u8> = Vec::new();
    if bytes.len() > BELIEVED_BYTES && room.try_reserve_exact(bytes.len()).is_err() {
        let message = format!("no memory for {} bytes of a column", bytes.len());
        return Err(Error::new(ErrorKind::OutOfMemory, message));
    }
    drop(room);
    Ok(Buffer::from(bytes))
}

/// Returns the Arrow type of a column of the caller's, and the bytes of an element.
fn element(of: i32, values: &Values) -> Result<(DataType, usize)> {
    let unit = || match values.scale {
        0 => Ok(TimeUnit::Second),
        3 => Ok(TimeUnit::Millisecond),
        6 => Ok(TimeUnit::Microsecond),
        9 => Ok(TimeUnit::Nanosecond),
        other => Err(misuse(format!("the scale of a time is 0, 3, 6 or 9, not {other}"))),
    };
    let scale = |digits: i8| {
        let scale = i8::try_from(values.scale).ok().filter(|scale| (0..=digits).contains(scale));
        scale.ok_or_else(|| misuse(format!("a DECIMAL has no scale of {}", values.scale)))
    };
    let data_type = match of {
        layout::TINYINT => DataType::Int8,
        layout::SMALLINT => DataType::Int16,
        layout::INTEGER => DataType::Int32,
        layout::BIGINT => DataType::Int64,
        layout::UTINYINT => DataType::UInt8,
        layout::USMALLINT => DataType::UInt16,
        layout::UINTEGER => DataType::UInt32,
        layout::UBIGINT => DataType::UInt64,
        layout::FLOAT => DataType::Float32,
        layout::DOUBLE => DataType::Float64,
        layout::DECIMAL => match values.width {
            4 => DataType::Decimal32(9, scale(9)?),
            8 => DataType::Decimal64(18, scale(18)?),
            16 => DataType::Decimal128(38, scale(38)?),
            32 => DataType::Decimal256(76, scale(76)?),
            other => return Err(misuse(format!("a DECIMAL has 4, 8, 16 or 32 bytes, not {other}"))),
        },
        layout::DATE => DataType::Date32,
        layout::TIME => DataType::Time64(TimeUnit::Microsecond),
        layout::TIMESTAMP => DataType::Timestamp(unit()?, None),
        layout::TIMESTAMPTZ => DataType::Timestamp(unit()?, Some("UTC".into())),
        layout::DURATION => DataType::Duration(unit()?),
        layout::INTERVAL => DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano),
        layout::UUID => DataType::FixedSizeBinary(16),
        layout::FIXED_BINARY => match i32::try_from(values.width) {
            Ok(width) if width > 0 => DataType::FixedSizeBinary(width),
            _ => return Err(misuse("a column of fixed width has the width 0")),
        },
        other => return Err(misuse(format!("no column of the caller's has the type {other}"))),
    };
    let width = match &data_type {
        DataType::FixedSizeBinary(width) => *width as usize,
        other => other.primitive_width().unwrap_or(0),
    };
    match values.width as usize {
        given if given == width => Ok((data_type, width)),
        given => Err(misuse(format!("an element of the type {of} has {width} bytes, not {given}"))),
    }
}
