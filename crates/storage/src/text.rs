//! Texts of callers. Arrow takes its strings for UTF-8 unseen, and so does who reads them: what
//! comes by a pointer is looked at before it is stored.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, GenericStringArray, OffsetSizeTrait, downcast_dictionary_array};
use arrow_schema::DataType;
use hypostyle_types::{Error, Result};

/// Looks whether all strings of an array, at any depth, are UTF-8.
///
/// # Errors
/// `InvalidInput` (22021) for one that is not.
pub fn check_text(array: &ArrayRef) -> Result<()> {
    match array.data_type() {
        DataType::Utf8 => check_strings(array.as_string::<i32>()),
        DataType::LargeUtf8 => check_strings(array.as_string::<i64>()),
        DataType::Utf8View => {
            let bytes = array.as_string_view().clone().to_binary_view();
            bytes.iter().flatten().try_for_each(check_one)
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let (first, last) = (list.value_offsets()[0], list.value_offsets()[list.len()]);
            check_text(&list.values().slice(first as usize, (last - first) as usize))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let (first, last) = (list.value_offsets()[0], list.value_offsets()[list.len()]);
            check_text(&list.values().slice(first as usize, (last - first) as usize))
        }
        DataType::FixedSizeList(_, length) => {
            let list = array.as_fixed_size_list();
            let first = list.value_offset(0) as usize;
            check_text(&list.values().slice(first, list.len() * *length as usize))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let (first, last) = (map.value_offsets()[0], map.value_offsets()[map.len()]);
            let entries = map.entries().slice(first as usize, (last - first) as usize);
            entries.columns().iter().try_for_each(check_text)
        }
        DataType::Struct(_) => array.as_struct().columns().iter().try_for_each(check_text),
        DataType::Dictionary(..) => {
            let values = downcast_dictionary_array!(
                array => array.values().clone(),
                _ => return Ok(())
            );
            check_text(&values)
        }
        _ => Ok(()),
    }
}

fn check_strings<O: OffsetSizeTrait>(strings: &GenericStringArray<O>) -> Result<()> {
    let offsets = strings.value_offsets();
    let range = |row: usize| strings.value_data().get(offsets[row].as_usize()..offsets[row + 1].as_usize());
    let (first, last) = (offsets[0].as_usize(), offsets[strings.len()].as_usize());
    // Most often all of it is, and looked at in one go.
    if let Some(all) = strings.value_data().get(first..last)
        && let Ok(all) = std::str::from_utf8(all)
        && offsets.iter().all(|offset| all.is_char_boundary(offset.as_usize().wrapping_sub(first)))
    {
        return Ok(());
    }
    (0..strings.len())
        .filter(|row| strings.is_valid(*row))
        .try_for_each(|row| check_one(range(row).ok_or_else(|| not_utf8("offsets that are out of order"))?))
}

fn check_one(bytes: &[u8]) -> Result<()> {
    match std::str::from_utf8(bytes) {
        Ok(_) => Ok(()),
        Err(_) => {
            let shown: String = bytes
                .iter()
                .take(40)
                .flat_map(|byte| std::ascii::escape_default(*byte))
                .map(char::from)
                .collect();
            Err(not_utf8(&format!("\"{shown}\"")))
        }
    }
}

fn not_utf8(what: &str) -> Error {
    Error::invalid_input(format!(
        "{what} in a column of text, which is not UTF-8; decode it, or append it as BLOB"
    ))
    .with_sqlstate("22021")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int8Type;
    use arrow_array::{BinaryViewArray, DictionaryArray, Int8Array, LargeListArray, LargeStringArray};
    use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
    use std::sync::Arc;

    /// Strings that are not looked at, as those of a pointer.
    fn unseen(offsets: Vec<i64>, bytes: &[u8], nulls: Option<NullBuffer>) -> ArrayRef {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        // SAFETY: nobody but the function under test reads them.
        Arc::new(unsafe { LargeStringArray::new_unchecked(offsets, Buffer::from(bytes), nulls) })
    }

    #[test]
    fn strings_that_are_not_utf8_are_found_at_any_depth() {
        let wrong = unseen(vec![0, 1, 3], b"a\xffb", None);
        let error = check_text(&wrong).unwrap_err();
        assert!(error.message().contains(r#""\xffb""#), "{error}");
        assert_eq!(error.sqlstate(), "22021");
        check_text(&wrong.slice(0, 1)).unwrap();
        let cut = unseen(vec![0, 1, 2], "é".as_bytes(), None);
        assert!(check_text(&cut).is_err(), "a character in two rows");
        let null = unseen(vec![0, 1, 3], b"a\xffb", Some(NullBuffer::from(vec![true, false])));
        check_text(&null).unwrap();
        check_text(&unseen(vec![0, 2, 2, 5], "éabc".as_bytes(), None)).unwrap();
        let item = Arc::new(arrow_schema::Field::new("item", DataType::LargeUtf8, true));
        let list = LargeListArray::new(item, OffsetBuffer::from_lengths([1, 1]), wrong.clone(), None);
        let list: ArrayRef = Arc::new(list);
        assert!(check_text(&list).is_err());
        check_text(&list.slice(0, 1)).unwrap();
        let keys = Int8Array::from(vec![0, 1]);
        let dictionary: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::new(keys, wrong));
        assert!(check_text(&dictionary).is_err());
        let views = BinaryViewArray::from_iter_values([b"a".as_slice(), b"\xff long enough for a buffer"]);
        // SAFETY: as above.
        let views: ArrayRef = Arc::new(unsafe { views.to_string_view_unchecked() });
        assert!(check_text(&views).is_err());
    }
}
