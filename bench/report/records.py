"""Records of the benches as cells: what stands in which row and column of which panel.

Benches that were written for a figure record its cells themselves (`measure.Report.cell`). The lines of the
others are read here, each by its own function.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from measure import REPOSITORY
from report.steps import RUNS

OURS = "hypostyle"
# PostgreSQL with our extension, which stands for the chapter's implementation in PostgreSQL.
OURS_IN_POSTGRESQL = ("PostgreSQL++", "PostgreSQL++C", "PostgreSQL++, auto")
OWN = (OURS, *OURS_IN_POSTGRESQL)
NETWORKS = ("Local", "LAN", "WAN")
UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
SF10_FROM = 5  # records of this scale or a larger one stand beside the paper's SF 10
WAYS_3_5 = {
    "Local": "Local",
    "LAN": "1 Gbit/s",
    "WAN": "100 Mbit/s",
    "10 Mbit/s, a tenth": "10 Mbit/s",
}
METHODS_3_4 = ("LZ4", "Snappy", "GZIP", "XZ")
PEERS_OF_R = {"RSQLite": "SQLite", "RPostgreSQL": "PostgreSQL"}
# What is measured: commits to anything else make no record older.
PRODUCT = ("crates", "bindings", "bench/src", "Cargo.toml", "Cargo.lock")
UNCOMMITTED = " with uncommitted changes"


@dataclass(frozen=True)
class Cell:
    """One measured value: its samples, or a mark ("T", "E") in their place."""

    experiment: str
    panel: str
    row: str
    column: str
    samples: list[float] = field(default_factory=list)
    mark: str = ""

    @property
    def median(self) -> float:
        return median(self.samples)


@dataclass(frozen=True)
class Record:
    """What one run of one bench has written."""

    path: Path
    content: dict[str, Any]
    cells: list[Cell]

    @property
    def bench(self) -> str:
        return self.path.stem

    @property
    def when(self) -> str:
        return str(self.content["when"])

    @property
    def commit(self) -> str:
        return str(self.content["commit"]).removesuffix(UNCOMMITTED)

    @property
    def is_dirty(self) -> bool:
        return str(self.content["commit"]).endswith(UNCOMMITTED)

    @property
    def machine(self) -> dict[str, Any]:
        return self.content["machine"]

    @property
    def is_wrong(self) -> bool:
        """Whether a line of it has a wrong answer."""
        return any(line.get("verdict") == "WRONG" for line in self.content["measurements"])

    def cells_of(self, experiment: str) -> list[Cell]:
        return [cell for cell in self.cells if cell.experiment == experiment]


class RecordError(Exception):
    """A file is no record."""


def read(directory: Path) -> list[Record]:
    """Return all records of a directory, by name; raise RecordError for a file that is none."""
    return [read_file(path) for path in sorted(directory.glob("*.json")) if path.name != RUNS]


def read_file(path: Path) -> Record:
    try:
        content = json.loads(path.read_text())
        reader = _own_cells if "cells" in content else READERS.get(content["bench"], _own_cells)
        record = Record(path, content, list(reader(content)))
        median([len(record.when), len(record.commit), record.machine["cores"]])
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{path} is no record of a bench: {type(error).__name__}: {error}") from error
    return record


@cache
def commits_behind(commit: str) -> int | None:
    """Return how many commits have changed what is measured since a commit; None if it is unknown."""
    command = ["git", "rev-list", "--count", f"{commit}..HEAD", "--", *PRODUCT]
    found = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return int(found.stdout) if found.returncode == 0 else None


# The readers, by bench ------------------------------------------------------------------------------


def _own_cells(content: dict[str, Any]) -> Iterator[Cell]:
    for cell in content.get("cells", []):
        yield Cell(**cell)


def _samples(line: dict[str, Any]) -> list[float]:
    return line["hypostyle"]["samples"]


def _lines(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {line["what"]: line for line in content["measurements"]}


def _protocol(content: dict[str, Any]) -> Iterator[Cell]:
    figures = {"lineitem": "CP-T3.10", "acs": "CP-T3.11", "ontime": "CP-T3.12"}
    line_of = re.compile(r"(Local|LAN|WAN), (lineitem|acs|ontime)[^:]*: (.+?)(?: \(\d+×\))?")
    seen = set()
    for line in content["measurements"]:
        found = line_of.fullmatch(line["what"])
        if found is None or "peer" not in line["peers"]:
            continue
        network, table, peer = found.groups()
        if (network, table) not in seen:
            seen.add((network, table))
            yield Cell(figures[table], "Time", OURS, network, _samples(line))
        yield Cell(figures[table], "Time", peer, network, line["peers"]["peer"]["samples"])
    carried = re.compile(r"LAN, (lineitem|acs|ontime)[^,]*, carried to the client: (.*)")
    size_of = re.compile(r"(.+?) ([0-9.]+) (KiB|MiB|GiB)(?:, |$)")
    for note in content["notes"]:
        if found := carried.fullmatch(note):
            for party, number, unit in size_of.findall(found[2]):
                yield Cell(figures[found[1]], "Size", party, "size", [float(number) * UNITS[unit]])


def _design_space(content: dict[str, Any]) -> Iterator[Cell]:
    tables: dict[tuple[str, str], dict[str, dict[str, list[float]]]] = {}
    line_of = re.compile(r"(3\.\d) (?:(lineitem|acs|ontime): )?(.+)")
    ways = ("10 Mbit/s, a tenth", "Local", "LAN", "WAN", "compress", "decompress", "file")
    for line in content["measurements"]:
        found = line_of.fullmatch(line["what"])
        if found is None:
            continue
        number, data, rest = found[1], found[2] or "lineitem", found[3]
        rest, is_size = rest.removesuffix(", sent"), rest.endswith(", sent")
        way = next((way for way in ways if rest.endswith(f", {way}")), None)
        if way is not None:
            table = tables.setdefault((number, data), {})
            what = f"{way}, sent" if is_size else way
            table.setdefault(rest.removesuffix(f", {way}"), {})[what] = _samples(line)
    for (number, data), table in tables.items():
        yield from DESIGN_SPACE[number](data, table)


Alternatives = dict[str, dict[str, list[float]]]


def _sent(values: dict[str, list[float]]) -> float:
    return next(samples[0] for what, samples in values.items() if what.endswith(", sent"))


def _chunk_sizes(data: str, table: Alternatives) -> Iterator[Cell]:
    for name, values in table.items():
        size, _, alternative = name.partition(": ")
        if alternative == "columns":
            yield Cell("CP-T3.3", f"{data}, time", size, "Local", values["Local"])
            ratio = _sent(values) / _sent(table[f"{size}: columns + Snappy"])
            yield Cell("CP-T3.3", f"{data}, ratio of Snappy", size, "ratio", [ratio])


def _files(_data: str, table: Alternatives) -> Iterator[Cell]:
    for name, values in table.items():
        layout, _, method = name.partition(": ")
        if method in METHODS_3_4:
            ratio = _sent(table[f"{layout}: None"]) / _sent(values)
            yield Cell("CP-T3.4", "Ratio of compression", layout, method, [ratio])


def _compressions(_data: str, table: Alternatives) -> Iterator[Cell]:
    for name, values in table.items():
        row = "None" if name == "columns" else name.removeprefix("columns + ")
        for way, column in WAYS_3_5.items():
            if way in values:
                yield Cell("CP-T3.5", "Time", row, column, values[way])
        yield Cell("CP-T3.5", "Size", row, "size", values["Local, sent"])


def _integers(data: str, table: Alternatives) -> Iterator[Cell]:
    for name, values in table.items():
        for network in NETWORKS:
            yield Cell("CP-T3.6", f"{data}, time", name, network, values[network])
        yield Cell("CP-T3.6", f"{data}, size", name, "size", values["Local, sent"])


def _serializations(_data: str, table: Alternatives) -> Iterator[Cell]:
    for name, values in table.items():
        row = name.replace("columns", "Custom", 1) if name.startswith("columns") else name
        for network in NETWORKS:
            yield Cell("CP-T3.7", "Time", row, network, values[network])
        yield Cell("CP-T3.7", "Size", row, "size", values["Local, sent"])


def _strings(figure: str) -> Callable[[str, Alternatives], Iterator[Cell]]:
    def cells(_data: str, table: Alternatives) -> Iterator[Cell]:
        for name, values in table.items():
            row, column = (
                name.removesuffix(" + Snappy"),
                "Snappy" if name.endswith(" + Snappy") else "plain",
            )
            yield Cell(figure, "Time", row, column, values["Local"])
            if column == "plain":
                yield Cell(figure, "Size", row, "size", values["Local, sent"])

    return cells


DESIGN_SPACE: dict[str, Callable[[str, Alternatives], Iterator[Cell]]] = {
    "3.3": _chunk_sizes,
    "3.4": _files,
    "3.5": _compressions,
    "3.6": _integers,
    "3.7": _serializations,
    "3.8": _strings("CP-T3.8"),
    "3.9": _strings("CP-T3.9"),
}


def _cluster(content: dict[str, Any]) -> Iterator[Cell]:
    lines = _lines(content)
    for what, line in lines.items():
        if found := re.fullmatch(r"one worker, SF (\S+)", what):
            yield Cell("PD-F4", "Time of all queries", OURS, found[1], _samples(line))
        elif found := re.fullmatch(r"speedup, (\d+) workers", what):
            yield Cell(
                "PD-F5", "Speedup", OURS, found[1], _faster(line["peers"]["fewest"], line["hypostyle"])
            )
            alone = lines.get("alone, 1/1 of the rows")
            share = lines.get(f"alone, 1/{found[1]} of the rows")
            if alone and share:
                ceiling = _faster(alone["hypostyle"], share["hypostyle"])
                yield Cell("PD-F5", "Speedup", "workers alone: the ceiling", found[1], ceiling)
        elif found := re.fullmatch(r"scaleup, (\d+) workers, SF \S+", what):
            yield Cell(
                "PD-F6", "Scaleup", OURS, found[1], _faster(line["peers"]["fewest"], line["hypostyle"])
            )
    for run in content["queries"]:
        if run["workers"] == 1:
            for name, query in run["queries"].items():
                column = f"{run['scale_factor']:g}"
                yield Cell("PD-F3", "Time of each query", name, column, query["samples"])


def _faster(slow: dict[str, Any], fast: dict[str, Any]) -> list[float]:
    """Return how many times as fast each run is as the median of others."""
    return [slow["median"] / sample for sample in fast["samples"]]


def _r(content: dict[str, Any]) -> Iterator[Cell]:
    scale = "SF 10" if content["scale_factor"] >= SF10_FROM else "SF 1"
    places = {
        "Figure 5: lineitem → dbWriteTable()": ("ML-F5", "Write", "write"),
        "Figure 6: dbReadTable() → lineitem": ("ML-F6", "Read", "have"),
        "Figure 6: dbReadTable(), touched": ("ML-F6", "Read", "touch"),
        "Figure 7: in all": ("ML-F7", "Load", "in all"),
        "Figure 8: all statistics": ("ML-F8", "All statistics", "all statistics"),
        "Table 1: Q1 to Q10": ("ML-T1", scale, "total"),
        **{f"Table 1: Q{number}": ("ML-T1", scale, f"Q{number}") for number in range(1, 11)},
    }
    for what, line in _lines(content).items():
        if what in places:
            experiment, panel, column = places[what]
            yield Cell(experiment, panel, OURS, column, _samples(line))
            for peer, samples in line["peers"].items():
                row = PEERS_OF_R.get(peer, peer)
                yield Cell(experiment, panel, row, column, samples["samples"])
    for each in content["unfinished"]:
        if found := re.fullmatch(r"q(\d+)", each["what"]):
            row = PEERS_OF_R.get(each["system"], each["system"])
            for column in (f"Q{int(found[1])}", "total"):
                yield Cell("ML-T1", scale, row, column, mark=each["mark"])


def _append(content: dict[str, Any]) -> Iterator[Cell]:
    line = _lines(content)["Arrow → durable table, time"]
    yield Cell("ML-F5", "Write", OURS, "write", _samples(line))
    yield Cell("ML-F5", "Write", "DuckDB", "write", line["peers"]["DuckDB"]["samples"])


def _export(content: dict[str, Any]) -> Iterator[Cell]:
    lines = _lines(content)
    for what, column, peer in (("", "have", "DuckDB"), (", touched", "touch", "DuckDB touched")):
        line = lines[f"lineitem → df(){what}"]
        yield Cell("ML-F6", "Read", OURS, column, _samples(line))
        yield Cell("ML-F6", "Read", "DuckDB", column, line["peers"][peer]["samples"])


READERS: dict[str, Callable[[dict[str, Any]], Iterator[Cell]]] = {
    "protocol": _protocol,
    "design_space": _design_space,
    "cluster": _cluster,
    "r": _r,
    "append": _append,
    "export": _export,
}
