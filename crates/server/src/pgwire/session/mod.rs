//! One client's session: what it says, one message after the other, and what it is answered.
//!
//! Statements that come together - in one query text, or in the messages up to a Sync - are one
//! transaction, unless the client begins and ends its own. The engine commits each statement by
//! itself, so such a transaction is begun here, as soon as it is clear that a statement that writes
//! is not the only one; it is called implicit.

mod extended;
mod perform;
mod setting;
mod simple;
mod transaction;

use super::cancel::Key;
use super::channel::{Failure, Input, Output, PRESENCE_INTERVAL};
use super::known::Known;
use super::message::{Message, Target};
use super::prepared::{Portal, Statement};
use super::reply::{Severity, Status};
use super::socket::SessionSocket;
use crate::Server;
use arrow::array::timezone::Tz;
use bytes::BytesMut;
use hypostyle::postgres::Settings;
use hypostyle::{Connection, Held, Poll};
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind, Result};
use setting::zone;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) struct Session {
    server: Arc<Server>,
    connection: Connection,
    /// Shared with the engine while it reads the rows of COPY.
    input: Arc<Mutex<Input>>,
    output: Output,
    settings: Arc<Settings>,
    /// The time zone that instants are shown in.
    zone: Tz,
    /// What the client has been told of [`REPORTED`](super::setting::REPORTED).
    told: HashMap<&'static str, String>,
    /// The count of changes of settings then.
    told_at: Option<u64>,
    /// What the client has prepared, by messages or PREPARE, and the memory of the session's that this takes.
    statements: HashMap<String, (Rc<Statement>, Option<Held>)>,
    /// Those that were prepared before, whatever became of them.
    known: Known,
    portals: HashMap<String, Portal>,
    /// How many portals there have been.
    portals_made: u64,
    /// Tags of the statements that PREPARE has named, or that EXECUTE has named among those of messages: the
    /// engine has these.
    prepared: HashMap<String, String>,
    /// What SET LOCAL has changed, as it was before.
    local: Vec<(String, Option<String>)>,
    /// The savepoints of the transaction.
    savepoints: Vec<Savepoint>,
    /// The open transaction is implicit.
    implicit: bool,
    /// The statement was interrupted because it took too long.
    too_long: Arc<AtomicBool>,
}

/// A savepoint, and what was there before it.
struct Savepoint {
    name: String,
    /// How much of [`Session::local`].
    local: usize,
    /// How many portals the session had made.
    portals: u64,
}

/// Has a statement interrupted that takes longer than the server or the session allows, or than a
/// server that stops can wait, or whose client is gone; whether it took too long is told. What the
/// client sends meanwhile is read.
fn limit_time(
    connection: &Connection,
    server: &Arc<Server>,
    socket: Arc<SessionSocket>,
    input: &Arc<Mutex<Input>>,
) -> Result<Arc<AtomicBool>> {
    let (settings, server) = (connection.postgres_settings()?, server.clone());
    // The input has the connection, which has this hook.
    let input = Arc::downgrade(input);
    let too_long = Arc::new(AtomicBool::new(false));
    let tells = too_long.clone();
    connection.set_poll(Some(Arc::new(move |progress| {
        let own = settings.time("statement_timeout");
        let limit = [server.limits.statement_time, own].into_iter().flatten().min();
        let is_too_long = limit.is_some_and(|limit| progress.elapsed > limit);
        tells.store(is_too_long, Ordering::Relaxed);
        // The end of what the client says is seen only where there is room for all before it. A short
        // statement does without.
        let is_over = progress.elapsed >= PRESENCE_INTERVAL && {
            let input = input.upgrade();
            // While a COPY takes its rows, it reads by itself.
            if let Some(mut input) = input.as_ref().and_then(|input| input.try_lock()) {
                input.read_ahead();
            }
            socket.is_over()
        };
        if is_too_long || server.must_end() || is_over { Poll::Interrupt } else { Poll::Continue }
    })));
    Ok(too_long)
}

impl Session {
    /// `received` is what came together with the end of the startup.
    pub fn new(
        server: Arc<Server>,
        connection: Connection,
        socket: Arc<SessionSocket>,
        received: BytesMut,
    ) -> Result<Self> {
        let settings = connection.postgres_settings()?;
        let zone = zone("UTC")?;
        let input = Input::new(socket.clone(), received, server.clone(), connection.clone());
        let input = Arc::new(Mutex::new(input));
        let too_long = limit_time(&connection, &server, socket.clone(), &input)?;
        let output = Output::new(socket, input.clone(), server.clone(), connection.clone());
        Ok(Self {
            server,
            connection,
            input,
            output,
            settings,
            zone,
            told: HashMap::new(),
            told_at: None,
            statements: HashMap::new(),
            known: Known::default(),
            portals: HashMap::new(),
            portals_made: 0,
            prepared: HashMap::new(),
            local: Vec::new(),
            savepoints: Vec::new(),
            implicit: false,
            too_long,
        })
    }

    /// Serves the client until it goes. `parameters` are those of its startup.
    pub fn run(
        &mut self,
        key: Key,
        parameters: &BTreeMap<String, String>,
        newer: Option<(u32, Vec<String>)>,
    ) {
        match self.greet(key, parameters, newer).and_then(|()| self.serve()) {
            Err(Failure::Fatal(error) | Failure::Statement(error) | Failure::GivenUp(error)) => {
                self.output.replies.error(Severity::Fatal, &error, None);
                let _told = self.output.flush();
            }
            Ok(()) | Err(Failure::Gone) => {}
        }
    }

    fn greet(
        &mut self,
        key: Key,
        parameters: &BTreeMap<String, String>,
        newer: Option<(u32, Vec<String>)>,
    ) -> Result<(), Failure> {
        if let Some((minor, unknown)) = newer {
            self.output.replies.negotiate_version(minor, &unknown);
        }
        self.output.replies.authentication(0, &[]);
        for (name, value) in parameters {
            match name.as_str() {
                "user" | "database" | "replication" => {}
                "options" => self.set_options(value)?,
                name if name.starts_with("_pq_.") => {}
                // A client that is told what it wants is served better than one that is sent away.
                name => {
                    let _unknown = self.set(name, Some(value), false);
                }
            }
        }
        self.tell_settings();
        self.output.replies.backend_key(key.process, key.secret);
        self.ready()
    }

    fn serve(&mut self) -> Result<(), Failure> {
        // After an error, what was to follow it is left out, up to the client's Sync.
        let mut skipping = false;
        // No group of messages is open.
        let mut between = true;
        loop {
            let message = self.input.lock().next_request(between)?;
            between = match message {
                Message::Sync => true,
                Message::Query(_) | Message::Wrong { kind: b'Q' | b'F', .. } => !skipping,
                _ => false,
            };
            let done = match message {
                Message::Terminate => return Ok(()),
                Message::Sync => {
                    skipping = false;
                    self.sync()
                }
                // Also a query text, as in PostgreSQL.
                _ if skipping => continue,
                Message::Query(sql) => self.query(&sql),
                Message::Parse { name, sql, types } => self.parse(name, &sql, types),
                Message::Bind { portal, statement, formats, values, result_formats } => {
                    self.bind(portal, &statement, &formats, &values, result_formats)
                }
                Message::Describe(target) => self.describe(&target),
                Message::Execute { portal, rows } => self.execute(&portal, rows),
                Message::Close(target) => self.close(&target),
                Message::Flush => self.output.flush(),
                // What is left of a COPY that has failed.
                Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => continue,
                Message::Password(_) => {
                    Err(Failure::Fatal(Error::protocol("nobody has asked for a password")))
                }
                Message::Wrong { kind, reason, sqlstate } => {
                    self.refuse(kind, &Error::protocol(reason).with_sqlstate(&sqlstate))
                }
            };
            match done {
                Ok(()) => self.output.flush_if_full()?,
                Err(failure) => {
                    self.answer(failure, None)?;
                    // Who has asked by Flush waits for it, and sends its Sync only then.
                    self.output.flush()?;
                    skipping = true;
                }
            }
        }
    }

    fn close(&mut self, target: &Target) -> Result<(), Failure> {
        match target {
            Target::Statement(name) => self.close_statement(name)?,
            Target::Portal(name) => drop(self.portals.remove(name)),
        }
        self.output.replies.close_complete();
        Ok(())
    }

    /// Answers a message that cannot be read.
    fn refuse(&mut self, kind: u8, error: &Error) -> Result<(), Failure> {
        match kind {
            // No Sync follows these.
            b'Q' | b'F' => {
                self.report(error, None);
                self.sync()
            }
            _ => Err(Failure::Statement(error.clone())),
        }
    }

    fn status(&self) -> Status {
        match (self.connection.is_transaction_failed(), self.connection.is_in_transaction()) {
            (true, _) => Status::Failed,
            (false, true) => Status::InTransaction,
            (false, false) => Status::Idle,
        }
    }

    fn ready(&mut self) -> Result<(), Failure> {
        let status = self.status();
        self.output.replies.ready(status);
        self.output.flush()
    }

    /// Tells the client of what has failed.
    ///
    /// # Errors
    /// What ends the session.
    fn answer(&mut self, failure: Failure, statement: Option<(&str, &str)>) -> Result<(), Failure> {
        match failure {
            Failure::Statement(error) => self.report(&error, statement),
            Failure::GivenUp(error) => self.tell(&error, statement),
            ends => return Err(ends),
        }
        Ok(())
    }

    /// Tells the client of an error, which aborts its transaction.
    fn tell(&mut self, error: &Error, statement: Option<(&str, &str)>) {
        self.server.metrics.errors.inc();
        self.connection.abort_transaction(error.message());
        let position = match statement {
            Some((text, sql)) => position(error, text, sql),
            None => error.position(),
        };
        self.output.replies.error(Severity::Error, error, position);
    }

    /// Tells the client of an error, or that its statement is cancelled; either aborts its transaction.
    fn report(&mut self, error: &Error, statement: Option<(&str, &str)>) {
        let is_cancelled =
            error.kind() == ErrorKind::Interrupted && error.sqlstate() == error.kind().sqlstate();
        if !is_cancelled {
            return self.tell(error, statement);
        }
        self.server.metrics.errors.inc();
        self.connection.abort_transaction(error.message());
        // PostgreSQL's words, which programs look for.
        let too_long = self.too_long.swap(false, Ordering::Relaxed);
        let why = if too_long { "statement timeout" } else { "user request" };
        let error = Error::new(error.kind(), format!("canceling statement due to {why}"));
        self.output.replies.error(Severity::Error, &error, None);
    }

    fn warn(&mut self, sqlstate: &str, message: &str) {
        let warning = Error::invalid_input(message).with_sqlstate(sqlstate);
        self.output.replies.error(Severity::Warning, &warning, None);
    }
}

fn no_portal(name: &str) -> Error {
    let what = if name.is_empty() { "unnamed portal".to_string() } else { format!("cursor \"{name}\"") };
    Error::new(ErrorKind::UnknownName, format!("{what} does not exist")).with_sqlstate("34000")
}

fn already_prepared(name: &str) -> Error {
    Error::new(ErrorKind::AlreadyExists, format!("prepared statement \"{name}\" already exists"))
        .with_sqlstate("42P05")
}

fn already_cursor(name: &str) -> Error {
    Error::new(ErrorKind::AlreadyExists, format!("cursor \"{name}\" already exists")).with_sqlstate("42P03")
}

/// Where the error is in the text that the client sent, in characters from 1; it tells where in its
/// statement.
fn position(error: &Error, text: &str, sql: &str) -> Option<usize> {
    let start = (sql.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    Some(text.get(..start)?.chars().count() + error.position()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypostyle::split_statements;

    #[test]
    fn positions_count_characters_of_the_whole_text() {
        let text = "SELECT 'ä'; SELECT\n 1 +";
        let sql = split_statements(text)[1];
        let wrong = Error::new(ErrorKind::Syntax, "wrong");
        assert_eq!(position(&wrong.clone().at(9), text, sql), Some(21));
        assert_eq!(position(&wrong, text, sql), None);
    }
}
