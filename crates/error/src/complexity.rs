//! The error of statements that are too complex.

use hypostyle_types::{Error, ErrorKind};

/// Why the parser gives up at [`RECURSION_LIMIT`].
pub const NESTED_TOO_DEEPLY: &str = "it is nested too deeply";

/// Returns the error that a statement is too complex, and what to do.
pub fn too_complex(message: impl std::fmt::Display) -> Error {
    let message = format!("the statement is too complex: {message}");
    Error::new(ErrorKind::Syntax, message).with_sqlstate("54001")
}
