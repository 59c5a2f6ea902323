"""Runs the 22 TPC-H queries, hot, on Hypostyle, on DataFusion over in-memory Arrow, and on DuckDB.

The first two run in one Rust process (`hypostyle-bench tpch`) with one build of DataFusion and as
many threads; DuckDB runs from Python directly after.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import duckdb
import hypostyle

from answers import difference
from dataset import Dataset, queries, tpch
from measure import Bar, Measurement, Report, arguments, measured_in_rust, of_scale, timed

# The samples of one engine, by query.
Samples = dict[str, list[float]]


def run_duckdb(dataset: Dataset, runs: int, threads: int) -> tuple[Samples, dict[str, int]]:
    """Return the samples, and the number of rows of each query."""
    samples: Samples = {}
    rows: dict[str, int] = {}
    with duckdb.connect(dataset.duckdb, read_only=True, config={"threads": threads}) as connection:

        def run(sql: str) -> Any:
            return connection.sql(sql).to_arrow_table()

        for name, sql in queries().items():
            rows[name] = run(sql).num_rows
            samples[name] = [timed(run, sql)[0] for _ in range(runs)]
    return samples, rows


def wrong_answers(dataset: Dataset) -> dict[str, str]:
    """Return the queries whose answers differ from DuckDB's, and the places."""
    wrong = {}
    with (
        hypostyle.connect(dataset.hypostyle, read_only=True) as ours,
        duckdb.connect(dataset.duckdb, read_only=True) as peer,
    ):
        for name, sql in queries().items():
            found = difference(ours.sql(sql).fetchall(), peer.sql(sql).fetchall())
            if found:
                wrong[name] = found
    return wrong


def total(samples: Samples, names: list[str]) -> list[float]:
    """Return the sum over the queries, run by run."""
    return [sum(runs) for runs in zip(*(samples[name] for name in names), strict=True)]


def main(options: Namespace) -> None:
    dataset = tpch(options.sf, options.fresh, with_csv=False)
    report = Report(of_scale("tpch", options), options)
    measured = measured_in_rust("tpch", "--database", dataset.hypostyle, "--runs", str(options.runs))
    duckdb_samples, duckdb_rows = run_duckdb(dataset, options.runs, measured["threads"])

    engines: dict[str, Samples] = {}
    for engine, results in measured["engines"].items():
        engines[engine] = {name: result["seconds"] for name, result in results.items() if "seconds" in result}
        for name, result in results.items():
            if "error" in result:
                report.note(f"{engine} cannot run {name}: {result['error']}")
            elif result["rows"] != duckdb_rows[name]:
                report.note(f"{engine} gives {result['rows']} rows for {name}, DuckDB {duckdb_rows[name]}")
    engines["DuckDB"] = duckdb_samples
    wrong = wrong_answers(dataset)
    for name, found in wrong.items():
        report.note(f"{name} differs from DuckDB: {found}")
    ours = engines.pop("hypostyle")

    names = [name for name in ours if all(name in samples for samples in engines.values())]
    for name in names:
        report.add(
            Measurement(
                name,
                ours[name],
                {engine: samples[name] for engine, samples in engines.items()},
                wrong=name in wrong,
            )
        )
    report.add(
        Measurement(
            f"total of {len(names)} queries",
            total(ours, names),
            {engine: total(samples, names) for engine, samples in engines.items()},
            Bar(ratio_min=1, peer="DataFusion"),
            wrong=bool(wrong),
        )
    )
    report.write()


if __name__ == "__main__":
    main(arguments(__doc__))
