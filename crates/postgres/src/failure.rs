//! Errors and notices as the server sends them.

use crate::message::Cursor;
use hypostyle_types::{Error, ErrorKind, Result};

/// An error or a notice of the server, with all that it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// ERROR, WARNING, NOTICE and so on, not translated.
    pub severity: String,
    pub sqlstate: String,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// The character of the statement, from 1.
    pub position: Option<usize>,
    /// What the server was doing.
    pub context: Option<String>,
    pub schema: Option<String>,
    pub table: Option<String>,
    pub column: Option<String>,
    pub constraint: Option<String>,
}

impl Notice {
    /// Reads the body of an error or notice.
    pub fn decode(body: &[u8]) -> Result<Self> {
        let mut notice = Self::default();
        let mut cursor = Cursor(body);
        loop {
            let field = cursor.u8()?;
            if field == 0 {
                return Ok(notice);
            }
            let length = memchr::memchr(0, cursor.0).unwrap_or(cursor.0.len());
            // Before the login is complete, the server does not know that it should send UTF-8.
            let text = String::from_utf8_lossy(cursor.bytes(length)?).into_owned();
            cursor.u8()?;
            match field {
                b'V' => notice.severity = text,
                b'S' if notice.severity.is_empty() => notice.severity = text,
                b'C' => notice.sqlstate = text,
                b'M' => notice.message = text,
                b'D' => notice.detail = Some(text),
                b'H' => notice.hint = Some(text),
                b'P' => notice.position = text.parse().ok(),
                b'W' => notice.context = Some(text),
                b's' => notice.schema = Some(text),
                b't' => notice.table = Some(text),
                b'c' => notice.column = Some(text),
                b'n' => notice.constraint = Some(text),
                _ => {}
            }
        }
    }

    /// Says whether the server ends the session with it.
    pub fn is_fatal(&self) -> bool {
        matches!(self.severity.as_str(), "FATAL" | "PANIC")
    }

    /// Returns the error. The hint stands on a line of its own below the message.
    pub fn error(&self) -> Error {
        let message = match &self.hint {
            Some(hint) => format!("{}\nHint: {hint}", self.message),
            None => self.message.clone(),
        };
        let mut error = Error::new(kind_of(&self.sqlstate), message);
        if self.sqlstate.len() == 5 && self.sqlstate.is_ascii() {
            error = error.with_sqlstate(&self.sqlstate);
        }
        if let Some(detail) = &self.detail {
            error = error.with_detail(detail.as_str());
        }
        match self.position {
            Some(position) => error.at(position),
            None => error,
        }
    }

    /// Returns the row and the column of the data that the context of COPY names:
    /// `COPY t, line 3, column a: "x"`.
    pub fn copied(&self) -> Option<(u64, Option<&str>)> {
        let context = self.context.as_deref()?;
        let (_, after) = context.strip_prefix("COPY ")?.split_once(", line ")?;
        let digits = after.split(|character: char| !character.is_ascii_digit()).next()?;
        let row = digits.parse().ok()?;
        let column = after.get(digits.len()..)?.strip_prefix(", column ");
        let column = column.map(|rest| rest.split_once(':').map_or(rest, |(name, _)| name));
        Some((row, column.map(|column| column.lines().next().unwrap_or(column))))
    }
}

/// Returns the kind of an SQLSTATE, by what a caller can do about it.
fn kind_of(sqlstate: &str) -> ErrorKind {
    match sqlstate {
        "42501" => ErrorKind::Denied,
        "42P01" | "42703" | "42883" | "42704" | "42P02" | "3D000" | "3F000" => ErrorKind::UnknownName,
        "42P07" | "42710" | "42P06" | "42P04" | "42723" | "42P05" => ErrorKind::AlreadyExists,
        "25006" => ErrorKind::ReadOnly,
        "53100" => ErrorKind::DiskFull,
        "53300" | "55006" | "55P03" => ErrorKind::Busy,
        "57014" => ErrorKind::Interrupted,
        "58P01" => ErrorKind::NotFound,
        "XX001" | "XX002" => ErrorKind::Corrupt,
        _ => match sqlstate.get(..2).unwrap_or_default() {
            "08" | "57" => ErrorKind::Connection,
            "0A" => ErrorKind::Unsupported,
            "22" | "54" | "55" | "P0" => ErrorKind::InvalidInput,
            "23" | "27" | "44" => ErrorKind::Constraint,
            "25" | "2D" | "3B" => ErrorKind::TransactionState,
            "28" | "2F" => ErrorKind::Denied,
            "40" => ErrorKind::Conflict,
            "42" | "34" | "26" | "21" => ErrorKind::Syntax,
            "53" => ErrorKind::OutOfMemory,
            "58" => ErrorKind::Io,
            _ => ErrorKind::InvalidInput,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_what_the_server_says() {
        let body = b"SFEHLER\0VERROR\0C42703\0Mcolumn \"b\" does not exist\0Dd\0Hh\0P8\0ta\0Zunknown\0\0";
        let notice = Notice::decode(body).unwrap();
        assert_eq!((notice.severity.as_str(), notice.is_fatal()), ("ERROR", false));
        assert_eq!(notice.table.as_deref(), Some("a"));
        let error = notice.error();
        assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::UnknownName, "42703"));
        assert_eq!(error.message(), "column \"b\" does not exist\nHint: h");
        assert_eq!((error.detail(), error.position()), (Some("d"), Some(8)));
        for length in 0..body.len() {
            assert!(Notice::decode(&body[..length]).is_err());
        }
        let odd = Notice { sqlstate: "é".into(), ..Notice::default() };
        assert_eq!(odd.error().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn the_context_of_copy_names_row_and_column() {
        let of = |context: &str| Notice { context: Some(context.into()), ..Notice::default() };
        assert_eq!(of("COPY t, line 3, column a: \"x\"").copied(), Some((3, Some("a"))));
        assert_eq!(of("COPY t, line 3, column a").copied(), Some((3, Some("a"))));
        assert_eq!(of("COPY t, line 12: \"1,2\"").copied(), Some((12, None)));
        assert_eq!(of("COPY t, line 12").copied(), Some((12, None)));
        assert_eq!(of("SQL function").copied(), None);
        assert_eq!(of("COPY t, line x").copied(), None);
    }
}
