//! Settings of the session: PostgreSQL's, and the engine's that its clients may set, too.

use super::Session;
use crate::pgwire::setting::{REPORTED, Setting};
use arrow::array::timezone::Tz;
use hypostyle::is_own_setting;
use hypostyle::postgres::Configured;
use hypostyle_types::{Error, Result};

/// Says whether the engine keeps a setting by itself. Of the zone the session keeps a copy.
fn is_of_engine(name: &str) -> bool {
    name != "timezone" && (is_own_setting(name) || name.starts_with("datafusion."))
}

impl Session {
    /// The settings in a startup's `options`: `-c name=value`, with backslashes before blanks.
    pub(super) fn set_options(&mut self, options: &str) -> Result<()> {
        let mut arguments: Vec<String> = vec![String::new()];
        let mut characters = options.chars();
        while let Some(character) = characters.next() {
            match (character, arguments.last_mut()) {
                ('\\', Some(last)) => last.extend(characters.next()),
                (blank, _) if blank.is_whitespace() => arguments.push(String::new()),
                (other, Some(last)) => last.push(other),
                (_, None) => {}
            }
        }
        for argument in &arguments {
            let setting = argument.trim_start_matches("--").trim_start_matches("-c");
            if let Some((name, value)) = setting.split_once('=') {
                self.set(&name.replace('-', "_"), Some(value), false)?;
            }
        }
        Ok(())
    }

    /// The name of the time zone, for times that are written without one.
    pub(super) fn zone_name(&self) -> String {
        self.settings.get("timezone").unwrap_or_else(|| "UTC".into())
    }

    /// Sets what a statement says, and gives its tag.
    pub(super) fn change(&mut self, setting: &Setting) -> Result<&'static str> {
        match setting {
            Setting::Set { name, value, local } => {
                self.set(name, value.as_deref(), *local)?;
                Ok(if value.is_some() { "SET" } else { "RESET" })
            }
            Setting::ResetAll => {
                self.settings.reset_all();
                self.set("timezone", None, false)?;
                self.set("search_path", None, false)?;
                Ok("RESET")
            }
            Setting::Transaction { modes, session } => {
                if modes.is_serializable() {
                    return Err(Error::unsupported(
                        "transactions are not serializable: they have snapshot isolation, which is stronger than \
                         REPEATABLE READ; leave the level out",
                    ));
                }
                if *session {
                    if let Some(read_only) = modes.read_only {
                        let value = if read_only { "on" } else { "off" };
                        self.settings.set("default_transaction_read_only", value)?;
                    }
                } else if self.connection.is_in_transaction() {
                    self.connection.execute(&format!("SET TRANSACTION{modes}"))?;
                } else {
                    self.warn("25P01", "SET TRANSACTION can only be used in transaction blocks");
                }
                Ok("SET")
            }
        }
    }

    /// Sets a setting, or with no value resets it.
    pub(super) fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<()> {
        // Types may follow from settings.
        self.known.forget();
        let name = name.to_ascii_lowercase();
        if local {
            if !self.connection.is_in_transaction() {
                self.warn("25P01", "SET LOCAL can only be used in transaction blocks");
                return Ok(());
            }
            // The engine takes back its own ones.
            if !is_of_engine(&name) {
                self.note_local(&name, self.settings.get(&name));
            }
        }
        match name.as_str() {
            "timezone" => {
                self.connection.change_setting("timezone", Some(value.unwrap_or("UTC")), false)?;
                self.zone = zone(&self.zone_name())?;
                Ok(())
            }
            "search_path" => {
                self.connection.change_setting("search_path", Some(value.unwrap_or("main")), false)
            }
            engine if is_of_engine(engine) => self.connection.change_setting(engine, value, local),
            "role" if value.is_some_and(|role| role != "none" && role != self.settings.user()) => {
                Err(Error::unsupported("a session cannot take another role; connect as that user"))
            }
            other => match value {
                Some(value) => self.settings.set(other, value),
                None => self.settings.reset(other),
            },
        }
    }

    /// Notes what a setting is again at the end of the transaction, or behind a return to the last savepoint.
    fn note_local(&mut self, name: &str, before: Option<String>) {
        let first = self.savepoints.last().map_or(0, |savepoint| savepoint.local);
        let is_noted = self.local.iter().skip(first).any(|(noted, _)| noted == name);
        if !is_noted {
            self.local.push((name.to_string(), before));
        }
    }

    /// Does what `set_config` has asked for in a query before, also one of the same group of messages: what
    /// is prepared, described and run behind it means the same each time.
    pub(super) fn take_configured(&mut self) -> Result<()> {
        let configured = self.settings.take_configured();
        if !configured.is_empty() {
            self.known.forget();
        }
        if self.connection.is_transaction_failed() {
            self.settings.undo(configured);
            return Ok(());
        }
        for Configured { name, before, is_local } in configured {
            if is_local && !self.connection.is_in_transaction() {
                self.set(&name, before.as_deref(), false)?;
                continue;
            }
            if is_local {
                self.note_local(&name, before);
            }
            if matches!(name.as_str(), "timezone" | "search_path") {
                let value = self.settings.get(&name);
                self.set(&name, value.as_deref(), false)?;
            }
        }
        Ok(())
    }

    /// Tells the client of settings that have changed, if they are ones that it wants to know.
    pub(super) fn tell_settings(&mut self) {
        if let Err(error) = self.take_configured() {
            self.report(&error, None);
        }
        // They are not asked one by one after each statement.
        let changes = self.settings.changes();
        if self.told_at.replace(changes) == Some(changes) {
            return;
        }
        // PRAGMA sets them past the session.
        self.known.forget();
        if let Ok(now) = zone(&self.zone_name()) {
            self.zone = now;
        }
        for name in REPORTED {
            let value = self.settings.get(name).unwrap_or_default();
            if self.told.get(name) != Some(&value) {
                self.output.replies.parameter_status(name, &value);
                self.told.insert(name, value);
            }
        }
    }
}

/// A time zone by its name.
pub(super) fn zone(name: &str) -> Result<Tz> {
    name.parse().map_err(|_| {
        Error::invalid_input(format!("invalid value for parameter \"TimeZone\": \"{name}\""))
            .with_sqlstate("22023")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_checked() {
        assert!(zone("UTC").is_ok() && zone("Europe/Berlin").is_ok() && zone("+02:00").is_ok());
        assert_eq!(zone("nowhere").unwrap_err().sqlstate(), "22023");
    }
}
