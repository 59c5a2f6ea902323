//! Finding the rows that refer to a row.

use crate::array::typed;
use crate::join::JoinIndex;
use crate::key::KeyLookup;
use crate::{NO_ROW, Visible};
use arrow_buffer::{Buffer, ScalarBuffer};
use hypostyle_types::{Error, Result};
use std::sync::Arc;

/// The rows of another table that refer to each row of a table, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct ReverseIndex {
    /// Where the rows begin that refer to each row, and where those of the last one end.
    offsets: ScalarBuffer<u32>,
    rows: ScalarBuffer<u32>,
    covered: u32,
    /// Rows whose key is not NULL and was not there.
    absent: u32,
}

impl ReverseIndex {
    /// Turns a join index round.
    pub fn build(join: &JoinIndex) -> Self {
        let referenced = join.referenced_rows() as usize;
        // One place before the others, as the rows are put in.
        let mut offsets = vec![0_u32; referenced + 2];
        join.ids().iter().filter(|id| **id != NO_ROW).for_each(|id| offsets[*id as usize + 2] += 1);
        for row in 2..offsets.len() {
            offsets[row] += offsets[row - 1];
        }
        let mut rows = vec![0_u32; offsets[referenced + 1] as usize];
        for (row, id) in (0..).zip(join.ids()).filter(|(_, id)| **id != NO_ROW) {
            let next = &mut offsets[*id as usize + 1];
            rows[*next as usize] = row;
            *next += 1;
        }
        offsets.pop();
        let (covered, absent) = (join.rows(), join.absent());
        Self { offsets: offsets.into(), rows: rows.into(), covered, absent }
    }

    /// Returns how many rows that refer the index covers.
    pub fn rows(&self) -> u32 {
        self.covered
    }

    /// Returns how many rows that are referred to it covers.
    pub fn referenced_rows(&self) -> u32 {
        self.offsets.len() as u32 - 1
    }

    /// Returns the bytes of its arrays.
    pub fn bytes(&self) -> u64 {
        (self.offsets.inner().len() + self.rows.inner().len()) as u64
    }

    /// Returns the rows that refer to a row, whether anybody sees them or not.
    fn of(&self, referenced: u32) -> &[u32] {
        let referenced = referenced as usize;
        match self.offsets.get(referenced..referenced + 2) {
            Some([begin, end]) => &self.rows[*begin as usize..*end as usize],
            _ => &[],
        }
    }

    pub(crate) fn parameter(&self) -> u64 {
        self.absent.into()
    }

    pub(crate) fn arrays(&self) -> Vec<Buffer> {
        vec![self.offsets.inner().clone(), self.rows.inner().clone()]
    }

    /// # Errors
    /// `Corrupt` when the offsets do not divide the rows, or these are not there.
    pub(crate) fn decode(
        covered: u32,
        referenced_rows: u32,
        parameter: u64,
        arrays: &[Buffer],
    ) -> Result<Self> {
        let damaged = || Error::corrupt("a reverse index whose offsets or rows are none");
        let [offsets, rows] = arrays else { return Err(damaged()) };
        let (offsets, rows) = (typed::<u32>(offsets)?, typed::<u32>(rows)?);
        let is_sound = offsets.len() as u64 == u64::from(referenced_rows) + 1
            && offsets.first() == Some(&0)
            && offsets.is_sorted()
            && offsets.last().is_some_and(|last| *last as usize == rows.len())
            && rows.iter().all(|row| *row < covered)
            && parameter <= u64::from(covered);
        match is_sound {
            true => Ok(Self { offsets, rows, covered, absent: parameter as u32 }),
            false => Err(damaged()),
        }
    }
}

/// A reverse index with the rows that refer and have come since.
#[derive(Clone, Debug)]
pub struct ReverseLookup {
    index: Arc<ReverseIndex>,
    /// The row that is referred to, and the row that refers, in order.
    extension: Vec<(u32, u32)>,
    rows: u32,
}

impl ReverseLookup {
    /// Takes an index and the key that rows refer to, for readers who see `referenced` of the table that
    /// is referred to; `None` for an index that does not tell all rows: a key has several rows, or one
    /// that rows refer to came after them.
    pub fn new(index: Arc<ReverseIndex>, keys: &KeyLookup, referenced: &Visible) -> Option<Self> {
        let is_exact = index.absent == 0 || referenced.end() <= index.referenced_rows();
        let rows = index.rows();
        (is_exact && keys.is_unique()).then_some(Self { index, extension: Vec::new(), rows })
    }

    /// Adds the rows that follow: `ids` are the rows that they refer to.
    pub fn extend(&mut self, ids: &[u32]) {
        let rows = (self.rows..).zip(ids).filter(|(_, id)| **id != NO_ROW);
        self.extension.extend(rows.map(|(row, id)| (*id, row)));
        self.extension.sort_unstable();
        self.rows += ids.len() as u32;
    }

    /// Appends the visible rows that refer to each of some rows: to `found` the rows, to `places`
    /// which of `referenced` each refers to.
    ///
    /// # Errors
    /// `Internal` when there are visible rows that are not covered.
    pub fn expand(
        &self,
        referenced: &[u32],
        visible: &Visible,
        places: &mut Vec<u32>,
        found: &mut Vec<u32>,
    ) -> Result<()> {
        if visible.end() > self.rows {
            return Err(Error::internal(format!(
                "{} rows are visible, of which a reverse index covers {}",
                visible.end(),
                self.rows
            )));
        }
        for (place, referenced) in (0..).zip(referenced) {
            let begin = self.extension.partition_point(|(id, _)| id < referenced);
            let added = self.extension[begin..].iter().take_while(|(id, _)| id == referenced);
            let rows = self.index.of(*referenced).iter().copied().chain(added.map(|(_, row)| *row));
            for row in rows.filter(|row| visible.is_visible(*row)) {
                places.push(place);
                found.push(row);
            }
        }
        Ok(())
    }
}
