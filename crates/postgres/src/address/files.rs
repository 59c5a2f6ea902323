//! The files that libpq reads: those of passwords and of services.

use crate::address::parameter::{Given, PARAMETERS, wrong};
use hypostyle_types::Result;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The bits of a file's mode that let others than its owner read or write it.
const OTHERS: u32 = 0o077;

/// What a password is for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub host: &'a str,
    pub port: &'a str,
    pub database: &'a str,
    pub user: &'a str,
}

/// Returns the password that a file of passwords has for a server. A file that others may read has
/// none, as in libpq.
pub fn password(path: &Path, wanted: &Wanted<'_>) -> Option<String> {
    let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    if metadata.mode() & OTHERS != 0 {
        return None;
    }
    std::fs::read_to_string(path).ok()?.lines().find_map(|line| password_of_line(line, wanted))
}

/// Returns the password of the line `host:port:database:user:password` if it is for a server.
fn password_of_line(line: &str, wanted: &Wanted<'_>) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let mut rest = line;
    for value in [wanted.host, wanted.port, wanted.database, wanted.user] {
        let (field, after) = field(rest)?;
        if field.0 != value && !field.1 {
            return None;
        }
        rest = after;
    }
    let mut password = String::new();
    let mut characters = rest.chars();
    while let Some(character) = characters.next() {
        password.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    (!password.is_empty()).then_some(password)
}

/// Returns the first field of a line without its escapes, whether it stands for everything, and the
/// rest of the line.
fn field(line: &str) -> Option<((String, bool), &str)> {
    let mut field = String::new();
    let mut characters = line.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => field.extend(characters.next().map(|(_, escaped)| escaped)),
            ':' => return Some(((field, line.get(..at) == Some("*")), line.get(at + 1..)?)),
            other => field.push(other),
        }
    }
    None
}

/// Adds the parameters of a service that a file describes to those without a value. Returns whether
/// the file has the service.
///
/// # Errors
/// `InvalidInput` with the line that is wrong.
pub fn add_service(path: &Path, service: &str, given: &mut Given) -> Result<bool> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(false) };
    let mut is_inside = false;
    let mut is_found = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            if is_found {
                break;
            }
            is_inside = name == service;
            is_found |= is_inside;
            continue;
        }
        if !is_inside {
            continue;
        }
        let place = || format!("line {} of the service file \"{}\"", number + 1, path.display());
        let Some((name, value)) = line.split_once('=') else {
            return Err(wrong(format!("{}: it has no \"=\"", place())));
        };
        let name = name.trim();
        match PARAMETERS.iter().find(|parameter| parameter.name == name) {
            Some(parameter) if !matches!(name, "service" | "servicefile") => {
                given.set_default(parameter, value.trim());
            }
            Some(_) => return Err(wrong(format!("{}: a service names no other service", place()))),
            None => return Err(wrong(format!("{}: there is no parameter \"{name}\"", place()))),
        }
    }
    Ok(is_found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_those_of_the_first_line_that_fits() {
        let wanted = Wanted { host: "h", port: "5432", database: "d:b", user: "u" };
        for (line, password) in [
            ("h:5432:d\\:b:u:secret", Some("secret")),
            ("*:*:*:*:a\\:b\\\\", Some("a:b\\")),
            ("*:*:*:*:a:b", Some("a:b")),
            ("\\*:*:*:*:x", None),
            ("h:5432:d\\:b:other:x", None),
            ("#*:*:*:*:x", None),
            ("h:5432", None),
            ("h:5432:*:u:", None),
            ("", None),
        ] {
            assert_eq!(password_of_line(line, &wanted).as_deref(), password, "{line}");
        }
    }
}
