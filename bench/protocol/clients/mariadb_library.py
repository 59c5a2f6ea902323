"""MariaDB’s C library, as far as clients of the bench need it."""

from __future__ import annotations

import ctypes

LIBRARY = "libmariadb.so.3"
CLIENT_COMPRESS = 32


class MariaDBLibrary:
    """The few functions of the library that a client needs."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(LIBRARY)
        self._library.mysql_fetch_row.restype = ctypes.POINTER(ctypes.c_char_p)
        for name in ("mysql_init", "mysql_real_connect", "mysql_store_result"):
            getattr(self._library, name).restype = ctypes.c_void_p
        self._library.mysql_error.restype = ctypes.c_char_p
        self._library.mysql_num_rows.restype = ctypes.c_uint64

    def connect(
        self,
        host: str | None = None,
        port: int = 0,
        database: str = "",
        compressed: bool = False,
        socket: str | None = None,
    ) -> ctypes.c_void_p:
        """Connect as root without a password, to an address or to a Unix socket."""
        connection = ctypes.c_void_p(self._library.mysql_init(None))
        flags = ctypes.c_ulong(CLIENT_COMPRESS if compressed else 0)
        opened = self._library.mysql_real_connect(
            connection,
            host and host.encode(),
            b"root",
            b"",
            database.encode(),
            ctypes.c_uint(port),
            socket and socket.encode(),
            flags,
        )
        if not opened:
            raise RuntimeError(self._library.mysql_error(connection).decode())
        return connection

    def execute(self, connection: ctypes.c_void_p, sql: str) -> None:
        """Ask a query, and wait until the server begins its answer."""
        if self._library.mysql_query(connection, sql.encode()) != 0:
            raise RuntimeError(self._library.mysql_error(connection).decode())

    def store(self, connection: ctypes.c_void_p) -> ctypes.c_void_p:
        """Return all rows of the answer, in the library's memory."""
        result = ctypes.c_void_p(self._library.mysql_store_result(connection))
        if not result:
            raise RuntimeError(self._library.mysql_error(connection).decode())
        return result

    def query(self, connection: ctypes.c_void_p, sql: str) -> ctypes.c_void_p:
        self.execute(connection, sql)
        return self.store(connection)

    def close(self, connection: ctypes.c_void_p) -> None:
        self._library.mysql_close(connection)

    def rows(self, result: ctypes.c_void_p) -> int:
        return self._library.mysql_num_rows(result)

    def values(self, result: ctypes.c_void_p) -> list[list[str | None]]:
        """Return all values as text, and free the result."""
        count = self._library.mysql_num_fields(result)
        found = []
        while row := self._library.mysql_fetch_row(result):
            found.append([None if row[at] is None else row[at].decode() for at in range(count)])
        self.free(result)
        return found

    def free(self, result: ctypes.c_void_p) -> None:
        self._library.mysql_free_result(result)
