"""Takes a table from PostgreSQL as an Arrow table, by DuckDB's own scanner, connection included."""

from __future__ import annotations

from typing import Any

import duckdb
from duckdb_extensions import POSTGRES, load_extensions
from loop import serve, timed

QUERY = "FROM postgres_scan(?, 'public', ?)"


def main() -> None:
    with duckdb.connect() as connection:
        load_extensions(connection, POSTGRES)

        def handle(address: str, table: str) -> dict[str, Any]:
            def fetch() -> Any:
                return connection.execute(QUERY, [address, table]).to_arrow_table()

            seconds, result = timed(fetch)
            return {"seconds": seconds, "rows": result.num_rows}

        serve(handle)


if __name__ == "__main__":
    main()
