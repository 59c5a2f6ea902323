"""Splits the cost of a result into connecting, executing, transferring: Figure 3-1, Table 3.1.

    cd bench && "$VENV/bin/python" -m protocol.cost_split --sf 1 --runs 3

Each client takes all of lineitem over loopback. Executing ends when the server begins its answer; what is
left of the time is serialization and transfer. A way whose client does not tell its parts is left out, and
netcat is all transfer. Bytes are counted in a transfer of their own, through a relay without a limit.
"""

from __future__ import annotations

from argparse import Namespace

from measure import Measurement, Report, quantity
from protocol.bench import Bench, in_turns
from protocol.data import LINEITEM
from protocol.networks import LOCAL, Network
from protocol.parties import bench_of, lineitem_of, one_table_options
from protocol.peers.netcat import Netcat
from protocol.peers.peer import Peer, Transfer, Way
from protocol.processes import PeerError
from protocol.transfers import OURS, carried_since

FIGURE = "CP-F3.1"
COUNTED = Network("counted", 1e11)  # faster than loopback


def split(peer: Peer, transfer: Transfer) -> tuple[float, float, float] | None:
    """Return the seconds of connecting, executing and transferring, if the client tells them."""
    if isinstance(peer, Netcat):
        return 0.0, 0.0, transfer.seconds
    try:
        connect, execute = (transfer.more[f"{part}_seconds"] for part in ("connect", "execute"))
    except KeyError:
        return None
    return connect, execute, transfer.seconds - connect - execute


def measure(bench: Bench) -> dict[str, list[float]]:
    """Take lineitem by all ways in turns; record the parts, and return the seconds in all."""
    table = bench.data.tables[LINEITEM]
    ways = [(peer, way) for peer in [bench.ours, *bench.peers] for way in peer.ways()]

    def fetch(peer: Peer, way: Way) -> Transfer:
        with LOCAL.path(peer.port) as path:
            transfer = way.fetch(path, table)
        bench.check(way.name, table, transfer)
        return transfer

    found = in_turns(
        f"Local, {table.label}",
        [(way.name, lambda peer=peer, way=way: fetch(peer, way)) for peer, way in ways],
        bench.options.runs,
        bench.options.patience,
        lambda name, error: bench.report.note(f"{name} failed: {error}"),
        warm_up=True,
    )
    for peer, way in ways:
        parts = [split(peer, transfer) for transfer in found.get(way.name, [])]
        told = [part for part in parts if part is not None]
        if not told or len(told) < len(parts):
            continue
        for place, name in enumerate(("connect", "execute", "transfer")):
            samples = [part[place] for part in told]
            bench.report.cell(FIGURE, "Connect, execute, transfer", way.name, name, samples)
        bench.report.cell(FIGURE, "Serialization and transfer", way.name, "time", samples)
    return {name: [transfer.seconds for transfer in each] for name, each in found.items()}


def count(bench: Bench) -> None:
    """Count the bytes that each way sends to its client."""
    table = bench.data.tables[LINEITEM]
    for peer in [bench.ours, *bench.peers]:
        with COUNTED.path(peer.port) as path:
            for way in peer.ways():
                before = path.carried
                try:
                    way.fetch(path, table)
                except PeerError as error:
                    bench.report.note(f"{way.name} is not counted: {error}")
                    continue
                carried = float(carried_since(path, before))
                bench.report.cell(FIGURE, "Bytes", way.name, "size", [carried])
                bench.report.note(f"{way.name}: {quantity(carried, 'bytes')} carried to the client")


def main(chosen: Namespace) -> None:
    report = Report("cost_split", chosen)
    with bench_of(report, chosen, lineitem_of(chosen)) as bench:
        samples = measure(bench)
        ours = samples.pop(OURS)
        wrong = bench.is_wrong(bench.data.tables[LINEITEM], OURS)
        report.add(Measurement("lineitem over loopback, in all", ours, samples, wrong=wrong))
        count(bench)
    report.write_if(chosen.data is None)


if __name__ == "__main__":
    main(one_table_options(__doc__).parse_args())
