"""DuckDB's Quack: a DuckDB that serves its database by HTTP, and a DuckDB that queries it."""

from __future__ import annotations

import subprocess

from protocol.data import Data, Table
from protocol.networks import Path as NetworkPath
from protocol.peers.peer import Peer, Transfer, Way, transfer
from protocol.processes import CLIENTS, accepts, environment, free_port, run, running, wait_until

VERSION = "1.5.5"
TOKEN = "bench-token"


class Quack(Peer):
    name = "DuckDB Quack"

    def start(self, data: Data) -> None:
        python, script = environment("venv-quack"), CLIENTS / "quack_server.py"
        files = [table.arrow for table in data.tables.values()]
        database = data.database(
            f"{VERSION}.duckdb", lambda path: run([python, script, "load", path, *files])
        )
        self.port = free_port()
        log = self.cleanup.enter_context(self.log.open("w"))
        command = [python, script, "serve", database, str(self.port), TOKEN]
        server = self.cleanup.enter_context(running(command, stdin=subprocess.PIPE, stdout=log, stderr=log))
        wait_until(lambda: accepts(self.port), server, self.log)
        self.asker = self.client("quack_client.py", python)

    def ways(self) -> list[Way]:
        return [Way("DuckDB Quack", self._fetch)]

    def versions(self) -> dict[str, str]:
        return {"DuckDB Quack": VERSION}

    def _fetch(self, path: NetworkPath, table: Table) -> Transfer:
        # The extension accepts no other name without TLS.
        address = f"quack:localhost:{path.port}"
        return transfer(self.asker.ask(address=address, token=TOKEN, sql=f"FROM {table.name}"))
