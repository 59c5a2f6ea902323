"""Connections, with which a program starts."""

import contextlib
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from hypostyle import _native, dbapi, errors, files, inputs, variables
from hypostyle.files import Paths
from hypostyle.numpy_columns import Columns
from hypostyle.pandas_frame import Dtypes
from hypostyle.progress import Progress
from hypostyle.result import Result, Row

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Parameters = Sequence[Any] | Mapping[str, Any]
T = TypeVar("T")


class TableInfo(NamedTuple):
    """A table or view.

    Attributes:
        schema: name of its schema.
        name: its name.
        kind: "table" or "view".
        rows: number of rows; `None` for a view, and for the tables of PostgreSQL.
        columns: `(name, SQL type, nullable)` of each column.
    """

    schema: str
    name: str
    kind: str
    rows: int | None
    columns: list[tuple[str, str, bool]]


def connect(
    database: str | os.PathLike[str] | None = None,
    *,
    read_only: bool = False,
    threads: int | None = None,
    memory_limit: int | str | None = None,
    temp_directory: str | os.PathLike[str] | None = None,
    allow_network_filesystem: bool = False,
    verify: str = "auto",
) -> "Connection":
    """Open a database, or connect to a server.

    Args:
        database: a directory, created if missing, in which "~/" is the home directory; or `None` or
            ":memory:" for a database in memory;
            or the address of a PostgreSQL server, "postgresql://user@host/database", with what libpq's
            addresses have (docs/postgres.md);
            or the address of a server, "hypostyle://user@host:port/" or "hypostyle+unix:///path",
            to which the other arguments do not apply. Its password is in the address or in the
            environment variable HYPOSTYLE_PASSWORD. Options follow a "?". tls=auto|on|off;
            tls_ca=FILE; tls_cert=FILE and tls_key=FILE for the client's own certificate;
            variables=on|off says whether the server may ask for variables that a statement names
            (by default only a server of the same user on a Unix socket); streams=1…16 connections
            carry a result, for networks that limit each; chunk_bytes=1024…16777216 bytes are
            encoded by the server at a time (default 1 MiB).
        read_only: refuse every write; the directory must exist.
        threads: the threads of queries and conversions; by default, one per processor.
        memory_limit: the memory of queries, in bytes or as "4GB", "512MiB", "80%".
        temp_directory: where operators spill when memory is short.
        allow_network_filesystem: open a database on NFS, SMB or the like, whose locks and mappings
            cannot be relied on.
        verify: when columns are verified that are handed out unread, as by `arrow()`, `df()`,
            `pl()` and `fetchnumpy()`. "auto" verifies them before if the directory was copied or
            received from elsewhere, or if a result has at most 65,536 rows. Columns that this
            machine has written are handed out at once, a thread verifies them meanwhile, and damage
            fails the next use. "always" verifies before, and "never" not at all. `CHECK DATABASE`,
            once it finds no damage, makes a directory this machine's own. Columns that queries
            compute with are verified in any case.

    Any number of processes may open a database at the same time, each with its own `connect()`. A
    connection cannot be used on both sides of `os.fork()`.

    Raises:
        NotFoundError: the directory does not exist, and `read_only` is set.
        CorruptionError, VersionError: the directory is damaged, or of a newer version.
        ServerConnectionError, DeniedError: no server answers, or the login fails.
    """
    path = None if database is None or database == ":memory:" else os.path.expanduser(os.fspath(database))
    if threads is not None and threads < 1:
        raise errors.DataError(f"threads is {threads}, but must be at least 1")
    spill = None if temp_directory is None else os.path.expanduser(os.fspath(temp_directory))
    return Connection(
        _native.connect(path, read_only, threads, memory_limit, spill, allow_network_filesystem, verify)
    )


class Connection:
    """One session on a database; made by `connect()`.

    Threads may share it: it runs one statement at a time. For statements that run beside each
    other, give each thread its own `duplicate()`. A statement outside a transaction commits by itself;
    see `transaction()`.
    """

    # PEP 249's optional extension: the exceptions are attributes, for code with many databases.
    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    def __init__(self, native: _native.Connection) -> None:
        self._native = native
        self._registered: dict[str, Any] = {}
        # The last result of `execute()`.
        self._executed: Result | None = None

    def sql(self, query: str, parameters: Parameters | None = None) -> Result:
        """Run SQL and return the result of the last statement.

        `FROM name` finds a table or a view, or else a registered object or a variable of the
        caller: a pandas or Polars frame, an Arrow table or stream, a dict of arrays, another
        result. The exact spelling is looked for first, then any case; in each, the innermost scope
        first. A server gets variables that the text of the query names, if its address allows it or
        if it runs as the same user on a Unix socket (see `connect()`). PostgreSQL gets none.

        Args:
            query: one or more statements, separated by ";".
            parameters: a sequence for `?` or `$1`, or a dict for `$name`.

        Raises:
            SqlSyntaxError, UnknownNameError: the text does not parse, or a name does not exist.
            DataError: a value does not fit its type.
            QueryInterrupted: `interrupt()` was called. Ctrl-C raises KeyboardInterrupt instead.
        """
        return self._query(query, parameters, sys._getframe(1))

    def execute(self, query: str, parameters: Parameters | None = None) -> Result:
        """Run SQL as `sql()` does. The connection's own `fetchall()`, `df()` … then give the
        result, too.
        """
        return self._execute(query, parameters, sys._getframe(1))

    def executemany(self, query: str, parameters: Iterable[Parameters]) -> int:
        """Run a statement once for each set of parameters. Return the number of affected rows of
        all runs.

        Outside a transaction each run is a commit of its own. To load many rows, `append()` is much
        faster.
        """
        frame = sys._getframe(1)
        return sum(self._query(query, each, frame).rows_affected or 0 for each in parameters)

    def explain(self, query: str, parameters: Parameters | None = None, *, analyze: bool = False) -> Result:
        """Show how a query runs, operator by operator; the returned object prints as a tree.

        Args:
            query: one statement.
            parameters: as for `sql()`.
            analyze: run the query, to get the rows and the time of each operator.
        """
        return self._query(f"EXPLAIN {'ANALYZE ' if analyze else ''}{query}", parameters, sys._getframe(1))

    def read_csv(self, path: Paths, **options: Any) -> Result:
        """Return the rows of one or more CSV files.

        Args:
            path: a file, a pattern such as "sales/*.csv", or a list of either; for a server, on its
                machine.
            options: those of `read_csv(…)` in SQL, such as `header=False`, `delim="|"`.
        """
        return self._read("read_csv", path, options)

    def read_parquet(self, path: Paths, **options: Any) -> Result:
        """Return the rows of Parquet files, as `read_csv()` does."""
        return self._read("read_parquet", path, options)

    def read_json(self, path: Paths, **options: Any) -> Result:
        """Return the rows of JSON files, as `read_csv()` does."""
        return self._read("read_json", path, options)

    def _read(self, function: str, path: Paths, options: Mapping[str, Any]) -> Result:
        self._check_reads(f"{function}() reads no files")
        return self._query(files.query(function, path, options), None, None)

    @property
    def _is_postgres(self) -> bool:
        return (self._native.address or "").startswith("postgresql:")

    def _check_reads(self, what: str) -> None:
        if self._is_postgres:
            raise errors.NotSupportedError(
                f"{what} in PostgreSQL: append() the rows to a table there, or ATTACH the server to "
                "a database of ours"
            )

    def from_df(self, frame: Any) -> Result:
        """Return the rows of a frame, or of other data that `FROM variable` reads."""
        if not inputs.is_table(frame):
            raise errors.DataError(f"a {type(frame).__name__} is no table")
        self._check_reads("the program's data are no tables")
        resolver = variables.Resolver(None, {"given": frame})
        return Result(self._native.query('SELECT * FROM "given"', None, resolver))

    def from_arrow(self, data: Any) -> Result:
        """Return the rows of an Arrow table, batch or stream; the same as `from_df()`."""
        return self.from_df(data)

    def register(self, name: str, data: Any) -> None:
        """Let statements of this connection read `data` as a table, as they read variables of the
        caller.

        A table or view of the database with that name takes precedence. Registering a name again
        replaces its data.

        Args:
            name: the name of the table.
            data: any data that `FROM variable` reads: a frame, an Arrow table, a dict of arrays, a
                result.
        """
        if not inputs.is_table(data):
            raise errors.DataError(f'"{name}" is a {type(data).__name__}, which is no table')
        self._check_reads("the program's data are no tables")
        self._registered[name] = data

    def unregister(self, name: str) -> None:
        """Remove the registration of a name, if there is one."""
        self._registered.pop(name, None)

    def _execute(self, query: str, parameters: Parameters | None, frame: FrameType | None) -> Result:
        self._executed = None
        self._executed = self._query(query, parameters, frame)
        return self._executed

    def _query(self, query: str, parameters: Parameters | None, frame: FrameType | None) -> Result:
        if not isinstance(query, str):
            raise errors.ProgrammingError(f"a query is a str, not {type(query).__name__}")
        resolver = variables.Resolver(frame, self._registered) if frame or self._registered else None
        try:
            return Result(self._native.query(query, parameters, resolver))
        except errors.UnknownNameError as error:
            if resolver is not None:
                resolver.explain(error)
                if self._is_postgres:
                    resolver.explain_elsewhere(error)
            raise

    # The rows of the last `execute()`

    def fetchone(self) -> Row | None:
        """Return the next row of the last `execute()`, or `None` after the last row."""
        return self._last().fetchone()

    def fetchmany(self, size: int = 1) -> list[Row]:
        """Return the next rows of the last `execute()`, fewer at the end."""
        return self._last().fetchmany(size)

    def fetchall(self) -> list[Row]:
        """Return the remaining rows of the last `execute()`."""
        return self._last().fetchall()

    def fetchnumpy(self) -> Columns:
        """Return `Result.fetchnumpy()` of the last `execute()`."""
        return self._last().fetchnumpy()

    def df(self, *, dtypes: Dtypes = "numpy") -> "pandas.DataFrame":
        """Return `Result.df()` of the last `execute()`."""
        return self._last().df(dtypes=dtypes)

    fetchdf = df

    def pl(self) -> "polars.DataFrame":
        """Return `Result.pl()` of the last `execute()`."""
        return self._last().pl()

    def arrow(self) -> "pyarrow.Table":
        """Return `Result.arrow()` of the last `execute()`."""
        return self._last().arrow()

    def fetch_record_batch(self) -> "pyarrow.RecordBatchReader":
        """Return `Result.batches()` of the last `execute()`."""
        return self._last().batches()

    def _last(self) -> Result:
        if self._executed is None or self._executed.description is None:
            raise errors.ProgrammingError("there are no rows to fetch: execute() has run no query")
        return self._executed

    def append(self, name: str, data: Any, create: bool = False) -> int:
        """Add rows to a table, all or none, and return their number.

        Args:
            name: the table; may be qualified by its schema.
            data: a dict of arrays or lists; a pandas or Polars frame; a pyarrow table, batch or
                reader, or anything else with the Arrow PyCapsule interface; a structured NumPy
                array; or an iterable of rows, which are dicts, named tuples or sequences. A reader
                is read while the rows are written, so that it may have more of them than fit into
                memory. Columns are matched by name, and columns that the data lacks get their
                default. Rows that are plain sequences are matched by position. The index of a
                pandas frame is not stored.
            create: create the table, with the types of the data, if it does not exist.

        NaN, NaT, None and pandas' NA are NULL in pandas frames. In NumPy arrays a float NaN stays
        NaN, and NaT and masked values are NULL.

        Raises:
            DataError: a value or shape does not fit; the message names column, row and value.
            ConstraintError: NULL in a NOT NULL column, or another constraint is violated.
            UnknownNameError: there is no such table (and `create` is not set), or no such column in
                it.
            ConflictError: another transaction has changed data that the rows were checked against.
                Nothing was appended. `append` does not try again by itself, because the rows of a
                reader are gone by then; `run_transaction` does.
        """
        stream, by_name = inputs.to_arrow(data)
        try:
            return self._native.append(name, stream, create, by_name)
        except errors.Error:
            if isinstance(stream, inputs.Batches) and stream.raised is not None:
                raise stream.raised from None
            raise

    def table(self, name: str) -> Result:
        """Return all rows of a table or view. The columns of a table are mappings of the stored
        ones.

        Raises:
            UnknownNameError: there is no such table or view.
        """
        return Result(self._native.table(name))

    def tables(self) -> list[TableInfo]:
        """Return the tables and views of the database."""
        return [TableInfo(*table) for table in self._native.tables()]

    def cursor(self) -> "dbapi.Cursor":
        """Return a DB-API 2.0 cursor on this connection."""
        return dbapi.Cursor(self)

    def serve(
        self,
        listen: str | None = None,
        *,
        unix: str | os.PathLike[str] | None = None,
        users: str | os.PathLike[str] | None = None,
    ) -> "Server":
        """Serve this connection's database, also one in memory, to other processes and machines.

        The server runs on threads of its own, until `stop()`, or until the end of a `with` block or
        of the object.

        Args:
            listen: "host:port"; port 0 takes a free one. Without users only loopback addresses are
                allowed.
            unix: the path of a Unix socket, over which results are mappings of the same files.
            users: the users' file, as `hypostyle user` writes it; without it, everybody who
                connects may do everything.

        Raises:
            DeniedError: the address can be reached from the network, and there are no users.
            BusyError: the address is taken.
        """
        socket = None if unix is None else os.fspath(unix)
        file = None if users is None else os.fspath(users)
        return Server(self._native.serve(listen, socket, file))

    def duplicate(self) -> "Connection":
        """Open another connection to the same database, with a session of its own."""
        return Connection(self._native.duplicate())

    def begin(self, read_only: bool = False) -> None:
        """Open a transaction. It reads what is committed now, and its own changes.

        Raises:
            TransactionStateError: a transaction is open already.
        """
        if self._is_postgres and self.in_transaction:
            # The server only warns, and the end of the inner block would be that of the outer one.
            raise errors.TransactionStateError("a transaction is open already", "25001")
        self._query("BEGIN READ ONLY" if read_only else "BEGIN", None, None)

    def commit(self) -> None:
        """Make the changes of the open transaction durable and visible; without one, do nothing.

        Raises:
            ConflictError: another transaction has changed the same data first.
            TransactionStateError: an error has aborted this transaction.

            None of its changes is visible then.
        """
        if self.in_transaction:
            self._query("COMMIT", None, None)

    def rollback(self) -> None:
        """Undo the changes of the open transaction; without one, do nothing.

        If a connection is lost, the server rolls its open transaction back.
        """
        if self.in_transaction:
            with contextlib.suppress(errors.ServerConnectionError, errors.ClosedError):
                self._query("ROLLBACK", None, None)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        if self._native.closed:
            raise errors.ClosedError("the connection is closed")
        return self._native.in_transaction

    @contextmanager
    def transaction(self, read_only: bool = False) -> Iterator[Self]:
        """Open a transaction for a `with` block: committed at its end, rolled back when it raises.

        Raises:
            ConflictError: at the end, when another transaction has changed the same data first;
                `run_transaction()` then tries again.
        """
        self.begin(read_only)
        try:
            yield self
        except BaseException:
            if not self._native.closed:
                self.rollback()
            raise
        self.commit()

    def run_transaction(self, work: Callable[[Self], T], attempts: int = 10) -> T:
        """Run `work(connection)` in a transaction, again after a conflict, and return its result.

        Args:
            work: reads and writes through the connection; may run several times.
            attempts: after so many conflicts, the last one is raised.
        """
        for attempt in range(1, attempts + 1):
            try:
                with self.transaction():
                    return work(self)
            except errors.ConflictError:
                if attempt == attempts:
                    raise
                # The other transaction is likely to try again at the same time.
                time.sleep(random.uniform(0, 0.001 * 2 ** min(attempt, 8)))
        raise errors.ProgrammingError(f"attempts is {attempts}, but must be at least 1")

    @property
    def progress(self) -> Progress | None:
        """The progress of the running statement or of the fetch of its rows, or of the last one.

        `None` before the first statement. It is for other threads than the one that waits. Asking
        never waits, and raises nothing, also once the connection is closed.

        >>> with ThreadPoolExecutor() as pool:
        ...     work = pool.submit(lambda: con.sql("select * from sales").df())
        ...     while not work.done():
        ...         print(con.progress)
        ...         time.sleep(0.5)
        """
        found = self._native.progress
        return None if found is None else Progress(*found)

    def interrupt(self) -> None:
        """Stop the running statement, from any thread; it raises QueryInterrupted."""
        self._native.interrupt()

    def close(self) -> None:
        """Close the connection. The last connection of a database closes the database, too.

        A statement that runs in another thread, or a fetch of rows, is ended as `interrupt()` ends
        it. Arrays, frames and tables that were made from results stay valid. Closing again does
        nothing.
        """
        self._executed = None
        self._native.close()

    @property
    def address(self) -> str | None:
        """The server's address, without the password; `None` for a database in this process."""
        return self._native.address

    @property
    def path(self) -> str | None:
        """The directory of the database, `None` when it is in memory."""
        path = self._native.path
        return None if path is None else os.fspath(path)

    @property
    def closed(self) -> bool:
        """Whether `close()` was called."""
        return self._native.closed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = " (closed)" if self._native.closed else ""
        return f"<hypostyle.Connection to {self.address or self.path or 'memory'}{state}>"


class Server:
    """A served database; returned by `Connection.serve()`.

    Attributes:
        addresses: the addresses for clients, as `connect()` takes them.
    """

    def __init__(self, native: _native.Server) -> None:
        self._native = native
        self.addresses = native.addresses

    def stop(self) -> None:
        """End all sessions and stop listening."""
        self._native.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<hypostyle.Server at {' '.join(self.addresses)}>"
