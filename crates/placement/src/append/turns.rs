//! The order of the writers of a table that one coordinator has.

use hypostyle_types::TableId;
use std::collections::{BTreeMap, VecDeque};

/// Lets one writer of a table go at a time, the first come first. Tokens keep appends whole without
/// it, but the later of two writers would make the earlier one fail.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    tables: BTreeMap<TableId, VecDeque<u64>>,
}

impl Turns {
    /// Takes a place in the queue of a table. Tells whether the writer may go at once.
    pub fn enter(&mut self, table: TableId, writer: u64) -> bool {
        let queue = self.tables.entry(table).or_default();
        queue.push_back(writer);
        queue.len() == 1
    }

    /// Gives up a place, because the writer has ended or does not want to wait any more. Returns
    /// the writer whose turn it is now, if it was not before.
    pub fn leave(&mut self, table: TableId, writer: u64) -> Option<u64> {
        let queue = self.tables.get_mut(&table)?;
        let was_first = queue.front() == Some(&writer);
        queue.retain(|&other| other != writer);
        let next = queue.front().copied();
        if next.is_none() {
            self.tables.remove(&table);
        }
        next.filter(|_| was_first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_go_one_after_the_other() {
        let (one, other) = (TableId(1), TableId(2));
        let mut turns = Turns::default();
        assert!(turns.enter(one, 1) && turns.enter(other, 2));
        assert!(!turns.enter(one, 3) && !turns.enter(one, 4));
        assert_eq!(turns.leave(one, 3), None);
        assert_eq!(turns.leave(one, 1), Some(4));
        assert_eq!(turns.leave(one, 4), None);
        assert_eq!(turns.leave(one, 4), None);
        assert!(turns.enter(one, 5));
    }
}
