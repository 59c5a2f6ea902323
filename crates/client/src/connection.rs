//! Connections to a server, which take statements and give results.

use crate::address::Address;
use crate::again::Again;
use crate::append;
use crate::asked::Named;
use crate::call::{self, CallAnswer};
use crate::link::{Link, SharedHook};
use crate::login::log_in;
use crate::options::{AppendOptions, Hook, Options, Resolver};
use crate::progress::{Meter, Progress, Running};
use crate::result::{QueryResult, Stream};
use arrow_array::{RecordBatch, RecordBatchReader};
use hypostyle_sync::{Mutex, TimedMutex, TimedMutexGuard};
use hypostyle_transport::{Channel, Frame};
use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire as wire;
use hypostyle_wire::{
    Capabilities, Description, FrameType, QueryKind, ResultHeader, Role, TableEntry, Transaction,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long closing waits for a statement of another thread, which it has interrupted.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// The bytes that the server may send before the program has taken some.
pub(crate) const WINDOW_BYTES: u64 = 32 << 20;

/// A session with a server; clones share it. One statement runs at a time; the rest of a result
/// that is being read is taken into memory when the next one begins.
#[derive(Clone)]
pub struct Connection(Arc<Shared>);

pub(crate) struct Shared {
    pub link: TimedMutex<Link>,
    /// The result of which more may come.
    stream: Mutex<Weak<Stream>>,
    interrupted: Arc<AtomicBool>,
    /// The progress of the statement, for threads that do not have the link.
    meter: Arc<Meter>,
    closed: AtomicBool,
    address: Address,
    options: Options,
    role: Role,
    server: String,
    session: u64,
    process: u32,
}

impl Shared {
    /// # Errors
    /// `Closed` in a child of `fork()`, which has the same socket. Two processes that use it would
    /// take each other's answers.
    pub fn check_process(&self) -> Result<()> {
        match self.process == std::process::id() {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Closed,
                "the connection was opened before fork(); connect again in the child process",
            )),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A child that was forked has the same socket, and must not end the session.
        if self.process == std::process::id() {
            self.link.get_mut().close();
        }
    }
}

impl Connection {
    /// # Errors
    /// `Connection` when nobody answers; `Denied` when the login fails; `Version`, `Busy`.
    pub fn open(address: &Address, options: Options) -> Result<Self> {
        let (transport, welcome) = log_in(address, &options, None)?;
        let (hook, interrupted) = (SharedHook::default(), Arc::<AtomicBool>::default());
        let meter = Arc::<Meter>::default();
        let channel = if welcome.capabilities.has(Capabilities::RESUME) {
            let again = Again {
                address: address.clone(),
                options: options.clone(),
                session: welcome.session,
                key: welcome.key.clone(),
                hook: hook.clone(),
                meter: meter.clone(),
                interrupted: interrupted.clone(),
                streams: 0,
            };
            let mut channel = Channel::resumable(transport, Box::new(again));
            channel.open_streams();
            channel
        } else {
            Channel::new(transport)
        };
        Ok(Self(Arc::new(Shared {
            link: TimedMutex::new(Link::new(
                channel,
                &welcome,
                &options,
                hook,
                meter.clone(),
                interrupted.clone(),
            )),
            stream: Mutex::default(),
            interrupted,
            meter,
            closed: AtomicBool::new(false),
            address: address.clone(),
            options,
            role: welcome.role,
            server: welcome.server,
            session: welcome.session,
            process: std::process::id(),
        })))
    }

    /// Opens another session with the same server.
    pub fn duplicate(&self) -> Result<Self> {
        Self::open(&self.0.address, self.0.options.clone())
    }

    pub fn address(&self) -> &Address {
        &self.0.address
    }

    pub fn role(&self) -> Role {
        self.0.role
    }

    /// Returns the name and version of the server.
    pub fn server(&self) -> &str {
        &self.0.server
    }

    /// Returns the number of the session, as in SHOW SESSIONS.
    pub fn session(&self) -> u64 {
        self.0.session
    }

    /// Runs the statements of a text and returns the result of the last one. `parameters` is one
    /// row with a column for each placeholder. `names` are the names of the parameters; empty for
    /// parameters by position.
    ///
    /// # Errors
    /// The error of the first failing statement. The statements before it have taken effect.
    pub fn execute(
        &self,
        sql: &str,
        parameters: Option<&RecordBatch>,
        names: &[String],
    ) -> Result<QueryResult> {
        let parameters = match parameters {
            None => None,
            Some(row) => {
                let (head, payload) = wire::encode_row(row)?;
                let schema = wire::canonical_schema(&row.schema())?;
                Some(wire::Parameters { names: names.to_vec(), schema, head, payload })
            }
        };
        self.query(QueryKind::Sql, sql, parameters)
    }

    /// Returns all rows of a table or view.
    pub fn table(&self, name: &str) -> Result<QueryResult> {
        self.query(QueryKind::Table, name, None)
    }

    fn query(
        &self,
        kind: QueryKind,
        text: &str,
        parameters: Option<wire::Parameters>,
    ) -> Result<QueryResult> {
        let mut link = self.link()?;
        check_length(&link, text)?;
        let number = link.begin()?;
        if link.resolver.is_some() {
            link.named = match kind {
                QueryKind::Sql => Named::of_statement(text),
                QueryKind::Table => Named::of_table(text),
            };
        }
        let running = self.0.meter.begin();
        let query = wire::Query {
            query: number,
            kind,
            descriptors: link.takes_descriptors(),
            // Any thread may ask for the progress of the statement.
            progress: true,
            chunk_bytes: self.0.address.chunk_bytes.unwrap_or(0),
            credit: WINDOW_BYTES,
            text: text.into(),
            parameters,
        };
        link.send(&query.frame())?;
        let frame = link.receive_first(number)?;
        self.result(link, &frame, running)
    }

    /// Returns the result that begins with a frame.
    fn result(
        &self,
        mut link: TimedMutexGuard<'_, Link>,
        frame: &Frame,
        running: Running,
    ) -> Result<QueryResult> {
        if frame.frame_type != FrameType::Result {
            let error = Error::protocol(format!("a {:?} frame where Result must be", frame.frame_type));
            return link.keep_error(Err(error));
        }
        let header = ResultHeader::decode(&frame.body);
        let header = link.keep_error(header)?;
        // A statement that is planned needs no more tables.
        link.named = Named::default();
        let stream = Arc::new(Stream::new(&header, running));
        stream.take_first(&mut link)?;
        *self.0.stream.lock() = Arc::downgrade(&stream);
        drop(link);
        QueryResult::new(self.0.clone(), header, stream)
    }

    /// Takes the link, after removing the rest of an earlier result from it.
    fn link(&self) -> Result<TimedMutexGuard<'_, Link>> {
        if self.0.closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "the connection is closed; connect again"));
        }
        self.0.check_process()?;
        let mut link = self.0.link.lock();
        if let Some(query) = link.running {
            let stream = self.0.stream.lock().upgrade();
            if let Some(stream) = stream {
                stream.take_all(&mut link)?;
            }
            // Nobody has this result any more, or it could not be taken.
            link.abandon(query)?;
        }
        Ok(link)
    }

    /// Appends all rows of `data` in one transaction and returns their number.
    ///
    /// # Errors
    /// The errors of the table; nothing is appended then. `Connection` when the connection broke.
    /// If it broke after the last row was sent, it is not known whether the rows were appended.
    pub fn append(
        &self,
        table: &str,
        data: Box<dyn RecordBatchReader + Send>,
        options: AppendOptions,
    ) -> Result<u64> {
        // This is checked before anything is sent: a type that cannot be sent is an error of the
        // program and of this statement only.
        let schema = wire::canonical_schema(&data.schema())?;
        let mut link = self.link()?;
        let query = link.begin()?;
        let append = wire::Append {
            query,
            create: options.create,
            by_name: options.by_name,
            table: table.into(),
            schema,
        };
        let running = self.0.meter.begin();
        let rows = append::append(&mut link, &append, data)?;
        running.end();
        Ok(rows)
    }

    /// Calls the server, as one node of a cluster does another. `rows` follow the request.
    ///
    /// # Errors
    /// The error of the node; `Denied` if the session's role is not `cluster`; `InvalidInput`
    /// (54000) for a request that is too long. `Connection` when the connection broke or the limit
    /// of silence is over: [`Error::is_unreachable`] tells it from errors that the node has sent.
    /// It is then not known whether the call took effect.
    pub fn call(
        &self,
        request: &[u8],
        rows: Option<Box<dyn RecordBatchReader + Send>>,
    ) -> Result<CallAnswer> {
        let schema = rows.as_ref().map(|rows| wire::canonical_schema(&rows.schema())).transpose()?;
        let mut link = self.link()?;
        call::check_granted(&link, self.0.role)?;
        let call = wire::Call {
            query: link.begin()?,
            credit: WINDOW_BYTES,
            chunk_bytes: self.0.address.chunk_bytes.unwrap_or(0),
            request: request.to_vec(),
            rows: schema,
        };
        let running = self.0.meter.begin();
        let frame = call::call(&mut link, &call, rows)?;
        if frame.frame_type != FrameType::Reply {
            return self.result(link, &frame, running).map(CallAnswer::Rows);
        }
        let reply = link.reply(&frame)?;
        running.end();
        Ok(CallAnswer::Reply(reply))
    }

    /// Describes one statement before it runs, with `$1` for its first parameter.
    ///
    /// # Errors
    /// The errors of parsing the statement, and of planning it if it is a query.
    pub fn describe(&self, sql: &str) -> Result<Description> {
        let mut link = self.link()?;
        check_length(&link, sql)?;
        let query = link.begin()?;
        link.send(&wire::Describe { query, text: sql.into() }.frame())?;
        let frame = link.receive(query)?;
        link.running = None;
        let description = match frame.frame_type {
            FrameType::Description => Description::decode(&frame.body),
            other => Err(Error::protocol(format!("a {other:?} frame where Description must be"))),
        };
        link.keep_error(description)
    }

    /// Returns all tables and views, in order of schema and name.
    pub fn tables(&self) -> Result<Vec<TableEntry>> {
        let mut link = self.link()?;
        let query = link.begin()?;
        link.send(&wire::Cancel(query).frame(FrameType::Catalog))?;
        let frame = link.receive(query)?;
        link.running = None;
        let tables = match frame.frame_type {
            FrameType::Tables => TableEntry::decode_list(&frame.body),
            other => Err(Error::protocol(format!("a {other:?} frame where Tables must be"))),
        };
        link.keep_error(tables).map(|(_, tables)| tables)
    }

    /// Returns the state of the transaction after the last statement.
    pub fn transaction(&self) -> Transaction {
        self.0.link.lock().transaction
    }

    /// Returns the progress of the running statement, or of the last one at its end. Any thread may
    /// call it. It returns `None` before the first statement.
    pub fn progress(&self) -> Option<Progress> {
        self.0.meter.progress()
    }

    /// Makes the running statement fail with `Interrupted`. Any thread may call it. The connection
    /// stays usable.
    pub fn interrupt(&self) {
        self.0.interrupted.store(true, Ordering::Release);
    }

    pub fn set_hook(&self, hook: Option<Hook>) {
        *self.0.link.lock().hook.lock() = hook;
    }

    pub fn set_resolver(&self, resolver: Option<Resolver>) {
        self.0.link.lock().resolver = resolver;
    }

    /// Ends the session. Results that have come whole, or are mappings, stay valid. A statement that
    /// does not end in a short time, because it waits for rows of its program, ends the session when
    /// it does: it may be this thread's.
    pub fn close(&self) {
        if self.0.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.interrupt();
        match self.0.link.try_lock_until(Instant::now() + CLOSE_WITHIN) {
            Some(mut link) => link.close(),
            // The second interrupt gives the connection up.
            None => self.interrupt(),
        }
    }

    pub fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire)
    }
}

fn check_length(link: &Link, text: &str) -> Result<()> {
    if text.len() as u64 + 1024 <= u64::from(link.frame_bytes_max) {
        return Ok(());
    }
    Err(Error::invalid_input(format!(
        "the statement has {} bytes, more than the {} that the server accepts",
        text.len(),
        link.frame_bytes_max
    ))
    .with_sqlstate("54000"))
}
