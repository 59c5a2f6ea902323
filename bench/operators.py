"""Runs single operators over millions of rows, hot, on Hypostyle and on DuckDB: sorts, windows, many
groups, joins of many with many, text and quantiles.

TPC-H and the Star Schema Benchmark hardly need these. Both engines run in this process, with as many
threads, and take turns. A scale factor of 1 is six million rows.
"""

from __future__ import annotations

import os
from argparse import Namespace
from typing import Any

import duckdb
import hypostyle

from answers import difference
from dataset import operators
from measure import Measurement, Report, Times, arguments

# Numbers that are sums, or counts, of what the operator gives: it is measured, and not the result.
QUERIES = {
    "sort": "SELECT id, v FROM many ORDER BY v, id",
    "top 10": "SELECT id, v FROM many ORDER BY v DESC, id LIMIT 10",
    "top 1,000 of all columns": "SELECT * FROM many ORDER BY v DESC, id LIMIT 1000",
    "top 100 of all columns by text": "SELECT * FROM many ORDER BY s, id LIMIT 100",
    "rank": "SELECT sum(r) FROM (SELECT rank() OVER (ORDER BY v) AS r FROM many)",
    "first row of each partition": "SELECT count(*), sum(v) FROM (SELECT v, row_number() OVER"
    " (PARTITION BY p ORDER BY v, id) AS n FROM many) WHERE n = 1",
    "running sum": "SELECT max(r), sum(r % 1000) FROM (SELECT sum(q) OVER (ORDER BY id) AS r FROM many)",
    "running sum of partitions": "SELECT max(r), sum(r % 1000) FROM (SELECT sum(q) OVER"
    " (PARTITION BY p ORDER BY id) AS r FROM many)",
    "sum of each partition": "SELECT max(r), sum(r % 1000) FROM (SELECT sum(q) OVER (PARTITION BY p) AS r"
    " FROM many)",
    "lag": "SELECT sum(abs(q - l)) FROM (SELECT q, lag(q) OVER (ORDER BY id) AS l FROM many)",
    "many groups of an integer": "SELECT count(*), max(n) FROM (SELECT g, sum(q) AS n FROM many GROUP BY g)",
    "many groups of long texts": "SELECT count(*), max(n) FROM (SELECT s, sum(q) AS n FROM many GROUP BY s)",
    "many groups of several keys": "SELECT count(*), max(n) FROM"
    " (SELECT p, w, f, sum(q) AS n FROM many GROUP BY p, w, f)",
    "count distinct": "SELECT count(DISTINCT g) FROM many",
    "count distinct of groups": "SELECT w, count(DISTINCT p) FROM many GROUP BY w ORDER BY w",
    "join of many with many": "SELECT count(*), sum(many.q * few.q) FROM many JOIN few ON many.p = few.p",
    "semi join": "SELECT count(*), sum(q) FROM many WHERE EXISTS"
    " (SELECT 1 FROM few WHERE few.p = many.p AND few.q > 48)",
    "anti join": "SELECT count(*), sum(q) FROM many WHERE NOT EXISTS"
    " (SELECT 1 FROM few WHERE few.p = many.p AND few.q > 48)",
    "LIKE": "SELECT count(*) FROM many WHERE s LIKE '%number%99%of%'",
    "quantiles": "SELECT w, median(v), percentile_cont(0.9) WITHIN GROUP (ORDER BY d) FROM many"
    " GROUP BY w ORDER BY w",
}


def main(options: Namespace) -> None:
    pair = operators(options.sf, options.fresh)
    report = Report("operators", options, "six million rows × {sf:g}")
    threads = os.cpu_count() or 1
    with (
        hypostyle.connect(pair.hypostyle, read_only=True, threads=threads) as ours,
        duckdb.connect(pair.duckdb, read_only=True, config={"threads": threads}) as peer,
    ):

        def run(connection: Any, sql: str) -> Any:
            result = connection.sql(sql)
            return result.arrow() if connection is ours else result.to_arrow_table()

        for name, sql in QUERIES.items():
            answers = [run(connection, sql).slice(0, 10_000).to_pylist() for connection in (ours, peer)]
            rows = [[tuple(row.values()) for row in answer] for answer in answers]
            found = difference(*rows)
            if found:
                report.note(f"{name} differs from DuckDB: {found}")
            times = (Times(), Times())
            for _ in range(options.runs):
                times[0].run(run, ours, sql)
                times[1].run(run, peer, sql)
            for what, one, other in (
                (name, times[0].wall, times[1].wall),
                (f"{name}, CPU", times[0].cpu, times[1].cpu),
            ):
                report.add(Measurement(what, one, {"DuckDB": other}, wrong=bool(found)))
    report.write()


if __name__ == "__main__":
    main(arguments(__doc__))
