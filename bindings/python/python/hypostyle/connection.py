"""Connections: where a program starts."""

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
        rows: number of rows, `None` for a view.
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
        database: a directory, created if missing; `None` or ":memory:" for a database in memory; or the
            address of a server, "hypostyle://user@host:port/" or "hypostyle+unix:///path", to which the other
            arguments do not apply. Its password stands in the address or in the environment variable
            HYPOSTYLE_PASSWORD. Options follow a "?": tls=auto|on|off, tls_ca=FILE, tls_cert=FILE and
            tls_key=FILE, the client's own certificate; variables=on|off, whether the server may ask for
            variables that a statement names, which is on for one of the same user on a Unix socket only;
            streams=1…16, connections over which a result comes at once where the network limits each, and
            chunk_bytes=1024…16777216, bytes that the server encodes at a time (1 MiB).
        read_only: refuse every write; the directory must exist.
        threads: threads of queries and conversions; by default, one per processor.
        memory_limit: of queries, in bytes or as "4GB", "512MiB", "80%".
        temp_directory: where operators spill what does not fit.
        allow_network_filesystem: open a database on NFS, SMB or the like, whose locks and mappings cannot
            be relied on.
        verify: when columns are verified that come as they lie in the files, as by `arrow()`,
            `df()`, `pl()` and `fetchnumpy()`. "auto": before they come, if the directory was copied
            or received from elsewhere, or a result is of at most 65,536 rows; what this machine has
            written itself comes at once, a thread verifies it meanwhile, and damage fails the next
            use. "always": before they come. "never": not at all. `CHECK DATABASE`, once it finds no
            damage, makes a directory this machine's own. What queries compute is verified in any
            case.

    Any number of processes may open a database at the same time, each with its own `connect()`: a
    connection cannot be used on both sides of `os.fork()`.

    Raises:
        NotFoundError: read-only, and no such directory.
        CorruptionError, VersionError: the directory is damaged, or of a newer version.
        ServerConnectionError, DeniedError: no server answers, or it does not let the user in.
    """
    path = None if database is None or database == ":memory:" else os.fspath(database)
    if threads is not None and threads < 1:
        raise errors.DataError(f"threads is {threads}, but must be at least 1")
    spill = None if temp_directory is None else os.fspath(temp_directory)
    return Connection(
        _native.connect(path, read_only, threads, memory_limit, spill, allow_network_filesystem, verify)
    )


class Connection:
    """One session on a database; made by `connect()`.

    Threads may share it: it runs one statement at a time. For statements that run beside each
    other, give each thread its own `duplicate()`. A statement outside a transaction commits by itself;
    see `transaction()`.
    """

    # PEP 249's optional extension: the exceptions as attributes, for code with many databases.
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
        # What `execute()` ran last.
        self._executed: Result | None = None

    def sql(self, query: str, parameters: Parameters | None = None) -> Result:
        """Run SQL and return the result of the last statement.

        `FROM name` finds a table, a view, or else what was registered, or a variable of the caller: a pandas
        or Polars frame, an Arrow table or stream, a dict of arrays, another result. Exact spelling is looked
        for first, then any case; in each, the innermost scope first. A server gets variables that the text
        of the query names, where its address says so or it runs as the same user at a Unix socket (see
        `connect()`).

        Args:
            query: one or more statements, separated by ";".
            parameters: a sequence for `?` or `$1`, or a dict for `$name`.

        Raises:
            SqlSyntaxError, UnknownNameError: the text does not parse, or names what is not there.
            DataError: a value does not fit its type.
            QueryInterrupted: `interrupt()` was called. Ctrl-C raises KeyboardInterrupt instead.
        """
        return self._query(query, parameters, sys._getframe(1))

    def execute(self, query: str, parameters: Parameters | None = None) -> Result:
        """The same as `sql()`, and the connection's own `fetchall()`, `df()` … then give the result, too."""
        return self._execute(query, parameters, sys._getframe(1))

    def executemany(self, query: str, parameters: Iterable[Parameters]) -> int:
        """Run a statement once for each set of parameters; returns the rows affected, all together.

        Outside a transaction each run is a commit of its own: to load many rows, `append()` is faster by far.
        """
        frame = sys._getframe(1)
        return sum(self._query(query, each, frame).rows_affected or 0 for each in parameters)

    def explain(self, query: str, parameters: Parameters | None = None, *, analyze: bool = False) -> Result:
        """How a query is run, operator by operator; what it returns is printed as a tree.

        Args:
            query: one statement.
            parameters: as of `sql()`.
            analyze: run it, to tell the rows that each operator gave and the time that it took.
        """
        return self._query(f"EXPLAIN {'ANALYZE ' if analyze else ''}{query}", parameters, sys._getframe(1))

    def read_csv(self, path: Paths, **options: Any) -> Result:
        """The rows of a CSV file, of some, or of all that a pattern such as "sales/*.csv" finds.

        Args:
            path: a file, a pattern, or a list of either; of a server, on its machine.
            options: those of `read_csv(…)` in SQL, such as `header=False`, `delim="|"`.
        """
        return self._query(files.query("read_csv", path, options), None, None)

    def read_parquet(self, path: Paths, **options: Any) -> Result:
        """The rows of Parquet files, as `read_csv()`."""
        return self._query(files.query("read_parquet", path, options), None, None)

    def read_json(self, path: Paths, **options: Any) -> Result:
        """The rows of JSON files, as `read_csv()`."""
        return self._query(files.query("read_json", path, options), None, None)

    def from_df(self, frame: Any) -> Result:
        """The rows of a pandas or Polars frame, or of whatever else `FROM variable` reads, as a result."""
        if not inputs.is_table(frame):
            raise errors.DataError(f"a {type(frame).__name__} is no table")
        resolver = variables.Resolver(None, {"given": frame})
        return Result(self._native.query('SELECT * FROM "given"', None, resolver))

    def from_arrow(self, data: Any) -> Result:
        """The rows of an Arrow table, batch or stream as a result; the same as `from_df()`."""
        return self.from_df(data)

    def register(self, name: str, data: Any) -> None:
        """Let statements of this connection read `data` as a table, as they do variables of the caller.

        A table or view of the database with that name comes first. Registering again replaces.

        Args:
            name: of the table.
            data: what `FROM variable` reads: a frame, an Arrow table, a dict of arrays, a result.
        """
        if not inputs.is_table(data):
            raise errors.DataError(f'"{name}" is a {type(data).__name__}, which is no table')
        self._registered[name] = data

    def unregister(self, name: str) -> None:
        """Forget what was registered under a name; if nothing was, do nothing."""
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
            raise

    # The rows of the last `execute()`

    def fetchone(self) -> Row | None:
        """The next row of what `execute()` ran last, `None` after the last."""
        return self._last().fetchone()

    def fetchmany(self, size: int = 1) -> list[Row]:
        """The next rows of what `execute()` ran last, fewer at the end."""
        return self._last().fetchmany(size)

    def fetchall(self) -> list[Row]:
        """The rows of what `execute()` ran last that were not fetched."""
        return self._last().fetchall()

    def fetchnumpy(self) -> Columns:
        """`Result.fetchnumpy()` of what `execute()` ran last."""
        return self._last().fetchnumpy()

    def df(self, *, dtypes: Dtypes = "numpy") -> "pandas.DataFrame":
        """`Result.df()` of what `execute()` ran last."""
        return self._last().df(dtypes=dtypes)

    fetchdf = df

    def pl(self) -> "polars.DataFrame":
        """`Result.pl()` of what `execute()` ran last."""
        return self._last().pl()

    def arrow(self) -> "pyarrow.Table":
        """`Result.arrow()` of what `execute()` ran last."""
        return self._last().arrow()

    def fetch_record_batch(self) -> "pyarrow.RecordBatchReader":
        """`Result.batches()` of what `execute()` ran last."""
        return self._last().batches()

    def _last(self) -> Result:
        if self._executed is None or self._executed.description is None:
            raise errors.ProgrammingError("there are no rows to fetch: execute() has run no query")
        return self._executed

    def append(self, name: str, data: Any, create: bool = False) -> int:
        """Add rows to a table, all or none, and return how many.

        Args:
            name: the table; may be qualified by its schema.
            data: a dict of arrays or lists; a pandas or Polars frame; a pyarrow table, batch or reader,
                or anything else with the Arrow PyCapsule interface; a structured NumPy array; or an
                iterable of rows, which are dicts, named tuples or sequences. A reader is read as the rows
                are written, so that it may have more of them than fit into memory.
                Columns are matched by name, and those the data lacks get their default; rows that
                are plain sequences are matched by position. The index of a pandas frame is not stored.
            create: make the table, with the types of the data, if it does not exist.

        NaN, NaT, None and pandas' NA are NULL in pandas frames; in NumPy arrays a float NaN stays NaN,
        NaT and masked values are NULL.

        Raises:
            DataError: a value or shape does not fit; the message names column, row and value.
            ConstraintError: NULL in a NOT NULL column, or another constraint is violated.
            UnknownNameError: no such table (and not `create`), or no such column in it.
            ConflictError: another transaction has changed what the rows were checked against; nothing
                was appended. It is not tried again by itself, as the rows of a reader are gone by then;
                `run_transaction` does so.
        """
        stream, by_name = inputs.to_arrow(data)
        try:
            return self._native.append(name, stream, create, by_name)
        except errors.Error:
            if isinstance(stream, inputs.Batches) and stream.raised is not None:
                raise stream.raised from None
            raise

    def table(self, name: str) -> Result:
        """All rows of a table or view; its columns are mappings of the stored ones.

        Raises:
            UnknownNameError: no such table or view.
        """
        return Result(self._native.table(name))

    def tables(self) -> list[TableInfo]:
        """The tables and views of the database."""
        return [TableInfo(*table) for table in self._native.tables()]

    def cursor(self) -> "dbapi.Cursor":
        """A DB-API 2.0 cursor on this connection."""
        return dbapi.Cursor(self)

    def serve(
        self,
        listen: str | None = None,
        *,
        unix: str | os.PathLike[str] | None = None,
        users: str | os.PathLike[str] | None = None,
    ) -> "Server":
        """Serve this connection's database, also one in memory, to other processes and machines.

        The server runs on threads of its own, until `stop()`, or the end of a `with` block or of the object.

        Args:
            listen: "host:port"; port 0 takes a free one. Only loopback addresses are served without users.
            unix: path of a Unix socket, over which results are mappings of the same files.
            users: the users' file, as `hypostyle user` writes it; without it, whoever connects may do
                everything.

        Raises:
            DeniedError: the address can be reached from the network, and there are no users.
            BusyError: the address is taken.
        """
        socket = None if unix is None else os.fspath(unix)
        file = None if users is None else os.fspath(users)
        return Server(self._native.serve(listen, socket, file))

    def duplicate(self) -> "Connection":
        """Another connection to the same database, with a session of its own."""
        return Connection(self._native.duplicate())

    def begin(self, read_only: bool = False) -> None:
        """Open a transaction: it reads what is committed now, and its own changes.

        Raises:
            TransactionStateError: one is open already.
        """
        self._query("BEGIN READ ONLY" if read_only else "BEGIN", None, None)

    def commit(self) -> None:
        """Make the changes of the open transaction durable and visible; without one, do nothing.

        Raises:
            ConflictError: another transaction has changed the same first.
            TransactionStateError: an error has aborted this one.

            Nothing of it is visible then.
        """
        if self.in_transaction:
            self._query("COMMIT", None, None)

    def rollback(self) -> None:
        """Forget the changes of the open transaction; without one, do nothing.

        What was open on a connection that is lost has been rolled back by the server.
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
        """A transaction for a `with` block: committed at its end, rolled back when it raises.

        Raises:
            ConflictError: at the end, when another transaction has changed the same first;
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
        """Run `work(connection)` in a transaction, again after a conflict, and return what it returns.

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
                # Whoever was faster is likely to be at it again.
                time.sleep(random.uniform(0, 0.001 * 2 ** min(attempt, 8)))
        raise errors.ProgrammingError(f"attempts is {attempts}, but must be at least 1")

    @property
    def progress(self) -> Progress | None:
        """How far the running statement or the fetch of its rows is, or the last one was when it ended.

        `None` before the first statement. For other threads than the one that waits: asking never waits, and
        raises nothing, also once the connection is closed.

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
        """Close the connection; the last one of its database closes that too.

        Arrays, frames and tables made from results live on. Closing again does nothing.
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
    """A database that is being served; made by `Connection.serve()`.

    Attributes:
        addresses: where clients connect, for `connect()`.
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
