"""Transfers of each data set from every party, through one network."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from measure import Bar, Measurement, quantity
from protocol.bench import Bench, in_turns
from protocol.columns import Cell, in_columns
from protocol.data import ACS, LINEITEM, ONTIME, TENTH, Table
from protocol.networks import LAN, LOCAL, WAN, Network, Path
from protocol.peers.peer import Transfer, Way
from protocol.peers.postgresql import OF_OURS

OURS = "hypostyle"
NETCAT = "netcat"
# The largest ratio of our time to netcat's; every other peer has to be slower than us.
NETCAT_RATIO = {LAN.name: 5.0, WAN.name: 6.0}
FLIGHT_RATIO_LOCAL = 1.5
COUNT_SECONDS = 0.5


def transfers(bench: Bench, network: Network) -> None:
    tables = bench.data.tables
    # CSV of all of lineitem takes a minute through the WAN.
    lineitem = tables[TENTH if network == WAN else LINEITEM]
    with contextlib.ExitStack() as stack:
        ways: list[tuple[Way, Path]] = []
        for peer in [bench.ours, *bench.peers]:
            # A way has a relay of its own: connections that end late are counted to no other.
            ways += [(way, stack.enter_context(network.path(peer.port))) for way in peer.ways()]
        for table in (lineitem, tables[ACS], tables[ONTIME]):
            _one_table(bench, network, table, ways)


def _one_table(bench: Bench, network: Network, table: Table, ways: list[tuple[Way, Path]]) -> None:
    carried: dict[str, int] = {}

    def fetching(way: Way, path: Path) -> Callable[[], Transfer]:
        def fetch() -> Transfer:
            before = path.carried
            transfer = way.fetch(path, table)
            bench.check(way.name, table, transfer)
            if network.rate is not None and way.name not in carried:
                carried[way.name] = carried_since(path, before)
            return transfer

        return fetch

    found = in_turns(
        f"{network.name}, {table.label}",
        [(way.name, fetching(way, path)) for way, path in ways],
        bench.options.runs,
        bench.options.patience,
        lambda name, error: bench.report.note(f"{network.name}, {table.label}: {name} failed: {error}"),
        warm_up=network != WAN,
    )
    samples = {name: [transfer.seconds for transfer in each] for name, each in found.items()}
    ours = samples.pop(OURS, None)
    if ours is None:
        return
    for name, seconds in samples.items():
        few = "" if len(seconds) >= bench.options.runs else f" ({len(seconds)}×)"
        bench.report.add(
            Measurement(
                f"{network.name}, {table.label}: {name}{few}",
                ours,
                {"peer": seconds},
                _bar(network, table, name),
                wrong=bench.is_wrong(table, OURS, name),
            )
        )
    in_columns(bench, Cell(network, table, samples, carried))
    if carried:
        texts = [f"{name} {quantity(number, 'bytes')}" for name, number in carried.items()]
        bench.report.note(f"{network.name}, {table.label}, carried to the client: {', '.join(texts)}")


def _bar(network: Network, table: Table, name: str) -> Bar | None:
    if name in OF_OURS:
        return None
    lineitem = table.name in (LINEITEM, TENTH)
    if network == LOCAL:
        return Bar(ratio_min=FLIGHT_RATIO_LOCAL, peer="peer") if lineitem and name == "Flight" else None
    if lineitem and name == NETCAT:
        return Bar(ratio_min=NETCAT_RATIO[network.name], peer="peer")
    return Bar(ratio_min=1, peer="peer")


def carried_since(path: Path, before: int) -> int:
    """Return the bytes to the client since then; the relay reports when connections have ended."""
    deadline = time.monotonic() + COUNT_SECONDS
    while path.carried == before and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)  # a party may have had several connections
    return path.carried - before
