"""Measures what programs get by ODBC: all of lineitem fetched in rowsets, SELECT 1, 20,000 rows inserted by
an array of parameters, and connecting. One program in C (bench/odbc) measures every driver through
unixODBC, with the stages apart: connect, execute, transfer.

The peers are psqlODBC with PostgreSQL and with our server's PostgreSQL protocol, MariaDB's driver and
SQLite's. Those that are not installed are left out and named; scripts/setup_odbc.sh peers installs them. No
registry has DuckDB's driver. All answers are compared.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
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
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu/odbc")
OURS = "hypostyle"
POSTGRESQL, PGWIRE, MARIADB, SQLITE = "psqlODBC", "psqlODBC, ours", "MariaDB", "SQLite"
ROWSET = 1000
INSERTS = 20_000
SELECTS = 2_000
CONNECTS = 20

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


@dataclass
class Outcome:
    """What the program has told of a task."""

    took: dict[str, float] = field(default_factory=dict)
    found: dict[str, str] = field(default_factory=dict)


# Parties ---------------------------------------------------------------------------------------------


def driver(name: str) -> str | None:
    """Return the path of a driver that is installed."""
    place = LIBRARIES / name
    return str(place) if place.exists() else None


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

    def __init__(self, report: Report, measure: Path, parties: list[Party]) -> None:
        self.report = report
        self.measure = measure
        self.parties = parties
        self.out: set[tuple[str, str]] = set()
        self.wrong = False

    def once(self, where: str, task: str, count: int) -> Outcome:
        outcome = Outcome()
        for line in run([self.measure, where, task, str(count)]).splitlines():
            word, name, value = line.split("\t")
            if word == "took":
                outcome.took[name] = float(value)
            else:
                outcome.found[name] = value
        return outcome

    def task(self, task: str, count: int, runs: int, is_reading: bool) -> dict[str, dict[str, list[float]]]:
        """Return the samples of each stage by party; the first run is not counted."""
        samples: dict[str, dict[str, list[float]]] = {}
        answers: dict[str, dict[str, str]] = {}
        for number in range(runs + 1):
            for party in self.parties:
                if (party.name, task) in self.out:
                    continue
                try:
                    outcome = self.once(party.reading if is_reading else party.writing, task, count)
                except PeerError as error:
                    self.report.note(f"{task} by {party.name}: {error}")
                    self.out.add((party.name, task))
                    samples.pop(party.name, None)
                    continue
                answers[party.name] = outcome.found
                for stage, seconds in outcome.took.items() if number > 0 else ():
                    samples.setdefault(party.name, {}).setdefault(stage, []).append(seconds)
        for name, found in answers.items():
            if found != answers.get(OURS):
                self.report.note(f"{task} by {name} found {found}, not {answers.get(OURS)}")
                self.wrong = True
        return samples

    def line(
        self, what: str, samples: dict[str, dict[str, list[float]]], stages: list[str], bars: list[Bar]
    ) -> None:
        """Add a line of the sum of some stages, for each bar once."""
        sums = {
            name: [sum(values) for values in zip(*(found[stage] for stage in stages), strict=True)]
            for name, found in samples.items()
        }
        mine = sums.pop(OURS)
        known = [bar for bar in bars if bar.peer in sums]
        for bar in known or [None]:
            self.report.add(Measurement(what, mine, sums, bar, wrong=self.wrong))


def measure_all(bench: Bench, runs: int) -> None:
    fetched = bench.task("fetch", ROWSET, runs, is_reading=True)
    both = [Bar(ratio_min=8, peer=POSTGRESQL), Bar(ratio_min=4, peer=MARIADB)]
    bench.line("lineitem by row arrays, execute and transfer", fetched, ["execute", "transfer"], both)
    for stage in ("connect", "execute", "transfer"):
        bench.line(f"  {stage}", fetched, [stage], [])
    half = [Bar(ratio_min=2, peer=POSTGRESQL), Bar(ratio_min=2, peer=MARIADB)]
    bench.line("SELECT 1", bench.task("select", SELECTS, runs, is_reading=True), ["select"], half)
    inserted = bench.task("insert", INSERTS, runs, is_reading=False)
    bench.line(f"{INSERTS} rows by an array of parameters", inserted, ["insert"], [])
    bench.line("connect", bench.task("connect", CONNECTS, runs, is_reading=True), ["connect"], [])


def main(options: Namespace) -> None:
    data = tpch(options.sf, options.fresh)
    report = Report("odbc", options)
    with tempfile.TemporaryDirectory(dir=cache_directory()) as directory, contextlib.ExitStack() as stack:
        scratch = Path(directory)
        measure, path = build(scratch)
        parties = [ours(scratch, data, path), stack.enter_context(served(scratch, data, path))]
        for start in PEERS:
            try:
                parties.append(stack.enter_context(start(scratch, data)))
            except PeerError as error:
                report.note(f"{start.__name__} is left out: {error}")
        measure_all(Bench(report, measure, parties), options.runs)
    report.write()


if __name__ == "__main__":
    main(options(__doc__).parse_args())
