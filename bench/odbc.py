"""Measures what programs get by ODBC: all of lineitem fetched in rowsets, SELECT 1, 20,000 rows inserted by
an array of parameters, and connecting. One program in C (bench/odbc) measures every driver through
unixODBC, with the stages apart: connect, execute, transfer.

The peers are psqlODBC with PostgreSQL and with our server's PostgreSQL protocol, MariaDB's driver and
SQLite's. Those that are not installed are left out and named, and their bars say NO PEER;
scripts/setup_odbc.sh peers installs them. No registry has DuckDB's driver. All answers are compared. Each
task has its time: no run of it begins later, and a run that takes longer by itself is ended and named.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from dataset import Dataset, tpch
from measure import REPOSITORY, Bar, Measurement, Report, cache_directory, options
from protocol.processes import PeerError, free_port, program, run, running, wait_until
from updates import USER, peer, psql

PROGRAM = REPOSITORY / "bench" / "odbc" / "measure.c"
OURS = "hypostyle"
POSTGRESQL, PGWIRE, MARIADB, SQLITE = "psqlODBC", "psqlODBC, ours", "MariaDB", "SQLite"

# lineitem for those who need its types told.
COLUMNS = """l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INTEGER,
    l_quantity DECIMAL(15, 2), l_extendedprice DECIMAL(15, 2), l_discount DECIMAL(15, 2),
    l_tax DECIMAL(15, 2), l_returnflag CHAR(1), l_linestatus CHAR(1), l_shipdate DATE,
    l_commitdate DATE, l_receiptdate DATE, l_shipinstruct VARCHAR(25), l_shipmode VARCHAR(10),
    l_comment VARCHAR(44)"""

# SQLite has no DECIMAL and no DATE: numbers and texts stand for them.
SQLITE_ROWS = """SELECT * REPLACE (l_quantity::DOUBLE AS l_quantity,
    l_extendedprice::DOUBLE AS l_extendedprice, l_discount::DOUBLE AS l_discount,
    l_tax::DOUBLE AS l_tax, l_shipdate::VARCHAR AS l_shipdate,
    l_commitdate::VARCHAR AS l_commitdate, l_receiptdate::VARCHAR AS l_receiptdate) FROM lineitem"""


@dataclass
class Party:
    """A driver with its database: the connection strings for reading lineitem and for what is written."""

    name: str
    reading: str
    writing: str


@dataclass(frozen=True)
class Task:
    """What is measured: the program's word and number, the time at SF 1 in seconds, the stages whose sum has
    the bars, and those that are shown by themselves.
    """

    what: str
    word: str
    count: int
    seconds: float
    stages: tuple[str, ...]
    bars: tuple[Bar, ...] = ()
    apart: tuple[str, ...] = ()
    is_reading: bool = True


TASKS = [
    Task("connect", "connect", 20, 20, ("connect",)),
    Task(
        "SELECT 1",
        "select",
        2_000,
        25,
        ("select",),
        (Bar(ratio_min=2, peer=POSTGRESQL), Bar(ratio_min=2, peer=MARIADB)),
    ),
    Task("20000 rows by an array of parameters", "insert", 20_000, 45, ("insert",), is_reading=False),
    Task(
        "lineitem by row arrays, execute and transfer",
        "fetch",
        1000,
        130,
        ("execute", "transfer"),
        (Bar(ratio_min=8, peer=POSTGRESQL), Bar(ratio_min=4, peer=MARIADB)),
        ("connect", "execute", "transfer"),
    ),
]


@dataclass
class Outcome:
    """What the program has told of a task."""

    took: dict[str, float] = field(default_factory=dict)
    found: dict[str, str] = field(default_factory=dict)


# Parties ---------------------------------------------------------------------------------------------


def driver(name: str) -> str | None:
    """Return the path of a driver that is installed."""
    return next((str(place) for place in Path("/usr/lib").glob(f"*/odbc/{name}")), None)


def build(scratch: Path) -> tuple[Path, str]:
    """Compile the program, and our driver beside the built library; return where both are."""
    library = program("libhypostyle_c.so")
    if not library.exists():
        sys.exit("the library for C is not built; run: make build")
    (scratch / "lib").mkdir()
    (scratch / "lib" / "libhypostyle.so.1").symlink_to(library)
    (scratch / "lib" / "libhypostyle.so").symlink_to("libhypostyle.so.1")
    run(
        [
            *("make", "--quiet", "--directory", REPOSITORY / "bindings" / "odbc", f"BUILD={scratch / 'lib'}"),
            f"HYPOSTYLE_CFLAGS=-I{REPOSITORY / 'bindings/c/include'}",
            f"HYPOSTYLE_LIBS=-L{scratch / 'lib'} -lhypostyle",
        ]
    )
    run(["cc", "-O2", PROGRAM, "-o", scratch / "measure", "-lodbc"])
    return scratch / "measure", str(scratch / "lib" / "libhypostyleodbc.so")


def psqlodbc(path: str, port: int, database: str) -> str:
    """Return a connection string. Without a cursor the driver has all rows before it gives the first."""
    server = f"Server=127.0.0.1;Port={port};UID={USER};PWD=x;Database={database}"
    return f"Driver={path};{server};UseDeclareFetch=1;Fetch=10000"


@contextlib.contextmanager
def postgresql(scratch: Path, data: Dataset) -> Iterator[Party]:
    path = driver("psqlodbcw.so")
    if path is None:
        raise PeerError("odbc-postgresql is not installed")
    port = free_port()
    with peer(scratch, port):
        address = ["-h", "127.0.0.1", "-p", str(port), "-U", USER, "postgres"]
        psql(address, f"CREATE TABLE lineitem ({COLUMNS})")
        psql(address, f"\\copy lineitem FROM '{data.csv}' (FORMAT csv)")
        psql(address, "VACUUM ANALYZE lineitem")
        where = psqlodbc(path, port, "postgres")
        yield Party(POSTGRESQL, where, where)


@contextlib.contextmanager
def pgwire(scratch: Path, data: Dataset) -> Iterator[Party]:
    path = driver("psqlodbcw.so")
    if path is None:
        raise PeerError("odbc-postgresql is not installed")
    port, log = free_port(), scratch / "pgwire.log"
    copy = scratch / "pgwire.hypo"
    shutil.copytree(data.hypostyle, copy)
    command = [program("hypostyle"), "serve", copy, "--pgwire", f"127.0.0.1:{port}", "--log-level", "warn"]
    with log.open("w") as output, running(command, stdout=output, stderr=output) as server:
        address = ["-h", "127.0.0.1", "-p", str(port), "-U", USER, OURS]

        def answers() -> bool:
            with contextlib.suppress(PeerError):
                return psql(address, "SELECT 1").strip() == "1"
            return False

        wait_until(answers, server, log)
        where = psqlodbc(path, port, OURS)
        yield Party(PGWIRE, where, where)


@contextlib.contextmanager
def mariadb(scratch: Path, data: Dataset) -> Iterator[Party]:
    path, server = (
        driver("libmaodbc.so"),
        shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin"),
    )
    if path is None or server is None:
        raise PeerError("odbc-mariadb or mariadb-server is not installed")
    place, socket, log = scratch / "mariadb", scratch / "mariadb.sock", scratch / "mariadb.log"
    user = ["--user=root"] if os.geteuid() == 0 else []
    run(
        [
            "mariadb-install-db",
            "--no-defaults",
            *user,
            f"--datadir={place}",
            "--auth-root-authentication-method=normal",
        ]
    )
    settings = ["--skip-networking", "--local-infile=1", "--innodb-buffer-pool-size=2G", "--skip-log-bin"]
    command = [server, "--no-defaults", *user, f"--datadir={place}", f"--socket={socket}", *settings]
    client = ["mariadb", "--no-defaults", "--local-infile=1", "-u", "root", f"--socket={socket}"]
    with log.open("w") as output, running(command, stdout=output, stderr=output) as process:
        ready = [*client, "-e", "SELECT 1"]
        wait_until(
            lambda: subprocess.run(ready, capture_output=True, check=False).returncode == 0, process, log
        )
        fields = "FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"'"
        load = f"LOAD DATA LOCAL INFILE '{data.csv}' INTO TABLE bench.lineitem {fields}"
        run([*client, "-e", f"CREATE DATABASE bench; CREATE TABLE bench.lineitem ({COLUMNS}); {load}"])
        where = f"Driver={path};SOCKET={socket};UID=root;DATABASE=bench"
        yield Party(MARIADB, f"{where};FORWARDONLY=1;NO_CACHE=1", where)


@contextlib.contextmanager
def sqlite(scratch: Path, data: Dataset) -> Iterator[Party]:
    path = driver("libsqlite3odbc.so")
    if path is None:
        raise PeerError("libsqliteodbc is not installed")
    place = scratch / "lineitem.sqlite"
    with (
        contextlib.closing(sqlite3.connect(place)) as database,
        duckdb.connect(data.duckdb, read_only=True) as source,
    ):
        database.execute(f"CREATE TABLE lineitem ({COLUMNS})")
        rows = source.execute(SQLITE_ROWS)
        while part := rows.fetchmany(100_000):
            database.executemany(f"INSERT INTO lineitem VALUES ({', '.join('?' * 16)})", part)
        database.commit()
    where = f"Driver={path};Database={place}"
    yield Party(SQLITE, where, where)


def ours(scratch: Path, data: Dataset, path: str) -> Party:
    writing = scratch / "writing.hypo"
    return Party(
        OURS, f"Driver={path};Database={data.hypostyle};ReadOnly=1", f"Driver={path};Database={writing}"
    )


@contextlib.contextmanager
def served(scratch: Path, data: Dataset, path: str) -> Iterator[Party]:
    """Our driver with a server on a Unix socket and, for reading, over loopback TCP."""
    port, log, copy = free_port(), scratch / "served.log", scratch / "served.hypo"
    shutil.copytree(data.hypostyle, copy)
    command = [program("hypostyle"), "serve", copy, "--listen", f"127.0.0.1:{port}", "--log-level", "info"]
    with log.open("w") as output, running(command, stdout=output, stderr=output) as server:
        wait_until(lambda: str(port) in log.read_text(), server, log)
        where = f"Driver={path};Database=hypostyle://127.0.0.1:{port}/"
        yield Party(f"{OURS}, TCP", where, where)


PEERS = (postgresql, pgwire, mariadb, sqlite)


# Measuring ---------------------------------------------------------------------------------------------


class Bench:
    """Runs the tasks of all parties in turns."""

    def __init__(self, report: Report, given: Namespace, measure: Path, parties: list[Party]) -> None:
        self.report = report
        self.given = given
        self.measure = measure
        self.parties = parties
        self.failed = False

    def once(self, party: Party, task: Task, limit: float) -> Outcome:
        outcome = Outcome()
        where = party.reading if task.is_reading else party.writing
        for line in run([self.measure, where, task.word, str(task.count)], timeout=limit).splitlines():
            word, name, value = line.split("\t")
            if word == "took":
                outcome.took[name] = float(value)
            else:
                outcome.found[name] = value
        return outcome

    def take_turns(self, task: Task) -> tuple[dict[str, dict[str, list[float]]], dict[str, dict[str, str]]]:
        """Return the samples of each stage by party, and what each party has found. When the time of the task
        is over, only the first run of each party begins.
        """
        seconds = task.seconds * max(self.given.sf, 1)
        samples: dict[str, dict[str, list[float]]] = {}
        answers: dict[str, dict[str, str]] = {}
        left = list(self.parties)
        end = time.monotonic() + seconds
        for number in range(self.given.runs):
            if number > 0 and time.monotonic() > end:
                self.report.note(
                    f"{task.word}: {number} runs in place of {self.given.runs}, for its time is over"
                )
                break
            for party in list(left):
                try:
                    outcome = self.once(party, task, seconds)
                except PeerError as error:
                    self.report.note(f"{task.word} by {party.name}: {error}")
                    left.remove(party)
                    samples.pop(party.name, None)
                    answers.pop(party.name, None)
                    continue
                answers[party.name] = outcome.found
                for stage, took in outcome.took.items():
                    samples.setdefault(party.name, {}).setdefault(stage, []).append(took)
        return samples, answers

    def task(self, task: Task) -> None:
        """Add the lines of a task: the sum of its stages, once for each bar, and each stage apart."""
        samples, answers = self.take_turns(task)
        if OURS not in samples:
            self.failed = True
            return
        others = {name: found for name, found in answers.items() if found != answers[OURS]}
        if others:
            self.report.note(f"{task.word}: {others} found, and {answers[OURS]} here")
        self.failed = self.failed or bool(others)
        lines = [(task.what, task.stages, bar) for bar in task.bars or (None,)]
        lines += [(f"  {stage}", (stage,), None) for stage in task.apart]
        for what, stages, bar in lines:
            sums = {
                name: [sum(values) for values in zip(*(found[stage] for stage in stages), strict=True)]
                for name, found in samples.items()
            }
            self.report.add(Measurement(what, sums.pop(OURS), sums, bar, wrong=bool(others)))


def main(given: Namespace) -> None:
    data = tpch(given.sf, given.fresh)
    report = Report("odbc", given)
    with tempfile.TemporaryDirectory(dir=cache_directory()) as directory, contextlib.ExitStack() as stack:
        scratch = Path(directory)
        measure, path = build(scratch)
        parties = [ours(scratch, data, path), stack.enter_context(served(scratch, data, path))]
        for start in PEERS:
            begin = time.monotonic()
            try:
                parties.append(stack.enter_context(start(scratch, data)))
                report.note(f"{parties[-1].name} has its rows after {time.monotonic() - begin:.0f} s")
            except (PeerError, OSError) as error:
                report.note(f"{start.__name__} is left out: {error}")
        bench = Bench(report, given, measure, parties)
        for task in TASKS:
            bench.task(task)
    report.write()
    if bench.failed:
        sys.exit("our driver has failed, or the drivers have found different rows: see above")


if __name__ == "__main__":
    main(options(__doc__).parse_args())
