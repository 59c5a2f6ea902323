"""The exception tree of PEP 249, with a subclass for each case in which a caller acts differently.

Every exception has `sqlstate`, the five-character SQLSTATE of the error (PostgreSQL's codes).
"""


class Warning(Exception):
    """Something worth knowing that did not stop the statement; not raised today."""


class Error(Exception):
    """Any error of this package.

    Attributes:
        message: what is wrong.
        sqlstate: five characters, e.g. "22000"; its first two are the class of the error.
        position: the place in the statement, as the number of the character, from 1; `None` without
            a place.
        excerpt: the line of the statement with a caret below that place; "" without one.
    """

    sqlstate: str = "XX000"

    def __init__(
        self, message: str, sqlstate: str | None = None, position: int | None = None, excerpt: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.position = position
        self.excerpt = excerpt
        if sqlstate is not None:
            self.sqlstate = sqlstate

    def __str__(self) -> str:
        return f"{self.message}\n{self.excerpt}" if self.excerpt else self.message

    def __reduce__(self) -> tuple[type["Error"], tuple[str, str, int | None, str]]:
        return type(self), (self.message, self.sqlstate, self.position, self.excerpt)


class InterfaceError(Error):
    """Misuse of the Python interface."""

    sqlstate = "HY000"


class DatabaseError(Error):
    """An error of the database; the base of the classes below."""


class DataError(DatabaseError):
    """A value has the wrong type or shape, is out of range, or cannot be decoded."""

    sqlstate = "22000"


class OperationalError(DatabaseError):
    """Something outside the statement went wrong: files, memory, other processes."""

    sqlstate = "58000"


class IntegrityError(DatabaseError):
    """The data would break a rule of the table."""

    sqlstate = "23000"


class InternalError(DatabaseError):
    """An invariant of Hypostyle itself is broken: please report it."""


class ProgrammingError(DatabaseError):
    """The statement is wrong."""

    sqlstate = "42000"


class NotSupportedError(DatabaseError):
    """The SQL is valid, but Hypostyle does not support it."""

    sqlstate = "0A000"


class SqlSyntaxError(ProgrammingError):
    """The SQL text does not parse or does not plan."""

    sqlstate = "42601"


class UnknownNameError(ProgrammingError):
    """There is no table, column, function or setting of that name."""

    sqlstate = "42P01"


class AlreadyExistsError(ProgrammingError):
    """A table, schema or view of that name exists already."""

    sqlstate = "42P07"


class ConstraintError(IntegrityError):
    """NOT NULL or another constraint is violated."""


class NotFoundError(OperationalError):
    """There is no such file or directory."""

    sqlstate = "58P01"


class IoError(OperationalError):
    """The operating system refused a read or write."""

    sqlstate = "58030"


class DiskFullError(OperationalError):
    """No space is left; what was committed before is intact."""

    sqlstate = "53100"


class CorruptionError(OperationalError):
    """Bytes on disk are damaged."""

    sqlstate = "XX001"


class BusyError(OperationalError):
    """Another process holds the database."""

    sqlstate = "55006"


class ReadOnlyError(OperationalError):
    """A write goes to a database that was opened read-only."""

    sqlstate = "25006"


class TransactionStateError(ProgrammingError):
    """The transaction is aborted, or none is open, or one is: roll back, begin or commit first."""

    sqlstate = "25000"


class ConflictError(OperationalError):
    """Another transaction committed first: run it again."""

    sqlstate = "40001"


class QueryInterrupted(OperationalError):
    """`Connection.interrupt()` has cancelled the statement; the connection remains usable."""

    sqlstate = "57014"


class OutOfMemoryError(OperationalError):
    """The memory limit is reached and the operator cannot spill."""

    sqlstate = "53200"


class VersionError(NotSupportedError):
    """A newer version of Hypostyle wrote the database."""


class ClosedError(InterfaceError):
    """The database, connection, cursor or result is closed."""

    sqlstate = "08003"


class ServerConnectionError(OperationalError):
    """No server answers, or the connection to it is broken."""

    sqlstate = "08006"


class DeniedError(OperationalError):
    """The user may not do this, or the login failed."""

    sqlstate = "42501"


# The error kinds of the native module, by name.
BY_KIND: dict[str, type[Error]] = {
    "Syntax": SqlSyntaxError,
    "UnknownName": UnknownNameError,
    "InvalidInput": DataError,
    "Constraint": ConstraintError,
    "AlreadyExists": AlreadyExistsError,
    "NotFound": NotFoundError,
    "Io": IoError,
    "DiskFull": DiskFullError,
    "Corrupt": CorruptionError,
    "Version": VersionError,
    "Busy": BusyError,
    "ReadOnly": ReadOnlyError,
    "Conflict": ConflictError,
    "TransactionState": TransactionStateError,
    "Interrupted": QueryInterrupted,
    "OutOfMemory": OutOfMemoryError,
    "Unsupported": NotSupportedError,
    "Closed": ClosedError,
    "Connection": ServerConnectionError,
    "Denied": DeniedError,
    "Internal": InternalError,
}
