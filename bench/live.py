"""Exports the whole of lineitem while it is written to: rows in the log, deleted and updated rows.

Each state is made in a copy of the database whose upkeep is off, and read hot: by a result that is had,
and by one whose every byte is read; here, and over the Unix socket of a server. At last a dashboard reads it
while a writer commits, in a thread of the same program and in a program of its own.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import hypostyle

from consumers import CONSUMERS
from dataset import tpch
from measure import Bar, Measurement, Report, arguments, cache_directory, timed
from protocol.processes import program, running, wait_until

EVERYTHING = "SELECT * FROM lineitem"
ROW = "INSERT INTO lineitem SELECT * FROM lineitem WHERE l_orderkey = {} AND l_linenumber = 1"
SINGLE_ROWS = 1000
COMMITS_PER_SECOND = 100
DASHBOARD_SECONDS = 10.0
# Seconds to have results, and until they were read.
Samples = tuple[list[float], list[float]]


def insert(connection: Any, rows: int) -> None:
    for key in keys(connection, rows):
        connection.execute(ROW.format(key))


def keys(connection: Any, count: int) -> list[int]:
    """Return keys of orders from all over the table, in no order."""
    found = connection.sql(
        "SELECT l_orderkey FROM lineitem WHERE l_linenumber = 1 "
        f"ORDER BY (l_orderkey * 7919 + 13) % 1000003 LIMIT {count}"
    )
    return [key for (key,) in found.fetchall()]


def delete_one(connection: Any) -> None:
    (key,) = keys(connection, 1)
    connection.execute(f"DELETE FROM lineitem WHERE l_orderkey = {key} AND l_linenumber = 1")


def update(connection: Any) -> None:
    for key in keys(connection, SINGLE_ROWS):
        connection.execute(
            f"UPDATE lineitem SET l_quantity = l_quantity + 1 WHERE l_orderkey = {key} AND l_linenumber = 1"
        )


def delete_many(connection: Any) -> None:
    connection.execute("DELETE FROM lineitem WHERE (l_orderkey * 7919 + l_linenumber * 104729) % 100 = 0")


# What is done to the table, the bar of arrow(), and by how many times of the time at rest df() may
# take longer, touched.
STATES: tuple[tuple[str, Callable[[Any], None], Bar, float], ...] = (
    ("one INSERT", lambda connection: insert(connection, 1), Bar(at_most=0.002), 1.3),
    ("1,000 single-row INSERTs", lambda connection: insert(connection, SINGLE_ROWS), Bar(at_most=0.005), 1.3),
    ("one DELETE", delete_one, Bar(at_most=0.005), 2.0),
    ("1,000 single-row UPDATEs", update, Bar(at_most=0.030), 2.0),
    ("1 % random DELETEs", delete_many, Bar(ratio_min=1 / 0.15, peer="DuckDB"), 0.0),
)


def changed(dataset: Any, name: str, change: Callable[[Any], None]) -> Path:
    """Return a copy of the database in a state."""
    directory = cache_directory() / "live"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name.replace(' ', '_').replace(',', '').replace('%', 'percent')}.hypo"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(dataset.hypostyle, path, ignore=shutil.ignore_patterns("readers"))
    with hypostyle.connect(path) as connection:
        connection.execute("SET automatic_upkeep = off")
        connection.execute("SET synchronous = off")
        change(connection)
    return path


def samples(connection: Any, take: Callable[..., Any], touch: Any, runs: int) -> Samples:
    """Return the seconds to have all of lineitem, and until every byte of it was read."""
    touch(take(connection, EVERYTHING))
    have, touched = [], []
    for _ in range(runs):
        seconds, result = timed(take, connection, EVERYTHING)
        have.append(seconds)
        touched.append(seconds + timed(touch, result)[0])
        del result
    return have, touched


@contextlib.contextmanager
def served(path: Path) -> Iterator[Any]:
    """A connection over the Unix socket of a server of a database."""
    socket, log = path.with_suffix(".sock"), path.with_suffix(".log")
    command = [program("hypostyle"), "serve", path, "--unix", socket, "--log-level", "warn"]
    with log.open("w") as output, running(command, stdout=output, stderr=output) as server:
        wait_until(socket.exists, server, log)
        with hypostyle.connect(f"hypostyle+unix://{socket}") as connection:
            yield connection


def states(report: Report, dataset: Any, peer: Any, runs: int) -> None:
    consumers = {consumer.call: consumer for consumer in CONSUMERS}
    arrow, frame = consumers["arrow()"], consumers["df()"]
    resting = changed(dataset, "at rest", lambda _: None)
    with hypostyle.connect(resting) as ours:
        rest = {each.call: samples(ours, each.from_ours, each.touch, runs) for each in CONSUMERS}
    with served(resting) as ours:
        rest_served = {each.call: samples(ours, each.from_ours, each.touch, runs) for each in (arrow, frame)}
    shutil.rmtree(resting)
    theirs = {one.call: samples(peer, one.from_duckdb, one.touch, runs) for one in (arrow, frame)}

    def add(what: str, consumer: Any, measured: Samples, resting: Samples, times: float, bar: Bar) -> None:
        have, touched = measured
        peers, peers_touched = ({"at rest": each} for each in resting)
        if consumer.call in theirs:
            peers["DuckDB"], peers_touched["DuckDB"] = theirs[consumer.call]
        report.add(Measurement(what, have, peers, bar if consumer is arrow else None))
        within = Bar(ratio_min=1 / times, peer="at rest") if times else None
        if not times and consumer is frame:
            within = Bar(ratio_min=1 / 0.3, peer="DuckDB")
        report.add(Measurement(f"{what}, touched", touched, peers_touched, within))

    for name, change, bar, times in STATES:
        path = changed(dataset, name, change)
        with hypostyle.connect(path) as ours:
            ours.execute("SET automatic_upkeep = off")
            for consumer in CONSUMERS:
                measured = samples(ours, consumer.from_ours, consumer.touch, runs)
                what = f"lineitem after {name} → {consumer.call}"
                add(what, consumer, measured, rest[consumer.call], times, bar)
        with served(path) as ours:
            ours.execute("SET automatic_upkeep = off")
            for consumer in (arrow, frame):
                measured = samples(ours, consumer.from_ours, consumer.touch, runs)
                what = f"Unix, lineitem after {name} → {consumer.call}"
                add(what, consumer, measured, rest_served[consumer.call], times, bar)
        shutil.rmtree(path)


def write(path: Path | str, over: Callable[[float], bool]) -> None:
    """Commit rows until it is over, which is asked and waited for."""
    with hypostyle.connect(path) as writer:
        for key in keys(writer, 10_000):
            if over(1 / COMMITS_PER_SECOND):
                return
            writer.execute(ROW.format(key))


@contextlib.contextmanager
def thread_that_writes(path: Path) -> Iterator[None]:
    over = threading.Event()
    thread = threading.Thread(target=write, args=(path, over.wait))
    thread.start()
    yield
    over.set()
    thread.join()


@contextlib.contextmanager
def program_that_writes(path: Path) -> Iterator[None]:
    with subprocess.Popen([sys.executable, __file__, "--write", str(path)]) as process:
        yield
        process.terminate()


def dashboard(report: Report, dataset: Any) -> None:
    """Read the whole table again and again while another connection commits."""
    for writer, writing in (("a thread", thread_that_writes), ("another program", program_that_writes)):
        path = changed(dataset, "dashboard", lambda _: None)
        with hypostyle.connect(path) as reader:
            rest, _ = samples(reader, lambda one, sql: one.sql(sql).arrow(), lambda _: None, 100)
            with writing(path):
                time.sleep(1)
                end, taken = time.monotonic() + DASHBOARD_SECONDS, []
                while time.monotonic() < end:
                    taken.append(timed(lambda: reader.sql(EVERYTHING).arrow())[0])
                    time.sleep(0.005)
        shutil.rmtree(path)
        worst = sorted(taken)[len(taken) * 99 // 100]
        report.add(
            Measurement(
                f"lineitem → arrow(), the 99th of 100 while {writer} commits 100 rows a second",
                [worst],
                {"at rest": rest},
                Bar(ratio_min=1 / 3, peer="at rest"),
            )
        )


def main(options: Namespace) -> None:
    dataset = tpch(options.sf, options.fresh)
    report = Report("live", options)
    with duckdb.connect(dataset.duckdb, read_only=True) as peer:
        states(report, dataset, peer, options.runs)
    dashboard(report, dataset)
    report.write()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write(sys.argv[2], lambda seconds: time.sleep(seconds) is not None)
    else:
        main(arguments(__doc__))
