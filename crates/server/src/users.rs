//! Who may do what: the users' file.
//!
//! A line is `NAME ROLE VERIFIER`, the verifier in PostgreSQL's form (`SCRAM-SHA-256$…`); `#`
//! begins a comment. The file holds no password. It is read when the server starts and on `SIGHUP`.
//! Beside it stands a file whose name ends in `.secret`, made at the first start: from it is made
//! what users that there are not are asked with, the same at every start.

use hypostyle_auth::scram::{ITERATIONS, Verifier};
use hypostyle_types::{Error, Result};
use hypostyle_wire::Role;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{ErrorKind as IoErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

pub(crate) const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 18;
const SECRET_BYTES: usize = 32;

/// Permissions of everybody who is neither the owner nor of the group.
const OTHERS: u32 = 0o007;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub role: Role,
    pub verifier: Verifier,
}

/// The users of a server.
#[derive(Clone, Default)]
pub struct Users {
    users: BTreeMap<String, User>,
    /// Makes the salts of users that there are not.
    secret: Vec<u8>,
}

impl std::fmt::Debug for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.users.keys()).finish()
    }
}

impl Users {
    /// # Errors
    /// `NotFound`, `Io`; `InvalidInput` naming the file and the line, or for a file without a user.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::from_io(&error, format_args!("cannot read the users' file \"{shown}\""))
        })?;
        let mut users =
            Self::parse(&text).map_err(|error| error.context(format!("users' file \"{shown}\"")))?;
        warn_if_others_may(path, "the users' file");
        users.secret = match kept_secret(path) {
            Ok(secret) => secret,
            Err(error) => {
                tracing::info!(
                    %error,
                    hint = "make the directory writable for one start, or put 32 random bytes there",
                    "no secret can be kept beside the users' file: one is made of an admin's line"
                );
                users.derived_secret()
            }
        };
        Ok(users)
    }

    /// Makes a secret of a verifier, which nobody knows who asks for names: an admin's, who stays for
    /// long, mostly.
    fn derived_secret(&self) -> Vec<u8> {
        let highest = self.users.values().max_by_key(|user| user.role);
        let verifier = highest.map(|user| user.verifier.to_string()).unwrap_or_default();
        ring::digest::digest(&ring::digest::SHA256, verifier.as_bytes()).as_ref().to_vec()
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
            false => Ok(Self { users, secret: Vec::new() }),
        }
    }

    pub fn get(&self, name: &str) -> Option<&User> {
        self.users.get(name)
    }

    /// What a user that there is not is asked with: like one of those that there are, and the same each time.
    pub(crate) fn decoy(&self, name: &str) -> Verifier {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.secret);
        let hash = |what: &str| {
            let mut context = hmac::Context::with_key(&key);
            [what.as_bytes(), &[0], name.as_bytes()].iter().for_each(|part| context.update(part));
            context.sign()
        };
        // Another user more or less leaves it like the same one, mostly.
        let like = self.users.iter().max_by_key(|(other, _)| hash(other).as_ref().to_vec());
        let like = like.map(|(_, user)| &user.verifier);
        let iterations = like.map_or(ITERATIONS, |verifier| verifier.iterations);
        let salt_bytes = like.map_or(SALT_BYTES, |verifier| verifier.salt.len());
        let mut salt = Vec::new();
        for number in 0_u32.. {
            if salt.len() >= salt_bytes {
                break;
            }
            salt.extend_from_slice(hash(&format!("salt {number}")).as_ref());
        }
        salt.truncate(salt_bytes);
        Verifier { iterations, salt, stored_key: [0; 32], server_key: [0; 32] }
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

/// The secret beside a users' file, which is made when it is not there.
fn kept_secret(users: &Path) -> Result<Vec<u8>> {
    let path = users.with_added_extension("secret");
    let failed =
        |error: std::io::Error| Error::from_io(&error, format_args!("cannot keep \"{}\"", path.display()));
    let fresh = random(SECRET_BYTES)?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
        Ok(mut file) => {
            file.write_all(&fresh).and_then(|()| file.sync_all()).map_err(failed)?;
            Ok(fresh)
        }
        Err(error) if error.kind() == IoErrorKind::AlreadyExists => {
            let secret = std::fs::read(&path).map_err(failed)?;
            warn_if_others_may(&path, "the secret beside the users' file");
            match secret.len() >= SECRET_BYTES {
                true => Ok(secret),
                false => Err(Error::invalid_input(format!(
                    "\"{}\" has fewer than {SECRET_BYTES} bytes; remove it, and it is made anew",
                    path.display()
                ))),
            }
        }
        Err(error) => Err(failed(error)),
    }
}

/// Warns of a file of users or secrets that every user of this machine may read or write.
pub(crate) fn warn_if_others_may(path: &Path, what: &str) {
    let Ok(metadata) = path.metadata() else { return };
    let mode = metadata.permissions().mode() & 0o777;
    if mode & OTHERS != 0 {
        let file = path.display();
        tracing::warn!(%file, mode = format!("{mode:o}"), "{what} is open to every user of this machine; chmod 600 it");
    }
}

fn parse_line(line: &str) -> Result<(String, User)> {
    let parts: Vec<&str> = line.split_whitespace().collect();
    let [name, role, verifier] = parts.as_slice() else {
        return Err(Error::invalid_input("a line is NAME ROLE VERIFIER; `hypostyle user` writes one"));
    };
    Ok(((*name).to_string(), User { role: role.parse()?, verifier: verifier.parse()? }))
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
    fn users_that_there_are_not_look_like_those_that_there_are() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("users");
        let line = |name: &str, iterations| {
            format!("{name} read {}\n", Verifier::new(name, vec![iterations as u8; 20], iterations))
        };
        std::fs::write(&path, line("ada", 4096) + &line("bob", 5000)).unwrap();
        let users = Users::read(&path).unwrap();
        let names: Vec<String> = (0..64).map(|number| format!("nobody {number}")).collect();
        let asked = |users: &Users| -> Vec<(u32, Vec<u8>)> {
            let decoys = names.iter().map(|name| users.decoy(name));
            decoys.map(|decoy| (decoy.iterations, decoy.salt)).collect()
        };
        // The same after a new start, and with other users.
        assert_eq!(asked(&users), asked(&Users::read(&path).unwrap()));
        std::fs::write(&path, line("ada", 4096) + &line("bob", 5000) + &line("eve", 5000)).unwrap();
        let salts = |asked: Vec<(u32, Vec<u8>)>| asked.into_iter().map(|(_, salt)| salt).collect::<Vec<_>>();
        assert_eq!(salts(asked(&users)), salts(asked(&Users::read(&path).unwrap())));
        // As often as the users that there are, with as many bytes.
        for iterations in [4096, 5000] {
            assert!(asked(&users).iter().any(|(found, _)| *found == iterations));
        }
        assert!(asked(&users).iter().all(|(_, salt)| salt.len() == 20));
        let mode = path.with_added_extension("secret").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // Where no secret can be kept the users' file gives one.
        std::fs::write(path.with_added_extension("secret"), "short").unwrap();
        assert_eq!(asked(&Users::read(&path).unwrap()), asked(&Users::read(&path).unwrap()));
    }

    #[test]
    fn lines_come_back_and_wrong_ones_say_where() {
        let ada = Users::line("ada", Role::Admin, "secret").unwrap();
        let bob = Users::line("bob", Role::Read, "").unwrap();
        let node = Users::line("n1", Role::Cluster, "x").unwrap();
        let users = Users::parse(&format!("# ours\n{ada}\n\n{bob}  # reads\n{node}")).unwrap();
        assert_eq!(users.get("n1").unwrap().role, Role::Cluster);
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
