"""Measures the chapter's design space (Tables 3.3 to 3.9) with our own code, beside its figures.

`hypostyle-bench design-space` sends lineitem by each alternative, in Tables 3.3 and 3.6 also acs and
ontime of `protocol`; this script prints its results. The chapter sent SF 10 on another machine: compare
the shape of its columns with ours, not the seconds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from measure import Measurement, Report, cache_directory, made, measured_in_rust, quantity
from protocol.acs import acs
from protocol.data import LINEITEM, write_arrow
from protocol.ontime import ontime

# What the chapter measures beside lineitem in two of its tables.
DATA_SETS: dict[str, Callable[[float], pa.Table]] = {"acs": acs, "ontime": ontime}
OF_ANY_DATA = ("3.3", "3.6")

# One alternative as the binary records it.
Record = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """A table of the chapter: its subject, its columns, and its figures for our lines."""

    title: str
    heading: str
    figures: dict[str, str]


# The timed operations: links, and for files what is done to them.
WAYS = ("Local", "LAN", "WAN", "10 Mbit/s, a tenth", "compress", "decompress")

TABLES = {
    "3.3": Table(
        "chunk size, lineitem",
        "s, GB, ratio of Snappy",
        {
            "2 KB: columns + Snappy": "55.9, 6.56, 1.38",
            "10 KB: columns + Snappy": "15.2, 5.92, 1.80",
            "100 KB: columns + Snappy": "10.9, 5.81, 2.12",
            "1 MB: columns + Snappy": "10.0, 5.80, 2.25",
            "10 MB: columns + Snappy": "10.9, 5.80, 2.26",
            "100 MB: columns + Snappy": "13.3, 6.15, 2.23",
        },
    ),
    "3.4": Table(
        "a million rows of lineitem as one file",
        "MB, ratio",
        {
            "rows: LZ4": "57.0, 1.85",
            "rows: Snappy": "54.8, 1.92",
            "rows: GZIP": "38.1, 2.76",
            "rows: XZ": "28.1, 3.74",
            "columns: LZ4": "50.0, 2.10",
            "columns: Snappy": "47.8, 2.20",
            "columns: GZIP": "32.4, 3.24",
            "columns: XZ": "23.7, 4.44",
        },
    ),
    "3.5": Table(
        "compression against cost, lineitem",
        "s local, 1000, 100, 10 Mbit/s; MB",
        {
            "columns": "1.5, 10.4, 84.8, 848; 1012",
            "columns + Snappy": "3.3, 3.8, 37.3, 373; 447",
            "columns + LZ4": "4.5, 4.9, 38.4, 383; 456",
            "columns + GZIP": "59.8, 60.4, 59.6, 226; 272",
        },
    ),
    "3.6": Table(
        "the eight integer columns of lineitem",
        "s Local, LAN, WAN; MB",
        {
            "None": "5.3, 15.7, 159.0; 1844.2",
            "Binpack": "6.0, 8.0, 82.0; 944.1",
            "PFOR": "5.7, 8.1, 82.1; 948.0",
            "None + Snappy": "6.8, 12.3, 103.9; 1204.9",
            "Binpack + Snappy": "5.8, 7.5, 76.4; 882.0",
            "PFOR + Snappy": "5.7, 7.5, 77.5; 885.9",
        },
    ),
    "3.7": Table(
        "against Protocol Buffers, lineitem",
        "s Local, LAN, WAN; MB",
        {
            "columns": "10.3, 64.1, 498.9; 5943.3",
            "columns + Snappy": "18.3, 25.4, 221.4; 2637.4",
            "Protobuf rows": "33.1, 45.5, 391.6; 4656.1",
            "Protobuf rows + Snappy": "35.7, 47.3, 195.2; 2315.9",
        },
    ),
    "3.8": Table(
        "strings of one character, l_returnflag",
        "s; with Snappy s, ratio; MB before",
        {
            "varint prefix": "3.94; 114.54",
            "NUL-terminated": "3.95; 114.54",
            "VARCHAR(1)": "3.68; 57.34",
            "varint prefix + Snappy": "3.99, 3.37",
            "NUL-terminated + Snappy": "3.91, 3.37",
            "VARCHAR(1) + Snappy": "3.76, 2.84",
        },
    ),
    "3.9": Table(
        "longer strings, l_comment",
        "s; with Snappy s, ratio; GB before",
        {
            "NUL-terminated": "4.12; 1.53",
            "varint prefix": "4.24; 1.53",
            "VARCHAR(44)": "4.15; 2.46",
            "VARCHAR(100)": "5.07; 5.59",
            "VARCHAR(1000)": "16.71; 55.90",
            "VARCHAR(10000)": "171.55; 559.01",
            "NUL-terminated + Snappy": "6.09, 2.44",
            "varint prefix + Snappy": "6.63, 2.27",
            "VARCHAR(44) + Snappy": "7.66, 3.12",
            "VARCHAR(100) + Snappy": "10.13, 5.69",
            "VARCHAR(1000) + Snappy": "26.30, 15.32",
            "VARCHAR(10000) + Snappy": "216.23, 20.19",
        },
    ),
}


def measured(table: str, data: str, options: argparse.Namespace) -> list[Record]:
    size = ("--sf", str(options.sf), "--runs", str(options.runs))
    rows = () if data == LINEITEM else ("--rows", rows_of(data, options))
    return measured_in_rust("design-space", "--table", table, *size, *rows)["measured"]


def rows_of(data: str, options: argparse.Namespace) -> Path:
    """Return an Arrow file of a data set as the alternatives take it, made if it is missing."""
    place = cache_directory() / "data" / f"design-space-sf{options.sf:g}"
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{data}.arrow"
    if not path.exists():
        made(path, lambda path: write_arrow(path, without_nulls(DATA_SETS[data](options.sf))))
    return path


def without_nulls(table: pa.Table) -> pa.Table:
    """Return rows with a value of the domain for each NULL, as the chapter's MonetDB++ sends them: the least
    number, an empty string. Decimals are floats, which leaves integers to the codecs of integers.
    """
    columns = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        kind = field.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            columns[field.name] = pc.fill_null(column.cast(pa.large_string()), "")
        elif pa.types.is_integer(kind):
            wide = kind if kind.bit_width >= 32 else pa.int32()
            columns[field.name] = pc.fill_null(column.cast(wide), -(2 ** (wide.bit_width - 1)))
        elif pa.types.is_date32(kind):
            columns[field.name] = pc.fill_null(column, pa.scalar(0, pa.int32()).cast(pa.date32()))
        else:
            columns[field.name] = pc.fill_null(column.cast(pa.float64()), -sys.float_info.max)
    return pa.table(columns)


def ways_of(records: list[Record]) -> list[str]:
    """Return the columns of a table, in the chapter's order."""
    return [way for way in WAYS if way in records[0]["seconds"]]


def bytes_of(record: Record) -> int:
    """Return the bytes of all rows."""
    sizes = record["bytes"]
    return sizes["file"] if "file" in sizes else sizes["Local"]


def baseline(table: str, name: str) -> str:
    """Return the alternative for the ratio of bytes: the same one without codec or compression."""
    place, colon, alternative = name.rpartition(": ")
    if table == "3.4":
        return f"{place}: None"
    if alternative.startswith("Hypostyle"):
        _codec, comma, kind = alternative.partition(", ")
        return f"{place}{colon}Hypostyle none{comma}{kind}"
    return "None" if table == "3.6" else name.partition(" + ")[0]


def print_table(number: str, data: str, records: list[Record]) -> None:
    """Print one line for each alternative; a star marks the fastest of each column."""
    table = TABLES[number]
    by_name = {record["name"]: record for record in records}
    ways = ways_of(records)
    fastest = {way: min(median(record["seconds"][way]) for record in records) for way in ways}
    of_data = "" if data == LINEITEM else f", of {data}"
    print(f"\n  Table {number}: {table.title}{of_data}")
    heads = "".join(f"{way:>21}" for way in ways)
    extra = f"{'rows a chunk':>14}{'buffers':>12}" if number == "3.3" else ""
    print(f"  {'':<36}{heads}{'bytes':>14}{'ratio':>8}{extra}  chapter: {table.heading}")
    for name, record in by_name.items():
        cells = ""
        for way in ways:
            seconds = median(record["seconds"][way])
            star = "*" if seconds == fastest[way] and number != "3.4" else " "
            cells += f"{quantity(seconds, 's') + star:>21}"
        size = bytes_of(record)
        ratio = bytes_of(by_name[baseline(number, name)]) / size
        extra = ""
        if number == "3.3":
            buffers = f"{record['buffer_bytes'] / 1024:.0f} KiB"
            extra = f"{record['rows_per_chunk']:>14.0f}{buffers:>12}"
        figures = table.figures.get(name, "") if data == LINEITEM else ""
        line = f"  {name:<36}{cells}{quantity(size, 'bytes'):>14}{ratio:>8.2f}{extra}  {figures}"
        print(line.rstrip(), flush=True)


def keep(report: Report, number: str, data: str, records: list[Record]) -> None:
    """Record the samples; there is no bar and no peer, because all of it is our own code."""
    of_data = "" if data == LINEITEM else f"{data}: "
    for record in records:
        what = f"{number} {of_data}{record['name']}"
        for way, samples in record["seconds"].items():
            report.measurements.append(Measurement(f"{what}, {way}", samples))
        for way, size in record["bytes"].items():
            report.measurements.append(Measurement(f"{what}, {way}, sent", [size], unit="bytes"))
        if number == "3.3":
            buffers = [record["buffer_bytes"]]
            report.measurements.append(Measurement(f"{what}, buffers", buffers, unit="bytes"))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sf", type=float, default=0.1, help="TPC-H scale factor (default 0.1)")
    parser.add_argument("--runs", type=int, default=5, help="runs per measurement; the median counts")
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), help="some of the tables; not recorded")
    return parser.parse_args()


def main(options: argparse.Namespace) -> None:
    report = Report("design_space", options)
    report.note("one thread sends and one receives; over WAN at most 3 runs count, over 10 Mbit/s one")
    report.note("LAN: 1 Gbit/s, 0.3 ms; WAN: 100 Mbit/s, 25 ms; 10 Mbit/s: 25 ms, and a tenth of the rows")
    report.note("the chapter's figures are of SF 10, in Table 3.4 of a million rows")
    for number in options.tables or TABLES:
        for data in (LINEITEM, *DATA_SETS) if number in OF_ANY_DATA else (LINEITEM,):
            records = measured(number, data, options)
            print_table(number, data, records)
            keep(report, number, data, records)
    report.write_if(not options.tables)


if __name__ == "__main__":
    main(options())
