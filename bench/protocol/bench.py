"""Common parts of the cases: the data, the parties that run, the report, and the check of a
transfer.
"""

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


@dataclass
class Bench:
    options: Namespace
    data: Data
    report: Report
    ours: Hypostyle
    peers: list[Peer]
    # Wrong results, by party: a measurement of them passes no bar.
    wrong: set[str] = field(default_factory=set)

    def peer(self, kind: type[Peer]) -> Peer | None:
        """Return the peer of this kind, if it runs."""
        return next((peer for peer in self.peers if isinstance(peer, kind)), None)

    def check(self, who: str, table: Table, transfer: Transfer, rows: int | None = None) -> None:
        """Compare the number of received rows with that of the table."""
        expected = table.rows if rows is None else rows
        if transfer.rows is not None and transfer.rows != expected:
            self.wrong.add(f"{who}, {table.name}")
            self.report.note(f"WRONG: {who} returned {transfer.rows} rows of {table.label}, not {expected}")

    def is_wrong(self, table: Table, *parties: str) -> bool:
        return any(f"{who}, {table.name}" in self.wrong for who in parties)


def progress(text: str) -> None:
    """Print on standard error what runs now."""
    print(f"  … {text}", file=sys.stderr, flush=True)


def in_turns(
    what: str,
    parties: Sequence[tuple[str, Callable[[], Transfer]]],
    runs: int,
    patience: float,
    failed: Callable[[str, PeerError], None],
    warm_up: bool = False,
) -> dict[str, list[Transfer]]:
    """Run all parties in turns and return the counted transfers of each.

    Every turn has another order. Otherwise the machine's work between two transfers would always
    affect the same party. With `warm_up` there is a transfer directly before each counted one that
    is not counted, because machines take back memory, and drop files from it, that was not touched
    for a while. A transfer that takes longer than `patience` seconds is counted and not run again:
    such a time says enough.
    """
    transfers: dict[str, list[Transfer]] = {name: [] for name, _ in parties}
    over: set[str] = set()
    order = random.Random(what)
    for run in range(runs):
        progress(f"{what}: run {run + 1} of {runs}")
        for name, fetch in order.sample(parties, len(parties)):
            if name in over:
                continue
            try:
                transfer = fetch()
                if warm_up and transfer.seconds <= patience:
                    transfer = fetch()
            except PeerError as error:
                over.add(name)
                failed(name, error)
                transfers[name].clear()
                continue
            if transfer.seconds > patience:
                over.add(name)
            transfers[name].append(transfer)
    return {name: each for name, each in transfers.items() if each}
