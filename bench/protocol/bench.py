"""What the cases share: the data, the parties that run, the report, and how a transfer is checked."""

from __future__ import annotations

import random
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from measure import Report
from protocol.data import Data, Table
from protocol.peers.ours import Hypostyle
from protocol.peers.peer import Peer, Transfer
from protocol.processes import PeerError

Result = TypeVar("Result")

# How much longer than another run a first one may take.
WARM_UP_PATIENCE = 10


@dataclass
class Bench:
    options: Namespace
    data: Data
    report: Report
    ours: Hypostyle
    peers: list[Peer]
    # What has come wrong from whom: a measurement of it passes no bar.
    wrong: set[str] = field(default_factory=set)

    def peer(self, kind: type[Peer]) -> Peer | None:
        """The peer of this kind, if it runs."""
        return next((peer for peer in self.peers if isinstance(peer, kind)), None)

    def check(self, who: str, table: Table, transfer: Transfer, rows: int | None = None) -> None:
        """Holds the number of rows that came against what the table has."""
        expected = table.rows if rows is None else rows
        if transfer.rows is not None and transfer.rows != expected:
            self.wrong.add(f"{who}, {table.name}")
            self.report.note(f"WRONG: {who} returned {transfer.rows} rows of {table.label}, not {expected}")

    def is_wrong(self, table: Table, *parties: str) -> bool:
        return any(f"{who}, {table.name}" in self.wrong for who in parties)


def progress(text: str) -> None:
    """Tells on standard error what runs now."""
    print(f"  … {text}", file=sys.stderr, flush=True)


def in_turns(
    what: str,
    parties: Sequence[tuple[str, Callable[[], Transfer]]],
    runs: int,
    patience: float,
    failed: Callable[[str, PeerError], None],
    warm_up: bool = False,
) -> dict[str, list[Transfer]]:
    """Runs all parties in turns and returns the counted transfers of each.

    Every turn has another order: what a machine does between two transfers, such as to take memory back
    that was not touched for a while, would else always befall the same party. One whose transfer takes
    longer than `patience` seconds is not run again: such a time says enough. With `warm_up` a first run,
    which finds what it reads in no cache, is not counted, unless it takes ten times as long and is the only
    one.
    """
    transfers: dict[str, list[Transfer]] = {name: [] for name, _ in parties}
    over: set[str] = set()
    order = random.Random(what)
    for run in range(-1 if warm_up else 0, runs):
        progress(f"{what}: {f'run {run + 1} of {runs}' if run >= 0 else 'warming up'}")
        for name, fetch in order.sample(parties, len(parties)):
            if name in over:
                continue
            try:
                transfer = fetch()
            except PeerError as error:
                over.add(name)
                failed(name, error)
                transfers[name].clear()
                continue
            if transfer.seconds > (patience if run >= 0 else WARM_UP_PATIENCE * patience):
                over.add(name)
            if run >= 0 or name in over:
                transfers[name].append(transfer)
    return {name: each for name, each in transfers.items() if each}
