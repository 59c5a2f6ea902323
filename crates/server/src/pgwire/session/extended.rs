//! Statements that are prepared, given values and run in messages of their own: the extended
//! protocol.

use super::perform::Performed;
use super::{Session, already_cursor, already_prepared, no_portal};
use crate::pgwire::channel::Failure;
use crate::pgwire::command::Command;
use crate::pgwire::decode::{nested_parameter, parameter};
use crate::pgwire::message::Target;
use crate::pgwire::prepared::{Portal, State, Statement};
use crate::pgwire::reply::format_of;
use crate::pgwire::rows::Rows;
use bytes::Bytes;
use hypostyle::Held;
use hypostyle::postgres::by_oid;
use hypostyle_pgtypes::Column;
use hypostyle_types::{Error, ErrorKind, Result};
use std::rc::Rc;

/// So many statements and so many portals of a session, and bytes of one, take no memory of the session's.
const ENTRIES_FREE: usize = 256;
const ENTRY_BYTES_FREE: usize = 16 << 10;

/// What one takes beside its texts and values.
const ENTRY_BYTES: usize = 1 << 10;

/// So many open queries of a session take no memory of the session's, and what each of the others takes,
/// about.
const OPEN_FREE: usize = 16;
const OPEN_BYTES: u64 = 64 << 10;

/// The bytes that an element of an array takes while it is read, beside those that come.
const ELEMENT_BYTES: usize = 64;

/// Returns the bytes that the elements of an array take, at most: NULLs are 4 bytes in the binary format.
fn bytes_of_elements(array: &Bytes, is_binary: bool) -> usize {
    let elements = match is_binary {
        true => array.len() / 4,
        false => array.iter().filter(|byte| **byte == b',').count(),
    };
    elements * ELEMENT_BYTES
}

impl Session {
    pub(super) fn parse(&mut self, name: String, sql: &str, types: Vec<u32>) -> Result<(), Failure> {
        self.take_configured()?;
        if !name.is_empty() && (self.statements.contains_key(&name) || self.prepared.contains_key(&name)) {
            return Err(Failure::Statement(already_prepared(&name)));
        }
        let bytes = name.len() + sql.len() + size_of_val(types.as_slice());
        let memory = self.hold_entry("prepared statements", bytes, self.statements.len())?;
        let known = self.known.get(sql, &types).filter(|known| known.holds(&self.connection)).cloned();
        let statement = match known {
            Some(known) => known,
            None => {
                let new = Rc::new(Statement::new(sql, types.clone())?);
                new.check_syntax(&self.connection)?;
                self.known.put(sql, types, new.clone());
                new
            }
        };
        self.statements.insert(name, (statement, memory));
        self.output.replies.parse_complete();
        Ok(())
    }

    /// Takes memory of the session's for one more statement or portal, if it is large or there are many: a
    /// client may name any number of them.
    pub(super) fn hold_entry(&self, what: &str, bytes: usize, others: usize) -> Result<Option<Held>> {
        match bytes > ENTRY_BYTES_FREE || others >= ENTRIES_FREE {
            true => self.connection.hold(what, (bytes + ENTRY_BYTES) as u64),
            false => Ok(None),
        }
    }

    /// Takes memory of the session's for one more query that waits until its rows are asked for, if there are
    /// many.
    pub(super) fn hold_open(&self) -> Result<Option<Held>> {
        let open = self.portals.values().filter(|portal| matches!(portal.state, State::Open(_))).count();
        match open >= OPEN_FREE {
            true => self.connection.hold("open cursors", OPEN_BYTES),
            false => Ok(None),
        }
    }

    fn statement(&self, name: &str) -> Result<Rc<Statement>> {
        self.statements.get(name).map(|(statement, _)| statement.clone()).ok_or_else(|| {
            Error::new(ErrorKind::UnknownName, format!("prepared statement \"{name}\" does not exist"))
                .with_sqlstate("26000")
        })
    }

    pub(super) fn bind(
        &mut self,
        name: String,
        statement: &str,
        formats: &[i16],
        values: &[Option<Bytes>],
        result_formats: Vec<i16>,
    ) -> Result<(), Failure> {
        self.take_configured()?;
        let statement = self.statement(statement)?;
        statement.check_unchanged(&self.connection)?;
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
        if !name.is_empty() && self.portals.contains_key(&name) {
            return Err(Failure::Statement(already_cursor(&name)));
        }
        self.check_formats(&statement, formats, &result_formats)?;
        let of_arrays = values.iter().enumerate().filter_map(|(index, value)| {
            let (_, is_array) = by_oid(types.get(index).copied()?)?;
            let is_binary = format_of(formats, index) == 1;
            value.as_ref().filter(|_| is_array).map(|value| bytes_of_elements(value, is_binary))
        });
        let given = values.iter().flatten().map(Bytes::len).sum::<usize>();
        let bytes = name.len() + given + of_arrays.sum::<usize>();
        let memory = self.hold_entry("values of portals", bytes, self.portals.len())?;
        let zone = self.zone_name();
        let values = values
            .iter()
            .enumerate()
            .map(|(index, value)| {
                let oid = types.get(index).copied().unwrap_or(0);
                let binary = format_of(formats, index) == 1;
                let value = match statement.nested(index) {
                    // JSON is the same text in both formats.
                    Some(of) => nested_parameter(value.as_ref(), of, &zone),
                    None => parameter(value.as_ref(), oid, binary, &zone),
                };
                value.map_err(|error| error.context(format!("parameter ${}", index + 1)))
            })
            .collect::<Result<Vec<_>>>()?;
        let values = statement.used(values);
        let (state, formats) = (State::Ready, result_formats);
        let number = self.number_portal();
        let (hold, is_new) = (false, true);
        let (_memory, opened) = (memory, None);
        let portal = Portal { statement, values, formats, state, hold, is_new, number, _memory, opened };
        self.portals.insert(name, portal);
        self.output.replies.bind_complete();
        Ok(())
    }

    /// # Errors
    /// `22023` for a format that there is not, `08P01` for another number of formats than of columns.
    fn check_formats(&self, statement: &Statement, given: &[i16], of_columns: &[i16]) -> Result<()> {
        if let Some(code) = given.iter().chain(of_columns).find(|code| !matches!(code, 0 | 1)) {
            let error = Error::invalid_input(format!("unsupported format code: {code}"));
            return Err(error.with_sqlstate("22023"));
        }
        if of_columns.len() < 2 || !matches!(statement.command, Command::Run { .. }) {
            return Ok(());
        }
        match self.columns_of(statement)? {
            Some(Some(columns)) if columns.len() != of_columns.len() => Err(Error::protocol(format!(
                "bind message has {} result formats but query has {} columns",
                of_columns.len(),
                columns.len()
            ))),
            _ => Ok(()),
        }
    }

    pub(super) fn describe(&mut self, target: &Target) -> Result<(), Failure> {
        self.take_configured()?;
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
                // Starting a query costs what planning it would, and some others have to run to
                // tell their columns.
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
        let memory = if matches!(state, State::Open(_)) { self.hold_open()? } else { None };
        if let Some(portal) = self.portals.get_mut(name) {
            portal.state = state;
            portal.opened = memory;
        }
        Ok(())
    }

    pub(super) fn execute(&mut self, name: &str, most: i32) -> Result<(), Failure> {
        self.take_configured()?;
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
            State::Ended => {
                portal.state = State::Ended;
                self.complete(&statement.command, 0);
                return Ok(());
            }
            State::Done => {
                return Err(Failure::Statement(
                    Error::invalid_input(format!("portal \"{name}\" has been executed to its end"))
                        .with_sqlstate("55000"),
                ));
            }
            State::Ready => {
                statement.check_unchanged(&self.connection)?;
                let values = std::mem::take(&mut portal.values);
                portal._memory = None;
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
        if more && self.portals.contains_key(name) {
            return Ok(self.suspend(name, rows)?);
        }
        if let Some(portal) = self.portals.get_mut(name) {
            (portal.state, portal.opened) = (State::Ended, None);
        }
        self.complete(&statement.command, sent);
        Ok(())
    }

    /// Keeps the rows of a portal that have not been asked for yet.
    fn suspend(&mut self, name: &str, rows: Box<Rows>) -> Result<()> {
        let holds = self.portals.get(name).is_some_and(|portal| portal.opened.is_some());
        let memory = if holds { None } else { self.hold_open()? };
        if let Some(portal) = self.portals.get_mut(name) {
            portal.state = State::Open(rows);
            portal.opened = portal.opened.take().or(memory);
        }
        self.output.replies.suspended();
        Ok(())
    }
}
