//! The keys of rows behind those that an index covers.

use super::lookup::KeyLookup;
use super::previous::Previous;
use crate::NO_ROW;
use crate::column::{BATCH_ROWS, Column, hash_rows, is_same_key, matching, valid_rows};
use arrow_array::ArrayRef;
use hashbrown::HashTable;
use hypostyle_types::{Error, Result};

/// The positions of rows that were appended after an index was built; lives in memory only.
#[derive(Debug)]
pub struct KeyExtension {
    first: u32,
    rows: u32,
    seed: u64,
    /// The keys, with the row that each piece begins with, counted from the first one here.
    pieces: Vec<(u32, Vec<Column>)>,
    /// The newest row of each key, counted from the first one here.
    newest: HashTable<u32>,
    previous: Previous,
    /// No key is here twice, nor in what was extended.
    is_unique: bool,
}

impl KeyExtension {
    /// Builds the extension of a lookup by rows that follow those that it covers, in pieces of the
    /// key's columns.
    ///
    /// # Errors
    /// `Internal` when the columns are not of the lookup's types; `InvalidInput` when the rows are
    /// more than 32 bits can count.
    pub fn build(extended: &KeyLookup, pieces: &[Vec<ArrayRef>], seed: u64) -> Result<Self> {
        let mut rows = 0;
        let mut kept = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let columns = matching(piece, extended.types())?;
            let count = columns.first().map_or(0, Column::rows);
            kept.push((rows as u32, columns));
            rows += count;
        }
        let first = extended.rows();
        let end = u32::try_from(rows).ok().and_then(|rows| first.checked_add(rows));
        if end.is_none_or(|end| end == NO_ROW) {
            return Err(Error::invalid_input("an index cannot have as many rows"));
        }
        let mut built = Self {
            first,
            rows: rows as u32,
            seed,
            pieces: kept,
            newest: HashTable::with_capacity(rows),
            previous: Previous::of(Vec::new()),
            is_unique: true,
        };
        built.fill();
        built.is_unique =
            extended.is_unique() && built.previous.is_empty() && !built.shares_keys(extended)?;
        Ok(built)
    }

    fn fill(&mut self) {
        let (pieces, seed) = (&self.pieces, self.seed);
        let mut pairs = Vec::new();
        let mut hashes = Vec::new();
        for (start, columns) in pieces {
            let valid = valid_rows(columns);
            hashes.resize(columns.first().map_or(0, Column::rows), 0);
            hash_rows(columns, seed, 0, &mut hashes);
            for (row, hash) in hashes.iter().enumerate() {
                if valid.as_ref().is_some_and(|valid| valid.is_null(row)) {
                    continue;
                }
                let is_key = |other: &u32| is_key(pieces, *other, columns, row);
                let rehash = |other: &u32| hash_of(pieces, seed, *other);
                let position = start + row as u32;
                match self.newest.entry(*hash, is_key, rehash) {
                    hashbrown::hash_table::Entry::Occupied(mut known) => {
                        pairs.push((position, std::mem::replace(known.get_mut(), position)));
                    }
                    hashbrown::hash_table::Entry::Vacant(place) => drop(place.insert(position)),
                }
            }
        }
        self.previous = Previous::of(pairs);
    }

    /// Tells whether what was extended has one of these keys.
    fn shares_keys(&self, extended: &KeyLookup) -> Result<bool> {
        let mut found = [NO_ROW; BATCH_ROWS];
        for (_, columns) in &self.pieces {
            let (rows, valid) = (columns.first().map_or(0, Column::rows), valid_rows(columns));
            for first in (0..rows).step_by(BATCH_ROWS) {
                let found = &mut found[..BATCH_ROWS.min(rows - first)];
                extended.find_newest(columns, first, found);
                let is_valid = |row: usize| valid.as_ref().is_none_or(|valid| valid.is_valid(row));
                if (first..).zip(&*found).any(|(row, found)| *found != NO_ROW && is_valid(row)) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns the position that the rows here begin at.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// Returns how many rows are here.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Tells whether no key of what was extended and of these rows is there twice.
    pub fn is_unique(&self) -> bool {
        self.is_unique
    }

    /// Returns about how many bytes of memory it takes beside the columns.
    pub fn bytes(&self) -> u64 {
        self.newest.allocation_size() as u64
    }

    /// Finds the newest position of a key whose hash is known, or [`NO_ROW`].
    pub(super) fn find(&self, hash: u64, keys: &[Column], row: usize) -> u32 {
        let found = self.newest.find(hash, |other| is_key(&self.pieces, *other, keys, row));
        found.map_or(NO_ROW, |row| self.first + row)
    }

    /// Returns the position before one of these rows that has the same key.
    pub(super) fn before(&self, position: u32) -> u32 {
        match self.previous.before(position - self.first) {
            NO_ROW => NO_ROW,
            row => self.first + row,
        }
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }
}

/// Returns the piece that has a row, and the place there.
fn place_of(pieces: &[(u32, Vec<Column>)], row: u32) -> (&[Column], usize) {
    let piece = pieces.partition_point(|(start, _)| *start <= row) - 1;
    let (start, columns) = &pieces[piece];
    (columns, (row - start) as usize)
}

fn is_key(pieces: &[(u32, Vec<Column>)], row: u32, keys: &[Column], key: usize) -> bool {
    let (columns, place) = place_of(pieces, row);
    is_same_key(columns, place, keys, key)
}

fn hash_of(pieces: &[(u32, Vec<Column>)], seed: u64, row: u32) -> u64 {
    let (columns, place) = place_of(pieces, row);
    let mut hash = [0];
    hash_rows(columns, seed, place, &mut hash);
    hash[0]
}
