"""The papers' baseline: CSV through netcat, plain or compressed while it is sent.

The file comes from the page cache, and the output goes to /dev/null, decompressed. The time is that
of the client: from the start of its netcat until the last byte has gone.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from netcat import wait_until_listening
from protocol.data import Data
from protocol.networks import Path as NetworkPath
from protocol.peers.peer import Peer, Transfer, Way
from protocol.processes import CLIENTS, PeerError, environment, free_port, running

TRANSFER_SECONDS_MAX = 900


class Netcat(Peer):
    name = "netcat"

    def start(self, data: Data) -> None:
        self.port = free_port()
        self.netcat = shutil.which("nc.openbsd") or shutil.which("nc")
        if self.netcat is None:
            raise PeerError("no netcat; scripts/setup.sh installs netcat-openbsd")
        self.packing = {"gzip": (["gzip", "-c"], ["gzip", "-dc"])}
        try:
            snappy = [str(environment("venv-peers")), str(CLIENTS / "snappy_stream.py")]
        except PeerError as error:
            self.missing["netcat + Snappy"] = str(error)
        else:
            self.packing = {"Snappy": ([*snappy, "compress"], [*snappy, "decompress"]), **self.packing}

    def ways(self) -> list[Way]:
        packed = [
            Way(
                f"netcat + {name}",
                lambda path, table, pack=pack, unpack=unpack: self._send(path, table.csv, pack, unpack),
            )
            for name, (pack, unpack) in self.packing.items()
        ]
        return [Way("netcat", lambda path, table: self._send(path, table.csv)), *packed]

    def _send(
        self, path: NetworkPath, file: Path, pack: Sequence[str] = (), unpack: Sequence[str] = ()
    ) -> Transfer:
        with contextlib.ExitStack() as processes:

            def start(command: Sequence[str], **streams: object) -> subprocess.Popen[bytes]:
                return processes.enter_context(running(command, **streams))

            null = processes.enter_context(open("/dev/null", "r+b"))
            source = processes.enter_context(file.open("rb"))
            content = start(pack, stdin=source, stdout=subprocess.PIPE).stdout if pack else source
            server = start([self.netcat, "-N", "-l", "127.0.0.1", str(self.port)], stdin=content, stdout=null)
            last = start(unpack, stdin=subprocess.PIPE, stdout=null) if unpack else None
            wait_until_listening(self.port, server)
            begin = time.perf_counter()
            sink = null if last is None else last.stdin
            client = start([self.netcat, "-d", path.host, str(path.port)], stdin=null, stdout=sink)
            if last is not None:
                last.stdin.close()
            for process in (client, *([last] if last else [])):
                if process.wait(TRANSFER_SECONDS_MAX) != 0:
                    raise PeerError(f"{process.args[0]} failed with {process.returncode}")
            return Transfer(time.perf_counter() - begin, None, {})
