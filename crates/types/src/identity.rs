//! Whose session it is, and what it may do.

use crate::{Error, ErrorKind, Result};

/// What a session may do besides queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privileges {
    /// Statements that change databases.
    pub write: bool,
    /// Files of this machine by name, ATTACH, limits of all sessions, KILL of others' sessions.
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
    /// `Denied`, naming what was to be done.
    pub fn check_machine(self, what: &str) -> Result<()> {
        if self.machine { Ok(()) } else { Err(denied(what, "admin")) }
    }
}

fn denied(what: &str, role: &str) -> Error {
    Error::new(ErrorKind::Denied, format!("this user may not {what}: it takes the role {role}"))
}

/// Whose session it is, for those who look at the sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub user: String,
    /// Name and version of the program.
    pub client: String,
    /// Where it is: an address, or a process.
    pub peer: String,
    pub privileges: Privileges,
}

impl Default for Identity {
    /// The program that the engine runs in.
    fn default() -> Self {
        Self {
            user: String::new(),
            client: "embedded".into(),
            peer: format!("process {}", std::process::id()),
            privileges: Privileges::ALL,
        }
    }
}
