//! Rows in the order of a hash of their keys.
//!
//! A hash table that does not fit into the cache costs a miss for each row. If rows are first
//! shared out by some bits of a hash, the table of each part fits, and threads work on different
//! parts. Columns go along by [`gather`](crate::gather::gather): the rows of one part are then a
//! slice of the result.
//!
//! The hash is the same in every process and for every layout of a type, so that both sides of a
//! join meet. Whoever chooses keys that all fall into one part gets the speed of a table without
//! parts.

use crate::gather::gather_or_null;
use crate::key::table::mix;
use crate::rows::{common_rows, for_each};
use crate::value::{Value, Values, Word, codes, fixed, nulls, wide_words};
use crate::{Column, Error, Result, Rows};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

const KERNEL: &str = "partition";

/// The most bits: more parts than this have more write streams than a processor follows.
pub const BITS_MAX: u32 = 12;

/// Rows whose hashes are made together, so that they stay in the first level of the cache.
const PIECE: usize = 2048;

/// The factor of the hash; the digits of the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// Stands for NULL.
const NULL_HASH: u64 = 0x2545_f491_4f6c_dd1d;

/// Rows by part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partitioned {
    /// The places of the rows among those that came, part after part; within a part as they came.
    pub order: Vec<u32>,
    /// Where in `order` each part begins, and where the last one ends.
    pub bounds: Vec<u32>,
}

impl Partitioned {
    /// Returns where a part lies in `order`.
    pub fn part(&self, part: usize) -> Range<usize> {
        self.bounds[part] as usize..self.bounds[part + 1] as usize
    }
}

/// Shares rows out to 2 to the power of `bits` parts, by the hash of their keys. Keys that are
/// equal, or NULL, are in one part, also across calls and tables whose types are comparable.
///
/// Takes time in proportion to the rows and six bytes of memory for each.
pub fn partition(keys: &[Column<'_>], bits: u32) -> Result<Partitioned> {
    if bits > BITS_MAX || bits == 0 {
        return Err(Error::Inputs {
            kernel: KERNEL,
            reason: "the number of parts is not between 2 and 4096",
        });
    }
    let rows = common_rows(KERNEL, keys)?;
    let mut parts: Vec<u16> = Vec::with_capacity(rows);
    let mut hashes = Vec::new();
    for start in (0..rows).step_by(PIECE) {
        let places = start..rows.min(start + PIECE);
        hashes.clear();
        hashes.resize(places.len(), 0);
        for Column { array, rows } in keys {
            combine(Column { array: *array, rows: rows.part(places.clone()) }, &mut hashes)?;
        }
        let part = |hash: &u64| (hash.wrapping_mul(FACTOR) >> (64 - bits)) as u16;
        parts.extend(hashes.iter().map(part));
    }
    let mut bounds = vec![0_u32; (1 << bits) + 1];
    for part in &parts {
        bounds[usize::from(*part) + 1] += 1;
    }
    let mut sum = 0;
    for bound in &mut bounds {
        sum += *bound;
        *bound = sum;
    }
    let mut next = bounds.clone();
    let mut order = vec![0; rows];
    for (place, part) in parts.iter().enumerate() {
        let next = &mut next[usize::from(*part)];
        order[*next as usize] = place as u32;
        *next += 1;
    }
    Ok(Partitioned { order, bounds })
}

/// Mixes the values of a column into the hashes of its rows.
fn combine(column: Column<'_>, hashes: &mut [u64]) -> Result<()> {
    fn words<T: Value>(values: &[T], rows: Rows<'_>, hashes: &mut [u64]) {
        for_each(values, rows, |place, value| {
            let word = value.word().wide();
            hashes[place] = mix(hashes[place] ^ word as u64 ^ FACTOR, (word >> 64) as u64 ^ NULL_HASH);
        });
    }
    let Column { array, rows } = column;
    let before = nulls(array).map(|_| hashes.to_vec());
    fixed!(Values::of(KERNEL, array)?, values => words(values, rows, hashes), other => match other {
        Values::Bytes(bytes) => {
            for (hash, row) in hashes.iter_mut().zip(rows.iter()) {
                let own = if array.is_null(row as usize) { 0 } else { xxh3_64(bytes.get(row as usize)) };
                *hash = mix(*hash ^ own ^ FACTOR, NULL_HASH);
            }
        }
        Values::Dictionary(dictionary) => {
            let plain = gather_or_null(dictionary.values(), &codes(KERNEL, dictionary, rows)?)?;
            return combine(Column::all(&plain)?, hashes);
        }
        _ => {
            let words = wide_words(KERNEL, array)?
                .ok_or_else(|| Error::UnsupportedType { kernel: KERNEL, data_type: array.data_type().clone() })?;
            for_each(&words, rows, |place, word| hashes[place] = mix(hashes[place] ^ word as u64 ^ FACTOR, NULL_HASH));
        }
    });
    if let (Some(nulls), Some(before)) = (nulls(array), before) {
        for ((hash, before), row) in hashes.iter_mut().zip(before).zip(rows.iter()) {
            if nulls.is_null(row as usize) {
                *hash = mix(before ^ NULL_HASH, FACTOR);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Datum, columns, row};
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn equal_keys_are_in_one_part(keys in columns(1..4, 0..200), bits in 1..7_u32) {
            let all: Vec<Column<'_>> = keys.iter().map(|key| Column::all(key).unwrap()).collect();
            let rows = keys[0].len();
            let found = partition(&all, bits).unwrap();
            let mut parts: HashMap<Vec<Option<Datum>>, usize> = HashMap::new();
            let mut seen = Vec::new();
            for part in 0..1 << bits {
                let places = &found.order[found.part(part)];
                prop_assert!(places.is_sorted());
                for place in places {
                    prop_assert_eq!(*parts.entry(row(&keys, *place as usize)).or_insert(part), part);
                    seen.push(*place);
                }
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..rows as u32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn parts_are_about_equal_in_size() {
        for step in [1_i64, 64, 1 << 20, 1 << 40] {
            let keys = arrow_array::Int64Array::from_iter_values((0..64_000).map(|row| row * step));
            let found = partition(&[Column::all(&keys).unwrap()], 6).unwrap();
            let sizes: Vec<usize> = (0..64).map(|part| found.part(part).len()).collect();
            assert!(sizes.iter().all(|size| (600..1_500).contains(size)), "{step}: {sizes:?}");
        }
    }

    #[test]
    fn numbers_of_parts_have_limits() {
        let keys = arrow_array::Int64Array::from(vec![1]);
        let keys = [Column::all(&keys).unwrap()];
        assert!(partition(&keys, 0).is_err() && partition(&keys, BITS_MAX + 1).is_err());
    }
}
