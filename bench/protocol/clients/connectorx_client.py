"""Takes a result from PostgreSQL as an Arrow table, by ConnectorX, connection included."""

from __future__ import annotations

from typing import Any

import connectorx
import pyarrow as pa
from loop import serve, timed


def handle(address: str, sql: str) -> dict[str, Any]:
    seconds, table = timed(fetch, address, sql)
    return {"seconds": seconds, "rows": table.num_rows}


def fetch(address: str, sql: str) -> pa.Table:
    return connectorx.read_sql(address, sql, return_type="arrow")


if __name__ == "__main__":
    serve(handle)
