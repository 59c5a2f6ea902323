//! Values of columns that count: each node gives out those of a range of its own, which nobody else has.
//!
//! A node takes the next range from the catalog, where the last value of all ranges is. What it has not given
//! out when it ends is given out by nobody.

use crate::coordinate::no_majority;
use crate::forward::{ATTEMPTS, is_without_answer};
use crate::message::{Reply, Request};
use crate::node::Node;
use crate::peers::{Answer, unexpected};
use crate::ranges::Range;
use hypostyle_placement::Epoch;
use hypostyle_placement::catalog::{Change, Counter};
use hypostyle_types::{Error, ErrorKind, Result, TableId};

/// The values that a node takes at a time, if not more are wanted.
const TAKEN: u64 = 256;

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
