"""Opens a stored TPC-H database: alone, with a first small query, and with a first whole-table
export.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import duckdb
import hypostyle

from dataset import tpch
from measure import Measurement, Report, arguments, timed


def nothing(_: Any, __: str) -> None:
    """Only open the database."""


def count(connection: Any, _: str) -> None:
    connection.sql("SELECT count(*) FROM lineitem").fetchall()


def export(connection: Any, arrow: str) -> Any:
    return getattr(connection.sql("SELECT * FROM lineitem"), arrow)()


CASES = (("open", nothing), ("open, count(*)", count), ("open, lineitem → Arrow", export))


def main(options: Namespace) -> None:
    dataset = tpch(options.sf, options.fresh)
    report = Report("open", options)

    def open_ours(then: Any) -> None:
        with hypostyle.connect(dataset.hypostyle, read_only=True) as connection:
            then(connection, "arrow")

    def open_duckdb(then: Any) -> None:
        with duckdb.connect(dataset.duckdb, read_only=True) as connection:
            then(connection, "to_arrow_table")

    for what, then in CASES:
        open_ours(then)
        open_duckdb(then)
        ours: list[float] = []
        peer: list[float] = []
        for _ in range(options.runs):
            ours.append(timed(open_ours, then)[0])
            peer.append(timed(open_duckdb, then)[0])
        report.add(Measurement(what, ours, {"DuckDB": peer}))
    report.write()


if __name__ == "__main__":
    main(arguments(__doc__))
