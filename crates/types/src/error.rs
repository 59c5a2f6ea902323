//! The one public error type.
//!
//! A kind exists only where a caller acts differently on it; the message names the thing, the value
//! and what to do. Each kind has one SQLSTATE, so that drivers and servers report the same class.

use crate::excerpt::excerpt;
use std::fmt;

pub type Result<T, E = Error> = std::result::Result<T, E>;

const SQLSTATE_BYTES: usize = 5;

/// What a caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The SQL text does not parse or does not plan.
    Syntax,
    /// There is no table, column, function or setting of that name.
    UnknownName,
    /// A value has the wrong type or shape, is out of range, or cannot be decoded.
    InvalidInput,
    /// NOT NULL or another constraint is violated.
    Constraint,
    /// A table, schema or view of that name exists already.
    AlreadyExists,
    /// There is no such file or directory.
    NotFound,
    /// The operating system refused a read or write.
    Io,
    /// No space is left; what was committed before is intact.
    DiskFull,
    /// Bytes on disk are damaged: checksum, length or structure.
    Corrupt,
    /// A newer version of Hypostyle wrote the data.
    Version,
    /// Another process holds the database.
    Busy,
    /// A write goes to a database that was opened read-only.
    ReadOnly,
    /// Another transaction committed first.
    Conflict,
    /// The state of the transaction does not allow the statement: it is aborted, none is open, or
    /// one is.
    TransactionState,
    /// The caller has cancelled the statement.
    Interrupted,
    /// The memory limit is reached and the operator cannot spill.
    OutOfMemory,
    /// The SQL is valid, but Hypostyle does not support it.
    Unsupported,
    /// The database, connection or result is closed.
    Closed,
    /// The connection to a server cannot be made, is broken, or carries bytes that the protocol
    /// does not allow.
    Connection,
    /// The user may not do this, or is not authenticated.
    Denied,
    /// An invariant of Hypostyle itself is broken: please report it.
    Internal,
}

impl ErrorKind {
    /// Returns the SQLSTATE class and code (ISO/IEC 9075-2, PostgreSQL appendix A).
    pub fn sqlstate(self) -> &'static str {
        match self {
            Self::Syntax => "42601",
            Self::UnknownName => "42P01",
            Self::InvalidInput => "22000",
            Self::Constraint => "23000",
            Self::AlreadyExists => "42P07",
            Self::NotFound => "58P01",
            Self::Io => "58030",
            Self::DiskFull => "53100",
            Self::Corrupt => "XX001",
            Self::Version => "0A000",
            Self::Busy => "55006",
            Self::ReadOnly => "25006",
            Self::Conflict => "40001",
            Self::TransactionState => "25000",
            Self::Interrupted => "57014",
            Self::OutOfMemory => "53200",
            Self::Unsupported => "0A000",
            Self::Closed => "08003",
            Self::Connection => "08006",
            Self::Denied => "42501",
            Self::Internal => "XX000",
        }
    }
}

/// The place of an error in the text of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// The character, from 1.
    Character(usize),
    /// A description by which the place is found in the text.
    Mark(Mark),
}

/// A place in a text as a parser reports it. The parser may have read another text than the
/// statement's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The word at the place.
    pub word: Option<String>,
    /// The line and the column, from 1.
    pub line_and_column: Option<(u64, u64)>,
}

/// An error: its kind, a sentence for a person, and a SQLSTATE for a program.
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    /// The SQLSTATE in ASCII.
    sqlstate: [u8; SQLSTATE_BYTES],
    /// Says that the peer of the connection cannot be reached.
    is_unreachable: bool,
    place: Option<Box<Place>>,
    detail: Option<Box<str>>,
}

impl Error {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let error = Self {
            kind,
            message: message.into(),
            sqlstate: [0; SQLSTATE_BYTES],
            is_unreachable: false,
            place: None,
            detail: None,
        };
        error.with_sqlstate(kind.sqlstate())
    }

    /// Returns the error for bytes that the protocol does not allow (docs/protocol.md).
    pub fn protocol(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Connection, message).with_sqlstate("08P01")
    }

    /// Replaces the kind's general SQLSTATE by a more specific one of five characters.
    pub fn with_sqlstate(mut self, sqlstate: &str) -> Self {
        match sqlstate.as_bytes().try_into() {
            Ok(characters) if sqlstate.is_ascii() => self.sqlstate = characters,
            _ => debug_assert!(false, "an SQLSTATE has five characters, {sqlstate:?} has not"),
        }
        self
    }

    /// Says that the peer of the connection cannot be reached: it is gone, or silent.
    pub fn unreachable(mut self) -> Self {
        self.is_unreachable = true;
        self
    }

    /// Says whether the peer of the connection that the error is about cannot be reached. An error
    /// that a peer has sent never says so, whatever it is about.
    pub fn is_unreachable(&self) -> bool {
        self.is_unreachable
    }

    /// Says in PostgreSQL's words what the error is about, as its clients read it.
    pub fn with_detail(mut self, detail: impl Into<Box<str>>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// What the error is about, in PostgreSQL's words.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// Says at which character of the statement's text, from 1, the error is.
    pub fn at(mut self, position: usize) -> Self {
        self.place = Some(Box::new(Place::Character(position.max(1))));
        self
    }

    /// Sets a description by which the place is found in the statement's text, which is not known
    /// here.
    pub fn marked(mut self, mark: Mark) -> Self {
        self.place = Some(Box::new(Place::Mark(mark)));
        self
    }

    /// Sets the word of the statement that the error is about, unless its place is known.
    pub fn about(self, word: &str) -> Self {
        match self.place {
            Some(_) => self,
            None => self.marked(Mark { word: Some(word.into()), line_and_column: None }),
        }
    }

    /// Returns the character of the statement's text, from 1, that the error is about.
    pub fn position(&self) -> Option<usize> {
        match self.place.as_deref()? {
            Place::Character(position) => Some(*position),
            Place::Mark(_) => None,
        }
    }

    /// Returns the description by which the place is found, as long as the place is not known.
    pub fn mark(&self) -> Option<&Mark> {
        match self.place.as_deref()? {
            Place::Character(_) => None,
            Place::Mark(mark) => Some(mark),
        }
    }

    /// Removes the place of the error, because it is in a text that the caller has not written.
    pub fn nowhere(mut self) -> Self {
        self.place = None;
        self
    }

    /// Returns the line of the statement's text that the error is about, with a caret below the
    /// place ([`excerpt`]).
    pub fn excerpt(&self, text: &str) -> Option<String> {
        excerpt(text, self.position()?)
    }

    /// Puts a description of the operation in front of the message.
    pub fn context(mut self, doing: impl fmt::Display) -> Self {
        self.message = format!("{doing}: {}", self.message);
        self
    }

    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn sqlstate(&self) -> &str {
        std::str::from_utf8(&self.sqlstate).unwrap_or(ErrorKind::Internal.sqlstate())
    }

    /// Returns an operating system error on a file, with the kind that a caller can act on.
    pub fn from_io(error: &std::io::Error, doing: impl fmt::Display) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            // A limit on the size of files (ulimit -f, some file systems) counts as a full disk.
            std::io::ErrorKind::StorageFull
            | std::io::ErrorKind::QuotaExceeded
            | std::io::ErrorKind::FileTooLarge => ErrorKind::DiskFull,
            std::io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
            std::io::ErrorKind::OutOfMemory => ErrorKind::OutOfMemory,
            _ => ErrorKind::Io,
        };
        Self::new(kind, format!("{doing}: {error}{}", advice(error)))
    }

    pub fn invalid_input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    pub fn interrupted() -> Self {
        Self::new(ErrorKind::Interrupted, "the statement was interrupted")
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }
}

/// Says what a person can do about an error of the operating system.
fn advice(error: &std::io::Error) -> &'static str {
    /// Linux's number for too many open files, in this process or in all.
    const EMFILE: i32 = 24;
    const ENFILE: i32 = 23;
    const EIO: i32 = 5;
    match (error.kind(), error.raw_os_error()) {
        (std::io::ErrorKind::StorageFull, _) => {
            "; what was committed is there: make room, or give rows back with DELETE and VACUUM, and try again"
        }
        (std::io::ErrorKind::QuotaExceeded, _) => {
            "; what was committed is there: raise the quota, and try again"
        }
        (std::io::ErrorKind::FileTooLarge, _) => {
            "; what was committed is there: raise the limit of a file's size (ulimit -f), and try again"
        }
        (std::io::ErrorKind::ReadOnlyFilesystem, _) => {
            "; mount it for writing, or open the database read-only"
        }
        (std::io::ErrorKind::PermissionDenied, _) => "; see to the permissions of the file and its directory",
        (_, Some(EMFILE | ENFILE)) => "; raise the limit of open files (ulimit -n)",
        (_, Some(EIO)) => "; the device or its file system fails: see the system's log, and have a backup",
        _ => "",
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} [{}]: {}", self.kind, self.sqlstate(), self.message)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_say_what_to_do() {
        let of = |errno: i32| Error::from_io(&std::io::Error::from_raw_os_error(errno), "writing \"a\"");
        for (errno, kind, advice) in [
            (28, ErrorKind::DiskFull, "make room"),
            (122, ErrorKind::DiskFull, "raise the quota"),
            (27, ErrorKind::DiskFull, "ulimit -f"),
            (30, ErrorKind::ReadOnly, "open the database read-only"),
            (13, ErrorKind::Io, "permissions"),
            (24, ErrorKind::Io, "ulimit -n"),
            (5, ErrorKind::Io, "backup"),
        ] {
            let error = of(errno);
            assert_eq!(error.kind(), kind, "{error}");
            let message = error.message();
            assert!(message.starts_with("writing \"a\": ") && message.contains(advice), "{message}");
        }
        assert_eq!(of(2).kind(), ErrorKind::NotFound);
    }
}
