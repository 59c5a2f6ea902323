//! Groups of any keys.

use super::{Groups, KERNEL};
use crate::key::{KeySet, KeyType};
use crate::{Column, Result, Rows};
use arrow_array::ArrayRef;
use arrow_schema::DataType;

/// Groups of any keys, in order of appearance: the keys are packed into words of 64 or 128 bits,
/// which a hash table numbers. Strings are interned first.
///
/// Takes time in proportion to the rows. A table that is larger than the cache is slower by several
/// times: share rows out by a [`partition`](crate::partition) before there are so many groups.
pub struct HashGroups(KeySet);

impl HashGroups {
    /// Makes groups of keys of some types; a key that is nullable takes a bit more.
    pub fn new(types: &[(DataType, bool)]) -> Result<Self> {
        let types: Vec<KeyType> = types
            .iter()
            .map(|(data_type, nullable)| KeyType { data_type: data_type.clone(), with_null: *nullable })
            .collect();
        Ok(Self(KeySet::new(KERNEL, &types)?))
    }

    /// Makes room for groups before they come.
    pub fn reserve(&mut self, groups: usize) {
        self.0.reserve(groups);
    }

    /// Returns the bytes that the table of so many groups takes, without the bytes of strings.
    pub fn bytes_for(&self, groups: usize) -> usize {
        self.0.bytes_for(groups)
    }

    /// Replaces `ids` by the id of each row, or [`NO_POSITION`](crate::NO_POSITION) where there is
    /// no such group.
    pub fn find(&self, keys: &[Column<'_>], ids: &mut Vec<u32>) -> Result<()> {
        self.0.find(keys, ids)
    }
}

impl Groups for HashGroups {
    fn ids(&mut self, keys: &[Column<'_>], ids: &mut Vec<u32>) -> Result<()> {
        self.0.insert(keys, ids)
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn keys(&self, ids: Rows<'_>) -> Result<Vec<ArrayRef>> {
        self.0.keys(ids)
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}
