//! Statements about sessions, and about the database as a whole.

use crate::cursor::Cursor;
use crate::lexer::TokenKind;
use hypostyle_types::Result;

/// KILL: what ends another session, or only its statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    pub session: u64,
    pub only_statement: bool,
}

/// PRAGMA name, or PRAGMA name = value, whose value may be a bare word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pragma {
    pub name: String,
    /// `None` asks for the value.
    pub value: Option<String>,
}

/// Reads what follows KILL.
///
/// # Errors
/// `Syntax` where something else is written.
pub(super) fn kill(cursor: &mut Cursor<'_>) -> Result<Kill> {
    let only_statement = cursor.take("QUERY");
    let _session = !only_statement && (cursor.take("SESSION") || cursor.take("CONNECTION"));
    let number = cursor.peek().filter(|token| token.kind == TokenKind::Number);
    match number.and_then(|token| token.text.parse().ok()) {
        Some(session) => {
            cursor.next();
            cursor.end()?;
            Ok(Kill { session, only_statement })
        }
        None => Err(cursor.usage("write KILL session_id or KILL QUERY session_id; SHOW SESSIONS lists them")),
    }
}

/// Reads what follows PRAGMA.
///
/// # Errors
/// `Syntax` where there is no name.
pub(super) fn pragma(cursor: &mut Cursor<'_>) -> Result<Pragma> {
    if cursor.is_at_end() {
        return Err(cursor.unexpected("the name of a setting"));
    }
    let name = part(cursor);
    let value = cursor.take_symbol("=").then(|| part(cursor).trim_matches(['\'', '"']).to_string());
    cursor.end().map(|()| Pragma { name, value })
}

/// Reads what follows SET VARIABLE: a name, and the text of a value.
///
/// # Errors
/// `Syntax` where one of them is missing.
pub(super) fn variable<'a>(cursor: &mut Cursor<'a>) -> Result<(String, &'a str)> {
    let name = cursor.name("the name of a variable")?;
    if !cursor.take_symbol("=") && !cursor.take("TO") {
        return Err(cursor.unexpected("= and a value"));
    }
    let start = cursor.start();
    let mut end = start;
    while let Some(token) = cursor.peek().filter(|token| !token.is_symbol(";")) {
        end = token.end();
        cursor.next();
    }
    if end == start {
        return Err(cursor.unexpected("a value"));
    }
    cursor.end()?;
    Ok((name, cursor.text_between(start, end)))
}

/// Reads a text up to a sign of equality, or to the end.
fn part(cursor: &mut Cursor<'_>) -> String {
    let start = cursor.start();
    let mut end = start;
    while let Some(token) = cursor.peek().filter(|token| !token.is_symbol("=") && !token.is_symbol(";")) {
        end = token.end();
        cursor.next();
    }
    cursor.text_between(start, end).into()
}

/// Reads a directory in quotes, and some words before it.
///
/// # Errors
/// `Syntax` with how to write it.
pub(super) fn directory(cursor: &mut Cursor<'_>, words: &[&str], usage: &str) -> Result<String> {
    if !cursor.take_all(words) {
        return Err(cursor.usage(usage));
    }
    match cursor.text("a directory") {
        Ok(directory) if cursor.is_at_end() => Ok(directory),
        _ => Err(cursor.usage(usage)),
    }
}

/// Reads the name of an extension; what follows it means nothing here.
///
/// # Errors
/// `Syntax` where there is none.
pub(super) fn extension(cursor: &mut Cursor<'_>) -> Result<String> {
    let _if = cursor.take_all(&["IF", "NOT", "EXISTS"]) || cursor.take_all(&["IF", "EXISTS"]);
    cursor.name("the name of an extension")
}

#[cfg(test)]
mod tests {
    use super::super::Statement;
    use super::super::tests::parsed;
    use super::*;
    use hypostyle_types::ErrorKind;

    #[test]
    fn sessions_are_killed_by_their_numbers() {
        for (sql, session, only_statement) in [
            ("KILL 7", 7, false),
            ("/* c */ kill query 8;", 8, true),
            ("kill -- c\nSession 9", 9, false),
            ("KILL CONNECTION 10", 10, false),
        ] {
            let Ok(Statement::Kill(kill)) = parsed(sql) else { panic!("{sql}") };
            assert_eq!(kill, Kill { session, only_statement }, "{sql}");
        }
        for wrong in ["KILL", "KILL x", "KILL -1", "KILL 1.5", "KILL 1 2", "KILL QUERY SESSION 1"] {
            assert_eq!(parsed(wrong).unwrap_err().kind(), ErrorKind::Syntax, "{wrong}");
        }
    }

    #[test]
    fn values_of_settings_may_be_bare() {
        for (sql, name, value) in [
            ("/* \u{fc} */ pragma version", "version", None),
            ("PRAGMA threads=4;", "threads", Some("4")),
            ("pragma -- c\ntimezone = 'Europe/Berlin' -- d", "timezone", Some("Europe/Berlin")),
            ("PRAGMA a.b = c d", "a.b", Some("c d")),
            ("PRAGMA memory_limit /* = */ = 4GB", "memory_limit", Some("4GB")),
            ("PRAGMA x =", "x", Some("")),
        ] {
            let Ok(Statement::Pragma(pragma)) = parsed(sql) else { panic!("{sql}") };
            assert_eq!((pragma.name.as_str(), pragma.value.as_deref()), (name, value), "{sql}");
        }
        assert_eq!(parsed("PRAGMA").unwrap_err().kind(), ErrorKind::Syntax);
    }

    #[test]
    fn directories_are_texts() {
        let Ok(Statement::BackupDatabase { directory }) = parsed("backup /* c */ database to 'it''s'") else {
            panic!("a backup");
        };
        assert_eq!(directory, "it's");
        assert!(matches!(parsed("-- c\nEXPORT DATABASE 'd';"), Ok(Statement::ExportDatabase { .. })));
        assert!(matches!(parsed("import database 'd'"), Ok(Statement::ImportDatabase { .. })));
        for (wrong, usage) in [
            ("BACKUP DATABASE 'd'", "write it as BACKUP DATABASE TO 'directory'"),
            ("EXPORT DATABASE TO 'd'", "write it as EXPORT DATABASE 'directory'"),
            ("IMPORT DATABASE 'd' 'e'", "write it as IMPORT DATABASE 'directory'"),
            ("IMPORT DATABASE d", "write it as IMPORT DATABASE 'directory'"),
        ] {
            let error = parsed(wrong).unwrap_err();
            assert_eq!((error.message(), error.sqlstate()), (usage, "42601"), "{wrong}");
        }
    }

    #[test]
    fn extensions_are_known_by_their_names() {
        for (sql, expected) in [
            ("CREATE EXTENSION IF NOT EXISTS \"uuid-ossp\" WITH SCHEMA public", "uuid-ossp"),
            ("drop /* c */ extension if exists HStore", "hstore"),
        ] {
            let Ok(Statement::Extension { name }) = parsed(sql) else { panic!("{sql}") };
            assert_eq!(name, expected);
        }
        assert_eq!(parsed("CREATE EXTENSION").unwrap_err().kind(), ErrorKind::Syntax);
    }
}
