//! Databases and connections.

use crate::call::{Slot, answer, call, check_place, give_handle, read_struct, write_struct};
use crate::handle::{Handle, Kind};
use crate::imported::rows_of;
use crate::layout::{Options, Progress};
use crate::text::{optional, text};
use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::ffi_stream::FFI_ArrowArrayStream;
use hypostyle::{
    DriverSession, Error, ErrorKind, ExternalTable, OpenOptions, Poll, PollHook, Result, ServerAddress,
    TableResolver,
};
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// `hypostyle_database`.
pub enum Database {
    Here(hypostyle::Database),
    Server(ServerAddress),
}

impl Kind for Database {
    const MAGIC: u64 = 0x4859_504f_0000_0002;
    const NAME: &'static str = "database";
}

/// `hypostyle_connection`.
pub struct Connection(pub Arc<DriverSession>);

impl Kind for Connection {
    const MAGIC: u64 = 0x4859_504f_0000_0003;
    const NAME: &'static str = "connection";
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// What the caller passes to its own functions.
#[derive(Clone, Copy)]
struct Context(*mut c_void);

// SAFETY: the header says that other threads use it, and that it stays valid.
unsafe impl Send for Context {}

// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    fn pointer(self) -> *mut c_void {
        self.0
    }
}

const IN_MEMORY: &str = ":memory:";

type PollFunction = unsafe extern "C" fn(*mut c_void, *const Progress) -> i32;
type TablesFunction =
    unsafe extern "C" fn(*mut c_void, *const c_char, usize, *mut FFI_ArrowArrayStream) -> i32;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_open(
    target: *const c_char,
    length: usize,
    options: *const Options,
    database: *mut *mut Handle<Database>,
    error: Slot,
) -> i32 {
    let work = || {
        check_place(database, "the database")?;
        let target = match target.is_null() {
            true => IN_MEMORY,
            // SAFETY: the header says what it is.
            false => unsafe { text(target, length, "the target") }?,
        };
        let given = match options.is_null() {
            true => None,
            // SAFETY: the header says what it is.
            false => Some(unsafe { read_struct(options) }?),
        };
        // SAFETY: its texts are what the header says.
        let opened = unsafe { open(target, given.as_ref()) }?;
        // SAFETY: it is a place.
        unsafe { give_handle(database, opened) }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

/// # Safety
/// The texts of the options are NULL, or NUL ends them.
unsafe fn open(target: &str, given: Option<&Options>) -> Result<Database> {
    let mut options = OpenOptions::default();
    let (mut user, mut password) = (None, None);
    if let Some(given) = given {
        options.read_only = given.read_only != 0;
        options.allow_network_filesystem = given.allow_network_filesystem != 0;
        options.threads = Some(given.threads as usize).filter(|threads| *threads > 0);
        options.memory_limit = Some(given.memory_limit).filter(|limit| *limit > 0);
        // SAFETY: the caller promises this.
        let texts = unsafe {
            (
                optional(given.temp_directory, "the directory")?,
                optional(given.verify, "verify")?,
                optional(given.user, "the user")?,
                optional(given.password, "the password")?,
            )
        };
        options.temp_directory = texts.0.map(Into::into);
        if let Some(verify) = texts.1 {
            options.verify = verify.parse()?;
        }
        (user, password) = (texts.2.map(str::to_string), texts.3.map(str::to_string));
    }
    if target.contains("://") {
        let address = ServerAddress::parse_as(target, user.as_deref(), password.as_deref())?;
        if options.read_only {
            return Err(Error::unsupported(
                "a server's database is not opened read-only: connect as a user with the role read",
            ));
        }
        return Ok(Database::Server(address));
    }
    if user.is_some() || password.is_some() {
        return Err(Error::invalid_input(
            "a database in this process has no users; leave user and password out",
        ));
    }
    match target {
        "" => Err(Error::invalid_input("the target is empty; \":memory:\" is a new database in memory")),
        IN_MEMORY => hypostyle::Database::in_memory(options).map(Database::Here),
        path => hypostyle::Database::open(path, options).map(Database::Here),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_close(database: *mut *mut Handle<Database>) {
    // SAFETY: the header says what it is.
    unsafe { Handle::free(database) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_connect(
    database: *mut Handle<Database>,
    connection: *mut *mut Handle<Connection>,
    error: Slot,
) -> i32 {
    let work = || {
        check_place(connection, "the connection")?;
        // SAFETY: the header says what it is.
        let connected = match unsafe { Handle::get(database) }? {
            Database::Here(database) => database.connect(),
            Database::Server(address) => {
                let client = format!("libhypostyle {}", env!("CARGO_PKG_VERSION"));
                hypostyle::Connection::to_address(address, Some(client))
            }
        };
        let session = Arc::new(DriverSession::new(connected?));
        // SAFETY: it is a place.
        unsafe { give_handle(connection, Connection(session)) }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_disconnect(connection: *mut *mut Handle<Connection>) {
    // SAFETY: the header says what it is.
    unsafe { Handle::free(connection) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_interrupt(connection: *mut Handle<Connection>) {
    answer((), || {
        // SAFETY: the header says what it is.
        if let Ok(connection) = unsafe { Handle::get(connection) } {
            connection.0.connection().interrupt();
        }
        None
    });
}

fn progress_of(told: &hypostyle::Progress) -> Progress {
    Progress {
        size: size_of::<Progress>() as u32,
        is_running: i32::from(told.is_running),
        is_transfer: i32::from(told.is_transfer),
        has_total: i32::from(told.rows_total.is_some()),
        rows_done: told.rows_done,
        rows_total: told.rows_total.unwrap_or(0),
        seconds: told.elapsed.as_secs_f64(),
        seconds_left: told.remaining.map_or(-1.0, |remaining| remaining.as_secs_f64()),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_get_progress(
    connection: *mut Handle<Connection>,
    progress: *mut Progress,
    error: Slot,
) -> i32 {
    let work = || {
        // SAFETY: the header says what it is.
        let told = unsafe { Handle::get(connection) }?.0.connection().progress();
        let told = told
            .ok_or_else(|| Error::new(ErrorKind::NotFound, "the connection has not run a statement yet"))?;
        // SAFETY: the header says what it is.
        unsafe { write_struct(progress, progress_of(&told)) }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_set_poll(
    connection: *mut Handle<Connection>,
    poll: Option<PollFunction>,
    context: *mut c_void,
    error: Slot,
) -> i32 {
    let context = Context(context);
    let work = || {
        // SAFETY: the header says what it is.
        let connection = unsafe { Handle::get(connection) }?;
        let hook = poll.map(|poll| -> PollHook {
            Arc::new(move |told| {
                let told = progress_of(told);
                // SAFETY: the caller has given the function and what it is passed.
                match unsafe { poll(context.pointer(), &raw const told) } {
                    0 => Poll::Continue,
                    _ => Poll::Interrupt,
                }
            })
        });
        connection.0.set_poll(hook);
        Ok(())
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_set_tables(
    connection: *mut Handle<Connection>,
    tables: Option<TablesFunction>,
    context: *mut c_void,
    error: Slot,
) -> i32 {
    let context = Context(context);
    let work = || {
        // SAFETY: the header says what it is.
        let connection = unsafe { Handle::get(connection) }?;
        if tables.is_some() && connection.0.connection().is_postgres() {
            return Err(Error::unsupported(
                "PostgreSQL asks no program for tables: append the rows to a (temporary) table",
            ));
        }
        let calls = connection.0.calls().clone();
        let resolver = tables.map(|tables| -> TableResolver {
            Arc::new(move |name, take_memory| {
                // SAFETY: the caller has given the function and what it is passed.
                let found = calls.asking(|| unsafe { external_table(tables, context, name) });
                found.transpose().map(|found| {
                    let found = found?;
                    found.batches.iter().try_for_each(take_memory)?;
                    Ok(found)
                })
            })
        });
        connection.0.connection().set_table_resolver(resolver);
        Ok(())
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

/// # Safety
/// The function is the caller's, and the context what it is passed.
unsafe fn external_table(
    tables: TablesFunction,
    context: Context,
    name: &str,
) -> Result<Option<ExternalTable>> {
    let mut stream = FFI_ArrowArrayStream::empty();
    let place = &raw mut stream;
    // SAFETY: the caller promises this; the stream is a place.
    match unsafe { tables(context.pointer(), name.as_ptr().cast(), name.len(), place) } {
        0 => Ok(None),
        1 => {
            // SAFETY: the function has filled it, and it is moved.
            let rows = unsafe { rows_of(place) }?;
            let schema = rows.schema();
            let batches: Vec<RecordBatch> = rows
                .collect::<std::result::Result<_, _>>()
                .map_err(|error| Error::invalid_input(format!("the rows of \"{name}\": {error}")))?;
            Ok(Some(ExternalTable { schema, batches }))
        }
        _ => Err(Error::invalid_input(format!("the program cannot give the rows of \"{name}\""))),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_transaction_state(connection: *const Handle<Connection>) -> i32 {
    answer(0, || {
        // SAFETY: the header says what it is.
        let connection = unsafe { Handle::get(connection) }.ok()?.0.connection();
        Some(match connection.is_in_transaction() {
            true if connection.is_transaction_failed() => 2,
            true => 1,
            false => 0,
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_session_id(connection: *const Handle<Connection>) -> u64 {
    // SAFETY: the header says what it is.
    answer(0, || Some(unsafe { Handle::get(connection) }.ok()?.0.connection().id()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_set_autocommit(
    connection: *mut Handle<Connection>,
    autocommit: i32,
    error: Slot,
) -> i32 {
    // SAFETY: the header says what they are.
    unsafe { call(error, || Handle::get(connection)?.0.set_autocommit(autocommit != 0)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_commit(connection: *mut Handle<Connection>, error: Slot) -> i32 {
    // SAFETY: the header says what they are.
    unsafe { call(error, || Handle::get(connection)?.0.commit()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_rollback(connection: *mut Handle<Connection>, error: Slot) -> i32 {
    // SAFETY: the header says what they are.
    unsafe { call(error, || Handle::get(connection)?.0.roll_back()) }
}
