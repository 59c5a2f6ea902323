"""DuckDB's extensions, from the Python packages that carry them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import duckdb
import duckdb_extension_httpfs
import duckdb_extension_postgres_scanner
import duckdb_extension_quack

QUACK = (duckdb_extension_httpfs, duckdb_extension_quack)
POSTGRES = (duckdb_extension_postgres_scanner,)


def load_extensions(connection: duckdb.DuckDBPyConnection, packages: tuple[ModuleType, ...]) -> None:
    for package in packages:
        for extension in Path(package.__file__).parent.rglob("*.duckdb_extension"):
            connection.execute(f"LOAD '{extension}'")
