//! Groups that are the rows of a table.

use super::{Groups, KERNEL};
use crate::gather::gather_or_null;
use crate::{Column, Error, NO_POSITION, Result, Rows};
use arrow_array::ArrayRef;

/// Groups that are the rows of a table, because a unique key of it is among the keys: an id is the
/// position, and the keys are read from the table in the end. Rows without a position have the id
/// behind the last, and NULL as all their keys.
pub struct RowGroups {
    keys: Vec<ArrayRef>,
    rows: usize,
}

impl RowGroups {
    /// Makes groups of the rows of a table, of which these are the columns that are keys.
    pub fn new(keys: Vec<ArrayRef>) -> Result<Self> {
        let Some(rows) = keys.first().map(|key| key.len()) else {
            return Err(Error::Inputs { kernel: KERNEL, reason: "the table has no key" });
        };
        if keys.iter().any(|key| key.len() != rows) {
            return Err(Error::Inputs {
                kernel: KERNEL,
                reason: "the columns have different numbers of rows",
            });
        }
        match u32::try_from(rows) {
            Ok(last) if last < NO_POSITION => Ok(Self { keys, rows }),
            _ => Err(Error::TooMany("the rows of a table")),
        }
    }
}

impl Groups for RowGroups {
    /// The ids are the positions of the only column; its array is not read, and may be any of the
    /// keys.
    fn ids(&mut self, keys: &[Column<'_>], ids: &mut Vec<u32>) -> Result<()> {
        let [Column { rows, .. }] = keys else {
            return Err(Error::Inputs { kernel: KERNEL, reason: "there is not one column of positions" });
        };
        ids.clear();
        ids.extend(rows.iter().map(|row| if row == NO_POSITION { self.rows as u32 } else { row }));
        Rows::List(ids).check(self.rows + 1)
    }

    fn len(&self) -> usize {
        self.rows + 1
    }

    fn keys(&self, ids: Rows<'_>) -> Result<Vec<ArrayRef>> {
        ids.check(self.len())?;
        let none = self.rows as u32;
        let positions: Vec<u32> = ids.iter().map(|id| if id == none { NO_POSITION } else { id }).collect();
        self.keys.iter().map(|key| gather_or_null(key, &positions)).collect()
    }

    fn bytes(&self) -> usize {
        0
    }
}
