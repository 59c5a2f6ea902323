"""PostgreSQL and MariaDB: servers on this machine, reached by a Unix socket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from systems.system import FOREIGN_KEYS, PRIMARY_KEYS, Source, System, index_statements

EVERYTHING = "SELECT * FROM lineitem"
# Rows in one INSERT: MariaDB takes statements of 16 MB.
INSERTED_ROWS = 10_000
KINDS = {"i": "BIGINT", "f": "DOUBLE PRECISION", "M": "TIMESTAMP"}


class PostgreSQL(System):
    def _connect(self) -> Any:
        import psycopg

        return psycopg.connect(**self.address, autocommit=True)

    def load(self, tables: Sequence[Source]) -> None:
        with self._connect() as connection:
            for table in tables:
                connection.execute(table.create)
                copied = connection.cursor().copy(f"COPY {table.name} FROM STDIN (FORMAT csv)")
                with open(table.csv, "rb") as file, copied as copy:
                    while piece := file.read(1 << 20):
                        copy.write(piece)
            for statement in (*index_statements(), "VACUUM ANALYZE"):
                connection.execute(statement)

    def open(self) -> None:
        self.connection = self._connect()

    def run(self, name: str, sql: str) -> Any:
        return self.connection.execute(sql).fetchall()

    def rows(self, name: str, sql: str, result: Any) -> Sequence[Sequence[Any]]:
        return result

    def write(self, frame: pd.DataFrame) -> None:
        """Insert row by row in one transaction, as the paper's driver does."""
        columns = ", ".join(f"{name} {KINDS.get(frame[name].dtype.kind, 'TEXT')}" for name in frame)
        marks = ", ".join(["%s"] * len(frame.columns))
        with self._connect() as connection, connection.transaction(), connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS written")
            cursor.execute(f"CREATE TABLE written ({columns})")
            cursor.executemany(
                f"INSERT INTO written VALUES ({marks})", frame.itertuples(index=False, name=None)
            )

    def read(self) -> pd.DataFrame:
        cursor = self.connection.execute(EVERYTHING)
        return pd.DataFrame(cursor.fetchall(), columns=[column.name for column in cursor.description])

    def close(self) -> None:
        self.connection.close()


class MariaDB(System):
    """Its values come as text, and stay text: its C library is asked without a driver."""

    def _connect(self) -> Any:
        from protocol.clients.mariadb_library import MariaDBLibrary

        self.library = MariaDBLibrary()
        return self.library.connect(compressed=False, **self.address)

    def load(self, tables: Sequence[Source]) -> None:
        connection = self._connect()
        for table in tables:
            self.library.execute(connection, table.create)
            self.library.execute(
                connection,
                f"LOAD DATA INFILE '{table.csv}' INTO TABLE {table.name} CHARACTER SET utf8mb4"
                " FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' ESCAPED BY ''",
            )
            key = f"ALTER TABLE {table.name} ADD PRIMARY KEY ({PRIMARY_KEYS[table.name]})"
            self.library.execute(connection, key)
        for number, (table, key, _) in enumerate(FOREIGN_KEYS):
            self.library.execute(connection, f"CREATE INDEX foreign_{number} ON {table} ({key})")
        for table in tables:
            self.library.free(self.library.query(connection, f"ANALYZE TABLE {table.name}"))
        self.library.close(connection)

    def open(self) -> None:
        self.connection = self._connect()

    def run(self, name: str, sql: str) -> Any:
        return self.library.query(self.connection, sql)

    def rows(self, name: str, sql: str, result: Any) -> Sequence[Sequence[Any]]:
        return self.library.values(result)

    def write(self, frame: pd.DataFrame) -> None:
        """Insert many rows with a statement, in one transaction."""
        connection = self._connect()
        columns = ", ".join(
            f"{name} {KINDS.get(frame[name].dtype.kind, 'TEXT').replace('TIMESTAMP', 'DATETIME')}"
            for name in frame
        )
        for statement in ("DROP TABLE IF EXISTS written", f"CREATE TABLE written ({columns})", "BEGIN"):
            self.library.execute(connection, statement)
        for start in range(0, len(frame), INSERTED_ROWS):
            piece = frame.iloc[start : start + INSERTED_ROWS]
            rows = ",".join(map(_row, piece.itertuples(index=False, name=None)))
            self.library.execute(connection, f"INSERT INTO written VALUES {rows}")
        self.library.execute(connection, "COMMIT")
        self.library.close(connection)

    def read(self) -> pd.DataFrame:
        result = self.library.query(self.connection, EVERYTHING)
        return pd.DataFrame(self.library.values(result))

    def close(self) -> None:
        self.library.close(self.connection)


def _row(values: tuple[Any, ...]) -> str:
    """Return a row of VALUES; lineitem has no NULLs, and no backslashes in its texts."""
    texts = [
        str(value) if isinstance(value, int | float) else "'" + str(value).replace("'", "''") + "'"
        for value in values
    ]
    return f"({','.join(texts)})"
