//! Connections: opening, statements, appends, and the calls that never wait.

use crate::capsule;
use crate::error::{guarded, in_statement, invalid_input, to_exception};
use crate::inherited::Owned;
use crate::input::{accepted, parameter};
use crate::poll;
use crate::result::QueryResult;
use crate::server::{self, Server};
use crate::turns::{Statement, Turns};
use arrow::array::RecordBatch;
use arrow::datatypes::{Fields, Schema};
use hypostyle::{AppendOptions, Error, ErrorKind, ExternalTable, OpenOptions, Patience, TableKind};
use pyo3::prelude::*;
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Opens a database directory, a server's address, or a database in memory when `target` is `None`.
#[pyfunction]
#[pyo3(signature = (target, read_only, threads, memory_limit, temp_directory, allow_network_filesystem, verify))]
#[expect(clippy::too_many_arguments, reason = "one for each option of the Python function")]
pub fn connect(
    py: Python<'_>,
    target: Option<PathBuf>,
    read_only: bool,
    threads: Option<usize>,
    memory_limit: Option<&Bound<'_, PyAny>>,
    temp_directory: Option<PathBuf>,
    allow_network_filesystem: bool,
    verify: &str,
) -> PyResult<Connection> {
    let verify = verify.parse().map_err(|error| to_exception(py, error))?;
    let memory_limit = memory_limit.map(memory_limit_bytes).transpose()?;
    let options = OpenOptions {
        read_only,
        threads,
        memory_limit,
        temp_directory,
        allow_network_filesystem,
        patience: Some(Patience::default().unless(check_signals)),
        verify,
        ..OpenOptions::default()
    };
    let threads = threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
        .max(1);
    let inner = py
        .detach(|| hypostyle::Connection::open(target.as_deref(), options))
        .map_err(|error| to_exception(py, error))?;
    Ok(Connection::new(inner, threads, Arc::new(AtomicUsize::new(0))))
}

/// Ends the opening of a database when a signal handler raises.
fn check_signals() -> Result<(), Error> {
    match poll::poll() {
        hypostyle::Poll::Continue => Ok(()),
        hypostyle::Poll::Interrupt => {
            Err(Error::new(ErrorKind::Interrupted, "interrupted while the database was opened"))
        }
    }
}

fn memory_limit_bytes(limit: &Bound<'_, PyAny>) -> PyResult<u64> {
    if let Ok(text) = limit.extract::<String>() {
        return hypostyle::parse_bytes(&text).map_err(|error| to_exception(limit.py(), error));
    }
    limit.extract::<u64>().map_err(|_| {
        invalid_input(
            limit.py(),
            format!("memory_limit is a number of bytes or a text like '4GB', not {limit}"),
        )
    })
}

/// The rows done and the total, the seconds taken and those that remain, whether it is a transfer,
/// and whether it still runs.
type Progress = (u64, Option<u64>, f64, Option<f64>, bool, bool);

/// One session. The turn of a statement makes "set the table resolver, plan, clear it" one step
/// among threads.
#[pyclass(frozen, module = "hypostyle._native")]
pub struct Connection {
    inner: Owned<hypostyle::Connection>,
    threads: usize,
    turns: Arc<Turns>,
    /// The number of open connections of the same database; the last one to close closes the
    /// database.
    open: Arc<AtomicUsize>,
}

impl Connection {
    fn new(inner: hypostyle::Connection, threads: usize, open: Arc<AtomicUsize>) -> Self {
        inner.set_poll(Some(Arc::new(|_| poll::poll())));
        open.fetch_add(1, Ordering::SeqCst);
        Self { inner: Owned::new(inner), threads, turns: Arc::default(), open }
    }

    /// Waits for the turn of a statement, without being attached.
    fn statement(&self) -> Result<Statement, Error> {
        self.inner.check()?;
        self.inner.check_not_appending()?;
        self.turns.statement()
    }

    fn result(&self, result: hypostyle::QueryResult) -> QueryResult {
        QueryResult::new(result, self.threads, self.turns.clone())
    }
}

#[pymethods]
impl Connection {
    #[getter]
    fn threads(&self) -> usize {
        self.threads
    }

    #[getter]
    fn path(&self) -> Option<PathBuf> {
        self.inner.path().map(PathBuf::from)
    }

    /// Returns the server's address of a remote connection.
    #[getter]
    fn address(&self) -> Option<String> {
        self.inner.address()
    }

    #[getter]
    fn in_transaction(&self, py: Python<'_>) -> PyResult<bool> {
        self.inner.check().map_err(|error| to_exception(py, error))?;
        Ok(self.inner.is_in_transaction())
    }

    /// Returns the progress of the running statement, or of the last one at its end.
    #[getter]
    fn progress(&self) -> Option<Progress> {
        let progress = if self.inner.is_inherited() { None } else { self.inner.progress() }?;
        Some((
            progress.rows_done,
            progress.rows_total,
            progress.elapsed.as_secs_f64(),
            progress.remaining.map(|time| time.as_secs_f64()),
            progress.is_transfer,
            progress.is_running,
        ))
    }

    /// Runs statements. `resolver(name)` is called for tables that the database does not have. It
    /// returns an object with the Arrow PyCapsule interface, or `None`.
    #[pyo3(signature = (sql, parameters, resolver))]
    fn query(
        &self,
        py: Python<'_>,
        sql: String,
        parameters: Option<&Bound<'_, PyAny>>,
        resolver: Option<Py<PyAny>>,
    ) -> PyResult<QueryResult> {
        guarded(py, || {
            let parameters = parameter::parameters(py, parameters)?;
            let resolver = resolver.map(Arc::new);
            let result = py.detach(|| {
                let _statement = self.statement()?;
                let _clear = ResolverGuard::install(self, resolver);
                self.inner.execute_with(&sql, parameters)
            });
            Ok(self.result(result.map_err(|error| in_statement(py, error, &sql))?))
        })
    }

    fn table(&self, py: Python<'_>, name: String) -> PyResult<QueryResult> {
        guarded(py, || {
            let result = py.detach(|| {
                let _statement = self.statement()?;
                self.inner.table(&name)
            });
            Ok(self.result(result.map_err(|error| to_exception(py, error))?))
        })
    }

    /// Returns `(schema, name, kind, row count, [(column, type, nullable)])` for each table and
    /// view.
    #[allow(clippy::type_complexity)]
    fn tables(
        &self,
        py: Python<'_>,
    ) -> PyResult<Vec<(String, String, &'static str, Option<u64>, Vec<(String, String, bool)>)>> {
        let tables = py.detach(|| {
            self.inner.check()?;
            self.inner.tables()
        });
        let tables = tables.map_err(|error| to_exception(py, error))?;
        Ok(tables
            .into_iter()
            .map(|table| {
                let kind = match table.kind {
                    TableKind::Table => "table",
                    TableKind::View => "view",
                };
                let columns = table
                    .columns
                    .into_iter()
                    .map(|column| (column.name, column.logical_type.to_string(), column.nullable))
                    .collect();
                (table.schema, table.name, kind, table.row_count, columns)
            })
            .collect())
    }

    /// Appends an object that has the Arrow PyCapsule interface. Returns the number of rows.
    fn append(
        &self,
        py: Python<'_>,
        table: String,
        data: &Bound<'_, PyAny>,
        create: bool,
        by_name: bool,
    ) -> PyResult<u64> {
        guarded(py, || {
            let reader = capsule::import_reader(data)?
                .ok_or_else(|| invalid_input(py, "the data does not offer the Arrow PyCapsule interface"))?;
            py.detach(|| {
                let _statement = self.statement()?;
                self.inner.append(&table, reader, AppendOptions { create, by_name })
            })
            .map_err(|error| to_exception(py, error))
        })
    }

    /// Ends what runs, also when the connection is closed.
    fn interrupt(&self) {
        if !self.inner.is_inherited() {
            self.inner.interrupt();
        }
    }

    /// Serves the database to others, until the server is stopped or dropped.
    #[pyo3(signature = (listen, unix, users))]
    fn serve(
        &self,
        py: Python<'_>,
        listen: Option<String>,
        unix: Option<PathBuf>,
        users: Option<PathBuf>,
    ) -> PyResult<Server> {
        self.inner.check().map_err(|error| to_exception(py, error))?;
        let database = self.inner.database().ok_or_else(|| {
            to_exception(py, Error::unsupported("a server's database is served by that server already"))
        })?;
        server::serve(py, database, listen, unix, users)
    }

    /// Opens another session on the same database.
    fn duplicate(&self, py: Python<'_>) -> PyResult<Self> {
        let inner = py.detach(|| {
            self.inner.check()?;
            self.inner.duplicate()
        });
        let inner = inner.map_err(|error| to_exception(py, error))?;
        Ok(Self::new(inner, self.threads, self.open.clone()))
    }

    /// Ends what runs in other threads, and the session. A child of `fork()` ends nothing of its
    /// parent's.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.inner.is_inherited() {
            self.turns.forget();
            return Ok(());
        }
        py.detach(|| {
            // A client that interrupts twice gives its connection up, which the server has to find out.
            let (is_remote, told) = (self.inner.address().is_some(), Cell::new(false));
            let interrupt = || match told.replace(true) && is_remote {
                true => {}
                false => self.inner.interrupt(),
            };
            let ended = self.turns.close(interrupt);
            if matches!(ended, Ok(false)) {
                return Ok(());
            }
            self.inner.close()?;
            let last = self.open.fetch_sub(1, Ordering::SeqCst) == 1;
            if let Some(database) = self.inner.database().filter(|_| last) {
                database.close()?;
            }
            ended.map(drop)
        })
        .map_err(|error| to_exception(py, error))
    }

    #[getter]
    fn closed(&self) -> bool {
        self.turns.is_closed()
    }
}

/// Removes the resolver when planning has ended, so that no Python frame outlives the call.
struct ResolverGuard<'a>(&'a hypostyle::Connection);

impl<'a> ResolverGuard<'a> {
    fn install(connection: &'a Connection, resolver: Option<Arc<Py<PyAny>>>) -> Option<Self> {
        let resolver = resolver?;
        let turns = connection.turns.clone();
        connection.inner.set_table_resolver(Some(Arc::new(move |name: &str, _| {
            let _served = turns.serve();
            // This is called on a thread of the engine, which has to continue running tasks
            // meanwhile: the variable may be a result that is not computed yet.
            tokio::task::block_in_place(|| Python::try_attach(|py| resolve(py, &resolver, name)).flatten())
        })));
        Some(Self(&connection.inner))
    }
}

impl Drop for ResolverGuard<'_> {
    fn drop(&mut self) {
        self.0.set_table_resolver(None);
    }
}

fn resolve(py: Python<'_>, resolver: &Py<PyAny>, name: &str) -> Option<hypostyle::Result<ExternalTable>> {
    let read = || -> PyResult<Option<ExternalTable>> {
        let found = resolver.bind(py).call1((name,))?;
        if found.is_none() {
            return Ok(None);
        }
        let Some(reader) = capsule::import_reader(&found)? else { return Ok(None) };
        let schema = reader.schema();
        let batches: Vec<RecordBatch> = py
            .detach(|| reader.map(|batch| accepted::computable(&batch?)).collect::<Result<_, _>>())
            .map_err(|error| crate::error::from_arrow(py, &error))?;
        let fields: Fields = schema.fields().iter().map(accepted::computable_field).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        Ok(Some(ExternalTable { schema, batches }))
    };
    match guarded(py, read) {
        Ok(table) => table.map(Ok),
        Err(error) => Some(Err(Error::invalid_input(format!(
            "the Python variable \"{name}\" cannot be read as a table: {}",
            error.value(py)
        )))),
    }
}
