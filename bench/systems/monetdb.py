"""MonetDBLite, the system of the paper, and the engine of a later MonetDB in the process.

The wheel of MonetDBLite is for CPython 3.7 and is used unpacked: it asks NumPy for names that are gone
since. `numpy` has to be 1.26. Results of MonetDB/e are taken without its layer for Python, which knows no
integers of 128 bits, and is asked for doubles when answers are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from systems.system import FOREIGN_KEYS, PRIMARY_KEYS, Source, System

EVERYTHING = "SELECT * FROM lineitem"


def copy_statement(table: Source) -> str:
    delimiters = "',', '\\n', '\"' NULL AS ''"
    return f"COPY {table.rows} RECORDS INTO {table.name} FROM '{table.csv}' USING DELIMITERS {delimiters}"


def key_statements() -> list[str]:
    primary = [f"ALTER TABLE {table} ADD PRIMARY KEY ({key})" for table, key in PRIMARY_KEYS.items()]
    foreign = [
        f"ALTER TABLE {table} ADD FOREIGN KEY ({key}) REFERENCES {other} ({PRIMARY_KEYS[other]})"
        for table, key, other in FOREIGN_KEYS
    ]
    return primary + foreign


class MonetDBLite(System):
    def _initialize(self, place: str) -> None:
        for name, kind in (("bool", np.bool_), ("object", object), ("int", int), ("float", float)):
            if name not in np.__dict__:
                setattr(np, name, kind)
        import monetdblite

        self.engine = monetdblite
        monetdblite.init(place)

    def load(self, tables: Sequence[Source]) -> None:
        self._initialize(str(self.place))
        for table in tables:
            self.engine.sql(table.create)
            self.engine.sql(copy_statement(table))
        for statement in key_statements():
            self.engine.sql(statement)
        self.engine.shutdown()

    def open(self) -> None:
        self._initialize(str(self.place))

    def run(self, name: str, sql: str) -> Any:
        return self.engine.sql(sql)

    def rows(self, name: str, sql: str, result: Any) -> Sequence[Sequence[Any]]:
        return list(zip(*(np.ma.getdata(column).tolist() for column in result.values()), strict=True))

    def write(self, frame: pd.DataFrame) -> None:
        """Store arrays as they are; it takes none of dates, which are stored as text."""
        self._initialize(str(self.place.with_name("written.monetdblite")))
        self.engine.create("written", _arrays(frame))
        self.engine.shutdown()

    def read(self) -> pd.DataFrame:
        return pd.DataFrame(self.engine.sql(EVERYTHING))

    def close(self) -> None:
        self.engine.shutdown()


def _arrays(frame: pd.DataFrame) -> dict[str, Any]:
    """Return columns as MonetDBLite takes them: numbers, and texts of one width."""
    found = {}
    for name, column in frame.items():
        is_number = column.dtype.kind in "if"
        texts = column.dt.strftime("%Y-%m-%d") if column.dtype.kind == "M" else column
        found[name] = column.to_numpy() if is_number else texts.to_numpy(dtype=str)
    return found


class MonetDB(System):
    def _connect(self) -> Any:
        import monetdbe

        return monetdbe.connect(str(self.place), nr_threads=1, autocommit=True)

    def load(self, tables: Sequence[Source]) -> None:
        connection = self._connect()
        cursor = connection.cursor()
        for table in tables:
            cursor.execute(table.create)
            cursor.execute(copy_statement(table))
        for statement in key_statements():
            cursor.execute(statement)
        connection.close()

    def open(self) -> None:
        from monetdbe.connection import Connection

        self._described = Connection.get_description
        self.connection = self._connect()
        self.cursor = self.connection.cursor()

    def run(self, name: str, sql: str) -> Any:
        from monetdbe.connection import Connection

        Connection.get_description = lambda self, *_: []  # the engine has all of the result then
        try:
            self.cursor.execute(sql)
        finally:
            Connection.get_description = self._described

    def rows(self, name: str, sql: str, result: Any) -> Sequence[Sequence[Any]]:
        answer = f"answer_{name}"
        self.cursor.execute(f"CREATE TABLE {answer} AS ({sql}) WITH DATA")
        self.cursor.execute(
            "SELECT c.name, c.type FROM sys.columns c JOIN sys.tables t ON c.table_id = t.id"
            f" WHERE t.name = '{answer}' ORDER BY c.number"
        )
        columns = [
            f"CAST({column} AS DOUBLE)" if kind == "decimal" else column
            for column, kind in self.cursor.fetchall()
        ]
        self.cursor.execute(f"SELECT {', '.join(columns)} FROM {answer}")
        found = self.cursor.fetchall()
        self.cursor.execute(f"DROP TABLE {answer}")
        return found

    def close(self) -> None:
        self.connection.close()
