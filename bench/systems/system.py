"""What every system can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa


@dataclass(frozen=True)
class Source:
    """A table to load: its rows as an Arrow file and as CSV, and the statement that creates it."""

    name: str
    arrow: str
    csv: str
    rows: int
    create: str

    def read(self) -> pa.Table:
        return pa.ipc.open_file(pa.memory_map(self.arrow)).read_all()

    def frame(self) -> pd.DataFrame:
        """Return the rows as a usual pandas frame: float64 for decimals, datetime64 for dates."""
        table = self.read()
        fields = []
        for field in table.schema:
            kind = pa.float64() if pa.types.is_decimal(field.type) else field.type
            fields.append(pa.field(field.name, pa.timestamp("us") if pa.types.is_date(kind) else kind))
        return table.cast(pa.schema(fields)).to_pandas()


# Keys of TPC-H: of each table its own, and what points to others. Row stores have indexes of both.
PRIMARY_KEYS = {
    "region": "r_regionkey",
    "nation": "n_nationkey",
    "supplier": "s_suppkey",
    "customer": "c_custkey",
    "part": "p_partkey",
    "partsupp": "ps_partkey, ps_suppkey",
    "orders": "o_orderkey",
    "lineitem": "l_orderkey, l_linenumber",
}
FOREIGN_KEYS = (
    ("nation", "n_regionkey", "region"),
    ("supplier", "s_nationkey", "nation"),
    ("customer", "c_nationkey", "nation"),
    ("partsupp", "ps_partkey", "part"),
    ("partsupp", "ps_suppkey", "supplier"),
    ("orders", "o_custkey", "customer"),
    ("lineitem", "l_orderkey", "orders"),
    ("lineitem", "l_partkey, l_suppkey", "partsupp"),
)


def index_statements() -> list[str]:
    """Return the statements that index all keys, for systems that do not by themselves."""
    primary = [f"CREATE UNIQUE INDEX {table}_key ON {table} ({key})" for table, key in PRIMARY_KEYS.items()]
    foreign = [f"CREATE INDEX {table}_to_{other} ON {table} ({key})" for table, key, other in FOREIGN_KEYS]
    return primary + foreign


class System:
    """A system with a database at a place, or at the address of its server."""

    def __init__(self, place: str, address: dict[str, Any]) -> None:
        self.place = Path(place)
        self.address = address

    def load(self, tables: Sequence[Source]) -> None:
        """Store all tables, with the indexes of their keys."""
        raise NotImplementedError

    def open(self) -> None:
        """Open the loaded database for queries on one thread."""
        raise NotImplementedError

    def run(self, name: str, sql: str) -> Any:
        """Answer a query: this is timed."""
        raise NotImplementedError

    def rows(self, name: str, sql: str, result: Any) -> Sequence[Sequence[Any]]:
        """Return the rows of an answer."""
        raise NotImplementedError

    def write(self, frame: pd.DataFrame) -> None:
        """Store a frame as the table `written` of a new database, durable at the end: this is timed."""
        raise NotImplementedError

    def read(self) -> pd.DataFrame:
        """Return all of lineitem: this is timed."""
        raise NotImplementedError

    def close(self) -> None:
        """Close what is open."""
