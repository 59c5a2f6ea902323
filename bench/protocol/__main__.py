"""Measures the client protocol: ours and the peers, through the chapter's networks, against the
issue's bars.
"""

from __future__ import annotations

import signal
from argparse import ArgumentParser, Namespace

from measure import Report
from protocol.adaptivity import adaptivity
from protocol.crowd import crowd
from protocol.data import data
from protocol.latency import latency
from protocol.local import local
from protocol.networks import LAN, LOCAL, WAN, check
from protocol.parties import PEERS, bench_of, peer_options, several
from protocol.processes import PeerError
from protocol.streams import streams
from protocol.transfers import transfers

PARTS = {
    "local": lambda bench: (local(bench), transfers(bench, LOCAL)),
    "lan": lambda bench: transfers(bench, LAN),
    "wan": lambda bench: transfers(bench, WAN),
    "adaptivity": adaptivity,
    "streams": streams,
    "latency": latency,
    "clients": crowd,
}


def command_line() -> ArgumentParser:
    parser = peer_options(__doc__)
    parser.add_argument("--only", type=several(PARTS), default=list(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument(
        "--tolerance", type=float, default=0.1, help="by how much a network may be off (default 0.1)"
    )
    return parser


def main(chosen: Namespace) -> None:
    complete = set(chosen.only) == set(PARTS) and set(chosen.peers) == set(PEERS)
    source = data(chosen)
    report = Report("protocol", chosen)
    if {"lan", "wan", "adaptivity"} & set(chosen.only):
        for network in (LAN, WAN):
            report.note(check(network, chosen.tolerance))
    with bench_of(report, chosen, source) as bench:
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
