"""Hypostyle: an embedded columnar database whose results are mappings, not messages.

>>> import hypostyle
>>> con = hypostyle.connect()
>>> con.append("t", {"x": [1, 2, 3]}, create=True)
3
>>> con.sql("select sum(x) as s from t").fetchone()
(6,)
`connect()` opens a connection. `sql()`, `execute()`, `read_csv()` and other functions of the module
use a connection of their own, to a database in memory. The module follows DB-API 2.0 (PEP 249).
Statements commit by themselves unless a transaction is open.
"""

from hypostyle import _cpu

_cpu.check()

from hypostyle._native import __version__  # noqa: E402
from hypostyle.connection import Connection, Server, TableInfo, connect  # noqa: E402
from hypostyle.dbapi import (  # noqa: E402
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Cursor,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
    apilevel,
    paramstyle,
    threadsafety,
)
from hypostyle.default import (  # noqa: E402
    default_connection,
    execute,
    from_arrow,
    from_df,
    read_csv,
    read_json,
    read_parquet,
    register,
    sql,
    unregister,
)
from hypostyle.errors import (  # noqa: E402
    AlreadyExistsError,
    BusyError,
    ClosedError,
    ConflictError,
    ConstraintError,
    CorruptionError,
    DatabaseError,
    DataError,
    DeniedError,
    DiskFullError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    IoError,
    NotFoundError,
    NotSupportedError,
    OperationalError,
    OutOfMemoryError,
    ProgrammingError,
    QueryInterrupted,
    ReadOnlyError,
    ServerConnectionError,
    SqlSyntaxError,
    TransactionStateError,
    UnknownNameError,
    VersionError,
    Warning,
)
from hypostyle.interval import Interval  # noqa: E402
from hypostyle.numpy_columns import Columns  # noqa: E402
from hypostyle.progress import Progress  # noqa: E402
from hypostyle.result import Result  # noqa: E402
from hypostyle.statistics import TransferStatistics  # noqa: E402

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "AlreadyExistsError",
    "Binary",
    "BusyError",
    "ClosedError",
    "Columns",
    "ConflictError",
    "Connection",
    "ConstraintError",
    "CorruptionError",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "DeniedError",
    "DiskFullError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "Interval",
    "IoError",
    "NotFoundError",
    "NotSupportedError",
    "OperationalError",
    "OutOfMemoryError",
    "ProgrammingError",
    "Progress",
    "QueryInterrupted",
    "ReadOnlyError",
    "Result",
    "Server",
    "ServerConnectionError",
    "SqlSyntaxError",
    "TableInfo",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "TransactionStateError",
    "TransferStatistics",
    "UnknownNameError",
    "VersionError",
    "Warning",
    "__version__",
    "apilevel",
    "connect",
    "default_connection",
    "execute",
    "from_arrow",
    "from_df",
    "paramstyle",
    "read_csv",
    "read_json",
    "read_parquet",
    "register",
    "sql",
    "threadsafety",
    "unregister",
]
