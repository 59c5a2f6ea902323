//! Distinct keys of several columns, numbered in order of appearance.

use super::table::Table;
use super::{KeyType, Packer};
use crate::rows::common_rows;
use crate::{Column, Error, NO_POSITION, Result, Rows};
use arrow_array::ArrayRef;
use arrow_schema::DataType;

/// Rows that are packed together, so that their keys stay in the first level of the cache.
const PIECE: usize = 2048;

/// Keys and their numbers.
pub(crate) struct KeySet {
    packer: Packer,
    table: Tables,
}

enum Tables {
    /// Keys that are numbers already.
    Numbered(Numbered),
    Narrow(Table<u64>),
    Wide(Table<u128>),
}

impl KeySet {
    pub fn new(kernel: &'static str, types: &[KeyType]) -> Result<Self> {
        Ok(Self::of(Packer::new(kernel, types)?))
    }

    /// Makes a set of what is packed.
    pub fn of(packer: Packer) -> Self {
        let table = match packer.bits() <= u64::BITS {
            true if packer.is_numbered() => Tables::Numbered(Numbered::default()),
            true => Tables::Narrow(Table::new()),
            false => Tables::Wide(Table::new()),
        };
        Self { packer, table }
    }

    /// Returns the bytes that the table of so many keys takes, without those of strings.
    pub fn bytes_for(&self, keys: usize) -> usize {
        match &self.table {
            Tables::Numbered(_) => keys * (size_of::<u32>() + size_of::<u64>()),
            Tables::Narrow(_) => Table::<u64>::bytes_for(keys),
            Tables::Wide(_) => Table::<u128>::bytes_for(keys),
        }
    }

    pub fn bytes(&self) -> usize {
        let table = match &self.table {
            Tables::Numbered(table) => table.bytes(),
            Tables::Narrow(table) => table.bytes(),
            Tables::Wide(table) => table.bytes(),
        };
        table + self.packer.bytes()
    }

    pub fn columns(&self) -> usize {
        self.packer.columns()
    }

    pub fn len(&self) -> usize {
        match &self.table {
            Tables::Numbered(table) => table.keys.len(),
            Tables::Narrow(table) => table.keys().len(),
            Tables::Wide(table) => table.keys().len(),
        }
    }

    /// Makes room for keys before they come.
    pub fn reserve(&mut self, keys: usize) {
        match &mut self.table {
            Tables::Numbered(table) => table.keys.reserve(keys),
            Tables::Narrow(table) => table.reserve(keys),
            Tables::Wide(table) => table.reserve(keys),
        }
    }

    /// Replaces `ids` by the number of each row's key; new ones get the next numbers.
    ///
    /// A column of which only some rows are meant is one that stays, such as a table's: its strings are
    /// not copied, but the column is held.
    pub fn insert(&mut self, columns: &[Column<'_>], ids: &mut Vec<u32>) -> Result<()> {
        let stays: Vec<bool> = columns.iter().map(|column| column.rows.len() < column.array.len()).collect();
        self.insert_staying(columns, &stays, ids)
    }

    /// Replaces `ids` as [`insert`](Self::insert) does, with columns of which it is told which stay.
    pub fn insert_staying(
        &mut self,
        columns: &[Column<'_>],
        stays: &[bool],
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        ids.clear();
        for_pieces(columns, |columns| match &mut self.table {
            Tables::Numbered(table) => table.insert(&self.packer.pack(columns, stays)?, ids),
            Tables::Narrow(table) => table.insert(&self.packer.pack(columns, stays)?, ids),
            Tables::Wide(table) => table.insert(&self.packer.pack(columns, stays)?, ids),
        })
    }

    /// Replaces `ids` by the number of each row's key, or [`NO_POSITION`] if it has none.
    pub fn find(&self, columns: &[Column<'_>], ids: &mut Vec<u32>) -> Result<()> {
        ids.clear();
        for_pieces(columns, |columns| {
            let start = ids.len();
            let missing = match &self.table {
                Tables::Numbered(table) => {
                    let (keys, missing) = self.packer.pack_known(columns)?;
                    table.find(&keys, ids);
                    missing
                }
                Tables::Narrow(table) => {
                    let (keys, missing) = self.packer.pack_known(columns)?;
                    table.find(&keys, ids);
                    missing
                }
                Tables::Wide(table) => {
                    let (keys, missing) = self.packer.pack_known(columns)?;
                    table.find(&keys, ids);
                    missing
                }
            };
            for (id, missing) in ids[start..].iter_mut().zip(missing.into_iter().flatten()) {
                if missing {
                    *id = NO_POSITION;
                }
            }
            Ok(())
        })
    }

    /// Returns the keys of some numbers, an array for each column; dictionaries become their
    /// values.
    pub fn keys(&self, ids: Rows<'_>) -> Result<Vec<ArrayRef>> {
        ids.check(self.len())?;
        match &self.table {
            Tables::Numbered(table) => {
                self.packer.unpack(ids.iter().map(|id| table.keys[id as usize]).collect())
            }
            Tables::Narrow(table) => {
                self.packer.unpack(ids.iter().map(|id| table.keys()[id as usize]).collect())
            }
            Tables::Wide(table) => {
                self.packer.unpack(ids.iter().map(|id| table.keys()[id as usize]).collect())
            }
        }
    }
}

/// Small numbers, each of which has a place of its own.
#[derive(Default)]
struct Numbered {
    /// The id of each number, or [`NO_POSITION`].
    ids: Vec<u32>,
    /// The numbers by their ids.
    keys: Vec<u64>,
}

impl Numbered {
    fn bytes(&self) -> usize {
        self.ids.capacity() * size_of::<u32>() + self.keys.capacity() * size_of::<u64>()
    }

    fn insert(&mut self, keys: &[u64], ids: &mut Vec<u32>) -> Result<()> {
        if let Some(last) = keys.iter().max().filter(|last| **last >= self.ids.len() as u64) {
            self.ids.resize(*last as usize + 1, NO_POSITION);
        }
        ids.reserve(keys.len());
        for key in keys {
            let id = &mut self.ids[*key as usize];
            if *id == NO_POSITION {
                let next = u32::try_from(self.keys.len()).ok().filter(|id| *id != NO_POSITION);
                *id = next.ok_or(Error::TooMany("the groups"))?;
                self.keys.push(*key);
            }
            ids.push(*id);
        }
        Ok(())
    }

    fn find(&self, keys: &[u64], ids: &mut Vec<u32>) {
        ids.extend(keys.iter().map(|key| self.ids.get(*key as usize).copied().unwrap_or(NO_POSITION)));
    }
}

/// Calls a function with pieces of the rows of columns, one after the other. Rows of dictionaries
/// are one piece, because for each a table over the dictionary's values is made.
fn for_pieces(columns: &[Column<'_>], mut function: impl FnMut(&[Column<'_>]) -> Result<()>) -> Result<()> {
    let rows = common_rows("key", columns)?;
    let is_dictionary = |column: &Column<'_>| matches!(column.array.data_type(), DataType::Dictionary(..));
    if rows <= PIECE || columns.iter().any(is_dictionary) {
        return function(columns);
    }
    for start in (0..rows).step_by(PIECE) {
        let places = start..rows.min(start + PIECE);
        let pieces: Vec<Column<'_>> = columns
            .iter()
            .map(|Column { array, rows }| Column { array: *array, rows: rows.part(places.clone()) })
            .collect();
        function(&pieces)?;
    }
    Ok(())
}
