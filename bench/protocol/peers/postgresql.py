"""PostgreSQL: libpq with text, as nearly all its clients; COPY with the binary format; ADBC, which
converts that to Arrow.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from protocol.data import Data, Table
from protocol.networks import Path as NetworkPath
from protocol.peers.peer import Peer, Transfer, Way, transfer
from protocol.peers.sql import create_table
from protocol.processes import (
    PeerError,
    accepts,
    environment,
    free_port,
    run,
    running,
    unprivileged,
    wait_until,
)

VERSION = 15
PROGRAMS = Path(f"/usr/lib/postgresql/{VERSION}/bin")
USER = "bench"
DATABASE = "postgres"
# This is enough to keep all data in memory; loading need not be safe.
SETTINGS = {"shared_buffers": "2GB", "max_wal_size": "4GB", "fsync": "off", "listen_addresses": "127.0.0.1"}


class PostgreSQL(Peer):
    name = "PostgreSQL"

    def start(self, data: Data) -> None:
        if not (PROGRAMS / "postgres").exists():
            raise PeerError(f"PostgreSQL {VERSION} is not installed; run scripts/setup_peers.sh")
        self.port = free_port()
        cluster = data.database(f"postgresql-{VERSION}", lambda path: self._load(path, data))
        self.cleanup.enter_context(self._serving(cluster))
        self.libpq = self.client("libpq_client.py")
        self.adbc = self.client("adbc_client.py", environment("venv-peers"))

    def ways(self) -> list[Way]:
        return [
            Way("PostgreSQL, libpq text", self._libpq),
            Way("PostgreSQL, COPY binary", self._copy),
            Way("PostgreSQL, ADBC", self._adbc),
        ]

    def versions(self) -> dict[str, str]:
        return {"PostgreSQL": run([PROGRAMS / "postgres", "--version"]).split()[2]}

    def address(self, path: NetworkPath | None) -> str:
        """Return the address through a network, or without one on the Unix socket."""
        host, port = (self.scratch, self.port) if path is None else (path.host, path.port)
        return f"host={host} port={port} user={USER} dbname={DATABASE} sslmode=disable gssencmode=disable"

    def _libpq(self, path: NetworkPath, table: Table) -> Transfer:
        return transfer(self.libpq.ask(address=self.address(path), sql=f"SELECT * FROM {table.name}"))

    def _adbc(self, path: NetworkPath, table: Table) -> Transfer:
        address = f"postgresql://{USER}@{path.host}:{path.port}/{DATABASE}?sslmode=disable&gssencmode=disable"
        return transfer(self.adbc.ask(address=address, sql=f"SELECT * FROM {table.name}"))

    def _copy(self, path: NetworkPath, table: Table) -> Transfer:
        """Transfer only the bytes: psql writes them to /dev/null. Its start is part of the time."""
        start = time.perf_counter()
        self._psql(
            self.address(path), f"COPY {table.name} TO STDOUT (FORMAT binary)", output=subprocess.DEVNULL
        )
        return Transfer(time.perf_counter() - start, None, {})

    def _psql(self, address: str, *commands: str, output: int = subprocess.PIPE) -> None:
        words = [word for command in commands for word in ("-c", command)]
        run([PROGRAMS / "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", address, *words], stdout=output)

    @contextlib.contextmanager
    def _serving(self, cluster: Path) -> Iterator[None]:
        settings = [f"--{name}={value}" for name, value in SETTINGS.items()]
        command = [*unprivileged(), PROGRAMS / "postgres", "-D", cluster, "-p", str(self.port)]
        command += ["-k", self.scratch, *settings]
        with (
            self.log.open("w") as log,
            running(command, signal.SIGINT, stdout=log, stderr=log) as server,
        ):
            wait_until(lambda: accepts(self.port), server, self.log)
            wait_until(self._is_ready, server, self.log)
            yield

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
