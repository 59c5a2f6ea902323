//! The reasons why the program stops its work, and their exit status.

use hypostyle::{Error, ErrorKind};
use std::io;

pub type Outcome<T = ()> = Result<T, Failure>;

#[derive(Debug)]
pub enum Failure {
    /// The database gave an error. `place` is the script and the line, if there is one. `excerpt`
    /// is the line of the statement with a caret below the place.
    Database { error: Error, place: Option<String>, excerpt: Option<String> },
    /// The output could not be written.
    Write(io::Error),
    /// `.quit` was given: it is no failure, but ends everything.
    Leave,
}

impl Failure {
    /// Reports the failure on standard error. A closed pipe and `.quit` are not reported.
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

    /// Says whether the session itself ends, and not only this statement.
    pub fn ends_session(&self) -> bool {
        match self {
            Self::Leave => true,
            Self::Write(error) => error.kind() == io::ErrorKind::BrokenPipe,
            Self::Database { .. } => false,
        }
    }

    /// Shows the place of the error in its statement, if it is known.
    pub fn in_statement(self, sql: &str) -> Self {
        match self {
            Self::Database { error, place, .. } => {
                let excerpt = error.excerpt(sql);
                Self::Database { error, place, excerpt }
            }
            other => other,
        }
    }

    /// Says whether a script may continue: the statement failed by itself and was not interrupted.
    pub fn is_of_statement(&self) -> bool {
        matches!(self, Self::Database { error, .. } if error.kind() != ErrorKind::Interrupted)
    }

    /// Adds the statement's place in a script, unless a nested script has added its own.
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
