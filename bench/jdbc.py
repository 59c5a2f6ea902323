"""Measures the JDBC driver beside DuckDB's and PostgreSQL's: all of lineitem read by getters, a connection,
small queries, prepared statements, and a batch of 20,000 rows.

bench/java/Measure.java does the work, each case and party in a JVM of its own, and the parties take turns.
What they have read is compared: the bench fails when one has read something else. Each case has its time:
no run of it begins later, and a run that takes longer by itself is ended and named. A peer that is missing
is left out and named, and its bars say NO PEER; scripts/setup_java.sh peers installs what they need, and
Maven fetches the drivers.
"""

from __future__ import annotations

import contextlib
import math
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dataset import Dataset, tpch
from measure import REPOSITORY, Bar, Measurement, Report, cache_directory, options
from protocol.processes import PeerError, free_port, program, run
from updates import USER, peer, psql

DRIVER = REPOSITORY / "bindings" / "java"
PROGRAM = REPOSITORY / "bench" / "java" / "Measure.java"
DUCKDB = "org.duckdb:duckdb_jdbc:2.0.0.1"
POSTGRESQL = "org.postgresql:postgresql:42.7.4"
HEAP = "-Xmx4g"
OURS = "hypostyle"
TABLE = """CREATE TABLE lineitem (l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INTEGER,
    l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2),
    l_returnflag VARCHAR, l_linestatus VARCHAR, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE,
    l_shipinstruct VARCHAR, l_shipmode VARCHAR, l_comment VARCHAR)"""


@dataclass(frozen=True)
class Case:
    """What is measured: its name, the program's word for it, its time at SF 1 in seconds, its bar."""

    what: str
    word: str
    seconds: float
    bar: Bar


def ahead(most: float) -> Bar:
    """Return the bar of at most so much of duckdb_jdbc's time (shared/bindings.md)."""
    return Bar(ratio_min=1 / most, peer="duckdb_jdbc")


CASES = [
    Case("connect", "connect", 30, ahead(0.5)),
    Case("query", "query", 30, ahead(1)),
    Case("prepared", "prepared", 30, ahead(1)),
    Case("batch of 20,000", "batch", 60, ahead(0.5)),
    Case("lineitem, 16 columns", "all", 105, ahead(0.15)),
    Case("lineitem, 4 of 16 columns", "some", 85, ahead(0.03)),
]


@dataclass
class Party:
    """A driver: its classes, its JVM's options, and the URLs of lineitem and of a scratch database."""

    name: str
    classes: str
    url: str
    scratch_url: str
    scratch: Path
    jvm: list[str] = field(default_factory=list)

    def measure(self, case: Case, classes: Path, limit: float) -> tuple[float, float]:
        """Return the seconds of a case and the sum over what it has read."""
        command = ["java", HEAP, *self.jvm, "-cp", f"{self.classes}:{classes}", "Measure", case.word]
        told = run([*command, self.url, self.scratch_url, self.scratch], timeout=limit)
        seconds, total = told.splitlines()[-1].split("\t")
        return float(seconds), float(total)


# Parties ---------------------------------------------------------------------------------------------


def built_library() -> Path:
    library = program("libhypostyle_c.so")
    if not library.exists():
        sys.exit("the library for C is not built; run: make build")
    return library


def jar(artifact: str) -> str:
    """Return the path of a driver, which Maven fetches once."""
    _, name, version = artifact.split(":")
    folder = cache_directory() / "jdbc"
    path = folder / f"{name}-{version}.jar"
    if not path.exists():
        command = [
            "mvn",
            "-q",
            "-B",
            "dependency:copy",
            f"-Dartifact={artifact}",
            f"-DoutputDirectory={folder}",
        ]
        run(command, timeout=120)
    return str(path)


def ours(dataset: Dataset, scratch: Path, library: Path) -> Party:
    run(["mvn", "-q", "-B", "-f", DRIVER / "pom.xml", "-pl", "driver", "process-classes"])
    return Party(
        OURS,
        str(DRIVER / "driver" / "target" / "classes"),
        f"jdbc:hypostyle:{dataset.hypostyle}?read_only=true",
        f"jdbc:hypostyle:{scratch / 'batch.hypo'}",
        scratch / "batch.hypo",
        [f"-Dhypostyle.library={library}"],
    )


@contextlib.contextmanager
def duckdb_jdbc(dataset: Dataset, scratch: Path) -> Iterator[Party]:
    place = scratch / "batch.duckdb"
    yield Party("duckdb_jdbc", jar(DUCKDB), f"jdbc:duckdb:{dataset.duckdb}", f"jdbc:duckdb:{place}", place)


@contextlib.contextmanager
def postgresql(dataset: Dataset, scratch: Path) -> Iterator[Party]:
    classes, port = jar(POSTGRESQL), free_port()
    with peer(scratch, port):
        address = ["-h", "127.0.0.1", "-p", str(port), "-U", USER, "postgres"]
        psql(address, TABLE)
        psql(address, f"\\copy lineitem FROM '{dataset.csv}' (FORMAT csv)")
        url = f"jdbc:postgresql://127.0.0.1:{port}/postgres?user={USER}"
        yield Party("PostgreSQL", classes, url, url, scratch / "nothing")


PEERS = (duckdb_jdbc, postgresql)


# Measuring -------------------------------------------------------------------------------------------


def take_turns(
    case: Case, parties: list[Party], classes: Path, given: Namespace, report: Report
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Return the samples of each party and what it has read."""
    seconds = case.seconds * max(given.sf, 1)
    samples: dict[str, list[float]] = {}
    sums: dict[str, float] = {}
    left = list(parties)
    end = time.monotonic() + seconds
    for number in range(given.runs):
        if number > 0 and time.monotonic() > end:
            report.note(f"{case.what}: {number} runs in place of {given.runs}, for its time is over")
            break
        for party in list(left):
            try:
                took, sums[party.name] = party.measure(case, classes, seconds)
            except PeerError as error:
                report.note(f"{case.what} by {party.name}: {error}")
                left.remove(party)
                samples.pop(party.name, None)
                sums.pop(party.name, None)
                continue
            samples.setdefault(party.name, []).append(took)
    return samples, sums


def measure_case(case: Case, parties: list[Party], classes: Path, given: Namespace, report: Report) -> bool:
    """Add the line of a case; return whether all parties have read the same."""
    samples, sums = take_turns(case, parties, classes, given, report)
    mine = samples.pop(OURS, None)
    if mine is None:
        return False
    # Sums of doubles differ by the order of the rows, which nobody has promised.
    others = {
        name: total for name, total in sums.items() if not math.isclose(total, sums[OURS], rel_tol=1e-9)
    }
    if others:
        report.note(f"{case.what}: {others} read, and {sums[OURS]} here")
    report.add(Measurement(case.what, mine, samples, case.bar, wrong=bool(others)))
    return not others


def main(given: Namespace) -> None:
    dataset = tpch(given.sf, given.fresh)
    report = Report("jdbc", given)
    with tempfile.TemporaryDirectory(dir=cache_directory()) as directory, contextlib.ExitStack() as stack:
        scratch = Path(directory)
        classes = scratch / "classes"
        run(["javac", "-d", classes, PROGRAM])
        parties = [ours(dataset, scratch, given.library or built_library())]
        for start in PEERS:
            try:
                parties.append(stack.enter_context(start(dataset, scratch)))
            except (PeerError, OSError) as error:
                report.note(f"{start.__name__} is left out: {error}")
        right = [measure_case(case, parties, classes, given, report) for case in CASES]
    report.write()
    if not all(right):
        sys.exit("a driver has failed, or the drivers have read different rows: see above")


if __name__ == "__main__":
    parser = options(__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--library", type=Path, help="another libhypostyle.so.1 than the built one")
    main(parser.parse_args())
