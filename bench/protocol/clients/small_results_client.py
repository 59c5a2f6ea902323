"""Asks PostgreSQL for one row by its key in turns: by our client in columns and in rows, and by psycopg.
Returns the median time of each.
"""

from __future__ import annotations

import contextlib
from statistics import median
from typing import Any

import hypostyle
import psycopg
from latency_client import BLOCK, QUERIES, ROWS, TABLE, WARM_UP, measure
from loop import serve


def handle(columns: str, rows: str, repetitions: int, **others: str) -> dict[str, Any]:
    of_ours, of_psycopg, values = QUERIES["a row by its key"]
    with contextlib.ExitStack() as stack:
        ours = {
            "columns": stack.enter_context(hypostyle.connect(columns)),
            "rows": stack.enter_context(hypostyle.connect(rows)),
        }
        other = stack.enter_context(psycopg.connect(others["psycopg"], autocommit=True))
        for connection in (*ours.values(), other):
            connection.execute(TABLE)
            connection.execute(ROWS)
        asks = {name: lambda each=each: each.execute(of_ours, values) for name, each in ours.items()}
        asks["psycopg"] = lambda: other.execute(of_psycopg, values)
        samples: dict[str, list[float]] = {name: [] for name in asks}
        for ask in asks.values():
            measure(ask, WARM_UP)
        for _ in range(repetitions // BLOCK):
            for name, ask in asks.items():
                samples[name] += measure(ask, BLOCK)
    return {name: median(times) for name, times in samples.items()}


if __name__ == "__main__":
    serve(handle)
