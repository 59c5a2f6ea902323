"""Measures the JDBC driver beside DuckDB's and PostgreSQL's: all of lineitem read by getters, a connection,
small queries, prepared statements, and a batch of 20,000 rows.

bench/java/Measure.java does the work, each party in a JVM of its own, and the parties take turns. What they
have read is compared: the bench fails when one has read something else.
"""

from __future__ import annotations

import os
import sys
import tempfile
from argparse import Namespace
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from dataset import Dataset, tpch
from measure import REPOSITORY, Bar, Measurement, Report, cache_directory, options
from protocol.processes import free_port, run
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
BARS = {
    "lineitem, 16 columns": Bar(ratio_min=1 / 0.15, peer="duckdb_jdbc"),
    "lineitem, 4 of 16 columns": Bar(ratio_min=1 / 0.03, peer="duckdb_jdbc"),
    "connect": Bar(ratio_min=2, peer="duckdb_jdbc"),
    "query": Bar(ratio_min=1, peer="duckdb_jdbc"),
    "prepared": Bar(ratio_min=1, peer="duckdb_jdbc"),
    "batch of 20,000": Bar(ratio_min=2, peer="duckdb_jdbc"),
}


@dataclass
class Party:
    """A driver: its classes, its JVM's options, and the URLs of lineitem and of a scratch database."""

    name: str
    classes: str
    url: str
    scratch_url: str
    scratch: Path
    jvm: list[str] = field(default_factory=list)

    def measure(self) -> dict[str, tuple[float, float]]:
        """Return the seconds of each case and the sum over what it has read."""
        command = ["java", HEAP, *self.jvm, "-cp", self.classes, str(PROGRAM)]
        lines = run([*command, self.url, self.scratch_url, str(self.scratch)]).splitlines()
        parts = [line.split("\t") for line in lines if line.count("\t") == 2]
        return {what: (float(seconds), float(total)) for what, seconds, total in parts}


def built_library() -> Path:
    target = Path(os.environ.get("CARGO_TARGET_DIR") or cache_directory() / "target")
    library = target / "release" / "libhypostyle_c.so"
    if not library.exists():
        sys.exit("the library for C is not built; run: make build")
    return library


def jar(artifact: str) -> str:
    """Return the path of a driver, which Maven fetches once."""
    _, name, version = artifact.split(":")
    folder = cache_directory() / "jdbc"
    path = folder / f"{name}-{version}.jar"
    if not path.exists():
        run(["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"])
    return str(path)


def parties(dataset: Dataset, scratch: Path, port: int, library: Path) -> list[Party]:
    run(["mvn", "-q", "-B", "-f", DRIVER / "pom.xml", "-pl", "driver", "process-classes"])
    address = f"jdbc:postgresql://127.0.0.1:{port}/postgres?user={USER}"
    ours = [f"-Dhypostyle.library={library}"]
    return [
        Party(
            OURS,
            str(DRIVER / "driver" / "target" / "classes"),
            f"jdbc:hypostyle:{dataset.hypostyle}?read_only=true",
            f"jdbc:hypostyle:{scratch / 'batch.hypo'}",
            scratch / "batch.hypo",
            ours,
        ),
        Party(
            "duckdb_jdbc",
            jar(DUCKDB),
            f"jdbc:duckdb:{dataset.duckdb}",
            f"jdbc:duckdb:{scratch / 'batch.duckdb'}",
            scratch / "batch.duckdb",
        ),
        Party("PostgreSQL", jar(POSTGRESQL), address, address, scratch / "nothing"),
    ]


def load_postgresql(dataset: Dataset, port: int) -> None:
    address = ["-h", "127.0.0.1", "-p", str(port), "-U", USER, "postgres"]
    psql(address, TABLE)
    psql(address, f"\\copy lineitem FROM '{dataset.csv}' (FORMAT csv)")


def main(given: Namespace) -> None:
    dataset = tpch(given.sf, given.fresh)
    report = Report("jdbc", given)
    samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    wrong: set[str] = set()
    with tempfile.TemporaryDirectory(dir=cache_directory()) as directory:
        scratch, port = Path(directory), free_port()
        with peer(scratch, port):
            load_postgresql(dataset, port)
            for _ in range(given.runs):
                sums: dict[str, set[float]] = defaultdict(set)
                for party in parties(dataset, scratch, port, given.library or built_library()):
                    for what, (seconds, total) in party.measure().items():
                        samples[what][party.name].append(seconds)
                        sums[what].add(total)
                wrong |= {what for what, totals in sums.items() if len(totals) > 1}
    for what, times in samples.items():
        ours = times.pop(OURS)
        report.add(Measurement(what, ours, dict(times), BARS.get(what), wrong=what in wrong))
    report.write()
    if wrong:
        sys.exit(f"the drivers have read different rows: {', '.join(sorted(wrong))}")


if __name__ == "__main__":
    parser = options(__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--library", type=Path, help="another libhypostyle.so.1 than the built one")
    main(parser.parse_args())
