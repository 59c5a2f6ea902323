"""Repeats the MonetDBLite paper from R: lineitem written and read (Figures 5 and 6), the American Community
Survey loaded and its statistics by the package survey (Figures 7 and 8), Q1 to Q10 of TPC-H (Table 1).

The peers are RSQLite, RPostgreSQL with a PostgreSQL server, and R with its data in memory. Programs of
bench/r do the work, each case in a process of its own, and the systems take turns. All answers are compared
with those in memory: the bench fails when one is another.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
from pyarrow import csv

from dataset import TABLES, directory, queries, tpch
from measure import REPOSITORY, Bar, Measurement, Report, Times, cache_directory, made, options
from protocol.acs import acs
from protocol.processes import PeerError, end, run, running, unprivileged, wait_until
from updates import USER, postgresql, psql

PROGRAMS = REPOSITORY / "bench" / "r"
PACKAGE = REPOSITORY / "bindings" / "r"
PARTS = ("write", "read", "acs", "tpch")
NEEDED = ("DBI", "RSQLite", "bit64", "data.table", "dbplyr", "dplyr", "lubridate", "survey")
QUERIES = [f"q{number:02}" for number in range(1, 11)]
PORT = 5432  # names the socket in a directory of our own
# The paper's figures, by the names that a report of all papers gives them.
EXPERIMENTS = {
    "Figure 5": "ML-F5",
    "Figure 6": "ML-F6",
    "Figure 7": "ML-F7",
    "Figure 8": "ML-F8",
    "Table 1": "ML-T1",
}
# Loading what is measured, and comparing what came out, are not measured, but end some time.
UNMEASURED_SECONDS_MAX = 3600
EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Way:
    """A system, and how it is asked: one column of a figure."""

    name: str
    system: str
    how: dict[str, str] = field(default_factory=dict, hash=False)


OURS = Way("hypostyle", "hypostyle")
SQLITE = Way("RSQLite", "RSQLite")
POSTGRESQL = Way("RPostgreSQL", "RPostgreSQL")
MEMORY = Way("memory", "memory")


@dataclass
class Outcome:
    """What a program of R has told."""

    took: dict[str, tuple[float, float]] = field(default_factory=dict)
    named: list[str] = field(default_factory=list)
    faults: list[tuple[str, str, str]] = field(default_factory=list)
    begun: str = ""  # what is not finished; nothing while it loads
    why: str = ""  # it ended before its end


class R:
    """Runs programs of bench/r with a library of R packages that has ours, unless nobody wants it."""

    def __init__(self, scratch: Path, data: Path, options: Namespace, with_package: bool = True) -> None:
        self.patience = options.patience
        self.scratch = scratch
        self.arguments = {
            "data": data,
            "scratch": scratch,
            "answers": scratch / "answers",
            "threads": options.threads,
        }
        home = scratch / "home"
        library = scratch / "library"
        library.mkdir()
        (scratch / "answers").mkdir()
        places = [str(library), *filter(None, [os.environ.get("R_LIBS")])]
        self.environment = {
            **os.environ,
            "HYPOSTYLE_HOME": str(home),
            "R_LIBS": os.pathsep.join(places),
            "TZ": "UTC",
            "LC_ALL": "C.UTF-8",
        }
        if not with_package:
            return
        lay_out_library(home)
        package = scratch / "package"
        shutil.copytree(PACKAGE, package)
        run(["R", "CMD", "INSTALL", "--no-docs", f"--library={library}", package], env=self.environment)
        shutil.rmtree(package)

    def evaluate(self, code: str) -> str:
        return run(["Rscript", "--vanilla", "-e", code], env=self.environment)

    def run(self, program: str, **arguments: object) -> Outcome:
        """Run a program to its end, or until one measurement takes longer than the patience."""
        words = [f"{name}={value}" for name, value in {**self.arguments, **arguments}.items()]
        command = ["Rscript", "--vanilla", str(PROGRAMS / program), *words]
        outcome = Outcome()
        with tempfile.TemporaryFile("w+", dir=self.scratch) as errors:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=self.environment,
                start_new_session=True,
            )
            try:
                if not self._listen(process, outcome):
                    outcome.why = f"T, more than {self.patience:g} s"
                elif (code := process.wait()) != 0:
                    errors.seek(0)
                    outcome.why = f"E, R ended with {code}: {errors.read()[-500:].strip()}"
            finally:
                process.kill()  # before its pipe is closed, which waits for the reading thread
                end(process, signal.SIGKILL)
        return outcome

    def _listen(self, process: subprocess.Popen[str], outcome: Outcome) -> bool:
        """Take what a program tells; return whether it came to an end in time."""
        lines: queue.Queue[str] = queue.Queue()

        def read() -> None:
            with contextlib.suppress(ValueError):  # closed: the process was ended
                for line in process.stdout or ():
                    lines.put(line)
            lines.put("")

        threading.Thread(target=read, daemon=True).start()
        while True:
            try:
                line = lines.get(timeout=self.patience if outcome.begun else UNMEASURED_SECONDS_MAX)
            except queue.Empty:
                return False
            if line == "":
                return True
            is_begun = False
            match line.rstrip("\n").split("\t"):
                case ["begun", what]:
                    outcome.begun, is_begun = what, True
                case ["took", what, seconds, cpu]:
                    outcome.took[what] = float(seconds), float(cpu)
                case ["named", what]:
                    outcome.named.append(what)
                case ["differs" | "cannot" | "unchecked" as fault, what, text]:
                    outcome.faults.append((fault, what, text))
            if not is_begun:
                outcome.begun = ""


def lay_out_library(home: Path) -> None:
    """Lay out the built library for C as `make install` does."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or cache_directory() / "target")
    built = target / "release" / "libhypostyle_c.so"
    if not built.exists():
        sys.exit("the library for C is not built; run: make build")
    (home / "include").mkdir(parents=True)
    (home / "lib").mkdir()
    shutil.copy(REPOSITORY / "bindings" / "c" / "include" / "hypostyle.h", home / "include")
    (home / "lib" / "libhypostyle.so.1").symlink_to(built)
    (home / "lib" / "libhypostyle.so").symlink_to("libhypostyle.so.1")


# Data ---------------------------------------------------------------------------------------------


def data_frames(options: Namespace, survey: float | None = None) -> Path:
    """Return the directory with each table as a data frame, as R keeps it; the survey may have a scale of its
    own.
    """
    survey = survey or options.sf
    place = directory(options.sf, "r" if survey == options.sf else f"r-acs{survey:g}")
    if options.fresh:
        shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    made(place, lambda path: _make_frames(path, options, survey))
    return place


def _make_frames(place: Path, options: Namespace, survey: float) -> None:
    dataset = tpch(options.sf, options.fresh, with_csv=False)
    print("making data frames of R …", flush=True)
    place.mkdir()
    with duckdb.connect(dataset.duckdb, read_only=True) as source:
        for table in TABLES:
            _write_csv(place, table, source.table(table).to_arrow_table())
    _write_csv(place, "acs", acs(survey))
    names = [*TABLES, "acs"]
    environment = {**os.environ, "TABLES": ",".join(names), "DATA": str(place), "TZ": "UTC"}
    run(["Rscript", "--vanilla", PROGRAMS / "prepare.R"], env=environment)
    for name in names:
        (place / f"{name}.csv").unlink()


def _write_csv(place: Path, name: str, table: pa.Table) -> None:
    csv.write_csv(table, place / f"{name}.csv")
    (place / f"{name}.types").write_text("".join(f"{_type_of(column.type)}\n" for column in table.schema))


def _type_of(column: pa.DataType) -> str:
    """Return the class in R: whole numbers of both widths fit in R's integers."""
    if pa.types.is_integer(column):
        return "integer"
    if pa.types.is_date(column):
        return "Date"
    return "numeric" if pa.types.is_decimal(column) or pa.types.is_floating(column) else "character"


def write_queries(place: Path, dialect: str) -> Path:
    """Write Q1 to Q10 as a system wants them."""
    place.mkdir()
    for name, sql in queries().items():
        if name in QUERIES:
            (place / f"{name}.sql").write_text(for_sqlite(sql) if dialect == "RSQLite" else sql)
    return place


def for_sqlite(sql: str) -> str:
    """Return a query with the dates that RSQLite stores, which are numbers of days."""

    def days(found: re.Match[str]) -> str:
        day = date.fromisoformat(found[1])
        if found[2]:
            number = int(found[3]) * (1 if found[2] == "+" else -1)
            if found[4] == "day":
                day += timedelta(days=number)
            else:
                month = day.month - 1 + number * (12 if found[4] == "year" else 1)
                day = day.replace(year=day.year + month // 12, month=month % 12 + 1)
        return str((day - EPOCH).days)

    sql = re.sub(r"date '([0-9-]+)'(?: ([+-]) interval '([0-9]+)' (day|month|year))?", days, sql)
    year = r"CAST(strftime('%Y', \1 * 86400, 'unixepoch') AS INTEGER)"
    return re.sub(r"extract\(year from (\w+)\)", year, sql)


# Systems ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def postgresql_server(scratch: Path, threads: int) -> Iterator[dict[str, object]]:
    """Start a server on a Unix socket; yield the arguments with which a program of R finds it."""
    cluster, log = scratch / "cluster", scratch / "postgresql.log"
    made_with = ["--auth=trust", f"--username={USER}", "--encoding=UTF8", "--locale=C.UTF-8"]
    run([*unprivileged(), postgresql("initdb"), "-D", cluster, *made_with])
    settings = {
        "listen_addresses": "",
        "shared_buffers": "2GB",
        "work_mem": "256MB",
        "max_wal_size": "4GB",
        "max_parallel_workers_per_gather": threads - 1,
        "client_connection_check_interval": "1s",
    }
    command = [*unprivileged(), postgresql("postgres"), "-D", cluster, "-k", scratch, "-p", str(PORT)]
    command += [f"--{name}={value}" for name, value in settings.items()]
    with log.open("w") as output, running(command, signal.SIGINT, stdout=output, stderr=output) as server:
        ready = [postgresql("pg_isready"), "-q", "-h", str(scratch), "-p", str(PORT)]
        wait_until(lambda: subprocess.run(ready, check=False).returncode == 0, server, log)
        yield {"host": scratch, "port": PORT, "server": server.pid}


class Systems:
    """The databases that are here, each with the arguments that its programs get."""

    def __init__(self, r: R, scratch: Path) -> None:
        self.r = r
        self.scratch = scratch
        self.of: dict[str, dict[str, object]] = {"hypostyle": {}, "RSQLite": {}, "memory": {}}
        self.failed: list[str] = []  # the bench ends with an error if there is anything

    def has(self, way: Way) -> bool:
        return way.system in self.of

    def empty(self, system: str, database: str) -> None:
        """Make a database anew."""
        for place in (self.scratch / f"{database}.hypo", self.scratch / f"{database}.sqlite"):
            if system == {".hypo": "hypostyle", ".sqlite": "RSQLite"}[place.suffix]:
                shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
        if system == "RPostgreSQL":
            address = ["-h", str(self.scratch), "-p", str(PORT), "-U", USER, "postgres"]
            psql(address, f"DROP DATABASE IF EXISTS {database}")
            psql(address, f"CREATE DATABASE {database}")
            psql(address, "CHECKPOINT")
        os.sync()


# Measuring ---------------------------------------------------------------------------------------------


FAULTS = {"differs": "differs from memory", "cannot": "fails", "unchecked": "is not compared"}


class Series:
    """The samples of each way, by what was measured; what failed is told in the report."""

    def __init__(self, report: Report, systems: Systems, ways: Sequence[Way]) -> None:
        self.report = report
        self.systems = systems
        self.ways = [way for way in ways if systems.has(way)]
        self.times: dict[str, dict[str, Times]] = {way.name: {} for way in self.ways}
        self.out: dict[str, set[str]] = {way.name: set() for way in self.ways}
        self.wrong: set[str] = set()
        self.stopped: set[Way] = set()  # whose program did not end

    def take(
        self, way: Way, program: str, names: Sequence[str] = (), counted: bool = True, **arguments: object
    ) -> None:
        """Run a program for one way; after a name that did not end, go on with those that follow."""
        left = [name for name in names if name not in self.out[way.name]]
        known = {"system": way.system, **self.systems.of[way.system], **way.how, **arguments}
        while way not in self.stopped and (left or not names):
            only = {"only": ",".join(left)} if names else {}
            outcome = self.systems.r.run(program, **known, **only)
            for what, (wall, cpu) in outcome.took.items():
                if counted:
                    times = self.times[way.name].setdefault(what, Times())
                    times.wall.append(wall)
                    times.cpu.append(cpu)
            for fault, what, text in outcome.faults:
                self._fault(way, fault, what, text)
            if not outcome.why:
                return
            self._unfinished(way, outcome)
            if outcome.begun not in left:
                self.stopped.add(way)
            else:
                left = left[left.index(outcome.begun) + 1 :]

    def _fault(self, way: Way, fault: str, what: str, text: str) -> None:
        is_ours = way.system == OURS.system
        told = f"{what} by {way.name} {FAULTS[fault]}"
        self.report.note(f"{told}: {text}")
        if fault == "unchecked":
            return
        # What a peer cannot do, the line leaves out. No answer may be another than in memory.
        if is_ours or fault == "differs":
            self.systems.failed.append(told)
        if is_ours:
            self.wrong.add(what)
        if fault == "cannot" or not is_ours:
            self.out[way.name].add(what)

    def _unfinished(self, way: Way, outcome: Outcome) -> None:
        what = outcome.begun or "loading"
        self.report.note(f"{what} by {way.name}: {outcome.why}")
        mark = {"what": what, "system": way.name, "mark": outcome.why[0]}
        self.report.details["unfinished"].append(mark)
        self.out[way.name].add(what)
        if way.system == OURS.system:
            self.systems.failed.append(f"{what} by {way.name} did not end")

    def samples(self, way: str, whats: Sequence[str], cpu: bool) -> list[float] | None:
        """Return the sum of several measurements of a way, run by run; none if one is missing."""
        found = [self.times[way].get(what) for what in whats if what not in self.out[way]]
        if len(found) < len(whats) or any(times is None for times in found):
            return None
        lists = [times.cpu if cpu else times.wall for times in found if times is not None]
        return [sum(runs) for runs in zip(*lists, strict=True)] or None

    def line(
        self, figure: str, what: str, parts: Sequence[str], bar: Bar | None = None, only: str | None = None
    ) -> None:
        """Add a line, and one of the time of all processors; `only` a way has them."""
        for cpu in (False, True):
            of = {way.name: self.samples(way.name, parts, cpu) for way in self.ways}
            ours = of.pop(only or self.ways[0].name)
            if ours is None:
                continue
            peers = {name: samples for name, samples in of.items() if samples is not None}
            is_wrong = bool(self.wrong & set(parts))
            name = f"{figure}: {what}{', CPU' if cpu else ''}"
            self.report.add(Measurement(name, ours, peers, None if cpu else bar, wrong=is_wrong))
            self.report.details["experiments"].setdefault(EXPERIMENTS[figure], []).append(name)


def write_lineitem(report: Report, systems: Systems, runs: int) -> None:
    series = Series(report, systems, [OURS, SQLITE, POSTGRESQL])
    for _ in range(runs):
        for way in series.ways:
            systems.empty(way.system, "lineitem")
            series.take(way, "lineitem.R", case="write")
    series.line("Figure 5", "lineitem → dbWriteTable()", ["write"])


def read_lineitem(report: Report, systems: Systems, runs: int) -> None:
    series = Series(report, systems, [OURS, SQLITE, POSTGRESQL, MEMORY])
    for number in range(runs + 1):
        for way in series.ways:
            check = "yes" if number == 0 else "no"
            series.take(way, "lineitem.R", counted=number > 0, case="read", check=check)
    series.line("Figure 6", "dbReadTable() → lineitem", ["read"])
    series.line("Figure 6", "dbReadTable(), touched", ["read", "touch"])
    series.line("Figure 6", "touched for the first time", ["touch"])
    series.line("Figure 6", "touched again", ["touch again"])


def survey(report: Report, systems: Systems, runs: int) -> None:
    loaded = Series(report, systems, [OURS, SQLITE, POSTGRESQL, MEMORY])
    for _ in range(runs):
        for way in loaded.ways:
            systems.empty(way.system, "acs")
            loaded.take(way, "acs.R", case="load")
    loaded.line("Figure 7", "ACS → dbWriteTable()", ["dbWriteTable()"])
    loaded.line("Figure 7", "design of 80 replicate weights", ["design"])
    loaded.line("Figure 7", "in all", ["dbWriteTable()", "design"])

    names = systems.r.run("acs.R", case="list", system="memory").named
    series = Series(report, systems, [OURS, SQLITE, POSTGRESQL, MEMORY])
    for number in range(runs):
        # The answers in memory are there before the others are compared with them.
        for way in [MEMORY, *(way for way in series.ways if way is not MEMORY)]:
            check = ("keep" if way is MEMORY else "yes") if number == 0 else "no"
            series.take(way, "acs.R", names, case="statistics", check=check)
    for name in names:
        series.line("Figure 8", name, [name])
    series.line("Figure 8", "all statistics", names)


def queries_of_tpch(report: Report, systems: Systems, runs: int) -> None:
    for system in ("hypostyle", "RSQLite", "RPostgreSQL"):
        if system in systems.of:
            systems.empty(system, "tpch")
            loaded = systems.r.run("tpch.R", system=system, **systems.of[system], case="load")
            if loaded.why:
                raise PeerError(f"TPC-H cannot be loaded into {system}: {loaded.why}")
    by_sql = {way: write_queries(systems.scratch / f"sql-{way}", way) for way in ("hypostyle", "RSQLite")}
    ways = [
        Way("hypostyle", "hypostyle", {"way": "sql", "queries": str(by_sql["hypostyle"])}),
        Way("RSQLite", "RSQLite", {"way": "sql", "queries": str(by_sql["RSQLite"])}),
        Way("RPostgreSQL", "RPostgreSQL", {"way": "sql", "queries": str(by_sql["hypostyle"])}),
        Way("data.table", "memory", {"way": "data.table"}),
        Way("dplyr", "memory", {"way": "dplyr"}),
        Way("dplyr on hypostyle", "hypostyle", {"way": "dplyr"}),
    ]
    series = Series(report, systems, ways)
    answers = next(way for way in ways if way.name == "data.table")
    for number in range(runs + 1):
        for way in [answers, *(way for way in series.ways if way is not answers)]:
            check = ("keep" if way is answers else "yes") if number == 0 else "no"
            series.take(way, "tpch.R", QUERIES, counted=number > 0, case="query", check=check)
    for name in QUERIES:
        series.line("Table 1", name.upper().replace("Q0", "Q"), [name])
    series.line("Table 1", "Q1 to Q10", QUERIES)


MEASURES = {"write": write_lineitem, "read": read_lineitem, "acs": survey, "tpch": queries_of_tpch}


def missing(packages: Sequence[str]) -> list[str]:
    listed = ", ".join(f'"{package}"' for package in packages)
    code = f"for (p in c({listed})) if (!nzchar(system.file(package = p))) cat(p, '')"
    return run(["Rscript", "--vanilla", "-e", code]).split()


def add_versions(report: Report, r: R, packages: Sequence[str]) -> None:
    listed = ", ".join(f'"{package}"' for package in packages)
    code = (
        "cat('R', as.character(getRversion()), '\\n');"
        f"for (p in c({listed})) cat('R', p, as.character(packageVersion(p)), '\\n', sep = ' ');"
        "cat('SQLite', RSQLite::rsqliteVersion()[[2L]], '\\n')"
    )
    for line in r.evaluate(code).splitlines():
        *name, version = line.split()
        report.versions[" ".join(name)] = version
    if "RPostgreSQL" in packages:
        report.versions["PostgreSQL"] = run([postgresql("postgres"), "--version"]).split()[2]


def main(options: Namespace) -> None:
    if shutil.which("Rscript") is None:
        sys.exit("R is not installed; run scripts/setup_r.sh")
    if lacking := missing(NEEDED):
        sys.exit(f"packages of R are missing: {', '.join(lacking)}; run scripts/setup_r.sh")
    parts = options.only.split(",") if options.only else list(PARTS)
    data = data_frames(options, options.survey)
    report = Report("r", options, "from R, TPC-H SF {sf:g}, {threads} thread(s)")
    report.details |= {
        "threads": options.threads,
        "survey": options.survey or options.sf,
        "patience": options.patience,
        "experiments": {},
        "unfinished": [],
    }
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=cache_directory())))
        r = R(scratch, data, options)
        systems = Systems(r, scratch)
        packages = list(NEEDED)
        try:
            if missing(["RPostgreSQL"]):
                raise PeerError("the package RPostgreSQL is not installed (in Debian r-cran-rpostgresql)")
            systems.of["RPostgreSQL"] = stack.enter_context(postgresql_server(scratch, options.threads))
            packages.append("RPostgreSQL")
        except PeerError as error:
            report.note(f"PostgreSQL is left out: {error}")
        add_versions(report, r, packages)
        for part in PARTS:
            if part in parts or (part == "write" and "read" in parts):
                MEASURES[part](report, systems, options.runs)
    report.write_if(set(parts) == set(PARTS))
    if systems.failed:
        sys.exit(f"{len(systems.failed)} answers are not those in memory: {'; '.join(systems.failed)}")


def parsed() -> Namespace:
    parser = options(__doc__)
    parser.add_argument("--only", help=f"some of the parts: {','.join(PARTS)}; nothing is written then")
    parser.add_argument(
        "--survey", type=float, help="scale of the survey, 100,000 persons at 1 (default that of TPC-H)"
    )
    parser.add_argument(
        "--threads", type=int, default=1, help="threads of each system (default 1, as in the paper)"
    )
    parser.add_argument(
        "--patience", type=float, default=300, help="seconds after which a measurement is given up"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main(parsed())
