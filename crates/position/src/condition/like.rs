//! Texts that are like a pattern of literal pieces.

use super::leaf::{Leaf, apply_position};
use crate::Rows;
use crate::value::Bytes;
use memchr::memmem::Finder;

/// A pattern of LIKE whose only wildcard is `%`.
///
/// Its pieces are looked for from left to right, each behind the one before it: where the first place
/// of a piece does not lead to a match, no later one does.
#[derive(Clone, Debug)]
pub struct Pattern {
    prefix: Box<[u8]>,
    pieces: Vec<Finder<'static>>,
    suffix: Box<[u8]>,
}

impl Pattern {
    /// Reads a pattern; `None` for one without a `%`, or with other wildcards or a backslash.
    pub fn new(text: &str) -> Option<Self> {
        if text.contains(['_', '\\']) {
            return None;
        }
        let (prefix, rest) = text.split_once('%')?;
        let (middle, suffix) = rest.rsplit_once('%').unwrap_or(("", rest));
        let pieces = middle.split('%').filter(|piece| !piece.is_empty());
        Some(Self {
            prefix: prefix.as_bytes().into(),
            pieces: pieces.map(|piece| Finder::new(piece).into_owned()).collect(),
            suffix: suffix.as_bytes().into(),
        })
    }

    /// Tells whether a text is like the pattern.
    pub fn is_like(&self, text: &[u8]) -> bool {
        let rest = text.strip_prefix(self.prefix.as_ref());
        let Some(mut rest) = rest.and_then(|rest| rest.strip_suffix(self.suffix.as_ref())) else {
            return false;
        };
        self.pieces.iter().all(|piece| match piece.find(rest) {
            Some(place) => {
                rest = &rest[place + piece.needle().len()..];
                true
            }
            None => false,
        })
    }

    /// Returns the piece that the fewest of some texts have.
    fn rarest<'t>(&self, texts: impl Iterator<Item = &'t [u8]> + Clone) -> Option<&Finder<'static>> {
        let count = |piece: &&Finder<'_>| texts.clone().filter(|text| piece.find(text).is_some()).count();
        match self.pieces.as_slice() {
            [] => None,
            [piece] => Some(piece),
            pieces => pieces.iter().min_by_key(count),
        }
    }
}

/// A text is like a pattern, or not.
pub(super) struct Like<'a> {
    pub bytes: Bytes<'a>,
    pub pattern: Pattern,
    pub negated: bool,
}

/// How many of the rows tell which pieces are rare.
const SAMPLE_ROWS: usize = 64;

impl Like<'_> {
    /// Looks for a piece in the texts of all rows at once, which lie one behind the other, and only at
    /// those texts that have it.
    fn search<O: Copy + Into<i64>>(&self, offsets: &[O], heap: &[u8], mask: &mut [u8]) {
        let place = |row: usize| -> usize { offsets[row].into() as usize };
        let text = |row: usize| &heap[place(row)..place(row + 1)];
        let rows = mask.len();
        let sample = (0..rows).step_by((rows / SAMPLE_ROWS).max(1)).map(text);
        let Some(piece) = self.pattern.rarest(sample) else { return };
        let (mut from, mut row) = (place(0), 0);
        let end = place(rows);
        while let Some(found) = piece.find(&heap[from..end]) {
            let found = from + found;
            // The rows before do not have it.
            let first = row;
            row = row_of(offsets, row, found);
            mask[first..row].iter_mut().for_each(|byte| *byte &= u8::from(self.negated));
            if found + piece.needle().len() > place(row + 1) {
                // It is the end of one text and the beginning of the next one.
                from = found + 1;
                continue;
            }
            let byte = &mut mask[row];
            *byte &= u8::from(*byte != 0 && self.pattern.is_like(text(row)) != self.negated);
            row += 1;
            from = place(row);
        }
        mask[row..].iter_mut().for_each(|byte| *byte &= u8::from(self.negated));
    }
}

/// Returns the row, from one on, whose text has the byte at a place.
fn row_of<O: Copy + Into<i64>>(offsets: &[O], row: usize, place: usize) -> usize {
    let is_before = |offset: &O| (*offset).into() as usize <= place;
    let mut step = 1;
    while offsets.get(row + step).is_some_and(is_before) {
        step *= 2;
    }
    let low = row + step / 2;
    let high = (row + step).min(offsets.len());
    low + offsets[low..high].partition_point(is_before) - 1
}

impl Leaf for Like<'_> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        if let Rows::Range(start, end) = rows
            && self.pattern.prefix.is_empty()
            && !self.pattern.pieces.is_empty()
        {
            let (start, end) = (start as usize, end as usize);
            match self.bytes {
                Bytes::Small(offsets, heap) => return self.search(&offsets[start..=end], heap, mask),
                Bytes::Large(offsets, heap) => return self.search(&offsets[start..=end], heap, mask),
                _ => {}
            }
        }
        apply_position(rows, mask, |row| self.pattern.is_like(self.bytes.get(row)) != self.negated);
    }

    fn is_costly(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Condition, Filter};
    use super::*;
    use arrow_array::{Array, ArrayRef, LargeStringArray, StringArray, StringViewArray};
    use proptest::prelude::*;
    use std::sync::Arc;

    /// Says whether a text is like a pattern, one byte after the other.
    fn is_like(text: &[u8], pattern: &[u8]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, _) => text.is_empty(),
            (Some((b'%', rest)), None) => is_like(text, rest),
            (Some((b'%', rest)), Some((_, behind))) => is_like(text, rest) || is_like(behind, pattern),
            (Some(_), None) => false,
            (Some((one, rest)), Some((other, behind))) => one == other && is_like(behind, rest),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3_000))]

        #[test]
        fn texts_are_like_patterns(
            texts in prop::collection::vec(prop::option::weighted(0.9, "[abä]{0,6}"), 1..60),
            pattern in "[abä%]{0,5}%[ab%]{0,3}",
            rows: (usize, usize),
            negated: bool,
        ) {
            let parsed = Pattern::new(&pattern).unwrap();
            let first = rows.0 % texts.len();
            let range = first..first + rows.1 % (texts.len() - first + 1);
            let expected: Vec<u32> = range
                .clone()
                .filter(|row| {
                    let text = texts[*row].as_ref();
                    text.is_some_and(|text| is_like(text.as_bytes(), pattern.as_bytes()) != negated)
                })
                .map(|row| row as u32)
                .collect();
            let list: Vec<u32> = range.clone().map(|row| row as u32).collect();
            let arrays: [ArrayRef; 3] = [
                Arc::new(StringArray::from(texts.clone())),
                Arc::new(LargeStringArray::from(texts.clone())),
                Arc::new(StringViewArray::from(texts.clone())),
            ];
            for array in arrays {
                let columns = [array];
                let condition = Condition::Like { column: 0, pattern: parsed.clone(), negated };
                let filter = Filter::new(&condition, &columns).unwrap();
                for rows in [Rows::Range(range.start as u32, range.end as u32), Rows::List(&list)] {
                    let found = filter.select(rows).unwrap();
                    prop_assert_eq!(&found.rows().iter().collect::<Vec<_>>(), &expected);
                }
                let filter = Filter::new(&condition.inverse(), &columns).unwrap();
                let others = filter.select(Rows::List(&list)).unwrap().len();
                let nulls = range.clone().filter(|row| columns[0].is_null(*row)).count();
                prop_assert_eq!(others + nulls + expected.len(), range.len());
            }
        }
    }

    #[test]
    fn other_patterns_are_refused() {
        for pattern in ["", "abc", "a_c%", "a\\%%"] {
            assert!(Pattern::new(pattern).is_none(), "{pattern}");
        }
        assert!(Pattern::new("%").unwrap().is_like(b"") && Pattern::new("a%a").unwrap().is_like(b"aa"));
        assert!(!Pattern::new("a%a").unwrap().is_like(b"a"));
    }

    #[test]
    fn rows_are_found_by_the_places_of_their_bytes() {
        let offsets = [0_i32, 3, 3, 3, 10, 11, 11];
        for (place, row) in [(0, 0), (2, 0), (3, 3), (9, 3), (10, 4)] {
            for from in 0..=row {
                assert_eq!(row_of(&offsets, from, place), row, "{place} from {from}");
            }
        }
    }
}
