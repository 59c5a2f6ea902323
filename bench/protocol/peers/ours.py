"""Hypostyle: `hypostyle serve`, and a Python client that takes the result as an Arrow table."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import hypostyle

from protocol.data import Data, Table
from protocol.networks import Path as NetworkPath
from protocol.peers.peer import Peer, Transfer, Way, transfer
from protocol.processes import accepts, free_port, program, running, wait_until


class Hypostyle(Peer):
    name = "hypostyle"

    def start(self, data: Data) -> None:
        self.database = data.database(f"{_build()}.hypo", lambda path: _load(path, data))
        for outdated in data.directory.glob("*.hypo"):
            if outdated != self.database:
                subprocess.run(["rm", "-r", outdated], check=True)
        self.port, self.socket = free_port(), self.scratch / "hypostyle.sock"
        command = [program("hypostyle"), "serve", self.database, "--read-only", "--log-level", "warn"]
        command += ["--listen", f"127.0.0.1:{self.port}", "--unix", self.socket]
        log = self.cleanup.enter_context(self.log.open("w"))
        self.server = self.cleanup.enter_context(running(command, stdout=log, stderr=log))
        wait_until(lambda: accepts(self.port), self.server, self.log)
        self.asker = self.client("hypostyle_client.py")

    def ways(self) -> list[Way]:
        return [Way("hypostyle", lambda path, table: self.take(self.address(path), everything(table)))]

    def versions(self) -> dict[str, str]:
        return {"hypostyle": hypostyle.__version__}

    def address(self, path: NetworkPath | None) -> str:
        """Return the address through a network, or without one on the Unix socket."""
        return f"hypostyle+unix://{self.socket}" if path is None else f"hypostyle://{path.host}:{path.port}/"

    def take(
        self,
        address: str,
        sql: str,
        codec: str | None = None,
        touch: bool = False,
        equals: Path | None = None,
    ) -> Transfer:
        file = None if equals is None else str(equals)
        return transfer(self.asker.ask(address=address, sql=sql, codec=codec, touch=touch, equals=file))


def everything(table: Table) -> str:
    return f"SELECT * FROM {table.name}"


def _build() -> str:
    """Return the name of the program's build; a new build gets a new database."""
    with program("hypostyle").open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _load(path: Path, data: Data) -> None:
    with hypostyle.connect(path) as connection:
        for table in data.tables.values():
            connection.append(table.name, table.read(), create=True)
