"""Takes a result from PostgreSQL into libpq's own memory, as text; no value becomes a Python object."""

from __future__ import annotations

from typing import Any

from loop import serve, timed
from psycopg import pq


def handle(address: str, sql: str) -> dict[str, Any]:
    seconds, result = timed(fetch, address, sql)
    if result.status != pq.ExecStatus.TUPLES_OK:
        raise RuntimeError(result.error_message.decode())
    answer = {"seconds": seconds, "rows": result.ntuples}
    result.clear()
    return answer


def fetch(address: str, sql: str) -> pq.abc.PGresult:
    connection = pq.PGconn.connect(address.encode())
    if connection.status != pq.ConnStatus.OK:
        raise ConnectionError(connection.error_message.decode())
    result = connection.exec_(sql.encode())
    connection.finish()
    return result


if __name__ == "__main__":
    serve(handle)
