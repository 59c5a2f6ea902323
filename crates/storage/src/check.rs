//! CHECK DATABASE: reads every block, the log, and what a checkpoint has written, and compares the checksums.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use crate::Snapshot;
use crate::database::{OpenMode, check_log, check_superblock, checkpoint_in_use, read_catalog};
use crate::names::lost;
use crate::snapshot::read_deleted_file;
use hypostyle_format::TableEntry;
use hypostyle_types::{Error, Result, Version};

/// One damaged block or file.
#[derive(Clone, Debug)]
pub struct Damage {
    /// Empty when the catalog or the log is damaged.
    pub schema: String,
    pub table: String,
    /// Empty when it is the file of the table's deleted rows. The name of the file when it is an
    /// index, which is only a cache.
    pub column: String,
    /// Node of the column's type tree; 0 but for nested types.
    pub node: usize,
    pub block: u64,
    pub error: Error,
}

impl Damage {
    fn of_database(error: Error) -> Self {
        let (schema, table, column) = Default::default();
        Self { schema, table, column, node: 0, block: 0, error }
    }

    fn of_table(table: &TableEntry, error: Error) -> Self {
        let (schema, table) = (table.schema.clone(), table.name.clone());
        Self { schema, table, ..Self::of_database(error) }
    }
}

/// How far a check is: rows of each column, in its files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckProgress {
    pub rows_done: u64,
    pub rows_total: u64,
}

impl Snapshot {
    /// Checks what the next one to open the database will read: the superblock, the catalog, the
    /// log, the files of deleted rows, and every block of every column; lists what is damaged.
    /// `progress` is told after each block, and may stop it by returning false; the damage found so
    /// far is then returned.
    pub fn check(&self, mut progress: impl FnMut(CheckProgress) -> bool) -> Vec<Damage> {
        let columns = self.tables().flat_map(|table| table.columns());
        let rows_total = columns.map(|column| column.rows()).sum();
        let mut state = CheckProgress { rows_done: 0, rows_total };
        let mut damages = self.check_log().unwrap_or_else(|error| vec![Damage::of_database(error)]);
        let superblock = check_superblock(self.store(), OpenMode::ReadOnly).map_err(lost);
        damages.extend(superblock.err().map(Damage::of_database));
        let mut goes_on = true;
        let of_indexes = self.check_indexes(&mut || {
            goes_on = goes_on && progress(state);
            goes_on
        });
        damages.extend(of_indexes.into_iter().filter_map(|(table, index, error)| {
            let table = self.table_by_id(table)?;
            Some(Damage { column: index, ..Damage::of_table(table.entry(), error) })
        }));
        if !goes_on {
            return damages;
        }
        for table in self.tables() {
            for column in table.columns() {
                let checked = column.check(|node, block, rows, result| {
                    if let Err(error) = result {
                        let column = column.entry().name.clone();
                        damages.push(Damage {
                            column,
                            node,
                            block,
                            ..Damage::of_table(table.entry(), error)
                        });
                    }
                    state.rows_done += rows;
                    progress(state)
                });
                if !checked {
                    return damages;
                }
            }
        }
        damages
    }

    fn check_log(&self) -> Result<Vec<Damage>> {
        loop {
            let (checkpoint, end) = checkpoint_in_use(self.store())?;
            let damages = self.check_checkpoint(checkpoint, end);
            // Another checkpoint may have replaced the files meanwhile.
            if checkpoint_in_use(self.store())?.0 == checkpoint {
                return Ok(damages);
            }
        }
    }

    fn check_checkpoint(&self, checkpoint: Version, end: Option<u64>) -> Vec<Damage> {
        let mut damages: Vec<Damage> =
            check_log(self.store(), checkpoint, end).err().map(Damage::of_database).into_iter().collect();
        match read_catalog(self.store(), checkpoint) {
            Err(error) => damages.push(Damage::of_database(lost(error))),
            Ok(catalog) => {
                // The file of a table that was dropped since may be gone.
                let tables = catalog.tables.iter().filter(|table| self.table_by_id(table.id).is_some());
                damages.extend(tables.filter_map(|table| {
                    let error = read_deleted_file(self.store(), table, table.deleted?).err()?;
                    Some(Damage::of_table(table, lost(error)))
                }));
            }
        }
        damages
    }
}
