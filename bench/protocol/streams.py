"""The gain of several streams in a network that limits each connection, and their cost in
others.
"""

from __future__ import annotations

from collections.abc import Callable

from measure import Measurement
from protocol.bench import Bench, in_turns
from protocol.data import LINEITEM, TENTH, Table
from protocol.networks import FLOWS, LAN, LOCAL, Network, Path
from protocol.peers.ours import everything
from protocol.peers.peer import Transfer
from protocol.processes import PeerError

ONE = "one stream"
SEVERAL = (2, 4)


def streams(bench: Bench) -> None:
    for network, name in ((FLOWS, TENTH), (LAN, LINEITEM), (LOCAL, LINEITEM)):
        with network.path(bench.ours.port) as path:
            _cell(bench, network, bench.data.tables[name], path)


def _cell(bench: Bench, network: Network, table: Table, path: Path) -> None:
    def fetching(count: int) -> Callable[[], Transfer]:
        def fetch() -> Transfer:
            address = f"{bench.ours.address(path)}?streams={count}"
            transfer = bench.ours.take(address, everything(table))
            bench.check("hypostyle", table, transfer)
            return transfer

        return fetch

    def refuse(_name: str, error: PeerError) -> None:
        raise error

    what = f"{network.name}, {table.label}"
    parties = [(ONE, fetching(1)), *((f"{count} streams", fetching(count)) for count in SEVERAL)]
    found = in_turns(what, parties, bench.options.runs, float("inf"), refuse, warm_up=network == LOCAL)
    samples = {party: [transfer.seconds for transfer in each] for party, each in found.items()}
    one = samples.pop(ONE)
    for party, seconds in samples.items():
        wrong = bench.is_wrong(table, "hypostyle")
        bench.report.add(Measurement(f"{what}: {party}", seconds, {ONE: one}, wrong=wrong))
