"""DuckDB as a Quack server: `load DATABASE FILE…` creates its database from Arrow files, and `serve
DATABASE PORT TOKEN` serves it until standard input ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import pyarrow as pa
from duckdb_extensions import QUACK, load_extensions


def load(database: str, files: list[str]) -> None:
    with duckdb.connect(database) as connection:
        for file in map(Path, files):
            connection.register("source", pa.ipc.open_file(pa.memory_map(str(file))).read_all())
            connection.execute(f"CREATE TABLE {file.stem} AS FROM source")
            connection.unregister("source")


def serve(database: str, port: str, token: str) -> None:
    with duckdb.connect(database) as connection:
        load_extensions(connection, QUACK)
        connection.execute(f"CALL quack_serve('quack:localhost:{port}', token = '{token}')")
        sys.stdin.read()


if __name__ == "__main__":
    command, path, *rest = sys.argv[1:]
    if command == "load":
        load(path, rest)
    else:
        serve(path, *rest)
