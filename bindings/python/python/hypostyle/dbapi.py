"""DB-API 2.0 (PEP 249): cursors, type objects and constructors.

Statements commit by themselves unless a transaction is open: `Connection.begin()` opens one, or
`transaction()` for a `with` block.
"""

import datetime
import sys
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from hypostyle import errors
from hypostyle.result import Description, Result, Row

if TYPE_CHECKING:
    from hypostyle.connection import Connection, Parameters

apilevel = "2.0"
#: Threads may share the module and connections.
threadsafety = 2
paramstyle = "qmark"


class Cursor:
    """Runs statements and iterates over their rows; made by `Connection.cursor()`.

    Rows are computed while they are fetched and not kept. Threads may not share a cursor.

    Attributes:
        arraysize: the number of rows that `fetchmany()` returns by default.
    """

    def __init__(self, connection: "Connection") -> None:
        self.arraysize = 1
        self._connection = connection
        self._result: Result | None = None
        self._rowcount = -1
        self._closed = False

    @property
    def connection(self) -> "Connection":
        """The connection of this cursor."""
        return self._connection

    @property
    def description(self) -> list[Description] | None:
        """`(name, type, None, None, precision, scale, nullable)` of each column; `None` without rows."""
        return None if self._result is None else self._result.description

    @property
    def rowcount(self) -> int:
        """The rows that the last statement wrote; -1 for a query, which is not counted ahead."""
        if self._rowcount < 0 and self._result is not None:
            # A server tells it behind the rows.
            affected = self._result.rows_affected
            return -1 if affected is None else affected
        return self._rowcount

    def execute(self, operation: str, parameters: "Parameters | None" = None) -> Self:
        """Run SQL, with a sequence for `?` or a dict for `$name`; see `Connection.sql()`."""
        return self._run(operation, parameters, sys._getframe(1))

    def executemany(self, operation: str, seq_of_parameters: Iterable["Parameters"]) -> Self:
        """Run a statement, which may not be a query, once for each set of parameters."""
        frame = sys._getframe(1)
        total = 0
        for parameters in seq_of_parameters:
            self._run(operation, parameters, frame)
            if self.description is not None:
                raise errors.ProgrammingError("executemany() cannot run a query: it returns rows")
            total += max(self.rowcount, 0)
        self._rowcount = total
        return self

    def _run(self, operation: str, parameters: "Parameters | None", frame: Any) -> Self:
        self._check_open()
        self._result = None
        self._rowcount = -1
        self._result = self._connection._query(operation, parameters, frame)
        return self

    def fetchone(self) -> Row | None:
        """Return the next row, or `None` after the last."""
        rows = self._fetch(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Return the next `size` rows, or else `arraysize`; fewer at the end."""
        size = self.arraysize if size is None else size
        if size < 0:
            raise errors.DataError(f"cannot fetch {size} rows")
        return self._fetch(size)

    def fetchall(self) -> list[Row]:
        """Return all remaining rows."""
        return self._fetch(None)

    def _fetch(self, limit: int | None) -> list[Row]:
        self._check_open()
        if self._result is None or self._result.description is None:
            raise errors.ProgrammingError("there are no rows to fetch: no query was executed")
        return self._result._native.fetch(limit, False)

    def setinputsizes(self, sizes: Any) -> None:
        """Do nothing, as PEP 249 allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing, as PEP 249 allows."""

    def close(self) -> None:
        """Drop the result; the cursor cannot be used again."""
        self._result = None
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise errors.ClosedError("the cursor is closed")

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class TypeObject:
    """Equals the SQL types of one group, as `description` names them."""

    def __init__(self, name: str, *types: str) -> None:
        self._name = name
        self._types = types

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return not other.endswith("]") and other.partition("(")[0] in self._types
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return self._name


_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_TIMESTAMPS = ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")
_DURATIONS = ("INTERVAL", "DURATION", "DURATION_S", "DURATION_MS", "DURATION_NS")

STRING = TypeObject("STRING", "VARCHAR", "JSON", "UUID")
BINARY = TypeObject("BINARY", "BLOB", "BINARY")
NUMBER = TypeObject(
    "NUMBER", "BOOLEAN", *_INTEGERS, *(f"U{name}" for name in _INTEGERS), "FLOAT", "DOUBLE", "DECIMAL"
)
DATETIME = TypeObject(
    "DATETIME", "DATE", "TIME", *_TIMESTAMPS, *(f"{name} WITH TIME ZONE" for name in _TIMESTAMPS), *_DURATIONS
)
#: Hypostyle has no type for row identifiers, so this equals none.
ROWID = TypeObject("ROWID")

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:
    """Return the local date of seconds since 1970."""
    return datetime.date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:
    """Return the local time of day of seconds since 1970."""
    return datetime.time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """Return the local date and time of seconds since 1970."""
    return datetime.datetime(*time.localtime(ticks)[:6])
