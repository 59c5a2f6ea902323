//! Sorts by comparing, in pieces between which the work can end.

use super::Check;
use crate::Result;
use std::cmp::Ordering;

/// What is sorted, or merged, before anybody is asked whether to go on.
const PIECE: usize = 1 << 16;

/// Sorts values; those that compare as equal keep their order.
pub(super) fn sort_by<T: Copy>(
    values: &mut [T],
    compare: &impl Fn(&T, &T) -> Ordering,
    go_on: Check<'_>,
) -> Result<()> {
    if values.len() <= PIECE {
        values.sort_by(compare);
        return Ok(());
    }
    for piece in values.chunks_mut(PIECE) {
        go_on()?;
        piece.sort_by(compare);
    }
    let mut merged = values.to_vec();
    let mut width = PIECE;
    while width < values.len() {
        for (from, to) in values.chunks(2 * width).zip(merged.chunks_mut(2 * width)) {
            let (one, other) = from.split_at(width.min(from.len()));
            merge(one, other, to, compare, go_on)?;
        }
        values.copy_from_slice(&merged);
        width *= 2;
    }
    Ok(())
}

/// Merges two sorted slices.
fn merge<'a, T: Copy>(
    mut one: &'a [T],
    mut other: &'a [T],
    to: &mut [T],
    compare: &impl Fn(&T, &T) -> Ordering,
    go_on: Check<'_>,
) -> Result<()> {
    for piece in to.chunks_mut(PIECE) {
        go_on()?;
        for place in piece {
            let from = match (one.first(), other.first()) {
                (Some(first), Some(second)) if compare(second, first).is_lt() => &mut other,
                (Some(_), _) => &mut one,
                _ => &mut other,
            };
            if let Some((first, rest)) = from.split_first() {
                *place = *first;
                *from = rest;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn many_values_are_sorted_in_pieces_and_equal_ones_keep_their_order() {
        for rows in [0, 1, PIECE, PIECE + 1, 5 * PIECE + 77] {
            let mut values: Vec<u32> = (0..rows as u32).map(|row| row.wrapping_mul(2_654_435_761)).collect();
            let mut expected = values.clone();
            let key = |value: &u32| value >> 20;
            expected.sort_by_key(key);
            sort_by(&mut values, &|one, other| key(one).cmp(&key(other)), &|| Ok(())).unwrap();
            assert_eq!(values, expected);
        }
    }

    #[test]
    fn the_work_ends_when_it_is_told_to() {
        let mut values: Vec<u32> = (0..3 * PIECE as u32).rev().collect();
        let asked = AtomicUsize::new(0);
        let go_on = || match asked.fetch_add(1, Relaxed) {
            0..3 => Ok(()),
            _ => Err(Error::Ended),
        };
        assert!(matches!(sort_by(&mut values, &u32::cmp, &go_on), Err(Error::Ended)));
        assert_eq!(asked.load(Relaxed), 4);
    }
}
