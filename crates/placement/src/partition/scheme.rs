//! How a table is partitioned, and the fragment of each of its rows.

use super::hash::{fragment_of_hash, hash_columns};
use super::range::Ranges;
use super::value::{Kind, Value};
use arrow_array::ArrayRef;
use hypostyle_types::{ColumnId, Error, Result};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// The largest number of fragments of a table.
pub const FRAGMENTS_MAX: u32 = 4096;

/// The largest number of columns of a partition key.
pub const KEY_COLUMNS_MAX: usize = 16;

/// A column of a partition key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyColumn {
    /// Its place among the columns of the table.
    pub column: ColumnId,
    /// What its values are, which no ALTER TABLE changes.
    pub kind: Kind,
}

/// How the rows of a table are distributed over its fragments.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
pub enum Partitioning {
    /// A hash of some columns says the fragment.
    Hash {
        /// The columns, in the order in which they are hashed.
        columns: Vec<KeyColumn>,
        /// The number of fragments.
        fragments: u32,
    },
    /// The range that a column's value is in says the fragment.
    Range {
        /// The column.
        column: KeyColumn,
        /// The values that the fragments end before, in ascending order.
        bounds: Vec<Value>,
        /// Says that a last fragment has everything from the last bound on, and NULL.
        max_value: bool,
    },
    /// One row after the other.
    RoundRobin {
        /// The number of fragments.
        fragments: u32,
    },
    /// Each node has all rows, in the one fragment.
    Replicated,
}

impl Partitioning {
    /// Returns the number of fragments.
    pub fn fragments(&self) -> u32 {
        match self {
            Self::Hash { fragments, .. } | Self::RoundRobin { fragments } => *fragments,
            Self::Range { bounds, max_value, .. } => {
                u32::try_from(bounds.len()).unwrap_or(u32::MAX).saturating_add((*max_value).into())
            }
            Self::Replicated => 1,
        }
    }

    /// Returns the columns of the key, in its order.
    pub fn columns(&self) -> &[KeyColumn] {
        match self {
            Self::Hash { columns, .. } => columns,
            Self::Range { column, .. } => std::slice::from_ref(column),
            Self::RoundRobin { .. } | Self::Replicated => &[],
        }
    }

    /// Says whether equal keys are in fragments of equal numbers.
    pub fn divides_like(&self, other: &Self) -> bool {
        let (Self::Hash { columns, fragments }, Self::Hash { columns: others, fragments: of_other }) =
            (self, other)
        else {
            return false;
        };
        let kinds =
            |columns: &[KeyColumn]| -> Vec<Kind> { columns.iter().map(|column| column.kind).collect() };
        fragments == of_other && kinds(columns) == kinds(others)
    }

    /// Returns the same distribution of a table whose columns have other places now; `None` if one of
    /// the key's has none.
    pub fn moved(&self, place: impl Fn(ColumnId) -> Option<ColumnId>) -> Option<Self> {
        let mut moved = self.clone();
        let columns = match &mut moved {
            Self::Hash { columns, .. } => columns.as_mut_slice(),
            Self::Range { column, .. } => std::slice::from_mut(column),
            Self::RoundRobin { .. } | Self::Replicated => &mut [],
        };
        for column in columns {
            column.column = place(column.column)?;
        }
        Some(moved)
    }

    /// Checks what a statement or a catalog says.
    ///
    /// # Errors
    /// `InvalidInput` for a number of fragments or columns out of range, a column that is named
    /// twice, and bounds that do not ascend or are not of the column's kind.
    pub fn check(&self) -> Result<()> {
        let fragments = self.fragments();
        if !(1..=FRAGMENTS_MAX).contains(&fragments) {
            return Err(Error::invalid_input(format!(
                "a table has 1 to {FRAGMENTS_MAX} fragments, not {fragments}"
            )));
        }
        if let Self::Hash { columns, .. } = self {
            check_columns(columns)?;
        }
        if let Self::Range { column, bounds, .. } = self {
            check_bounds(column.kind, bounds)?;
        }
        Ok(())
    }

    /// Returns the number of the fragment of each row. `keys` are the key's columns in its order.
    /// `start` is the number of rows that the table has had before these, which round robin
    /// continues from.
    ///
    /// # Errors
    /// `Constraint` (23514) naming a value that no range has; `InvalidInput` if the number of
    /// columns or of their rows is another one; `Unsupported` if an array does not have a column's
    /// type.
    pub fn fragments_of(&self, keys: &[ArrayRef], rows: usize, start: u64) -> Result<Vec<u32>> {
        let columns = self.columns();
        if keys.len() != columns.len() || keys.iter().any(|key| key.len() != rows) {
            return Err(Error::invalid_input(format!(
                "the partition key has {} columns of {rows} rows; given are columns of {:?} rows",
                columns.len(),
                keys.iter().map(|key| key.len()).collect::<Vec<_>>()
            )));
        }
        match self {
            Self::Hash { columns, fragments } => {
                let keys: Vec<_> =
                    keys.iter().cloned().zip(columns.iter().map(|column| column.kind)).collect();
                let hashes = hash_columns(&keys, rows)?;
                Ok(hashes.into_iter().map(|hash| fragment_of_hash(hash, *fragments)).collect())
            }
            Self::Range { column, bounds, max_value } => match keys {
                [key] => Ranges { bounds, has_rest: *max_value }.locate_rows(key, column.kind),
                _ => Ok(Vec::new()),
            },
            Self::RoundRobin { fragments } => Ok(take_turns(start, *fragments, rows)),
            Self::Replicated => Ok(vec![0; rows]),
        }
    }
}

fn take_turns(start: u64, fragments: u32, rows: usize) -> Vec<u32> {
    let first = u32::try_from(start % u64::from(fragments.max(1))).unwrap_or(0);
    (first..fragments).chain((0..fragments).cycle()).take(rows).collect()
}

fn check_columns(columns: &[KeyColumn]) -> Result<()> {
    if !(1..=KEY_COLUMNS_MAX).contains(&columns.len()) {
        return Err(Error::invalid_input(format!(
            "a partition key has 1 to {KEY_COLUMNS_MAX} columns, not {}",
            columns.len()
        )));
    }
    for (number, column) in columns.iter().enumerate() {
        if columns.iter().take(number).any(|other| other.column == column.column) {
            return Err(Error::invalid_input("a column is in the partition key twice"));
        }
    }
    Ok(())
}

fn check_bounds(kind: Kind, bounds: &[Value]) -> Result<()> {
    if let Some(other) = bounds.iter().find(|bound| bound.kind() != kind) {
        return Err(Error::invalid_input(format!(
            "the bound {} is not of the partition key's type",
            other.datum()
        )));
    }
    let unusable =
        |bound: &&Value| matches!(bound, Value::Exact { scale, .. } if usize::from(*scale) > DIGITS_MAX);
    if bounds.iter().find(unusable).is_some() {
        return Err(Error::invalid_input(format!(
            "a bound has more than {DIGITS_MAX} digits after its point"
        )));
    }
    for (before, after) in bounds.iter().zip(bounds.iter().skip(1)) {
        if before.datum().compare(&after.datum()) != Some(Ordering::Less) {
            return Err(Error::invalid_input(format!(
                "the bounds of the fragments do not ascend: {} is followed by {}",
                before.datum(),
                after.datum()
            )));
        }
    }
    Ok(())
}

/// The most digits that a DECIMAL has.
const DIGITS_MAX: usize = hypostyle_types::DECIMAL_PRECISION_MAX as usize;
