"""`python -m compared`: compares the answers to random statements, and says what differs."""

import argparse
import contextlib
import sys
import time

from .campaign import BATCH, run
from .peers import Hypostyle, postgres_program, postgres_server


def main() -> int:
    options = argparse.ArgumentParser(prog="compared", description=__doc__)
    options.add_argument("--seed", type=int, default=0, help="the first of the seeds")
    options.add_argument(
        "--statements", type=int, default=10 * BATCH, help=f"in batches of {BATCH}, each with a seed"
    )
    options.add_argument("--no-postgres", action="store_true", help="DuckDB alone")
    options.add_argument("--no-reduce", action="store_true", help="statements as they were made")
    options.add_argument("--pipelines", choices=["off", "on", "verify"], default=Hypostyle.pipelines)
    chosen = options.parse_args()
    Hypostyle.pipelines = chosen.pipelines
    batches = -(-chosen.statements // BATCH)
    with contextlib.ExitStack() as stack:
        there = postgres_program() and not chosen.no_postgres
        address = stack.enter_context(postgres_server()) if there else None
        start = time.monotonic()
        report = run(
            range(chosen.seed, chosen.seed + batches),
            min(BATCH, chosen.statements),
            address,
            not chosen.no_reduce,
            lambda difference: print(difference, flush=True),
        )
    print(report.summary())
    print(f"{time.monotonic() - start:.0f} s; {dict(report.subjects)}")
    return bool(report.differences)


if __name__ == "__main__":
    sys.exit(main())
