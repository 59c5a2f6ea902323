//! One connection of our own protocol (docs/protocol.md): the handshake, then one statement after the other.
//!
//! A session has one thread. While the engine works, it calls the session's poll hook on that same
//! thread every 50 ms, and there the session looks whether the client has cancelled, granted credit
//! or gone; nothing else reads the socket.

mod answer;
mod call;
mod chunks;
mod handshake;
mod link;
mod pulse;
mod receive;
mod send;
mod trial;

use crate::arrivals::Arrival;
use crate::server::{Guest, Identity, Server};
use crate::shown::Shown;
use answer::answers;
use hypostyle::kind::explains;
use hypostyle::{AppendOptions, Connection, Parameters, QueryResult, ScalarValue};
use hypostyle_sync::Mutex;
use hypostyle_transport::{Frame, Pool, Socket};
use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire as wire;
use hypostyle_wire::{Capabilities, FrameType, QueryKind, Role};
use link::{Expected, Link, Reason};
pub(crate) use link::{idle_in_transaction, idle_transaction_time};
use pulse::Pulse;
use send::Wanted;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;
use trial::Trials;

/// A session that has been let in.
struct Session {
    server: Arc<Server>,
    pool: Arc<Pool>,
    link: Arc<Mutex<Link>>,
    connection: Connection,
    role: Role,
    /// What the client can and will be used.
    capabilities: Capabilities,
    /// Compressions that the client can undo.
    codecs: u32,
    frame_bytes_max: u32,
    /// The client is on this machine, and nothing forwards the connection.
    is_direct: bool,
    /// The client gets the columns' own files where it takes descriptors; others get memory files.
    may_open_files: bool,
    /// Bytes a second that the last results have shown.
    link_speed: Cell<Option<f64>>,
    /// The last result, which the client may want as chunks.
    kept: Option<(wire::Query, QueryResult)>,
    /// Begun with the first call.
    pulse: Option<Pulse>,
}

/// Serves a connection to its end.
///
/// # Errors
/// Why it ended, unless the client said goodbye.
pub(crate) fn serve(server: &Arc<Server>, pool: &Arc<Pool>, socket: Socket, arrival: Arrival) -> Result<()> {
    let Some((channel, guest)) = handshake::shake_hands(server, socket, &arrival)? else { return Ok(()) };
    drop(arrival);
    let Identity { user, client, peer, .. } = &guest.identity;
    tracing::info!(user, client, peer, session = guest.session, "session begins");
    let link = Arc::new(Mutex::new(Link::new(server.clone(), channel, guest.identity.is_of_node())));
    let Guest { connection, session: number, _place, .. } = guest;
    link::install(&link, &connection);
    let mut session = Session {
        server: server.clone(),
        pool: pool.clone(),
        link,
        connection,
        role: guest.identity.role,
        capabilities: guest.capabilities,
        codecs: guest.codecs,
        frame_bytes_max: guest.frame_bytes_max,
        is_direct: guest.is_direct,
        may_open_files: guest.may_open_files,
        link_speed: Cell::new(None),
        kept: None,
        pulse: None,
    };
    let result = session.run();
    // What is open is rolled back, whatever the way out.
    let _closed = session.connection.close();
    if let Err(error) = &result {
        session.say_last(error);
    }
    session.link.lock().channel.close();
    tracing::info!(
        session = number,
        error = result.as_ref().err().map(|error| tracing::field::display(Shown(error))),
        "session ends"
    );
    result
}

impl Session {
    fn run(&mut self) -> Result<()> {
        loop {
            let frame = self.link.lock().next_request()?;
            if frame.frame_type == FrameType::Bye {
                return Ok(());
            }
            self.serve_request(&frame)?;
        }
    }

    /// # Errors
    /// Those after which the connection cannot go on; a statement's are told to the client.
    fn serve_request(&mut self, frame: &Frame) -> Result<()> {
        let body = frame.body.as_slice();
        match frame.frame_type {
            FrameType::Query => {
                let query = wire::Query::decode(body)?;
                let number = query.query;
                self.link.lock().begin(number, query.credit, query.progress, Expected::Nothing);
                let result = self.query(query);
                self.conclude(number, result)
            }
            FrameType::Append => {
                let append = wire::Append::decode(body)?;
                self.link.lock().begin(append.query, 0, false, Expected::Rows { credit: 0 });
                let (number, result) = (append.query, self.append(&append));
                self.conclude(number, result)
            }
            FrameType::Call => {
                let call = wire::Call::decode(body)?;
                let expected = match call.rows {
                    Some(_) => Expected::Rows { credit: 0 },
                    None => Expected::Nothing,
                };
                self.link.lock().begin(call.query, call.credit, true, expected);
                let (number, result) = (call.query, self.call(&call));
                self.conclude(number, result)
            }
            FrameType::Catalog => {
                let number = wire::Cancel::decode(body)?.0;
                self.link.lock().begin(number, 0, false, Expected::Nothing);
                let result = self.catalog(number);
                self.conclude(number, result)
            }
            FrameType::Describe => {
                let wire::Describe { query, text } = wire::Describe::decode(body)?;
                self.link.lock().begin(query, 0, false, Expected::Nothing);
                let result = self.describe(query, &text);
                self.conclude(query, result)
            }
            FrameType::Chunks => {
                let number = wire::Cancel::decode(body)?.0;
                let result = self.send_again(number);
                self.conclude(number, result)
            }
            // Of a statement that is over: they were on the way.
            FrameType::Credit
            | FrameType::Cancel
            | FrameType::Answer
            | FrameType::Chunk
            | FrameType::Dictionary
            | FrameType::End => Ok(()),
            other => Err(Error::protocol(format!("a {other:?} frame is not expected here"))),
        }
    }

    fn query(&mut self, query: wire::Query) -> Result<()> {
        let started = Instant::now();
        self.kept = None;
        self.check_may_state()?;
        self.server.metrics.statements.inc();
        let resolver = self.capabilities.has(Capabilities::RESOLVE).then(|| answers(&self.link, query.query));
        self.connection.set_table_resolver(resolver);
        if explains(&query.text) {
            self.connection.set_transfer(Arc::new(self.trials(&query)?));
        }
        let result = match query.kind {
            QueryKind::Table => self.connection.table(&query.text),
            QueryKind::Sql => {
                let parameters = query.parameters.as_ref().map(parameters_of).transpose()?;
                self.connection.execute_with(&query.text, parameters.unwrap_or_default())
            }
        };
        self.connection.set_table_resolver(None);
        let result = self.link.lock().explained(result)?;
        self.send(Wanted::from(&query), &result, started)?;
        if result.is_stored() && query.descriptors {
            self.kept = Some((query, result));
        }
        Ok(())
    }

    fn trials(&self, query: &wire::Query) -> Result<Trials> {
        Ok(Trials {
            codec: self.codec()?,
            codecs: self.codecs,
            threads: self.pool.threads(),
            chunk_bytes: query.chunk_bytes,
            frame_bytes_max: self.frame_bytes_max,
            link: self.link_speed.get(),
            is_direct: self.is_direct,
            descriptors: query.descriptors && self.capabilities.has(Capabilities::DESCRIPTORS),
            may_open_files: self.may_open_files,
        })
    }

    /// The result of the last query once more, now without descriptors (§4.2).
    fn send_again(&mut self, number: u32) -> Result<()> {
        let Some((mut query, result)) = self.kept.take().filter(|(kept, _)| kept.query == number) else {
            return Err(Error::protocol(format!("the result of query {number} is not kept")));
        };
        query.descriptors = false;
        self.link.lock().begin(number, query.credit, query.progress, Expected::Nothing);
        self.send(Wanted::from(&query), &result, Instant::now())
    }

    fn append(&mut self, append: &wire::Append) -> Result<()> {
        self.check_may_state()?;
        let rows = receive::rows(&self.link, append.query, &append.schema)?;
        let options = AppendOptions { create: append.create, by_name: append.by_name };
        let result = self.connection.append(&append.table, Box::new(rows), options);
        let affected = self.link.lock().explained(result)?;
        self.server.metrics.rows_received.inc_by(affected);
        let done = wire::Done {
            query: append.query,
            affected: Some(affected),
            transaction: self.transaction(),
            ..wire::Done::default()
        };
        self.link.lock().send(&done.frame())
    }

    fn catalog(&mut self, number: u32) -> Result<()> {
        self.check_may_state()?;
        let tables = self.connection.tables()?;
        let entries: Vec<wire::TableEntry> = tables.into_iter().map(answer::table_entry).collect();
        let frame = wire::TableEntry::list_frame(number, &entries);
        if frame.len() > self.frame_bytes_max as usize {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!(
                    "the catalog takes {} bytes, more than the client accepts; query information_schema",
                    frame.len()
                ),
            )
            .with_sqlstate("54000"));
        }
        self.link.lock().send(&frame)
    }

    fn describe(&self, query: u32, text: &str) -> Result<()> {
        self.check_may_state()?;
        let described = self.connection.describe(text);
        let described = self.link.lock().explained(described)?;
        self.link.lock().send(&answer::description(query, &described).frame())
    }

    fn transaction(&self) -> wire::Transaction {
        match (self.connection.is_in_transaction(), self.connection.is_transaction_failed()) {
            (false, _) => wire::Transaction::None,
            (true, false) => wire::Transaction::Open,
            (true, true) => wire::Transaction::Failed,
        }
    }

    /// Tells the client of a statement's error; a connection's ends the session.
    fn conclude(&mut self, number: u32, result: Result<()>) -> Result<()> {
        let mut link = self.link.lock();
        link.end();
        let Err(error) = result else { return Ok(()) };
        if let Some(Reason::Gone(error)) = link.reason() {
            return Err(error);
        }
        drop(link);
        self.server.metrics.errors.inc();
        let error = match self.capabilities.has(wire::Capabilities::PLACES) {
            true => error,
            false => error.nowhere(),
        };
        let failure = wire::Failure { query: number, error, fatal: false, transaction: self.transaction() };
        self.link.lock().send(&failure.frame())
    }

    /// Why the connection ends, if the client can still hear it.
    fn say_last(&self, error: &Error) {
        let transaction = wire::Transaction::None;
        let failure = wire::Failure { query: 0, error: error.clone(), fatal: true, transaction };
        self.link.lock().send_last(&failure.frame());
    }
}

fn parameters_of(parameters: &wire::Parameters) -> Result<Parameters> {
    let row = wire::decode_row(parameters.schema.clone(), &parameters.head, &parameters.payload)?;
    let value = |column: &arrow::array::ArrayRef| {
        ScalarValue::try_from_array(column, 0)
            .map_err(|error| Error::protocol(format!("a parameter is no value: {error}")))
    };
    let values = row.columns().iter().map(value).collect::<Result<Vec<_>>>()?;
    if parameters.names.is_empty() {
        return Ok(Parameters::Positional(values));
    }
    if parameters.names.len() != values.len() {
        return Err(Error::protocol("a parameter by name has no name"));
    }
    Ok(Parameters::Named(parameters.names.iter().cloned().zip(values).collect()))
}
