//! The two texts that an address can be: a URL, and a string of keywords and values.

use crate::address::parameter::{Given, PARAMETERS, wrong};
use hypostyle_types::Result;

/// The beginnings of a URL.
pub const SCHEMES: [&str; 2] = ["postgresql://", "postgres://"];

/// Reads an address of either form.
///
/// # Errors
/// `InvalidInput` with the part that is wrong.
pub fn parse(text: &str) -> Result<Given> {
    match SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme)) {
        Some(rest) => parse_url(rest),
        None => parse_keywords(text),
    }
}

/// Reads `user:password@host:port,host:port/database?name=value&…`.
fn parse_url(rest: &str) -> Result<Given> {
    let mut given = Given::default();
    let (place, options) =
        rest.split_once('?').map_or((rest, None), |(place, options)| (place, Some(options)));
    let is_of_a_password = |(before, _): (&str, &str)| !before.contains('=') && !place.contains('@');
    if options.and_then(|options| options.split_once('@')).is_some_and(is_of_a_password) {
        return Err(wrong("a \"?\" in a user or a password is written as %3F"));
    }
    // A password may have a slash, which ends the hosts otherwise.
    let (who, place) = match place.rsplit_once('@') {
        Some((who, place)) => (Some(who), place),
        None => (None, place),
    };
    let (hosts, database) = place.split_once('/').map_or((place, ""), |(hosts, database)| (hosts, database));
    if let Some(who) = who {
        let (user, password) = who.split_once(':').map_or((who, None), |(user, word)| (user, Some(word)));
        if !user.is_empty() {
            given.set("user", decoded(user, "user")?)?;
        }
        if let Some(password) = password {
            given.set("password", decoded(password, "password")?)?;
        }
    }
    set_hosts(&mut given, hosts)?;
    // A question mark may be in a password, and an ampersand too.
    let mut may_be_secret = options.is_some_and(|options| options.contains('@'));
    if !database.is_empty() {
        given.set("dbname", decoded(database, "dbname")?)?;
    }
    for pair in options.into_iter().flat_map(|options| options.split('&')).filter(|pair| !pair.is_empty()) {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(wrong(format!("{} has no \"=\" between its name and its value", shown(pair))));
        };
        let name = decoded(name, "the name of a parameter")?;
        if may_be_secret && !is_parameter(&name) && name != "ssl" {
            return Err(wrong("a name behind a password is no parameter; a ? or & in one is %3F or %26"));
        }
        let value = decoded(value, &shown(&name))?;
        may_be_secret |= name == "password";
        match (name.as_str(), value.as_str()) {
            // This is how JDBC asks for TLS.
            ("ssl", "true") => given.set("sslmode", "require")?,
            _ => given.set(&name, value)?,
        }
    }
    Ok(given)
}

/// Takes the hosts and their ports from `host:port,[address]:port`.
fn set_hosts(given: &mut Given, hosts: &str) -> Result<()> {
    if hosts.is_empty() {
        return Ok(());
    }
    let (mut names, mut ports) = (Vec::new(), Vec::new());
    for part in hosts.split(',') {
        let (name, port) = match part.strip_prefix('[') {
            Some(rest) => {
                let Some((name, after)) = rest.split_once(']') else {
                    return Err(wrong("host: there is no \"]\" after an address"));
                };
                match after.strip_prefix(':') {
                    None if !after.is_empty() => {
                        return Err(wrong("host: what is after \"]\" is no port"));
                    }
                    port => (name, port.unwrap_or("")),
                }
            }
            None => part.split_once(':').unwrap_or((part, "")),
        };
        names.push(decoded(name, "host")?);
        let port = decoded(port, "port")?;
        // Without a host behind it, a password is where a port would be.
        let is_port = port.bytes().all(|byte| byte.is_ascii_digit())
            && (port.is_empty() || port.parse::<u16>().is_ok_and(|number| number > 0));
        if !is_port {
            return Err(wrong("port: what is behind a host and a colon is no number from 1 to 65535"));
        }
        ports.push(port);
    }
    if names.iter().any(|name| !name.is_empty()) {
        given.set("host", names.join(","))?;
    }
    if ports.iter().any(|port| !port.is_empty()) {
        given.set("port", ports.join(","))?;
    }
    Ok(())
}

/// Decodes the `%xx` of a part of a URL.
fn decoded(text: &str, what: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = after;
            continue;
        }
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        // A sign would be accepted by the conversion of the standard library.
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(0) => return Err(wrong(format!("{what}: %00 is no character"))),
            Some(byte) => bytes.push(byte),
            None => return Err(wrong(format!("{what}: a \"%\" is not followed by two hexadecimal digits"))),
        }
        rest = after.get(2..).unwrap_or_default();
    }
    String::from_utf8(bytes).map_err(|_| wrong(format!("{what}: it is not UTF-8")))
}

/// Returns a word as errors show it: as it is if it is the name of a parameter. Others may be part of a
/// password.
fn shown(word: &str) -> String {
    match is_parameter(word) {
        true => format!("\"{word}\""),
        false => "a word that is no parameter".into(),
    }
}

fn is_parameter(word: &str) -> bool {
    PARAMETERS.iter().any(|parameter| parameter.name == word)
}

/// Reads `host=localhost user='my name' password=it\'s`.
fn parse_keywords(text: &str) -> Result<Given> {
    let mut given = Given::default();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let Some((name, after)) = rest.split_once('=') else {
            let word = rest.split_whitespace().next().unwrap_or_default();
            return Err(wrong(format!("{} is followed by no \"=\" and value", shown(word))));
        };
        let name = name.trim_end();
        if name.contains(char::is_whitespace) {
            let word = name.split_whitespace().next().unwrap_or_default();
            return Err(wrong(format!("{} is followed by no \"=\" and value", shown(word))));
        }
        if !is_parameter(name) && given.get("password").is_some() {
            return Err(wrong("a word behind the password is no parameter; one with blanks is quoted"));
        }
        let (value, after) = keyword_value(name, after.trim_start())?;
        given.set(name, value)?;
        rest = after.trim_start();
    }
    Ok(given)
}

/// Returns the value at the beginning of a text, and what follows it.
fn keyword_value<'a>(name: &str, text: &'a str) -> Result<(String, &'a str)> {
    let quoted = text.strip_prefix('\'');
    let body = quoted.unwrap_or(text);
    let mut value = String::new();
    let mut characters = body.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            '\'' if quoted.is_some() => return Ok((value, body.get(at + 1..).unwrap_or_default())),
            blank if quoted.is_none() && blank.is_whitespace() => {
                return Ok((value, body.get(at..).unwrap_or_default()));
            }
            other => value.push(other),
        }
    }
    match quoted {
        Some(_) => Err(wrong(format!("{name}: the quote of its value is not closed"))),
        None => Ok((value, "")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(pairs: &[(&str, &str)]) -> Given {
        let mut given = Given::default();
        for (name, value) in pairs {
            given.set(name, *value).unwrap();
        }
        given
    }

    #[test]
    fn urls_are_read_as_libpq_reads_them() {
        for (url, expected) in [
            ("postgresql://", &[][..]),
            ("postgres://localhost", &[("host", "localhost")]),
            ("postgresql://localhost:5433", &[("host", "localhost"), ("port", "5433")]),
            ("postgresql://localhost/mydb", &[("host", "localhost"), ("dbname", "mydb")]),
            ("postgresql://u:s%40cret@h/", &[("user", "u"), ("password", "s@cret"), ("host", "h")]),
            (
                "postgresql://other@localhost/otherdb?connect_timeout=10&application_name=my%20app",
                &[
                    ("user", "other"),
                    ("host", "localhost"),
                    ("dbname", "otherdb"),
                    ("connect_timeout", "10"),
                    ("application_name", "my app"),
                ],
            ),
            (
                "postgresql://h1:123,h2:456/db?target_session_attrs=any",
                &[("host", "h1,h2"), ("port", "123,456"), ("dbname", "db"), ("target_session_attrs", "any")],
            ),
            ("postgresql://[2001:db8::1]:1,h2/", &[("host", "2001:db8::1,h2"), ("port", "1,")]),
            (
                "postgresql://%2Fvar%2Flib%2Fpostgresql/dbname",
                &[("host", "/var/lib/postgresql"), ("dbname", "dbname")],
            ),
            (
                "postgresql:///mydb?host=localhost&port=5433",
                &[("dbname", "mydb"), ("host", "localhost"), ("port", "5433")],
            ),
            ("postgresql://h?ssl=true", &[("host", "h"), ("sslmode", "require")]),
        ] {
            assert_eq!(parse(url).unwrap(), given(expected), "{url}");
        }
    }

    #[test]
    fn keywords_are_read_as_libpq_reads_them() {
        for (text, expected) in [
            ("", &[][..]),
            ("host=localhost port=5432", &[("host", "localhost"), ("port", "5432")]),
            (" host = localhost\n user='my \\'name' ", &[("host", "localhost"), ("user", "my 'name")]),
            ("password=a\\ b options=''", &[("password", "a b"), ("options", "")]),
        ] {
            assert_eq!(parse(text).unwrap(), given(expected), "{text}");
        }
    }

    #[test]
    fn errors_name_the_part_that_is_wrong() {
        for (text, part) in [
            ("postgresql://h?sslmod=require", "\"sslmod\""),
            ("postgresql://h?sslmode", "\"sslmode\" has no"),
            ("postgresql://h/%zz", "dbname"),
            ("postgresql://h/%+1", "dbname"),
            ("postgresql://u:%ff@h/", "password"),
            ("postgresql://h/%00", "%00"),
            ("postgresql://[::1", "\"]\""),
            ("postgresql://[::1]x", "no port"),
            ("host", "\"host\""),
            ("host localhost=1", "\"host\""),
            ("user='open", "user"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.message().contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn errors_do_not_show_passwords() {
        for text in [
            "postgresql://u:a?secret@h/",
            "postgresql://u:a?secret@h/?sslmode=require",
            "postgresql://h/?password=a&secret",
            "postgresql://u:%secret@h/",
            "host=h password=a secret",
            "host=h password=a secret user=u",
        ] {
            let error = parse(text).unwrap_err();
            assert!(!error.message().contains("secret"), "{text}: {error}");
        }
        // Of digits alone.
        let error = parse("postgresql://u:12345678/").unwrap_err();
        assert!(
            error.message().starts_with("the address") && !error.message().contains("12345678"),
            "{error}"
        );
        const PASSWORD: &str = "s3cr:t%@/#?x";
        for text in [
            "postgresql://u:*@h/",
            "postgresql://*@h/",
            "postgresql://u:*",
            "postgresql://*:1/",
            "postgresql://u:1*@h/",
            "postgresql://u:1/*@h/",
            "postgresql://u:1?*@h/",
            "postgresql://u:s3cr?x=1@h/",
            "postgresql://h/*",
            "postgresql://h:*/",
            "postgresql://[*/",
            "postgresql://[::1]*/",
            "postgresql://h/?password=*&tls=off",
            "postgresql://h/?password=a&*=off",
            "postgresql://h/?*=on",
            "postgresql://u:1?s3cr=x@h/",
            "host=h password=a *",
            "host=h password=a *=b",
            "host=h password='*",
        ] {
            let error = match parse(&text.replace('*', PASSWORD)) {
                Err(error) => error,
                // What is wrong is a value then, or the server.
                Ok(_) => continue,
            };
            let has_part = ["s3cr", "t%", "#?", "?x"].into_iter().find(|part| error.message().contains(part));
            assert_eq!(has_part, None, "{text}: {error}");
        }
        parse("postgresql://u@h/?password=a@b").unwrap();
        parse("postgresql://h/?user=a@b").unwrap();
    }
}
