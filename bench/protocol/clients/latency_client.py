"""Asks two servers for one row in turns; returns the median time of each.

Ours remembers the result of `SELECT 1`, and of `SELECT ?` the columns: neither is planned again. A
row by its key is planned each time, and psycopg prepares it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import hypostyle
import psycopg
from loop import serve

BLOCK = 100
WARM_UP = 50


# Of each query its text for ours and for psycopg, and its parameters; the answer is always 1.
QUERIES: dict[str, tuple[str, str, list[int]]] = {
    "SELECT 1": ("SELECT 1", "SELECT 1", []),
    "SELECT ?": ("SELECT ?", "SELECT %s", [1]),
    "a row by its key": (
        "SELECT value FROM one_of_many WHERE id = ?",
        "SELECT value FROM one_of_many WHERE id = %s",
        [1],
    ),
}
TABLE = "CREATE TEMPORARY TABLE one_of_many (id BIGINT PRIMARY KEY, value BIGINT)"
ROWS = "INSERT INTO one_of_many SELECT id, id FROM generate_series(0, 9999) AS of_all(id)"


def handle(ours: str, postgresql: str, repetitions: int, query: str) -> dict[str, Any]:
    of_ours, of_psycopg, values = QUERIES[query]
    with hypostyle.connect(ours) as one, psycopg.connect(postgresql, autocommit=True) as other:
        for connection in (one, other):
            connection.execute(TABLE)
            connection.execute(ROWS)
        asks: dict[str, Callable[[], Any]] = {
            "ours": lambda: one.execute(of_ours, values),
            "postgresql": lambda: other.execute(of_psycopg, values or None),
        }
        samples: dict[str, list[float]] = {name: [] for name in asks}
        for ask in asks.values():
            measure(ask, WARM_UP)
        for _ in range(repetitions // BLOCK):
            for name, ask in asks.items():
                samples[name] += measure(ask, BLOCK)
    return {name: median(times) for name, times in samples.items()}


def measure(ask: Callable[[], Any], repetitions: int) -> list[float]:
    samples = []
    for _ in range(repetitions):
        start = time.perf_counter()
        row = ask().fetchone()
        samples.append(time.perf_counter() - start)
        if tuple(row) != (1,):
            raise ValueError(f"the row is {row}")
    return samples


if __name__ == "__main__":
    serve(handle)
