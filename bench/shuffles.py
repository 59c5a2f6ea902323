"""Measures what a cluster does where rows have to move: joins and groups by keys that no table is
partitioned by, and TPC-H.

Nodes are those of `nodes.py`: each has a part of a core, and a link of its own. A worker is asked, as a
client would ask any node. Beside the time in stages, which run on all nodes, stands the time without
them (`SET stages = off`), where all rows that pass the conditions come to the node that was asked; and
for TPC-H the time of one worker that has all rows.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from answers import difference
from cluster import fetch, numbers, warm
from dataset import queries, tpch
from measure import Bar, Measurement, Report, options, timed
from nodes import Cluster, Cores, Lab, laboratory
from protocol.processes import program

# Keys without gaps, as numbers of orders are, are joined by DataFusion without hashing.
JOIN = "SELECT count(*), sum(one.v + other.v) FROM one JOIN other ON one.{key} = other.{key}"
SHUFFLED = {
    "join by another key": JOIN.format(key="g"),
    "join by a key without gaps": JOIN.format(key="n"),
    "GROUP BY of many groups": "SELECT count(*), max(s) FROM (SELECT g, sum(v) AS s FROM one GROUP BY g)",
}
SPEEDUPS = {4: 2.5, 8: 4.0}  # that so many workers should reach, beside the asked one without stages
ASKED = "without stages"
ONE = "one worker"
TPCH_WORKERS, TPCH_SPEEDUP = 4, 2.0
NO_SLOWER = 0.95  # of the speed without stages: runs of one query differ by some percent
Samples = dict[str, list[float]]


def samples(connection: Any, sql: str, runs: int) -> list[float]:
    """Return the seconds of some runs, after one that is not counted."""
    fetch(connection, sql)
    return [timed(fetch, connection, sql)[0] for _ in range(runs)]


@contextmanager
def without_stages(connection: Any) -> Iterator[None]:
    """Have all rows come to the node that is asked."""
    connection.sql("SET stages = 'off'")
    try:
        yield
    finally:
        connection.sql("RESET stages")


def shuffles(given: Namespace, lab: Lab, report: Report) -> None:
    """Measure a join and groups by a key that the tables are not partitioned by."""
    rows = given.rows
    for workers in given.workers:
        with (
            lab.cluster(workers, Cores(given.cores, given.coordinator_cores)) as nodes,
            nodes.workers[0].connect() as connection,
        ):
            for table, factor in (("one", 2654435761), ("other", 48271)):
                connection.sql(
                    f"CREATE TABLE {table} PARTITION BY HASH (id) INTO {4 * workers} FRAGMENTS AS "
                    "SELECT id, n, n * 1000003 AS g, id % 1000 AS v "
                    f"FROM (SELECT value AS id, value * {factor} % {rows} AS n "
                    f"FROM generate_series(1, {rows}) AS numbers (value)) AS made"
                )
            warm(connection, *SHUFFLED.values())
            nodes.limit()
            for name, sql in SHUFFLED.items():
                with without_stages(connection):
                    alone = samples(connection, sql, given.runs)
                    known = fetch(connection, sql)
                seconds = samples(connection, sql, given.runs)
                bar = Bar(ratio_min=SPEEDUPS[workers], peer=ASKED) if workers in SPEEDUPS else None
                wrong = difference(fetch(connection, sql), known)
                what = f"{name}, {rows:,} rows, {workers} workers"
                report.add(Measurement(what, seconds, {ASKED: alone}, bar, wrong=bool(wrong)))
            nodes.free()


def tpch_of(nodes: Cluster, given: Namespace, known: dict[str, Any] | None) -> tuple[Samples, Samples]:
    """Measure TPC-H on tables made in a cluster; if answers are known, without stages, too."""
    found: tuple[Samples, Samples] = ({}, {})
    with nodes.workers[0].connect() as connection:
        connection.sql(f"CALL tpch_generate(sf => {given.tpch_sf:g})")
        warm(connection, *queries().values())
        nodes.limit()
        for name, sql in queries().items():
            found[0][name] = samples(connection, sql, given.runs)
            if known is None:
                continue
            with without_stages(connection):
                found[1][name] = samples(connection, sql, given.runs)
            other = difference(fetch(connection, sql), known[name])
            if other:
                raise ValueError(f"{name} at SF {given.tpch_sf:g} has other rows than DuckDB's: {other}")
        nodes.free()
    return found


def answers(scale_factor: float) -> dict[str, list[Any]]:
    """Return DuckDB's answers of TPC-H."""
    pair = tpch(scale_factor, with_csv=False)
    with duckdb.connect(pair.duckdb, read_only=True) as peer:
        return {name: peer.sql(sql).fetchall() for name, sql in queries().items()}


def totals(runs: Samples) -> list[float]:
    return [sum(seconds) for seconds in zip(*runs.values(), strict=True)]


def tpch_queries(given: Namespace, lab: Lab, report: Report) -> None:
    """Measure the 22 queries of TPC-H on four workers, and on one that has all rows."""
    known = answers(given.tpch_sf)
    cores = Cores(given.tpch_cores, given.coordinator_cores)
    with lab.cluster(1, cores) as nodes:
        one, _ = tpch_of(nodes, given, None)
    with lab.cluster(TPCH_WORKERS, cores) as nodes:
        in_stages, without = tpch_of(nodes, given, known)
    what = f"TPC-H SF {given.tpch_sf:g}, {TPCH_WORKERS} workers"
    peers = {ONE: totals(one), ASKED: totals(without)}
    bar = Bar(ratio_min=TPCH_SPEEDUP, peer=ONE)
    report.add(Measurement(f"{what}, 22 queries", totals(in_stages), peers, bar))
    for name, seconds in in_stages.items():
        bar = Bar(ratio_min=NO_SLOWER, peer=ASKED)
        report.add(Measurement(f"{what}, {name}", seconds, {ONE: one[name], ASKED: without[name]}, bar))


def arguments() -> Namespace:
    parser = options(__doc__)
    parser.set_defaults(runs=3)
    parser.add_argument("--workers", type=numbers(int), default=[4, 8], help="4,8")
    parser.add_argument("--rows", type=int, default=4_000_000, help="rows of each table that is shuffled")
    parser.add_argument("--cores", type=float, default=0.2, help="share of a core for each worker")
    parser.add_argument("--coordinator-cores", type=float, default=0.2, help="the same for the coordinator")
    parser.add_argument("--tpch-sf", type=float, default=1.0, help="scale factor of TPC-H")
    parser.add_argument("--tpch-cores", type=float, default=0.5, help="share of a core for its workers")
    parser.add_argument("--program", type=Path, default=program("hypostyle"))
    return parser.parse_args()


def main(given: Namespace) -> None:
    report = Report("shuffles", given, "Joins and groups by other keys, and TPC-H")
    with laboratory(given.program) as lab:
        share = f"a worker has {given.cores:g} core, {given.tpch_cores:g} for TPC-H"
        report.note(
            f"limits: {lab.limits}; {share}; the coordinator has {given.coordinator_cores:g}, and no rows"
        )
        report.note(f"network: {lab.network}")
        report.note("the worker that is asked has rows as the others have; answers of TPC-H are DuckDB's")
        shuffles(given, lab, report)
        tpch_queries(given, lab, report)
        report.details = {"limits": lab.limits, "network": lab.network, "rows": given.rows}
        report.write()


if __name__ == "__main__":
    main(arguments())
