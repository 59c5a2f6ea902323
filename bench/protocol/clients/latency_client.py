"""Asks two servers for `SELECT 1` in turns; tells the median time of each."""

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


def handle(ours: str, postgresql: str, repetitions: int) -> dict[str, Any]:
    with hypostyle.connect(ours) as one, psycopg.connect(postgresql, autocommit=True) as other:
        ask_ours, ask_postgresql = one.execute, other.execute
        samples: dict[str, list[float]] = {"ours": [], "postgresql": []}
        measure(ask_ours, WARM_UP)
        measure(ask_postgresql, WARM_UP)
        for _ in range(repetitions // BLOCK):
            samples["ours"] += measure(ask_ours, BLOCK)
            samples["postgresql"] += measure(ask_postgresql, BLOCK)
    return {name: median(values) for name, values in samples.items()}


def measure(ask: Callable[[str], Any], repetitions: int) -> list[float]:
    samples = []
    for _ in range(repetitions):
        start = time.perf_counter()
        row = ask("SELECT 1").fetchone()
        samples.append(time.perf_counter() - start)
        if tuple(row) != (1,):
            raise ValueError(f"SELECT 1 is {row}")
    return samples


if __name__ == "__main__":
    serve(handle)
