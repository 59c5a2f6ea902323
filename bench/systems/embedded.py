"""Hypostyle, DuckDB and SQLite: databases in the process."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from systems.system import Source, System, index_statements

BATCH_ROWS = 100_000
EVERYTHING = "SELECT * FROM lineitem"


class Hypostyle(System):
    """Its tables are those that `CALL tpch_generate` has made."""

    def load(self, tables: Sequence[Source]) -> None:
        """Nothing is to be done: the dataset has this database already."""

    def open(self) -> None:
        import hypostyle

        self.connection = hypostyle.connect(self.place, read_only=True, threads=1)

    def run(self, name: str, sql: str) -> Any:
        return self.connection.sql(sql).fetchall()

    def rows(self, name: str, sql: str, result: Any) -> Sequence[Sequence[Any]]:
        return result

    def write(self, frame: pd.DataFrame) -> None:
        import hypostyle

        with hypostyle.connect(self.place.with_name("written.hypo"), threads=1) as connection:
            connection.append("written", frame, create=True)

    def read(self) -> pd.DataFrame:
        return self.connection.sql(EVERYTHING).df()

    def close(self) -> None:
        self.connection.close()


class DuckDB(System):
    def load(self, tables: Sequence[Source]) -> None:
        """Nothing is to be done: the dataset has this database already."""

    def open(self) -> None:
        import duckdb

        self.connection = duckdb.connect(self.place, read_only=True, config={"threads": 1})

    def run(self, name: str, sql: str) -> Any:
        return self.connection.sql(sql).fetchall()

    def rows(self, name: str, sql: str, result: Any) -> Sequence[Sequence[Any]]:
        return result

    def write(self, frame: pd.DataFrame) -> None:
        import duckdb

        with duckdb.connect(self.place.with_name("written.duckdb"), config={"threads": 1}) as connection:
            connection.register("source", frame)
            connection.execute("CREATE TABLE written AS FROM source")
            connection.execute("CHECKPOINT")

    def read(self) -> pd.DataFrame:
        return self.connection.sql(EVERYTHING).df()

    def close(self) -> None:
        self.connection.close()


class SQLite(System):
    """Dates are numbers of days, decimals doubles: it has types for neither."""

    def load(self, tables: Sequence[Source]) -> None:
        connection = sqlite3.connect(self.place)
        connection.execute("PRAGMA synchronous = OFF")
        for table in tables:
            rows = table.read()
            connection.execute(table.create.replace("decimal(", "real("))
            marks = ", ".join("?" * rows.num_columns)
            insert = f"INSERT INTO {table.name} VALUES ({marks})"
            for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
                connection.executemany(insert, zip(*map(_values, batch.columns), strict=True))
        for statement in (*index_statements(), "ANALYZE"):
            connection.execute(statement)
        connection.commit()
        connection.close()

    def open(self) -> None:
        self.connection = sqlite3.connect(self.place)
        self.connection.execute(f"PRAGMA mmap_size = {1 << 40}")
        self.connection.execute("PRAGMA cache_size = -4000000")

    def run(self, name: str, sql: str) -> Any:
        return self.connection.execute(sql).fetchall()

    def rows(self, name: str, sql: str, result: Any) -> Sequence[Sequence[Any]]:
        return result

    def write(self, frame: pd.DataFrame) -> None:
        connection = sqlite3.connect(self.place.with_name("written.sqlite"))
        connection.execute("PRAGMA synchronous = FULL")
        frame.to_sql("written", connection, index=False, chunksize=BATCH_ROWS)
        connection.close()

    def read(self) -> pd.DataFrame:
        return pd.read_sql(EVERYTHING, self.connection)

    def close(self) -> None:
        self.connection.close()


def _values(column: pa.Array) -> list[Any]:
    """Return what SQLite stores of a column."""
    if pa.types.is_date(column.type):
        return column.cast(pa.int32()).to_pylist()
    return (column.cast(pa.float64()) if pa.types.is_decimal(column.type) else column).to_pylist()
