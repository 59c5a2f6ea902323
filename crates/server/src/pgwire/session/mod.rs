//! One client's session: what it says, one message after the other, and what it is answered.
//!
//! Statements that come together - in one query text, or in the messages up to a Sync - are one transaction, unless the
//! client begins and ends its own. The engine commits each statement by itself, so such a transaction is begun here, as
//! soon as it is clear that a statement that writes is not the only one; it is called implicit.

use super::cancel::Key;
use super::channel::{Failure, Input, Output};
use super::column::Column;
use super::command::{Command, completion};
use super::copy;
use super::message::{Message, Target};
use super::prepared::{Portal, State, Statement};
use super::presence::Presence;
use super::reply::{Severity, Status};
use super::rows::Rows;
use super::setting::{REPORTED, Setting};
use super::words::{executed, prepared, tag};
use crate::Server;
use arrow::array::timezone::Tz;
use bytes::Bytes;
use hypostyle::postgres::Settings;
use hypostyle::{Connection, Parameters, Poll, ScalarValue, split_statements};
use hypostyle_types::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Settings that are the engine's, though PostgreSQL's clients may set them, too.
const OF_ENGINE: [&str; 5] = ["threads", "memory_limit", "temp_directory", "batch_size", "synchronous"];

pub(super) struct Session {
    server: Arc<Server>,
    pub connection: Connection,
    /// Shared with the engine while it reads the rows of COPY.
    pub input: Arc<Mutex<Input>>,
    pub output: Output,
    settings: Arc<Settings>,
    zone: Tz,
    /// What the client has been told of [`REPORTED`].
    told: HashMap<&'static str, String>,
    statements: HashMap<String, Rc<Statement>>,
    portals: HashMap<String, Portal>,
    /// Tags of the statements that PREPARE has named.
    prepared: HashMap<String, String>,
    /// What SET LOCAL has changed, as it was before.
    local: Vec<(String, Option<String>)>,
    /// The open transaction is implicit.
    implicit: bool,
    /// The statement was interrupted because it took too long.
    too_long: Arc<AtomicBool>,
}

/// What a statement has come to.
enum Performed {
    Rows(Box<Rows>),
    /// With its tag.
    Complete(String),
    Empty,
    /// Rows of another portal.
    Fetched {
        name: String,
        most: Option<u64>,
        moves: bool,
    },
}

/// Has a statement interrupted that takes longer than the server or the session allows, or than a server that stops can
/// wait, or whose client is gone; whether it took too long is told.
fn limit_time(
    connection: &Connection,
    server: &Arc<Server>,
    presence: Arc<Presence>,
) -> Result<Arc<AtomicBool>> {
    let (settings, server) = (connection.postgres_settings()?, server.clone());
    let too_long = Arc::new(AtomicBool::new(false));
    let tells = too_long.clone();
    connection.set_poll(Some(Arc::new(move |progress| {
        let own = settings.time("statement_timeout");
        let limit = [server.limits.statement_time, own].into_iter().flatten().min();
        let is_too_long = limit.is_some_and(|limit| progress.elapsed > limit);
        tells.store(is_too_long, Ordering::Relaxed);
        if is_too_long || server.must_end() || presence.is_over() { Poll::Interrupt } else { Poll::Continue }
    })));
    Ok(too_long)
}

impl Session {
    pub fn new(server: Arc<Server>, connection: Connection, input: Input, output: Output) -> Result<Self> {
        let settings = connection.postgres_settings()?;
        let zone = zone("UTC")?;
        let too_long = limit_time(&connection, &server, input.presence.clone())?;
        Ok(Self {
            server,
            connection,
            input: Arc::new(Mutex::new(input)),
            output,
            settings,
            zone,
            told: HashMap::new(),
            statements: HashMap::new(),
            portals: HashMap::new(),
            prepared: HashMap::new(),
            local: Vec::new(),
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
            Err(Failure::Fatal(error) | Failure::Statement(error)) => {
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

    /// The settings in a startup's `options`: `-c name=value`, with backslashes before blanks.
    fn set_options(&mut self, options: &str) -> Result<()> {
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

    fn serve(&mut self) -> Result<(), Failure> {
        // After an error, what was to follow it is left out, up to the client's Sync.
        let mut skipping = false;
        loop {
            let message = self.input.lock().next_request()?;
            let done = match message {
                Message::Terminate => return Ok(()),
                Message::Query(sql) => {
                    skipping = false;
                    self.query(&sql)
                }
                Message::Sync => {
                    skipping = false;
                    self.sync()
                }
                _ if skipping => continue,
                Message::Parse { name, sql, types } => self.parse(name, &sql, types),
                Message::Bind { portal, statement, formats, values, result_formats } => {
                    self.bind(portal, &statement, &formats, &values, result_formats)
                }
                Message::Describe(target) => self.describe(&target),
                Message::Execute { portal, rows } => self.execute(&portal, rows),
                Message::Close(target) => {
                    match target {
                        Target::Statement(name) => drop(self.statements.remove(&name)),
                        Target::Portal(name) => drop(self.portals.remove(&name)),
                    }
                    self.output.replies.close_complete();
                    Ok(())
                }
                Message::Flush => self.output.flush(),
                // What is left of a COPY that has failed.
                Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => continue,
                Message::Password(_) => {
                    Err(Failure::Fatal(Error::protocol("nobody has asked for a password")))
                }
            };
            match done {
                Ok(()) => self.output.flush_if_full()?,
                Err(Failure::Statement(error)) => {
                    self.report(&error, None);
                    // Who has asked by Flush waits for it, and sends its Sync only then.
                    self.output.flush()?;
                    skipping = true;
                }
                Err(other) => return Err(other),
            }
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

    /// Tells the client of an error, which aborts its transaction.
    fn report(&mut self, error: &Error, statement: Option<(&str, &str)>) {
        self.server.metrics.errors.inc();
        self.connection.abort_transaction(error.message());
        let position = match statement {
            Some((text, sql)) => position(error, text, sql),
            None => error.position(),
        };
        let is_cancelled =
            error.kind() == ErrorKind::Interrupted && error.sqlstate() == error.kind().sqlstate();
        if !is_cancelled || copy::is_given_up(error) {
            return self.output.replies.error(Severity::Error, error, position);
        }
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

    // Queries in one text.

    fn query(&mut self, text: &str) -> Result<(), Failure> {
        let statements = split_statements(text);
        if statements.is_empty() {
            self.output.replies.empty_query();
        }
        for sql in &statements {
            let done = self.query_one(sql, statements.len() > 1);
            match done {
                Ok(()) => {}
                Err(Failure::Statement(error)) => {
                    self.report(&error, Some((text, sql)));
                    break;
                }
                Err(other) => return Err(other),
            }
        }
        self.sync()
    }

    fn query_one(&mut self, sql: &str, several: bool) -> Result<(), Failure> {
        let command = Command::of(sql)?;
        self.begin_implicitly(&command, several)?;
        match self.perform(&command, Vec::new(), None)? {
            Performed::Rows(mut rows) => {
                self.output.replies.columns(&rows.columns, &[]);
                let (sent, _) = rows.send(&mut self.output, &[], None)?;
                self.complete(&command, sent);
            }
            Performed::Fetched { name, most, moves } => {
                let sent = self.fetch(&name, most, moves, &[], true)?;
                self.complete(&command, sent);
            }
            Performed::Complete(tag) => self.output.replies.complete(&tag),
            Performed::Empty => self.output.replies.empty_query(),
        }
        self.tell_settings();
        self.output.flush_if_full()
    }

    fn complete(&mut self, command: &Command, rows: u64) {
        self.server.metrics.rows_sent.inc_by(rows);
        let tag = match command {
            Command::Run { sql, tag } => completion(self.tag_of(sql, tag), Some(rows)),
            Command::Fetch { moves: true, .. } => completion("MOVE", Some(rows)),
            Command::Fetch { .. } => completion("FETCH", Some(rows)),
            _ => completion("SELECT", Some(rows)),
        };
        self.output.replies.complete(&tag);
    }

    /// The tag of a statement; of one that EXECUTE runs, that one's.
    fn tag_of<'a>(&'a self, sql: &str, tag: &'a str) -> &'a str {
        let own =
            (tag == "EXECUTE").then(|| executed(sql)).flatten().and_then(|name| self.prepared.get(&name));
        own.map_or(tag, String::as_str)
    }

    // Transactions.

    /// Begins a transaction for a statement that may write, if it is one of `several`, or transactions are to be read only.
    fn begin_implicitly(&mut self, command: &Command, several: bool) -> Result<()> {
        let read_only = self.is_read_only();
        // A query may take values of sequences.
        let may_write = !command.reads() || read_only && matches!(command, Command::Run { .. });
        if (several || read_only) && may_write && !self.connection.is_in_transaction() {
            self.connection.execute(if read_only { "START TRANSACTION READ ONLY" } else { "BEGIN" })?;
            self.implicit = true;
        }
        Ok(())
    }

    /// Whether transactions are that say nothing else.
    fn is_read_only(&self) -> bool {
        self.settings.get("default_transaction_read_only").is_some_and(|value| value == "on")
    }

    /// The end of what belongs together.
    fn sync(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.implicit) && self.connection.is_in_transaction() {
            let aborted = self.connection.is_transaction_failed();
            let ended = self.connection.execute(if aborted { "ROLLBACK" } else { "COMMIT" });
            if let Err(error) = ended.map(drop).and_then(|()| self.restore_local()) {
                self.report(&error, None);
            }
        }
        if !self.connection.is_in_transaction() {
            self.forget_portals();
        }
        self.tell_settings();
        self.ready()
    }

    fn forget_portals(&mut self) {
        self.portals.retain(|_, portal| portal.hold);
    }

    fn begin(&mut self, sql: &str) -> Result<Performed> {
        if std::mem::take(&mut self.implicit) {
            // It is the client's from now on.
        } else if self.connection.is_in_transaction() {
            self.warn("25001", "there is already a transaction in progress");
        } else {
            match self.is_read_only() && !sql.contains("READ") {
                true if sql.contains("LEVEL") => self.connection.execute(&format!("{sql}, READ ONLY"))?,
                true => self.connection.execute(&format!("{sql} READ ONLY"))?,
                false => self.connection.execute(sql)?,
            };
        }
        Ok(Performed::Complete("BEGIN".into()))
    }

    fn end(&mut self, commit: bool, chain: bool) -> Result<Performed> {
        self.implicit = false;
        if !self.connection.is_in_transaction() {
            self.warn("25P01", "there is no transaction in progress");
            return Ok(Performed::Complete(if commit { "COMMIT" } else { "ROLLBACK" }.into()));
        }
        let commits = commit && !self.connection.is_transaction_failed();
        let word = if commits { "COMMIT" } else { "ROLLBACK" };
        let ended = self.connection.execute(&format!("{word}{}", if chain { " AND CHAIN" } else { "" }));
        self.forget_portals();
        self.restore_local()?;
        ended?;
        Ok(Performed::Complete(word.into()))
    }

    /// Takes back what SET LOCAL has set.
    fn restore_local(&mut self) -> Result<()> {
        let local = std::mem::take(&mut self.local);
        local.into_iter().rev().try_for_each(|(name, value)| self.set(&name, value.as_deref(), false))
    }

    // Statements.

    /// Does what a statement says, up to the rows that it gives. `told`: the columns that the client has been told of.
    fn perform(
        &mut self,
        command: &Command,
        values: Vec<ScalarValue>,
        told: Option<Vec<Column>>,
    ) -> Result<Performed, Failure> {
        self.server.metrics.statements.inc();
        let ends = matches!(command, Command::End { .. } | Command::Empty)
            || matches!(command, Command::Run { tag, .. } if tag == "ROLLBACK");
        if self.connection.is_transaction_failed() && !ends {
            return Err(Failure::Statement(
                Error::new(
                    ErrorKind::TransactionState,
                    "current transaction is aborted, commands ignored until end of transaction block",
                )
                .with_sqlstate("25P02"),
            ));
        }
        let complete = |tag: &str| Ok(Performed::Complete(tag.into()));
        match command {
            Command::Empty => Ok(Performed::Empty),
            Command::Run { sql, tag } => {
                let parameters = match values.is_empty() {
                    true => Parameters::None,
                    false => Parameters::Positional(values),
                };
                let result = self.connection.execute_with(sql, parameters)?;
                if result.is_query() {
                    return Ok(Performed::Rows(Box::new(Rows::new(
                        self.connection.clone(),
                        result,
                        told,
                        self.zone(),
                    ))));
                }
                if let Some((name, tag)) = (tag == "PREPARE").then(|| prepared(sql)).flatten() {
                    self.prepared.insert(name, tag);
                }
                complete(&completion(self.tag_of(sql, tag), result.rows_affected()))
            }
            Command::Begin(sql) => Ok(self.begin(sql)?),
            Command::End { commit, chain } => Ok(self.end(*commit, *chain)?),
            Command::Setting(setting) => Ok(Performed::Complete(self.change(setting)?.into())),
            Command::Copy(copy) => {
                let rows = copy::run(self, copy)?;
                complete(&completion("COPY", Some(rows)))
            }
            Command::Deallocate(Some(name)) => {
                if self.statements.remove(name).is_none() {
                    self.connection.execute(&format!("DEALLOCATE \"{}\"", name.replace('"', "\"\"")))?;
                }
                complete("DEALLOCATE")
            }
            Command::Deallocate(None) => {
                self.deallocate_all()?;
                complete("DEALLOCATE ALL")
            }
            Command::Discard { all } => {
                if *all {
                    if self.connection.is_in_transaction() {
                        return Err(Failure::Statement(
                            Error::new(
                                ErrorKind::TransactionState,
                                "DISCARD ALL cannot run inside a transaction block",
                            )
                            .with_sqlstate("25001"),
                        ));
                    }
                    self.portals.clear();
                    self.deallocate_all()?;
                    self.change(&Setting::ResetAll)?;
                }
                complete(if *all { "DISCARD ALL" } else { "DISCARD" })
            }
            Command::Declare { name, sql, hold } => {
                if self.portals.contains_key(name) {
                    return Err(Failure::Statement(
                        Error::new(ErrorKind::AlreadyExists, format!("cursor \"{name}\" already exists"))
                            .with_sqlstate("42P03"),
                    ));
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
                let (formats, state) = (Vec::new(), State::Open(rows));
                let portal = Portal { statement, values: Vec::new(), formats, state, hold: *hold };
                self.portals.insert(name.clone(), portal);
                complete("DECLARE CURSOR")
            }
            Command::Fetch { name, most, moves } => {
                Ok(Performed::Fetched { name: name.clone(), most: *most, moves: *moves })
            }
            Command::CloseCursor(Some(name)) => match self.portals.remove(name) {
                Some(_) => complete("CLOSE CURSOR"),
                None => Err(Failure::Statement(no_portal(name))),
            },
            Command::CloseCursor(None) => {
                self.portals.clear();
                complete("CLOSE CURSOR ALL")
            }
            Command::Nothing(tag) => complete(tag),
        }
    }

    fn deallocate_all(&mut self) -> Result<()> {
        self.statements.clear();
        self.connection.execute("DEALLOCATE ALL").map(drop)
    }

    /// Sends rows of a cursor and gives their number.
    fn fetch(
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

    // The extended protocol.

    fn parse(&mut self, name: String, sql: &str, types: Vec<u32>) -> Result<(), Failure> {
        if !name.is_empty() && self.statements.contains_key(&name) {
            return Err(Failure::Statement(
                Error::new(ErrorKind::AlreadyExists, format!("prepared statement \"{name}\" already exists"))
                    .with_sqlstate("42P05"),
            ));
        }
        self.statements.insert(name, Rc::new(Statement::new(sql, types)?));
        self.output.replies.parse_complete();
        Ok(())
    }

    fn statement(&self, name: &str) -> Result<Rc<Statement>> {
        self.statements.get(name).cloned().ok_or_else(|| {
            Error::new(ErrorKind::UnknownName, format!("prepared statement \"{name}\" does not exist"))
                .with_sqlstate("26000")
        })
    }

    fn bind(
        &mut self,
        name: String,
        statement: &str,
        formats: &[i16],
        values: &[Option<Bytes>],
        result_formats: Vec<i16>,
    ) -> Result<(), Failure> {
        let statement = self.statement(statement)?;
        let types = match values {
            [] => Vec::new(),
            some => statement.bound(&self.connection, some.len())?,
        };
        if types.len() < values.len() && !types.is_empty()
            || formats.len() > 1 && formats.len() != values.len()
        {
            return Err(Failure::Statement(Error::protocol(format!(
                "the statement has {} parameters, but there are {} values and {} formats",
                types.len(),
                values.len(),
                formats.len()
            ))));
        }
        let zone = self.zone_name();
        let values = values
            .iter()
            .enumerate()
            .map(|(index, value)| {
                let oid = types.get(index).copied().unwrap_or(0);
                let binary = super::reply::format_of(formats, index) == 1;
                super::decode::parameter(value.as_ref(), oid, binary, &zone)
                    .map_err(|error| error.context(format!("parameter ${}", index + 1)))
            })
            .collect::<Result<_>>()?;
        let portal = Portal { statement, values, formats: result_formats, state: State::Ready, hold: false };
        self.portals.insert(name, portal);
        self.output.replies.bind_complete();
        Ok(())
    }

    fn describe(&mut self, target: &Target) -> Result<(), Failure> {
        match target {
            Target::Statement(name) => {
                let statement = self.statement(name)?;
                let types = statement.parameters(&self.connection)?;
                self.output.replies.parameters(&types);
                let columns = match self.columns_of(&statement)? {
                    Some(columns) => columns,
                    // What a prepared statement of the engine does must not be done twice.
                    None if matches!(&statement.command, Command::Run { tag, .. } if tag == "EXECUTE") => {
                        None
                    }
                    None => match self.perform(&statement.command, Vec::new(), None)? {
                        Performed::Rows(rows) => Some(rows.columns),
                        _ => None,
                    },
                };
                match columns {
                    Some(columns) => self.output.replies.columns(&columns, &[]),
                    None => self.output.replies.no_data(),
                }
            }
            Target::Portal(name) => {
                let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
                let statement = portal.statement.clone();
                let is_ready = matches!(portal.state, State::Ready);
                // Starting a query costs what planning it would, and some others have to run to tell their columns.
                if is_ready && (statement.command.reads() || self.columns_of(&statement)?.is_none()) {
                    self.start(name)?;
                }
                let formats = self.portals.get(name).map(|portal| portal.formats.clone()).unwrap_or_default();
                let columns = match self.portals.get(name).map(|portal| &portal.state) {
                    Some(State::Open(rows)) => Some(rows.columns.clone()),
                    Some(State::Complete(_) | State::Done) => None,
                    _ => self.columns_of(&statement)?.flatten(),
                };
                match columns {
                    Some(columns) => self.output.replies.columns(&columns, &formats),
                    None => self.output.replies.no_data(),
                }
            }
        }
        Ok(())
    }

    /// The columns that a statement will give; `None` when it has to run to tell.
    fn columns_of(&self, statement: &Statement) -> Result<Option<Option<Vec<Column>>>> {
        if let Command::Fetch { name, moves: false, .. } = &statement.command {
            return match self.portals.get(name).map(|portal| &portal.state) {
                Some(State::Open(rows)) => Ok(Some(Some(rows.columns.clone()))),
                _ => Err(no_portal(name)),
            };
        }
        statement.columns(&self.connection)
    }

    /// Starts the query of a portal, if it is one.
    fn start(&mut self, name: &str) -> Result<(), Failure> {
        let Some(portal) = self.portals.get(name) else { return Ok(()) };
        let (statement, values) = (portal.statement.clone(), portal.values.clone());
        if !matches!(statement.command, Command::Run { .. }) {
            return Ok(());
        }
        let state = match self.perform(&statement.command, values, None)? {
            Performed::Rows(rows) => State::Open(rows),
            Performed::Complete(tag) => State::Complete(tag),
            _ => State::Done,
        };
        if let Some(portal) = self.portals.get_mut(name) {
            portal.state = state;
        }
        Ok(())
    }

    fn execute(&mut self, name: &str, most: i32) -> Result<(), Failure> {
        let most = u64::try_from(most).ok().filter(|most| *most > 0);
        let portal = self.portals.get_mut(name).ok_or_else(|| no_portal(name))?;
        let (statement, formats) = (portal.statement.clone(), portal.formats.clone());
        let mut rows = match std::mem::replace(&mut portal.state, State::Done) {
            State::Open(rows) => {
                self.connection.go_on()?;
                rows
            }
            State::Complete(tag) => {
                self.output.replies.complete(&tag);
                return Ok(());
            }
            State::Done => {
                return Err(Failure::Statement(
                    Error::invalid_input(format!("portal \"{name}\" has been executed to its end"))
                        .with_sqlstate("55000"),
                ));
            }
            State::Ready => {
                let values = std::mem::take(&mut portal.values);
                let alone = self.input.lock().sync_is_next()?;
                self.begin_implicitly(&statement.command, !alone)?;
                let told = statement.told();
                match self.perform(&statement.command, values, told)? {
                    Performed::Rows(rows) => rows,
                    Performed::Fetched { name, most, moves } => {
                        let sent = self.fetch(&name, most, moves, &formats, false)?;
                        self.complete(&statement.command, sent);
                        return Ok(());
                    }
                    Performed::Complete(tag) => {
                        self.output.replies.complete(&tag);
                        self.tell_settings();
                        return Ok(());
                    }
                    Performed::Empty => {
                        self.output.replies.empty_query();
                        return Ok(());
                    }
                }
            }
        };
        let (sent, more) = rows.send(&mut self.output, &formats, most)?;
        match (more, self.portals.get_mut(name)) {
            (true, Some(portal)) => {
                portal.state = State::Open(rows);
                self.output.replies.suspended();
            }
            _ => self.complete(&statement.command, sent),
        }
        Ok(())
    }

    // Settings.

    /// The time zone that instants are shown in.
    pub fn zone(&self) -> Tz {
        self.zone
    }

    /// Its name, for times that are written without one.
    pub fn zone_name(&self) -> String {
        self.settings.get("timezone").unwrap_or_else(|| "UTC".into())
    }

    /// Sets what a statement says, and gives its tag.
    fn change(&mut self, setting: &Setting) -> Result<&'static str> {
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
                if modes.contains("serializable") {
                    return Err(Error::unsupported(
                        "transactions are not serializable: they have snapshot isolation, which is stronger than \
                         REPEATABLE READ; leave the level out",
                    ));
                }
                if *session {
                    let value = if modes.contains("READ ONLY") { "on" } else { "off" };
                    self.settings.set("default_transaction_read_only", value)?;
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
    fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<()> {
        let name = name.to_ascii_lowercase();
        if local {
            if !self.connection.is_in_transaction() {
                self.warn("25P01", "SET LOCAL can only be used in transaction blocks");
                return Ok(());
            }
            self.local.push((name.clone(), self.settings.get(&name)));
        }
        let literal = |value: &str| value.replace('\'', "''");
        match name.as_str() {
            "timezone" => {
                let name = zone_name(value.unwrap_or("UTC"));
                let zone = zone(name)?;
                self.connection.execute(&format!("SET timezone = '{}'", literal(name)))?;
                self.zone = zone;
                self.settings.set("timezone", name)
            }
            "search_path" => {
                let path = value.unwrap_or("main");
                for schema in path.split(',').map(str::trim) {
                    let schema = if schema == "public" { "main" } else { schema };
                    if self.has_schema(schema)? {
                        self.connection.execute(&format!("USE \"{}\"", schema.replace('"', "\"\"")))?;
                        break;
                    }
                }
                self.settings.set("search_path", path)
            }
            engine if OF_ENGINE.contains(&engine) || engine.starts_with("datafusion.") => match value {
                Some(value) => {
                    self.connection.execute(&format!("SET {engine} = '{}'", literal(value))).map(drop)
                }
                None => Err(Error::unsupported(format!("set {engine} to a value; it cannot be reset"))),
            },
            "role" if value.is_some_and(|role| role != "none" && role != self.settings.user()) => {
                Err(Error::unsupported("a session cannot take another role; connect as that user"))
            }
            other => match value {
                Some(value) => self.settings.set(other, value),
                None => self.settings.reset(other),
            },
        }
    }

    fn has_schema(&self, name: &str) -> Result<bool> {
        let found = self.connection.execute(&format!(
            "SELECT 1 FROM information_schema.schemata WHERE schema_name = '{}' AND schema_name NOT IN \
             ('pg_catalog', 'information_schema')",
            name.replace('\'', "''")
        ))?;
        Ok(found.row_count()? > 0)
    }

    /// Tells the client of settings that have changed, if they are ones that it wants to know.
    fn tell_settings(&mut self) {
        for name in REPORTED {
            let value = self.settings.get(name).unwrap_or_default();
            if self.told.get(name) != Some(&value) {
                self.output.replies.parameter_status(name, &value);
                self.told.insert(name, value);
            }
        }
    }
}

/// The name of a zone for which PostgreSQL has more than one.
fn zone_name(name: &str) -> &str {
    match name.to_ascii_uppercase().as_str() {
        "UTC" | "GMT" | "Z" | "ZULU" | "0" | "ETC/UTC" | "LOCAL" => "UTC",
        _ => name,
    }
}

fn zone(name: &str) -> Result<Tz> {
    name.parse().map_err(|_| {
        Error::invalid_input(format!("invalid value for parameter \"TimeZone\": \"{name}\""))
            .with_sqlstate("22023")
    })
}

fn no_portal(name: &str) -> Error {
    let what = if name.is_empty() { "unnamed portal".to_string() } else { format!("cursor \"{name}\"") };
    Error::new(ErrorKind::UnknownName, format!("{what} does not exist")).with_sqlstate("34000")
}

/// Where the error is in the text that the client sent, in characters from 1; it tells where in its statement.
fn position(error: &Error, text: &str, sql: &str) -> Option<usize> {
    let start = (sql.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    Some(text.get(..start)?.chars().count() + error.position()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_of_the_whole_text() {
        let text = "SELECT 'ä'; SELECT\n 1 +";
        let sql = split_statements(text)[1];
        let wrong = Error::new(ErrorKind::Syntax, "wrong");
        assert_eq!(position(&wrong.clone().at(9), text, sql), Some(21));
        assert_eq!(position(&wrong, text, sql), None);
    }

    #[test]
    fn zones_are_checked() {
        assert!(zone(zone_name("utc")).is_ok() && zone(zone_name("Europe/Berlin")).is_ok());
        assert_eq!(zone("nowhere").unwrap_err().sqlstate(), "22023");
    }
}
