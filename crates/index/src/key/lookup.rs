//! Looking up keys in an index and its extensions.

use super::{KeyExtension, KeyIndex};
use crate::column::{BATCH_ROWS, Column, KeyType, hash_rows, matching, valid_rows};
use crate::{NO_ROW, Visible};
use arrow_array::ArrayRef;
use hypostyle_types::{Error, Result};
use std::sync::Arc;

/// An index with the columns that it was built over, and the rows that have come since.
#[derive(Clone, Debug)]
pub struct KeyLookup {
    index: Arc<KeyIndex>,
    indexed: Vec<Column>,
    /// Follow each other without gaps.
    extensions: Vec<Arc<KeyExtension>>,
}

impl KeyLookup {
    /// Takes an index and the columns of its table, which may have more rows than it covers.
    ///
    /// # Errors
    /// `Internal` when the columns are others than those that the index was built over.
    pub fn new(index: Arc<KeyIndex>, columns: &[ArrayRef]) -> Result<Self> {
        let indexed = matching(columns, index.types())?;
        if indexed.iter().any(|column| column.rows() < index.rows() as usize) {
            return Err(Error::internal("an index covers more rows than its columns have"));
        }
        Ok(Self { index, indexed, extensions: Vec::new() })
    }

    /// Adds rows that follow those that are covered so far.
    ///
    /// # Errors
    /// `Internal` when they follow others.
    pub fn extend(&mut self, extension: Arc<KeyExtension>) -> Result<()> {
        if extension.first() != self.rows() {
            return Err(Error::internal(format!(
                "an index of {} rows is extended from row {} on",
                self.rows(),
                extension.first()
            )));
        }
        self.extensions.push(extension);
        Ok(())
    }

    /// Returns the index without its extensions.
    pub fn index(&self) -> &Arc<KeyIndex> {
        &self.index
    }

    /// Returns how many rows are covered.
    pub fn rows(&self) -> u32 {
        self.extensions.last().map_or(self.index.rows(), |last| last.first() + last.rows())
    }

    /// Returns the types of the key's columns.
    pub fn types(&self) -> &[KeyType] {
        self.index.types()
    }

    /// Tells whether keys of these types can be looked up.
    pub fn accepts(&self, keys: &[ArrayRef]) -> bool {
        let types = keys.iter().map(|column| KeyType::of(column.data_type()));
        types.eq(self.types().iter().map(|key_type| Some(*key_type)))
    }

    /// Tells whether no two rows that are covered, deleted ones included, have the same key.
    pub fn is_unique(&self) -> bool {
        self.extensions.last().map_or_else(|| self.index.is_unique(), |last| last.is_unique())
    }

    /// Appends the position of the visible row of each key to `found`; [`NO_ROW`] where there is
    /// none, or a part of the key is NULL.
    ///
    /// # Errors
    /// `Internal` when the keys are of other types than the index's, or there are visible rows that
    /// it does not cover.
    pub fn find(&self, keys: &[ArrayRef], visible: &Visible, found: &mut Vec<u32>) -> Result<()> {
        let keys = matching(keys, self.types())?;
        self.check_covers(visible)?;
        let rows = keys.first().map_or(0, Column::rows);
        let start = found.len();
        found.resize(start + rows, NO_ROW);
        let found = &mut found[start..];
        for first in (0..rows).step_by(BATCH_ROWS) {
            let found = &mut found[first..rows.min(first + BATCH_ROWS)];
            self.index.find(&self.indexed, &keys, first, found);
            if !visible.has_all_before(self.index.rows()) {
                found.iter_mut().for_each(|position| *position = self.visible_before(*position, visible));
            }
            for extension in &self.extensions {
                find_in_extension(extension, &keys, first, visible, found);
            }
        }
        if let Some(valid) = valid_rows(&keys) {
            let nulls = found.iter_mut().enumerate().filter(|(row, _)| valid.is_null(*row));
            nulls.for_each(|(_, position)| *position = NO_ROW);
        }
        Ok(())
    }

    /// Returns the positions of all visible rows that have a key, in order; none where a part of the
    /// key is NULL.
    ///
    /// # Errors
    /// As [`Self::find`]; `Internal` for other than one key.
    pub fn find_all(&self, key: &[ArrayRef], visible: &Visible) -> Result<Vec<u32>> {
        let keys = matching(key, self.types())?;
        if keys.iter().any(|column| column.rows() != 1) {
            return Err(Error::internal("one key is looked up at a time"));
        }
        self.check_covers(visible)?;
        if valid_rows(&keys).is_some_and(|valid| valid.is_null(0)) {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        let mut collect = |mut position: u32, before: &dyn Fn(u32) -> u32| {
            while position != NO_ROW {
                if visible.is_visible(position) {
                    found.push(position);
                }
                position = before(position);
            }
        };
        let mut newest = [NO_ROW];
        self.index.find(&self.indexed, &keys, 0, &mut newest);
        collect(newest[0], &|position| {
            self.index.previous().map_or(NO_ROW, |previous| previous.before(position))
        });
        for extension in &self.extensions {
            let mut hash = [0];
            hash_rows(&keys, extension.seed(), 0, &mut hash);
            collect(extension.find(hash[0], &keys, 0), &|position| extension.before(position));
        }
        found.sort_unstable();
        Ok(found)
    }

    fn check_covers(&self, visible: &Visible) -> Result<()> {
        match visible.end() > self.rows() {
            true => Err(Error::internal(format!(
                "{} rows are visible, of which an index covers {}",
                visible.end(),
                self.rows()
            ))),
            false => Ok(()),
        }
    }

    /// Writes the newest position of each key from row `first` on, visible or not.
    pub(super) fn find_newest(&self, keys: &[Column], first: usize, found: &mut [u32]) {
        self.index.find(&self.indexed, keys, first, found);
        for extension in &self.extensions {
            find_in_extension(extension, keys, first, &Visible::before(NO_ROW), found);
        }
    }

    /// Returns the newest visible position among this one and those before it of the same key.
    fn visible_before(&self, mut position: u32, visible: &Visible) -> u32 {
        while position != NO_ROW && !visible.is_visible(position) {
            position = self.index.previous().map_or(NO_ROW, |previous| previous.before(position));
        }
        position
    }
}

/// Replaces what was found of each key by its visible position in an extension, if it has one.
fn find_in_extension(
    extension: &KeyExtension,
    keys: &[Column],
    first: usize,
    visible: &Visible,
    found: &mut [u32],
) {
    let mut hashes = [0; BATCH_ROWS];
    for (batch, found) in found.chunks_mut(BATCH_ROWS).enumerate() {
        let first = first + batch * BATCH_ROWS;
        let hashes = &mut hashes[..found.len()];
        hash_rows(keys, extension.seed(), first, hashes);
        for ((row, hash), slot) in (first..).zip(hashes.iter()).zip(found) {
            let mut position = extension.find(*hash, keys, row);
            while position != NO_ROW && !visible.is_visible(position) {
                position = extension.before(position);
            }
            if position != NO_ROW {
                *slot = position;
            }
        }
    }
}
