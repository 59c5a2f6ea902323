"""The networks of the chapter: Local, LAN and WAN.

The chapter's 0.3 ms and 25 ms are taken as round trips, as ping reports them. LAN and WAN are the
relay of `hypostyle-bench relay`, which documents what it simulates; all parties go through it.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

from protocol.processes import program, running

ROUNDS_MAX = 200
ROUNDS_SECONDS = 2.0
PROBE_SECONDS = 1.0


@dataclass
class Path:
    """The address for clients, and the bytes that the relay has carried to them."""

    port: int
    carried: int = 0
    host: str = "127.0.0.1"


@dataclass(frozen=True)
class Network:
    name: str
    rate: float | None = None  # bits per second; without one, loopback
    round_trip: float = 0.0  # seconds
    per_connection: bool = False  # each connection has that rate to itself

    @contextlib.contextmanager
    def path(self, port: int) -> Iterator[Path]:
        """Open a way through this network to a server of this machine; its connections end with
        it.
        """
        if self.rate is None:
            yield Path(port)
            return
        command = [
            program("hypostyle-bench"),
            "relay",
            "--listen",
            "127.0.0.1:0",
            "--to",
            f"127.0.0.1:{port}",
        ]
        command += ["--rate", str(self.rate), "--round-trip", str(self.round_trip)]
        command += ["--per-connection"] if self.per_connection else []
        with running(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as relay:
            assert relay.stdout is not None
            address = relay.stdout.readline()
            if not address.startswith("listening "):
                raise SystemExit("the relay did not start")
            path = Path(int(address.rsplit(":", 1)[1]))
            reader = threading.Thread(target=_count, args=(relay.stdout, path), daemon=True)
            reader.start()
            yield path


LOCAL = Network("Local")
LAN = Network("LAN", 1e9, 0.0003)
WAN = Network("WAN", 1e8, 0.025)
FLOWS = Network("WAN of flows", 1e8, 0.025, per_connection=True)


def _count(lines: Iterator[str], path: Path) -> None:
    with contextlib.suppress(ValueError):
        for line in lines:
            path.carried += int(line.split()[2])


def check(network: Network, tolerance: float) -> str:
    """Measure the network by other means; fail if it is not what it should be."""
    rate, round_trip = measure_rate(network), measure_round_trip(network)
    found = f"{network.name}: {rate / 1e6:.1f} Mbit/s, {round_trip * 1e3:.3f} ms round trip"
    assert network.rate is not None
    for name, measured, wanted in (
        ("rate", rate, network.rate),
        ("round trip", round_trip, network.round_trip),
    ):
        if abs(measured - wanted) > tolerance * wanted:
            raise SystemExit(f"{found}; its {name} is more than {tolerance:.0%} off: is the machine busy?")
    return found


def measure_round_trip(network: Network) -> float:
    with _server(_echo) as port, network.path(port) as path, _connected(path) as connection:
        rounds: list[float] = []
        connection.sendall(b"x")  # the first one waits for the connection
        connection.recv(1)
        deadline = time.monotonic() + ROUNDS_SECONDS
        while len(rounds) < ROUNDS_MAX and time.monotonic() < deadline:
            start = time.perf_counter()
            connection.sendall(b"x")
            connection.recv(1)
            rounds.append(time.perf_counter() - start)
    return median(rounds)


def measure_rate(network: Network) -> float:
    """Return bits per second, without the time of the connection."""
    assert network.rate is not None
    content = bytes(int(network.rate / 8 * PROBE_SECONDS))

    def send(connection: socket.socket) -> None:
        connection.recv(1)
        connection.sendall(content)

    with _server(send) as port, network.path(port) as path, _connected(path) as connection:
        connection.sendall(b"x")
        received = len(connection.recv(1 << 20))
        start = time.perf_counter()
        measured = 0
        while piece := connection.recv(1 << 20):
            measured += len(piece)
        seconds = time.perf_counter() - start
        if received + measured != len(content):
            raise SystemExit(f"{network.name} carried {received + measured} bytes of {len(content)}")
    return measured * 8 / seconds


def _echo(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while piece := connection.recv(1 << 16):
        connection.sendall(piece)


@contextlib.contextmanager
def _server(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Serve one connection."""

    def run() -> None:
        with contextlib.suppress(OSError), listener.accept()[0] as connection:
            serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield listener.getsockname()[1]


@contextlib.contextmanager
def _connected(path: Path) -> Iterator[socket.socket]:
    with socket.create_connection((path.host, path.port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield connection
