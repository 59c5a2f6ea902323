//! What kind of a statement a text is: one for the engine, or one that PostgreSQL's sessions have
//! and the engine has not.

use super::copy::Copy;
use super::setting::Setting;
use super::words::{Word, Words, tag, unexpected};
use hypostyle_types::{Error, Result};
use std::fmt::{self, Display, Formatter};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Command {
    /// No statement at all.
    Empty,
    /// The engine runs it.
    Run {
        sql: String,
        tag: String,
    },
    /// BEGIN, with the modes of its transaction.
    Begin(Modes),
    /// COMMIT or ROLLBACK; `chain`: the next transaction begins at once.
    End {
        commit: bool,
        chain: bool,
    },
    Setting(Setting),
    Copy(Box<Copy>),
    /// A prepared statement, or all.
    Deallocate(Option<String>),
    /// The tag says what is discarded.
    Discard(&'static str),
    Declare {
        name: String,
        sql: String,
        hold: bool,
    },
    Fetch {
        name: String,
        most: Option<u64>,
        moves: bool,
    },
    CloseCursor(Option<String>),
    /// Nothing is to be done for it.
    Nothing(&'static str),
}

/// The tags of the DISCARDs that do something.
pub(super) const DISCARD_ALL: &str = "DISCARD ALL";
pub(super) const DISCARD_TEMP: &str = "DISCARD TEMP";

impl Command {
    pub fn read(sql: &str) -> Result<Self> {
        let mut words = Words::of(sql);
        let first = match words.next() {
            None => return Ok(Self::Empty),
            Some(Word::Bare(word)) => word.to_ascii_uppercase(),
            Some(_) => String::new(),
        };
        let run = || Ok(Self::Run { sql: sql.into(), tag: tag(sql) });
        match first.as_str() {
            "BEGIN" => begin(words),
            "START" if words.accept("TRANSACTION") => begin(words),
            "COMMIT" | "END" => end(words, true),
            "ROLLBACK" | "ABORT" => {
                let mut ahead = words.clone();
                ahead.accept_any(&["WORK", "TRANSACTION"]);
                if ahead.accept("TO") { run() } else { end(words, false) }
            }
            "SET" if words.clone().accept("CONSTRAINTS") => run(),
            // A variable of the session is no setting.
            "SET" | "RESET" if words.clone().accept("VARIABLE") => {
                Ok(Self::Run { sql: sql.into(), tag: first.clone() })
            }
            "SET" => Ok(Self::Setting(Setting::set(words)?)),
            "RESET" => Ok(Self::Setting(Setting::reset(words)?)),
            "SHOW" => Ok(match Setting::shown(words)? {
                Some(sql) => Self::Run { sql, tag: "SHOW".into() },
                None => return run(),
            }),
            "COPY" => Ok(match Copy::read(words)? {
                Some(copy) => Self::Copy(Box::new(copy)),
                None => return run(),
            }),
            "DEALLOCATE" => {
                words.accept("PREPARE");
                let name = if words.accept("ALL") { None } else { Some(words.name()?) };
                words.end()?;
                Ok(Self::Deallocate(name))
            }
            "DISCARD" => {
                let what = words.accept_any(&["ALL", "PLANS", "SEQUENCES", "TEMP", "TEMPORARY"]);
                let tag = match what.ok_or_else(|| unexpected("ALL", words.peek().as_ref()))? {
                    "PLANS" => "DISCARD PLANS",
                    "SEQUENCES" => "DISCARD SEQUENCES",
                    "TEMP" | "TEMPORARY" => DISCARD_TEMP,
                    _ => DISCARD_ALL,
                };
                words.end()?;
                Ok(Self::Discard(tag))
            }
            "DECLARE" => declare(words),
            "FETCH" => fetch(words, false),
            "MOVE" => fetch(words, true),
            "CLOSE" => {
                let name = if words.accept("ALL") { None } else { Some(words.name()?) };
                Ok(Self::CloseCursor(name))
            }
            "UNLISTEN" => Ok(Self::Nothing("UNLISTEN")),
            _ => run(),
        }
    }

    /// Whether it only reads: it needs no transaction of its own then.
    pub fn reads(&self) -> bool {
        match self {
            Self::Run { tag, .. } => matches!(tag.as_str(), "SELECT" | "SHOW" | "EXPLAIN"),
            Self::Copy(copy) => !copy.is_in && tag(&copy.query()) == "SELECT",
            _ => true,
        }
    }
}

/// What is told when a statement is done.
pub(super) fn completion(tag: &str, rows: Option<u64>) -> String {
    match (tag, rows) {
        ("INSERT", rows) => format!("INSERT 0 {}", rows.unwrap_or(0)),
        ("SELECT" | "UPDATE" | "DELETE" | "MERGE" | "COPY" | "FETCH" | "MOVE", rows) => {
            format!("{tag} {}", rows.unwrap_or(0))
        }
        ("CREATE TABLE" | "CREATE MATERIALIZED VIEW", Some(rows)) => format!("SELECT {rows}"),
        _ => tag.to_string(),
    }
}

fn begin(mut words: Words<'_>) -> Result<Command> {
    words.accept_any(&["WORK", "TRANSACTION"]);
    Ok(Command::Begin(Modes::read(&mut words)?))
}

/// The modes of a transaction that the engine has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Modes {
    /// The level of isolation, in lower case.
    pub isolation: Option<String>,
    pub read_only: Option<bool>,
}

impl Modes {
    /// Reads the rest of a statement.
    pub fn read(words: &mut Words<'_>) -> Result<Self> {
        let mut modes = Self::default();
        loop {
            words.accept_symbol(',');
            if words.accept("ISOLATION") {
                words.accept("LEVEL");
                let level =
                    [words.name()?, if words.peek().is_some() { words.name()? } else { String::new() }];
                if level[0] == "serializable" && !level[1].is_empty() {
                    return Err(unexpected("one isolation level", None));
                }
                modes.isolation = Some(level.join(" ").trim_end().to_string());
            } else if words.accept("READ") {
                modes.read_only = Some(words.accept("ONLY"));
                words.accept("WRITE");
            } else if words.accept("NOT") || words.accept("DEFERRABLE") {
                // Readers never wait here.
                words.accept("DEFERRABLE");
            } else {
                words.end()?;
                return Ok(modes);
            }
        }
    }

    pub fn is_serializable(&self) -> bool {
        self.isolation.as_deref() == Some("serializable")
    }
}

/// The modes as they stand in a statement of the engine, with a blank before them.
impl Display for Modes {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        if let Some(level) = &self.isolation {
            write!(formatter, " ISOLATION LEVEL {level}")?;
        }
        let comma = if self.isolation.is_some() { "," } else { "" };
        match self.read_only {
            Some(true) => write!(formatter, "{comma} READ ONLY"),
            Some(false) => write!(formatter, "{comma} READ WRITE"),
            None => Ok(()),
        }
    }
}

fn end(mut words: Words<'_>, commit: bool) -> Result<Command> {
    if words.accept("PREPARED") {
        return Err(Error::unsupported("transactions in two phases are not supported"));
    }
    words.accept_any(&["WORK", "TRANSACTION"]);
    let mut chain = words.accept("AND");
    if chain {
        chain = !words.accept("NO");
        words.accept("CHAIN");
    }
    words.end()?;
    Ok(Command::End { commit, chain })
}

fn declare(mut words: Words<'_>) -> Result<Command> {
    let name = words.name()?;
    let mut hold = false;
    while !words.accept("FOR") {
        if words.accept("WITH") {
            hold = words.accept("HOLD");
        } else if words.accept("SCROLL") && words.peek().is_some() {
            // A client asks for it to be able to go back, and is told when it tries.
        } else if words
            .accept_any(&["BINARY", "INSENSITIVE", "ASENSITIVE", "NO", "WITHOUT", "HOLD", "CURSOR"])
            .is_none()
        {
            return Err(unexpected("FOR", words.peek().as_ref()));
        }
    }
    Ok(Command::Declare { name, sql: words.rest().to_string(), hold })
}

fn fetch(mut words: Words<'_>, moves: bool) -> Result<Command> {
    let forward = words.accept_any(&["FORWARD", "NEXT"]);
    let mut most = Some(1);
    if let Some(backward) = words.accept_any(&["PRIOR", "BACKWARD", "ABSOLUTE", "RELATIVE", "FIRST", "LAST"])
    {
        return Err(only_forward(backward));
    }
    if forward != Some("NEXT") {
        if words.accept("ALL") {
            most = None;
        } else if words.accept_symbol('-') {
            return Err(only_forward("a negative number"));
        } else if let Some(Word::Bare(word)) = words.peek()
            && let Ok(number) = word.parse()
        {
            words.next();
            most = Some(number);
        }
    }
    words.accept_any(&["FROM", "IN"]);
    let name = words.name()?;
    words.end()?;
    Ok(Command::Fetch { name, most, moves })
}

fn only_forward(wanted: &str) -> Error {
    Error::unsupported(format!("cursors only go forward; {wanted} is not supported")).with_sqlstate("55000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_sessions_are_told_from_those_of_the_engine() {
        let begin = |level: Option<&str>, read_only| {
            Command::Begin(Modes { isolation: level.map(str::to_string), read_only })
        };
        for (sql, expected) in [
            ("begin", begin(None, None)),
            (
                "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY, NOT DEFERRABLE",
                begin(Some("repeatable read"), Some(true)),
            ),
            ("start transaction isolation level serializable", begin(Some("serializable"), None)),
            ("start transaction read write", begin(None, Some(false))),
            ("END", Command::End { commit: true, chain: false }),
            ("ROLLBACK AND CHAIN", Command::End { commit: false, chain: true }),
            (
                "ROLLBACK TO SAVEPOINT a",
                Command::Run { sql: "ROLLBACK TO SAVEPOINT a".into(), tag: "ROLLBACK".into() },
            ),
            ("set variable x = 1", Command::Run { sql: "set variable x = 1".into(), tag: "SET".into() }),
            ("DEALLOCATE ALL", Command::Deallocate(None)),
            ("deallocate prepare \"A\"", Command::Deallocate(Some("A".into()))),
            (
                "DECLARE \"c\" CURSOR WITH HOLD FOR SELECT 1",
                Command::Declare { name: "c".into(), sql: " SELECT 1".into(), hold: true },
            ),
            ("FETCH FORWARD 10 FROM c", Command::Fetch { name: "c".into(), most: Some(10), moves: false }),
            ("MOVE ALL IN c", Command::Fetch { name: "c".into(), most: None, moves: true }),
            ("FETCH c", Command::Fetch { name: "c".into(), most: Some(1), moves: false }),
            ("DISCARD TEMPORARY", Command::Discard("DISCARD TEMP")),
            ("discard plans;", Command::Discard("DISCARD PLANS")),
            ("DISCARD ALL", Command::Discard(DISCARD_ALL)),
            (" -- nothing", Command::Empty),
        ] {
            assert_eq!(Command::read(sql).unwrap(), expected, "{sql}");
        }
        for wrong in ["FETCH PRIOR FROM c", "BEGIN SOMEHOW", "DECLARE c", "DISCARD", "COMMIT PREPARED 'x'"] {
            assert!(Command::read(wrong).is_err(), "{wrong}");
        }
        for backward in ["FETCH -1 FROM c", "MOVE FORWARD - 2 IN c", "FETCH BACKWARD ALL FROM c"] {
            assert_eq!(Command::read(backward).unwrap_err().sqlstate(), "55000", "{backward}");
        }
    }

    #[test]
    fn modes_are_written_as_the_engine_reads_them() {
        for (words, expected) in [
            ("", ""),
            ("READ WRITE", " READ WRITE"),
            ("isolation level read committed", " ISOLATION LEVEL read committed"),
            ("READ ONLY ISOLATION LEVEL repeatable read", " ISOLATION LEVEL repeatable read, READ ONLY"),
        ] {
            assert_eq!(Modes::read(&mut Words::of(words)).unwrap().to_string(), expected, "{words}");
        }
    }
}
