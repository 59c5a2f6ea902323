//! Conditions on the columns of one table.
//!
//! A [`Condition`] is what SQL says; a [`Filter`] is the condition made ready for the columns of
//! one fragment of a table. Conditions are three-valued. NOT is pushed to the leaves when a
//! condition is made ([`Condition::inverse`]), and there it has a counterpart that is true exactly
//! where the leaf is false. So each leaf needs to say only where it is true, and a byte is enough
//! for a row.

mod compile;
mod leaf;
mod like;

use crate::{Error, Result, Rows, Selection, selection};
use arrow_array::{Array, ArrayRef};
use compile::compile_all;
use leaf::{Leaf, Leaves};
use std::cmp::Ordering;

pub use like::Pattern;

const KERNEL: &str = "condition";

/// How two values are compared; the order is PostgreSQL's, that of strings is that of their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// Returns the comparison that holds where this one does not.
    pub fn inverse(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
            Self::Greater => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::Less,
        }
    }

    /// Returns whether values that are so ordered fulfil the comparison.
    #[inline]
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// A condition. Columns are named by their place among those that the filter is made for.
#[derive(Clone, Debug)]
pub enum Condition {
    /// A column is compared with the first row of an array of its type; NULL is true for no row.
    Compare {
        /// The place of the column.
        column: usize,
        /// How it is compared.
        comparison: Comparison,
        /// An array of one row.
        constant: ArrayRef,
    },
    /// Two columns are compared.
    CompareColumns {
        /// The place of the first column.
        left: usize,
        /// How they are compared.
        comparison: Comparison,
        /// The place of the second column.
        right: usize,
    },
    /// A column equals one of some constants, or with `negated` none. A NULL among them is as in
    /// SQL.
    In {
        /// The place of the column.
        column: usize,
        /// An array of the column's type.
        constants: ArrayRef,
        /// Whether the constants are those that the column must not equal.
        negated: bool,
    },
    /// A text is like a pattern, or with `negated` not like it.
    Like {
        /// The place of the column.
        column: usize,
        /// The pattern.
        pattern: Pattern,
        /// Whether the text must not be like the pattern.
        negated: bool,
    },
    /// A column is NULL, or with `negated` not NULL.
    Null {
        /// The place of the column, which may be of any type.
        column: usize,
        /// Whether NULL is what the column must not be.
        negated: bool,
    },
    /// All of the conditions are true; without any this is true.
    All(Vec<Condition>),
    /// One of the conditions is true; without any this is false.
    Any(Vec<Condition>),
}

impl Condition {
    /// Returns the condition that is true where this one is false, and NULL where it is NULL.
    pub fn inverse(self) -> Self {
        let each = |conditions: Vec<Self>| conditions.into_iter().map(Self::inverse).collect();
        match self {
            Self::Compare { column, comparison, constant } => {
                Self::Compare { column, comparison: comparison.inverse(), constant }
            }
            Self::CompareColumns { left, comparison, right } => {
                Self::CompareColumns { left, comparison: comparison.inverse(), right }
            }
            Self::In { column, constants, negated } => Self::In { column, constants, negated: !negated },
            Self::Like { column, pattern, negated } => Self::Like { column, pattern, negated: !negated },
            Self::Null { column, negated } => Self::Null { column, negated: !negated },
            Self::All(conditions) => Self::Any(each(conditions)),
            Self::Any(conditions) => Self::All(each(conditions)),
        }
    }

    fn columns(&self, found: &mut Vec<usize>) {
        match self {
            Self::Compare { column, .. }
            | Self::In { column, .. }
            | Self::Like { column, .. }
            | Self::Null { column, .. } => found.push(*column),
            Self::CompareColumns { left, right, .. } => found.extend([*left, *right]),
            Self::All(conditions) | Self::Any(conditions) => {
                conditions.iter().for_each(|condition| condition.columns(found));
            }
        }
    }

    /// Returns the only column that the condition is about.
    fn only_column(&self) -> Option<usize> {
        let mut found = Vec::new();
        self.columns(&mut found);
        found.dedup();
        match found[..] {
            [column] => Some(column),
            _ => None,
        }
    }
}

/// A condition over the columns of one fragment, which many threads may ask at once.
pub struct Filter<'a> {
    /// All of them must be true; those that are costly for each row come last.
    leaves: Leaves<'a>,
    rows: usize,
}

impl<'a> Filter<'a> {
    /// Makes a condition ready: decides it for each value of dictionaries, and unites ranges of a
    /// column. Columns that the condition names must have one number of rows.
    pub fn new(condition: &Condition, columns: &'a [ArrayRef]) -> Result<Self> {
        let mut named = Vec::new();
        condition.columns(&mut named);
        let mut rows = None;
        for column in named {
            let array =
                columns.get(column).ok_or(Error::Inputs { kernel: KERNEL, reason: "a column is missing" })?;
            if rows.is_some_and(|rows| rows != array.len()) {
                return Err(Error::Inputs {
                    kernel: KERNEL,
                    reason: "the columns have different numbers of rows",
                });
            }
            rows = Some(array.len());
        }
        let rows = rows.unwrap_or(usize::MAX);
        let mut leaves = Vec::new();
        compile_all(&[condition], columns, &mut leaves)?;
        leaves.sort_by_key(|leaf| leaf.is_costly());
        Ok(Self { leaves, rows })
    }

    /// Returns the rows for which the condition is true, in their order.
    pub fn select(&self, rows: Rows<'_>) -> Result<Selection> {
        rows.check(self.rows)?;
        let (cheap, costly) = self.leaves.split_at(self.leaves.partition_point(|leaf| !leaf.is_costly()));
        let selection = select(cheap, rows);
        Ok(match costly {
            [] => selection,
            _ => select(costly, selection.rows()),
        })
    }

    /// Unsets the bytes of a mask at rows for which the condition is not true. A mask has a byte, 0
    /// or 1, for each row.
    pub fn mask(&self, rows: Rows<'_>, mask: &mut [u8]) -> Result<()> {
        rows.check(self.rows)?;
        if mask.len() != rows.len() {
            return Err(Error::Inputs { kernel: KERNEL, reason: "the mask has not one byte for each row" });
        }
        self.leaves.iter().for_each(|leaf| leaf.mask(rows, mask));
        Ok(())
    }
}

fn select(leaves: &[Box<dyn Leaf + '_>], rows: Rows<'_>) -> Selection {
    if leaves.is_empty() {
        return rows.into();
    }
    let mut mask = vec![1; rows.len()];
    leaves.iter().for_each(|leaf| leaf.mask(rows, &mut mask));
    selection::select(&mask, rows)
}

#[cfg(test)]
mod tests;
