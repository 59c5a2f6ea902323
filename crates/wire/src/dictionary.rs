//! Dictionaries of columns (protocol.md §10.3): which to send, and what became of several.
//!
//! A stored column's dictionary is the same array in all batches, and is sent once. Where a batch
//! has few rows of a large one, only the values that it uses are sent, until the rows together
//! would have paid for all.

use crate::error::{arrow_error, refused};
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowDictionaryKeyType, Int8Type, Int16Type, Int32Type};
use arrow_array::{Array, ArrayRef, DictionaryArray, PrimitiveArray, UInt64Array};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_schema::DataType;
use hypostyle_types::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// A dictionary of so many values is sent whatever is used of it.
const SMALL: usize = 256;

/// Values that may be sent for each row.
const VALUES_PER_ROW: u64 = 2;

/// What a column's chunk needs of a dictionary.
pub(crate) struct DictionaryPlan {
    pub number: u32,
    pub array: ArrayRef,
    pub send: Send,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Send {
    /// The receiver has it.
    Nothing,
    All,
    /// What the chunk uses.
    Used,
}

/// The dictionaries of a column that is sent.
#[derive(Default)]
pub(crate) struct SentDictionaries {
    /// The one that the receiver has, with its number.
    whole: Option<(u32, ArrayRef)>,
    /// The one that it has got parts of, and the rows of those.
    parts: Option<(ArrayRef, u64)>,
}

fn same(one: &ArrayRef, other: &ArrayRef) -> bool {
    one.to_data().ptr_eq(&other.to_data())
}

impl SentDictionaries {
    /// `rows_expected` are those of the whole stream, where they are known; `number` gives a new number.
    pub fn plan(
        &mut self,
        array: ArrayRef,
        rows_expected: u64,
        number: impl FnOnce() -> u32,
    ) -> DictionaryPlan {
        let values = array.as_any_dictionary().values().clone();
        if let Some((number, whole)) = &self.whole
            && same(whole, &values)
        {
            return DictionaryPlan { number: *number, array, send: Send::Nothing };
        }
        let before = self.parts.take().filter(|(parts, _)| same(parts, &values)).map_or(0, |(_, rows)| rows);
        let rows = before + array.len() as u64;
        let pays = values.len() <= SMALL || values.len() as u64 <= rows.max(rows_expected) * VALUES_PER_ROW;
        let number = number();
        if pays && values.null_count() == 0 {
            self.whole = Some((number, values));
            return DictionaryPlan { number, array, send: Send::All };
        }
        self.whole = None;
        self.parts = Some((values, rows));
        DictionaryPlan { number, array, send: Send::Used }
    }
}

/// The array with a dictionary of what it uses, and without NULLs in that.
#[expect(clippy::cast_possible_truncation, reason = "a dictionary has fewer than 2^31 values")]
pub(crate) fn keep_used(array: &ArrayRef) -> Result<ArrayRef> {
    let dictionary = array.as_any_dictionary();
    let (nulls, values) = (array.logical_nulls(), dictionary.values());
    let keys = if values.is_empty() { vec![0; array.len()] } else { dictionary.normalized_keys() };
    let mut code_of: Vec<u32> = vec![0; values.len()];
    let mut used: Vec<u64> = Vec::new();
    let codes = keys.into_iter().enumerate().map(|(row, key)| {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return -1;
        }
        if code_of[key] == 0 {
            used.push(key as u64);
            code_of[key] = used.len() as u32;
        }
        code_of[key] as i32 - 1
    });
    let codes: Vec<i32> = codes.collect();
    let values = arrow_select::take::take(values, &UInt64Array::from(used), None).map_err(arrow_error)?;
    let DataType::Dictionary(key, _) = array.data_type() else {
        return Err(Error::internal("not a dictionary"));
    };
    with_codes(key, codes, nulls, values)
}

/// An array of these codes, which are −1 under NULLs and fit `key`.
#[expect(clippy::cast_possible_truncation, reason = "the caller's codes fit the key")]
fn with_codes(
    key: &DataType,
    codes: Vec<i32>,
    nulls: Option<NullBuffer>,
    values: ArrayRef,
) -> Result<ArrayRef> {
    fn typed<K: ArrowDictionaryKeyType>(
        codes: Vec<K::Native>,
        nulls: Option<NullBuffer>,
        values: ArrayRef,
    ) -> Result<ArrayRef> {
        let keys = PrimitiveArray::<K>::new(codes.into(), nulls);
        Ok(Arc::new(DictionaryArray::try_new(keys, values).map_err(refused)?))
    }
    match key {
        DataType::Int8 => {
            typed::<Int8Type>(codes.into_iter().map(|code| code as i8).collect(), nulls, values)
        }
        DataType::Int16 => {
            typed::<Int16Type>(codes.into_iter().map(|code| code as i16).collect(), nulls, values)
        }
        _ => typed::<Int32Type>(codes, nulls, values),
    }
}

/// Puts the pieces of a column together. Where they have more values than their codes can name, the
/// codes of the whole have 4 bytes.
pub(crate) fn concatenate(key: &DataType, pieces: &[ArrayRef]) -> Result<ArrayRef> {
    let mut merged = Merged::default();
    let mut codes: Vec<i32> = Vec::with_capacity(pieces.iter().map(|piece| piece.len()).sum());
    let mut nulls = arrow_buffer::NullBufferBuilder::new(codes.capacity());
    let one = pieces
        .windows(2)
        .all(|pair| same(pair[0].as_any_dictionary().values(), pair[1].as_any_dictionary().values()));
    let mut last: Option<(ArrayRef, Vec<i32>)> = None;
    for piece in pieces {
        let values = piece.as_any_dictionary().values();
        match piece.nulls() {
            Some(piece) => nulls.append_buffer(piece),
            None => nulls.append_n_non_nulls(piece.len()),
        }
        if !one && !last.as_ref().is_some_and(|(last, _)| same(last, values)) {
            last = Some((values.clone(), merged.add(values)?));
        }
        let new_codes = last.as_ref().map(|(_, codes)| codes.as_slice());
        let new = |code: i32| match new_codes {
            Some(new) if code >= 0 => new[code as usize],
            _ => code,
        };
        match key {
            DataType::Int8 => append::<Int8Type>(piece, new, &mut codes),
            DataType::Int16 => append::<Int16Type>(piece, new, &mut codes),
            _ => append::<Int32Type>(piece, new, &mut codes),
        }
    }
    let values = match pieces {
        [first, ..] if one => first.as_any_dictionary().values().clone(),
        _ => merged.values()?,
    };
    let fits = match key {
        DataType::Int8 => values.len() <= i8::MAX as usize + 1,
        DataType::Int16 => values.len() <= i16::MAX as usize + 1,
        _ => true,
    };
    with_codes(if fits { key } else { &DataType::Int32 }, codes, nulls.finish(), values)
}

#[expect(clippy::cast_possible_truncation, reason = "codes have at most 4 bytes and a sign")]
fn append<K: ArrowDictionaryKeyType>(piece: &ArrayRef, new: impl Fn(i32) -> i32, codes: &mut Vec<i32>) {
    let keys = piece.as_dictionary::<K>().keys();
    codes.extend(keys.values().iter().map(|key| new(key.to_i64().unwrap_or(-1) as i32)));
}

/// Dictionaries made one.
#[derive(Default)]
struct Merged {
    codes: HashMap<Vec<u8>, i32>,
    /// What each dictionary has that those before it have not.
    parts: Vec<ArrayRef>,
}

impl Merged {
    /// The new codes of a dictionary's values.
    #[expect(clippy::cast_possible_truncation, reason = "a dictionary has fewer than 2^31 values")]
    fn add(&mut self, values: &ArrayRef) -> Result<Vec<i32>> {
        let bytes = |index: usize| -> Vec<u8> {
            match values.data_type() {
                DataType::LargeUtf8 => values.as_string::<i64>().value(index).as_bytes().to_vec(),
                _ => values.as_binary::<i64>().value(index).to_vec(),
            }
        };
        let mut fresh: Vec<u64> = Vec::new();
        let codes = (0..values.len())
            .map(|index| {
                let next = self.codes.len() as i32;
                *self.codes.entry(bytes(index)).or_insert_with(|| {
                    fresh.push(index as u64);
                    next
                })
            })
            .collect();
        self.parts.push(arrow_select::take::take(values, &UInt64Array::from(fresh), None).map_err(refused)?);
        Ok(codes)
    }

    fn values(&self) -> Result<ArrayRef> {
        let parts: Vec<&dyn Array> = self.parts.iter().map(AsRef::as_ref).collect();
        arrow_select::concat::concat(&parts).map_err(refused)
    }
}
