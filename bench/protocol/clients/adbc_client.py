"""Takes a result from PostgreSQL as an Arrow table, by its ADBC driver, connection included."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from adbc_driver_postgresql import dbapi
from loop import serve, timed


def handle(address: str, sql: str) -> dict[str, Any]:
    seconds, table = timed(fetch, address, sql)
    rows = table.num_rows
    del table
    return {"seconds": seconds, "rows": rows}


def fetch(address: str, sql: str) -> pa.Table:
    with dbapi.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetch_arrow_table()


if __name__ == "__main__":
    serve(handle)
