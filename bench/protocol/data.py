"""The data sets of the bench, each as an Arrow file and a CSV file that every party loads.

They have the types that any Arrow program would use: decimals of 128 bits, strings, 32-bit dates.
Each party chooses its own internal form.
"""

from __future__ import annotations

import hashlib
import shutil
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import hypostyle
import pyarrow as pa

from dataset import tpch
from measure import cache_directory, made
from protocol.acs import acs
from protocol.ontime import ontime

LINEITEM, TENTH, ACS, ONTIME = "lineitem", "lineitem_tenth", "acs", "ontime"
BATCH_ROWS = 1 << 16
DIGITS_MAX = 18  # of decimals that all parties have


@dataclass(frozen=True)
class Table:
    """One data set: its name in every database, and the files with its rows."""

    name: str
    label: str
    arrow: Path
    csv: Path
    rows: int
    schema: pa.Schema

    def read(self) -> pa.Table:
        """Return all rows, as a mapping of the file."""
        return pa.ipc.open_file(pa.memory_map(str(self.arrow))).read_all()


@dataclass(frozen=True)
class Data:
    """All data sets at one scale, and the directory where parties keep theirs."""

    directory: Path
    tables: dict[str, Table]

    def database(self, name: str, make: Callable[[Path], None]) -> Path:
        """Return a party's own database, created if missing; the name has the party's version."""
        path = self.directory / name
        made(path, make)
        return path


def data(options: Namespace, names: Sequence[str] = (LINEITEM, TENTH, ACS, ONTIME)) -> Data:
    """Return the data sets of these names at `options.sf`, created if missing."""
    generators = b"".join((Path(__file__).parent / name).read_bytes() for name in ("acs.py", "ontime.py"))
    version = hashlib.sha256(generators).hexdigest()[:8]
    place, name = cache_directory() / "data", f"protocol-sf{options.sf:g}-"
    directory = place / f"{name}{version}"
    if set(names) < {LINEITEM, TENTH, ACS, ONTIME}:
        # Parties keep databases with all tables of a directory.
        directory = place / f"{'-'.join(names)}-{name}{version}"
    for other in place.glob(f"{directory.name.removesuffix(version)}*"):
        if options.fresh or other != directory:
            shutil.rmtree(other)
    directory.mkdir(parents=True, exist_ok=True)
    scale = options.sf
    sources: dict[str, tuple[str, Callable[[], pa.Table]]] = {
        LINEITEM: (f"lineitem SF {scale:g}", lambda: _lineitem(scale)),
        TENTH: (f"lineitem SF {scale / 10:g}", lambda: _lineitem(scale / 10)),
        ACS: ("acs", lambda: acs(scale)),
        ONTIME: ("ontime", lambda: ontime(scale)),
    }
    return Data(directory, {name: _table(directory, name, *sources[name]) for name in names})


def own_data(path: Path) -> Data:
    """Return one's own rows, of a Parquet, CSV or Arrow file, under the name of lineitem. Columns of types
    that not all parties have are sent as text. Raise SystemExit for a file without rows that can be read.
    """
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        rows = _own_rows(path)
    except (OSError, pa.ArrowException, duckdb.Error) as error:
        raise SystemExit(f"{path}: {error}") from error
    if rows.num_rows == 0:
        raise SystemExit(f"{path} has no rows")
    directory = cache_directory() / "data" / f"own-{digest}"
    directory.mkdir(parents=True, exist_ok=True)
    return Data(directory, {LINEITEM: _table(directory, LINEITEM, path.name, lambda: rows)})


def _own_rows(path: Path) -> pa.Table:
    if path.suffix in (".arrow", ".feather"):
        rows = pa.ipc.open_file(path).read_all()
    else:
        with duckdb.connect() as connection:
            read = connection.read_parquet if path.suffix == ".parquet" else connection.read_csv
            rows = read(str(path)).to_arrow_table()
    fields = [pa.field(field.name, _sendable(field.type)) for field in rows.schema]
    return rows.cast(pa.schema(fields))


def _sendable(kind: pa.DataType) -> pa.DataType:
    """Return the type in which all parties can send a column."""
    if pa.types.is_integer(kind):
        return pa.int32() if kind.bit_width < 32 or kind == pa.int32() else pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    is_short = pa.types.is_decimal(kind) and kind.precision <= DIGITS_MAX
    return usual(kind) if is_short or pa.types.is_date32(kind) else pa.string()


def _table(directory: Path, name: str, label: str, rows: Callable[[], pa.Table]) -> Table:
    arrow, csv = directory / f"{name}.arrow", directory / f"{name}.csv"
    if not arrow.exists():
        print(f"generating {label} …", flush=True)
        made(arrow, lambda path: write_arrow(path, rows()))
    with pa.memory_map(str(arrow)) as file:
        table = pa.ipc.open_file(file).read_all()
        made(csv, lambda path: write_csv(path, table))
        return Table(name, label, arrow, csv, table.num_rows, table.schema)


def _lineitem(scale: float) -> pa.Table:
    with hypostyle.connect(tpch(scale).hypostyle, read_only=True) as source:
        table = source.table("lineitem").arrow()
    fields = [pa.field(field.name, usual(field.type), nullable=False) for field in table.schema]
    return table.cast(pa.schema(fields))


def usual(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale)
    return pa.string() if pa.types.is_dictionary(kind) or pa.types.is_large_string(kind) else kind


def write_arrow(path: Path, table: pa.Table) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=BATCH_ROWS)


def write_csv(path: Path, table: pa.Table) -> None:
    with duckdb.connect() as connection:
        connection.register("source", table)
        connection.execute(f"COPY source TO '{path}' (FORMAT csv, HEADER false)")
