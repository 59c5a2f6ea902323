//! The columns of the tables of a pipeline, as kernels read them: whole arrays in their stored type.

use super::stop::{Stop, Stopped, storage};
use crate::scan::{engine_array, engine_field};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, make_array};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::common::ScalarValue;
use hypostyle_expr::sizes::bytes_of;
use hypostyle_position::fold::{self, Ids};
use hypostyle_position::gather::{gather, gather_or_null};
use hypostyle_position::{Column, NO_POSITION, Rows};
use hypostyle_storage::{Bound, ColumnData, TableData};
use hypostyle_types::BLOCK_ROWS;
use std::ops::Range;
use std::sync::Arc;

/// The bytes of one column's values that are put together for a chunk, at most.
const CHUNK_BYTES_MAX: u64 = 32 << 20;

/// The rows of a column that is copied for a query, at most, because the rows of the log do not fit
/// behind its files.
const COPIED_ROWS_MAX: u64 = 1 << 17;

/// One column.
#[derive(Clone, Debug)]
pub(super) struct TableColumn {
    /// All rows, in the type in which they are stored.
    pub stored: ArrayRef,
    /// The type that expressions see.
    pub data_type: DataType,
    /// The values of a dictionary in that type.
    values: Option<ArrayRef>,
    /// The column whose blocks are to be verified before they are read, and the rows that are so.
    blocks: Option<(Arc<ColumnData>, u64)>,
    /// Only some rows are read in the end, and verified then.
    late: bool,
}

impl TableColumn {
    /// Opens a column of a stored table. Rows that only the log has come behind the others.
    pub fn open(table: &TableData, index: usize, late: bool) -> Stopped<Self> {
        let column = table.columns().get(index).ok_or_else(|| Stop::Unfit("a column is missing".into()))?;
        let in_files = table.rows_in_files();
        let mut stored = column.array().map_err(storage)?;
        let mut blocks = Some((column.clone(), in_files));
        if stored.as_any_dictionary_opt().is_some() {
            column.verify_dictionary_once().map_err(storage)?;
        }
        if table.beyond_files().tail.rows() > 0 {
            match table.whole_column(index).map_err(storage)? {
                Some(whole) => stored = whole,
                None if in_files > COPIED_ROWS_MAX => {
                    return Err(Stop::Unfit("a large column would be copied".into()));
                }
                None => {
                    column.verify_rows(0..in_files).map_err(storage)?;
                    blocks = None;
                    stored = with_tail(&stored, table, index)?;
                }
            }
        }
        let opened = Self::new(stored, engine_field(table, column).data_type().clone(), blocks)?;
        Ok(Self { late, ..opened })
    }

    /// Opens a column of rows that another operator has given.
    pub fn of_rows(batches: &[RecordBatch], schema: &SchemaRef, index: usize) -> Stopped<Self> {
        let data_type = schema.field(index).data_type().clone();
        let arrays: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(index).as_ref()).collect();
        let stored = match arrays.as_slice() {
            [] => arrow::array::new_empty_array(&data_type),
            [_] => batches[0].column(index).clone(),
            _ => concat(&arrays).map_err(Stop::arrow)?,
        };
        Self::new(stored, data_type, None)
    }

    /// Opens the column of truth values: FALSE is row 0, and TRUE is row 1.
    pub fn of_truths() -> Stopped<Self> {
        Self::new(Arc::new(BooleanArray::from(vec![false, true])), DataType::Boolean, None)
    }

    fn new(stored: ArrayRef, data_type: DataType, blocks: Option<(Arc<ColumnData>, u64)>) -> Stopped<Self> {
        let values = match stored.as_any_dictionary_opt() {
            Some(dictionary) if *stored.data_type() != data_type => {
                Some(cast(dictionary.values(), &data_type).map_err(Stop::arrow)?)
            }
            _ => None,
        };
        Ok(Self { stored, data_type, values, blocks, late: false })
    }

    /// Tells whether it is a column of files, also with rows of the log behind: the values of its
    /// dictionary differ then.
    pub fn is_of_files(&self) -> bool {
        self.blocks.is_some()
    }

    /// Returns how many rows its files have; `None` where it is not a column of files.
    pub fn rows_in_files(&self) -> Option<u32> {
        self.blocks.as_ref().and_then(|(_, in_files)| u32::try_from(*in_files).ok())
    }

    /// Checks the blocks of some rows, unless that was done before.
    pub fn verify(&self, rows: Range<u64>) -> Stopped<()> {
        if self.late { Ok(()) } else { self.verify_blocks(rows) }
    }

    fn verify_blocks(&self, rows: Range<u64>) -> Stopped<()> {
        match &self.blocks {
            Some((column, in_files)) => {
                let rows = rows.start.min(*in_files)..rows.end.min(*in_files);
                column.verify_rows(rows).map_err(storage)
            }
            None => Ok(()),
        }
    }

    /// Checks all blocks, before rows are read in any order.
    pub fn verify_all(&self) -> Stopped<()> {
        self.verify(0..u64::MAX)
    }

    /// Checks the blocks of some rows of a late column.
    pub fn verify_late(&self, rows: Rows<'_>) -> Stopped<()> {
        if self.late { self.verify_each(rows) } else { Ok(()) }
    }

    /// Checks the blocks of rows that an index has found.
    pub fn verify_at(&self, rows: &[u32]) -> Stopped<()> {
        if self.late { Ok(()) } else { self.verify_each(Rows::List(rows)) }
    }

    fn verify_each(&self, rows: Rows<'_>) -> Stopped<()> {
        let mut last = None;
        for position in rows.iter().filter(|position| *position != NO_POSITION) {
            // Rows that follow each other are in one block, as a rule.
            let block = u64::from(position) / BLOCK_ROWS;
            if last.replace(block) != Some(block) {
                self.verify_blocks(block * BLOCK_ROWS..(block + 1) * BLOCK_ROWS)?;
            }
        }
        Ok(())
    }

    /// Returns the least or the greatest value of some rows.
    pub fn extreme(&self, rows: Rows<'_>, is_minimum: bool) -> Stopped<ScalarValue> {
        let (data_type, column) = (self.stored.data_type(), Column { array: self.stored.as_ref(), rows });
        let mut extreme = if is_minimum { fold::minimum(data_type)? } else { fold::maximum(data_type)? };
        extreme.grow(1);
        extreme.fold(Ids::One { id: 0, rows: rows.len() }, Some(column))?;
        ScalarValue::try_from_array(&extreme.finish()?, 0).map_err(Stop::expression)
    }

    /// Returns the values of some rows, whose blocks are checked now if the column is late.
    pub fn read_late(&self, rows: Rows<'_>) -> Stopped<ArrayRef> {
        self.verify_late(rows)?;
        self.read(rows)
    }

    /// Returns the least and the greatest integer of the block that a row is in, and whether a row of
    /// the block is NULL; `None` for rows of the log, and values of other types.
    pub fn bounds_at(&self, row: u32) -> Option<(i128, i128, bool)> {
        let (column, in_files) = self.blocks.as_ref()?;
        if u64::from(row) >= *in_files {
            return None;
        }
        let synopsis = column.synopses().ok()?.get((u64::from(row) / BLOCK_ROWS) as usize)?;
        match &synopsis.bounds {
            Some((Bound::Integer(low), Bound::Integer(high))) => Some((*low, *high, synopsis.nulls > 0)),
            _ => None,
        }
    }

    /// Returns the stored values of any number of rows, and NULL for `NO_POSITION`.
    pub fn gather(&self, rows: Rows<'_>) -> Stopped<ArrayRef> {
        Ok(match rows {
            Rows::List(list) => gather_or_null(&self.stored, list)?,
            range => gather(&self.stored, range)?,
        })
    }

    /// Returns about how many bytes the stored values of some rows take.
    pub fn bytes_of(&self, rows: Rows<'_>) -> usize {
        let width = self.stored.data_type().primitive_width().unwrap_or(size_of::<u128>());
        let copied = match rows {
            Rows::List(list) => self.copied_bytes(list) as usize,
            Rows::Range(start, end) => self.bytes_between(start as usize, end as usize) as usize,
        };
        rows.len() * width + copied
    }

    /// Returns the values of some rows in the type that expressions see; NULL for `NO_POSITION`.
    pub fn read(&self, rows: Rows<'_>) -> Stopped<ArrayRef> {
        if let Rows::Range(start, end) = rows
            && end.saturating_sub(start) > 1
            && self.bytes_between(start as usize, end as usize) > CHUNK_BYTES_MAX
        {
            // An expression may copy them.
            return Err(Stop::Wide);
        }
        let picked = self.read_stored(rows)?;
        if *picked.data_type() == self.data_type {
            return Ok(picked);
        }
        if let (Some(values), Some(dictionary)) = (&self.values, picked.as_any_dictionary_opt()) {
            return take(values, dictionary.keys(), None).map_err(Stop::arrow);
        }
        engine_array(&picked, &self.data_type).map_err(Stop::expression)
    }

    /// Returns the values of some rows as they are stored; NULL for `NO_POSITION`.
    ///
    /// Long values that rows share are copied for each of them, and so are refused.
    pub fn read_stored(&self, rows: Rows<'_>) -> Stopped<ArrayRef> {
        if let Rows::List(list) = rows
            && list.len() > 1
            && self.copied_bytes(list) > CHUNK_BYTES_MAX
        {
            return Err(Stop::Wide);
        }
        Ok(match rows {
            Rows::List(list) if list.contains(&NO_POSITION) => gather_or_null(&self.stored, list)?,
            _ => gather(&self.stored, rows)?,
        })
    }

    /// Returns the bytes of the texts and byte strings of neighbouring rows.
    fn bytes_between(&self, start: usize, end: usize) -> u64 {
        let between = |offsets: &[i64]| match (offsets.get(start), offsets.get(end)) {
            (Some(start), Some(end)) => start.abs_diff(*end),
            _ => 0,
        };
        match self.stored.data_type() {
            DataType::LargeUtf8 => between(self.stored.as_string::<i64>().value_offsets()),
            DataType::LargeBinary => between(self.stored.as_binary::<i64>().value_offsets()),
            _ => 0,
        }
    }

    /// Returns the bytes of values without a fixed width that are copied for some rows.
    fn copied_bytes(&self, list: &[u32]) -> u64 {
        copied_bytes(&self.stored, list)
    }

    /// Returns the values in the type that expressions see, of plain values or of a dictionary.
    pub fn as_seen(&self, values: &ArrayRef) -> Stopped<ArrayRef> {
        as_type(values, &self.data_type)
    }
}

/// Stops if the values of some rows are too long to be copied for each of them.
pub(super) fn check_copied(array: &ArrayRef, list: &[u32]) -> Stopped<()> {
    match list.len() > 1 && copied_bytes(array, list) > CHUNK_BYTES_MAX {
        true => Err(Stop::Wide),
        false => Ok(()),
    }
}

fn copied_bytes(array: &ArrayRef, list: &[u32]) -> u64 {
    match array.data_type() {
        DataType::LargeUtf8 => lengths(array.as_string::<i64>().value_offsets(), list),
        DataType::LargeBinary => lengths(array.as_binary::<i64>().value_offsets(), list),
        // Codes are copied, and where views point to.
        DataType::Dictionary(..) | DataType::Utf8View | DataType::BinaryView | DataType::Boolean => 0,
        of if of.is_primitive() => 0,
        _ => {
            let sizes = list.iter().filter(|row| **row != NO_POSITION).map(|row| {
                let row = *row as usize;
                if row < array.len() { bytes_of(array.as_ref(), row..row + 1) } else { 0 }
            });
            sizes.sum()
        }
    }
}

fn lengths(offsets: &[i64], list: &[u32]) -> u64 {
    let length = |row: &u32| {
        let row = *row as usize;
        match (offsets.get(row), offsets.get(row + 1)) {
            (Some(start), Some(end)) => start.abs_diff(*end),
            _ => 0,
        }
    };
    list.iter().map(length).sum()
}

/// Returns the type of the values of a dictionary, and any other type itself.
pub(super) fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// Returns stored values in a type of plans.
pub(super) fn as_type(values: &ArrayRef, data_type: &DataType) -> Stopped<ArrayRef> {
    match (values.data_type(), data_type) {
        (from, to) if from == to => Ok(values.clone()),
        // As operators do, sums are not cut to the digits that are declared.
        (DataType::Decimal128(_, from), DataType::Decimal128(_, to)) if from == to => {
            let data = values.to_data().into_builder().data_type(data_type.clone());
            Ok(make_array(data.build().map_err(Stop::arrow)?))
        }
        _ => engine_array(values, data_type).map_err(Stop::expression),
    }
}

/// Returns a column's rows in the files with those of the log behind them.
fn with_tail(stored: &ArrayRef, table: &TableData, index: usize) -> Stopped<ArrayRef> {
    let wide = match stored.data_type() {
        DataType::Dictionary(_, values) => DataType::Dictionary(Box::new(DataType::Int32), values.clone()),
        other => other.clone(),
    };
    let mut parts = vec![cast(stored, &wide).map_err(Stop::arrow)?];
    for batch in table.beyond_files().tail.batches() {
        parts.push(cast(batch.column(index), &wide).map_err(Stop::arrow)?);
    }
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    concat(&parts).map_err(Stop::arrow)
}

/// Returns the field of a column that may be NULL where its table has no partner.
pub(super) fn nullable(field: &Field) -> Field {
    field.clone().with_nullable(true)
}
