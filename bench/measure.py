"""Measures engines side by side, compares them with bars, and records the results.

Every measurement is the median of several runs in one process or one alternating series, and every
ratio is between numbers of the same run. A ratio is always peer / hypostyle: above 1 we are ahead.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
# The records of the repository, and where this run writes: `report` has a directory for each of its runs.
RECORDS = REPOSITORY / "bench" / "results"
RESULTS = Path(os.environ.get("HYPOSTYLE_RESULTS") or RECORDS)


def cache_directory() -> Path:
    """Return the directory of scratch data; scripts/env.sh names it."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("HYPOSTYLE_CACHE") or home / "hypostyle")


def options(description: str | None) -> argparse.ArgumentParser:
    """Return the options that all benches have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--sf", type=float, default=1.0, help="TPC-H scale factor (default 1)")
    parser.add_argument("--runs", type=int, default=5, help="runs per measurement; the median counts")
    parser.add_argument("--fresh", action="store_true", help="make the scratch data anew")
    return parser


def made(path: Path, make: Callable[[Path], None]) -> None:
    """Create a file or directory that only gets its name when it is complete."""
    if path.exists():
        return
    unfinished = path.with_name(f"unfinished-{path.name}")
    if unfinished.is_dir():
        shutil.rmtree(unfinished)
    unfinished.unlink(missing_ok=True)
    make(unfinished)
    unfinished.rename(path)


def measured_in_rust(*arguments: str | Path) -> Any:
    """Return the output of a subcommand of `hypostyle-bench`."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or cache_directory() / "target")
    with tempfile.NamedTemporaryFile(suffix=".json") as output:
        program = target / "release" / "hypostyle-bench"
        subprocess.run([program, *arguments, "--json", output.name], check=True)
        return json.load(output)


def arguments(description: str | None) -> argparse.Namespace:
    return options(description).parse_args()


def query_options(description: str | None) -> argparse.Namespace:
    """Return the options of a bench of queries."""
    parser = options(description)
    parser.add_argument("--memory-limit", help="the memory of each engine's queries, as 4GB (default theirs)")
    parser.add_argument("--first-runs", action="store_true", help="measure fresh processes, too")
    return parser.parse_args()


def timed(work: Callable[..., Any], *inputs: Any) -> tuple[float, Any]:
    """Return the seconds of `work`, and its result; earlier garbage is collected before."""
    gc.collect()
    start = time.perf_counter()
    result = work(*inputs)
    return time.perf_counter() - start, result


def timed_with_cpu(work: Callable[..., Any], *inputs: Any) -> tuple[float, float]:
    """Return the seconds of `work` on the clock, and those of all threads of this process."""
    cpu = time.process_time()
    seconds, _ = timed(work, *inputs)
    return seconds, time.process_time() - cpu


@dataclass
class Times:
    """The runs of one query on one engine."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def run(self, work: Callable[..., Any], *inputs: Any) -> None:
        wall, cpu = timed_with_cpu(work, *inputs)
        self.wall.append(wall)
        self.cpu.append(cpu)


@dataclass(frozen=True)
class Bar:
    """The bar of an issue: at most a value, at least a ratio to `peer`, or both."""

    at_most: float | None = None
    ratio_min: float | None = None
    peer: str = "DuckDB"


@dataclass
class Measurement:
    """One line of a report: samples of ours and of each peer, in `unit`."""

    what: str
    ours: list[float]
    peers: dict[str, list[float]] = field(default_factory=dict)
    bar: Bar | None = None
    unit: str = "s"
    wrong: bool = False  # a wrong answer passes no bar, however quick

    def ratio(self, peer: str) -> float:
        return median(self.peers[peer]) / max(median(self.ours), 1e-9)

    def verdict(self) -> str:
        if self.wrong:
            return "WRONG"
        if self.bar is None:
            return ""
        if self.bar.ratio_min is not None and self.bar.peer not in self.peers:
            return "NO PEER"
        within = self.bar.at_most is None or median(self.ours) <= self.bar.at_most
        ahead = self.bar.ratio_min is None or self.ratio(self.bar.peer) >= self.bar.ratio_min
        return "PASS" if within and ahead else "MISS"

    def bar_text(self) -> str:
        if self.bar is None:
            return ""
        limits = []
        if self.bar.at_most is not None:
            limits.append(f"≤ {quantity(self.bar.at_most, self.unit)}")
        if self.bar.ratio_min is not None:
            limits.append(f"≥ {self.bar.ratio_min:g}× {self.bar.peer}")
        return ", ".join(limits)

    def record(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "unit": self.unit,
            "hypostyle": {"median": median(self.ours), "samples": self.ours},
            "peers": {
                name: {"median": median(samples), "ratio": self.ratio(name), "samples": samples}
                for name, samples in self.peers.items()
            },
            "bar": self.bar_text() or None,
            "verdict": self.verdict() or None,
        }


class Report:
    """The measurements of one bench: printed as they come, written as JSON at the end. What there is after
    each of them is in `NAME.unfinished`, which stays if the bench ends before.
    """

    def __init__(self, name: str, options: argparse.Namespace, what: str = "TPC-H SF {sf:g}") -> None:
        self.name = name
        self.options = options
        self.measurements: list[Measurement] = []
        self.notes: list[str] = []
        self.details: dict[str, Any] = {}
        self.cells: list[dict[str, Any]] = []
        self.versions = _versions()
        self._heading: tuple[str, ...] | None = None
        of = what.format(**vars(options))
        print(f"\nbench/{name}: {of}, median of {options.runs}", flush=True)

    def add(self, measurement: Measurement) -> None:
        self.measurements.append(measurement)
        heading = tuple(measurement.peers)
        if heading != self._heading:
            self._heading = heading
            print("\n" + _line("", "hypostyle", [(name, "ratio") for name in heading], "bar", ""))
        print(
            _line(
                measurement.what,
                quantity(median(measurement.ours), measurement.unit),
                [
                    (quantity(median(samples), measurement.unit), f"{measurement.ratio(name):.2f}×")
                    for name, samples in measurement.peers.items()
                ],
                measurement.bar_text(),
                measurement.verdict(),
            ),
            flush=True,
        )
        self._keep()

    def note(self, text: str) -> None:
        """Record a fact that no number carries, for the reader and for the record."""
        self.notes.append(text)
        print(f"  {text}", flush=True)

    def cell(
        self, experiment: str, panel: str, row: str, column: str, samples: Sequence[float], mark: str = ""
    ) -> None:
        """Record a value of a figure of the papers (bench/report/papers.toml): its samples, in seconds or
        bytes, or a mark in their place: "T" for a timeout, "E" for an end without memory.
        """
        place = {"experiment": experiment, "panel": panel, "row": row, "column": column}
        self.cells.append({**place, "samples": list(samples), "mark": mark})

    def write_if(self, complete: bool) -> None:
        """Write a run of all parts. One of some parts becomes no record of the repository."""
        if complete or RESULTS != RECORDS:
            self.write()
        else:
            self._path().with_suffix(".unfinished").unlink(missing_ok=True)
            print("\n  not written: only a run of all parts is a record")

    def _path(self) -> Path:
        return RESULTS / f"{self.name}.json"

    def _keep(self) -> Path:
        """Write what there is under another name; return where."""
        RESULTS.mkdir(parents=True, exist_ok=True)
        record = {
            "bench": self.name,
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "scale_factor": self.options.sf,
            "runs": self.options.runs,
            "commit": commit(),
            "machine": machine(),
            "versions": self.versions,
            "measurements": [measurement.record() for measurement in self.measurements],
            "notes": self.notes,
            **({"cells": self.cells} if self.cells else {}),
            **self.details,
        }
        unfinished = self._path().with_suffix(".unfinished")
        unfinished.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
        return unfinished

    def write(self) -> None:
        path = self._path()
        self._keep().replace(path)
        verdicts = [measurement.verdict() for measurement in self.measurements]
        print(
            f"\n  {verdicts.count('PASS')} bars passed, {verdicts.count('MISS')} missed,"
            f" {verdicts.count('NO PEER')} without their peer,"
            f" {verdicts.count('WRONG')} lines with wrong answers; written to {path}"
        )


def of_scale(bench: str, options: argparse.Namespace) -> str:
    """Return the name of a bench whose results are kept for each scale factor: `tpch`, `tpch_sf10_4GB`."""
    of_sf = bench if options.sf == 1 else f"{bench}_sf{options.sf:g}"
    return f"{of_sf}_{options.memory_limit}" if options.memory_limit else of_sf


def quantity(value: float, unit: str) -> str:
    """Format a number with its unit, at three significant digits: `1.23 ms`, `45.6 MiB`."""
    if unit == "bytes":
        return f"{value / 2**20:.1f} MiB" if value >= 2**20 else f"{value / 2**10:.1f} KiB"
    for factor, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= factor or name == "µs":
            scaled = value / factor
            return f"{scaled:.{2 if scaled < 10 else 1 if scaled < 100 else 0}f} {name}"
    raise AssertionError("unreachable: the last unit takes every value")


def _line(what: str, ours: str, peers: list[tuple[str, str]], bar: str, verdict: str) -> str:
    cells = "".join(f"{time:>22}{ratio:>9}" for time, ratio in peers)
    return f"  {what:<48}{ours:>11}{cells}  {bar:<24}{verdict}".rstrip()


def output_of(*command: str) -> str:
    """Return what a command prints, called in the repository; nothing if it fails."""
    completed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return completed.stdout.strip()


def commit() -> str:
    """Return the measured commit; the results themselves do not make it dirty."""
    commit = output_of("git", "rev-parse", "HEAD") or "none"
    changes = output_of("git", "status", "--porcelain", "--", ".", ":!bench/results")
    return f"{commit} with uncommitted changes" if changes else commit


def machine() -> dict[str, Any]:
    """Return what is known of this machine that may change a measurement."""
    processor = Path("/proc/cpuinfo").read_text().partition("model name\t: ")[2].partition("\n")[0]
    return {
        "processor": processor or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "governor": _first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "not told",
        "virtualized": "yes" if "hypervisor" in Path("/proc/cpuinfo").read_text() else "not told",
        "memory_limit": _memory_limit(),
        "disk": _file_system(cache_directory()),
    }


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text().partition("\n")[0]
    except OSError:
        return ""


def _memory_limit() -> str:
    """Return the bytes that the control group of this process may have, or that there is no limit."""
    places = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
    limit = next(filter(None, map(_first_line, places)), "max")
    return limit if limit.isdigit() and int(limit) < 2**60 else "none"


def _file_system(path: Path) -> str:
    """Return the kind and the device of the file system that a path is on."""
    path.mkdir(parents=True, exist_ok=True)
    *_, device, kind = output_of("df", "--output=source,fstype", str(path)).split() or ("", "unknown")
    return f"{kind} on {device}" if device else kind


def _versions() -> dict[str, str]:
    packages = ("hypostyle", "duckdb", "pyarrow", "numpy", "pandas", "polars")
    return {
        "python": platform.python_version(),
        "rustc": output_of("rustc", "--version"),
        **{package: version(package) for package in packages},
    }
