//! Rows on their way through a pipeline.

use hypostyle_position::{Rows, Selection};

/// Rows of a pipeline: for each table that has been joined so far the position of each row.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub rows: usize,
    /// The positions in each table, by its slot; `None` for tables that come later. Those of an
    /// outer join's other side may be `NO_POSITION`.
    slots: Vec<Option<Selection>>,
}

impl Chunk {
    /// Makes a chunk of rows of the first table of a pipeline.
    pub fn new(slots: usize, slot: usize, positions: Selection) -> Self {
        let rows = positions.len();
        let mut chunk = Self { rows, slots: vec![None; slots] };
        chunk.put(slot, positions);
        chunk
    }

    /// Adds the positions of the rows in another table.
    pub fn put(&mut self, slot: usize, positions: Selection) {
        if let Some(place) = self.slots.get_mut(slot) {
            *place = Some(positions);
        }
    }

    /// Returns the rows' positions in a table.
    pub fn positions(&self, slot: usize) -> Rows<'_> {
        self.slots.get(slot).and_then(Option::as_ref).map_or(Rows::Range(0, 0), Selection::rows)
    }

    /// Returns the rows at some places, each of which may be there several times.
    pub fn at(&self, places: &[u32]) -> Self {
        let at = |positions: &Selection| Selection::List(positions.rows().pick(places));
        Self { rows: places.len(), slots: self.slots.iter().map(|slot| slot.as_ref().map(at)).collect() }
    }

    /// Returns a part of the rows.
    pub fn part(&self, start: usize, end: usize) -> Self {
        let part = |positions: &Selection| positions.rows().part(start..end).into();
        Self { rows: end - start, slots: self.slots.iter().map(|slot| slot.as_ref().map(part)).collect() }
    }
}
