//! Sorts words by some of their bits.

use super::merge::sort_by;
use crate::Result;
use crate::key::table::Key;
use std::cmp::Ordering;

/// The bits that one pass sorts by.
const DIGIT_BITS: u32 = 8;
const DIGITS: usize = 1 << DIGIT_BITS;
/// Fewer words are sorted by comparing them.
const ROWS_MIN: usize = 512;
/// More bits than this are not sorted by passes over all words.
const BITS_MAX: u32 = 40;

/// Returns the places in the order of the words that they are part of: places are the lowest
/// `bits.0` bits, keys the bits above up to `bits.1`. Where keys are not `exact`, the places of
/// rows whose keys are equal are compared. Calls `go_on` between pieces of the work.
pub(super) fn sort<K: Key>(
    mut words: Vec<K>,
    bits: (u32, u32),
    exact: bool,
    compare: impl Fn(&u32, &u32) -> Ordering,
    go_on: &dyn Fn() -> Result<()>,
) -> Result<Vec<u32>> {
    if words.len() < ROWS_MIN {
        words.sort_unstable();
    } else if words.is_sorted() {
        // Rows that come in the order of a key are found out before they are moved.
    } else if bits.1 - bits.0 <= BITS_MAX {
        by_last_digits(&mut words, bits, go_on)?;
    } else {
        by_first_digit(&mut words, bits, go_on)?;
    }
    let mut places: Vec<u32> = words.iter().map(|word| place(*word, bits.0)).collect();
    if !exact {
        let mut start = 0;
        for end in 1..=words.len() {
            if end == words.len() || words[end].right(bits.0) != words[start].right(bits.0) {
                if end - start > 1 {
                    sort_by(&mut places[start..end], &compare, go_on)?;
                }
                start = end;
            }
        }
    }
    Ok(places)
}

fn place<K: Key>(word: K, bits: u32) -> u32 {
    (word.wide() as u64 & ((1_u64 << bits) - 1)) as u32
}

#[inline(always)]
fn digit<K: Key>(word: K, shift: u32) -> usize {
    word.right(shift).wide() as usize & (DIGITS - 1)
}

/// Sorts by the last digit first, each pass keeping the order of the one before.
fn by_last_digits<K: Key>(
    words: &mut Vec<K>,
    bits: (u32, u32),
    go_on: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let shifts: Vec<u32> = (bits.0..bits.1).step_by(DIGIT_BITS as usize).collect();
    let mut counts = vec![[0_usize; DIGITS]; shifts.len()];
    for word in words.iter() {
        for (counts, shift) in counts.iter_mut().zip(&shifts) {
            counts[digit(*word, *shift)] += 1;
        }
    }
    let mut sorted = vec![K::default(); words.len()];
    for (counts, shift) in counts.into_iter().zip(shifts) {
        // A digit that all words have orders nothing.
        if counts.contains(&words.len()) {
            continue;
        }
        go_on()?;
        let mut next = starts(counts);
        for word in words.iter() {
            let next = &mut next[digit(*word, shift)];
            sorted[*next] = *word;
            *next += 1;
        }
        std::mem::swap(words, &mut sorted);
    }
    Ok(())
}

/// Shares words out by their first digit, and sorts each share by comparing.
fn by_first_digit<K: Key>(
    words: &mut Vec<K>,
    bits: (u32, u32),
    go_on: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let shift = bits.1 - DIGIT_BITS;
    let mut counts = [0; DIGITS];
    words.iter().for_each(|word| counts[digit(*word, shift)] += 1);
    let mut sorted = vec![K::default(); words.len()];
    let first = starts(counts);
    let mut next = first;
    for word in words.iter() {
        let next = &mut next[digit(*word, shift)];
        sorted[*next] = *word;
        *next += 1;
    }
    for (start, end) in first.into_iter().zip(next) {
        go_on()?;
        sort_by(&mut sorted[start..end], &K::cmp, go_on)?;
    }
    std::mem::swap(words, &mut sorted);
    Ok(())
}

/// Returns where the words of each digit begin.
fn starts(counts: [usize; DIGITS]) -> [usize; DIGITS] {
    let mut sum = 0;
    counts.map(|count| {
        sum += count;
        sum - count
    })
}
