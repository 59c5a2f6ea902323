"""Takes lineitem through links of growing latency and shrinking throughput: the chapter's Figures 3-3, 3-4.

    cd bench && "$VENV/bin/python" -m protocol.sweeps --sf 0.17 --runs 3

A scale factor of 0.17 has the chapter's million rows. The points are those of the authors' script. Links are
those of `hypostyle-bench relay`. The times include connecting, which the relay lets cost one round trip more.
"""

from __future__ import annotations

import contextlib
from argparse import Namespace
from collections.abc import Callable

from measure import Measurement, Report
from protocol.bench import Bench, in_turns
from protocol.data import LINEITEM
from protocol.networks import Network, Path, measure_rate, measure_round_trip
from protocol.parties import bench_of, lineitem_of, one_table_options
from protocol.peers.peer import Transfer, Way
from protocol.transfers import OURS

# A rate that no party reaches here, so that only the round trip counts.
FAST = 1e10
RELAY_SECONDS = 5e-5  # what the relay itself may cost
LATENCIES = {
    "0 ms": 0.0,
    "0.1 ms": 0.0001,
    "1 ms": 0.001,
    "10 ms": 0.01,
    "100 ms": 0.1,
}
RATES = {"loopback": None, "1 Gbit/s": 1e9, "100 Mbit/s": 1e8, "10 Mbit/s": 1e7}
SWEEPS = {
    ("CP-F3.3", "Time by round trip"): {
        name: Network(name, FAST, round_trip) for name, round_trip in LATENCIES.items()
    },
    ("CP-F3.4", "Time by throughput"): {name: Network(name, rate) for name, rate in RATES.items()},
}


def checked(network: Network, tolerance: float) -> str:
    """Measure a link by other means; raise SystemExit if it is not what it should be."""
    found = []
    if network.round_trip:
        round_trip = measure_round_trip(network)
        found.append(f"{round_trip * 1e3:.3f} ms round trip")
        off = abs(round_trip - network.round_trip)
        if off > tolerance * network.round_trip + RELAY_SECONDS:
            raise SystemExit(f"{network.name} has {found[-1]}: is the machine busy?")
    if network.rate and network.rate < FAST:
        rate = measure_rate(network)
        found.append(f"{rate / 1e6:.1f} Mbit/s")
        if abs(rate - network.rate) > tolerance * network.rate:
            raise SystemExit(f"{network.name} has {found[-1]}: is the machine busy?")
    return f"{network.name}: {', '.join(found) or 'no limit'}"


def point(bench: Bench, figure: str, panel: str, network: Network) -> None:
    """Take the table through one network, from all parties in turns."""
    table = bench.data.tables[LINEITEM]

    def fetching(way: Way, path: Path) -> Callable[[], Transfer]:
        def fetch() -> Transfer:
            transfer = way.fetch(path, table)
            bench.check(way.name, table, transfer)
            return transfer

        return fetch

    with contextlib.ExitStack() as stack:
        ways = []
        for peer in [bench.ours, *bench.peers]:
            path = stack.enter_context(network.path(peer.port))
            ways += [(way.name, fetching(way, path)) for way in peer.ways()]
        found = in_turns(
            f"{network.name}, {table.label}",
            ways,
            bench.options.runs,
            bench.options.patience,
            lambda name, error: bench.report.note(f"{network.name}: {name} failed: {error}"),
        )
    samples = {name: [transfer.seconds for transfer in each] for name, each in found.items()}
    for name, seconds in samples.items():
        bench.report.cell(figure, panel, name, network.name, seconds)
    if OURS in samples:
        ours = samples.pop(OURS)
        bench.report.add(Measurement(network.name, ours, samples, wrong=bench.is_wrong(table, OURS)))


def main(chosen: Namespace) -> None:
    report = Report("sweeps", chosen)
    for networks in SWEEPS.values():
        for network in networks.values():
            report.note(checked(network, chosen.tolerance))
    with bench_of(report, chosen, lineitem_of(chosen)) as bench:
        for (figure, panel), networks in SWEEPS.items():
            for network in networks.values():
                point(bench, figure, panel, network)
    report.write_if(chosen.data is None)


if __name__ == "__main__":
    parser = one_table_options(__doc__)
    parser.add_argument(
        "--tolerance", type=float, default=0.1, help="by how much a link may be off (default 0.1)"
    )
    main(parser.parse_args())
