//! CHECK DATABASE: reads every block and compares its checksum.

use crate::Snapshot;
use hypostyle_types::{BLOCK_ROWS, Error};

/// One damaged block.
#[derive(Clone, Debug)]
pub struct Damage {
    pub schema: String,
    pub table: String,
    pub column: String,
    /// Node of the column's type tree; 0 but for nested types.
    pub node: usize,
    pub block: u64,
    pub error: Error,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckProgress {
    pub rows_done: u64,
    pub rows_total: u64,
}

impl Snapshot {
    /// Checks every block of every column and lists the damaged ones. `progress` may stop it by
    /// returning false; the damage found so far is then returned.
    pub fn check(&self, mut progress: impl FnMut(CheckProgress) -> bool) -> Vec<Damage> {
        let rows_total = self.tables().map(|table| table.rows() * table.columns().len() as u64).sum();
        let mut state = CheckProgress { rows_done: 0, rows_total };
        let mut damages = Vec::new();
        for table in self.tables() {
            for column in table.columns() {
                column.check(|node, block, result| {
                    if let Err(error) = result {
                        damages.push(Damage {
                            schema: table.entry().schema.clone(),
                            table: table.entry().name.clone(),
                            column: column.entry().name.clone(),
                            node,
                            block,
                            error,
                        });
                    }
                    if node == 0 {
                        state.rows_done = (state.rows_done + BLOCK_ROWS).min(rows_total);
                    }
                });
                if !progress(state) {
                    return damages;
                }
            }
        }
        damages
    }
}
