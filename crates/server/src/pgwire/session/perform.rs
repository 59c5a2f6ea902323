//! What statements do, whichever way they have come.

use super::{Session, already_cursor, already_prepared, no_portal};
use crate::pgwire::channel::{Failure, stopping};
use crate::pgwire::command::{Command, DISCARD_ALL, DISCARD_TEMP, completion};
use crate::pgwire::copy::{self, Copy};
use crate::pgwire::prepared::{Portal, State, Statement};
use crate::pgwire::reply::{CHANGED, Severity};
use crate::pgwire::rows::Rows;
use crate::pgwire::setting::Setting;
use crate::pgwire::words::{Prepared, executed, extension, prepared, tag};
use hypostyle::{Held, Parameters, ScalarValue};
use hypostyle_pgtypes::{Column, Style};
use hypostyle_types::{Error, ErrorKind, Result};
use std::rc::Rc;

/// What a statement has come to.
pub(super) enum Performed {
    Rows(Box<Rows>),
    /// The statement is done, with its tag.
    Complete(String),
    Empty,
    /// Rows of another portal.
    Fetched {
        name: String,
        most: Option<u64>,
        moves: bool,
    },
}

impl Performed {
    fn complete(tag: &str) -> Self {
        Self::Complete(tag.into())
    }
}

/// What PREPARE names.
struct Named {
    name: String,
    /// The tag of the statement.
    tag: String,
    /// The statement as messages bind it, if they can, and the memory of the session's that this takes.
    entry: Option<(Rc<Statement>, Option<Held>)>,
}

/// Says whether a statement of this tag surely changes neither definitions nor settings.
fn keeps_types(tag: &str) -> bool {
    matches!(
        tag,
        "SELECT"
            | "INSERT"
            | "UPDATE"
            | "DELETE"
            | "MERGE"
            | "SHOW"
            | "EXPLAIN"
            | "SAVEPOINT"
            | "RELEASE"
            | "ROLLBACK"
    )
}

/// Returns what is told of an extension that needs no installing.
fn built_in(name: &str) -> Error {
    let message = format!("extension \"{name}\" is not installed: what it has is built in, or missing");
    Error::invalid_input(message).with_sqlstate("00000")
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Session {
    /// Does what a statement says, up to the rows that it gives. `told`: the columns that the
    /// client has been told of.
    pub(super) fn perform(
        &mut self,
        command: &Command,
        values: Vec<ScalarValue>,
        told: Option<Vec<Column>>,
    ) -> Result<Performed, Failure> {
        self.server.metrics.statements.inc();
        // Many short ones, each of which ends before it is interrupted, are no end.
        if self.server.must_end() {
            return Err(Failure::Fatal(stopping()));
        }
        self.check_not_aborted(command)?;
        self.take_configured()?;
        match command {
            Command::Empty => Ok(Performed::Empty),
            Command::Run { sql, tag } => self.run_statement(sql, tag, values, told),
            Command::Begin(modes) => Ok(self.begin(modes)?),
            Command::End { commit, chain } => Ok(self.end(*commit, *chain)?),
            Command::Setting(setting) => Ok(Performed::complete(self.change(setting)?)),
            Command::Copy(copy) => {
                let rows = self.copy(copy)?;
                Ok(Performed::Complete(completion("COPY", Some(rows))))
            }
            Command::Deallocate(Some(name)) => {
                let is_of_messages = self.statements.remove(name).is_some();
                if self.prepared.remove(name).is_some() || !is_of_messages {
                    self.connection.execute(&format!("DEALLOCATE {}", quoted(name)))?;
                }
                Ok(Performed::complete("DEALLOCATE"))
            }
            Command::Deallocate(None) => {
                self.deallocate_all()?;
                Ok(Performed::complete("DEALLOCATE ALL"))
            }
            Command::Discard(tag) => self.discard(tag),
            Command::Declare { name, sql, hold } => self.declare(name, sql, *hold, values),
            Command::Fetch { name, most, moves } => {
                Ok(Performed::Fetched { name: name.clone(), most: *most, moves: *moves })
            }
            Command::CloseCursor(Some(name)) => match self.portals.remove(name) {
                Some(_) => Ok(Performed::complete("CLOSE CURSOR")),
                None => Err(Failure::Statement(no_portal(name))),
            },
            Command::CloseCursor(None) => {
                self.portals.clear();
                Ok(Performed::complete("CLOSE CURSOR ALL"))
            }
            Command::Nothing(tag) => Ok(Performed::complete(tag)),
        }
    }

    /// # Errors
    /// `TransactionState` for anything but the end of a transaction that has failed.
    fn check_not_aborted(&self, command: &Command) -> Result<()> {
        let ends = matches!(command, Command::End { .. } | Command::Empty)
            || matches!(command, Command::Run { tag, .. } if tag == "ROLLBACK");
        if self.connection.is_transaction_failed() && !ends {
            return Err(Error::new(
                ErrorKind::TransactionState,
                "current transaction is aborted, commands ignored until end of transaction block",
            )
            .with_sqlstate("25P02"));
        }
        Ok(())
    }

    /// Has the engine run a statement.
    fn run_statement(
        &mut self,
        sql: &str,
        tag: &str,
        values: Vec<ScalarValue>,
        told: Option<Vec<Column>>,
    ) -> Result<Performed, Failure> {
        let parameters = match values.is_empty() {
            true => Parameters::None,
            false => Parameters::Positional(values),
        };
        if !keeps_types(tag) {
            self.known.forget();
        }
        if tag == "EXECUTE" {
            self.give_to_engine(sql)?;
        }
        let named = if tag == "PREPARE" { self.named(sql)? } else { None };
        let result = self.connection.execute_with(sql, parameters)?;
        if result.is_query() {
            // Such as those of a file, which may have been written anew since.
            if told.as_ref().is_some_and(|told| told.len() != result.columns().len()) {
                return Err(Failure::Statement(Error::unsupported(CHANGED)));
            }
            let style = Style::of(self.zone, |name| self.settings.get(name));
            let rows = Rows::new(self.connection.clone(), result, told, style)?;
            return Ok(Performed::Rows(Box::new(rows)));
        }
        if let Some(name) = extension(sql) {
            self.output.replies.error(Severity::Notice, &built_in(&name), None);
        }
        if matches!(tag, "SAVEPOINT" | "RELEASE" | "ROLLBACK") {
            self.follow_savepoint(sql)?;
        }
        if let Some(Named { name, tag, entry }) = named {
            if let Some(entry) = entry {
                self.statements.insert(name.clone(), entry);
            }
            self.prepared.insert(name, tag);
        }
        Ok(Performed::Complete(completion(self.tag_of(sql, tag), result.rows_affected())))
    }

    /// Returns what a PREPARE names, which messages may bind as well.
    ///
    /// # Errors
    /// 42P05 if something has the name; `OutOfMemory` for one statement too many.
    fn named(&self, prepare: &str) -> Result<Option<Named>> {
        let Some(Prepared { name, types, sql }) = prepared(prepare) else { return Ok(None) };
        if self.statements.contains_key(&name) {
            return Err(already_prepared(&name));
        }
        let entry = match Statement::of_prepare(sql, types) {
            Some(statement) => {
                let bytes = name.len() + sql.len();
                let memory = self.hold_entry("prepared statements", bytes, self.statements.len())?;
                Some((Rc::new(statement), memory))
            }
            None => None,
        };
        Ok(Some(Named { name, tag: tag(sql), entry }))
    }

    /// Has the engine prepare what EXECUTE names, if messages have prepared it: they have the same names.
    fn give_to_engine(&mut self, execute: &str) -> Result<()> {
        let Some(name) = executed(execute).filter(|name| !name.is_empty()) else { return Ok(()) };
        if self.prepared.contains_key(&name) {
            return Ok(());
        }
        let Some((statement, _)) = self.statements.get(&name) else { return Ok(()) };
        let statement = statement.clone();
        if let Command::Run { sql, tag } = &statement.command {
            let types = statement.types_in_sql();
            self.connection.execute(&format!("PREPARE {}{types} AS {sql}", quoted(&name)))?;
            self.prepared.insert(name, tag.clone());
        }
        Ok(())
    }

    /// Forgets a prepared statement, as a message asks for it.
    pub(super) fn close_statement(&mut self, name: &str) -> Result<()> {
        self.statements.remove(name);
        // A transaction that has failed takes no statement.
        if !self.connection.is_transaction_failed() && self.prepared.remove(name).is_some() {
            self.connection.execute(&format!("DEALLOCATE {}", quoted(name)))?;
        }
        Ok(())
    }

    /// Copies, and gives the number of rows.
    fn copy(&mut self, copy: &Copy) -> Result<u64, Failure> {
        if !copy.is_in {
            let style = Style::of(self.zone, |name| self.settings.get(name));
            return copy::send(&self.connection, &mut self.output, style, copy);
        }
        let zone = self.zone_name();
        copy::receive(&self.connection, &self.input, &mut self.output, zone, copy)
    }

    fn discard(&mut self, tag: &str) -> Result<Performed, Failure> {
        if tag == DISCARD_TEMP {
            self.known.forget();
            self.connection.execute("DISCARD TEMP")?;
        }
        if tag != DISCARD_ALL {
            return Ok(Performed::complete(tag));
        }
        if self.connection.is_in_transaction() {
            return Err(Failure::Statement(
                Error::new(ErrorKind::TransactionState, "DISCARD ALL cannot run inside a transaction block")
                    .with_sqlstate("25001"),
            ));
        }
        self.portals.clear();
        self.deallocate_all()?;
        self.change(&Setting::ResetAll)?;
        self.known.forget();
        // The next client of a pool has none of it.
        self.connection.execute("SELECT pg_advisory_unlock_all()")?;
        self.connection.execute("DISCARD TEMP")?;
        Ok(Performed::complete(tag))
    }

    /// Makes a query a cursor.
    fn declare(
        &mut self,
        name: &str,
        sql: &str,
        hold: bool,
        values: Vec<ScalarValue>,
    ) -> Result<Performed, Failure> {
        if self.portals.contains_key(name) {
            return Err(Failure::Statement(already_cursor(name)));
        }
        if !hold && !self.connection.is_in_transaction() {
            return Err(Failure::Statement(
                Error::new(
                    ErrorKind::TransactionState,
                    "DECLARE CURSOR can only be used in transaction blocks",
                )
                .with_sqlstate("25P01"),
            ));
        }
        if tag(sql) != "SELECT" {
            return Err(Failure::Statement(Error::new(ErrorKind::Syntax, "a cursor is for a query")));
        }
        let statement = Rc::new(Statement::new(sql, Vec::new())?);
        let performed = self.perform(&statement.command, values, None)?;
        let Performed::Rows(rows) = performed else {
            return Err(Failure::Statement(Error::invalid_input("a cursor is for a query")));
        };
        let opened = self.hold_open()?;
        let (formats, state) = (Vec::new(), State::Open(rows));
        let (is_new, number) = (self.connection.is_in_transaction(), self.number_portal());
        let (values, _memory) = (Vec::new(), None);
        let portal = Portal { statement, values, formats, state, hold, is_new, number, _memory, opened };
        self.portals.insert(name.into(), portal);
        Ok(Performed::complete("DECLARE CURSOR"))
    }

    fn deallocate_all(&mut self) -> Result<()> {
        self.statements.clear();
        self.prepared.clear();
        self.connection.execute("DEALLOCATE ALL").map(drop)
    }

    /// Sends rows of a cursor and gives their number.
    pub(super) fn fetch(
        &mut self,
        name: &str,
        most: Option<u64>,
        moves: bool,
        formats: &[i16],
        tells_columns: bool,
    ) -> Result<u64, Failure> {
        let portal = self.portals.get_mut(name).ok_or_else(|| no_portal(name))?;
        let State::Open(rows) = &mut portal.state else { return Ok(0) };
        self.connection.go_on()?;
        if moves {
            let mut passed = 0;
            while most.is_none_or(|most| passed < most) {
                let left =
                    most.map_or(usize::MAX, |most| usize::try_from(most - passed).unwrap_or(usize::MAX));
                match rows.next(left)? {
                    Some(chunk) => passed += chunk.rows as u64,
                    None => break,
                }
            }
            return Ok(passed);
        }
        if tells_columns {
            self.output.replies.columns(&rows.columns, formats);
        }
        Ok(rows.send(&mut self.output, formats, most)?.0)
    }
}
