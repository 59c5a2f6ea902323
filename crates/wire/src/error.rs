//! Arrow's errors as the protocol's.

use arrow_schema::ArrowError;
use hypostyle_types::Error;

/// What Arrow finds wrong with what came.
pub(crate) fn refused(error: ArrowError) -> Error {
    Error::protocol(format!("a column cannot be: {error}"))
}

/// Arrow's errors where an array is not what its type says.
pub(crate) fn arrow_error(error: ArrowError) -> Error {
    Error::internal(format!("cannot encode a column: {error}"))
}
