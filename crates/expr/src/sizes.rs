//! The sizes of a function's arguments, row by row.

use arrow::array::{Array, AsArray, Int64Array, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{
    BinaryViewType, ByteViewType, DataType, Int64Type, IntervalMonthDayNanoType, StringViewType, TimeUnit,
};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use std::ops::Range;

/// The largest memory of an element besides its bytes.
pub const ELEMENT_BYTES: u64 = 16;

const NANOSECONDS_IN_DAY: f64 = 24.0 * 3600.0 * 1e9;

/// One argument of a call.
pub struct Argument<'a> {
    value: &'a ColumnarValue,
    rows: usize,
    /// The values of integers.
    numbers: Option<Int64Array>,
}

impl<'a> Argument<'a> {
    pub fn of(value: &'a ColumnarValue, rows: usize) -> Result<Self> {
        let numbers = match value {
            _ if !value.data_type().is_integer() => None,
            ColumnarValue::Array(values) => Some(cast(values, &DataType::Int64)?),
            ColumnarValue::Scalar(value) => Some(cast(&value.to_array()?, &DataType::Int64)?),
        };
        let numbers = numbers.map(|numbers| numbers.as_primitive::<Int64Type>().clone());
        Ok(Self { value, rows, numbers })
    }

    pub fn is_scalar(&self) -> bool {
        matches!(self.value, ColumnarValue::Scalar(_))
    }

    pub fn data_type(&self) -> DataType {
        self.value.data_type()
    }

    /// Returns the bytes of all rows.
    pub fn total(&self) -> u64 {
        match self.value {
            ColumnarValue::Array(values) => bytes_of(values.as_ref(), 0..values.len()),
            ColumnarValue::Scalar(value) => scalar_bytes(value).saturating_mul(self.rows as u64),
        }
    }

    pub fn bytes(&self, row: usize) -> u64 {
        match self.value {
            ColumnarValue::Array(values) => bytes_of(values.as_ref(), row..row + 1),
            ColumnarValue::Scalar(value) => scalar_bytes(value),
        }
    }

    /// Returns the elements of lists in a row that are no lists themselves, and the bytes of those.
    pub fn leaves(&self, row: usize) -> (u64, u64) {
        match self.value {
            ColumnarValue::Array(values) => leaves_of(values.as_ref(), row..row + 1),
            ColumnarValue::Scalar(value) => match list_of(value) {
                Some(list) => leaves_of(list, 0..1),
                None => (1, scalar_bytes(value)),
            },
        }
    }

    /// Returns an integer; 0 for what is negative, NULL or none.
    pub fn count(&self, row: usize) -> u64 {
        self.number(row).and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
    }

    pub fn number(&self, row: usize) -> Option<i64> {
        let numbers = self.numbers.as_ref()?;
        let row = if self.is_scalar() { 0 } else { row };
        numbers.is_valid(row).then(|| numbers.value(row))
    }

    /// Returns the greatest of [`Self::count`].
    pub fn greatest(&self) -> u64 {
        let greatest = self.numbers.as_ref().and_then(arrow::compute::max);
        greatest.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
    }

    pub fn text(&self, row: usize) -> Option<&str> {
        match self.value {
            ColumnarValue::Scalar(value) => value.try_as_str().flatten(),
            ColumnarValue::Array(values) if values.is_null(row) => None,
            ColumnarValue::Array(values) => match values.data_type() {
                DataType::Utf8 => Some(values.as_string::<i32>().value(row)),
                DataType::LargeUtf8 => Some(values.as_string::<i64>().value(row)),
                DataType::Utf8View => Some(values.as_string_view().value(row)),
                _ => None,
            },
        }
    }

    /// Returns a point in time in days, or an integer.
    pub fn place(&self, row: usize) -> Option<f64> {
        if let Some(number) = self.number(row) {
            return Some(number as f64);
        }
        let per_day = match self.data_type() {
            DataType::Date32 => 1.0,
            DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => NANOSECONDS_IN_DAY / 1e6,
            DataType::Timestamp(TimeUnit::Second, _) => NANOSECONDS_IN_DAY / 1e9,
            DataType::Timestamp(TimeUnit::Microsecond, _) => NANOSECONDS_IN_DAY / 1e3,
            DataType::Timestamp(TimeUnit::Nanosecond, _) => NANOSECONDS_IN_DAY,
            _ => return None,
        };
        let value = self.one(row)?;
        let number = cast(&value, &DataType::Int64).ok()?;
        let number = number.as_primitive::<Int64Type>();
        number.is_valid(0).then(|| number.value(0) as f64 / per_day)
    }

    /// Returns the integer, or the days that an interval goes at the least; next to none for one
    /// whose parts go both ways.
    pub fn step(&self, row: usize) -> Option<f64> {
        if let Some(number) = self.number(row) {
            return Some(number as f64);
        }
        let value = self.one(row)?;
        let interval: &PrimitiveArray<IntervalMonthDayNanoType> = value.as_primitive_opt()?;
        let step = interval.is_valid(0).then(|| interval.value(0))?;
        let parts =
            [step.months as f64 * 28.0, step.days as f64, step.nanoseconds as f64 / NANOSECONDS_IN_DAY];
        let agree = parts.iter().all(|part| *part >= 0.0) || parts.iter().all(|part| *part <= 0.0);
        Some(if agree { parts.iter().sum() } else { f64::MIN_POSITIVE })
    }

    fn one(&self, row: usize) -> Option<arrow::array::ArrayRef> {
        match self.value {
            ColumnarValue::Array(values) => Some(values.slice(row, 1)),
            ColumnarValue::Scalar(value) => value.to_array().ok(),
        }
    }
}

fn list_of(value: &ScalarValue) -> Option<&dyn Array> {
    match value {
        ScalarValue::List(list) => Some(list.as_ref()),
        ScalarValue::LargeList(list) => Some(list.as_ref()),
        ScalarValue::FixedSizeList(list) => Some(list.as_ref()),
        ScalarValue::Map(map) => Some(map.as_ref()),
        ScalarValue::Struct(fields) => Some(fields.as_ref()),
        _ => None,
    }
}

pub fn scalar_bytes(value: &ScalarValue) -> u64 {
    if let Some(list) = list_of(value) {
        return bytes_of(list, 0..list.len());
    }
    match value {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => {
            text.as_ref().map_or(0, |text| text.len() as u64)
        }
        ScalarValue::Binary(bytes)
        | ScalarValue::LargeBinary(bytes)
        | ScalarValue::BinaryView(bytes)
        | ScalarValue::FixedSizeBinary(_, bytes) => bytes.as_ref().map_or(0, |bytes| bytes.len() as u64),
        other => other.data_type().primitive_width().map_or(ELEMENT_BYTES, |width| width as u64),
    }
}

/// Returns the bytes of the values in some rows.
pub fn bytes_of(array: &dyn Array, rows: Range<usize>) -> u64 {
    let count = rows.len() as u64;
    match array.data_type() {
        DataType::Utf8 => between(array.as_string::<i32>().value_offsets(), &rows),
        DataType::LargeUtf8 => between(array.as_string::<i64>().value_offsets(), &rows),
        DataType::Binary => between(array.as_binary::<i32>().value_offsets(), &rows),
        DataType::LargeBinary => between(array.as_binary::<i64>().value_offsets(), &rows),
        DataType::Utf8View => in_views::<StringViewType>(array, rows),
        DataType::BinaryView => in_views::<BinaryViewType>(array, rows),
        DataType::Struct(_) => {
            let fields = array.as_struct().columns().iter();
            fields.map(|field| bytes_of(field.as_ref(), rows.clone())).sum()
        }
        _ => match elements_of(array, &rows) {
            Some(elements) => elements.map(|(values, within)| bytes_of(values, within)).sum(),
            None => {
                let width = array.data_type().primitive_width().map_or(ELEMENT_BYTES, |width| width as u64);
                width * count
            }
        },
    }
}

fn between<O: Copy + Into<i64>>(offsets: &[O], rows: &Range<usize>) -> u64 {
    u64::try_from(offsets[rows.end].into() - offsets[rows.start].into()).unwrap_or(0)
}

fn in_views<T: ByteViewType>(array: &dyn Array, rows: Range<usize>) -> u64 {
    // The lower half of a view is its length.
    array.as_byte_view::<T>().views()[rows].iter().map(|view| u64::from(*view as u32)).sum()
}

type Elements<'a> = Box<dyn Iterator<Item = (&'a dyn Array, Range<usize>)> + 'a>;

/// Returns the elements of lists in some rows, where there are lists.
fn elements_of<'a>(array: &'a dyn Array, rows: &Range<usize>) -> Option<Elements<'a>> {
    let one = |values: &'a dyn Array, within: Range<usize>| -> Elements<'a> {
        Box::new(std::iter::once((values, within)))
    };
    Some(match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let offsets = list.value_offsets();
            one(list.values().as_ref(), offsets[rows.start] as usize..offsets[rows.end] as usize)
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let offsets = list.value_offsets();
            one(list.values().as_ref(), offsets[rows.start] as usize..offsets[rows.end] as usize)
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let offsets = map.value_offsets();
            one(map.entries(), offsets[rows.start] as usize..offsets[rows.end] as usize)
        }
        DataType::FixedSizeList(_, size) => {
            let (list, size) = (array.as_fixed_size_list(), usize::try_from(*size).unwrap_or(0));
            one(list.values().as_ref(), rows.start * size..rows.end * size)
        }
        DataType::ListView(_) => {
            let list = array.as_list_view::<i32>();
            let within = |row: usize| {
                let start = list.value_offset(row) as usize;
                start..start + list.value_size(row) as usize
            };
            Box::new(rows.clone().map(move |row| (list.values().as_ref(), within(row))))
        }
        DataType::LargeListView(_) => {
            let list = array.as_list_view::<i64>();
            let within = |row: usize| {
                let start = list.value_offset(row) as usize;
                start..start + list.value_size(row) as usize
            };
            Box::new(rows.clone().map(move |row| (list.values().as_ref(), within(row))))
        }
        _ => return None,
    })
}

/// Returns how many values there are below the lists in some rows, and their bytes.
pub fn leaves_of(array: &dyn Array, rows: Range<usize>) -> (u64, u64) {
    match elements_of(array, &rows) {
        Some(elements) => elements
            .map(|(values, within)| leaves_of(values, within))
            .fold((0, 0), |(count, bytes), (more, more_bytes)| (count + more, bytes + more_bytes)),
        None => (rows.len() as u64, bytes_of(array, rows)),
    }
}

/// Returns how many elements the list of a row has; `None` of what is no list.
pub fn length_of_list(array: &dyn Array, row: usize) -> Option<usize> {
    if array.is_null(row) {
        return elements_of(array, &(0..0)).map(|_| 0);
    }
    elements_of(array, &(row..row + 1)).map(|elements| elements.map(|(_, within)| within.len()).sum())
}
