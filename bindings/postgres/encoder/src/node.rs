//! The buffers of one field, which C fills and Arrow takes over.

use crate::buffer::RawBuffer;
use crate::layout::Array;
use crate::numeric::{Misfit, Scaled, scaled};
use crate::schema::not_utf8;
use arrow_array::{ArrayRef, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, i256};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::DataType;
use hypostyle_types::{Error, Result};

/// Elements that have room at first.
const FIRST_ELEMENTS: usize = 64;

/// Bytes of a text column that have room at first.
const FIRST_BYTES: usize = 256;

/// A text column that has grown longer grows by no more than it needs to.
const DOUBLED_BYTES_MAX: usize = 8 << 20;

/// A text column that was longer in one chunk is not taken to be so in the next.
const EXPECTED_BYTES_MAX: usize = 1 << 20;

/// Bytes of where a text or list ends.
const END_BYTES: usize = size_of::<i64>();

/// How values lie in their buffers.
pub(crate) enum Shape {
    Fixed { width: usize },
    Bool,
    Text,
    List,
    Struct,
    Dictionary { width: usize, labels: ArrayRef },
}

impl Shape {
    /// Bytes of an element in the buffer of values.
    fn width(&self) -> usize {
        match self {
            Self::Fixed { width } | Self::Dictionary { width, .. } => *width,
            Self::Bool => 1,
            Self::Text | Self::List => END_BYTES,
            Self::Struct => 0,
        }
    }

    fn has_ends(&self) -> bool {
        matches!(self, Self::Text | Self::List)
    }
}

/// A field: its type and its buffers.
pub(crate) struct Node {
    pub name: String,
    pub data_type: DataType,
    pub shape: Shape,
    /// The nodes directly within this one.
    pub members: Vec<usize>,
    values: RawBuffer,
    validity: RawBuffer,
    bytes: RawBuffer,
    /// The elements and bytes of the chunk before, for which there is room in the next one at once.
    expected: (usize, usize),
}

impl Node {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_string(),
            data_type: DataType::Null,
            shape: Shape::Struct,
            members: Vec::new(),
            values: RawBuffer::default(),
            validity: RawBuffer::default(),
            bytes: RawBuffer::default(),
            expected: (FIRST_ELEMENTS, FIRST_BYTES),
        }
    }

    /// Bytes of an element before codecs, without those of a text or of a list's elements.
    pub fn row_bytes(&self) -> usize {
        if self.shape.has_ends() { size_of::<u32>() } else { self.shape.width() }
    }

    /// An array without elements and room.
    pub fn empty(&self) -> Array {
        Array {
            length: 0,
            capacity: 0,
            nulls: 0,
            values: std::ptr::null_mut(),
            validity: std::ptr::null_mut(),
            bytes: std::ptr::null_mut(),
            bytes_length: 0,
            bytes_capacity: 0,
            width: self.shape.width(),
        }
    }

    /// Makes room for so many more elements, and for so many more bytes of texts.
    pub fn reserve(&mut self, array: &mut Array, elements: usize, bytes: usize) -> Result<()> {
        let too_many = || Error::internal("a chunk has too many elements");
        let needed = array.length.checked_add(elements).ok_or_else(too_many)?;
        if needed > array.capacity || array.capacity == 0 {
            let capacity = needed.max(array.capacity.saturating_mul(2)).max(self.expected.0);
            self.grow(array, capacity)?;
        }
        let needed = array.bytes_length.checked_add(bytes).ok_or_else(too_many)?;
        if needed > array.bytes_capacity {
            let doubled = array.bytes_capacity.saturating_mul(2).min(DOUBLED_BYTES_MAX);
            self.bytes.reserve(array.bytes_length, needed.max(doubled).max(self.expected.1))?;
            array.bytes = self.bytes.pointer();
            array.bytes_capacity = self.bytes.capacity();
        }
        Ok(())
    }

    fn grow(&mut self, array: &mut Array, capacity: usize) -> Result<()> {
        let first_end = if self.shape.has_ends() { END_BYTES } else { 0 };
        let width = self.shape.width();
        let length = capacity.checked_mul(width).and_then(|bytes| bytes.checked_add(first_end));
        let length = length.ok_or_else(|| Error::internal("a chunk has too many elements"))?;
        self.values.reserve(array.length * width + first_end, length)?;
        if array.capacity == 0 {
            self.values.fill(0, first_end, 0);
        }
        let masked = array.capacity.div_ceil(8);
        self.validity.reserve(masked, capacity.div_ceil(8))?;
        self.validity.fill(masked, capacity.div_ceil(8), 0xff);
        array.capacity = capacity;
        array.values = self.values.pointer();
        array.validity = self.validity.pointer();
        Ok(())
    }

    /// Writes a number where the next element's value is.
    ///
    /// # Safety
    /// C has written `array` as the header says; it has room.
    pub unsafe fn put_decimal(&mut self, array: &Array, bytes: &[u8]) -> Result<(), Misfit> {
        let at = array.length * self.shape.width();
        if at + self.shape.width() > self.values.capacity() {
            return Err(Misfit::Damaged);
        }
        // SAFETY: the value is within the memory, which is aligned for all of them.
        unsafe {
            let place = self.values.pointer().add(at);
            match self.data_type {
                DataType::Decimal32(precision, scale) => {
                    let number = scaled::<i64>(bytes, precision, scale.unsigned_abs())?;
                    let number = i32::try_from(number).map_err(|_| Misfit::Digits)?;
                    place.cast::<i32>().write_unaligned(number);
                }
                DataType::Decimal64(precision, scale) => {
                    place.cast::<i64>().write_unaligned(scaled(bytes, precision, scale.unsigned_abs())?);
                }
                // Numbers that fit half the bytes take half the time.
                DataType::Decimal128(precision, scale) if i32::from(precision) <= i64::DIGITS_MAX => {
                    let number = scaled::<i64>(bytes, precision, scale.unsigned_abs())?;
                    place.cast::<i128>().write_unaligned(number.into());
                }
                DataType::Decimal128(precision, scale) => {
                    place.cast::<i128>().write_unaligned(scaled(bytes, precision, scale.unsigned_abs())?);
                }
                DataType::Decimal256(precision, scale) => {
                    place.cast::<i256>().write_unaligned(scaled(bytes, precision, scale.unsigned_abs())?);
                }
                _ => return Err(Misfit::Damaged),
            }
        }
        Ok(())
    }

    /// Gives the elements to Arrow; the array is empty then, and `array` says so. The elements of `members`
    /// are within this array.
    ///
    /// # Safety
    /// C has written `array` as the header says.
    pub unsafe fn finish(&mut self, array: &mut Array, members: Vec<ArrayData>) -> Result<ArrayRef> {
        let Array { length, nulls, bytes_length, .. } = *array;
        if length > array.capacity || nulls > length || bytes_length > array.bytes_capacity {
            return Err(Error::internal(format!("the values of \"{}\" go beyond their buffers", self.name)));
        }
        let first_end = if self.shape.has_ends() { END_BYTES } else { 0 };
        let taken = |buffer: &mut RawBuffer, bytes: usize| {
            // SAFETY: C has written so many bytes, as the caller promises.
            unsafe { std::mem::take(buffer).finish(bytes) }
        };
        if array.capacity == 0 {
            self.grow(array, 1)?;
        }
        let values = taken(&mut self.values, length * self.shape.width() + first_end);
        let validity = taken(&mut self.validity, length.div_ceil(8));
        let bytes = taken(&mut self.bytes, bytes_length);
        *array = self.empty();
        self.expected = (length.max(FIRST_ELEMENTS), bytes_length.clamp(FIRST_BYTES, EXPECTED_BYTES_MAX));
        let mut data = ArrayDataBuilder::new(self.data_type.clone()).len(length);
        if nulls > 0 {
            data = data.nulls(Some(NullBuffer::new(BooleanBuffer::new(validity, 0, length))));
        }
        data = match &self.shape {
            Shape::Fixed { .. } => data.add_buffer(values),
            Shape::Bool => data.add_buffer(bits(&values)),
            Shape::Text => data.add_buffer(values).add_buffer(bytes),
            Shape::List => data.add_buffer(values).child_data(members),
            Shape::Struct => data.child_data(members),
            Shape::Dictionary { labels, .. } => data.add_buffer(values).add_child_data(labels.to_data()),
        };
        let is_text = self.data_type == DataType::LargeUtf8;
        let data = data.build().map_err(|error| match is_text {
            true => not_utf8(&format!("a value of column \"{}\"", self.name)),
            false => Error::internal(format!("the values of \"{}\": {error}", self.name)),
        })?;
        Ok(make_array(data))
    }
}

/// One bit for each byte that is not zero.
fn bits(bytes: &Buffer) -> Buffer {
    BooleanBuffer::collect_bool(bytes.len(), |index| bytes[index] != 0).into_inner()
}
