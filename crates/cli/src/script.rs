//! Runs text that holds many statements and dot commands: scripts, `-c`, and standard input.
//!
//! A line that begins with a dot where a statement could begin is a dot command, and one that begins with a
//! backslash is one of psql's. Everything else is SQL up to its `;`. Statements run as soon as they are
//! complete, so a pipe may feed them one by one. The first failure ends the script, unless `.bail off` is
//! set.

use crate::command;
use crate::failure::{Failure, Outcome};
use crate::session::Session;
use hypostyle::{Error, ErrorKind, split_statements, statement_is_complete};
use std::fs::File;
use std::io::{BufRead, BufReader, stdin};
use std::path::Path;

/// So many scripts may have one another run: one that runs itself has no end.
const LEVELS_MAX: usize = 64;

/// The mark that some editors put at the start of a file.
const BYTE_ORDER_MARK: char = '\u{FEFF}';

pub fn run_text(session: &mut Session, text: &str) -> Outcome {
    run_lines(session, text.as_bytes(), None)
}

/// Runs a script; `-` is standard input, as for psql.
pub fn run_file(session: &mut Session, path: &Path) -> Outcome {
    if path == Path::new("-") {
        return run_lines(session, BufReader::new(stdin()), Some("standard input"));
    }
    let name = path.display().to_string();
    if session.script_levels >= LEVELS_MAX {
        let message =
            format!("cannot run \"{name}\": scripts run one another in {LEVELS_MAX} levels already");
        return Err(Error::invalid_input(message).into());
    }
    let file = File::open(path).map_err(|error| Error::from_io(&error, format!("cannot read \"{name}\"")))?;
    session.script_levels += 1;
    let outcome = run_lines(session, BufReader::new(file), Some(&name));
    session.script_levels -= 1;
    outcome
}

/// Runs the lines of `reader`. Errors have their place in `name`.
pub fn run_lines(session: &mut Session, mut reader: impl BufRead, name: Option<&str>) -> Outcome {
    let mut pending = String::new();
    let mut pending_line = 1;
    let mut line = String::new();
    for number in 1.. {
        line.clear();
        let bytes = reader.read_line(&mut line).map_err(|error| unreadable(&error, name))?;
        if number == 1 && line.starts_with(BYTE_ORDER_MARK) {
            line.remove(0);
        }
        if pending.trim().is_empty() {
            pending.clear();
            pending_line = number;
        }
        let at_end = bytes == 0;
        let outcome = if pending.is_empty() && line.trim_start().starts_with('.') {
            command::run(session, line.trim())
        } else if pending.is_empty() && line.trim_start().starts_with('\\') {
            command::run(session, &command::of_psql(line.trim()))
        } else {
            pending.push_str(&line);
            // Only lines that could end it cause a scan of all pending text.
            match at_end || (line.contains(';') && statement_is_complete(&pending)) {
                true => run_sql(session, &std::mem::take(&mut pending)),
                false => Ok(()),
            }
        };
        let outcome = outcome.map_err(|failure| match name {
            Some(name) => failure.at(name, pending_line),
            None => failure,
        });
        match outcome {
            Err(failure) if !session.bail && failure.is_of_statement() => {
                failure.report();
                session.has_failed = true;
            }
            outcome => outcome?,
        }
        if at_end {
            break;
        }
    }
    Ok(())
}

/// Runs each statement of a text that holds only SQL.
pub fn run_sql(session: &mut Session, sql: &str) -> Outcome {
    split_statements(sql)
        .into_iter()
        .filter(|statement| !statement.trim().is_empty())
        .try_for_each(|statement| session.run_statement(statement))
}

fn unreadable(error: &std::io::Error, name: Option<&str>) -> Failure {
    let name = name.unwrap_or("the command");
    match error.kind() {
        std::io::ErrorKind::InvalidData => {
            Error::new(ErrorKind::InvalidInput, format!("{name} is not UTF-8 text")).into()
        }
        _ => Error::from_io(error, format!("cannot read {name}")).into(),
    }
}
