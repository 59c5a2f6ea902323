//! Settings that PostgreSQL's clients read and set. Most of them have no effect here. They are
//! kept, so that a client reads back what it has set. Settings that the engine has itself, such as
//! the time zone, are the engine's.

use hypostyle_expr::time_zone::session_zone;
use hypostyle_sync::{Mutex, RwLock, RwLockWriteGuard};
use hypostyle_types::{Error, ErrorKind, Result, did_you_mean};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The version of PostgreSQL whose catalogs and protocol these are.
pub const SERVER_VERSION_NUM: &str = "150000";

/// Returns the version in the form that clients parse: PostgreSQL's first.
pub fn server_version() -> String {
    format!("15.0 (Hypostyle {})", env!("CARGO_PKG_VERSION"))
}

/// Returns what `version()` gives.
pub fn version() -> String {
    format!("PostgreSQL {} on {}-{}", server_version(), std::env::consts::ARCH, std::env::consts::OS)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Free,
    /// The server's, not the session's.
    Fixed,
    /// Only these values are valid.
    OneOf(&'static [&'static str]),
    /// Milliseconds, or a number with a unit.
    Time,
}
use Change::{Fixed, Free, OneOf, Time};

const SWITCH: Change = OneOf(&["on", "off", "true", "false", "yes", "no", "1", "0"]);
const ON: Change = OneOf(&["on", "true", "yes", "1"]);
const LEVELS: Change = OneOf(&["read uncommitted", "read committed", "repeatable read"]);

/// The longest name of a client's program, which is cut there, as by PostgreSQL: the client is told of it in
/// a message, of which drivers take no more than a few thousand bytes.
const PROGRAM_BYTES_MAX: usize = 63;

/// The bytes of a session's settings, with their names. Nothing else limits what a client makes up.
const BYTES_MAX: usize = 1 << 20;

/// Names as PostgreSQL shows them, with what they are at first and what they may become.
const KNOWN: [(&str, &str, Change); 50] = [
    ("application_name", "", Free),
    ("array_nulls", "on", ON),
    ("backslash_quote", "safe_encoding", Free),
    ("bytea_output", "hex", OneOf(&["hex", "escape"])),
    ("check_function_bodies", "on", SWITCH),
    ("client_encoding", "UTF8", OneOf(&["UTF8", "UTF-8", "unicode", "SQL_ASCII", "auto"])),
    ("client_min_messages", "notice", Free),
    ("DateStyle", "ISO, MDY", Free),
    ("default_table_access_method", "heap", Free),
    ("default_tablespace", "", Free),
    ("default_transaction_deferrable", "off", SWITCH),
    ("default_transaction_isolation", "repeatable read", LEVELS),
    ("default_transaction_read_only", "off", SWITCH),
    ("escape_string_warning", "on", SWITCH),
    ("extra_float_digits", "1", Free),
    ("geqo", "on", SWITCH),
    ("idle_in_transaction_session_timeout", "0", Time),
    ("idle_session_timeout", "0", Time),
    ("in_hot_standby", "off", Fixed),
    ("integer_datetimes", "on", Fixed),
    ("IntervalStyle", "postgres", OneOf(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"])),
    ("is_superuser", "on", Fixed),
    ("jit", "off", SWITCH),
    ("lc_collate", "C", Fixed),
    ("lc_ctype", "C", Fixed),
    ("lc_messages", "C", Free),
    ("lc_monetary", "C", Free),
    ("lc_numeric", "C", Free),
    ("lc_time", "C", Free),
    ("lock_timeout", "0", Time),
    ("max_identifier_length", "255", Fixed),
    ("max_index_keys", "32", Fixed),
    ("password_encryption", "scram-sha-256", OneOf(&["scram-sha-256"])),
    ("quote_all_identifiers", "off", SWITCH),
    ("role", "none", Free),
    ("row_security", "on", SWITCH),
    ("search_path", "main", Free),
    ("server_encoding", "UTF8", Fixed),
    ("server_version", "", Fixed),
    ("server_version_num", SERVER_VERSION_NUM, Fixed),
    ("session_authorization", "hypostyle", Fixed),
    ("session_replication_role", "origin", Free),
    ("standard_conforming_strings", "on", ON),
    ("statement_timeout", "0", Time),
    ("synchronize_seqscans", "on", SWITCH),
    ("synchronous_commit", "on", Free),
    ("TimeZone", "UTC", Free),
    ("transaction_isolation", "repeatable read", LEVELS),
    ("transaction_read_only", "off", SWITCH),
    ("xmloption", "content", Free),
];

fn known(name: &str) -> Option<&'static (&'static str, &'static str, Change)> {
    KNOWN.iter().find(|(known, _, _)| known.eq_ignore_ascii_case(name))
}

/// Tells the value of a setting.
type Tells = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Tells the values of settings that are the engine's.
struct OfEngine(Box<Tells>);

impl std::fmt::Debug for OfEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OfEngine")
    }
}

/// A setting that `set_config` has changed within a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configured {
    /// The name in lower case.
    pub name: String,
    /// The value before.
    pub before: Option<String>,
    /// The change ends with its transaction.
    pub is_local: bool,
}

/// The settings of one session, and who its client is.
#[derive(Debug, Default)]
pub struct Settings {
    /// The values by their names in lower case. Settings that were never set are missing.
    values: RwLock<BTreeMap<String, String>>,
    /// Counts changes of the values.
    changes: AtomicU64,
    of_engine: OnceLock<OfEngine>,
    /// What the session has not yet done for `set_config`.
    configured: Mutex<Vec<Configured>>,
    process: AtomicU32,
    /// The client speaks PostgreSQL's protocol.
    wire: AtomicBool,
}

impl Settings {
    /// Returns a number that becomes another one with each change.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Returns the values to change them.
    fn changed(&self) -> RwLockWriteGuard<'_, BTreeMap<String, String>> {
        let values = self.values.write();
        self.changes.fetch_add(1, Ordering::AcqRel);
        values
    }

    /// Returns the value of a setting, of one of PostgreSQL's or one that the client has made up.
    pub fn get(&self, name: &str) -> Option<String> {
        if name.eq_ignore_ascii_case("server_version") {
            return Some(server_version());
        }
        let value = self.values.read().get(&name.to_ascii_lowercase()).cloned();
        let known = || known(name).map(|(_, value, _)| (*value).to_string());
        let of_engine = || self.of_engine.get().and_then(|of_engine| of_engine.0(&name.to_ascii_lowercase()));
        value.or_else(known).or_else(of_engine)
    }

    /// Has the engine tell the values of settings that are its own.
    pub fn ask_engine(&self, of_engine: impl Fn(&str) -> Option<String> + Send + Sync + 'static) {
        let _already = self.of_engine.set(OfEngine(Box::new(of_engine)));
    }

    /// Returns the name as PostgreSQL shows it.
    pub fn shown(name: &str) -> String {
        known(name).map_or_else(|| name.to_ascii_lowercase(), |(known, _, _)| (*known).to_string())
    }

    /// # Errors
    /// `42704` for a name that there is not, `55P02` for one that cannot be changed, `22023` for a
    /// value that is not right, `54000` for more than a session may keep. A name with a dot is the client's
    /// own.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        let key = name.to_ascii_lowercase();
        let Some((known, _, change)) = known(name) else {
            if name.contains('.') || self.values.read().contains_key(&key) {
                return self.keep(key, value.to_string());
            }
            return Err(unknown(name));
        };
        let wrong = |wanted: &str| {
            Error::invalid_input(format!("invalid value for parameter \"{known}\": \"{value}\"; {wanted}"))
                .with_sqlstate("22023")
        };
        match change {
            Fixed => return Err(cannot_change(known)),
            OneOf(values) if !values.iter().any(|allowed| allowed.eq_ignore_ascii_case(value)) => {
                return Err(wrong(&format!("it is {}", values.join(", "))));
            }
            Time if milliseconds(value).is_none() => return Err(wrong("give milliseconds, or 5s, 1min")),
            _ if *known == "role" && value != "none" && value != self.user() => {
                return Err(Error::unsupported("a session cannot take another role; connect as that user"));
            }
            _ if *known == "DateStyle" && !is_date_style(value) => {
                return Err(wrong("dates are shown as in ISO 8601; it is ISO"));
            }
            _ => {}
        }
        let value = match (*change, value.to_ascii_lowercase().as_str()) {
            (SWITCH | ON, "true" | "yes" | "1") => "on".to_string(),
            (SWITCH, "false" | "no" | "0") => "off".to_string(),
            (_, _) if *known == "client_encoding" => "UTF8".to_string(),
            // Only the order of day and month could differ.
            (_, _) if *known == "DateStyle" => "ISO, MDY".to_string(),
            (_, _) if *known == "application_name" => {
                value[..value.floor_char_boundary(PROGRAM_BYTES_MAX)].to_string()
            }
            _ => value.to_string(),
        };
        self.keep(key, value)
    }

    /// Keeps a value, unless there would be too many bytes of them.
    fn keep(&self, key: String, value: String) -> Result<()> {
        let mut values = self.changed();
        let others = values.iter().filter(|(name, _)| **name != key);
        let bytes = others.map(|(name, value)| name.len() + value.len()).sum::<usize>();
        if bytes + key.len() + value.len() > BYTES_MAX {
            return Err(Error::invalid_input(format!(
                "the settings of a session may have {BYTES_MAX} bytes together"
            ))
            .with_sqlstate("54000"));
        }
        values.insert(key, value);
        Ok(())
    }

    /// Sets a value for `set_config`, and has the session do the rest once the query is over.
    ///
    /// # Errors
    /// As [`Self::set`]; `22023` for a time zone that there is not.
    pub fn configure(&self, name: &str, value: &str, is_local: bool) -> Result<()> {
        let (name, before) = (name.to_ascii_lowercase(), self.get(name));
        match name.as_str() {
            "timezone" => self.set(&name, &session_zone(value)?)?,
            _ => self.set(&name, value)?,
        }
        self.configured.lock().push(Configured { name, before, is_local });
        Ok(())
    }

    /// Returns what `set_config` has changed since this was asked last.
    pub fn take_configured(&self) -> Vec<Configured> {
        std::mem::take(&mut *self.configured.lock())
    }

    /// Takes back what `set_config` has changed in a query that failed.
    pub fn undo(&self, configured: Vec<Configured>) {
        let mut values = self.changed();
        for Configured { name, before, .. } in configured.into_iter().rev() {
            match before {
                Some(before) => values.insert(name, before),
                None => values.remove(&name),
            };
        }
    }

    /// Sets a value, also one that a client cannot set.
    pub fn force(&self, name: &str, value: &str) {
        self.changed().insert(name.to_ascii_lowercase(), value.to_string());
    }

    /// # Errors
    /// `42704` for a name that there is not, `55P02` for one that cannot be changed.
    pub fn reset(&self, name: &str) -> Result<()> {
        match known(name) {
            // It is the one that it was at first.
            Some((known, _, Fixed)) if *known == "session_authorization" => return Ok(()),
            Some((known, _, Fixed)) => return Err(cannot_change(known)),
            _ => {}
        }
        if self.changed().remove(&name.to_ascii_lowercase()).is_none() && known(name).is_none() {
            return Err(unknown(name));
        }
        Ok(())
    }

    pub fn reset_all(&self) {
        self.changed().retain(|name, _| known(name).is_some_and(|(_, _, change)| *change == Fixed));
    }

    /// Returns a time as a setting, where one is set.
    pub fn time(&self, name: &str) -> Option<std::time::Duration> {
        let value = self.get(name).and_then(|value| milliseconds(&value))?;
        (value > 0).then(|| std::time::Duration::from_millis(value))
    }

    /// Returns all settings of PostgreSQL's with their values.
    pub fn all(&self) -> Vec<(&'static str, String)> {
        KNOWN.iter().map(|(name, _, _)| (*name, self.get(name).unwrap_or_default())).collect()
    }

    pub fn user(&self) -> String {
        self.get("session_authorization").unwrap_or_default()
    }

    /// Returns what `pg_backend_pid` gives.
    pub fn process(&self) -> u32 {
        match self.process.load(Ordering::Relaxed) {
            0 => std::process::id(),
            process => process,
        }
    }

    /// Says whether results are described as PostgreSQL describes them, to a client that speaks its
    /// protocol.
    pub fn is_wire(&self) -> bool {
        self.wire.load(Ordering::Relaxed)
    }

    pub fn set_wire(&self) {
        self.wire.store(true, Ordering::Relaxed);
    }

    pub fn set_process(&self, process: u32) {
        self.process.store(process, Ordering::Relaxed);
    }
}

/// Says whether a text asks for dates as they are shown. The order of day and month makes no difference
/// there.
fn is_date_style(text: &str) -> bool {
    const STYLES: [&str; 10] =
        ["ISO", "DMY", "MDY", "YMD", "US", "NonEuro", "NonEuropean", "Euro", "European", "Default"];
    let is_known = |word: &str| STYLES.iter().any(|style| style.eq_ignore_ascii_case(word.trim()));
    text.split(',').all(is_known)
}

fn milliseconds(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let factor = match text[digits..].trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(factor)
}

fn cannot_change(name: &str) -> Error {
    Error::invalid_input(format!("parameter \"{name}\" cannot be changed")).with_sqlstate("55P02")
}

fn unknown(name: &str) -> Error {
    let suggestion = did_you_mean(name, KNOWN.iter().map(|(known, _, _)| *known));
    Error::new(ErrorKind::UnknownName, format!("unrecognized configuration parameter \"{name}\"{suggestion}"))
        .with_sqlstate("42704")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_found_and_what_cannot_be_is_refused() {
        let settings = Settings::default();
        assert_eq!(settings.get("datestyle").unwrap(), "ISO, MDY");
        settings.set("DateStyle", "iso, dmy").unwrap();
        assert_eq!(settings.get("datestyle").unwrap(), "ISO, MDY");
        for style in ["German", "SQL, DMY", "nonsense", ""] {
            assert_eq!(settings.set("DateStyle", style).unwrap_err().sqlstate(), "22023", "{style}");
        }
        settings.set("Application_Name", "x").unwrap();
        assert_eq!(settings.get("application_name").unwrap(), "x");
        settings.set("my.own", "1").unwrap();
        assert_eq!(settings.get("my.own").unwrap(), "1");
        // Asked for by \password of psql, before the statement that says how users get passwords.
        assert_eq!(settings.get("password_encryption").unwrap(), "scram-sha-256");
        // The client is told of it, which drivers take no long message for.
        settings.set("application_name", &"ö".repeat(40)).unwrap();
        assert_eq!(settings.get("application_name").unwrap(), "ö".repeat(31));
        settings.set("application_name", "x").unwrap();
        settings.set("my.long", &"x".repeat(1 << 19)).unwrap();
        settings.set("my.long", &"y".repeat(1 << 19)).unwrap();
        assert_eq!(settings.set("my.other", &"x".repeat(1 << 19)).unwrap_err().sqlstate(), "54000");
        assert_eq!((settings.get("my.other"), settings.get("my.long").unwrap().len()), (None, 1 << 19));
        settings.set("statement_timeout", "2s").unwrap();
        assert_eq!(settings.time("statement_timeout"), Some(std::time::Duration::from_secs(2)));
        for (name, value, sqlstate) in [
            ("nothing", "1", "42704"),
            ("server_version", "16", "55P02"),
            ("client_encoding", "LATIN1", "22023"),
            ("password_encryption", "md5", "22023"),
            ("role", "admin", "0A000"),
            ("standard_conforming_strings", "off", "22023"),
            ("statement_timeout", "soon", "22023"),
        ] {
            assert_eq!(settings.set(name, value).unwrap_err().sqlstate(), sqlstate, "{name}");
        }
        settings.force("is_superuser", "off");
        assert_eq!(settings.reset("is_superuser").unwrap_err().sqlstate(), "55P02");
        settings.reset("session_authorization").unwrap();
        assert_eq!(settings.get("is_superuser").unwrap(), "off");
        let changes = settings.changes();
        assert_eq!(settings.get("application_name").unwrap(), "x");
        assert_eq!(settings.changes(), changes);
        settings.reset_all();
        assert_ne!(settings.changes(), changes);
        assert_eq!(settings.get("application_name").unwrap(), "");
        assert_eq!(settings.get("my.own"), None);
    }
}
