"""Measures the client protocol: ours and the peers, through the chapter's networks, against the
issue's bars.
"""

from __future__ import annotations

import contextlib
import signal
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

from measure import Report, options
from protocol.adaptivity import adaptivity
from protocol.bench import Bench, progress
from protocol.crowd import crowd
from protocol.data import Data, data
from protocol.latency import latency
from protocol.local import local
from protocol.networks import LAN, LOCAL, WAN, check
from protocol.peers.flight import Flight
from protocol.peers.mariadb import MariaDB
from protocol.peers.netcat import Netcat
from protocol.peers.ours import Hypostyle
from protocol.peers.peer import Peer
from protocol.peers.postgresql import PostgreSQL
from protocol.peers.quack import Quack
from protocol.processes import PeerError
from protocol.streams import streams
from protocol.transfers import transfers

PEERS: dict[str, type[Peer]] = {
    "netcat": Netcat,
    "flight": Flight,
    "postgresql": PostgreSQL,
    "mariadb": MariaDB,
    "quack": Quack,
}
PARTS = {
    "local": lambda bench: (local(bench), transfers(bench, LOCAL)),
    "lan": lambda bench: transfers(bench, LAN),
    "wan": lambda bench: transfers(bench, WAN),
    "adaptivity": adaptivity,
    "streams": streams,
    "latency": latency,
    "clients": crowd,
}


def several(known: dict[str, object]) -> object:
    """Return a type of option: some of these names, separated by commas."""

    def parse(text: str) -> list[str]:
        names = text.split(",")
        if unknown := set(names) - set(known):
            raise ValueError(f"{', '.join(unknown)} is not among {', '.join(known)}")
        return names

    return parse


def command_line() -> ArgumentParser:
    parser = options(__doc__)
    parser.set_defaults(runs=3)
    parser.add_argument("--only", type=several(PARTS), default=list(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument(
        "--peers", type=several(PEERS), default=list(PEERS), help=f"some of {','.join(PEERS)}"
    )
    parser.add_argument(
        "--patience", type=float, default=10, help="do not run again what took more seconds (default 10)"
    )
    parser.add_argument(
        "--tolerance", type=float, default=0.1, help="by how much a network may be off (default 0.1)"
    )
    return parser


@contextlib.contextmanager
def started(kinds: list[type[Peer]], data: Data, scratch: Path, report: Report) -> Iterator[list[Peer]]:
    """Start the peers that run on this machine; the report says why the others do not."""
    with contextlib.ExitStack() as stack:
        peers = []
        for kind in kinds:
            peer = kind(scratch)
            stack.callback(peer.stop)
            progress(f"starting {peer.name}")
            try:
                peer.start(data)
            except PeerError as error:
                report.note(f"NOT MEASURED: {peer.name}: {error}")
                peer.stop()
                continue
            report.versions |= peer.versions()
            peers.append(peer)
        yield peers


def main(chosen: Namespace) -> None:
    complete = set(chosen.only) == set(PARTS) and set(chosen.peers) == set(PEERS)
    source = data(chosen)
    report = Report("protocol", chosen)
    if {"lan", "wan", "adaptivity"} & set(chosen.only):
        for network in (LAN, WAN):
            report.note(check(network, chosen.tolerance))
    kinds = [PEERS[name] for name in chosen.peers]
    with (
        tempfile.TemporaryDirectory(prefix="hypostyle-bench-") as scratch,
        started([Hypostyle], source, Path(scratch), report) as ours,
        started(kinds, source, Path(scratch), report) as peers,
    ):
        if not ours:
            raise SystemExit("hypostyle itself does not run")
        bench = Bench(chosen, source, report, ours[0], peers)
        failed = []
        for part in chosen.only:
            try:
                PARTS[part](bench)
            except PeerError as error:
                failed.append(part)
                report.note(f"FAILED: {part}: {error}")
    report.write_if(complete)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def interrupted(number: int, _frame: object) -> None:
    raise SystemExit(f"ended by {signal.Signals(number).name}")


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)
    main(command_line().parse_args())
