"""Queries on Hypostyle and on DuckDB: in turns in one process, and each for the first time in a fresh one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from argparse import Namespace
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import hypostyle

from answers import difference
from dataset import Pair
from measure import Bar, Measurement, Report, Times

# Fresh processes per query: the first one may read what a system has not in memory.
FIRST_RUNS = 3

# The samples of one engine, by query.
Samples = dict[str, list[float]]


@dataclass
class Compared:
    """What was measured of each query, ours first."""

    times: dict[str, tuple[Times, Times]] = field(default_factory=dict)
    wrong: set[str] = field(default_factory=set)


def run(connection: Any, sql: str) -> Any:
    """Return the rows of a query, of either engine."""
    return connection.sql(sql).fetchall()


def opened(pair: Pair, memory_limit: str | None = None) -> tuple[Any, Any]:
    """Open both databases with as many threads as there are cores."""
    threads = os.cpu_count() or 1
    limit = {} if memory_limit is None else {"memory_limit": memory_limit}
    ours = hypostyle.connect(pair.hypostyle, read_only=True, threads=threads, **limit)
    return ours, duckdb.connect(pair.duckdb, read_only=True, config={"threads": threads, **limit})


def take_turns(
    report: Report, queries: dict[str, str], ours: Any, peer: Any, runs: int, in_order: bool
) -> Compared:
    """Run each query on both engines in turns, and compare the rows of its first run, as sets unless
    `in_order`.
    """
    ordered = list if in_order else sorted
    compared = Compared()
    for name, sql in queries.items():
        # The first run reads everything into memory, and is compared.
        found = difference(ordered(run(ours, sql)), ordered(run(peer, sql)))
        if found:
            compared.wrong.add(name)
            report.note(f"{name} differs from DuckDB: {found}")
        run(ours, sql)  # the second wish for an index has it made
        times = compared.times[name] = (Times(), Times())
        for _ in range(runs):
            times[0].run(run, ours, sql)
            times[1].run(run, peer, sql)
    return compared


def total(samples: list[list[float]]) -> list[float]:
    """Return the sum over the queries, run by run."""
    return [sum(runs) for runs in zip(*samples, strict=True)]


def add_lines(
    report: Report, compared: Compared, each: Bar, in_total: Bar, others: dict[str, Samples] | None = None
) -> None:
    """Report time on the clock and of all processors, of each query and in total."""
    others = {engine: samples for engine, samples in (others or {}).items() if samples}
    names = list(compared.times)
    for name, (ours, peer) in compared.times.items():
        is_wrong = name in compared.wrong
        peers = {"DuckDB": peer.wall, **{engine: of[name] for engine, of in others.items() if name in of}}
        report.add(Measurement(name, ours.wall, peers, each, wrong=is_wrong))
    for name, (ours, peer) in compared.times.items():
        report.add(Measurement(f"{name}, CPU", ours.cpu, {"DuckDB": peer.cpu}, wrong=name in compared.wrong))
    both = list(compared.times.values())
    walls = {
        "DuckDB": total([peer.wall for _, peer in both]),
        **{
            engine: total([of[name] for name in names])
            for engine, of in others.items()
            if set(names) <= set(of)
        },
    }
    is_wrong = bool(compared.wrong)
    report.add(Measurement("total", total([ours.wall for ours, _ in both]), walls, in_total, wrong=is_wrong))
    cpu = (total([times[engine].cpu for times in both]) for engine in (0, 1))
    report.add(Measurement("total, CPU", next(cpu), {"DuckDB": next(cpu)}, wrong=is_wrong))


def add_index_bytes(report: Report, ours: Any, database: Path) -> None:
    """Report what indexes take beside the columns."""
    indexes = sum(ours.sql("SHOW INDEXES").fetchnumpy()["bytes"].tolist())
    files = (path for path in database.rglob("*") if path.is_file() and "indexes" not in path.parts)
    columns = sum(path.stat().st_size for path in files)
    report.details["indexes"] = {"bytes": indexes, "share_of_columns": indexes / columns}
    report.note(f"indexes take {indexes / 2**20:.0f} MiB, {indexes / columns:.1%} of the columns")


def add_first_runs(report: Report, pair: Pair, queries: dict[str, str]) -> None:
    """Report the first run of each query in a process of its own, with no index there."""
    ours: Samples = {}
    peers: Samples = {}
    for name, sql in queries.items():
        ours[name], peers[name] = [], []
        for _ in range(FIRST_RUNS):
            shutil.rmtree(pair.hypostyle / "indexes", ignore_errors=True)
            ours[name].append(_first_run("hypostyle", pair.hypostyle, sql))
            peers[name].append(_first_run("duckdb", pair.duckdb, sql))
    slowest = max(ours, key=lambda name: median(ours[name]) / median(peers[name]))
    for what, names in ((f"first run of {slowest}", [slowest]), ("first runs, total", list(ours))):
        of = [total([samples[name] for name in names]) for samples in (ours, peers)]
        report.add(Measurement(what, of[0], {"DuckDB": of[1]}, Bar(ratio_min=1)))
    report.details["first_runs"] = {"hypostyle": ours, "DuckDB": peers}


_PROGRAM = """
import sys, time, {engine} as engine
with engine.connect(sys.argv[1], read_only=True) as connection:
    sql = sys.stdin.read()
    start = time.perf_counter()
    connection.sql(sql).fetchall()
    print(time.perf_counter() - start)
"""


def _first_run(engine: str, database: Path, sql: str) -> float:
    program = [sys.executable, "-c", _PROGRAM.format(engine=engine), database]
    return float(subprocess.run(program, input=sql, capture_output=True, text=True, check=True).stdout)


def measure(
    options: Namespace, report: Report, pair: Pair, queries: dict[str, str], *, in_order: bool
) -> Compared:
    """Take turns, and note what indexes take."""
    ours, peer = opened(pair, options.memory_limit)
    with ours, peer:
        compared = take_turns(report, queries, ours, peer, options.runs, in_order)
        add_index_bytes(report, ours, pair.hypostyle)
    return compared
