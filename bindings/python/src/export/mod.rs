//! Converts Arrow arrays to the forms of Python's libraries: objects, NumPy memory, Polars'
//! layouts.

pub mod buffer;
pub mod numpy;
pub mod object;
pub mod parallel;
pub mod string_dtype;
pub mod widen;

use arrow::array::AnyDictionaryArray;

/// Returns the codes of a dictionary. If it has no values, all rows are NULL and have the code 0.
fn codes(dictionary: &dyn AnyDictionaryArray) -> Vec<usize> {
    match dictionary.values().is_empty() {
        true => vec![0; dictionary.len()],
        false => dictionary.normalized_keys(),
    }
}
