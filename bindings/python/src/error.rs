//! Turns errors of the database into exceptions of the class that `hypostyle.errors` has for their
//! kind.

use crate::poll;
use arrow::error::ArrowError;
use hypostyle::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the exception for an error of the database. An interruption that a signal handler has
/// caused becomes the exception that the handler raised (KeyboardInterrupt).
pub fn to_exception(py: Python<'_>, error: Error) -> PyErr {
    in_statement(py, error, "")
}

/// Returns the exception for an error of a statement. If the error has a place in the statement's
/// text, the text is shown.
pub fn in_statement(py: Python<'_>, error: Error, sql: &str) -> PyErr {
    if error.kind() == ErrorKind::Interrupted
        && let Some(raised) = poll::take_raised()
    {
        return raised;
    }
    build(py, &error, sql).unwrap_or_else(|failure| failure)
}

fn build(py: Python<'_>, error: &Error, sql: &str) -> PyResult<PyErr> {
    static CLASSES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let classes = CLASSES.import(py, "hypostyle.errors", "BY_KIND")?;
    let class = match classes.get_item(format!("{:?}", error.kind()))? {
        Some(class) => class,
        None => py.import("hypostyle.errors")?.getattr("DatabaseError")?,
    };
    let excerpt = error.excerpt(sql).unwrap_or_default();
    Ok(PyErr::from_value(class.call1((error.message(), error.sqlstate(), error.position(), excerpt))?))
}

/// Returns a `DataError`: a value or shape that does not fit.
pub fn invalid_input(py: Python<'_>, message: impl Into<String>) -> PyErr {
    to_exception(py, Error::invalid_input(message))
}

/// Returns an Arrow kernel's error, which for the conversions here is always about the data.
pub fn from_arrow(py: Python<'_>, error: &ArrowError) -> PyErr {
    if let ArrowError::ExternalError(inner) = error
        && let Some(own) = inner.downcast_ref::<Error>()
    {
        return to_exception(py, own.clone());
    }
    match error {
        // This is the text of a producer or its schema, to which the name of the interface adds
        // nothing.
        ArrowError::CDataInterface(message) => invalid_input(py, message),
        error => invalid_input(py, error.to_string()),
    }
}

/// Runs a call of the program's. A panic in it is an error of the database: the exception that pyo3
/// makes of one is no `Exception`, and passes by those who handle errors.
///
/// # Errors
/// Those of the call; `InternalError` for a panic.
pub fn guarded<T>(py: Python<'_>, call: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(to_exception(py, panicked(&*panic))))
}

/// Returns the error for a panic.
pub fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("for an unknown reason");
    Error::internal(format!("the call panicked ({text}); please report it"))
}
