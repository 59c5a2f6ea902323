//! Why the program stops doing what it was told, and the exit status that says so.

use hypostyle::{Error, ErrorKind};
use std::io;

pub type Outcome<T = ()> = Result<T, Failure>;

#[derive(Debug)]
pub enum Failure {
    /// The database refused; `place` is the script and line, where there is one, and `excerpt` the line of the
    /// statement with a caret below what it is about.
    Database { error: Error, place: Option<String>, excerpt: Option<String> },
    /// Our output could not be written.
    Write(io::Error),
    /// `.quit`: no failure, but the end of everything.
    Leave,
}

impl Failure {
    /// Says on standard error what happened; a closed pipe and `.quit` need no words.
    pub fn report(&self) {
        match self {
            Self::Database { error, place, excerpt } => {
                let place = place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
                eprintln!("{place}Error [{} {:?}]: {}", error.sqlstate(), error.kind(), error.message());
                if let Some(excerpt) = excerpt {
                    eprintln!("{excerpt}");
                }
            }
            Self::Write(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                eprintln!("Error [58030 Io]: cannot write the output: {error}");
            }
            Self::Write(_) | Self::Leave => {}
        }
    }

    pub fn exit_status(&self) -> i32 {
        match self {
            Self::Database { error, .. } if error.kind() == ErrorKind::Interrupted => 130,
            Self::Database { .. } => 1,
            Self::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Write(_) => 1,
            Self::Leave => 0,
        }
    }

    /// Whether the session itself ends, not only this statement.
    pub fn ends_session(&self) -> bool {
        match self {
            Self::Leave => true,
            Self::Write(error) => error.kind() == io::ErrorKind::BrokenPipe,
            Self::Database { .. } => false,
        }
    }

    /// Draws where in its statement the error is, as far as that is known.
    pub fn in_statement(self, sql: &str) -> Self {
        match self {
            Self::Database { error, place, .. } => {
                let excerpt = error.excerpt(sql);
                Self::Database { error, place, excerpt }
            }
            other => other,
        }
    }

    /// Whether a script may go on after it: a statement failed by itself, and was not interrupted.
    pub fn is_of_statement(&self) -> bool {
        matches!(self, Self::Database { error, .. } if error.kind() != ErrorKind::Interrupted)
    }

    /// Adds where in a script the statement stands, unless a nested script said so already.
    pub fn at(self, name: &str, line: usize) -> Self {
        match self {
            Self::Database { error, place: None, excerpt } => {
                Self::Database { error, place: Some(format!("{name}:{line}")), excerpt }
            }
            other => other,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Database { error, place: None, excerpt: None }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}
