"""Runs the 22 TPC-H queries on Hypostyle and on DuckDB, and on DataFusion over in-memory Arrow.

The first two run in this process, with as many threads, and take turns. Beside the time on the clock
stands that of all processors, which a busy machine changes less. DataFusion runs in a Rust process of
its own (`hypostyle-bench tpch`) with the build of DataFusion that is ours; its tables have no room
beside much data, and are left out from a scale factor of 3 on.
"""

from __future__ import annotations

from argparse import Namespace

from dataset import Dataset, Pair, queries, tpch
from measure import Bar, Report, measured_in_rust, of_scale, query_options
from side_by_side import Samples, add_first_runs, add_lines, measure

DATAFUSION_SF_MAX = 2


def run_datafusion(report: Report, dataset: Dataset, runs: int) -> dict[str, Samples]:
    """Return the samples of each query on DataFusion, with its own types and with ours."""
    measured = measured_in_rust("tpch", "--database", dataset.hypostyle, "--runs", str(runs))
    engines: dict[str, Samples] = {}
    for engine, results in measured["engines"].items():
        engines[engine] = {name: result["seconds"] for name, result in results.items() if "seconds" in result}
        for name, result in results.items():
            if "error" in result:
                report.note(f"{engine} cannot run {name}: {result['error']}")
    return engines


def main(options: Namespace) -> None:
    dataset = tpch(options.sf, options.fresh, with_csv=False)
    pair = Pair(dataset.hypostyle, dataset.duckdb)
    report = Report(of_scale("tpch", options), options)
    compared = measure(options, report, pair, queries(), in_order=True)
    others = run_datafusion(report, dataset, options.runs) if options.sf <= DATAFUSION_SF_MAX else {}
    goal = 1 if options.memory_limit else 1 / 0.45
    add_lines(report, compared, each=Bar(ratio_min=1), in_total=Bar(ratio_min=goal), others=others)
    if options.first_runs:
        add_first_runs(report, pair, queries())
    report.write()


if __name__ == "__main__":
    main(query_options(__doc__))
