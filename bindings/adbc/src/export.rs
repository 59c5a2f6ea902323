//! The entry points for C: those of `adbc_ffi`, four of which are wrapped.
//!
//! * Bound data is checked here: `adbc_ffi` panics at a struct that is NULL, and after a panic
//!   refuses every call. It believes the lengths and offsets of data.
//! * The number of rows is reported although the program takes a stream. A program takes a stream
//!   if it cannot know what kind a statement is.
//! * A stream that fails reports its status and SQLSTATE, for which Arrow's streams have no field.

use crate::driver::Driver;
use crate::error::{internal, invalid_argument};
use crate::imported::{StreamRows, batch_of};
use crate::reader::Failure;
use crate::session::panicked;
use adbc_core::constants::ADBC_STATUS_OK;
use adbc_core::error::{AdbcStatusCode, Status};
use adbc_ffi::{FFI_AdbcDriver, FFI_AdbcError, FFI_AdbcStatement, FFIDriver, check_err, export_driver};
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatchIterator, RecordBatchReader};
use hypostyle::export_arrow_stream;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

/// The driver that a driver manager loads.
pub struct Exported;

export_driver!(AdbcDriverHypostyleInit, Exported);

/// The driver that is wrapped.
static INNER: LazyLock<FFI_AdbcDriver> = LazyLock::new(Driver::ffi_driver);

impl FFIDriver for Exported {
    fn ffi_driver() -> FFI_AdbcDriver {
        let mut driver = Driver::ffi_driver();
        driver.StatementBind = Some(statement_bind);
        driver.StatementBindStream = Some(statement_bind_stream);
        driver.StatementExecuteQuery = Some(statement_execute_query);
        driver.ErrorFromArrayStream = Some(error_from_array_stream);
        driver
    }
}

/// The results of an execution besides its stream.
struct Told {
    rows: Option<i64>,
    failure: Failure,
}

thread_local! {
    static TOLD: RefCell<Option<Told>> = const { RefCell::new(None) };
}

/// Keeps the results of an execution at its end, on the thread that C called.
pub fn hand_over(rows: Option<i64>, failure: Failure) {
    TOLD.set(Some(Told { rows, failure }));
}

/// SAFETY: the arguments are those of `AdbcStatementBind`.
unsafe extern "C" fn statement_bind(
    statement: *mut FFI_AdbcStatement,
    values: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    if values.is_null() || schema.is_null() {
        check_err!(Err(invalid_argument("nothing was given to bind")), error);
    }
    let batch = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: neither is null. The caller gives the array away and lends the schema, as ADBC says.
        unsafe { batch_of(FFI_ArrowArray::from_raw(values), &*schema) }.map_err(not_bound)
    }));
    let batch = check_err!(batch.unwrap_or_else(|panic| Err(panicked(panic.as_ref()))), error);
    let schema = batch.schema();
    let rows = Box::new(RecordBatchIterator::new([Ok(batch)], schema));
    // SAFETY: the caller promises this.
    unsafe { bind_rows(statement, rows, error) }
}

/// SAFETY: the arguments are those of `AdbcStatementBindStream`.
unsafe extern "C" fn statement_bind_stream(
    statement: *mut FFI_AdbcStatement,
    rows: *mut FFI_ArrowArrayStream,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    if rows.is_null() {
        check_err!(Err(invalid_argument("nothing was given to bind")), error);
    }
    let rows = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: it is not null, and the caller gives it away.
        unsafe { StreamRows::open(FFI_ArrowArrayStream::from_raw(rows)) }.map_err(not_bound)
    }));
    let rows = check_err!(rows.unwrap_or_else(|panic| Err(panicked(panic.as_ref()))), error);
    // SAFETY: the caller promises this.
    unsafe { bind_rows(statement, Box::new(rows), error) }
}

fn not_bound(error: hypostyle::Error) -> adbc_core::error::Error {
    invalid_argument(format!("what is bound: {}", error.message()))
}

/// # Safety
/// `statement` and `error` are those of a call of ADBC's.
unsafe fn bind_rows(
    statement: *mut FFI_AdbcStatement,
    rows: Box<dyn RecordBatchReader + Send>,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    let mut stream = export_arrow_stream(rows);
    match INNER.StatementBindStream {
        // SAFETY: the stream is valid, and the function takes ownership of it.
        Some(bind) => unsafe { bind(statement, &raw mut stream, error) },
        None => check_err!(Err(internal("nothing binds streams")), error),
    }
}

/// SAFETY: the arguments are those of `AdbcStatementExecuteQuery`.
unsafe extern "C" fn statement_execute_query(
    statement: *mut FFI_AdbcStatement,
    out: *mut FFI_ArrowArrayStream,
    rows_affected: *mut i64,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    TOLD.set(None);
    let status = match INNER.StatementExecuteQuery {
        // SAFETY: the caller promises this.
        Some(execute) => unsafe { execute(statement, out, rows_affected, error) },
        None => check_err!(Err(internal("nothing executes")), error),
    };
    if status == ADBC_STATUS_OK
        && !out.is_null()
        && let Some(told) = TOLD.take()
    {
        if !rows_affected.is_null() {
            // SAFETY: it is not null, and the caller lets it be written to.
            unsafe { rows_affected.write_unaligned(told.rows.unwrap_or(-1)) };
        }
        // SAFETY: `out` has just been filled; its stream moves into the new one.
        unsafe { out.write_unaligned(Coat::around(out.read_unaligned(), told.failure)) };
    }
    status
}

/// A wrapper of a stream that keeps the stream's error. Only one thread at a time calls it, as is
/// true of all Arrow streams.
struct Coat {
    inner: FFI_ArrowArrayStream,
    failure: Failure,
    /// The reported error, which lives as long as the stream.
    told: Option<(CString, FFI_AdbcError, AdbcStatusCode)>,
}

impl Coat {
    fn around(inner: FFI_ArrowArrayStream, failure: Failure) -> FFI_ArrowArrayStream {
        let coat = Box::new(Self { inner, failure, told: None });
        FFI_ArrowArrayStream {
            get_schema: Some(coat_schema),
            get_next: Some(coat_next),
            get_last_error: Some(coat_last_error),
            release: Some(coat_release),
            private_data: Box::into_raw(coat).cast::<c_void>(),
        }
    }

    /// # Safety
    /// `stream` is null or points to a stream, which stays valid while the result is used.
    unsafe fn of<'a>(stream: *mut FFI_ArrowArrayStream) -> Option<&'a mut Self> {
        // SAFETY: the caller promises this.
        let stream = unsafe { stream.as_ref() }?;
        // Other streams have other functions, and released ones have none.
        let is_ours =
            stream.release.is_some_and(|release| release as usize == coat_release as *const () as usize);
        // SAFETY: `around` created it, and nobody else has it.
        if is_ours { unsafe { stream.private_data.cast::<Self>().as_mut() } } else { None }
    }

    /// Keeps the reason why the inner stream has failed.
    fn fail(&mut self, code: c_int) -> c_int {
        let Some(error) = self.failure.get() else { return code };
        let code = errno(error.status);
        let status = AdbcStatusCode::from(error.status);
        let message = CString::new(error.message.clone()).unwrap_or_default();
        self.told = FFI_AdbcError::try_from(error).ok().map(|error| (message, error, status));
        code
    }
}

/// Returns the number of an operating system's error, which is what Arrow's streams give.
fn errno(status: Status) -> c_int {
    match status {
        Status::NotFound => 2,
        Status::IO => 5,
        Status::Unauthorized | Status::Unauthenticated => 13,
        Status::NotImplemented => 38,
        Status::Timeout => 110,
        Status::Cancelled => 125,
        _ => 22,
    }
}

const EINVAL: c_int = 22;

/// SAFETY: `stream` is a stream that is not released, or null; `out` is writable.
unsafe extern "C" fn coat_schema(stream: *mut FFI_ArrowArrayStream, out: *mut FFI_ArrowSchema) -> c_int {
    // SAFETY: the caller promises this.
    let Some(coat) = (unsafe { Coat::of(stream) }) else { return EINVAL };
    let Some(get_schema) = coat.inner.get_schema else { return EINVAL };
    // SAFETY: the inner stream is alive, and the caller lets `out` be written to.
    unsafe { get_schema(&raw mut coat.inner, out) }
}

/// SAFETY: as for `coat_schema`.
unsafe extern "C" fn coat_next(stream: *mut FFI_ArrowArrayStream, out: *mut FFI_ArrowArray) -> c_int {
    // SAFETY: the caller promises this.
    let Some(coat) = (unsafe { Coat::of(stream) }) else { return EINVAL };
    let Some(get_next) = coat.inner.get_next else { return EINVAL };
    // SAFETY: the inner stream is alive, and the caller lets `out` be written to.
    match unsafe { get_next(&raw mut coat.inner, out) } {
        0 => 0,
        code => coat.fail(code),
    }
}

/// SAFETY: as for `coat_schema`. The text is valid until the next call of the stream.
unsafe extern "C" fn coat_last_error(stream: *mut FFI_ArrowArrayStream) -> *const c_char {
    // SAFETY: the caller promises this.
    let Some(coat) = (unsafe { Coat::of(stream) }) else { return std::ptr::null() };
    match (&coat.told, coat.inner.get_last_error) {
        (Some((message, ..)), _) => message.as_ptr(),
        // SAFETY: the inner stream is alive.
        (None, Some(last)) => unsafe { last(&raw mut coat.inner) },
        (None, None) => std::ptr::null(),
    }
}

/// SAFETY: `stream` is null or a stream that is not used any more.
unsafe extern "C" fn coat_release(stream: *mut FFI_ArrowArrayStream) {
    // SAFETY: the caller promises this.
    let Some(coat) = (unsafe { Coat::of(stream) }) else { return };
    let coat: *mut Coat = coat;
    // SAFETY: `of` has checked that the stream is there.
    let stream = unsafe { &mut *stream };
    (stream.get_schema, stream.get_next, stream.get_last_error, stream.release) = (None, None, None, None);
    stream.private_data = std::ptr::null_mut();
    // SAFETY: `around` created it with `Box::into_raw`, and only the stream had it. The inner
    // stream is dropped with it, and its work ends. A panic there is one of the database that
    // nobody can receive.
    let _gone = catch_unwind(|| drop(unsafe { Box::from_raw(coat) }));
}

/// SAFETY: the arguments are those of `AdbcErrorFromArrayStream`.
unsafe extern "C" fn error_from_array_stream(
    stream: *mut FFI_ArrowArrayStream,
    status: *mut AdbcStatusCode,
) -> *const FFI_AdbcError {
    // SAFETY: the caller promises this.
    let told = unsafe { Coat::of(stream) }.and_then(|coat| coat.told.as_ref());
    let Some((_, error, code)) = told else { return std::ptr::null() };
    if !status.is_null() {
        // SAFETY: it is not null, and the caller lets it be written to.
        unsafe { status.write_unaligned(*code) };
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Result;
    use arrow_array::{Array, ArrayRef, Int32Array, RecordBatch, StructArray};
    use arrow_buffer::NullBuffer;
    use arrow_schema::{DataType, Field};
    use std::sync::Arc;

    fn bound(array: &dyn Array) -> Result<RecordBatch> {
        let (values, schema) = arrow_array::ffi::to_ffi(&array.to_data()).unwrap();
        // SAFETY: both come from the same array.
        unsafe { batch_of(values, &schema) }.map_err(not_bound)
    }

    #[test]
    fn only_rows_are_bound() {
        let column: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        let fields = vec![Arc::new(Field::new("a", DataType::Int32, true))];
        let rows = StructArray::new(fields.clone().into(), vec![column.clone()], None);
        assert_eq!(bound(&rows).unwrap().num_rows(), 2);
        assert_eq!(bound(&column).unwrap_err().status, Status::InvalidArguments);
        let nulls = NullBuffer::from(vec![true, false]);
        let with_null = StructArray::new(fields.into(), vec![column], Some(nulls));
        assert!(bound(&with_null).unwrap_err().message.contains("NULL"));
    }

    #[test]
    fn others_streams_are_not_taken_for_ours() {
        let mut empty = FFI_ArrowArrayStream::empty();
        // SAFETY: it is a stream.
        assert!(unsafe { Coat::of(&raw mut empty) }.is_none());
        // SAFETY: null is allowed.
        assert!(unsafe { error_from_array_stream(std::ptr::null_mut(), std::ptr::null_mut()) }.is_null());
    }
}
