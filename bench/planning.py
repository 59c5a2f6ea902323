"""Plans statements on Hypostyle and on DuckDB: the 22 queries of TPC-H, one of twelve joins, one of a list of
10,000 values and a correlated one.

A statement is planned by EXPLAIN, in this process, over a stored database. Both engines take turns. A sample
is the mean of several EXPLAINs, each of which has a comment of its own, so that no text is known from before.
"""

from __future__ import annotations

import os
from argparse import Namespace
from itertools import count
from typing import Any

import duckdb
import hypostyle

from dataset import queries, tpch
from measure import Bar, Measurement, Report, Times, arguments, timed_with_cpu
from side_by_side import total

# EXPLAINs of one sample: a plan may take less than a millisecond.
REPEATS = 10

JOINS = """
SELECT r1.r_name, r2.r_name, r3.r_name, count(*), sum(l_extendedprice)
FROM lineitem
JOIN orders ON l_orderkey = o_orderkey
JOIN customer ON o_custkey = c_custkey
JOIN nation AS n1 ON c_nationkey = n1.n_nationkey
JOIN region AS r1 ON n1.n_regionkey = r1.r_regionkey
JOIN supplier AS s1 ON l_suppkey = s1.s_suppkey
JOIN nation AS n2 ON s1.s_nationkey = n2.n_nationkey
JOIN region AS r2 ON n2.n_regionkey = r2.r_regionkey
JOIN part ON l_partkey = p_partkey
JOIN partsupp ON ps_partkey = p_partkey
JOIN supplier AS s2 ON ps_suppkey = s2.s_suppkey
JOIN nation AS n3 ON s2.s_nationkey = n3.n_nationkey
JOIN region AS r3 ON n3.n_regionkey = r3.r_regionkey
WHERE p_size < 10 AND o_orderdate < DATE '1995-01-01' AND r1.r_name <> r2.r_name
GROUP BY r1.r_name, r2.r_name, r3.r_name
ORDER BY 4 DESC
"""

LIST = f"SELECT count(*) FROM lineitem WHERE l_orderkey IN ({', '.join(str(7 * i) for i in range(10_000))})"

CORRELATED = """
SELECT c_name, (SELECT max(o_totalprice) FROM orders WHERE o_custkey = c_custkey) AS largest
FROM customer
WHERE c_acctbal > (SELECT avg(c.c_acctbal) FROM customer AS c WHERE c.c_nationkey = customer.c_nationkey)
AND EXISTS (SELECT 1 FROM orders WHERE o_custkey = c_custkey AND o_orderdate > DATE '1996-01-01')
AND NOT EXISTS (SELECT 1 FROM orders JOIN lineitem ON l_orderkey = o_orderkey
    WHERE o_custkey = c_custkey AND l_returnflag = 'R')
ORDER BY largest DESC LIMIT 10
"""

OTHERS = {"12 joins": JOINS, "list of 10,000 values": LIST, "correlated": CORRELATED}


def explain(connection: Any, sql: str, numbers: Any) -> None:
    """Plan a statement several times."""
    for _ in range(REPEATS):
        connection.execute(f"EXPLAIN /* {next(numbers)} */ {sql}").fetchall()


def sample(times: Times, connection: Any, sql: str, numbers: Any) -> None:
    """Add the time of one EXPLAIN, on the clock and of all processors."""
    wall, cpu = timed_with_cpu(explain, connection, sql, numbers)
    times.wall.append(wall / REPEATS)
    times.cpu.append(cpu / REPEATS)


def measured(ours: Any, peer: Any, sql: str, runs: int, numbers: Any) -> tuple[Times, Times]:
    """Let both engines plan a statement in turns; the first plans are not counted."""
    times = (Times(), Times())
    for connection in (ours, peer):
        explain(connection, sql, numbers)
    for _ in range(runs):
        sample(times[0], ours, sql, numbers)
        sample(times[1], peer, sql, numbers)
    return times


def add(report: Report, what: str, times: list[tuple[Times, Times]], bar: Bar | None = None) -> None:
    """Report the sum of some statements, on the clock and of all processors."""
    ours, peer = zip(*times, strict=True)
    wall = [total([each.wall for each in of]) for of in (ours, peer)]
    cpu = [total([each.cpu for each in of]) for of in (ours, peer)]
    report.add(Measurement(what, wall[0], {"DuckDB": wall[1]}, bar))
    report.add(Measurement(f"{what}, CPU", cpu[0], {"DuckDB": cpu[1]}))


def main(options: Namespace) -> None:
    dataset = tpch(options.sf, options.fresh)
    report = Report("planning", options)
    threads = os.cpu_count() or 1
    numbers = count()
    with (
        hypostyle.connect(dataset.hypostyle, read_only=True, threads=threads) as ours,
        duckdb.connect(dataset.duckdb, read_only=True, config={"threads": threads}) as peer,
    ):
        of_tpch = []
        for name, sql in queries().items():
            of_tpch.append(measured(ours, peer, sql, options.runs, numbers))
            add(report, name, of_tpch[-1:])
        add(report, "TPC-H, total", of_tpch, Bar(ratio_min=1))
        for name, sql in OTHERS.items():
            add(report, name, [measured(ours, peer, sql, options.runs, numbers)], Bar(ratio_min=1))
    report.write()


if __name__ == "__main__":
    main(arguments(__doc__))
