//! What is asked of each row.

use super::{Comparison, Condition, Filter, KERNEL};
use crate::value::{Bytes, Comparator, Value, Values, Word, nulls, somewhere};
use crate::{Result, Rows};
use arrow_array::{AnyDictionaryArray, Array, ArrayRef, new_null_array};
use arrow_buffer::{BooleanBuffer, NullBuffer};

/// A leaf that is ready for one column, or a disjunction.
pub(super) trait Leaf: Send + Sync {
    /// Unsets the bytes of rows for which the test is not true.
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]);

    /// Returns whether to ask only about rows that have passed all else.
    fn is_costly(&self) -> bool {
        false
    }
}

pub(super) type Leaves<'a> = Vec<Box<dyn Leaf + 'a>>;

/// One of the conjunctions is true.
pub(super) struct Any<'a>(pub Vec<Leaves<'a>>);

impl Leaf for Any<'_> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        let mut any = vec![0; mask.len()];
        let mut branch = vec![0; mask.len()];
        for leaves in &self.0 {
            branch.fill(1);
            leaves.iter().for_each(|leaf| leaf.mask(rows, &mut branch));
            any.iter_mut().zip(&branch).for_each(|(any, branch)| *any |= branch);
        }
        mask.iter_mut().zip(&any).for_each(|(byte, any)| *byte &= any);
    }

    fn is_costly(&self) -> bool {
        self.0.iter().flatten().any(|leaf| leaf.is_costly())
    }
}

/// No row passes.
pub(super) struct Never;

impl Leaf for Never {
    fn mask(&self, _: Rows<'_>, mask: &mut [u8]) {
        mask.fill(0);
    }
}

/// The conjunction of tests that always go together, as that of a value with the one for NULL.
pub(super) struct Both<'a>(pub Box<dyn Leaf + 'a>, pub Box<dyn Leaf + 'a>);

impl Leaf for Both<'_> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        self.0.mask(rows, mask);
        self.1.mask(rows, mask);
    }

    fn is_costly(&self) -> bool {
        self.0.is_costly() || self.1.is_costly()
    }
}

/// Combines the bytes of a mask with a test of each row's value.
#[inline(always)]
pub(super) fn apply<T: Copy>(values: &[T], rows: Rows<'_>, mask: &mut [u8], test: impl Fn(T) -> bool) {
    match rows {
        Rows::Range(start, end) => {
            for (byte, value) in mask.iter_mut().zip(&values[start as usize..end as usize]) {
                *byte &= u8::from(test(*value));
            }
        }
        Rows::List(positions) => {
            for (byte, position) in mask.iter_mut().zip(positions) {
                *byte &= u8::from(test(values[*position as usize]));
            }
        }
    }
}

/// Combines the bytes of a mask with a test of each position.
#[inline(always)]
pub(super) fn apply_position(rows: Rows<'_>, mask: &mut [u8], test: impl Fn(usize) -> bool) {
    for (byte, position) in mask.iter_mut().zip(rows.iter()) {
        *byte &= u8::from(*byte != 0 && test(position as usize));
    }
}

/// The word lies within a span from a low one, or outside of it.
pub(super) struct Inside<'a, T: Value> {
    pub values: &'a [T],
    pub low: T::Word,
    pub span: T::Word,
    pub outside: bool,
}

impl<T: Value> Leaf for Inside<'_, T> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        let (low, span) = (self.low, self.span);
        match self.outside {
            false => apply(self.values, rows, mask, |value| value.word().minus(low) <= span),
            true => apply(self.values, rows, mask, |value| value.word().minus(low) > span),
        }
    }
}

/// A boolean passes, by its value.
pub(super) struct Truth<'a> {
    pub bits: &'a BooleanBuffer,
    pub passes: [u8; 2],
}

impl Leaf for Truth<'_> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        for (byte, position) in mask.iter_mut().zip(rows.iter()) {
            *byte &= self.passes[usize::from(self.bits.value(position as usize))];
        }
    }
}

/// A string is ordered before, after or as a constant.
pub(super) struct Text<'a> {
    pub bytes: Bytes<'a>,
    pub comparison: Comparison,
    pub constant: Box<[u8]>,
}

impl Leaf for Text<'_> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        let constant = somewhere(&self.constant);
        let order = |position| self.bytes.get(position).cmp(constant);
        let equal = |position| self.bytes.get(position) == constant;
        match self.comparison {
            Comparison::Equal => apply_position(rows, mask, equal),
            Comparison::NotEqual => apply_position(rows, mask, |position| !equal(position)),
            comparison => apply_position(rows, mask, |position| comparison.holds(order(position))),
        }
    }

    fn is_costly(&self) -> bool {
        true
    }
}

/// A row is NULL, or not.
pub(super) struct Valid<'a> {
    pub nulls: &'a NullBuffer,
    pub is_null: bool,
}

impl Leaf for Valid<'_> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        match rows {
            Rows::Range(start, end) => {
                let bits = self.nulls.inner().slice(start as usize, (end - start) as usize);
                let flip = if self.is_null { u64::MAX } else { 0 };
                for (bytes, word) in mask.chunks_mut(64).zip(bits.bit_chunks().iter_padded()) {
                    let word = word ^ flip;
                    bytes.iter_mut().enumerate().for_each(|(bit, byte)| *byte &= (word >> bit & 1) as u8);
                }
            }
            Rows::List(_) => {
                apply_position(rows, mask, |position| self.nulls.is_null(position) == self.is_null)
            }
        }
    }
}

/// A number is one of some that are far apart.
pub(super) struct Member<'a, T: Value> {
    pub values: &'a [T],
    pub sorted: Vec<T::Word>,
    pub negated: bool,
}

impl<T: Value> Leaf for Member<'_, T> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        apply(self.values, rows, mask, |value| {
            self.sorted.binary_search(&value.word()).is_ok() != self.negated
        });
    }

    fn is_costly(&self) -> bool {
        true
    }
}

/// A number is one of some that have a bitmap.
pub(super) struct NearMember<'a, T: Value> {
    pub values: &'a [T],
    pub low: T::Word,
    pub bits: Vec<u64>,
    pub negated: bool,
}

impl<T: Value> Leaf for NearMember<'_, T> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        let span = self.bits.len() as u128 * 64;
        apply(self.values, rows, mask, |value| {
            let place = value.word().minus(self.low).wide();
            let set = place < span && self.bits[place as usize / 64] >> (place % 64) & 1 != 0;
            set != self.negated
        });
    }
}

/// A string is one of some.
pub(super) struct TextMember<'a> {
    pub bytes: Bytes<'a>,
    pub sorted: Vec<Box<[u8]>>,
    pub negated: bool,
}

impl Leaf for TextMember<'_> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        apply_position(rows, mask, |position| {
            let bytes = self.bytes.get(position);
            self.sorted.binary_search_by(|one| somewhere(one).cmp(bytes)).is_ok() != self.negated
        });
    }

    fn is_costly(&self) -> bool {
        true
    }
}

/// The numbers of two columns are ordered so.
pub(super) struct Pair<'a, T: Value> {
    pub left: &'a [T],
    pub comparison: Comparison,
    pub right: &'a [T],
}

impl<T: Value> Pair<'_, T> {
    #[inline(always)]
    fn apply(&self, rows: Rows<'_>, mask: &mut [u8], test: impl Fn(T::Word, T::Word) -> bool) {
        match rows {
            Rows::Range(start, end) => {
                let range = start as usize..end as usize;
                let pairs = self.left[range.clone()].iter().zip(&self.right[range]);
                for (byte, (left, right)) in mask.iter_mut().zip(pairs) {
                    *byte &= u8::from(test(left.word(), right.word()));
                }
            }
            Rows::List(positions) => {
                for (byte, position) in mask.iter_mut().zip(positions) {
                    let position = *position as usize;
                    *byte &= u8::from(test(self.left[position].word(), self.right[position].word()));
                }
            }
        }
    }
}

impl<T: Value> Leaf for Pair<'_, T> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        match self.comparison {
            Comparison::Equal => self.apply(rows, mask, |left, right| left == right),
            Comparison::NotEqual => self.apply(rows, mask, |left, right| left != right),
            Comparison::Less => self.apply(rows, mask, |left, right| left < right),
            Comparison::LessOrEqual => self.apply(rows, mask, |left, right| left <= right),
            Comparison::Greater => self.apply(rows, mask, |left, right| left > right),
            Comparison::GreaterOrEqual => self.apply(rows, mask, |left, right| left >= right),
        }
    }
}

/// The strings, booleans or dictionary values of two columns are ordered so.
pub(super) struct AnyPair<'a> {
    pub order: Comparator<'a>,
    pub comparison: Comparison,
    pub nulls: Option<NullBuffer>,
}

impl Leaf for AnyPair<'_> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        apply_position(rows, mask, |row| {
            self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
                && self.comparison.holds((self.order)(row, row))
        });
    }

    fn is_costly(&self) -> bool {
        true
    }
}

/// A condition that is about one dictionary column, decided once for each of its values.
pub(super) struct ByCode<'a> {
    pub keys: Values<'a>,
    pub nulls: Option<&'a NullBuffer>,
    /// A byte for each code.
    pub passes: Vec<u8>,
    pub null_passes: bool,
}

impl<'a> ByCode<'a> {
    pub fn new(
        condition: &Condition,
        columns: usize,
        dictionary: &'a dyn AnyDictionaryArray,
    ) -> Result<Self> {
        let decide = |values: ArrayRef| -> Result<Vec<u8>> {
            let mut mask = vec![1; values.len()];
            let rows = Rows::all(&values)?;
            // All columns, because the only one that the condition is about may be any of them.
            Filter::new(condition, &vec![values.clone(); columns])?.mask(rows, &mut mask)?;
            Ok(mask)
        };
        let values = dictionary.values();
        let null = decide(new_null_array(values.data_type(), 1))?;
        let mut passes = decide(values.clone())?;
        // For codes of eight bits, whose every value has a byte then.
        passes.resize(passes.len().max(256), 0);
        let keys = Values::of(KERNEL, dictionary.keys())?;
        Ok(Self { keys, nulls: nulls(dictionary.keys()), passes, null_passes: null == [1] })
    }

    fn look_up(&self, rows: Rows<'_>, mask: &mut [u8]) {
        macro_rules! by_place {
            ($keys:expr) => {
                apply($keys, rows, mask, |code| self.passes.get(code as usize).is_some_and(|byte| *byte != 0))
            };
        }
        match (&self.keys, self.passes.first_chunk::<256>()) {
            (Values::I8(keys), Some(passes)) => {
                apply(keys, rows, mask, |code| passes[usize::from(code as u8)] != 0);
            }
            (Values::U8(keys), Some(passes)) => {
                apply(keys, rows, mask, |code| passes[usize::from(code)] != 0);
            }
            (Values::I16(keys), _) => by_place!(keys),
            (Values::I32(keys), _) => by_place!(keys),
            (Values::I64(keys), _) => by_place!(keys),
            (Values::U16(keys), _) => by_place!(keys),
            (Values::U32(keys), _) => by_place!(keys),
            (Values::U64(keys), _) => by_place!(keys),
            // Arrow's dictionaries have no other codes.
            _ => mask.fill(0),
        }
    }
}

impl Leaf for ByCode<'_> {
    fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) {
        let Some(nulls) = self.nulls else {
            return self.look_up(rows, mask);
        };
        let valid = Valid { nulls, is_null: false };
        if self.null_passes {
            let mut known = mask.to_vec();
            self.look_up(rows, &mut known);
            valid.mask(rows, &mut known);
            Valid { nulls, is_null: true }.mask(rows, mask);
            mask.iter_mut().zip(&known).for_each(|(byte, known)| *byte |= known);
        } else {
            self.look_up(rows, mask);
            valid.mask(rows, mask);
        }
    }
}
