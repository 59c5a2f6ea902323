"""Data of TPC-H and of the Star Schema Benchmark for the benches and the demo, kept in the cache
directory from run to run.

Data is reused only if it is complete, and ours only if the same build has written it: a directory
gets its final name after its last byte is written.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import hypostyle
from hypostyle import _native

from measure import REPOSITORY, cache_directory, made

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
SSB_TABLES = ("date", "supplier", "customer", "part", "lineorder")
QUERIES = REPOSITORY / "crates" / "tpch" / "src" / "queries"


@dataclass(frozen=True)
class Dataset:
    """One scale factor of TPC-H, in the form of each party."""

    hypostyle: Path
    duckdb: Path
    csv: Path


@dataclass(frozen=True)
class Pair:
    """The same tables here and in DuckDB."""

    hypostyle: Path
    duckdb: Path


def directory(scale_factor: float, benchmark: str = "tpch") -> Path:
    return cache_directory() / "data" / f"{benchmark}-sf{scale_factor:g}"


def queries() -> dict[str, str]:
    """Return the 22 queries by name: `q01` … `q22`."""
    return {path.stem: path.read_text() for path in sorted(QUERIES.glob("q*.sql"))}


def ssb_queries() -> dict[str, str]:
    """Return the 13 queries of the Star Schema Benchmark by name: `q1.1` … `q4.3`."""
    return {path.stem: path.read_text() for path in sorted((QUERIES / "ssb").glob("q*.sql"))}


def tpch(scale_factor: float, fresh: bool = False, with_csv: bool = True) -> Dataset:
    """Return the data at this scale factor; it is generated if it is missing or out of date.

    The CSV file of lineitem may be left out: at scale factor 10 it has 7.5 GB.
    """
    place = directory(scale_factor)
    pair = _pair(place, f"CALL tpch_generate(sf => {scale_factor:g})", TABLES, fresh)
    dataset = Dataset(hypostyle=pair.hypostyle, duckdb=pair.duckdb, csv=place / "lineitem.csv")
    if with_csv and not dataset.csv.exists():
        print("writing lineitem as CSV …", flush=True)
        made(dataset.csv, lambda path: write_csv(path, dataset.duckdb))
    return dataset


def ssb(scale_factor: float, fresh: bool = False) -> Pair:
    """Return the tables of the Star Schema Benchmark at this scale factor."""
    place = directory(scale_factor, "ssb")
    return _pair(place, f"CALL ssb_generate(sf => {scale_factor:g})", SSB_TABLES, fresh)


def operators(scale_factor: float, fresh: bool = False) -> Pair:
    """Return the tables `many`, of six million rows at a scale factor of 1, and `few`, of a sixth."""
    rows = round(6_000_000 * scale_factor)
    many = f"""CREATE TABLE many AS SELECT value AS id, value * 2654435761 % 4294967291 AS v,
        (value * 48271 % 1500007)::INTEGER AS g, (value * 69621 % 100003)::INTEGER AS p,
        (value * 16807 % 53)::INTEGER AS w, (value * 40692 % 50 + 1)::INTEGER AS q,
        chr((65 + value % 26)::INTEGER) AS f,
        'the customer with the number ' || (value * 48271 % 500009) || ' of the region ' || (value % 25) AS s,
        (value * 39373 % 1000003) / 1000.0::DOUBLE AS d
        FROM generate_series(1, {rows}) AS g (value)"""
    few = f"""CREATE TABLE few AS SELECT (value * 31 % 100003)::INTEGER AS p,
        (value * 40692 % 50 + 1)::INTEGER AS q FROM generate_series(1, {rows // 6}) AS g (value)"""
    return _pair(directory(scale_factor, "operators"), f"{many}; {few}", ("many", "few"), fresh)


def _pair(place: Path, call: str, tables: Sequence[str], fresh: bool) -> Pair:
    if fresh:
        shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True, exist_ok=True)
    pair = Pair(hypostyle=place / f"{_build()}.hypo", duckdb=place / f"{duckdb.__version__}.duckdb")
    if not pair.hypostyle.exists():
        for outdated in place.glob("*.hypo"):
            shutil.rmtree(outdated)
        print(f"generating {place.name} …", flush=True)
        made(pair.hypostyle, lambda path: _generate(path, call))
    if not pair.duckdb.exists():
        print("loading it into DuckDB …", flush=True)
        with hypostyle.connect(pair.hypostyle, read_only=True) as source:
            made(pair.duckdb, lambda path: load_duckdb(path, source, tables))
    return pair


def load_duckdb(path: Path, source: Any, tables: Sequence[str] = TABLES) -> None:
    """Create a DuckDB file with tables of our connection `source`."""
    with duckdb.connect(path) as peer:
        for table in tables:
            peer.register("source", source.table(table).arrow())
            peer.execute(f"CREATE TABLE {table} AS FROM source")
            peer.unregister("source")
        peer.execute("CHECKPOINT")


def write_csv(path: Path, source: Path) -> None:
    """Write lineitem of a DuckDB file as CSV without a header."""
    with duckdb.connect(source, read_only=True) as peer:
        peer.execute(f"COPY lineitem TO '{path}' (FORMAT csv, HEADER false)")


def _build() -> str:
    """Return the name of the installed build of Hypostyle."""
    with Path(_native.__file__).open("rb") as library:
        return hashlib.file_digest(library, "sha256").hexdigest()[:16]


def _generate(path: Path, call: str) -> None:
    with hypostyle.connect(path) as connection:
        connection.sql(call)
