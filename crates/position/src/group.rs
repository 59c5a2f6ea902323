//! Dense ids for the groups of rows.
//!
//! | groups | of | ids |
//! |---|---|---|
//! | [`DomainGroups`] | keys of small domains, such as codes, dates and booleans | a place in an array |
//! | [`RowGroups`] | keys that depend on a unique key of a table | the row's position |
//! | [`DenseGroups`] | one key whose values lie close together | numbers in order of appearance |
//! | [`HashGroups`] | any keys | numbers in order of appearance |
//!
//! The first kind that fits is the fastest. Rows whose keys are equal have one id; NULL equals NULL
//! here, −0.0 equals 0.0, and NaN equals NaN. Each thread has groups of its own, whose ids differ;
//! they are merged by giving the [keys](Groups::keys) of one to the other.

mod dense;
mod domain;
mod hash;
mod row;

use crate::{Column, Result, Rows};
use arrow_array::ArrayRef;

pub use dense::DenseGroups;
pub use domain::{Domain, DomainGroups};
pub use hash::HashGroups;
pub use row::RowGroups;

const KERNEL: &str = "group";

/// Gives rows the ids of their groups.
pub trait Groups: Send {
    /// Replaces `ids` by the id of each row; `keys` has a column for each key, of equally many
    /// rows.
    fn ids(&mut self, keys: &[Column<'_>], ids: &mut Vec<u32>) -> Result<()>;

    /// Returns a number that all ids are less than. Groups of domains and of rows have ids that no
    /// row has had: [`exists`](crate::fold::exists) or [`count`](crate::fold::count) tells.
    fn len(&self) -> usize;

    /// Returns whether there are no groups.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the keys of some ids, an array for each key. Dictionaries become their values.
    fn keys(&self, ids: Rows<'_>) -> Result<Vec<ArrayRef>>;

    /// Returns the bytes that the groups take.
    fn bytes(&self) -> usize;
}

#[cfg(test)]
mod tests;
