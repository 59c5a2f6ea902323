"""Measures a cluster by the Star Schema Benchmark, as PosDB was measured: by scale factor on one node,
more workers for the same data (speedup), and more data for more workers (scaleup).

Workers have a part of a core each (`nodes.py`), so that eight of them and a coordinator without rows
fit on two cores. Beside each total stands the ceiling: the time of one worker alone, without a
cluster, over its share of the rows. A total is of the 13 queries, run by run.
"""

from __future__ import annotations

import os
import tempfile
from argparse import ArgumentTypeError, Namespace
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import hypostyle

from answers import difference
from chart import Chart
from dataset import Pair, ssb, ssb_queries
from measure import RESULTS, Bar, Measurement, Report, options, timed
from nodes import Cluster, Cores, Lab, laboratory
from protocol.processes import program

SCALEUP_BAND = (0.5, 0.75)  # of PosDB (Chernishev et al., 2018)
CEILING_SHARE = 0.92  # of the ceiling's speed that a cluster has at least
ONE_NODE_SHARE = 1 / 1.1  # the same of one worker, beside the database alone
SPEEDUP, SCALEUP = 6.5, 0.9  # that most workers should reach
SMALL_QUERIES = {
    "rows of a dimension": "SELECT count(*) FROM customer WHERE c_region = 'ASIA'",
    "one order": "SELECT count(*), sum(lo_revenue) FROM lineorder WHERE lo_orderkey = 7",
}
WARM_ROUNDS = 8  # large tables are indexed after more queries than small ones
SMALL_QUERY_RUNS, SMALL_QUERY_SECONDS = 200, 0.015
APPEND_SHARE = 0.8  # of one worker's speed that each of several has at least
APPEND_ROWS_MAX = 1_000_000
APPEND_WORKERS = (1, 4)
INSERT_WORKERS, INSERT_ROWS = 2, 500  # of each writer
INSERT_RATES = {1: 300, 8: 1000}  # rows a second that writers have at least, each with a table of its own
INSERT_BYTES = 20_000  # that a row takes at most on all links
ALONE = "alone"  # without a cluster
FEWEST = "fewest"  # workers


@dataclass(frozen=True)
class Run:
    """The queries on one cluster: samples in seconds by query, and bytes by query and worker."""

    seconds: dict[str, list[float]]
    sent: dict[str, list[int]]

    def totals(self) -> list[float]:
        return [sum(runs) for runs in zip(*self.seconds.values(), strict=True)]

    def bytes(self) -> int:
        return sum(sum(workers) for workers in self.sent.values())

    def record(self) -> dict[str, Any]:
        return {
            name: {"median": median(samples), "samples": samples, "bytes": self.sent[name]}
            for name, samples in self.seconds.items()
        }


@dataclass
class Bench:
    """What all experiments share. Runs and ceilings are kept by their workers and scale factor."""

    options: Namespace
    lab: Lab
    report: Report
    runs: dict[tuple[int, float], Run]
    ceilings: dict[int, list[float]]
    pair: Pair
    answers: dict[float, dict[str, list[Any]]]
    wrong: set[tuple[int, float]]

    @property
    def cores(self) -> Cores:
        return Cores(self.options.cores, self.options.coordinator_cores)

    def cluster(self, workers: int) -> AbstractContextManager[Cluster]:
        return self.lab.cluster(workers, self.cores)

    def run(self, workers: int, scale_factor: float) -> Run:
        """Return the queries on a cluster, which is made for them."""
        found = self.runs.get((workers, scale_factor))
        if found is None:
            with self.cluster(workers) as cluster:
                generate(cluster, scale_factor)
                found = self.runs[workers, scale_factor] = self.measure(cluster, scale_factor)
                if workers == max(self.options.workers) and scale_factor == self.options.sf:
                    small_queries(self, cluster)
        return found

    def measure(self, cluster: Cluster, scale_factor: float) -> Run:
        run = Run({}, {})
        with cluster.coordinator.connect() as connection:
            warm(connection, *ssb_queries().values())
            cluster.limit()
            for name, sql in ssb_queries().items():
                rows = connection.sql(sql).fetchall()
                self.compare(name, scale_factor, rows, len(cluster.workers))
                before = cluster.sent()
                run.seconds[name] = [timed(fetch, connection, sql)[0] for _ in range(self.options.runs)]
                sent = zip(cluster.sent(), before, strict=True)
                run.sent[name] = [(after - start) // self.options.runs for after, start in sent]
        cluster.free()
        return run

    def compare(self, name: str, scale_factor: float, rows: list[Any], workers: int) -> None:
        """Compare an answer with that of the first cluster which had the same data."""
        known = self.answers.setdefault(scale_factor, {})
        found = difference(sorted(rows), known.setdefault(name, sorted(rows)))
        if found:
            self.wrong.add((workers, scale_factor))
            self.report.note(f"WRONG: {name} at SF {scale_factor:g} on {workers} workers: {found}")


def fetch(connection: Any, sql: str) -> list[Any]:
    return connection.sql(sql).fetchall()


def warm(connection: Any, *queries: str) -> None:
    """Run queries until they have read everything, and have the indexes that they wished for."""
    for _ in range(WARM_ROUNDS):
        for sql in queries:
            fetch(connection, sql)


def generate(cluster: Cluster, scale_factor: float) -> None:
    with cluster.coordinator.connect() as connection:
        connection.sql(f"CALL ssb_generate(sf => {scale_factor:g})")


def one_node(bench: Bench) -> None:
    """Measure one worker by scale factor."""
    for scale_factor in bench.options.one_node_sf:
        totals = bench.run(1, scale_factor).totals()
        bench.report.add(Measurement(f"one worker, SF {scale_factor:g}", totals))


def ceilings(bench: Bench) -> None:
    """Measure one worker without a cluster, over the share of rows that it has of several."""
    report, lab = bench.report, bench.lab
    with (
        tempfile.TemporaryDirectory(dir=lab.directory) as directory,
        lab.node(Path(directory), "alone") as node,
        node.connect() as connection,
    ):
        connection.sql(f"CALL ssb_generate(sf => {bench.options.sf:g})")
        connection.sql("ALTER TABLE lineorder RENAME TO whole")
        for workers in bench.options.workers:
            connection.sql("DROP TABLE IF EXISTS lineorder")
            # Eight keys follow each other, and then none of the next 24.
            share = f"lo_orderkey // 32 % {workers} = 0"
            connection.sql(f"CREATE TABLE lineorder AS SELECT * FROM whole WHERE {share}")
            warm(connection, *ssb_queries().values())
            node.limit(bench.options.cores)
            seconds = []
            for sql in ssb_queries().values():
                fetch(connection, sql)
                seconds.append([timed(fetch, connection, sql)[0] for _ in range(bench.options.runs)])
            node.limit(None)
            bench.ceilings[workers] = [sum(runs) for runs in zip(*seconds, strict=True)]
            report.add(Measurement(f"alone, 1/{workers} of the rows", bench.ceilings[workers]))


def speedup(bench: Bench) -> None:
    """Measure more workers for the same data."""
    one = bench.run(bench.options.workers[0], bench.options.sf).totals()
    for workers in bench.options.workers:
        run = bench.run(workers, bench.options.sf)
        share = ONE_NODE_SHARE if workers == 1 else CEILING_SHARE
        peers = {FEWEST: one, ALONE: bench.ceilings[workers]}
        bar = Bar(ratio_min=share, peer=ALONE)
        wrong = (workers, bench.options.sf) in bench.wrong
        bench.report.add(Measurement(f"speedup, {workers} workers", run.totals(), peers, bar, wrong=wrong))
    last = bench.options.workers[-1]
    most = bench.run(last, bench.options.sf).totals()
    bar = Bar(ratio_min=SPEEDUP * bench.options.workers[0], peer=FEWEST)
    bench.report.add(Measurement(f"speedup in all, {last} workers", most, {FEWEST: one}, bar))
    for workers in bench.options.workers:
        sent = float(bench.run(workers, bench.options.sf).bytes())
        bench.report.add(Measurement(f"bytes of {workers} workers, all queries", [sent], unit="bytes"))


def scaleup(bench: Bench) -> None:
    """Measure more data for more workers."""
    for workers in bench.options.workers:
        scale_factor = bench.options.scaleup_sf * workers
        totals = bench.run(workers, scale_factor).totals()
        one = bench.run(bench.options.workers[0], bench.options.scaleup_sf * bench.options.workers[0])
        bar = Bar(ratio_min=SCALEUP, peer=FEWEST)
        what = f"scaleup, {workers} workers, SF {scale_factor:g}"
        wrong = (workers, scale_factor) in bench.wrong
        bench.report.add(Measurement(what, totals, {FEWEST: one.totals()}, bar, wrong=wrong))


def small_queries(bench: Bench, cluster: Cluster) -> None:
    """Measure queries of few rows on all workers, which have all cores."""
    for name, sql in SMALL_QUERIES.items():
        with cluster.coordinator.connect() as connection:
            warm(connection, sql)
            seconds = [timed(fetch, connection, sql)[0] for _ in range(SMALL_QUERY_RUNS)]
        what = f"{name}, {len(cluster.workers)} workers, all cores"
        bench.report.add(Measurement(what, seconds, bar=Bar(at_most=SMALL_QUERY_SECONDS)))


def append(bench: Bench) -> None:
    """Measure an append of lineorder. The coordinator has all cores that the workers leave."""
    with hypostyle.connect(bench.pair.hypostyle, read_only=True) as source:
        rows = source.sql(f"SELECT * FROM lineorder LIMIT {APPEND_ROWS_MAX}").arrow()
    samples: dict[int, list[float]] = {}
    for workers in APPEND_WORKERS:
        with bench.cluster(workers) as cluster, cluster.coordinator.connect() as connection:
            # An empty table of the right columns.
            connection.sql("CALL ssb_generate(sf => 0.001)")
            fragments = f"PARTITION BY HASH (lo_orderkey) INTO {4 * workers} FRAGMENTS"
            for worker in cluster.workers:
                worker.limit(bench.options.cores)
            for number in range(bench.options.runs):
                table = f"appended{number}"
                connection.sql(f"CREATE TABLE {table} {fragments} AS SELECT * FROM lineorder LIMIT 0")
                samples.setdefault(workers, []).append(timed(connection.append, table, rows)[0])
            cluster.free()
    few, many = (samples[workers] for workers in APPEND_WORKERS)
    what = f"append of {rows.num_rows:,} rows, {APPEND_WORKERS[1]} workers"
    bar = Bar(ratio_min=APPEND_SHARE * APPEND_WORKERS[1] / APPEND_WORKERS[0], peer="few workers")
    bench.report.add(Measurement(what, many, {"few workers": few}, bar))


def inserts(bench: Bench) -> None:
    """Measure statements of one row on nodes with all cores, each of whose replicas is on two workers."""
    with bench.cluster(INSERT_WORKERS) as cluster, ExitStack() as stack:
        writers = [
            (stack.enter_context(cluster.coordinator.connect()), f"inserted{number}")
            for number in range(max(INSERT_RATES))
        ]
        columns = "(k BIGINT, v VARCHAR) PARTITION BY HASH (k) INTO 4 FRAGMENTS REPLICAS 2"
        for connection, table in writers:
            connection.sql(f"CREATE TABLE {table} {columns}")
        runs = bench.options.runs
        for count, rate in INSERT_RATES.items():
            expected = [fetch(*counted(writer))[0][0] + runs * INSERT_ROWS for writer in writers[:count]]
            before = sum(cluster.all_sent())
            with ThreadPoolExecutor(count) as pool:
                seconds = [timed(insert, pool, writers[:count])[0] for _ in range(runs)]
            rows = count * INSERT_ROWS
            bytes_of_row = (sum(cluster.all_sent()) - before) / (runs * rows)
            found = [fetch(*counted(writer))[0][0] for writer in writers[:count]]
            what = f"INSERT of one row, {count} writers, a row"
            bar = Bar(at_most=1 / rate)
            line = Measurement(what, [time / rows for time in seconds], bar=bar, wrong=found != expected)
            bench.report.add(line)
            if bytes_of_row:
                bar = Bar(at_most=INSERT_BYTES)
                line = Measurement(f"{what}, all links", [bytes_of_row], bar=bar, unit="bytes")
                bench.report.add(line)


def counted(writer: tuple[Any, str]) -> tuple[Any, str]:
    connection, table = writer
    return connection, f"SELECT count(*) FROM {table}"


def insert(pool: ThreadPoolExecutor, writers: list[tuple[Any, str]]) -> None:
    def write(writer: tuple[Any, str]) -> None:
        connection, table = writer
        for key in range(INSERT_ROWS):
            connection.sql(f"INSERT INTO {table} VALUES ({key}, 'value {key}')")

    list(pool.map(write, writers))


def peers(bench: Bench) -> None:
    """Measure the queries on one node with all cores: here, and on DuckDB."""
    pair, sf = bench.pair, bench.options.sf
    threads = os.cpu_count() or 1
    with (
        hypostyle.connect(pair.hypostyle, read_only=True, threads=threads) as ours,
        duckdb.connect(pair.duckdb, read_only=True, config={"threads": threads}) as peer,
    ):
        seconds: tuple[list[list[float]], ...] = ([], [])
        for name, sql in ssb_queries().items():
            warm(ours, sql)
            bench.compare(name, sf, peer.sql(sql).fetchall(), 0)
            for samples, connection in zip(seconds, (ours, peer), strict=True):
                samples.append([timed(fetch, connection, sql)[0] for _ in range(bench.options.runs)])
        one, other = ([sum(runs) for runs in zip(*samples, strict=True)] for samples in seconds)
    what = f"one node, embedded, {threads} threads, all cores"
    bench.report.add(Measurement(what, one, {"DuckDB": other}, wrong=(0, sf) in bench.wrong))


def draw(bench: Bench) -> None:
    """Draw the three experiments beside the results."""
    workers, sf, step = bench.options.workers, bench.options.sf, bench.options.scaleup_sf

    def time(count: int, scale_factor: float) -> float:
        return median(bench.runs[count, scale_factor].totals())

    by_size = [(size, time(1, size)) for size in bench.options.one_node_sf]
    chart = Chart("SSB on one worker", "scale factor", "seconds, 13 queries", {"Hypostyle": by_size})
    chart.write(RESULTS / "cluster_one_node.svg")

    first, last = workers[0], workers[-1]
    linear = [(count, count / first) for count in (first, last)]
    lines = {
        "linear": linear,
        "Hypostyle": [(count, time(first, sf) / time(count, sf)) for count in workers],
        "ceiling: workers alone": [
            (count, median(bench.ceilings[first]) / median(bench.ceilings[count])) for count in workers
        ],
    }
    below = [(count, 0.0) for count, _ in linear]
    chart = Chart(
        f"SSB speedup, SF {sf:g}", "workers", "speedup", lines, {"PosDB: below linear": (below, linear)}
    )
    chart.write(RESULTS / "cluster_speedup.svg")

    scaled = [(count, time(first, step * first) / time(count, step * count)) for count in workers]
    low, high = ([(count, edge) for count in (first, last)] for edge in SCALEUP_BAND)
    chart = Chart(
        f"SSB scaleup, SF {step:g} a worker",
        "workers",
        "scaleup",
        {"Hypostyle": scaled},
        {"PosDB: 0.5 to 0.75": (low, high)},
    )
    chart.write(RESULTS / "cluster_scaleup.svg")


def numbers(of: type) -> Any:
    """Return what reads numbers above 0 with commas between them, in ascending order."""

    def parse(text: str) -> list[Any]:
        found = sorted({of(word) for word in text.split(",")})
        if found[0] <= 0:
            raise ArgumentTypeError("numbers above 0")
        return found

    return parse


def arguments() -> Namespace:
    parser = options(__doc__)
    parser.set_defaults(runs=3)
    parser.add_argument("--workers", type=numbers(int), default=[1, 2, 4, 6, 8], help="1,2,4,6,8")
    parser.add_argument("--one-node-sf", type=numbers(float), default=[0.25, 0.5, 1.0], help="0.25,0.5,1")
    parser.add_argument("--scaleup-sf", type=float, default=0.25, help="scale factor for each worker")
    parser.add_argument("--cores", type=float, default=0.2, help="share of a core for each worker")
    parser.add_argument("--coordinator-cores", type=float, default=0.3, help="the same for the coordinator")
    parser.add_argument("--program", type=Path, default=program("hypostyle"))
    return parser.parse_args()


def main(given: Namespace) -> None:
    report = Report("cluster", given, "Star Schema Benchmark SF {sf:g}")
    with laboratory(given.program) as lab:
        shares = f"a worker has {given.cores:g} core, the coordinator {given.coordinator_cores:g}"
        report.note(f"limits: {lab.limits}; {shares}")
        report.note(f"network: {lab.network}")
        report.note("the coordinator is drained before there are tables: it has no rows and is not counted")
        bench = Bench(given, lab, report, {}, {}, ssb(given.sf, given.fresh), {}, set())
        for experiment in (one_node, ceilings, speedup, scaleup, append, inserts, peers):
            experiment(bench)
        report.details = {
            "limits": lab.limits,
            "network": lab.network,
            "queries": [
                {"workers": workers, "scale_factor": scale_factor, "queries": run.record()}
                for (workers, scale_factor), run in bench.runs.items()
            ],
        }
        report.write()
        draw(bench)


if __name__ == "__main__":
    main(arguments())
