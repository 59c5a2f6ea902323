//! Which rows a reader sees.

use arrow_buffer::BooleanBuffer;

/// Stands for "no row" where positions are listed. No row has this position.
pub const NO_ROW: u32 = u32::MAX;

/// The rows that a snapshot sees: those before an end, without the deleted ones.
#[derive(Clone, Debug)]
pub struct Visible {
    end: u32,
    /// Has a bit for each row before the end; set where the row is deleted.
    deleted: Option<BooleanBuffer>,
}

impl Visible {
    /// Makes all rows before `end` visible.
    pub fn before(end: u32) -> Self {
        Self { end, deleted: None }
    }

    /// Makes all rows before `end` visible but those whose bit in `deleted` is set; rows behind its
    /// bits are not deleted.
    pub fn without(end: u32, deleted: BooleanBuffer) -> Self {
        Self { end, deleted: Some(deleted).filter(|deleted| deleted.count_set_bits() > 0) }
    }

    /// Returns the position behind the last row.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// Makes those of the rows visible that are before a position.
    pub fn until(&self, end: u32) -> Self {
        Self { end: self.end.min(end), deleted: self.deleted.clone() }
    }

    /// Tells whether all of the first `rows` rows are visible.
    pub(crate) fn has_all_before(&self, rows: u32) -> bool {
        self.deleted.is_none() && rows <= self.end
    }

    /// Tells whether a reader sees a row; never the row [`NO_ROW`].
    pub fn is_visible(&self, row: u32) -> bool {
        row < self.end && !self.is_deleted(row)
    }

    fn is_deleted(&self, row: u32) -> bool {
        let row = row as usize;
        self.deleted.as_ref().is_some_and(|deleted| row < deleted.len() && deleted.value(row))
    }
}
