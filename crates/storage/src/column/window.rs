//! Some rows of mapped columns, as large as they are.

use arrow_array::cast::AsArray;
use arrow_array::types::{ByteArrayType, LargeBinaryType, LargeUtf8Type};
use arrow_array::{Array, ArrayRef, GenericByteArray, LargeListArray, make_array};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, FieldRef};
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

/// The same array. Each of its buffers has the bytes that it is of for its capacity: that of a
/// piece of a mapping is the whole mapping, and who adds up what batches take would find a table in
/// each.
pub fn in_window(array: &ArrayRef) -> ArrayRef {
    let array = match array.data_type() {
        DataType::LargeUtf8 => of_bytes::<LargeUtf8Type>(array),
        DataType::LargeBinary => of_bytes::<LargeBinaryType>(array),
        DataType::LargeList(element) => of_lists(array, element),
        _ => array.clone(),
    };
    let data = array.to_data();
    if is_larger(&data) { make_array(windowed(data)) } else { array }
}

/// Returns the array with the bytes of its own values only.
fn of_bytes<T: ByteArrayType<Offset = i64>>(array: &ArrayRef) -> ArrayRef {
    let (offsets, bytes, nulls) = array.as_bytes::<T>().clone().into_parts();
    let Some((own, offsets)) = from_zero(&offsets, bytes.len()) else { return array.clone() };
    let bytes = bytes.slice_with_length(own.start, own.len());
    // SAFETY: the values are those that they were, over the very same bytes.
    Arc::new(unsafe { GenericByteArray::<T>::new_unchecked(offsets, bytes, nulls) })
}

fn of_lists(array: &ArrayRef, element: &FieldRef) -> ArrayRef {
    let list = array.as_list::<i64>();
    let Some((own, offsets)) = from_zero(list.offsets(), list.values().len()) else { return array.clone() };
    let values = in_window(&list.values().slice(own.start, own.len()));
    Arc::new(LargeListArray::new(element.clone(), offsets, values, list.nulls().cloned()))
}

/// The range of offsets, and offsets that begin with zero; `None` where they are of most of what there is.
fn from_zero(offsets: &OffsetBuffer<i64>, length: usize) -> Option<(Range<usize>, OffsetBuffer<i64>)> {
    let (first, last) = (*offsets.first()?, *offsets.last()?);
    let own = first as usize..last as usize;
    (length / 2 > own.len())
        .then(|| (own, OffsetBuffer::new(offsets.iter().map(|offset| offset - first).collect())))
}

fn is_larger(data: &ArrayData) -> bool {
    data.buffers().iter().any(is_piece) || data.child_data().iter().any(is_larger)
}

fn is_piece(buffer: &Buffer) -> bool {
    buffer.capacity() / 2 > buffer.len()
}

fn windowed(data: ArrayData) -> ArrayData {
    let piece = |buffer: &Buffer| match is_piece(buffer) {
        true => Buffer::from(Bytes::from_owner(Window(buffer.clone()))),
        false => buffer.clone(),
    };
    let buffers = data.buffers().iter().map(piece).collect();
    let children = data.child_data().iter().cloned().map(windowed).collect();
    // SAFETY: it is the array that it was, over the very same bytes.
    unsafe { data.into_builder().buffers(buffers).child_data(children).build_unchecked() }
}

/// Keeps what the bytes are a piece of.
struct Window(Buffer);

impl AsRef<[u8]> for Window {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::view_rows;
    use arrow_array::types::Int64Type;
    use arrow_array::{Int64Array, LargeStringArray};
    use std::sync::Arc;

    #[test]
    fn pieces_take_what_they_are_of() {
        let numbers: ArrayRef =
            Arc::new(Int64Array::from_iter((0..10_000).map(|n| (n % 3 > 0).then_some(n))));
        let text = LargeStringArray::from_iter_values(
            (0..10_000).map(|n| format!("a text of more than 12 bytes {n}")),
        );
        let text: ArrayRef = Arc::new(text);
        let lists: ArrayRef = Arc::new(LargeListArray::from_iter_primitive::<Int64Type, _, _>(
            (0..10_000).map(|n| Some(vec![Some(n), None])),
        ));
        let views = view_rows(&text.slice(500, 10), || 0..10, 10).unwrap();
        let pieces =
            [numbers.slice(500, 10), views, text.slice(500, 10), lists.slice(500, 10), text.slice(0, 0)];
        for array in pieces {
            let window = in_window(&array);
            window.to_data().validate_full().unwrap();
            assert_eq!(&window, &array);
            // Bitmaps are as large as they were.
            assert!(window.get_array_memory_size() < 5_000, "{}", window.get_array_memory_size());
            assert!(array.get_array_memory_size() > 50_000);
        }
        // Whole ones are as they were.
        assert!(Arc::ptr_eq(&in_window(&numbers), &numbers) && Arc::ptr_eq(&in_window(&text), &text));
    }
}
