//! Errors on their way to the client (protocol.md §8).

use super::field::{Field, body};
use super::result::Transaction;
use crate::cursor::{Reader, Writer};
use hypostyle_types::{Error, ErrorKind, Result};

/// An error on its way to the client.
#[derive(Clone, Debug)]
pub struct Failure {
    /// 0 for the connection's.
    pub query: u32,
    pub error: Error,
    /// Whether the connection closes.
    pub fatal: bool,
    pub transaction: Transaction,
}

/// The kinds in the order of their numbers (§8).
const KINDS: [ErrorKind; 21] = [
    ErrorKind::Syntax,
    ErrorKind::UnknownName,
    ErrorKind::InvalidInput,
    ErrorKind::Constraint,
    ErrorKind::AlreadyExists,
    ErrorKind::NotFound,
    ErrorKind::Io,
    ErrorKind::DiskFull,
    ErrorKind::Corrupt,
    ErrorKind::Version,
    ErrorKind::Busy,
    ErrorKind::ReadOnly,
    ErrorKind::Conflict,
    ErrorKind::Interrupted,
    ErrorKind::OutOfMemory,
    ErrorKind::Unsupported,
    ErrorKind::Closed,
    ErrorKind::Internal,
    ErrorKind::Denied,
    ErrorKind::Connection,
    ErrorKind::TransactionState,
];

impl Field for Failure {
    fn write(&self, to: &mut Writer) {
        let kind = KINDS.iter().position(|kind| *kind == self.error.kind());
        let internal = KINDS.iter().position(|kind| *kind == ErrorKind::Internal);
        to.u32(self.query).raw(self.error.sqlstate().as_bytes());
        let number = kind.or(internal).and_then(|number| u8::try_from(number).ok());
        to.u8(number.unwrap_or_default()).u8(u8::from(self.fatal));
        self.transaction.write(to);
        to.text(self.error.message());
        if let Some(position) = self.error.position().and_then(|position| u32::try_from(position).ok()) {
            to.u32(position);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let query = from.u32()?;
        let sqlstate = from.take(5)?;
        let kind = KINDS.get(usize::from(from.u8()?)).copied().unwrap_or(ErrorKind::Internal);
        let sqlstate = std::str::from_utf8(sqlstate)
            .ok()
            .filter(|state| state.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()))
            .ok_or_else(|| Error::protocol("an SQLSTATE is five capitals and digits"))?;
        let fatal = from.flag()?;
        let transaction = Field::read(from)?;
        let error = Error::new(kind, from.text()?).with_sqlstate(sqlstate);
        let error = match from.is_empty() {
            true => error,
            false => error.at(from.u32()? as usize),
        };
        Ok(Self { query, error, fatal, transaction })
    }
}

body!(Failure, Error);
