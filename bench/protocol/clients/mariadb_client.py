"""Takes a result from MariaDB into its C library's own memory, as text; no value becomes a
Python object.
"""

from __future__ import annotations

from typing import Any

from loop import serve, timed
from mariadb_library import MariaDBLibrary


def handle(
    library: MariaDBLibrary, host: str, port: int, database: str, sql: str, compressed: bool
) -> dict[str, Any]:
    """Answer with the seconds of all, and of connecting and executing."""
    connect_seconds, connection = timed(library.connect, host, port, database, compressed)
    execute_seconds, _ = timed(library.execute, connection, sql)
    store_seconds, result = timed(library.store, connection)
    close_seconds, _ = timed(library.close, connection)
    rows = library.rows(result)
    library.free(result)
    return {
        "seconds": connect_seconds + execute_seconds + store_seconds + close_seconds,
        "connect_seconds": connect_seconds,
        "execute_seconds": execute_seconds,
        "rows": rows,
    }


def main() -> None:
    library = MariaDBLibrary()
    serve(lambda **request: handle(library, **request))


if __name__ == "__main__":
    main()
