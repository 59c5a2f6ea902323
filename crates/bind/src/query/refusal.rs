//! The errors of clauses, which are made where they are found.

use datafusion::error::DataFusionError;
use hypostyle_error::external;
use hypostyle_types::{Error, ErrorKind};

/// An error of what a statement says, with its SQLSTATE.
pub fn refused(sqlstate: &str, message: impl Into<String>) -> DataFusionError {
    external(Error::new(ErrorKind::Syntax, message).with_sqlstate(sqlstate))
}

/// An error of a name that nothing has.
pub fn unknown(sqlstate: &str, message: impl Into<String>, name: &str) -> DataFusionError {
    external(Error::new(ErrorKind::UnknownName, message).with_sqlstate(sqlstate).about(name))
}

/// An error of a clause that there is not.
pub fn unsupported(what: impl std::fmt::Display) -> DataFusionError {
    external(Error::unsupported(format!("{what} is not supported")))
}

/// An error of the binder itself.
pub fn internal(message: &str) -> DataFusionError {
    DataFusionError::Internal(message.into())
}
