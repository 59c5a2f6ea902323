//! The identity of a session's user, and what it may do.

use crate::{Error, ErrorKind, Result};

/// The rights of a session besides queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privileges {
    /// The right to run statements that change databases.
    pub write: bool,
    /// The right to name files of this machine, to attach databases, to set limits of all sessions,
    /// and to end the sessions of others.
    pub machine: bool,
}

impl Privileges {
    pub const READ: Self = Self { write: false, machine: false };
    pub const WRITE: Self = Self { write: true, machine: false };
    pub const ALL: Self = Self { write: true, machine: true };

    /// # Errors
    /// `Denied`.
    pub fn check_write(self) -> Result<()> {
        if self.write { Ok(()) } else { Err(denied("change the database", "write")) }
    }

    /// # Errors
    /// `Denied` with the refused action.
    pub fn check_machine(self, what: &str) -> Result<()> {
        if self.machine { Ok(()) } else { Err(denied(what, "admin")) }
    }
}

fn denied(what: &str, role: &str) -> Error {
    Error::new(ErrorKind::Denied, format!("this user may not {what}: it takes the role {role}"))
}

/// The identity of a session's client, for lists of sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub user: String,
    /// The name and version of the program.
    pub client: String,
    /// The client's address, or its process.
    pub peer: String,
    pub privileges: Privileges,
}

impl Default for Identity {
    /// Returns the program that the engine runs in.
    fn default() -> Self {
        Self {
            user: String::new(),
            client: "embedded".into(),
            peer: format!("process {}", std::process::id()),
            privileges: Privileges::ALL,
        }
    }
}
