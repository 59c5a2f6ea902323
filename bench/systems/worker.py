"""A process with one system: `worker.py SYSTEM`. Each request is a line in, each answer a line out.

It runs on one core, so that no system has more, whatever it takes its threads for.
"""

from __future__ import annotations

import sys
from typing import Any

from protocol.clients.loop import serve, timed
from systems.embedded import DuckDB, Hypostyle, SQLite
from systems.libraries import Pandas
from systems.monetdb import MonetDB, MonetDBLite
from systems.servers import MariaDB, PostgreSQL
from systems.system import Source, System

SYSTEMS: dict[str, type[System]] = {
    "hypostyle": Hypostyle,
    "DuckDB": DuckDB,
    "SQLite": SQLite,
    "PostgreSQL": PostgreSQL,
    "MariaDB": MariaDB,
    "MonetDBLite": MonetDBLite,
    "MonetDB": MonetDB,
    "pandas": Pandas,
}


class Worker:
    def __init__(self, kind: type[System]) -> None:
        self.kind = kind
        self.system: System | None = None
        self.lineitem: Source | None = None

    def handle(self, action: str, **request: Any) -> dict[str, Any]:
        return getattr(self, f"do_{action}")(**request)

    def do_prepare(
        self, place: str, address: dict[str, Any], tables: list[dict[str, Any]], load: bool
    ) -> dict[str, Any]:
        """Load the tables, unless they are there."""
        sources = [Source(**table) for table in tables]
        self.lineitem = next(source for source in sources if source.name == "lineitem")
        self.system = self.kind(place, address)
        if load:
            seconds, _ = timed(self.system.load, sources)
            return {"seconds": seconds}
        return {}

    def do_open(self) -> dict[str, Any]:
        assert self.system is not None
        self.system.open()
        return {}

    def do_query(self, name: str, sql: str, answer: bool) -> dict[str, Any]:
        """Time a query; return its rows, too, if they are wanted."""
        assert self.system is not None
        seconds, result = timed(self.system.run, name, sql)
        rows = self.system.rows(name, sql, result) if answer else None
        return {"seconds": seconds, "rows": rows and [[_plain(value) for value in row] for row in rows]}

    def do_read(self) -> dict[str, Any]:
        assert self.system is not None
        seconds, frame = timed(self.system.read)
        touched, _ = timed(_touch, frame)
        return {"seconds": seconds, "touched": seconds + touched, "rows": len(frame)}

    def do_write(self) -> dict[str, Any]:
        assert self.system is not None and self.lineitem is not None
        frame = self.lineitem.frame()
        seconds, _ = timed(self.system.write, frame)
        return {"seconds": seconds}

    def do_close(self) -> dict[str, Any]:
        assert self.system is not None
        self.system.close()
        return {}


def _touch(frame: Any) -> None:
    """Read every value: sums of numbers and dates, lengths of texts."""
    for name in frame.columns:
        column = frame[name]
        if column.dtype.kind in "iuf":
            column.sum()
        elif column.dtype.kind == "M":
            column.astype("int64").sum()
        elif isinstance(column.iloc[0] if len(column) else None, str):
            column.str.len().sum()
        else:
            column.astype(str).str.len().sum()


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: numbers as they are, all else as text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "item"):  # of NumPy
        return _plain(value.item())
    return str(value)


if __name__ == "__main__":
    serve(Worker(SYSTEMS[sys.argv[1]]).handle)
