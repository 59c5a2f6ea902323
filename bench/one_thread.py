"""Repeats MonetDBLite's Table 1 and Figures 5 and 6 from Python: Q1 to Q10 of TPC-H on one thread, and
lineitem stored from a pandas frame and read into one.

    cd bench && "$VENV/bin/python" one_thread.py --sf 1 --runs 10

Each system is in a process of its own on one core, or a server that uses one thread for a query; they
take turns query by query. The first two runs are not counted: ours makes its indexes at the second. A
query that takes longer than the patience is marked T and its system started anew, one whose process ends
is marked E, and neither is tried again. data.table and dplyr are run by bench/r. All answers are compared
with DuckDB's. What is not installed is left out, with the reason in the record.

`--large 10` runs the queries at the table's second scale factor, too, by the systems for whose databases the
disk has room.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import hypostyle
import pyarrow as pa

from answers import difference
from dataset import TABLES, directory, queries, tpch
from measure import Bar, Measurement, Report, cache_directory, made, options
from protocol.bench import progress
from protocol.data import Data, Table, usual, write_arrow, write_csv
from protocol.peers import mariadb
from protocol.peers.sql import create_table
from protocol.processes import PeerError
from protocol.processes import run as output_of
from r import for_sqlite, postgresql_server
from systems import r_libraries
from systems.party import MONETDB, Ended, Party, Timeout, interpreter
from systems.system import Source
from updates import USER
from updates import postgresql as postgresql_program

FIGURE, WRITE, READ = "ML-T1", "ML-F5", "ML-F6"
SF10_FROM = 5  # records of this scale or a larger one stand beside the paper's SF 10
QUERIES = [f"q{number:02}" for number in range(1, 11)]
UNCOUNTED = 2
EPOCH = date(1970, 1, 1)
ANSWERS = "DuckDB"
# Averages and quotients of decimals are decimals there, of which MonetDB's have the digits of the column.
ROUNDING = {"MariaDB": 1e-6, "MonetDBLite": 1e-4, "MonetDB": 0.0051}
# Gigabytes of disk at a scale factor of 1, rounded up: of the tables as all systems get them, our database
# and DuckDB's, and of what each other system makes of them.
SHARED_GB = 4.5
DISK_GB = {"MonetDBLite": 1.3, "MonetDB": 1.3, "SQLite": 2.0, "PostgreSQL": 2.5, "MariaDB": 2.5}
R_GB = 1.5
# What has no way for frames is left out of writing and reading.
NO_FRAMES = {"pandas", "MonetDB"}


# Data and systems ------------------------------------------------------------------------------------


def tables_of(given: Namespace) -> dict[str, Table]:
    """Return all tables as Arrow files and as CSV, made if they are missing."""
    dataset = tpch(given.sf, given.fresh, with_csv=False)
    place = directory(given.sf, "one-thread")
    if given.fresh:
        shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True, exist_ok=True)
    found = {}
    for name in TABLES:
        arrow, csv = place / f"{name}.arrow", place / f"{name}.csv"
        if not arrow.exists():
            with hypostyle.connect(dataset.hypostyle, read_only=True) as source:
                rows = source.table(name).arrow()
            fields = [pa.field(each.name, usual(each.type), nullable=False) for each in rows.schema]
            usual_rows = rows.cast(pa.schema(fields))
            made(arrow, lambda path, rows=usual_rows: write_arrow(path, rows))
        with pa.memory_map(str(arrow)) as file:
            rows = pa.ipc.open_file(file).read_all()
            made(csv, lambda path, rows=rows: write_csv(path, rows))
            found[name] = Table(name, name, arrow, csv, rows.num_rows, rows.schema)
    return found


@contextlib.contextmanager
def nothing(scratch: Path) -> Iterator[dict[str, Any]]:
    """A system in the process has no server."""
    yield {}


@contextlib.contextmanager
def postgresql(scratch: Path) -> Iterator[dict[str, Any]]:
    with postgresql_server(scratch, threads=1) as found:
        yield {"host": str(found["host"]), "port": found["port"], "user": USER, "dbname": "postgres"}


@contextlib.contextmanager
def mariadb_server(scratch: Path) -> Iterator[dict[str, Any]]:
    server = mariadb.MariaDB(scratch)
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        server.start(Data(scratch, {}))
        yield {"socket": str(server.socket), "database": mariadb.DATABASE}


SERVERS: dict[str, Callable[[Path], contextlib.AbstractContextManager[dict[str, Any]]]] = {
    "hypostyle": nothing,
    "DuckDB": nothing,
    "SQLite": nothing,
    "PostgreSQL": postgresql,
    "MariaDB": mariadb_server,
    "MonetDBLite": nothing,
    "MonetDB": nothing,
    "pandas": nothing,
}


ALL_SYSTEMS = ",".join(SERVERS)


def sources_for(system: str, tables: dict[str, Table]) -> list[Source]:
    return [
        Source(name, str(table.arrow), str(table.csv), table.rows, create_table(table))
        for name, table in tables.items()
    ]


# Measuring ---------------------------------------------------------------------------------------------


def versions_of(parties: list[Party]) -> dict[str, str]:
    """Return the versions of all systems, as far as they have not told theirs already."""
    found = {}
    for name in (party.name for party in parties):
        if name == "SQLite":
            found[name] = sqlite3.sqlite_version
        elif name == "PostgreSQL":
            found[name] = output_of([postgresql_program("postgres"), "--version"]).split()[2]
        elif name == "MariaDB":
            found[name] = (
                output_of([mariadb.SERVER, "--no-defaults", "--version"]).split("Ver ")[1].split("-")[0]
            )
        elif name in MONETDB:
            wheel = next((cache_directory() / "monetdb" / MONETDB[name]).glob("*.dist-info"))
            found[name] = wheel.name.removesuffix(".dist-info").partition("-")[2]
        elif name in r_libraries.LIBRARIES:
            found[name] = output_of(["Rscript", "--vanilla", "-e", f"cat(format(packageVersion('{name}')))"])
    return found


def sql_for(system: str, sql: str) -> str:
    return for_sqlite(sql) if system == "SQLite" else sql


def comparable(rows: list[list[Any]], like: list[list[Any]]) -> list[list[Any]]:
    """Return rows with the types of others: texts of numbers as numbers, numbers of days as dates."""
    return [
        [_like(value, wanted) for value, wanted in zip(row, other, strict=False)]
        for row, other in zip(rows, like, strict=False)
    ] + rows[len(like) :]


def _like(value: Any, wanted: Any) -> Any:
    if isinstance(wanted, int | float) and isinstance(value, str):
        return float(value)
    if isinstance(wanted, str) and isinstance(value, int) and wanted[4:5] == "-":
        return str(EPOCH + timedelta(days=value))
    if isinstance(wanted, str) and isinstance(value, str) and wanted[4:5] == "-":
        return value[:10]  # a day, of what has times
    return value


def numbers_of(rows: list[list[Any]]) -> list[list[Any]]:
    """Return rows with decimals as numbers, which came as text."""

    def number(value: Any) -> Any:
        if isinstance(value, str):
            with contextlib.suppress(ValueError):
                return float(value)
        return value

    return [[number(value) for value in row] for row in rows]


def query_all(report: Report, parties: list[Party], runs: int, patience: float) -> dict[str, list[list[Any]]]:
    """Run all queries in turns, and compare the answers with those of DuckDB, which are returned."""
    answers = {}
    first = next(party for party in parties if party.name == ANSWERS)
    ordered = [first, *(party for party in parties if party is not first)]
    for name in QUERIES:
        sql = queries()[name]
        known: list[list[Any]] = []
        for run in range(UNCOUNTED + runs):
            for party in ordered:
                request = {"name": name, "sql": sql_for(party.name, sql), "answer": run == 0}
                answer = party.ask(name, report, patience, action="query", **request)
                if answer is None:
                    continue
                if run == 0 and party is first:
                    known = answers[name] = numbers_of(answer["rows"])
                elif run == 0:
                    rows = comparable(answer["rows"], known)
                    found = difference(rows, known, ROUNDING.get(party.name, 0.0))
                    if found:
                        party.wrong.add(name)
                        report.note(f"WRONG: {name} by {party.name}: {found}")
                if run >= UNCOUNTED:
                    party.samples.setdefault(name, []).append(answer["seconds"])
    return answers


def query_in_r(
    report: Report, scratch: Path, answers: dict[str, list[list[Any]]], given: Namespace
) -> list[Party]:
    """Run all queries by the libraries of R, in turns; a first run is compared and not counted."""
    parties = [Party(library, scratch, {}, [], scratch / "log") for library in r_libraries.LIBRARIES]
    try:
        libraries = r_libraries.LibrariesOfR(scratch, given)
        libraries.keep(answers)
    except PeerError as error:
        report.note(f"NOT MEASURED: {' and '.join(r_libraries.LIBRARIES)}: {error}")
        return []
    for run in range(1 + given.runs):
        for party in parties:
            if party.marks:
                continue
            progress(f"all queries by {party.name}")
            seconds, faults, why = libraries.run(party.name, QUERIES, compare=run == 0)
            for fault in faults:
                party.wrong.add(fault.partition(" ")[0])
                report.note(f"WRONG: {fault}")
            if why:
                report.note(f"{party.name}: {why}")
                party.samples.clear()
                party.marks = dict.fromkeys(QUERIES, "T" if "T," in why else "E")
            elif run > 0:
                for name, each in seconds.items():
                    party.samples.setdefault(name, []).append(each)
    return parties


def write_and_read(report: Report, parties: list[Party], runs: int, patience: float) -> None:
    """Store lineitem into new databases, and read all of the loaded ones, in turns."""
    with_frames = [party for party in parties if party.name not in NO_FRAMES]
    for _ in range(runs):
        for party in with_frames:
            party.stop()  # a new process for each: some keep one database until their end
            for path in party.place.parent.glob("written.*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            os.sync()
            answer = party.ask("write", report, patience, action="write") if _started(party) else None
            if answer:
                party.samples.setdefault("write", []).append(answer["seconds"])
            party.stop()
    for run in range(1 + runs):
        for party in with_frames:
            answer = party.ask("read", report, patience, action="read")
            if answer and run > 0:
                party.samples.setdefault("read", []).append(answer["seconds"])
                party.samples.setdefault("touch", []).append(answer["touched"])
            rows = next(source.rows for source in party.sources if source.name == "lineitem")
            if answer and answer["rows"] != rows:
                party.wrong.add("read")
                report.note(f"WRONG: {party.name} has read {answer['rows']} rows, not {rows}")


def _started(party: Party) -> bool:
    """Start a worker that opens no database, which is what writing wants."""
    if "write" not in party.marks:
        party.start()
    return party.worker is not None


def record(report: Report, parties: list[Party], scale: float, prefix: str) -> None:
    """Record cells and lines; the prefix tells the lines of a second scale apart."""
    panel = "SF 10" if scale >= SF10_FROM else "SF 1"
    for party in parties:
        for name in QUERIES:
            if name in party.samples or name in party.marks:
                column = f"Q{int(name[1:])}"
                report.cell(
                    FIGURE, panel, party.name, column, party.samples.get(name, []), party.marks.get(name, "")
                )
        if total := _total(party):
            report.cell(FIGURE, panel, party.name, "total", total)
        elif marked := [party.marks[name] for name in QUERIES if name in party.marks]:
            report.cell(FIGURE, panel, party.name, "total", [], marked[0])
        for what, figure, column in (
            ("write", WRITE, "write"),
            ("read", READ, "have"),
            ("touch", READ, "touch"),
        ):
            if what in party.samples:
                report.cell(
                    figure, "Write" if what == "write" else "Read", party.name, column, party.samples[what]
                )
    ours = next(party for party in parties if party.name == "hypostyle")
    for what in (*QUERIES, "write", "read", "touch"):
        if what in ours.samples:
            peers = {
                party.name: party.samples[what]
                for party in parties
                if party is not ours and what in party.samples
            }
            wrong = any(what in party.wrong for party in parties)
            report.add(Measurement(f"{prefix}{what}", ours.samples[what], peers, wrong=wrong))
    totals = {party.name: total for party in parties if party is not ours and (total := _total(party))}
    if total := _total(ours):
        bar = Bar(ratio_min=1, peer="MonetDBLite") if "MonetDBLite" in totals else None
        wrong = any(party.wrong for party in parties)
        report.add(Measurement(f"{prefix}Q1 to Q10", total, totals, bar, wrong=wrong))


def _total(party: Party) -> list[float]:
    """Return the sum of all queries, run by run; nothing if one is missing."""
    if any(name not in party.samples for name in QUERIES):
        return []
    return [sum(runs) for runs in zip(*(party.samples[name] for name in QUERIES), strict=True)]


@contextlib.contextmanager
def loaded(given: Namespace, report: Report) -> Iterator[list[Party]]:
    """Load all systems that are here; the report says why others are not."""
    tables = tables_of(given)
    dataset = tpch(given.sf, with_csv=False)
    own = {"hypostyle": dataset.hypostyle, "DuckDB": dataset.duckdb}
    with contextlib.ExitStack() as stack:
        base = Path(
            stack.enter_context(tempfile.TemporaryDirectory(dir=cache_directory(), prefix="one-thread-"))
        )
        parties = []
        for system in given.systems:
            scratch = base / system
            scratch.mkdir()
            place = scratch / f"database.{system.lower()}"
            if system in own:
                # A link, so that what is written lies beside it.
                place.symlink_to(own[system])
            try:
                interpreter(system)
                address = stack.enter_context(SERVERS[system](scratch))
                party = Party(system, place, address, sources_for(system, tables), base / f"{system}.log")
                stack.callback(party.stop)
                start = time.perf_counter()
                party.start(load=True)
                if system == "pandas":
                    party.worker and party.worker.ask("open")
                else:
                    party.stop()
                report.note(f"{system} is loaded after {time.perf_counter() - start:.1f} s")
                parties.append(party)
            except (PeerError, Timeout, Ended) as error:
                if system == "pandas" and _lacks_memory(error):
                    report.note(f"{system}: E, its frames do not fit into memory: {error}")
                    party.stop()
                    party.marks = dict.fromkeys(QUERIES, "E")
                    parties.append(party)
                else:
                    report.note(f"NOT MEASURED: {system}: {error}")
        yield parties


def _lacks_memory(error: Exception) -> bool:
    """Say whether a process that loads data ended without memory, or has told that it has none."""
    return isinstance(error, Ended) or "MemoryError" in str(error)


def arguments() -> Namespace:
    parser = options(__doc__)
    parser.add_argument("--systems", default=ALL_SYSTEMS, help=f"some of {ALL_SYSTEMS}; without R then")
    parser.add_argument("--patience", type=float, default=300, help="seconds after which a query is given up")
    parser.add_argument("--large", type=float, default=0, help="a second scale factor, for the queries only")
    parser.add_argument("--large-runs", type=int, default=3, help="runs at that scale factor (default 3)")
    given = parser.parse_args()
    given.r = given.systems == ALL_SYSTEMS
    given.systems = list(dict.fromkeys(["hypostyle", ANSWERS, *given.systems.split(",")]))
    if 0 < given.large < SF10_FROM:
        parser.error(f"--large stands beside the paper's SF 10: {SF10_FROM} or more")
    if unknown := set(given.systems) - set(SERVERS):
        parser.error(f"{', '.join(sorted(unknown))} is none of {', '.join(SERVERS)}")
    return given


def measure(report: Report, given: Namespace, with_frames: bool) -> list[str]:
    """Measure all systems with the data of one scale; return whose answers were wrong."""
    prefix = "" if with_frames else f"SF {given.sf:g}: "
    with loaded(given, report) as parties:
        of_r_parties: list[Party] = []
        answers = query_all(report, parties, given.runs, given.patience)
        if given.r:
            with tempfile.TemporaryDirectory(dir=cache_directory(), prefix="one-thread-r-") as scratch:
                of_r_parties = query_in_r(report, Path(scratch), answers, given)
        if with_frames:
            write_and_read(report, parties, given.runs, given.patience)
        parties = [*parties, *of_r_parties]
        report.versions |= versions_of(parties)
        record(report, parties, given.sf, prefix)
    return [f"{prefix}{party.name}: {', '.join(sorted(party.wrong))}" for party in parties if party.wrong]


def with_room(systems: list[str], scale: float, free_gb: float) -> tuple[list[str], float]:
    """Return the systems whose databases fit on the disk at a scale, the paper's own one first, and what is
    left of the disk for a scale factor of 1; that is less than nothing if not even the tables fit.
    """
    left = free_gb / scale - SHARED_GB
    found = []
    for system in sorted(systems, key=lambda system: system != "MonetDBLite"):
        needed = DISK_GB.get(system, 0.0)
        if needed <= left:
            left -= needed
            found.append(system)
    return [system for system in systems if system in found], left


def measure_large(report: Report, given: Namespace) -> list[str]:
    """Run the queries with the data of the larger scale, which are removed then."""
    free_gb = shutil.disk_usage(cache_directory()).free / 1e9
    systems, left = with_room(given.systems, given.large, free_gb)
    scale = f"SF {given.large:g}"
    if not systems:
        report.note(
            f"NOT MEASURED: {scale}: {free_gb:.0f} GB are free, and it takes {SHARED_GB * given.large:g}"
        )
        return []
    for system in given.systems:
        if system not in systems:
            report.note(f"NOT MEASURED: {system} at {scale}: {free_gb:.0f} GB of disk are no room for it")
    large = {"sf": given.large, "runs": given.large_runs, "systems": systems, "r": given.r and left >= R_GB}
    try:
        return measure(report, Namespace(**{**vars(given), **large}), with_frames=False)
    finally:
        for kind in ("one-thread", "r"):
            shutil.rmtree(directory(given.large, kind), ignore_errors=True)


def main(given: Namespace) -> int:
    report = Report("one_thread", given, "TPC-H SF {sf:g} on one thread")
    wrong = measure(report, given, with_frames=True)
    report.write_if(given.r)
    if given.large:
        wrong += measure_large(report, given)
        report.write_if(given.r)
    if wrong:
        print(f"wrong answers: {'; '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(arguments()))
