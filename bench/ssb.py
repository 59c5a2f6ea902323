"""Runs the 13 queries of the Star Schema Benchmark on Hypostyle and on DuckDB.

Both run in this process, with as many threads, and take turns. Beside the time on the clock stands
that of all processors, which a busy machine changes less.
"""

from __future__ import annotations

from argparse import Namespace

from dataset import ssb, ssb_queries
from measure import Bar, Report, of_scale, query_options
from side_by_side import add_first_runs, add_lines, measure


def main(options: Namespace) -> None:
    pair = ssb(options.sf, options.fresh)
    report = Report(of_scale("ssb", options), options, "Star Schema Benchmark SF {sf:g}")
    compared = measure(options, report, pair, ssb_queries(), in_order=False)
    add_lines(report, compared, each=Bar(ratio_min=1 / 0.8), in_total=Bar(ratio_min=1 / 0.45))
    if options.first_runs:
        add_first_runs(report, pair, ssb_queries())
    report.write()


if __name__ == "__main__":
    main(query_options(__doc__))
