//! Ranges of the values of columns that count, which a node gives out.

use hypostyle_placement::Epoch;
use hypostyle_sync::Mutex;
use hypostyle_types::TableId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The values that a node has of columns, and has not given out. Each column has a lock of its own, which is
/// held while more are taken: nobody waits for the values of other columns.
#[derive(Default)]
pub(crate) struct Ranges(Mutex<BTreeMap<(TableId, u32), OfColumn>>);

/// The values of one column, if some were taken.
pub(crate) type OfColumn = Arc<Mutex<Option<Range>>>;

impl Ranges {
    /// Returns the values of a column.
    pub fn of(&self, table: TableId, column: u32) -> OfColumn {
        self.0.lock().entry((table, column)).or_default().clone()
    }
}

/// Values that follow each other.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    /// The last value that was given out, and the last one that there is.
    pub given: u64,
    pub last: u64,
    /// The counter's own epoch when it was taken.
    pub since: Epoch,
}

impl Range {
    /// Gives out values, as many as it has of those that are wanted.
    pub fn give(&mut self, values: &mut Vec<u64>, wanted: usize) {
        while values.len() < wanted && self.given < self.last {
            self.given += 1;
            values.push(self.given);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_values_of_a_column_keeps_nobody_from_those_of_others() {
        let ranges = Ranges::default();
        let one = ranges.of(TableId(1), 0);
        let _slow = one.lock();
        assert!(ranges.of(TableId(1), 0).try_lock().is_none(), "they would take two ranges");
        for other in [(TableId(2), 0), (TableId(1), 1)] {
            let other = ranges.of(other.0, other.1);
            *other.lock() = Some(Range { given: 4, last: 6, since: Epoch(3) });
        }
        let mut values = Vec::new();
        let other = ranges.of(TableId(2), 0);
        let mut range = other.lock();
        range.as_mut().unwrap().give(&mut values, 9);
        assert_eq!(values, [5, 6]);
    }
}
