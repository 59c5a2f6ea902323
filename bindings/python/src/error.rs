//! Errors of the database as exceptions of the class that `hypostyle.errors` gives their kind.

use crate::poll;
use arrow::error::ArrowError;
use hypostyle::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// The exception for an error of the database. An interruption that a signal handler asked for becomes
/// the exception the handler raised (KeyboardInterrupt).
pub fn to_exception(py: Python<'_>, error: Error) -> PyErr {
    in_statement(py, error, "")
}

/// The same for an error of a statement, whose text is shown where the error has a place in it.
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

/// `DataError`: a value or shape that does not fit.
pub fn invalid_input(py: Python<'_>, message: impl Into<String>) -> PyErr {
    to_exception(py, Error::invalid_input(message))
}

/// An Arrow kernel's error, which for the conversions here is always about the data.
pub fn from_arrow(py: Python<'_>, error: &ArrowError) -> PyErr {
    match error {
        // What a producer or its schema says, to which the name of the interface adds nothing.
        ArrowError::CDataInterface(message) => invalid_input(py, message),
        error => invalid_input(py, error.to_string()),
    }
}
