//! Finding the row that a row refers to.

use crate::array::typed;
use crate::key::KeyLookup;
use crate::{NO_ROW, Visible};
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_select::take::take;
use hypostyle_types::{Error, Result};
use std::sync::Arc;

/// Rows between two questions whether to go on.
const PROCEED_ROWS: usize = 1 << 16;

/// The row of another table that has the key, for each of a table's first rows.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinIndex {
    /// [`NO_ROW`] where a part of the key is NULL, or no row had it.
    ids: ScalarBuffer<u32>,
    referenced_rows: u32,
    /// Rows whose key is not NULL and was not there.
    absent: u32,
}

impl JoinIndex {
    /// Builds the index of the rows that `columns` refer to by a key: the newest of each key, whether
    /// anybody sees it or not, so that no snapshot has a row that the index would not tell of.
    ///
    /// # Errors
    /// As [`KeyLookup::find`]; `InvalidInput` when the rows are more than 32 bits can count.
    pub fn build(keys: &KeyLookup, columns: &[ArrayRef]) -> Result<Self> {
        Self::build_unless(keys, columns, &mut || Ok(()))
    }

    /// [`Self::build`], which asks now and then whether to go on.
    ///
    /// # Errors
    /// As [`Self::build`]; those of `proceed`.
    pub fn build_unless(
        keys: &KeyLookup,
        columns: &[ArrayRef],
        proceed: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Self> {
        let rows = columns.first().map_or(0, |column| column.len());
        if u32::try_from(rows).is_err() {
            return Err(Error::invalid_input("an index cannot have as many rows"));
        }
        let mut ids = Vec::with_capacity(rows);
        let all = Visible::before(keys.rows());
        for first in (0..rows).step_by(PROCEED_ROWS) {
            proceed()?;
            let count = PROCEED_ROWS.min(rows - first);
            let piece: Vec<_> = columns.iter().map(|column| column.slice(first, count)).collect();
            keys.find(&piece, &all, &mut ids)?;
        }
        let has_null = |row: usize| columns.iter().any(|column| column.is_null(row));
        let absent = ids.iter().enumerate().filter(|(row, id)| **id == NO_ROW && !has_null(*row)).count();
        Ok(Self { ids: ids.into(), referenced_rows: keys.rows(), absent: absent as u32 })
    }

    /// Returns how many rows the index covers.
    pub fn rows(&self) -> u32 {
        self.ids.len() as u32
    }

    /// Returns how many rows of the other table there were when it was built.
    pub fn referenced_rows(&self) -> u32 {
        self.referenced_rows
    }

    /// Returns the bytes of its array.
    pub fn bytes(&self) -> u64 {
        self.ids.inner().len() as u64
    }

    pub(crate) fn absent(&self) -> u32 {
        self.absent
    }

    pub(crate) fn ids(&self) -> &[u32] {
        &self.ids
    }

    pub(crate) fn parameter(&self) -> u64 {
        self.absent.into()
    }

    pub(crate) fn arrays(&self) -> Vec<Buffer> {
        vec![self.ids.inner().clone()]
    }

    /// # Errors
    /// `Corrupt` when a row refers to one that is not there.
    pub(crate) fn decode(rows: u32, referenced_rows: u32, parameter: u64, arrays: &[Buffer]) -> Result<Self> {
        let damaged = || Error::corrupt("a join index with a row that is not there");
        let [ids] = arrays else { return Err(damaged()) };
        let ids = typed::<u32>(ids)?;
        let is_sound = ids.len() == rows as usize
            && parameter <= u64::from(rows)
            && ids.iter().all(|id| *id < referenced_rows || *id == NO_ROW);
        match is_sound {
            true => Ok(Self { ids, referenced_rows, absent: parameter as u32 }),
            false => Err(damaged()),
        }
    }
}

/// A join index with the columns that refer, and the key that they refer to: rows that the index
/// does not cover, or whose row was updated since, are looked up by their key.
#[derive(Clone, Debug)]
pub struct JoinLookup {
    index: Arc<JoinIndex>,
    /// The columns, with the row that each piece begins with.
    pieces: Vec<(u32, Vec<ArrayRef>)>,
    rows: u32,
    keys: KeyLookup,
}

impl JoinLookup {
    /// Takes an index, the columns that refer, piece by piece, which may have more rows than it
    /// covers, and the key of the other table.
    ///
    /// # Errors
    /// `Internal` when the columns are others than the key has, or shorter than the index.
    pub fn new(index: Arc<JoinIndex>, pieces: &[Vec<ArrayRef>], keys: KeyLookup) -> Result<Self> {
        let mut lookup = Self { index, pieces: Vec::new(), rows: 0, keys };
        for columns in pieces {
            let count = columns.first().map_or(0, |column| column.len());
            if !lookup.keys.accepts(columns) || columns.iter().any(|column| column.len() != count) {
                return Err(Error::internal("a join index of other columns than its key has"));
            }
            lookup.pieces.push((lookup.rows, columns.clone()));
            let rows = u32::try_from(count).ok().and_then(|count| lookup.rows.checked_add(count));
            lookup.rows = rows.ok_or_else(|| Error::internal("a join index of too many rows"))?;
        }
        match lookup.rows >= lookup.index.rows() {
            true => Ok(lookup),
            false => Err(Error::internal("a join index covers more than its columns have")),
        }
    }

    /// Returns the key that rows refer to.
    pub fn keys(&self) -> &KeyLookup {
        &self.keys
    }

    /// Returns the index without what has come since.
    pub fn index(&self) -> &Arc<JoinIndex> {
        &self.index
    }

    /// Returns how many rows there are to be followed.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Returns the visible row that each row refers to, or [`NO_ROW`], without a copy: `None` where
    /// some rows have to be looked up.
    pub fn all(&self, visible: &Visible) -> Option<&[u32]> {
        (self.is_exact(visible) && self.rows == self.index.rows()).then_some(&self.index.ids[..])
    }

    /// Tells whether no row of the index can be another one by now.
    fn is_exact(&self, visible: &Visible) -> bool {
        visible.has_all_before(self.index.referenced_rows) && !self.is_stale(NO_ROW, visible)
    }

    /// Appends to `found` the visible row that each of `rows` refers to; [`NO_ROW`] where there is
    /// none.
    ///
    /// # Errors
    /// As [`KeyLookup::find`]; `Internal` for rows that the columns do not have.
    pub fn follow(&self, rows: &[u32], visible: &Visible, found: &mut Vec<u32>) -> Result<()> {
        let ids = &self.index.ids;
        if self.is_exact(visible) && rows.iter().all(|row| (*row as usize) < ids.len()) {
            found.extend(rows.iter().map(|row| ids[*row as usize]));
            return Ok(());
        }
        let start = found.len();
        // Places in `found` and rows of the pieces, for each piece.
        let mut stale = vec![(Vec::new(), Vec::new()); self.pieces.len()];
        for (place, row) in (start..).zip(rows) {
            let known = ids.get(*row as usize).copied();
            found.push(known.unwrap_or(NO_ROW));
            if known.is_none_or(|id| self.is_stale(id, visible)) {
                let piece = self.pieces.partition_point(|(first, _)| first <= row).checked_sub(1);
                let piece = piece.filter(|_| *row < self.rows);
                let piece = piece.ok_or_else(|| Error::internal("a row is followed that is not there"))?;
                stale[piece].0.push(place);
                stale[piece].1.push(row - self.pieces[piece].0);
            }
        }
        for ((_, columns), (places, rows)) in self.pieces.iter().zip(stale) {
            if places.is_empty() {
                continue;
            }
            let rows = UInt32Array::from(rows);
            let taken = columns.iter().map(|column| take(column, &rows, None));
            let taken = taken.collect::<Result<Vec<_>, _>>();
            let taken = taken.map_err(|error| Error::internal(format!("cannot take keys: {error}")))?;
            let mut looked_up = Vec::with_capacity(places.len());
            self.keys.find(&taken, visible, &mut looked_up)?;
            places.iter().zip(looked_up).for_each(|(place, id)| found[*place] = id);
        }
        Ok(())
    }

    /// Tells whether a row of the index may be another one by now.
    fn is_stale(&self, id: u32, visible: &Visible) -> bool {
        match id {
            // The key may have come since.
            NO_ROW => self.index.absent > 0 && visible.end() > self.index.referenced_rows,
            id => !visible.is_visible(id),
        }
    }
}
