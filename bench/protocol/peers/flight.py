"""Arrow Flight by pyarrow, which is the C++ library on both sides."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pyarrow as pa

from protocol.data import Data, Table
from protocol.networks import Path as NetworkPath
from protocol.peers.peer import Peer, Transfer, Way, transfer
from protocol.processes import CLIENTS, accepts, free_port, running, wait_until

# The selectivity does not depend on SF: l_quantity is uniform from 1 to 50.
HALF = "l_quantity <= 25"


class Flight(Peer):
    name = "Flight"

    def start(self, data: Data) -> None:
        self.port, self.socket = free_port(), self.scratch / "flight.sock"
        places = [f"grpc://127.0.0.1:{self.port}", f"grpc+unix://{self.socket}"]
        files = [table.arrow for table in data.tables.values()]
        command = [sys.executable, CLIENTS / "flight_server.py", HALF, *places, *files]
        log = self.cleanup.enter_context(self.log.open("w"))
        server = self.cleanup.enter_context(running(command, stdout=log, stderr=log))
        wait_until(lambda: accepts(self.port) and self.socket.exists(), server, self.log)
        self.asker = self.client("flight_client.py")

    def ways(self) -> list[Way]:
        return [
            Way("Flight", self._everything(None)),
            Way("Flight lz4", self._everything("lz4")),
            Way("Flight zstd", self._everything("zstd")),
            Way("Flight, our types", self._everything(None, "ours")),
        ]

    def versions(self) -> dict[str, str]:
        return {"Flight (pyarrow)": pa.__version__}

    def address(self, path: NetworkPath | None) -> str:
        return f"grpc+unix://{self.socket}" if path is None else f"grpc://{path.host}:{path.port}"

    def take(
        self,
        address: str,
        table: Table,
        compression: str | None = None,
        types: str = "usual",
        half: bool = False,
    ) -> Transfer:
        ticket = {"table": table.name, "compression": compression, "types": types, "half": half}
        return transfer(self.asker.ask(address=address, ticket=json.dumps(ticket)))

    def _everything(
        self, compression: str | None, types: str = "usual"
    ) -> Callable[[NetworkPath, Table], Transfer]:
        return lambda path, table: self.take(self.address(path), table, compression, types)
