"""Takes a result from PostgreSQL as Python's own objects, by psycopg, connection included. Rows are given up
as they have come: all of them would not fit into memory.
"""

from __future__ import annotations

from typing import Any

import psycopg
from loop import serve, timed

ROWS = 1000


def handle(address: str, sql: str) -> dict[str, Any]:
    seconds, rows = timed(fetch, address, sql)
    return {"seconds": seconds, "rows": rows}


def fetch(address: str, sql: str) -> int:
    with psycopg.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        return sum(1 for _ in cursor.stream(sql, size=ROWS))


if __name__ == "__main__":
    serve(handle)
