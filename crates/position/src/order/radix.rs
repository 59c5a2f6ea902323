//! Sorts words by some of their bits.

use super::merge::sort_by;
use crate::key::table::Key;
use crate::share::{filled, share};
use crate::{Check, Result, Work};
use std::cmp::Ordering;

/// The bits that one pass sorts by.
const DIGIT_BITS: u32 = 8;
const DIGITS: usize = 1 << DIGIT_BITS;
/// Fewer words are sorted by comparing them.
const ROWS_MIN: usize = 512;
/// Fewer words stay in the cache while they are sorted, and are not shared out.
const SHARED_MIN: usize = 1 << 15;

/// Returns the places in the order of the words that they are part of: places are the lowest
/// `bits.0` bits, keys the bits above up to `bits.1`. Where keys are not `exact`, the places of
/// rows whose keys are equal are compared. Threads share the work.
pub(super) fn sort<K: Key>(
    mut words: Vec<K>,
    bits: (u32, u32),
    exact: bool,
    compare: impl Fn(&u32, &u32) -> Ordering,
    work: &Work<'_>,
) -> Result<Vec<u32>> {
    if words.len() < ROWS_MIN {
        words.sort_unstable();
    } else if words.is_sorted() {
        // Rows that come in the order of a key are found out before they are moved.
    } else if words.len() < SHARED_MIN {
        let mut spare = vec![K::default(); words.len()];
        by_last_digits(&mut words, &mut spare, bits, work.go_on)?;
    } else {
        by_first_digit(&mut words, bits, work)?;
    }
    let mut places = filled(words.len(), work, |range, places: &mut [u32]| {
        places.iter_mut().zip(&words[range]).for_each(|(own, word)| *own = place(*word, bits.0));
        Ok(())
    })?;
    if !exact {
        let mut start = 0;
        for end in 1..=words.len() {
            if end == words.len() || words[end].right(bits.0) != words[start].right(bits.0) {
                if end - start > 1 {
                    sort_by(&mut places[start..end], &compare, work.go_on)?;
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

/// Sorts by the last digit first, each pass keeping the order of the one before. What is sorted is in
/// `words` in the end; `spare` has as many.
fn by_last_digits<K: Key>(
    words: &mut [K],
    spare: &mut [K],
    bits: (u32, u32),
    go_on: Check<'_>,
) -> Result<()> {
    let shifts: Vec<u32> = (bits.0..bits.1).step_by(DIGIT_BITS as usize).collect();
    let mut counts = vec![[0_usize; DIGITS]; shifts.len()];
    for word in words.iter() {
        for (counts, shift) in counts.iter_mut().zip(&shifts) {
            counts[digit(*word, *shift)] += 1;
        }
    }
    let (mut from, mut to) = (words, spare);
    let mut is_swapped = false;
    for (counts, shift) in counts.into_iter().zip(shifts) {
        // A digit that all words have orders nothing.
        if counts.contains(&from.len()) {
            continue;
        }
        go_on()?;
        let mut next = starts(counts);
        for word in from.iter() {
            let next = &mut next[digit(*word, shift)];
            to[*next] = *word;
            *next += 1;
        }
        (from, to) = (to, from);
        is_swapped = !is_swapped;
    }
    if is_swapped {
        to.copy_from_slice(from);
    }
    Ok(())
}

/// Shares words out by their first digit, and has threads sort the shares, which as a rule fit into
/// their caches.
fn by_first_digit<K: Key>(words: &mut Vec<K>, bits: (u32, u32), work: &Work<'_>) -> Result<()> {
    let shift = bits.1 - DIGIT_BITS;
    let mut sorted = vec![K::default(); words.len()];
    let counts = scattered(words, &mut sorted, shift, work)?;
    let mut shares: Vec<(&mut [K], &mut [K])> = Vec::with_capacity(DIGITS);
    let (mut rest, mut spare) = (sorted.as_mut_slice(), words.as_mut_slice());
    for count in counts {
        let (own, others) = rest.split_at_mut(count);
        let (of_spare, left) = spare.split_at_mut(count);
        shares.push((own, of_spare));
        (rest, spare) = (others, left);
    }
    // The largest ones come first, so that no thread ends long after the others.
    shares.sort_by_key(|(words, _)| std::cmp::Reverse(words.len()));
    share(shares, work.threads, |(words, spare)| {
        (work.go_on)()?;
        sort_share(words, spare, (bits.0, shift), work.go_on)
    })?;
    std::mem::swap(words, &mut sorted);
    Ok(())
}

/// Brings words into the order of a digit; those of one digit keep their order. Returns how many words
/// each digit has. Each thread has a part of the words, and its own places for those of each digit.
fn scattered<K: Key>(words: &[K], to: &mut [K], shift: u32, work: &Work<'_>) -> Result<[usize; DIGITS]> {
    let parts: Vec<&[K]> = words.chunks(words.len().div_ceil(work.threads.max(1)).max(1)).collect();
    let mut counts = vec![[0; DIGITS]; parts.len()];
    share(parts.iter().zip(&mut counts).collect(), work.threads, |(part, counts)| {
        (work.go_on)()?;
        part.iter().for_each(|word| counts[digit(*word, shift)] += 1);
        Ok(())
    })?;
    let mut of_parts: Vec<Vec<&mut [K]>> = parts.iter().map(|_| Vec::with_capacity(DIGITS)).collect();
    let mut rest = to;
    for digit in 0..DIGITS {
        for (of_part, counts) in of_parts.iter_mut().zip(&counts) {
            let (own, others) = std::mem::take(&mut rest).split_at_mut(counts[digit]);
            of_part.push(own);
            rest = others;
        }
    }
    share(parts.into_iter().zip(of_parts).collect(), work.threads, |(part, mut to)| {
        (work.go_on)()?;
        let mut next = [0; DIGITS];
        for word in part {
            let digit = digit(*word, shift);
            to[digit][next[digit]] = *word;
            next[digit] += 1;
        }
        Ok(())
    })?;
    Ok(std::array::from_fn(|digit| counts.iter().map(|counts| counts[digit]).sum()))
}

/// Sorts words that have one first digit.
fn sort_share<K: Key>(words: &mut [K], spare: &mut [K], bits: (u32, u32), go_on: Check<'_>) -> Result<()> {
    match words.len() < ROWS_MIN {
        true => {
            words.sort_unstable();
            Ok(())
        }
        false => by_last_digits(words, spare, bits, go_on),
    }
}

/// Returns where the words of each digit begin.
fn starts(counts: [usize; DIGITS]) -> [usize; DIGITS] {
    let mut sum = 0;
    counts.map(|count| {
        sum += count;
        sum - count
    })
}
