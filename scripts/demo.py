"""`make demo`: TPC-H into a persistent database, its 22 queries, and lineitem out to four consumers.

Ends with one table that puts the export beside DuckDB and netcat, measured in the same run.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "bench"))

import duckdb
import hypostyle

import netcat
from answers import difference
from consumers import CONSUMERS, Consumer
from dataset import TABLES, load_duckdb, queries, write_csv
from measure import cache_directory, quantity, timed

LINEITEM = "SELECT * FROM lineitem"
# The bytes of our files at a scale factor of one; only the progress bar uses it.
BYTES_PER_SCALE_FACTOR = 0.98e9
BAR_CELLS = 30
EXPORT_RUNS = 3


def stored_bytes(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


@contextmanager
def progress_bar(directory: Path, bytes_expected: float) -> Iterator[None]:
    """Show how much of the database is on disk, on a terminal."""
    done = threading.Event()
    start = time.perf_counter()

    def show() -> None:
        while not done.wait(0.1):
            written = stored_bytes(directory)
            cells = min(BAR_CELLS, round(BAR_CELLS * written / bytes_expected))
            bar = "█" * cells + "·" * (BAR_CELLS - cells)
            seconds = time.perf_counter() - start
            print(f"\r  {bar} {written / 1e6:6.0f} MB {seconds:5.1f} s", end="", flush=True)
        print("\r" + " " * (BAR_CELLS + 24) + "\r", end="")

    if not sys.stdout.isatty():
        yield
        return
    watcher = threading.Thread(target=show)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def generate(path: Path, scale_factor: float) -> None:
    print(f"\n1. Generate TPC-H SF {scale_factor:g} and append it to {path}", flush=True)
    with hypostyle.connect(path) as connection, progress_bar(path, scale_factor * BYTES_PER_SCALE_FACTOR):
        seconds, _ = timed(connection.sql, f"CALL tpch_generate(sf => {scale_factor:g})")
    with hypostyle.connect(path, read_only=True) as connection:
        rows = sum(len(connection.table(table)) for table in TABLES)
    size = stored_bytes(path) / 1e6
    print(
        f"  {rows:,} rows in {len(TABLES)} tables, {size:,.0f} MB, durable after {seconds:.1f} s", flush=True
    )


def run_queries(connection: Any) -> dict[str, Any]:
    """Run and time the queries; return their answers."""
    answers = {}
    print("\n2. Run the 22 queries, each once", flush=True)
    total = 0.0
    for number, (name, sql) in enumerate(queries().items(), start=1):
        seconds, answers[name] = timed(lambda sql: connection.sql(sql).fetchall(), sql)
        total += seconds
        print(f"  {name} {quantity(seconds, 's'):>8}", end="\n" if number % 6 == 0 else "", flush=True)
    print(f"\n  all {quantity(total, 's'):>8}", flush=True)
    return answers


def check_answers(answers: dict[str, Any], peer: Any) -> None:
    """Compare the answers with DuckDB's; the demo fails when one differs."""
    different = []
    for name, sql in queries().items():
        found = difference(answers[name], peer.sql(sql).fetchall())
        if found:
            different.append(f"{name}: {found}")
    if different:
        raise SystemExit("  answers differ from DuckDB's:\n  " + "\n  ".join(different))
    print(f"  all {len(answers)} answers are the same as DuckDB's", flush=True)


def export(take: Any, connection: Any, consumer: Consumer) -> tuple[float, float]:
    """Return the medians of the seconds to have lineitem, and to read all of it afterwards."""
    runs = []
    for _ in range(EXPORT_RUNS):
        have, result = timed(take, connection, LINEITEM)
        touch, _ = timed(consumer.touch, result)
        del result
        runs.append((have, touch))
    haves, touches = zip(*runs, strict=True)
    return median(haves), median(touches)


def compare(ours: Any, peer: Any, csv: Path) -> None:
    lineitem = ours.table("lineitem")
    rows, columns = len(lineitem), len(lineitem.columns)
    print(f"\n3. Export lineitem, {rows:,} rows × {columns} columns, median of {EXPORT_RUNS}\n")
    version = f"DuckDB {duckdb.__version__}"
    print(f"  {'':<14}{'Hypostyle':>24}{version:>26}{'times faster':>26}")
    print(f"  {'to':<14}" + f"{'have':>12}{'touch all':>12}" * 2 + f"{'to have':>14}{'to have touched':>18}")
    arrow_seconds = 0.0
    for consumer in CONSUMERS:
        have, touch = export(consumer.from_ours, ours, consumer)
        peer_have, peer_touch = export(consumer.from_duckdb, peer, consumer)
        times = "".join(f"{quantity(value, 's'):>12}" for value in (have, touch, peer_have, peer_touch))
        all_faster = (peer_have + peer_touch) / (have + touch)
        print(f"  {consumer.name:<14}{times}{peer_have / have:>13,.1f}×{all_faster:>17,.1f}×", flush=True)
        if consumer.name == "Arrow":
            arrow_seconds = have
    transfer = median(netcat.transfer_seconds(csv) for _ in range(EXPORT_RUNS))
    size = csv.stat().st_size / 1e6
    print(f"  {'netcat':<14}{quantity(transfer, 's'):>12}  for {size:,.0f} MB of CSV by loopback, unparsed;")
    print(f"  {'':<28}Hypostyle has the Arrow table {transfer / arrow_seconds:,.0f}× sooner")
    print(
        "\n  have: the call that returns the consumer's object."
        "\n  touch all: then a sum over each column; for strings their lengths and, in Arrow, pandas and"
        "\n  Polars, all bytes of their text. Decimals, dates and strings for NumPy are converted here by"
        "\n  Hypostyle, on first access, and before by DuckDB; for pandas, unless exact, before by both."
        "\n  bench/consumers.py has the details."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sf", type=float, default=1.0, help="TPC-H scale factor (default 1)")
    scale_factor = parser.parse_args().sf

    place = cache_directory() / "data" / "demo"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    database, peer_file, csv = place / "tpch.hypo", place / "tpch.duckdb", place / "lineitem.csv"

    generate(database, scale_factor)
    with hypostyle.connect(database, read_only=True) as ours:
        answers = run_queries(ours)
        print("\n   (loading the same data into DuckDB, and writing the CSV file for netcat)", flush=True)
        load_duckdb(peer_file, ours)
        write_csv(csv, peer_file)
        with duckdb.connect(peer_file, read_only=True) as peer:
            check_answers(answers, peer)
            for consumer in CONSUMERS:  # what a first conversion imports is on nobody's bill
                consumer.from_ours(ours, f"{LINEITEM} LIMIT 1")
                consumer.from_duckdb(peer, f"{LINEITEM} LIMIT 1")
            compare(ours, peer, csv)
    print(f"\n  The database stays in {database}; `make clean` removes it.")


if __name__ == "__main__":
    main()
