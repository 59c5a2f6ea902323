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

/// The values that a node takes at a time, if not more are wanted.
const TAKEN: u64 = 256;

/// The values that a node has of columns, and has not given out.
#[derive(Default)]
pub(crate) struct Ranges(Mutex<BTreeMap<(TableId, u32), Range>>);

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
        // Others wait for the same values.
        let mut ranges = self.ranges.0.lock();
        let mut values = Vec::with_capacity(wanted);
        let said = self.known_catalog()?.table(table).and_then(|table| table.counter(column));
        if let Some(range) = ranges.get_mut(&(table, column)) {
            match said {
                Some(counter) if counter.since > range.since => {}
                _ => range.give(&mut values, wanted),
            }
        }
        let missing = wanted.saturating_sub(values.len()) as u64;
        if missing > 0 {
            let count = missing.max(TAKEN);
            let Counter { last, since, .. } = self.count((table, column), None, count)?;
            let mut range = Range { given: last.saturating_sub(count), last, since };
            range.give(&mut values, wanted);
            ranges.insert((table, column), range);
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
