//! Some rows of strings or bytes as views.
//!
//! To leave rows out of an array of strings, what is between them must be moved together. Views of
//! the array's own bytes cost 16 bytes a row instead, however long the strings are.

use arrow_array::builder::make_view;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    BinaryViewType, ByteArrayType, ByteViewType, LargeBinaryType, LargeUtf8Type, StringViewType,
};
use arrow_array::{Array, ArrayRef, GenericByteArray, GenericByteViewArray};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_data::MAX_INLINE_VIEW_LEN;
use arrow_schema::DataType;
use std::ops::Range;
use std::sync::Arc;

/// Values of up to so many bytes lie in their views.
const INLINE_BYTES_MAX: usize = MAX_INLINE_VIEW_LEN as usize;

/// Rows of an array of LargeUtf8 or LargeBinary as Utf8View or BinaryView, which share its bytes;
/// `None` for arrays of other types, or with more bytes than views can reach (4 GiB).
pub fn view_rows<Rows: Iterator<Item = usize>>(
    array: &ArrayRef,
    rows: impl Fn() -> Rows,
    count: usize,
) -> Option<ArrayRef> {
    match array.data_type() {
        DataType::LargeUtf8 => view::<LargeUtf8Type, StringViewType, _>(array.as_bytes(), rows, count),
        DataType::LargeBinary => view::<LargeBinaryType, BinaryViewType, _>(array.as_bytes(), rows, count),
        _ => None,
    }
}

fn view<From, To, Rows>(
    array: &GenericByteArray<From>,
    rows: impl Fn() -> Rows,
    count: usize,
) -> Option<ArrayRef>
where
    From: ByteArrayType<Offset = i64>,
    To: ByteViewType<Native = From::Native>,
    Rows: Iterator<Item = usize>,
{
    let offsets = array.value_offsets();
    let start = *offsets.first()? as usize;
    let end = *offsets.last()? as usize;
    let bytes = array.values().slice_with_length(start, end.checked_sub(start)?);
    u32::try_from(bytes.len()).ok()?;
    let mut views: Vec<u128> = Vec::with_capacity(count);
    let place = |row: usize| (offsets[row] as usize - start)..(offsets[row + 1] as usize - start);
    rows().for_each(|row| {
        views.push(view_of(&bytes, place(row)));
    });
    let nulls = array.nulls().map(|nulls| NullBuffer::from_iter(rows().map(|row| nulls.is_valid(row))));
    // SAFETY: each view is of a whole value of `array`, in the one buffer, and made from these very
    // bytes; so it is UTF-8 where the array's values are. There are as many views as rows.
    Some(Arc::new(unsafe {
        GenericByteViewArray::<To>::new_unchecked(ScalarBuffer::from(views), vec![bytes], nulls)
    }))
}

/// What [`make_view`] gives for some of the bytes of buffer 0, which are fewer than 4 GiB: without
/// asking for each length of the short ones, except at the end of the bytes.
#[inline]
fn view_of(bytes: &[u8], place: Range<usize>) -> u128 {
    let value = &bytes[place.clone()];
    let Some(first) = bytes[place.start..].first_chunk::<16>() else {
        return make_view(value, 0, place.start as u32);
    };
    let (first, length) = (u128::from_le_bytes(*first), value.len());
    let rest = match length {
        0..=INLINE_BYTES_MAX => first & ((1 << (8 * length)) - 1),
        _ => u128::from(first as u32) | ((place.start as u128) << 64),
    };
    (rest << 32) | length as u128
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{LargeBinaryArray, LargeStringArray, StringViewArray};

    #[test]
    fn views_are_those_of_arrow() {
        let bytes: Vec<u8> = (100..160).collect();
        for start in 0..=bytes.len() {
            for end in start..=bytes.len() {
                let expected = make_view(&bytes[start..end], 0, start as u32);
                assert_eq!(view_of(&bytes, start..end), expected, "{start}..{end}");
            }
        }
    }

    #[test]
    fn views_are_of_the_rows_that_were_asked_for() {
        let long = "a string of more than twelve bytes";
        let strings =
            LargeStringArray::from(vec![Some("left out"), Some(long), None, Some("é"), Some(""), Some(long)]);
        let array: ArrayRef = Arc::new(strings.slice(1, 5));
        let views = view_rows(&array, || [0, 1, 2, 4].into_iter(), 4).unwrap();
        views.to_data().validate_full().unwrap();
        let expected = StringViewArray::from(vec![Some(long), None, Some("é"), Some(long)]);
        assert_eq!(views.as_string_view(), &expected);
        let bytes: ArrayRef = Arc::new(LargeBinaryArray::from_iter_values([[0xFF; 20], [0x01; 20]]));
        let views = view_rows(&bytes, || 1..2, 1).unwrap();
        views.to_data().validate_full().unwrap();
        assert_eq!(views.as_binary_view().value(0), [0x01; 20]);
        assert_eq!(view_rows(&array.slice(0, 0), || 0..0, 0).unwrap().len(), 0);
    }
}
