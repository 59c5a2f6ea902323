"""Asks two servers for one row in turns; returns the median time of each.

Ours remembers the result of `SELECT 1`; the same query with a parameter is planned each time.
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


def handle(ours: str, postgresql: str, repetitions: int, parameter: bool) -> dict[str, Any]:
    with hypostyle.connect(ours) as one, psycopg.connect(postgresql, autocommit=True) as other:
        value = [1] if parameter else []
        asks: dict[str, Callable[[], Any]] = {
            "ours": lambda: one.execute("SELECT ?" if parameter else "SELECT 1", value),
            "postgresql": lambda: other.execute("SELECT %s" if parameter else "SELECT 1", value or None),
        }
        samples: dict[str, list[float]] = {name: [] for name in asks}
        for ask in asks.values():
            measure(ask, WARM_UP)
        for _ in range(repetitions // BLOCK):
            for name, ask in asks.items():
                samples[name] += measure(ask, BLOCK)
    return {name: median(values) for name, values in samples.items()}


def measure(ask: Callable[[], Any], repetitions: int) -> list[float]:
    samples = []
    for _ in range(repetitions):
        start = time.perf_counter()
        row = ask().fetchone()
        samples.append(time.perf_counter() - start)
        if tuple(row) != (1,):
            raise ValueError(f"SELECT 1 is {row}")
    return samples


if __name__ == "__main__":
    serve(handle)
