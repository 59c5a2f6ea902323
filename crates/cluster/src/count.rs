//! Values of columns that count: each node gives out those of a range of its own, which nobody else has.
//!
//! A node takes the next range from the catalog, where the last value of all ranges is. What it has not given
//! out when it ends is given out by nobody.

use crate::coordinate::no_majority;
use crate::forward::{ATTEMPTS, is_without_answer};
use crate::message::{Reply, Request};
use crate::node::Node;
use crate::peers::{Answer, unexpected};
use hypostyle_placement::Epoch;
use hypostyle_placement::catalog::{Change, Counter};
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind, Result, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The values that a node takes at a time, if not more are wanted.
const TAKEN: u64 = 256;

/// The values that a node has of columns, and has not given out. Each column has a lock of its own, which is
/// held while more are taken: nobody waits for the values of other columns.
#[derive(Default)]
pub(crate) struct Ranges(Mutex<BTreeMap<(TableId, u32), OfColumn>>);

/// The values of one column, if some were taken.
type OfColumn = Arc<Mutex<Option<Range>>>;

impl Ranges {
    fn of(&self, table: TableId, column: u32) -> OfColumn {
        self.0.lock().entry((table, column)).or_default().clone()
    }
}

/// Values that follow each other.
#[derive(Clone, Copy)]
struct Range {
    /// The last value that was given out, and the last one that there is.
    given: u64,
    last: u64,
    /// [`Counter::since`] when it was taken.
    since: Epoch,
}

impl Range {
    /// Gives out values, as many as it has of those that are wanted.
    fn give(&mut self, values: &mut Vec<u64>, wanted: usize) {
        while values.len() < wanted && self.given < self.last {
            self.given += 1;
            values.push(self.given);
        }
    }
}

impl Node {
    /// Gives out values of a column that counts.
    ///
    /// # Errors
    /// `Connection` (57P03) if there is no coordinator that more can be taken from; `UnknownName` if the
    /// table is gone.
    pub fn next_values(&self, table: TableId, column: u32, wanted: usize) -> Result<Vec<u64>> {
        let of_column = self.ranges.of(table, column);
        // Others wait for the same values.
        let mut range = of_column.lock();
        let mut values = Vec::with_capacity(wanted);
        let said = self.known_catalog()?.table(table).and_then(|table| table.counter(column));
        if let Some(range) = range.as_mut() {
            match said {
                Some(counter) if counter.since > range.since => {}
                _ => range.give(&mut values, wanted),
            }
        }
        let missing = wanted.saturating_sub(values.len()) as u64;
        if missing > 0 {
            let count = missing.max(TAKEN);
            let Counter { last, since, .. } = self.count((table, column), None, count)?;
            let mut taken = Range { given: last.saturating_sub(count), last, since };
            taken.give(&mut values, wanted);
            *range = Some(taken);
        }
        Ok(values)
    }

    /// Says after which value a column goes on to count.
    ///
    /// # Errors
    /// As [`Self::next_values`].
    pub fn count_after(&self, table: TableId, column: u32, last: u64) -> Result<()> {
        self.count((table, column), Some(last), 0).map(drop)
    }

    /// Takes values, here or from the node that coordinates. If the answer is lost, the values are: nothing
    /// else was changed.
    fn count(&self, of: (TableId, u32), after: Option<u64>, count: u64) -> Result<Counter> {
        let (table, column) = of;
        for _ in 0..ATTEMPTS {
            if self.coordinates() {
                match self.count_here(of, after, count) {
                    // Another one does, and has not told this one yet.
                    Err(error) if error.sqlstate() == "25006" => self.learn()?,
                    other => return other.map(|(counter, _)| counter),
                }
            }
            let coordinator = self.reach_coordinator()?;
            let request = Request::Count { table, column, after, count };
            match self.call(&coordinator, request, None).and_then(Answer::reply) {
                Ok(Reply::Counted { counter, epoch }) => {
                    self.see(&coordinator, epoch);
                    return Ok(counter);
                }
                Ok(_) => return Err(unexpected("a message")),
                Err(error) if error.sqlstate() == "25006" => self.learn()?,
                Err(error) if is_without_answer(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Err(no_majority())
    }

    /// Takes values on the node that coordinates, and returns the state of the catalog that has it.
    fn count_here(
        &self,
        (table, column): (TableId, u32),
        after: Option<u64>,
        count: u64,
    ) -> Result<(Counter, Epoch)> {
        self.check_coordinates()?;
        let counted = self.change(Change::Count { table, column, after, count });
        let catalog = counted.map_err(|error| match error.sqlstate() {
            "08007" => no_majority(),
            _ => error,
        })?;
        let counter = catalog.table(table).and_then(|table| table.counter(column));
        let gone = || Error::new(ErrorKind::UnknownName, "the table was dropped").with_sqlstate("42P01");
        Ok((counter.ok_or_else(gone)?, catalog.epoch))
    }

    /// Takes values for another node.
    pub(crate) fn count_for_another(
        &self,
        of: (TableId, u32),
        after: Option<u64>,
        count: u64,
    ) -> Result<Reply> {
        self.count_here(of, after, count).map(|(counter, epoch)| Reply::Counted { counter, epoch })
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
