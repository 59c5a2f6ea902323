//! SET, RESET and SHOW.

use super::command::Modes;
use super::words::{Word, Words, unexpected};
use hypostyle::is_own_setting;
use hypostyle::postgres::Settings;
use hypostyle_types::{Error, Result};

/// Settings whose changes the client is told of, whoever made them.
pub(super) const REPORTED: [&str; 13] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
];

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Setting {
    /// `None`: as it is at first. `local`: until the transaction ends.
    Set {
        name: String,
        value: Option<String>,
        local: bool,
    },
    ResetAll,
    /// The modes of this transaction, or of all that follow.
    Transaction {
        modes: Modes,
        session: bool,
    },
}

impl Setting {
    /// Reads what is behind SET.
    pub fn set(mut words: Words<'_>) -> Result<Self> {
        let local = words.accept("LOCAL");
        let session = !local && words.accept("SESSION");
        if session && words.accept("CHARACTERISTICS") {
            words.accept("AS");
            words.accept("TRANSACTION");
            return Ok(Self::Transaction { modes: Modes::read(&mut words)?, session: true });
        }
        if words.accept("TRANSACTION") {
            return Ok(Self::Transaction { modes: Modes::read(&mut words)?, session: false });
        }
        let set = |name: &str, value| Self::Set { name: name.into(), value, local };
        if words.accept("TIME") {
            words.accept("ZONE");
            words.accept("INTERVAL");
            return Ok(set("timezone", default(words.value()?)));
        }
        if words.accept("NAMES") {
            return Ok(set("client_encoding", default(words.value()?)));
        }
        if words.accept("SESSION") || session && words.accept("AUTHORIZATION") {
            words.accept("AUTHORIZATION");
            return match default(words.value()?) {
                None => Ok(set("role", None)),
                Some(_) => {
                    Err(Error::unsupported("a session cannot become another user's; connect as that user"))
                }
            };
        }
        if words.accept("SCHEMA") {
            if !words.accept("TO") {
                words.accept_symbol('=');
            }
            return Ok(set("search_path", default(words.value()?)));
        }
        let name = words.name()?;
        if name == "role" {
            words.accept("TO");
            words.accept_symbol('=');
            return Ok(set("role", default(words.value()?)));
        }
        if !words.accept("TO") && !words.accept_symbol('=') {
            return Err(unexpected("TO or =", words.peek().as_ref()));
        }
        let mut values = vec![words.value()?];
        while words.accept_symbol(',') {
            values.push(words.value()?);
        }
        words.end()?;
        Ok(set(&name, default(values.join(", "))))
    }

    /// Reads what is behind RESET.
    pub fn reset(mut words: Words<'_>) -> Result<Self> {
        if words.accept("ALL") {
            return Ok(Self::ResetAll);
        }
        let name = name_of(&mut words)?;
        Ok(Self::Set { name, value: None, local: false })
    }

    /// Returns a query for the setting that is behind SHOW, one column that is named like it; `None` for what
    /// only the engine shows.
    pub fn shown(mut words: Words<'_>) -> Result<Option<String>> {
        if matches!(words.peek(), Some(Word::Bare(word)) if word.eq_ignore_ascii_case("all")) {
            return Ok(Some(
                "SELECT name, setting, short_desc AS description FROM pg_catalog.pg_settings ORDER BY name"
                    .into(),
            ));
        }
        let name = name_of(&mut words)?;
        let is_known =
            Settings::default().get(&name).is_some() || is_own_setting(&name) || name.contains('.');
        if words.peek().is_some() || !is_known || name.starts_with("datafusion.") {
            return Ok(None);
        }
        let shown = Settings::shown(&name).replace('"', "\"\"");
        Ok(Some(format!("SELECT current_setting('{}') AS \"{shown}\"", name.replace('\'', "''"))))
    }
}

/// A setting's name, some of which are several words.
fn name_of(words: &mut Words<'_>) -> Result<String> {
    if words.accept("TIME") {
        words.accept("ZONE");
        return Ok("timezone".into());
    }
    if words.accept("TRANSACTION") {
        words.accept("ISOLATION");
        words.accept("LEVEL");
        return Ok("transaction_isolation".into());
    }
    if words.accept("SESSION") {
        words.accept("AUTHORIZATION");
        return Ok("session_authorization".into());
    }
    words.name()
}

fn default(value: String) -> Option<String> {
    let is_default = value.eq_ignore_ascii_case("default") || value.eq_ignore_ascii_case("local");
    (!is_default).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_many_forms() {
        let set = |name: &str, value: Option<&str>, local| Setting::Set {
            name: name.into(),
            value: value.map(str::to_string),
            local,
        };
        for (sql, expected) in [
            ("extra_float_digits = 3", set("extra_float_digits", Some("3"), false)),
            ("LOCAL search_path TO a, \"B\"", set("search_path", Some("a, B"), true)),
            ("TIME ZONE 'Europe/Berlin'", set("timezone", Some("Europe/Berlin"), false)),
            ("SESSION x.y = DEFAULT", set("x.y", None, false)),
            ("SESSION AUTHORIZATION DEFAULT", set("role", None, false)),
            (
                "SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
                Setting::Transaction {
                    modes: Modes { read_only: Some(true), ..Modes::default() },
                    session: true,
                },
            ),
        ] {
            assert_eq!(Setting::set(Words::of(sql)).unwrap(), expected, "{sql}");
        }
        assert!(Setting::set(Words::of("a")).is_err());
        let shown = Setting::shown(Words::of("TRANSACTION ISOLATION LEVEL")).unwrap().unwrap();
        assert_eq!(shown, "SELECT current_setting('transaction_isolation') AS \"transaction_isolation\"");
        let shown = Setting::shown(Words::of("\"a.b\"\" '\"")).unwrap().unwrap();
        assert_eq!(shown, "SELECT current_setting('a.b\" ''') AS \"a.b\"\" '\"");
        let shown = Setting::shown(Words::of("Threads")).unwrap().unwrap();
        assert_eq!(shown, "SELECT current_setting('threads') AS \"threads\"");
        for of_engine in ["tables", "settings", "indexes FROM t", "datafusion.execution.batch_size"] {
            assert_eq!(Setting::shown(Words::of(of_engine)).unwrap(), None, "{of_engine}");
        }
    }
}
