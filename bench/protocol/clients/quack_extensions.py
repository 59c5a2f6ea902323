"""The DuckDB extensions that Quack needs, from the Python packages that carry them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import duckdb_extension_httpfs
import duckdb_extension_quack


def load_extensions(connection: duckdb.DuckDBPyConnection) -> None:
    for package in (duckdb_extension_httpfs, duckdb_extension_quack):
        for extension in Path(package.__file__).parent.rglob("*.duckdb_extension"):
            connection.execute(f"LOAD '{extension}'")
