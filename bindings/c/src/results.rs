//! Results: their columns, and their rows as Arrow data.

use crate::call::{Slot, answer, call, check_place, give, write_struct};
use crate::handle::{Handle, Kind};
use crate::layout::{self, Column, Statistics, Value};
use crate::rows::Cursor;
use crate::statements::Told;
use crate::text::misuse;
use arrow::array::{Array, RecordBatch, RecordBatchReader, StructArray};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow::ffi_stream::FFI_ArrowArrayStream;
use hypostyle::{
    CancelMark, ColumnStatistics, DriverSession, Error, QueryResult, Result, export_arrow_stream,
};
use hypostyle_sync::Mutex;
use std::sync::Arc;

/// `hypostyle_result`.
pub struct QueryRows {
    session: Arc<DriverSession>,
    pub result: Arc<QueryResult>,
    told: Vec<Told>,
    pub cursor: Mutex<Cursor>,
    /// What C was told of columns' ranges, whose texts it reads here.
    ranges: Mutex<Vec<Arc<ColumnStatistics>>>,
}

impl Kind for QueryRows {
    const MAGIC: u64 = 0x4859_504f_0000_0005;
    const NAME: &'static str = "result";
}

impl QueryRows {
    pub fn new(session: Arc<DriverSession>, result: QueryResult) -> Self {
        let told = result.columns().iter();
        let told = told
            .map(|column| Told::new(Some(&column.name), Some(column.logical_type.clone()), column.nullable));
        let told = told.collect();
        Self { session, result: Arc::new(result), told, cursor: Mutex::default(), ranges: Mutex::default() }
    }

    /// Calls the database for the result.
    pub fn call<T>(&self, work: impl FnOnce(&QueryResult) -> Result<T>) -> Result<T> {
        self.session.call(&CancelMark::default(), |_| work(&self.result))
    }

    pub fn check_column(&self, index: usize) -> Result<()> {
        match self.told.len() {
            count if index < count => Ok(()),
            count => Err(misuse(format!("no column {index}: the result has {count} columns"))),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_result_columns(result: *const Handle<QueryRows>) -> usize {
    // SAFETY: the header says what it is.
    answer(0, || Some(unsafe { Handle::get(result) }.ok()?.told.len()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_result_column(
    result: *const Handle<QueryRows>,
    index: usize,
    column: *mut Column,
    error: Slot,
) -> i32 {
    let work = || {
        // SAFETY: the header says what it is.
        let rows = unsafe { Handle::get(result) }?;
        rows.check_column(index)?;
        // SAFETY: the header says what it is.
        unsafe { write_struct(column, rows.told[index].column()) }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_result_schema(
    result: *const Handle<QueryRows>,
    schema: *mut FFI_ArrowSchema,
    error: Slot,
) -> i32 {
    let work = || {
        check_place(schema, "the schema")?;
        // SAFETY: the header says what they are.
        unsafe { give_schema(schema, &Handle::get(result)?.result.schema()) }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

/// Gives a schema to the caller.
///
/// # Safety
/// `out` is NULL or a place for a schema.
pub unsafe fn give_schema(out: *mut FFI_ArrowSchema, schema: &SchemaRef) -> Result<()> {
    let given = FFI_ArrowSchema::try_from(schema.as_ref()).map_err(not_exported)?;
    // SAFETY: the caller promises this.
    unsafe { give(out, given, "the schema") }
}

fn not_exported(error: ArrowError) -> Error {
    Error::internal(format!("the result is no Arrow data: {error}"))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_result_rows_affected(result: *const Handle<QueryRows>) -> i64 {
    answer(-1, || {
        // SAFETY: the header says what it is.
        let rows = unsafe { Handle::get(result) }.ok()?.result.rows_affected()?;
        i64::try_from(rows).ok()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_result_row_count(
    result: *mut Handle<QueryRows>,
    count: *mut u64,
    error: Slot,
) -> i32 {
    let work = || {
        check_place(count, "the number of rows")?;
        // SAFETY: the header says what they are.
        unsafe { give(count, Handle::get(result)?.call(QueryResult::row_count)?, "the number of rows") }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_result_next(
    result: *mut Handle<QueryRows>,
    array: *mut FFI_ArrowArray,
    error: Slot,
) -> i32 {
    let work = || {
        check_place(array, "the rows")?;
        // SAFETY: the header says what it is.
        let batch = unsafe { Handle::get(result) }?.call(QueryResult::next_batch)?;
        let given = match batch {
            Some(batch) => FFI_ArrowArray::new(&StructArray::from(batch).to_data()),
            None => FFI_ArrowArray::empty(),
        };
        // SAFETY: it is a place.
        unsafe { give(array, given, "the rows") }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

/// The rows of a result that nobody has taken yet.
struct Rest {
    session: Arc<DriverSession>,
    result: Arc<QueryResult>,
    is_over: bool,
}

impl Iterator for Rest {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.session.call(&CancelMark::default(), |_| self.result.next_batch());
        self.is_over = !matches!(next, Ok(Some(_)));
        next.map_err(|error| ArrowError::ExternalError(Box::new(error))).transpose()
    }
}

impl RecordBatchReader for Rest {
    fn schema(&self) -> SchemaRef {
        self.result.schema()
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_result_stream(
    result: *mut Handle<QueryRows>,
    stream: *mut FFI_ArrowArrayStream,
    error: Slot,
) -> i32 {
    let work = || {
        // SAFETY: the header says what it is.
        let rows = unsafe { Handle::get(result) }?;
        let rest = Rest { session: rows.session.clone(), result: rows.result.clone(), is_over: false };
        // SAFETY: the header says what it is.
        unsafe { give(stream, export_arrow_stream(Box::new(rest)), "the stream") }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_result_statistics(
    result: *mut Handle<QueryRows>,
    column: usize,
    statistics: *mut Statistics,
    error: Slot,
) -> i32 {
    let work = || {
        // SAFETY: the header says what it is.
        let rows = unsafe { Handle::get(result) }?;
        rows.check_column(column)?;
        let known = rows.call(|result| result.column_statistics(column))?;
        let mut told = Statistics {
            size: 0,
            known: 0,
            row_count: 0,
            null_count: 0,
            distinct_count: 0,
            minimum: Value::NULL,
            maximum: Value::NULL,
        };
        if let Some(known) = known {
            let known = Arc::new(known);
            rows.ranges.lock().push(known.clone());
            told.row_count = known.rows;
            told.null_count = known.nulls.unwrap_or(0);
            told.distinct_count = known.distinct.unwrap_or(0);
            let of = &rows.result.columns()[column].logical_type;
            if let (Some(minimum), Some(maximum)) = (&known.minimum, &known.maximum) {
                told.minimum = crate::value::bound(minimum, of);
                told.maximum = crate::value::bound(maximum, of);
                told.known |= layout::KNOWN_RANGE | if known.is_exact { layout::KNOWN_EXACT } else { 0 };
            }
            let flag = |is_set, flag| if is_set { flag } else { 0 };
            told.known |= flag(known.nulls.is_some(), layout::KNOWN_NULLS)
                | flag(known.distinct.is_some(), layout::KNOWN_DISTINCT)
                | flag(known.has_nan, layout::MAY_HAVE_NAN);
        }
        // SAFETY: the header says what it is.
        unsafe { write_struct(statistics, told) }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_result_verify(
    result: *mut Handle<QueryRows>,
    column: usize,
    first_row: u64,
    rows: u64,
    error: Slot,
) -> i32 {
    let work = || {
        // SAFETY: the header says what it is.
        let of = unsafe { Handle::get(result) }?;
        of.check_column(column)?;
        let end = first_row.checked_add(rows);
        let count = of.call(QueryResult::row_count)?;
        let end = end.filter(|end| *end <= count).ok_or_else(|| {
            misuse(format!("the result has {count} rows, and not {rows} from row {first_row} on"))
        })?;
        of.call(|result| result.verify_column(column, first_row..end))
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_result_free(result: *mut *mut Handle<QueryRows>) {
    // SAFETY: the header says what it is.
    unsafe { Handle::free(result) };
}
