//! Keys of any type and of several columns: entries in buckets, by hash.

use super::previous::Previous;
use crate::NO_ROW;
use crate::array::typed;
use crate::column::{BATCH_ROWS, Column, Words, hash_rows, is_same_key, valid_rows};
use arrow_buffer::{Buffer, ScalarBuffer};
use hypostyle_types::{Error, Result};

/// Rows between two questions whether to go on.
const PROCEED_ROWS: usize = 1 << 16;

/// Entries of a bucket, on average.
const BUCKET_ENTRIES: usize = 4;

/// Entries of the newest position of each key, bucket by bucket. The upper half of an entry is the
/// lower half of the key's hash, its lower half the position; the bucket is chosen by the upper
/// half of the hash. The entries of a bucket ascend.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hashed {
    seed: u64,
    /// Where each bucket begins among the entries, and where the last one ends.
    buckets: ScalarBuffer<u32>,
    entries: ScalarBuffer<u64>,
    pub previous: Previous,
}

fn bucket_of(hash: u64, buckets: usize) -> usize {
    (((hash >> 32) * buckets as u64) >> 32) as usize
}

fn entry_of(hash: u64, position: u32) -> u64 {
    hash << 32 | u64::from(position)
}

fn position_of(entry: u64) -> u32 {
    entry as u32
}

fn has_same_tag(entry: u64, other: u64) -> bool {
    (entry ^ other) >> 32 == 0
}

impl Hashed {
    /// Builds the index of the keys that the columns make; `proceed` is asked now and then whether to
    /// go on.
    pub fn build(columns: &[Column], seed: u64, proceed: &mut dyn FnMut() -> Result<()>) -> Result<Self> {
        let rows = columns.first().map_or(0, Column::rows);
        let valid = valid_rows(columns);
        let count = (rows / BUCKET_ENTRIES).max(1);
        let mut hashes = vec![0_u64; rows];
        for (batch, hashes) in hashes.chunks_mut(PROCEED_ROWS).enumerate() {
            proceed()?;
            hash_rows(columns, seed, batch * PROCEED_ROWS, hashes);
        }
        let is_valid = |row: usize| valid.as_ref().is_none_or(|valid| valid.is_valid(row));
        // Where the next entry of a bucket goes: one place before the others, at first.
        let mut buckets = vec![0_u32; count + 2];
        for (row, hash) in hashes.iter().enumerate() {
            ask(row, proceed)?;
            buckets[bucket_of(*hash, count) + 2] += u32::from(is_valid(row));
        }
        for bucket in 2..buckets.len() {
            buckets[bucket] += buckets[bucket - 1];
        }
        let mut entries = vec![0_u64; buckets[count + 1] as usize];
        for (row, hash) in hashes.iter().enumerate().filter(|(row, _)| is_valid(*row)) {
            ask(row, proceed)?;
            let next = &mut buckets[bucket_of(*hash, count) + 1];
            entries[*next as usize] = entry_of(*hash, row as u32);
            *next += 1;
        }
        buckets.pop();
        drop(hashes);
        let previous = keep_newest(columns, &mut buckets, &mut entries, proceed)?;
        Ok(Self { seed, buckets: buckets.into(), entries: entries.into(), previous })
    }

    /// Writes the newest position of each key from row `first` on, or [`NO_ROW`].
    pub fn find(&self, indexed: &[Column], keys: &[Column], first: usize, found: &mut [u32]) {
        let words = match (indexed, keys) {
            ([indexed], [keys]) => indexed.words().zip(keys.words()),
            _ => None,
        };
        match words {
            Some((Words::I64(indexed), Words::I64(values))) => {
                self.find_by(keys, first, found, |position, row| {
                    indexed.get(position as usize) == values.get(row)
                })
            }
            Some((Words::I32(indexed), Words::I32(values))) => {
                self.find_by(keys, first, found, |position, row| {
                    indexed.get(position as usize) == values.get(row)
                })
            }
            _ => self.find_by(keys, first, found, |position, row| {
                is_same_key(indexed, position as usize, keys, row)
            }),
        }
    }

    /// [`Self::find`] by a comparison of the key at a position with one that is looked up. Each step
    /// is taken for a batch of keys, so that the cache misses of many are waited for together.
    fn find_by(&self, keys: &[Column], first: usize, found: &mut [u32], is_key: impl Fn(u32, usize) -> bool) {
        let mut hashes = [0; BATCH_ROWS];
        let mut ranges = [(0_u32, 0_u32); BATCH_ROWS];
        let count = self.buckets.len() - 1;
        for (batch, found) in found.chunks_mut(BATCH_ROWS).enumerate() {
            let first = first + batch * BATCH_ROWS;
            let (hashes, ranges) = (&mut hashes[..found.len()], &mut ranges[..found.len()]);
            hash_rows(keys, self.seed, first, hashes);
            for (range, hash) in ranges.iter_mut().zip(hashes.iter()) {
                let bucket = bucket_of(*hash, count);
                *range = (self.buckets[bucket], self.buckets[bucket + 1]);
            }
            // The first entry of the key's tag, and the entries behind it.
            for ((range, hash), slot) in ranges.iter_mut().zip(hashes.iter()).zip(found.iter_mut()) {
                let entries = &self.entries[range.0 as usize..range.1 as usize];
                let wanted = entry_of(*hash, 0);
                let place = entries.iter().position(|entry| has_same_tag(*entry, wanted));
                *slot = place.map_or(NO_ROW, |place| position_of(entries[place]));
                range.0 = place.map_or(range.1, |place| range.0 + place as u32 + 1);
            }
            for (((row, range), hash), slot) in (first..).zip(ranges).zip(hashes).zip(found) {
                if *slot != NO_ROW && !is_key(*slot, row) {
                    let wanted = entry_of(*hash, 0);
                    let mut others = self.entries[range.0 as usize..range.1 as usize]
                        .iter()
                        .filter(|entry| has_same_tag(**entry, wanted))
                        .map(|entry| position_of(*entry));
                    *slot = others.find(|position| is_key(*position, row)).unwrap_or(NO_ROW);
                }
            }
        }
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    pub fn arrays(&self) -> Vec<Buffer> {
        let [later, earlier] = self.previous.arrays();
        vec![self.buckets.inner().clone(), self.entries.inner().clone(), later, earlier]
    }

    /// # Errors
    /// `Corrupt` when the buckets do not divide the entries, or these have a row that is not there.
    pub fn decode(seed: u64, rows: u32, arrays: &[Buffer]) -> Result<Self> {
        let damaged = || Error::corrupt("a hash index whose buckets or entries are none");
        let [buckets, entries, later, earlier] = arrays else { return Err(damaged()) };
        let (buckets, entries) = (typed::<u32>(buckets)?, typed::<u64>(entries)?);
        let is_sound = buckets.len() >= 2
            && buckets.first() == Some(&0)
            && buckets.is_sorted()
            && buckets.last().is_some_and(|last| *last as usize == entries.len())
            && entries.iter().all(|entry| position_of(*entry) < rows);
        if !is_sound {
            return Err(damaged());
        }
        Ok(Self { seed, buckets, entries, previous: Previous::decode(later, earlier, rows)? })
    }
}

/// Sorts the entries of each bucket and leaves the newest of each key; returns the others.
fn keep_newest(
    columns: &[Column],
    buckets: &mut [u32],
    entries: &mut Vec<u64>,
    proceed: &mut dyn FnMut() -> Result<()>,
) -> Result<Previous> {
    let mut pairs = Vec::new();
    let (mut begin, mut kept) = (0, 0);
    for bucket_end in buckets.iter_mut().skip(1) {
        let end = *bucket_end as usize;
        entries[begin..end].sort_unstable();
        let bucket_begin = kept;
        for place in begin..end {
            ask(place, proceed)?;
            let entry = entries[place];
            let (position, same_tag) = (position_of(entry), |other: &u64| has_same_tag(*other, entry));
            let run =
                kept - entries[bucket_begin..kept].iter().rev().take_while(|other| same_tag(other)).count();
            let same = entries[run..kept].iter().position(|other| {
                is_same_key(columns, position_of(*other) as usize, columns, position as usize)
            });
            match same {
                Some(older) => {
                    pairs.push((position, position_of(entries[run + older])));
                    // The newest goes last, as entries ascend.
                    entries.copy_within(run + older + 1..kept, run + older);
                    entries[kept - 1] = entry;
                }
                None => {
                    entries[kept] = entry;
                    kept += 1;
                }
            }
        }
        begin = end;
        *bucket_end = kept as u32;
    }
    entries.truncate(kept);
    entries.shrink_to_fit();
    Ok(Previous::of(pairs))
}

/// Asks whether to go on, once for many rows.
fn ask(row: usize, proceed: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    if row.is_multiple_of(PROCEED_ROWS) { proceed() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int64Array};
    use std::collections::HashMap;
    use std::sync::Arc;

    fn columns(keys: impl IntoIterator<Item = i64>) -> Vec<Column> {
        let array: ArrayRef = Arc::new(Int64Array::from_iter_values(keys));
        Column::all(&[array]).unwrap()
    }

    /// Two keys whose entries differ in the position only.
    fn alike(seed: u64) -> (i64, i64) {
        let keys = 0..400_000;
        let mut hashes = vec![0; 400_000];
        // Spread over all bits: of neighbours no two tags are the same.
        let spread = |key: i64| key.wrapping_mul(0x5851_F42D_4C95_7F2D);
        hash_rows(&columns(keys.clone().map(spread)), seed, 0, &mut hashes);
        let mut seen = HashMap::new();
        let same = keys.zip(hashes).find_map(|(key, hash)| Some((seen.insert(hash as u32, key)?, key)));
        let (one, other) = same.unwrap();
        (spread(one), spread(other))
    }

    #[test]
    fn keys_of_the_same_tag_are_told_apart() {
        let (one, other) = alike(11);
        assert_ne!(one, other);
        for keys in
            [[one, other, one, other, one], [other, one, one, one, other], [one, one, other, one, one]]
        {
            let indexed = columns(keys);
            let index = Hashed::build(&indexed, 11, &mut || Ok(())).unwrap();
            assert_eq!(index.buckets.len(), 2);
            for key in [one, other] {
                let expected: Vec<u32> = (0..5).rev().filter(|row| keys[*row as usize] == key).collect();
                let mut found = [0];
                index.find(&indexed, &columns([key]), 0, &mut found);
                let chain = std::iter::successors(Some(found[0]), |row| Some(index.previous.before(*row)));
                assert_eq!(chain.take_while(|row| *row != NO_ROW).collect::<Vec<_>>(), expected);
            }
        }
    }
}
