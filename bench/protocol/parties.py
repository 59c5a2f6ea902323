"""The peers of the protocol’s benches by name, and how those are started that run on this machine."""

from __future__ import annotations

import contextlib
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from measure import Report, options
from protocol.bench import Bench, progress
from protocol.data import LINEITEM, Data, data, own_data
from protocol.peers.flight import Flight
from protocol.peers.mariadb import MariaDB
from protocol.peers.netcat import Netcat
from protocol.peers.ours import Hypostyle
from protocol.peers.peer import Peer
from protocol.peers.postgresql import PostgreSQL
from protocol.peers.quack import Quack
from protocol.processes import PeerError

PEERS: dict[str, type[Peer]] = {
    "netcat": Netcat,
    "flight": Flight,
    "postgresql": PostgreSQL,
    "mariadb": MariaDB,
    "quack": Quack,
}


def several(known: Mapping[str, object]) -> Callable[[str], list[str]]:
    """Return a type of option: some of these names, separated by commas."""

    def parse(text: str) -> list[str]:
        names = text.split(",")
        if unknown := set(names) - set(known):
            raise ValueError(f"{', '.join(unknown)} is not among {', '.join(known)}")
        return names

    return parse


def peer_options(description: str | None) -> ArgumentParser:
    """Return the options of every bench that has peers."""
    parser = options(description)
    parser.set_defaults(runs=3)
    parser.add_argument(
        "--peers", type=several(PEERS), default=list(PEERS), help=f"some of {','.join(PEERS)}"
    )
    parser.add_argument(
        "--patience", type=float, default=10, help="do not run again what took more seconds (default 10)"
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
            for way, why in peer.missing.items():
                report.note(f"NOT MEASURED: {way}: {why}")
            report.versions |= peer.versions()
            peers.append(peer)
        yield peers


@contextlib.contextmanager
def bench_of(report: Report, chosen: Namespace, source: Data) -> Iterator[Bench]:
    """Start ours and the chosen peers with all data."""
    kinds = [PEERS[name] for name in chosen.peers]
    with (
        tempfile.TemporaryDirectory(prefix="hypostyle-bench-") as scratch,
        started([Hypostyle], source, Path(scratch), report) as ours,
        started(kinds, source, Path(scratch), report) as peers,
    ):
        if not ours:
            raise SystemExit("hypostyle itself does not run")
        yield Bench(chosen, source, report, ours[0], peers)


def one_table_options(description: str | None) -> ArgumentParser:
    """Return the options of every bench that has peers and sends one table."""
    parser = peer_options(description)
    parser.add_argument(
        "--data", type=Path, help="a Parquet, CSV or Arrow file in place of lineitem; becomes no record"
    )
    return parser


def lineitem_of(chosen: Namespace) -> Data:
    """Return lineitem alone, or one's own rows in its place."""
    return own_data(chosen.data) if chosen.data else data(chosen, [LINEITEM])
