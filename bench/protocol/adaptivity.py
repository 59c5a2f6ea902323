"""Compares the codec that ours chooses while it sends with each codec that can be forced."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from measure import Bar, Measurement, quantity
from protocol.bench import Bench, in_turns
from protocol.data import ACS, LINEITEM, ONTIME, TENTH, Table
from protocol.networks import LAN, LOCAL, WAN, Network, Path
from protocol.peers.ours import everything
from protocol.peers.peer import Transfer
from protocol.processes import PeerError

ADAPTIVE = "auto"
FORCED = ("none", "light", "lz4", "zstd")
RATIO_MIN = 0.91  # no more than 10 % slower
# A short transfer needs more runs to show a difference of 10 %.
RUNS_MORE = 4


def adaptivity(bench: Bench) -> None:
    tables = bench.data.tables
    for network in (LOCAL, LAN, WAN):
        with network.path(bench.ours.port) as path:
            for table in (tables[TENTH if network == WAN else LINEITEM], tables[ACS], tables[ONTIME]):
                _cell(bench, network, table, path)


def _cell(bench: Bench, network: Network, table: Table, path: Path) -> None:
    def fetching(codec: str) -> Callable[[], Transfer]:
        def fetch() -> Transfer:
            transfer = bench.ours.take(bench.ours.address(path), everything(table), codec=codec)
            bench.check("hypostyle", table, transfer)
            return transfer

        return fetch

    def refuse(_name: str, error: PeerError) -> None:
        raise error

    runs = bench.options.runs + (RUNS_MORE if network != WAN else 0)
    what = f"{network.name}, {table.label}: codec by itself"
    codecs = [(codec, fetching(codec)) for codec in (ADAPTIVE, *FORCED)]
    found = in_turns(what, codecs, runs, float("inf"), refuse, warm_up=network != WAN)
    samples = {codec: [transfer.seconds for transfer in each] for codec, each in found.items()}
    best = min(FORCED, key=lambda codec: median(samples[codec]))
    times = ", ".join(f"{codec} {quantity(median(each), 's')}" for codec, each in samples.items())
    bench.report.add(
        Measurement(
            what,
            samples[ADAPTIVE],
            {"best forced": samples[best]},
            Bar(ratio_min=RATIO_MIN, peer="best forced"),
            wrong=bench.is_wrong(table, "hypostyle"),
        )
    )
    bench.report.note(times)
