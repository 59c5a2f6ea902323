"""Runs the 13 queries of the Star Schema Benchmark, hot, on Hypostyle and on DuckDB.

Both run in this process, with as many threads, and take turns. Beside the time on the clock stands
that of all processors, which a busy machine changes less.
"""

from __future__ import annotations

import os
from argparse import Namespace
from typing import Any

import duckdb
import hypostyle

from answers import difference
from dataset import ssb, ssb_queries
from measure import Measurement, Report, Times, arguments, of_scale


def total(all_times: list[list[float]]) -> list[float]:
    """Return the sum over the queries, run by run."""
    return [sum(runs) for runs in zip(*all_times, strict=True)]


def main(options: Namespace) -> None:
    pair = ssb(options.sf, options.fresh)
    report = Report(of_scale("ssb", options), options, "Star Schema Benchmark SF {sf:g}")
    threads = os.cpu_count() or 1
    samples: dict[str, tuple[Times, Times]] = {}
    wrong = set()
    with (
        hypostyle.connect(pair.hypostyle, read_only=True, threads=threads) as ours,
        duckdb.connect(pair.duckdb, read_only=True, config={"threads": threads}) as peer,
    ):

        def run(connection: Any, sql: str) -> Any:
            return connection.sql(sql).fetchall()

        for name, sql in ssb_queries().items():
            # The first run reads everything into memory, and is compared.
            found = difference(sorted(run(ours, sql)), sorted(run(peer, sql)))
            if found:
                wrong.add(name)
                report.note(f"{name} differs from DuckDB: {found}")
            run(ours, sql)  # the second wish for an index has it made
            times = samples[name] = (Times(), Times())
            for _ in range(options.runs):
                times[0].run(run, ours, sql)
                times[1].run(run, peer, sql)
            for what, one, other in (
                (name, times[0].wall, times[1].wall),
                (f"{name}, CPU", times[0].cpu, times[1].cpu),
            ):
                report.add(Measurement(what, one, {"DuckDB": other}, wrong=name in wrong))
    both = list(samples.values())
    for what, times_of in (("total", lambda times: times.wall), ("total, CPU", lambda times: times.cpu)):
        one, other = (total([times_of(times[engine]) for times in both]) for engine in (0, 1))
        report.add(Measurement(what, one, {"DuckDB": other}, wrong=bool(wrong)))
    report.write()


if __name__ == "__main__":
    main(arguments(__doc__))
