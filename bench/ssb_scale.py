"""Runs the Star Schema Benchmark on one node by scale factor, past its memory: PosDB's Figures 3 and 4.

    cd bench && "$VENV/bin/python" ssb_scale.py --sf 30 --scales 1,3,10,30 --memory 4

The database of each scale factor is queried by a process of its own, with all cores. `--memory` gives it
a control group of so many gigabytes, as PosDB's machines had 4: pages of the data beyond that are read
from the disk again. This needs root; without it there is no limit, and the record says so. DuckDB runs
beside, with the same limit. Answers are compared.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from answers import difference
from dataset import Pair, ssb, ssb_queries
from measure import Measurement, Report, options
from protocol.processes import PeerError, run

EACH, ALL = ("PD-F3", "Time of each query"), ("PD-F4", "Time of all queries")
PARTIES = ("hypostyle", "DuckDB")
GROUPS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
# Runs that read everything, and have indexes made.
UNCOUNTED = 2

PROGRAM = """
import json, sys, time, {module} as engine
request = json.loads(sys.stdin.read())
with engine.connect(request["database"], read_only=True) as connection:
    for name, sql in request["queries"].items():
        rows = connection.sql(sql).fetchall()
        seconds = []
        for run in range(request["uncounted"] - 1 + request["runs"]):
            start = time.perf_counter()
            connection.sql(sql).fetchall()
            seconds.append(time.perf_counter() - start)
        rows = [[str(value) for value in row] for row in rows]
        print(json.dumps([name, seconds[request["uncounted"] - 1 :], rows]), flush=True)
"""
MODULES = {"hypostyle": "hypostyle", "DuckDB": "duckdb"}


@contextlib.contextmanager
def memory_group(gigabytes: float) -> Iterator[Path | None]:
    """Make a control group with so much memory, page cache included; raise PeerError if that is refused."""
    if not gigabytes:
        yield None
        return
    version_1, version_2 = GROUPS
    place = version_1 if version_1.is_dir() else version_2
    limit = "memory.limit_in_bytes" if place == version_1 else "memory.max"
    group = place / f"hypostyle-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        raise PeerError(f"no control group of {gigabytes:g} GB: {error}") from error
    try:
        (group / limit).write_text(str(round(gigabytes * 1e9)))
        yield group
    except OSError as error:
        raise PeerError(f"no limit of {gigabytes:g} GB: {error}") from error
    finally:
        group.rmdir()


def queried(
    party: str, database: Path, runs: int, group: Path | None
) -> dict[str, tuple[list[float], list[Any]]]:
    """Return the seconds and the rows of each query, from a new process in the group."""
    command = [sys.executable, "-c", PROGRAM.format(module=MODULES[party])]
    if group:
        command = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs"), *command]
    request = {
        "database": str(database),
        "queries": ssb_queries(),
        "runs": runs,
        "uncounted": UNCOUNTED,
    }
    found = run(command, input=json.dumps(request))
    return {name: (seconds, rows) for name, seconds, rows in map(json.loads, found.splitlines())}


def bytes_of(pair: Pair) -> tuple[int, int]:
    """Return what both databases take on the disk."""
    ours = sum(path.stat().st_size for path in pair.hypostyle.rglob("*") if path.is_file())
    return ours, pair.duckdb.stat().st_size


def forget(pair: Pair) -> None:
    """Drop both databases from the page cache, whose pages count for the group that has read them."""
    os.sync()
    for path in (pair.duckdb, *pair.hypostyle.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def one_scale(report: Report, given: Namespace, scale: float) -> None:
    pair = ssb(scale, given.fresh)
    found = {}
    for party, database in zip(PARTIES, (pair.hypostyle, pair.duckdb), strict=True):
        forget(pair)
        with contextlib.ExitStack() as stack:
            try:
                group = stack.enter_context(memory_group(given.memory))
            except PeerError as error:
                report.note(f"SF {scale:g}, {party}: {error}")
                group = None
            try:
                found[party] = queried(party, database, given.runs, group)
            except PeerError as error:
                report.note(f"SF {scale:g}, {party}: E, {error}")
                report.cell(*ALL, party, f"{scale:g}", [], "E")
    if set(found) < set(PARTIES):
        return
    wrong = []
    for name, (seconds, rows) in found["hypostyle"].items():
        report.cell(*EACH, name, f"{scale:g}", seconds)
        if told := difference(sorted(rows), sorted(found["DuckDB"][name][1])):
            wrong.append(name)
            report.note(f"WRONG: {name} at SF {scale:g}: {told}")
    totals = {
        party: [sum(runs) for runs in zip(*(seconds for seconds, _ in answers.values()), strict=True)]
        for party, answers in found.items()
    }
    for party, total in totals.items():
        report.cell(*ALL, party, f"{scale:g}", total)
    ours, theirs = bytes_of(pair)
    sizes = f"{ours / 1e9:.2f} GB here, {theirs / 1e9:.2f} GB in DuckDB"
    report.note(f"SF {scale:g}: {sizes}; {median(totals['hypostyle']):.3g} s for all queries")
    peers = {"DuckDB": totals["DuckDB"]}
    report.add(Measurement(f"SF {scale:g}, 13 queries", totals["hypostyle"], peers, wrong=bool(wrong)))


def main(given: Namespace) -> None:
    report = Report("ssb_scale", given, "Star Schema Benchmark up to SF {sf:g}")
    report.note(f"memory: {f'{given.memory:g} GB for each system' if given.memory else 'no limit'}")
    for scale in given.scales:
        free = shutil.disk_usage(Path.home()).free
        # Data of one scale factor take about 0.5 GB in each database while they are made.
        if scale * 1e9 > free:
            report.note(f"SF {scale:g} is left out: it does not fit on the disk ({free / 1e9:.0f} GB free)")
            continue
        one_scale(report, given, scale)
    report.write()


def numbers(text: str) -> list[float]:
    return sorted({float(word) for word in text.split(",")})


def arguments() -> Namespace:
    parser = options(__doc__)
    parser.set_defaults(runs=3)
    parser.add_argument("--scales", type=numbers, help="scale factors (default SF/30, SF/10, SF/3, SF)")
    parser.add_argument("--memory", type=float, default=0, help="gigabytes of memory (default no limit)")
    given = parser.parse_args()
    if given.scales is None:
        given.scales = [given.sf / part for part in (30, 10, 3, 1)]
    return given


if __name__ == "__main__":
    try:
        main(arguments())
    except (PeerError, subprocess.SubprocessError) as error:
        sys.exit(str(error))
