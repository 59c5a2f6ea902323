//! What a process has open of an index: the index, the columns that it compares with, and the
//! extensions for rows that came later.

use super::name::IndexSpec;
use crate::table::TableData;
use arrow_array::ArrayRef;
use hypostyle_index::{Index, KeyExtension, KeyLookup, OrderIndex, OrderLookup, Stored};
use hypostyle_sync::Mutex;
use hypostyle_types::{ColumnId, Error, Result};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Extensions over the files, before they become one.
const PARTS_MAX: usize = 4;

/// Batches of the log with fewer rows than this part of those that are left are extended by
/// themselves, so that a row more hashes few others anew, and a lookup looks into few extensions.
const TAIL_SHARE: usize = 64;

/// An index that is open.
#[derive(Debug)]
pub(crate) struct Entry {
    stored: Stored,
    base: Base,
    is_stored: bool,
    uses: AtomicU64,
    later: Mutex<Later>,
}

/// The index with the columns of the rows that it covers, where it compares with them.
#[derive(Debug)]
enum Base {
    Key(KeyLookup),
    Order(OrderLookup),
    None,
}

/// Extensions for rows behind those that are covered.
#[derive(Debug, Default)]
struct Later {
    /// Follow each other without gaps.
    keys: Vec<Arc<KeyExtension>>,
    /// The extensions over the rows of the log, of the snapshot that asked last, each with the first
    /// key column of the batches that it has.
    tail_keys: Vec<(Vec<ArrayRef>, Arc<KeyExtension>)>,
    /// The end of the rows of each part.
    orders: Vec<(u32, Arc<OrderIndex>)>,
}

impl Entry {
    /// Opens an index over a table's columns.
    ///
    /// # Errors
    /// `Corrupt` when the rows that it compares with are damaged.
    pub fn new(spec: &IndexSpec, stored: Stored, table: &TableData, is_stored: bool) -> Result<Self> {
        let covered = 0..u64::from(stored.covered.rows);
        let base = match &stored.index {
            Index::Key(index) => {
                // Only a hash index compares keys with the column.
                let compared = if index.seed().is_some() { covered } else { 0..0 };
                Base::Key(KeyLookup::new(index.clone(), &arrays(table, &spec.columns, compared)?)?)
            }
            Index::Order(index) => {
                let column = arrays(table, &spec.columns, covered)?;
                let column = column.first().ok_or_else(|| Error::internal("an order of no column"))?;
                Base::Order(OrderLookup::new(index.clone(), column)?)
            }
            Index::Join(_) | Index::Reverse(_) | Index::Imprint(_) => Base::None,
        };
        Ok(Self { stored, base, is_stored, uses: AtomicU64::new(0), later: Mutex::default() })
    }

    pub fn stored(&self) -> &Stored {
        &self.stored
    }

    /// The rows that the index covers.
    pub fn rows(&self) -> u64 {
        self.stored.covered.rows.into()
    }

    pub fn bytes(&self) -> u64 {
        self.stored.index.bytes()
    }

    pub fn is_stored(&self) -> bool {
        self.is_stored
    }

    pub fn uses(&self) -> u64 {
        self.uses.load(Ordering::Relaxed)
    }

    pub fn count_use(&self) {
        self.uses.fetch_add(1, Ordering::Relaxed);
    }

    pub fn age(&self) {
        self.uses.store(self.uses() / 2, Ordering::Relaxed);
    }

    /// Returns the lookup of a key over all rows that are in a table's files.
    ///
    /// # Errors
    /// `Corrupt` when later rows are damaged; `Internal` for an index of another kind.
    pub fn keys_over_files(&self, table: &TableData, columns: &[ColumnId], seed: u64) -> Result<KeyLookup> {
        let Base::Key(base) = &self.base else { return Err(Error::internal("an index of no key")) };
        let mut lookup = base.clone();
        let rows = rows_in_files(table)?;
        if lookup.rows() >= rows {
            return Ok(lookup);
        }
        let mut later = self.later.lock();
        // An older snapshot does not have all rows of the extensions.
        let fits = later.keys.last().is_none_or(|last| last.first() + last.rows() <= rows);
        if !fits || later.keys.len() == PARTS_MAX {
            let all = extension(&lookup, table, columns, rows, seed)?;
            if fits {
                later.keys = vec![all.clone()];
            }
            lookup.extend(all)?;
            return Ok(lookup);
        }
        later.keys.iter().try_for_each(|extension| lookup.extend(extension.clone()))?;
        if lookup.rows() < rows {
            let last = extension(&lookup, table, columns, rows, seed)?;
            later.keys.push(last.clone());
            lookup.extend(last)?;
        }
        Ok(lookup)
    }

    /// Returns the lookup of a key over all rows of a table, those of the log included.
    ///
    /// # Errors
    /// As [`Self::keys_over_files`].
    pub fn keys(&self, table: &TableData, columns: &[ColumnId], seed: u64) -> Result<KeyLookup> {
        let mut lookup = self.keys_over_files(table, columns, seed)?;
        let batches = tail_arrays(table, columns)?;
        let mut later = self.later.lock();
        for (number, part) in tail_parts(&batches).into_iter().enumerate() {
            let firsts: Vec<ArrayRef> = part.iter().filter_map(|batch| batch.first().cloned()).collect();
            let known = later.tail_keys.get(number).filter(|(of, extension)| {
                extension.first() == lookup.rows()
                    && of.len() == firsts.len()
                    && of.iter().zip(&firsts).all(|(one, other)| Arc::ptr_eq(one, other))
            });
            let extension = match known {
                Some((_, extension)) => extension.clone(),
                None => {
                    let built = Arc::new(KeyExtension::build(&lookup, part, seed)?);
                    later.tail_keys.truncate(number);
                    later.tail_keys.push((firsts, built.clone()));
                    built
                }
            };
            lookup.extend(extension)?;
        }
        Ok(lookup)
    }

    /// Returns the order of all rows of a table.
    ///
    /// # Errors
    /// `Corrupt` when later rows are damaged; `Internal` for an index of another kind.
    pub fn order(&self, table: &TableData, column: ColumnId) -> Result<OrderLookup> {
        let Base::Order(base) = &self.base else { return Err(Error::internal("an index of no order")) };
        let mut lookup = base.clone();
        let rows = rows_in_files(table)?;
        let mut later = self.later.lock();
        if later.orders.len() == PARTS_MAX {
            later.orders.clear();
        }
        let part = |rows: Range<u32>| -> Result<ArrayRef> {
            let arrays = arrays(table, &[column], rows.start.into()..rows.end.into())?;
            let array = arrays.first().ok_or_else(|| Error::internal("an order of no column"))?;
            Ok(array.slice(rows.start as usize, (rows.end - rows.start) as usize))
        };
        for (end, index) in later.orders.iter().filter(|(end, _)| *end <= rows) {
            lookup.extend(index.clone(), &part(lookup.rows()..*end)?)?;
        }
        if lookup.rows() < rows {
            let array = part(lookup.rows()..rows)?;
            let index = Arc::new(sorted(&array)?);
            if later.orders.last().is_none_or(|(end, _)| *end <= rows) {
                later.orders.push((rows, index.clone()));
            }
            lookup.extend(index, &array)?;
        }
        drop(later);
        for arrays in tail_arrays(table, &[column])? {
            for array in &arrays {
                lookup.extend(Arc::new(sorted(array)?), array)?;
            }
        }
        Ok(lookup)
    }
}

/// Divides the batches of the log, of which the last ones change with each commit, so that the first
/// part changes seldom.
fn tail_parts(batches: &[Vec<ArrayRef>]) -> Vec<&[Vec<ArrayRef>]> {
    let rows = |batch: &Vec<ArrayRef>| batch.first().map_or(0, |column| column.len());
    let mut parts = Vec::new();
    let mut rest = batches;
    while !rest.is_empty() {
        let total: usize = rest.iter().map(rows).sum();
        let small = rest.iter().position(|batch| rows(batch) * TAIL_SHARE < total);
        let (part, others) = rest.split_at(small.unwrap_or(rest.len()).max(1));
        parts.push(part);
        rest = others;
    }
    parts
}

fn sorted(array: &ArrayRef) -> Result<OrderIndex> {
    OrderIndex::build(array).ok_or_else(|| Error::internal("a column of an order has a type without one"))
}

/// Builds the extension of a lookup up to some row of a table's files.
fn extension(
    lookup: &KeyLookup,
    table: &TableData,
    columns: &[ColumnId],
    rows: u32,
    seed: u64,
) -> Result<Arc<KeyExtension>> {
    let first = lookup.rows();
    let arrays = arrays(table, columns, first.into()..rows.into())?;
    let later = arrays.iter().map(|array| array.slice(first as usize, (rows - first) as usize)).collect();
    Ok(Arc::new(KeyExtension::build(lookup, &[later], seed)?))
}

/// Returns the rows in a table's files as 32 bits count them.
///
/// # Errors
/// `Internal` when there are more, which no index covers.
pub(super) fn rows_in_files(table: &TableData) -> Result<u32> {
    u32::try_from(table.rows_in_files()).map_err(|_| Error::internal("an index of too many rows"))
}

/// Returns columns as they are in the files, of which some rows were verified.
///
/// # Errors
/// `Corrupt` naming the column and the block; `Internal` for a column that is not there.
pub(super) fn arrays(table: &TableData, columns: &[ColumnId], rows: Range<u64>) -> Result<Vec<ArrayRef>> {
    arrays_unless(table, columns, rows, &mut || Ok(()))
}

/// [`arrays`], which asks before each block that it verifies whether to go on.
///
/// # Errors
/// As [`arrays`]; those of `proceed`.
pub(super) fn arrays_unless(
    table: &TableData,
    columns: &[ColumnId],
    rows: Range<u64>,
    proceed: &mut dyn FnMut() -> Result<()>,
) -> Result<Vec<ArrayRef>> {
    let array = |id: &ColumnId| {
        let column = table.columns().iter().find(|column| column.entry().id == *id);
        let column =
            column.ok_or_else(|| Error::internal(format!("an index of column {id}, which is gone")))?;
        column.verify_rows_unless(rows.clone(), proceed)?;
        column.array()
    };
    columns.iter().map(array).collect()
}

/// Returns the columns of the rows that only the log has, batch by batch.
///
/// # Errors
/// `Internal` for a column that is not there.
pub(super) fn tail_arrays(table: &TableData, columns: &[ColumnId]) -> Result<Vec<Vec<ArrayRef>>> {
    let place = |id: &ColumnId| {
        let place = table.columns().iter().position(|column| column.entry().id == *id);
        place.ok_or_else(|| Error::internal(format!("an index of column {id}, which is gone")))
    };
    let places = columns.iter().map(place).collect::<Result<Vec<_>>>()?;
    let batches = table.beyond_files().tail.batches().iter();
    Ok(batches.map(|batch| places.iter().map(|place| batch.column(*place).clone()).collect()).collect())
}
