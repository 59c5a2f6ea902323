"""Takes a result from PostgreSQL into libpq's own memory, as text; no value becomes a Python object."""

from __future__ import annotations

import select
from typing import Any

from loop import serve, timed
from psycopg import pq


def handle(address: str, sql: str) -> dict[str, Any]:
    """Answer with the seconds of all, and of connecting and executing."""
    connect_seconds, connection = timed(connect, address)
    execute_seconds, _ = timed(execute, connection, sql)
    fetch_seconds, result = timed(fetch, connection)
    if result is None or result.status != pq.ExecStatus.TUPLES_OK:
        raise RuntimeError(connection.error_message.decode())
    close_seconds, _ = timed(connection.finish)
    answer = {
        "seconds": connect_seconds + execute_seconds + fetch_seconds + close_seconds,
        "connect_seconds": connect_seconds,
        "execute_seconds": execute_seconds,
        "rows": result.ntuples,
    }
    result.clear()
    return answer


def connect(address: str) -> pq.abc.PGconn:
    connection = pq.PGconn.connect(address.encode())
    if connection.status != pq.ConnStatus.OK:
        raise ConnectionError(connection.error_message.decode())
    return connection


def execute(connection: pq.abc.PGconn, sql: str) -> None:
    """Ask a query, and wait until the server begins its answer."""
    connection.send_query(sql.encode())
    select.select([connection.socket], [], [])


def fetch(connection: pq.abc.PGconn) -> pq.abc.PGresult | None:
    """Return all rows, after the end of the answer has come."""
    result = connection.get_result()
    while connection.get_result() is not None:
        pass
    return result


if __name__ == "__main__":
    serve(handle)
