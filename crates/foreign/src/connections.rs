//! How many connections read the tables of an attached database.
//!
//! All statements share them. A table that finds none left is read by one all the same: a scan that waited
//! for another could wait for one that waits for it.

use crate::database::ForeignDatabase;
use hypostyle_expr::setting::Choice;
use hypostyle_types::Error;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The most connections that can be asked for: a server has 100 unless it is told otherwise.
const MOST: usize = 64;

/// The setting `foreign_connections`: the connections that read the tables of an attached database at the
/// same time, where more than one reads a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ForeignConnections(pub(crate) usize);

impl Default for ForeignConnections {
    fn default() -> Self {
        Self(8)
    }
}

impl fmt::Display for ForeignConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for ForeignConnections {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.trim().parse().ok().filter(|number| (1..=MOST).contains(number));
        number.map(Self).ok_or_else(|| {
            Error::invalid_input(format!("foreign_connections is a number of 1 to {MOST}, not '{text}'"))
        })
    }
}

impl Choice for ForeignConnections {
    const PREFIX: &'static str = "hypostyle_foreign";
    const NAME: &'static str = "foreign_connections";
    const DESCRIPTION: &'static str = "The connections that read the tables of an attached database";
}

/// Connections that a scan may have. They are others' when it is dropped.
#[derive(Debug)]
pub struct Lease {
    database: Arc<ForeignDatabase>,
    count: usize,
}

impl Lease {
    /// Takes as many connections as are wanted and left of `most`, but one at least.
    pub fn new(database: Arc<ForeignDatabase>, wanted: usize, most: ForeignConnections) -> Self {
        let mut leased = database.leased.lock();
        let count = wanted.min(most.0.saturating_sub(*leased)).max(1);
        *leased += count;
        drop(leased);
        Self { database, count }
    }

    pub fn count(&self) -> usize {
        self.count
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        *self.database.leased.lock() -= self.count;
    }
}

/// Returns the connections that are a table's share, by its pages among those of all tables that a statement
/// reads.
pub fn share(most: ForeignConnections, pages: u64, all_pages: u64) -> usize {
    let share = (most.0 as u64).saturating_mul(pages).div_ceil(all_pages.max(1));
    usize::try_from(share).map_or(most.0, |share| share.clamp(1, most.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_is_a_number_of_connections() {
        assert_eq!("8".parse::<ForeignConnections>().unwrap(), ForeignConnections::default());
        assert_eq!(" 64 ".parse::<ForeignConnections>().unwrap().to_string(), "64");
        for text in ["", "0", "65", "-1", "many"] {
            assert!(text.parse::<ForeignConnections>().is_err(), "{text}");
        }
    }

    #[test]
    fn tables_share_connections_by_their_pages() {
        let of = |pages, all| share(ForeignConnections(8), pages, all);
        assert_eq!(of(1000, 1000), 8);
        assert_eq!((of(750, 1000), of(250, 1000)), (6, 2));
        assert_eq!((of(999, 1000), of(1, 1000)), (8, 1));
        assert_eq!((of(0, 0), of(0, 1000), of(u64::MAX, 1)), (1, 1, 8));
    }
}
