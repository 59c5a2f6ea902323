//! A hash table that numbers distinct words in order of appearance.
//!
//! Open addressing with linear probing; a slot holds the word and its number, so that a look-up
//! reads one cache line as a rule. The words are also kept by number: from there the table is
//! rebuilt when it grows, and results are read.

use crate::value::Word;
use crate::{Error, NO_POSITION, Result};
use std::hash::{BuildHasher, RandomState};

/// A word of 64 or 128 bits that several columns are packed into.
pub(crate) trait Key: Word + Default {
    fn left(self, bits: u32) -> Self;
    fn right(self, bits: u32) -> Self;
    fn hash(self, seeds: [u64; 2]) -> u64;
}

/// Mixes two words: all bits of the product of both matter.
#[inline(always)]
pub(crate) fn mix(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

macro_rules! key {
    ($($key:ty),*) => {$(
        impl Key for $key {
            /// All bits are shifted out where there is one column of the key's own width.
            #[inline(always)]
            fn left(self, bits: u32) -> Self {
                self.checked_shl(bits).unwrap_or(0)
            }
            #[inline(always)]
            fn right(self, bits: u32) -> Self {
                self.checked_shr(bits).unwrap_or(0)
            }
            #[inline(always)]
            fn hash(self, seeds: [u64; 2]) -> u64 {
                mix(self as u64 ^ seeds[0], ((self as u128 >> 64) as u64) ^ seeds[1])
            }
        }
    )*};
}
key!(u64, u128);

#[derive(Clone, Copy)]
struct Slot<K> {
    key: K,
    /// [`NO_POSITION`] where the slot is free.
    id: u32,
}

/// Words and their numbers. The hash has seeds of its own, so that nobody can choose keys that
/// collide.
pub(crate) struct Table<K> {
    /// A power of two of slots, of which at most 3/4 are taken.
    slots: Vec<Slot<K>>,
    keys: Vec<K>,
    seeds: [u64; 2],
}

const SLOTS_MIN: usize = 64;

impl<K: Key> Table<K> {
    pub fn new() -> Self {
        let random = RandomState::new();
        // An odd factor loses no bit.
        let seeds = [random.hash_one(0), random.hash_one(1) | 1];
        Self { slots: Self::free(SLOTS_MIN), keys: Vec::new(), seeds }
    }

    fn free(slots: usize) -> Vec<Slot<K>> {
        vec![Slot { key: K::default(), id: NO_POSITION }; slots]
    }

    /// Returns the bytes of a table of so many words.
    pub fn bytes_for(keys: usize) -> usize {
        Self::slots_for(keys) * size_of::<Slot<K>>() + keys * size_of::<K>()
    }

    fn slots_for(keys: usize) -> usize {
        (keys + keys / 3 + 1).next_power_of_two().max(SLOTS_MIN)
    }

    pub fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot<K>>() + self.keys.capacity() * size_of::<K>()
    }

    pub fn keys(&self) -> &[K] {
        &self.keys
    }

    /// Makes room for words before they come.
    pub fn reserve(&mut self, keys: usize) {
        let slots = Self::slots_for(self.keys.len() + keys);
        if slots > self.slots.len() {
            self.rebuild(slots);
        }
        self.keys.reserve(keys);
    }

    fn rebuild(&mut self, slots: usize) {
        self.slots = Self::free(slots);
        for (id, key) in self.keys.iter().enumerate() {
            let mut place = self.place(*key);
            while self.slots[place].id != NO_POSITION {
                place = (place + 1) & (slots - 1);
            }
            self.slots[place] = Slot { key: *key, id: id as u32 };
        }
    }

    #[inline(always)]
    fn place(&self, key: K) -> usize {
        key.hash(self.seeds) as usize & (self.slots.len() - 1)
    }

    /// Adds the number of each word to `ids`; new ones get the next numbers.
    pub fn insert(&mut self, keys: &[K], ids: &mut Vec<u32>) -> Result<()> {
        ids.reserve(keys.len());
        for key in keys {
            let mut place = self.place(*key);
            let id = loop {
                let slot = self.slots[place];
                if slot.id == NO_POSITION {
                    break self.append(*key, place)?;
                }
                if slot.key == *key {
                    break slot.id;
                }
                place = (place + 1) & (self.slots.len() - 1);
            };
            ids.push(id);
        }
        Ok(())
    }

    #[inline(never)]
    fn append(&mut self, key: K, place: usize) -> Result<u32> {
        let id = u32::try_from(self.keys.len()).ok().filter(|id| *id != NO_POSITION);
        let id = id.ok_or(Error::TooMany("the groups"))?;
        self.keys.push(key);
        self.slots[place] = Slot { key, id };
        if self.keys.len() * 4 > self.slots.len() * 3 {
            self.rebuild(self.slots.len() * 2);
        }
        Ok(id)
    }

    /// Adds the number of each word to `ids`, or [`NO_POSITION`] if it has none.
    pub fn find(&self, keys: &[K], ids: &mut Vec<u32>) {
        ids.extend(keys.iter().map(|key| {
            let mut place = self.place(*key);
            loop {
                let slot = self.slots[place];
                if slot.id == NO_POSITION || slot.key == *key {
                    return slot.id;
                }
                place = (place + 1) & (self.slots.len() - 1);
            }
        }));
    }
}
