//! Keys that ascend: the position of a key is the number of keys before it.

use crate::NO_ROW;
use crate::array::typed;
use crate::column::Word;
use arrow_buffer::{Buffer, ScalarBuffer};
use hypostyle_types::{Error, Result};

/// Two words for each 64 values of the domain, so that a lookup misses the cache once: a bit for each
/// value that is a key, and how many keys are less than all of these.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rank {
    least: i64,
    words: ScalarBuffer<u64>,
}

impl Rank {
    /// Builds the index of keys that ascend strictly, over a domain of so many values.
    pub fn build<T: Word>(keys: &[T], domain: usize) -> Self {
        let least = keys.first().map_or(0, |key| key.word());
        let mut words = vec![0_u64; 2 * domain.div_ceil(64)];
        let pairs = words.as_chunks_mut::<2>().0;
        // The bits at hand, where they go, and how many keys are before them.
        let (mut bits, mut place, mut before) = (0_u64, 0, 0);
        for key in keys {
            let value = key.word().wrapping_sub(least) as usize;
            if value / 64 != place {
                pairs[place] = [bits, before];
                before += u64::from(bits.count_ones());
                pairs[place + 1..value / 64].fill([0, before]);
                (bits, place) = (0, value / 64);
            }
            bits |= 1 << (value % 64);
        }
        if let Some(last) = pairs.get_mut(place) {
            *last = [bits, before];
        }
        Self { least, words: words.into() }
    }

    #[inline]
    pub fn find(&self, key: i64) -> u32 {
        let value = key.wrapping_sub(self.least) as u64;
        let Some([bits, before]) = self.words.get_pair(value / 64) else { return NO_ROW };
        let bit = 1 << (value % 64);
        if bits & bit == 0 {
            return NO_ROW;
        }
        before as u32 + (bits & (bit - 1)).count_ones()
    }

    pub fn least(&self) -> i64 {
        self.least
    }

    pub fn array(&self) -> Buffer {
        self.words.inner().clone()
    }

    /// # Errors
    /// `Corrupt` when the counts are not those of the bits, or there are other than one for each row.
    pub fn decode(least: i64, rows: u32, arrays: &[Buffer]) -> Result<Self> {
        let damaged = || Error::corrupt("a rank index whose counts are not those of its bits");
        let [words] = arrays else { return Err(damaged()) };
        let words = typed::<u64>(words)?;
        let (pairs, rest) = words.as_chunks::<2>();
        let mut keys = 0;
        for [bits, before] in pairs {
            if *before != keys {
                return Err(damaged());
            }
            keys += u64::from(bits.count_ones());
        }
        match rest.is_empty() && keys == u64::from(rows) {
            true => Ok(Self { least, words }),
            false => Err(damaged()),
        }
    }
}

/// Gives two words that lie together.
trait Pairs {
    fn get_pair(&self, pair: u64) -> Option<[u64; 2]>;
}

impl Pairs for [u64] {
    #[inline]
    fn get_pair(&self, pair: u64) -> Option<[u64; 2]> {
        self.as_chunks::<2>().0.get(usize::try_from(pair).ok()?).copied()
    }
}
