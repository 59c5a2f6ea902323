//! Single columns of a result, for programs that read a column's buffers where they lie.

use crate::QueryResult;
use arrow::array::ArrayRef;
use hypostyle_storage::{Bound, BufferFile};
use hypostyle_types::Result;
use std::ops::Range;

/// One column as one array, and what its buffers are.
///
/// ```
/// # use hypostyle::{Database, OpenOptions};
/// # let connection = Database::in_memory(OpenOptions::default())?.connect()?;
/// connection.execute("CREATE TABLE t AS SELECT * FROM generate_series(1, 20000) AS t (a)")?;
/// let values = connection.table("t")?.values(0, false)?;
/// assert!(values.is_mapped && values.nulls_hold_missing);
/// assert_eq!(values.array.len(), 20_000);
/// let computed = connection.execute("SELECT a + 1 FROM t")?.values(0, false)?;
/// assert!(!computed.is_mapped && !computed.nulls_hold_missing);
/// # Ok::<(), hypostyle::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ColumnValues {
    pub array: ArrayRef,
    /// Says whether the buffers are mappings of stored files.
    pub is_mapped: bool,
    /// Says whether the buffers belong to the caller, who may write into them.
    pub is_private: bool,
    /// Says whether the value under a NULL is the missing value of docs/format.md §3: NaN, the
    /// type's minimum, −1 for a code. Otherwise it may be anything.
    pub nulls_hold_missing: bool,
}

/// An end of the range of a column's values.
///
/// ```
/// assert_ne!(hypostyle::ColumnBound::Integer(1), hypostyle::ColumnBound::Float(1.0));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnBound {
    /// An integer, a scaled DECIMAL, days of a DATE, units of a TIMESTAMP.
    Integer(i128),
    Float(f64),
    Bytes(Vec<u8>),
}

/// What a database knows of a stored column without reading its values.
///
/// ```
/// # use hypostyle::{ColumnBound, Database, OpenOptions};
/// # let connection = Database::in_memory(OpenOptions::default())?.connect()?;
/// connection.execute("CREATE TABLE t AS SELECT * FROM generate_series(1, 20000) AS t (a)")?;
/// let known = connection.table("t")?.column_statistics(0)?.expect("the column is stored");
/// assert_eq!((known.rows, known.nulls), (20_000, Some(0)));
/// assert_eq!(known.maximum, Some(ColumnBound::Integer(20_000)));
/// # Ok::<(), hypostyle::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnStatistics {
    pub rows: u64,
    /// The number of NULLs, unless the result has only a part of a block.
    pub nulls: Option<u64>,
    /// The number of distinct values, where a dictionary counts them.
    pub distinct: Option<u64>,
    /// No value is less, NaN aside; `None` also if all are NULL, or the type has no order here.
    pub minimum: Option<ColumnBound>,
    /// No value is greater, NaN aside.
    pub maximum: Option<ColumnBound>,
    /// Says whether a value may be NaN.
    pub has_nan: bool,
    /// Says whether the bounds are values of the column.
    pub is_exact: bool,
}

impl QueryResult {
    /// Returns one column as one array: the stored one if there is such a column, or else what its
    /// rows are joined to. A private one belongs to the caller, who may write into it.
    ///
    /// # Errors
    /// The errors of the query; `Corrupt` with the column and the block; `InvalidInput` when there
    /// is no such column.
    pub fn values(&self, index: usize, is_private: bool) -> Result<ColumnValues> {
        self.check_index(index)?;
        let mapped = self.mapped_column(index, is_private)?;
        let nulls_hold_missing = self.stored().is_some() || mapped.is_some();
        let array = match mapped {
            Some(mapped) => mapped,
            None if is_private => self.column_private(index)?,
            None => self.column(index)?,
        };
        Ok(ColumnValues { array, is_mapped: self.is_mapped(), is_private, nulls_hold_missing })
    }

    /// Returns the file that has the values of a stored column of fixed width, from the first row of the
    /// result on, for mapping it. Returns `None` where there is no such file: for computed rows, for
    /// others than all rows from the first on, and for a server's columns.
    ///
    /// # Errors
    /// `Corrupt` with the column and the block; `InvalidInput` when there is no such column.
    pub fn values_file(&self, index: usize) -> Result<Option<BufferFile>> {
        self.check_index(index)?;
        let in_files = self.stored().and_then(|stored| stored.in_files(index));
        let Some((column, rows)) = in_files.filter(|(_, rows)| rows.start == 0) else { return Ok(None) };
        self.hand_out(index..index + 1)?;
        let Some(width) = column.field().data_type().primitive_width() else { return Ok(None) };
        let node = column.files()?.into_iter().next();
        let values = node.and_then(|node| node.buffers.into_iter().next());
        let length = rows.end * width as u64;
        let has_all = |values: &BufferFile| values.file.is_some() && values.length >= length;
        Ok(values.filter(has_all).map(|values| BufferFile { length, ..values }))
    }

    /// Returns what is known of a stored column of a database in this process. Returns `None` for a
    /// computed or remote one, and for one with deleted rows or rows in the log.
    ///
    /// # Errors
    /// `Corrupt` with the column and the block; `InvalidInput` when there is no such column.
    pub fn column_statistics(&self, index: usize) -> Result<Option<ColumnStatistics>> {
        self.check_index(index)?;
        let in_files = self.stored().and_then(|stored| stored.in_files(index));
        let Some((column, Range { start: begin, end })) = in_files else { return Ok(None) };
        let is_whole = begin == 0 && end == column.rows();
        let mut known = ColumnStatistics {
            rows: end - begin,
            nulls: is_whole.then(|| column.null_count()),
            distinct: column.distinct_count().filter(|_| is_whole),
            minimum: None,
            maximum: None,
            has_nan: false,
            is_exact: is_whole,
        };
        let (mut first, mut has_bounds) = (0, true);
        for block in column.synopses()? {
            let last = first + u64::from(block.rows);
            let is_outside = last <= begin || first >= end;
            first = last;
            if is_outside {
                continue;
            }
            known.has_nan |= block.has_nan;
            match &block.bounds {
                Some((minimum, maximum)) => {
                    // A prefix of a text is less than the text.
                    has_bounds &= is_whole_value(minimum) && is_whole_value(maximum);
                    widen(&mut known.minimum, minimum, true);
                    widen(&mut known.maximum, maximum, false);
                }
                // There are none of NULL and NaN alone, and none of some types.
                None => has_bounds &= block.nulls == block.rows || block.has_nan,
            }
        }
        if !has_bounds {
            (known.minimum, known.maximum, known.is_exact) = (None, None, false);
        }
        Ok(Some(known))
    }
}

fn is_whole_value(bound: &Bound) -> bool {
    match bound {
        Bound::Integer(_) | Bound::Float(_) => true,
        Bound::Bytes { exact, .. } => *exact,
    }
}

/// Makes a bound of several blocks cover one more.
fn widen(bound: &mut Option<ColumnBound>, other: &Bound, is_minimum: bool) {
    let other = match other {
        Bound::Integer(value) => ColumnBound::Integer(*value),
        Bound::Float(value) => ColumnBound::Float(*value),
        Bound::Bytes { prefix, .. } => ColumnBound::Bytes(prefix.clone()),
    };
    let is_wider = match (&*bound, &other) {
        (None, _) => true,
        (Some(ColumnBound::Integer(known)), ColumnBound::Integer(new)) => (new < known) == is_minimum,
        (Some(ColumnBound::Float(known)), ColumnBound::Float(new)) => (new < known) == is_minimum,
        (Some(ColumnBound::Bytes(known)), ColumnBound::Bytes(new)) => (new < known) == is_minimum,
        (Some(_), _) => false,
    };
    if is_wider {
        *bound = Some(other);
    }
}
