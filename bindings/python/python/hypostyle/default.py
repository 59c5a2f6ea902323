"""The module's own connection, to a database in memory, for programs that need no other."""

import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from hypostyle.connection import Connection, Parameters, connect
from hypostyle.files import Paths

if TYPE_CHECKING:
    from hypostyle.result import Result

_lock = threading.Lock()
_connection: Connection | None = None


def default_connection() -> Connection:
    """Return the connection of the functions below; it is opened when it is first needed.

    It is one session, shared by all threads and closed at the end of the program. A child of
    `os.fork()` gets one of its own.
    """
    global _connection
    with _lock:
        if _connection is None or _connection.closed:
            _connection = connect()
        return _connection


def _forget() -> None:
    global _connection, _lock
    _connection, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)


def sql(query: str, parameters: Parameters | None = None) -> "Result":
    """Call `Connection.sql()` of the default connection."""
    return default_connection()._query(query, parameters, sys._getframe(1))


def execute(query: str, parameters: Parameters | None = None) -> "Result":
    """Call `Connection.execute()` of the default connection."""
    return default_connection()._execute(query, parameters, sys._getframe(1))


def read_csv(path: Paths, **options: Any) -> "Result":
    """Call `Connection.read_csv()` of the default connection."""
    return default_connection().read_csv(path, **options)


def read_parquet(path: Paths, **options: Any) -> "Result":
    """Call `Connection.read_parquet()` of the default connection."""
    return default_connection().read_parquet(path, **options)


def read_json(path: Paths, **options: Any) -> "Result":
    """Call `Connection.read_json()` of the default connection."""
    return default_connection().read_json(path, **options)


def from_df(frame: Any) -> "Result":
    """Call `Connection.from_df()` of the default connection."""
    return default_connection().from_df(frame)


def from_arrow(data: Any) -> "Result":
    """Call `Connection.from_arrow()` of the default connection."""
    return default_connection().from_arrow(data)


def register(name: str, data: Any) -> None:
    """Call `Connection.register()` of the default connection."""
    default_connection().register(name, data)


def unregister(name: str) -> None:
    """Call `Connection.unregister()` of the default connection."""
    default_connection().unregister(name)
