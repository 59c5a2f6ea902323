//! Checks the arrays of other producers. The interface gives their addresses, and whatever is there
//! is read later without another look.
//!
//! Only the rows of an array are checked, and not what else is in its buffers: a stream of small
//! pieces of one array costs what the array does.

use arrow::array::types::{
    ArrowPrimitiveType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMillisecondType, TimestampSecondType,
};
use arrow::array::{ArrayData, OffsetSizeTrait, PrimitiveArray};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::error::ArrowError;
use hypostyle::{Error, Result};

/// The bytes of a text that an error shows.
const SHOWN_BYTES: usize = 40;

/// The dictionaries that are remembered as sound.
const DICTIONARIES_MAX: usize = 64;

/// Checks arrays of one producer.
#[derive(Default)]
pub struct Checker {
    /// Dictionaries that were checked. The same one comes with each piece.
    dictionaries: Vec<ArrayData>,
}

impl Checker {
    /// # Errors
    /// `InvalidInput` for a value that its type does not have.
    pub fn check(&mut self, data: &ArrayData) -> Result<()> {
        match data.data_type() {
            DataType::Utf8 => check_text::<i32>(data),
            DataType::LargeUtf8 => check_text::<i64>(data),
            DataType::Binary => offsets::<i32>(data, data.buffers()[1].len()).map(drop),
            DataType::LargeBinary => offsets::<i64>(data, data.buffers()[1].len()).map(drop),
            DataType::Utf8View => check_text_view(data),
            DataType::BinaryView => in_words(data, data.validate_values()),
            DataType::Time32(TimeUnit::Second) => check_times::<Time32SecondType>(data, 86_400),
            DataType::Time32(_) => check_times::<Time32MillisecondType>(data, 86_400_000),
            DataType::Time64(TimeUnit::Microsecond) => {
                check_times::<Time64MicrosecondType>(data, 86_400_000_000)
            }
            DataType::Time64(_) => check_times::<Time64NanosecondType>(data, 86_400_000_000_000),
            // They are read as microseconds.
            DataType::Timestamp(TimeUnit::Second, Some(_)) => {
                check_moments::<TimestampSecondType>(data, 1_000_000)
            }
            DataType::Timestamp(TimeUnit::Millisecond, Some(_)) => {
                check_moments::<TimestampMillisecondType>(data, 1_000)
            }
            DataType::Decimal32(precision, _) => check_decimals::<Decimal32Type>(data, *precision),
            DataType::Decimal64(precision, _) => check_decimals::<Decimal64Type>(data, *precision),
            DataType::Decimal128(precision, _) => check_decimals::<Decimal128Type>(data, *precision),
            DataType::Decimal256(precision, _) => check_decimals::<Decimal256Type>(data, *precision),
            DataType::Dictionary(..) => {
                in_words(data, data.validate_values())?;
                self.check_dictionary(&data.child_data()[0])
            }
            DataType::List(_) | DataType::Map(..) => {
                let (first, end) = offsets::<i32>(data, data.child_data()[0].len())?;
                self.check(&rows_of(&data.child_data()[0], first, end - first)?)
            }
            DataType::LargeList(_) => {
                let (first, end) = offsets::<i64>(data, data.child_data()[0].len())?;
                self.check(&rows_of(&data.child_data()[0], first, end - first)?)
            }
            DataType::FixedSizeList(..) => self.check(&data.child_data()[0]),
            DataType::Struct(fields) => {
                fields.iter().zip(data.child_data()).try_for_each(|(field, child)| {
                    self.check(child).map_err(|error| error.context(format!("column \"{}\"", field.name())))
                })
            }
            DataType::ListView(_)
            | DataType::LargeListView(_)
            | DataType::Union(..)
            | DataType::RunEndEncoded(..) => {
                in_words(data, data.validate().and_then(|()| data.validate_values()))?;
                data.child_data().iter().try_for_each(|child| self.check(child))
            }
            _ => Ok(()),
        }
    }

    fn check_dictionary(&mut self, values: &ArrayData) -> Result<()> {
        if self.dictionaries.iter().any(|known| known.ptr_eq(values)) {
            return Ok(());
        }
        self.check(values)?;
        if self.dictionaries.len() < DICTIONARIES_MAX {
            // As long as it is here, nothing else has its addresses.
            self.dictionaries.push(values.clone());
        }
        Ok(())
    }
}

/// Returns rows of an array. Structs and lists of a fixed length in it begin at their first row:
/// arrow-rs takes the offset of a struct in one of them twice.
///
/// # Errors
/// `InvalidInput` when the array, or one in it, has fewer rows.
pub fn rows_of(data: &ArrayData, start: usize, rows: usize) -> Result<ArrayData> {
    if start.checked_add(rows).is_none_or(|end| end > data.len()) {
        let needed = start.saturating_add(rows);
        return Err(damaged(data, format!("{} values where {needed} are needed", data.len())));
    }
    let first = data.offset() + start;
    let builder = ArrayData::builder(data.data_type().clone())
        .len(rows)
        .nulls(data.nulls().map(|nulls| nulls.slice(start, rows)));
    let builder = match data.data_type() {
        DataType::Struct(_) => {
            let children = data.child_data().iter().map(|child| rows_of(child, first, rows));
            builder.child_data(children.collect::<Result<_>>()?)
        }
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).map_err(|_| damaged(data, "lists of a negative size"))?;
            let place = |rows: usize| {
                rows.checked_mul(size).ok_or_else(|| damaged(data, "more values than there can be"))
            };
            let values = rows_of(&data.child_data()[0], place(first)?, place(rows)?)?;
            builder.child_data(vec![values])
        }
        _ => {
            let children = data.child_data().iter().map(|child| rows_of(child, 0, child.len()));
            let children = children.collect::<Result<_>>()?;
            builder.offset(first).buffers(data.buffers().to_vec()).child_data(children)
        }
    };
    // SAFETY: the buffers, the offset and the rows are those of `data`, or fewer. Without a check it
    // is as sound as `data`.
    Ok(unsafe { builder.build_unchecked() })
}

/// Returns where the values of the first row begin, and where those of the last one end.
fn offsets<O: OffsetSizeTrait>(data: &ArrayData, values: usize) -> Result<(usize, usize)> {
    let offsets = row_offsets::<O>(data)?;
    let (Some(first), Some(end)) = (offsets.first(), offsets.last()) else { return Ok((0, 0)) };
    let in_order = offsets.windows(2).all(|pair| pair[0] <= pair[1]);
    if !in_order || *first < O::zero() || end.as_usize() > values {
        return Err(damaged(data, format!("offsets that are not in order, or beyond the {values} values")));
    }
    Ok((first.as_usize(), end.as_usize()))
}

/// Returns the offsets of all rows, one more than rows; none if there are no rows.
fn row_offsets<O: OffsetSizeTrait>(data: &ArrayData) -> Result<&[O]> {
    if data.is_empty() {
        return Ok(&[]);
    }
    let all = data.buffers()[0].typed_data::<O>();
    let end = data.offset().checked_add(data.len() + 1);
    end.and_then(|end| all.get(data.offset()..end))
        .ok_or_else(|| damaged(data, format!("{} offsets for {} rows", all.len(), data.len())))
}

fn check_text<O: OffsetSizeTrait>(data: &ArrayData) -> Result<()> {
    let values = data.buffers()[1].as_slice();
    let (first, end) = offsets::<O>(data, values.len())?;
    let offsets = row_offsets::<O>(data)?;
    // Most often all of it is text, and is looked at in one go. Each row is text by itself if no
    // character is divided.
    if let Ok(text) = std::str::from_utf8(&values[first..end]) {
        let whole = |offset: &O| text.is_char_boundary(offset.as_usize() - first);
        if text.is_ascii() || offsets.iter().all(whole) {
            return Ok(());
        }
    }
    for (row, pair) in offsets.windows(2).enumerate() {
        // What lies under NULL is no value.
        let is_null = data.nulls().is_some_and(|nulls| nulls.is_null(row));
        let bytes = &values[pair[0].as_usize()..pair[1].as_usize()];
        if !is_null && std::str::from_utf8(bytes).is_err() {
            return Err(not_utf8(bytes));
        }
    }
    Ok(())
}

fn check_text_view(data: &ArrayData) -> Result<()> {
    in_words(data, data.validate_values()).map_err(|error| {
        // What is sound as bytes is no text.
        match data.clone().into_builder().data_type(DataType::BinaryView).build() {
            Ok(_) => error.with_sqlstate("22021"),
            Err(_) => error,
        }
    })
}

fn check_decimals<T: DecimalType>(data: &ArrayData, precision: u8) -> Result<()> {
    in_words(data, PrimitiveArray::<T>::from(data.clone()).validate_decimal_precision(precision))
}

/// Checks times of a day of so many units; midnight may be at its end, too.
fn check_times<T>(data: &ArrayData, day: i64) -> Result<()>
where
    T: ArrowPrimitiveType,
    T::Native: Into<i64>,
{
    let times = PrimitiveArray::<T>::from(data.clone());
    let mut numbers = times.iter().flatten().map(|time| -> i64 { time.into() });
    match numbers.find(|number| !(0..=day).contains(number)) {
        Some(number) => Err(out_of_range(data, number)),
        None => Ok(()),
    }
}

/// Checks points in time, of which each unit is so many microseconds.
fn check_moments<T: ArrowPrimitiveType<Native = i64>>(data: &ArrayData, microseconds: i64) -> Result<()> {
    let moments = PrimitiveArray::<T>::from(data.clone());
    let mut numbers = moments.iter().flatten();
    match numbers.find(|number| number.checked_mul(microseconds).is_none()) {
        Some(number) => Err(out_of_range(data, number)),
        None => Ok(()),
    }
}

fn out_of_range(data: &ArrayData, number: i64) -> Error {
    damaged(data, format!("{number} is beyond its range")).with_sqlstate("22008")
}

/// Returns Arrow's error as one of the producer's data.
fn in_words(data: &ArrayData, checked: std::result::Result<(), ArrowError>) -> Result<()> {
    checked.map_err(|error| match error {
        ArrowError::InvalidArgumentError(message) => damaged(data, message),
        other => damaged(data, other.to_string()),
    })
}

fn damaged(data: &ArrayData, what: impl AsRef<str>) -> Error {
    let data_type = data.data_type();
    Error::invalid_input(format!("damaged Arrow data of the type {data_type}: {}", what.as_ref()))
}

fn not_utf8(bytes: &[u8]) -> Error {
    let shown = bytes[..bytes.len().min(SHOWN_BYTES)].escape_ascii();
    let message =
        format!("\"{shown}\" in a column of text, which is not UTF-8; decode it, or give it as binary");
    Error::invalid_input(message).with_sqlstate("22021")
}
