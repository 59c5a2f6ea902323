//! Who may do what: the users' file.
//!
//! A line is `NAME ROLE VERIFIER`, the verifier in PostgreSQL's form (`SCRAM-SHA-256$…`); `#` begins a comment. The file holds no
//! password. It is read when the server starts and on `SIGHUP`.

use hypostyle_types::{Error, Result, did_you_mean};
use hypostyle_wire::Role;
use hypostyle_wire::scram::{ITERATIONS, Verifier};
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::BTreeMap;
use std::path::Path;

pub(crate) const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 18;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub role: Role,
    pub verifier: Verifier,
}

/// The users of a server.
#[derive(Clone, Debug, Default)]
pub struct Users(BTreeMap<String, User>);

impl Users {
    /// # Errors
    /// `NotFound`, `Io`; `InvalidInput` naming the file and the line, or for a file without a user.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::from_io(&error, format_args!("cannot read the users' file \"{shown}\""))
        })?;
        Self::parse(&text).map_err(|error| error.context(format!("users' file \"{shown}\"")))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut users = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (name, user) =
                parse_line(line).map_err(|error| error.context(format!("line {}", index + 1)))?;
            if users.insert(name.clone(), user).is_some() {
                return Err(Error::invalid_input(format!(
                    "line {}: user \"{name}\" is there twice",
                    index + 1
                )));
            }
        }
        match users.is_empty() {
            true => {
                Err(Error::invalid_input("there is no user in it; `hypostyle user NAME ROLE` writes a line"))
            }
            false => Ok(Self(users)),
        }
    }

    pub fn get(&self, name: &str) -> Option<&User> {
        self.0.get(name)
    }

    /// The line of the file for a user.
    ///
    /// # Errors
    /// `InvalidInput` for a name that cannot stand in the file.
    pub fn line(name: &str, role: Role, password: &str) -> Result<String> {
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c == '#' || c.is_control()) {
            return Err(Error::invalid_input(format!(
                "a user's name has no blanks and no \"#\": \"{name}\""
            )));
        }
        let verifier = Verifier::new(password, random(SALT_BYTES)?, ITERATIONS);
        Ok(format!("{name} {} {verifier}", role.name()))
    }
}

fn parse_line(line: &str) -> Result<(String, User)> {
    let parts: Vec<&str> = line.split_whitespace().collect();
    let [name, role, verifier] = parts.as_slice() else {
        return Err(Error::invalid_input("a line is NAME ROLE VERIFIER; `hypostyle user` writes one"));
    };
    let role = Role::from_name(role).ok_or_else(|| {
        let suggestion = did_you_mean(role, ["read", "write", "admin"]);
        Error::invalid_input(format!("the role is read, write or admin, not \"{role}\"{suggestion}"))
    })?;
    Ok(((*name).to_string(), User { role, verifier: verifier.parse()? }))
}

/// A word that nobody has used before, for one exchange of messages.
pub(crate) fn nonce() -> Result<String> {
    Ok(random(NONCE_BYTES)?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Bytes that nobody can guess.
pub(crate) fn random(length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Error::internal("the system gives no random bytes"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_and_wrong_ones_say_where() {
        let ada = Users::line("ada", Role::Admin, "secret").unwrap();
        let bob = Users::line("bob", Role::Read, "").unwrap();
        let users = Users::parse(&format!("# ours\n{ada}\n\n{bob}  # reads\n")).unwrap();
        assert_eq!(users.get("ada").unwrap().role, Role::Admin);
        assert_eq!(users.get("bob").unwrap().role, Role::Read);
        assert!(users.get("eve").is_none());
        for (text, part) in [
            (format!("{ada}\n{ada}"), "line 2: user \"ada\" is there twice"),
            ("ada raed x".into(), "did you mean \"read\""),
            ("ada read x".into(), "line 1: a password verifier"),
            ("ada".into(), "NAME ROLE VERIFIER"),
            ("# nobody".into(), "there is no user"),
        ] {
            let error = Users::parse(&text).unwrap_err();
            assert!(error.message().contains(part), "{error}");
        }
        assert!(Users::line("a b", Role::Read, "x").is_err());
    }
}
