"""Takes a result from a Quack server as an Arrow table, connection included."""

from __future__ import annotations

from typing import Any

import duckdb
from duckdb_extensions import QUACK, load_extensions
from loop import serve, timed

QUERY = "FROM quack_query(?, ?, token = ?)"


def main() -> None:
    with duckdb.connect() as connection:
        load_extensions(connection, QUACK)

        def handle(address: str, token: str, sql: str) -> dict[str, Any]:
            def fetch() -> Any:
                return connection.execute(QUERY, [address, sql, token]).to_arrow_table()

            seconds, table = timed(fetch)
            return {"seconds": seconds, "rows": table.num_rows}

        serve(handle)


if __name__ == "__main__":
    main()
