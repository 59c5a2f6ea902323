"""Small durable commits, changes of single rows, and readers beside a writer.

All databases are on disk and wait for it: SQLite with WAL and synchronous=FULL, DuckDB with its
defaults, ours with synchronous=full. Statements are SQL text with parameters, through each party's
own Python package.
"""

from __future__ import annotations

import gc
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import hypostyle

from dataset import queries, tpch
from measure import Bar, Measurement, Report, arguments, cache_directory, measured_in_rust, timed

COMMITS = 1000
WRITERS = 8
KEYS = 1000
CREATE = "CREATE TABLE t (id INTEGER, name VARCHAR, amount DOUBLE)"
INSERT = "INSERT INTO t VALUES (?, ?, ?)"


def open_hypostyle(path: Path) -> Any:
    return hypostyle.connect(path)


def open_duckdb(path: Path) -> Any:
    return duckdb.connect(path)


def open_sqlite(path: Path) -> Any:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=60)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


ENGINES: dict[str, Callable[[Path], Any]] = {
    "hypostyle": open_hypostyle,
    "SQLite": open_sqlite,
    "DuckDB": open_duckdb,
}


def insert_rows(connection: Any, first: int, count: int) -> None:
    for number in range(first, first + count):
        connection.execute(INSERT, (number, f"name {number}", number / 2))


def another(engine: str, connection: Any, path: Path) -> Any:
    """Open a connection for another thread."""
    if engine == "hypostyle":
        return connection.duplicate()
    return connection.cursor() if engine == "DuckDB" else open_sqlite(path)


def single_commits(engine: str, scratch: Path) -> float:
    """Return the seconds per commit of one writer."""
    path = scratch / f"{engine}.one"
    connection = ENGINES[engine](path)
    connection.execute(CREATE)
    insert_rows(connection, -50, 50)
    seconds, _ = timed(insert_rows, connection, 0, COMMITS)
    check_rows(connection, COMMITS + 50)
    connection.close()
    return seconds / COMMITS


def concurrent_commits(engine: str, scratch: Path) -> float:
    """Return the seconds per commit when several writers commit at once."""
    path = scratch / f"{engine}.many"
    connection = ENGINES[engine](path)
    connection.execute(CREATE)
    each = COMMITS // WRITERS

    def work(writer: int) -> None:
        insert_rows(another(engine, connection, path), writer * each, each)

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(WRITERS)]

    def run() -> None:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    seconds, _ = timed(run)
    check_rows(connection, each * WRITERS)
    connection.close()
    return seconds / (each * WRITERS)


def check_rows(connection: Any, expected: int) -> None:
    (found,) = connection.execute("SELECT count(*) FROM t").fetchone()
    if found != expected:
        raise RuntimeError(f"{found} rows are there, and not {expected}")


def alternating(runs: int, work: Callable[[str, Path], float]) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    for _ in range(runs):
        for engine in ENGINES:
            with tempfile.TemporaryDirectory(dir=cache_directory()) as scratch:
                samples[engine].append(work(engine, Path(scratch)))
    return samples


def copy_of(path: Path, target: Path) -> Path:
    """Copy a database. Ours is checked whole: the first reads of an unknown copy verify its
    blocks.
    """
    if path.is_dir():
        shutil.copytree(path, target, ignore=shutil.ignore_patterns("shared", "readers"))
        with hypostyle.connect(target) as connection:
            connection.execute("CHECK DATABASE").fetchall()
    else:
        shutil.copy(path, target)
    return target


def per_key(connections: dict[str, Any], sql: str, keys: list[int]) -> dict[str, float]:
    """Return the median seconds of a durable statement about one key, in a loop as programs have
    them.
    """
    medians = {}
    for engine, connection in connections.items():
        # Collecting garbage between them would remove both from the processor's caches.
        gc.collect()
        gc.disable()
        seconds = []
        for key in keys:
            start = time.perf_counter()
            connection.execute(sql, (key,))
            seconds.append(time.perf_counter() - start)
        gc.enable()
        medians[engine] = median(seconds)
    return medians


def point_changes(report: Report, options: Namespace, scratch: Path) -> None:
    """Measure UPDATE and DELETE of one order's lines among all lines; then of 1 % of all lines, and
    scans after that.
    """
    dataset = tpch(options.sf)
    paths = {
        "hypostyle": copy_of(dataset.hypostyle, scratch / "ours"),
        "DuckDB": copy_of(dataset.duckdb, scratch / "peer"),
    }
    connections = {engine: ENGINES[engine](path) for engine, path in paths.items()}
    random.seed(7)
    rows = connections["DuckDB"].execute("SELECT max(l_orderkey) FROM lineitem").fetchone()[0]
    keys = random.sample(range(1, rows), KEYS)
    for what, sql in (
        ("UPDATE by key", "UPDATE lineitem SET l_comment = 'changed' WHERE l_orderkey = ?"),
        ("DELETE by key", "DELETE FROM lineitem WHERE l_orderkey = ?"),
    ):
        pieces = [keys[first :: options.runs] for first in range(options.runs)]
        rounds = [per_key(connections, sql, piece) for piece in pieces]
        samples = {engine: [each[engine] for each in rounds] for engine in connections}
        report.add(Measurement(what, samples.pop("hypostyle"), samples, Bar(ratio_min=1.0)))

    ours = connections["hypostyle"]
    scan = "SELECT sum(l_quantity), sum(l_extendedprice), min(l_shipdate), max(l_comment) FROM lineitem"
    delete = "DELETE FROM lineitem WHERE l_orderkey % 100 = 42"
    ours.execute("VACUUM lineitem")

    def scans() -> list[float]:
        ours.sql(scan).fetchall()
        return [timed(lambda: ours.sql(scan).fetchall())[0] for _ in range(options.runs)]

    before = scans()
    seconds = {engine: [timed(connection.execute, delete)[0]] for engine, connection in connections.items()}
    report.add(Measurement("DELETE of 1 %", seconds.pop("hypostyle"), seconds))
    after = scans()
    # The earlier scan takes the place of the peer: a ratio of 1 / 1.2 is allowed.
    allowed = Bar(ratio_min=1 / 1.2, peer="before")
    report.add(Measurement("scan, 1 % deleted", after, {"before": before}, allowed))
    counts = {e: c.execute("SELECT count(*) FROM lineitem").fetchone() for e, c in connections.items()}
    if len(set(counts.values())) != 1:
        raise RuntimeError(f"the engines have different rows left: {counts}")
    vacuum, _ = timed(ours.execute, "VACUUM lineitem")
    report.add(Measurement("VACUUM of lineitem", [vacuum]))
    export = [timed(lambda: ours.sql("SELECT * FROM lineitem").arrow())[0] for _ in range(options.runs)]
    report.add(Measurement("export after VACUUM", export, bar=Bar(at_most=0.010)))
    for connection in connections.values():
        connection.close()


def opening(report: Report, options: Namespace) -> None:
    """Open a database, and one of a tenth of its size: the time must not depend on the size."""
    databases = [tpch(scale_factor).hypostyle for scale_factor in (options.sf, options.sf / 10)]
    sizes = [sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) for path in databases]

    def run(path: Path) -> None:
        hypostyle.connect(path).close()

    for path in databases:
        run(path)
    opened = [[timed(run, path)[0] for path in databases] for _ in range(options.runs * 10)]
    whole, tenth = ([times[which] for times in opened] for which in range(2))
    peer = f"{sizes[1] / 1e9:.1f} GB"
    bar = Bar(at_most=0.020, ratio_min=1 / 1.5, peer=peer)
    report.add(Measurement(f"open for writing, {sizes[0] / 1e9:.1f} GB", whole, {peer: tenth}, bar))


def held_snapshot(report: Report, options: Namespace, scratch: Path) -> None:
    """Measure the cost of a reader's open transaction for a writer."""
    samples: dict[bool, list[float]] = {False: [], True: []}
    for run in range(options.runs):
        for held in samples:
            path = scratch / f"held-{run}-{held}"
            writer = open_hypostyle(path)
            writer.execute(CREATE)
            reader = open_hypostyle(path)
            if held:
                reader.begin(read_only=True)
                reader.sql("SELECT count(*) FROM t").fetchall()
            samples[held].append(timed(insert_rows, writer, 0, COMMITS)[0] / COMMITS)
            reader.close()
            writer.close()
    free = Bar(ratio_min=0.9, peer="no reader")
    what = "commit, a reader holds a snapshot"
    report.add(Measurement(what, samples[True], {"no reader": samples[False]}, free))


def reader_process(path: Path, runs: int, core: int) -> None:
    """Run the TPC-H queries on one core several times; print the seconds of each round."""
    import os

    os.sched_setaffinity(0, {core})
    connection = hypostyle.connect(path, read_only=True, threads=1)
    texts = list(queries().values())
    print("ready", flush=True)
    for _ in range(runs):
        start = time.perf_counter()
        for text in texts:
            connection.sql(text).fetchall()
        print(json.dumps(time.perf_counter() - start), flush=True)


def beside_a_writer(report: Report, options: Namespace, scratch: Path) -> None:
    """Measure a reader's TPC-H, alone and while another process commits on the other core."""
    import os

    path = copy_of(tpch(options.sf).hypostyle, scratch / "beside")
    command = [sys.executable, __file__, "reader", str(path), "3", "1"]

    def rounds(writer: Any | None = None, seconds: float = 0.0) -> tuple[list[float], int]:
        """Return the seconds of each round, and the commits meanwhile, until they take
        `seconds`.
        """
        commits = 0
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            lines: list[str] = []
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise RuntimeError("the reader did not begin")
            begin = time.perf_counter()
            collect = threading.Thread(target=lambda: lines.extend(process.stdout))  # type: ignore[arg-type]
            collect.start()
            while process.poll() is None:
                early = begin + commits * seconds / COMMITS - time.perf_counter()
                if writer is None or commits >= COMMITS or early > 0:
                    time.sleep(0.05 if writer is None or commits >= COMMITS else min(early, 0.05))
                    continue
                insert_rows(writer, commits, 1)
                writer.execute("UPDATE orders SET o_comment = 'x' WHERE o_orderkey = ?", (commits * 32 + 1,))
                commits += 1
            collect.join()
            if process.returncode != 0:
                raise RuntimeError("the reader failed")
        return [json.loads(line) for line in lines], commits

    alone, _ = rounds()
    # This is the effect of a busy neighbour: it shares only caches and clocks.
    spin = "import os\nos.sched_setaffinity(0, {0})\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", spin]) as neighbour:
        beside_loop, _ = rounds()
        neighbour.kill()
    report.add(Measurement("TPC-H beside an empty loop", beside_loop, {"alone": alone}))
    os.sched_setaffinity(0, {0})
    with hypostyle.connect(path, threads=1) as writer:
        writer.execute(CREATE)
        beside, commits = rounds(writer, sum(alone))
    os.sched_setaffinity(0, set(range(os.cpu_count() or 1)))
    if 2 * commits < COMMITS:
        raise RuntimeError(f"the reader was ready after {2 * commits} commits: give it more rounds")
    what = f"TPC-H beside {2 * commits} commits"
    peers = {"alone": alone, "an empty loop": beside_loop}
    report.add(Measurement(what, beside, peers, Bar(ratio_min=1 / 1.3, peer="alone")))


def main(options: Namespace) -> None:
    report = Report("transactions", options)
    one = alternating(options.runs, single_commits)
    ours = one.pop("hypostyle")
    report.add(Measurement("commit of one row", ours, one, Bar(ratio_min=1.0, peer="SQLite")))
    report.add(Measurement("commit of one row", ours, one, Bar(ratio_min=1.0, peer="DuckDB")))
    many = alternating(options.runs, concurrent_commits)
    eight = many.pop("hypostyle")
    report.add(Measurement(f"the same, {WRITERS} writers", eight, many))
    # One writer's time takes the place of the peer. Threads of Python have to share its lock.
    what = f"{WRITERS} writers, against one"
    report.add(Measurement(f"{what}, in Python", eight, {"one writer": ours}))
    with tempfile.TemporaryDirectory(dir=cache_directory()) as scratch:
        rust = measured_in_rust(
            "commits", "--writers", str(WRITERS), "--runs", str(options.runs), "--scratch", scratch
        )
    many_times = Bar(ratio_min=3.0, peer="one writer")
    report.add(Measurement(f"{what}, in Rust", rust["all"], {"one writer": rust["one"]}, many_times))
    with tempfile.TemporaryDirectory(dir=cache_directory()) as scratch:
        point_changes(report, options, Path(scratch))
        opening(report, options)
        held_snapshot(report, options, Path(scratch))
        beside_a_writer(report, options, Path(scratch))
    report.write()


if __name__ == "__main__":
    if sys.argv[1:2] == ["reader"]:
        reader_process(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        main(arguments(__doc__))
