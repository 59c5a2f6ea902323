"""PostgreSQL: libpq with text, as nearly all its clients; COPY with the binary format; ADBC, ConnectorX and
DuckDB's scanner, which convert that to columns; psycopg, which makes Python's objects. And our client: with
our extension in the server, and without.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from measure import cache_directory
from protocol.data import Data, Table
from protocol.networks import Path as NetworkPath
from protocol.peers.peer import Peer, Transfer, Way, transfer
from protocol.peers.sql import create_table
from protocol.processes import (
    ANSWER_SECONDS_MAX,
    Client,
    PeerError,
    accepts,
    environment,
    free_port,
    run,
    running,
    unprivileged,
    wait_until,
)

# A copy of the system's server with our extension, made by scripts/setup_peers.sh. Bookworm has version 15.
COPIES = cache_directory().glob("postgresql-*/usr/lib/postgresql/*/bin")
PROGRAMS = max(COPIES, default=cache_directory() / "postgresql-15/usr/lib/postgresql/15/bin")
VERSION = PROGRAMS.parent.name
USER = "bench"
DATABASE = "postgres"
# This is enough to keep all data in memory; loading need not be safe.
SETTINGS = {"shared_buffers": "2GB", "max_wal_size": "4GB", "fsync": "off", "listen_addresses": "127.0.0.1"}
NO_GSSAPI = "gssencmode=disable"
LIBPQ, COPY = "PostgreSQL, libpq text", "PostgreSQL, COPY binary"
ADBC, CONNECTORX = "PostgreSQL, ADBC", "PostgreSQL, ConnectorX"
SCANNER, PSYCOPG = "PostgreSQL, DuckDB's scanner", "PostgreSQL, psycopg"
# Our client: columns as they are, compressed, and as the client chooses by itself; and without the extension.
PLAIN, COMPRESSED, CHOSEN = "PostgreSQL++", "PostgreSQL++C", "PostgreSQL++, auto"
WITHOUT = "PostgreSQL, our client"
OF_OURS = {
    PLAIN: "transfer=columns&codec=none",
    COMPRESSED: "transfer=columns&codec=zstd",
    CHOSEN: "transfer=columns",
    WITHOUT: "transfer=copy",
}


# The clients of others: their scripts, and the environments that have them.
CLIENTS: dict[str, tuple[str, str | None]] = {
    LIBPQ: ("libpq_client.py", None),
    ADBC: ("adbc_client.py", "venv-peers"),
    CONNECTORX: ("connectorx_client.py", "venv-peers"),
    SCANNER: ("duckdb_scanner_client.py", "venv-quack"),
    PSYCOPG: ("psycopg_client.py", "venv-peers"),
}


class PostgreSQL(Peer):
    name = "PostgreSQL"

    def start(self, data: Data) -> None:
        if not (PROGRAMS / "postgres").exists():
            raise PeerError(f"PostgreSQL {VERSION} is not installed; run scripts/setup_peers.sh")
        self.port = free_port()
        cluster = data.database(f"postgresql-{VERSION}", lambda path: self._load(path, data))
        self.server = self.cleanup.enter_context(self._serving(cluster))
        self.ours = self.client("hypostyle_client.py")
        self.clients: dict[str, Client] = {}
        for name, (script, python) in CLIENTS.items():
            with self._unless_missing(name):
                self.clients[name] = self.client(script, environment(python) if python else None)
        with self._unless_missing(PLAIN, COMPRESSED, CHOSEN):
            self._psql(self.address(None), "CREATE EXTENSION IF NOT EXISTS hypostyle")

    @contextlib.contextmanager
    def _unless_missing(self, *names: str) -> Iterator[None]:
        """Do without some ways if what they need is not there: the others are measured."""
        try:
            yield
        except PeerError as error:
            self.missing |= dict.fromkeys(names, str(error))

    def ways(self) -> list[Way]:
        ways: dict[str, Callable[[NetworkPath, Table], Transfer]] = {
            **{name: partial(self.take, name) for name in OF_OURS},
            COPY: self._copy,
            LIBPQ: lambda path, table: self._ask(LIBPQ, self.address(path), table),
            ADBC: lambda path, table: self._ask(ADBC, self.url(path, NO_GSSAPI), table),
            CONNECTORX: lambda path, table: self._ask(CONNECTORX, self.url(path), table),
            SCANNER: self._scan,
            PSYCOPG: lambda path, table: self._ask(PSYCOPG, self.address(path), table),
        }
        return [Way(name, fetch) for name, fetch in ways.items() if name not in self.missing]

    def versions(self) -> dict[str, str]:
        return {"PostgreSQL": run([PROGRAMS / "postgres", "--version"]).split()[2]}

    def address(self, path: NetworkPath | None) -> str:
        """Return the address through a network, or without one on the Unix socket."""
        host, port = (self.scratch, self.port) if path is None else (path.host, path.port)
        return f"host={host} port={port} user={USER} dbname={DATABASE} sslmode=disable gssencmode=disable"

    def processor_seconds(self) -> float:
        """Return what the server's processes that have ended, and its first one, have taken until now."""
        fields = Path(f"/proc/{self.server.pid}/stat").read_text().rpartition(")")[2].split()
        # The times of the process and of its ended children, by user and by system.
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def url(self, path: NetworkPath | None, parameters: str = "") -> str:
        """Return the address as a URL, through a network or on the Unix socket."""
        if path is None:
            return f"postgresql://{USER}@/{DATABASE}?host={self.scratch}&port={self.port}&{parameters}"
        return f"postgresql://{USER}@{path.host}:{path.port}/{DATABASE}?sslmode=disable&{parameters}"

    def take(self, name: str, path: NetworkPath, table: Table, equals: Path | None = None) -> Transfer:
        """Take a table by our client, in one of the ways of `OF_OURS`. Its rows have no order: those that
        are loaded fill what others have left of a page.
        """
        file = None if equals is None else str(equals)
        address = self.url(path, OF_OURS[name])
        sql = f"SELECT * FROM {table.name}"
        return transfer(self.ours.ask(address=address, sql=sql, equals=file, ordered=False))

    def _ask(self, name: str, address: str, table: Table) -> Transfer:
        return transfer(self.clients[name].ask(address=address, sql=f"SELECT * FROM {table.name}"))

    def _scan(self, path: NetworkPath, table: Table) -> Transfer:
        return transfer(self.clients[SCANNER].ask(address=self.address(path), table=table.name))

    def _copy(self, path: NetworkPath, table: Table) -> Transfer:
        """Transfer only the bytes: psql writes them to /dev/null. Its start is part of the time."""
        start = time.perf_counter()
        self._psql(
            self.address(path),
            f"COPY {table.name} TO STDOUT (FORMAT binary)",
            stdout=subprocess.DEVNULL,
            timeout=ANSWER_SECONDS_MAX,
        )
        return Transfer(time.perf_counter() - start, None, {})

    def _psql(self, address: str, *commands: str, **options: Any) -> None:
        words = [word for command in commands for word in ("-c", command)]
        run([PROGRAMS / "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", address, *words], **options)

    @contextlib.contextmanager
    def _serving(self, cluster: Path) -> Iterator[subprocess.Popen[bytes]]:
        settings = [f"--{name}={value}" for name, value in SETTINGS.items()]
        command = [*unprivileged(), PROGRAMS / "postgres", "-D", cluster, "-p", str(self.port)]
        command += ["-k", self.scratch, *settings]
        with (
            self.log.open("w") as log,
            running(command, signal.SIGINT, stdout=log, stderr=log) as server,
        ):
            wait_until(lambda: accepts(self.port), server, self.log)
            wait_until(self._is_ready, server, self.log)
            yield server

    def _is_ready(self) -> bool:
        command = [PROGRAMS / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command, check=False).returncode == 0

    def _load(self, cluster: Path, data: Data) -> None:
        options = ["--auth=trust", f"--username={USER}", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
        run([*unprivileged(), PROGRAMS / "initdb", "-D", cluster, *options])
        with self._serving(cluster):
            for table in data.tables.values():
                copy = rf"\copy {table.name} FROM '{table.csv}' (FORMAT csv)"
                vacuum = f"VACUUM (FREEZE, ANALYZE) {table.name}"
                self._psql(self.address(NetworkPath(self.port)), create_table(table), copy, vacuum)
            self._psql(self.address(NetworkPath(self.port)), "CHECKPOINT")
