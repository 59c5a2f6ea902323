"""Takes a result from MariaDB into its C library's own memory, as text; no value becomes a
Python object.
"""

from __future__ import annotations

import ctypes
from typing import Any

from loop import serve, timed

LIBRARY = "libmariadb.so.3"
CLIENT_COMPRESS = 32


class MariaDBLibrary:
    """The few functions of the library that a client needs."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(LIBRARY)
        for name in ("mysql_init", "mysql_real_connect", "mysql_store_result"):
            getattr(self._library, name).restype = ctypes.c_void_p
        self._library.mysql_error.restype = ctypes.c_char_p
        self._library.mysql_num_rows.restype = ctypes.c_uint64

    def fetch(self, host: str, port: int, database: str, sql: str, compressed: bool) -> ctypes.c_void_p:
        """Return all rows, in the library's memory."""
        library = self._library
        connection = ctypes.c_void_p(library.mysql_init(None))
        flags = ctypes.c_ulong(CLIENT_COMPRESS if compressed else 0)
        opened = library.mysql_real_connect(
            connection, host.encode(), b"root", b"", database.encode(), ctypes.c_uint(port), None, flags
        )
        if not opened or library.mysql_query(connection, sql.encode()) != 0:
            raise RuntimeError(library.mysql_error(connection).decode())
        result = ctypes.c_void_p(library.mysql_store_result(connection))
        if not result:
            raise RuntimeError(library.mysql_error(connection).decode())
        library.mysql_close(connection)
        return result

    def rows(self, result: ctypes.c_void_p) -> int:
        return self._library.mysql_num_rows(result)

    def free(self, result: ctypes.c_void_p) -> None:
        self._library.mysql_free_result(result)


def main() -> None:
    library = MariaDBLibrary()

    def handle(**request: Any) -> dict[str, Any]:
        seconds, result = timed(lambda: library.fetch(**request))
        rows = library.rows(result)
        library.free(result)
        return {"seconds": seconds, "rows": rows}

    serve(handle)


if __name__ == "__main__":
    main()
