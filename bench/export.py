"""Exports the whole of lineitem to NumPy, pandas, Polars and Arrow, from both databases, hot."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import hypostyle

import netcat
from consumers import CONSUMERS
from dataset import tpch
from measure import Bar, Measurement, Report, arguments, timed

EVERYTHING = "SELECT * FROM lineitem"
INTEGERS = "l_orderkey, l_partkey, l_suppkey, l_linenumber"
NUMBERS = f"{INTEGERS}, l_quantity, l_extendedprice, l_discount, l_tax"

ARROW_MAX_SECONDS = 0.010
POLARS_MAX_SECONDS = 0.100
PANDAS_MAX_SECONDS = 0.150
# The bars of the issue for each consumer of the whole table.
BARS = {
    "arrow()": Bar(at_most=ARROW_MAX_SECONDS, ratio_min=50),
    "df()": Bar(at_most=PANDAS_MAX_SECONDS, ratio_min=30),
    "df(dtypes='exact')": Bar(at_most=ARROW_MAX_SECONDS, ratio_min=50),
    "pl()": Bar(at_most=POLARS_MAX_SECONDS),
}
# Conversions for these cost time per row: Polars' own layout of strings, pandas' dates and numbers.
CONVERTED = ("pl()", "df()")


def have_and_touch(take: Callable[..., Any], connection: Any, touch: Any) -> tuple[float, float]:
    """Return the seconds to have all of lineitem, and the seconds until every byte of it was
    read.
    """
    have, result = timed(take, connection, EVERYTHING)
    touched, _ = timed(touch, result)
    return have, have + touched


def every_array(arrays: Any) -> dict[str, Any]:
    return {name: arrays[name] for name in arrays}


def whole_table(report: Report, ours: Any, peer: Any, runs: int) -> dict[str, list[float]]:
    """Measure all consumers; return the samples of our time to have, by call."""
    have: dict[str, list[float]] = {}
    touched: list[Measurement] = []
    for consumer in CONSUMERS:
        our_runs, peer_runs = [], []
        for _ in range(runs):
            our_runs.append(have_and_touch(consumer.from_ours, ours, consumer.touch))
            peer_runs.append(have_and_touch(consumer.from_duckdb, peer, consumer.touch))
        (our_have, our_all), (peer_have, peer_all) = zip(*our_runs, strict=True), zip(*peer_runs, strict=True)
        name = f"lineitem → {consumer.call}"
        have[consumer.call] = list(our_have)
        report.add(Measurement(name, list(our_have), {"DuckDB": list(peer_have)}, BARS.get(consumer.call)))
        touched.append(
            Measurement(
                f"{name}, touched",
                list(our_all),
                {"DuckDB untouched": list(peer_have), "DuckDB touched": list(peer_all)},
                Bar(ratio_min=1, peer="DuckDB untouched"),
            )
        )
    for measurement in touched:
        report.add(measurement)
    return have


def numeric_columns(report: Report, ours: Any, peer: Any, runs: int) -> None:
    numbers, integers = f"SELECT {NUMBERS} FROM lineitem", f"SELECT {INTEGERS} FROM lineitem"
    cases = (
        ("8 numeric columns → fetchnumpy()", numbers, False, Bar(ratio_min=50)),
        ("8 numeric columns → all arrays", numbers, True, None),
        ("4 integer columns → all arrays", integers, True, Bar(ratio_min=50)),
    )

    def fetch(connection: Any, sql: str, all_arrays: bool) -> Any:
        arrays = connection.sql(sql).fetchnumpy()
        return every_array(arrays) if all_arrays else arrays

    for what, sql, all_arrays, bar in cases:
        our_samples, peer_samples = [], []
        for _ in range(runs):
            our_samples.append(timed(fetch, ours, sql, all_arrays)[0])
            peer_samples.append(timed(fetch, peer, sql, all_arrays)[0])
        report.add(Measurement(what, our_samples, {"DuckDB": peer_samples}, bar))


def against_netcat(report: Report, csv: Path, our_samples: list[float], runs: int) -> None:
    netcat.transfer_seconds(csv)
    transfers = [netcat.transfer_seconds(csv) for _ in range(runs)]
    report.add(Measurement("lineitem → arrow(); CSV by netcat", our_samples, {"netcat": transfers}))


def against_a_tenth(
    report: Report, small: Any, small_scale: float, have: dict[str, list[float]], runs: int
) -> None:
    """Check that the time to have a result does not depend on its number of rows."""
    peer = f"SF {small_scale:g}"
    for consumer in CONSUMERS:
        samples = [timed(consumer.from_ours, small, EVERYTHING)[0] for _ in range(runs)]
        bar = None if consumer.call in CONVERTED else Bar(ratio_min=0.5, peer=peer)
        what = f"lineitem → {consumer.call}, ten times the rows"
        report.add(Measurement(what, have[consumer.call], {peer: samples}, bar))


def warm(connections: Sequence[Any], take: Callable[..., Any], touch: Callable[..., Any]) -> None:
    """Read the files into memory, and import everything that a first conversion imports."""
    for connection in connections:
        touch(take(connection, EVERYTHING))


def main(options: Namespace) -> None:
    small_scale = options.sf / 10
    dataset, small_dataset = tpch(options.sf, options.fresh), tpch(small_scale, options.fresh)
    report = Report("export", options)
    with (
        hypostyle.connect(dataset.hypostyle, read_only=True) as ours,
        hypostyle.connect(small_dataset.hypostyle, read_only=True) as small,
        duckdb.connect(dataset.duckdb, read_only=True) as peer,
    ):
        for consumer in CONSUMERS:
            warm([ours, small], consumer.from_ours, consumer.touch)
            warm([peer], consumer.from_duckdb, consumer.touch)
        have = whole_table(report, ours, peer, options.runs)
        numeric_columns(report, ours, peer, options.runs)
        against_netcat(report, dataset.csv, have["arrow()"], options.runs)
        against_a_tenth(report, small, small_scale, have, options.runs)
    report.write()


if __name__ == "__main__":
    main(arguments(__doc__))
