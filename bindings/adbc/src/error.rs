//! Turns errors of the database into those of ADBC: a status for the kind, with the same SQLSTATE
//! and message.

use adbc_core::error::{Error, Status};
use hypostyle::ErrorKind;
use std::ffi::c_char;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The SQLSTATE class of wrong passwords and the like. Other refusals are of an authenticated user.
const NOT_WHO_IT_SAYS: &str = "28";

/// The SQLSTATE class of calls that are wrong in themselves.
const OF_THE_CALL: &str = "HY";

fn status(error: &hypostyle::Error) -> Status {
    match error.kind() {
        ErrorKind::Syntax => Status::InvalidArguments,
        ErrorKind::UnknownName | ErrorKind::NotFound => Status::NotFound,
        // A call that does not fit the statement, in contrast to a value that does not.
        ErrorKind::InvalidInput if error.sqlstate().starts_with(OF_THE_CALL) => Status::InvalidArguments,
        ErrorKind::InvalidInput => Status::InvalidData,
        ErrorKind::Constraint => Status::Integrity,
        ErrorKind::AlreadyExists => Status::AlreadyExists,
        // ADBC has no status for either. In Python it becomes an OperationalError, as with other
        // drivers.
        ErrorKind::Conflict | ErrorKind::OutOfMemory => Status::Unknown,
        ErrorKind::Busy | ErrorKind::ReadOnly | ErrorKind::Closed | ErrorKind::TransactionState => {
            Status::InvalidState
        }
        ErrorKind::Interrupted => Status::Cancelled,
        ErrorKind::Unsupported | ErrorKind::Version => Status::NotImplemented,
        ErrorKind::Denied if error.sqlstate().starts_with(NOT_WHO_IT_SAYS) => Status::Unauthenticated,
        ErrorKind::Denied => Status::Unauthorized,
        ErrorKind::Io | ErrorKind::DiskFull | ErrorKind::Corrupt | ErrorKind::Connection => Status::IO,
        _ => Status::Internal,
    }
}

pub fn from_database(error: hypostyle::Error) -> Error {
    let status = status(&error);
    with_sqlstate(error.message(), status, error.sqlstate())
}

/// Returns an error of the driver itself, with an SQLSTATE.
pub fn with_sqlstate(message: impl AsRef<str>, status: Status, sqlstate: &str) -> Error {
    // A C string ends at NUL, and a message that quotes a value may contain one.
    let message = message.as_ref().replace('\0', "\\0");
    let mut error = Error::with_message_and_status(message, status);
    for (place, byte) in error.sqlstate.iter_mut().zip(sqlstate.bytes()) {
        *place = byte as c_char;
    }
    error
}

pub fn invalid_argument(message: impl AsRef<str>) -> Error {
    with_sqlstate(message, Status::InvalidArguments, "HY024")
}

pub fn invalid_state(message: impl AsRef<str>) -> Error {
    with_sqlstate(message, Status::InvalidState, "HY010")
}

pub fn not_implemented(message: impl AsRef<str>) -> Error {
    with_sqlstate(message, Status::NotImplemented, "0A000")
}

pub fn internal(message: impl AsRef<str>) -> Error {
    with_sqlstate(message, Status::Internal, "XX000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_a_status_and_keep_message_and_sqlstate() {
        let error =
            from_database(hypostyle::Error::new(ErrorKind::Constraint, "no\0w").with_sqlstate("23505"));
        assert_eq!(error.status, Status::Integrity);
        assert_eq!(error.message, "no\\0w");
        assert_eq!(error.sqlstate.map(|c| c as u8), *b"23505");
        let denied = hypostyle::Error::new(ErrorKind::Denied, "");
        assert_eq!(from_database(denied.clone()).status, Status::Unauthorized);
        assert_eq!(from_database(denied.with_sqlstate("28P01")).status, Status::Unauthenticated);
        let aborted = hypostyle::Error::new(ErrorKind::TransactionState, "");
        assert_eq!(from_database(aborted).status, Status::InvalidState);
    }
}
