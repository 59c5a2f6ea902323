"""The same machine: stored tables as mappings, and results that are computed for the client."""

from __future__ import annotations

from collections.abc import Callable

from measure import Bar, Measurement
from protocol.bench import Bench, in_turns, progress
from protocol.columns import equal_their_source
from protocol.data import ACS, LINEITEM, ONTIME, TENTH, Table
from protocol.networks import Path
from protocol.peers.flight import HALF, Flight
from protocol.peers.netcat import Netcat
from protocol.peers.ours import everything
from protocol.peers.peer import Transfer
from protocol.processes import PeerError

HAND_SECONDS_MAX = 0.020
NETCAT_RATIO = 10.0
GROWTH_MAX = 2.0
HALF_RATIO = 2.0


def local(bench: Bench) -> None:
    tables = bench.data.tables
    for table in tables.values():
        _equals_the_source(bench, table)
    equal_their_source(bench)
    stored = {name: _stored(bench, tables[name]) for name in (LINEITEM, TENTH, ACS, ONTIME)}
    _report_growth(bench, stored[LINEITEM], stored[TENTH])
    for place, path in (("Unix", None), ("TCP", Path(bench.ours.port))):
        _half(bench, place, path)


def _equals_the_source(bench: Bench, table: Table) -> None:
    """Compare every value that comes over TCP and over the Unix socket with its source file."""
    progress(f"comparing {table.label} with its source")
    for path in (Path(bench.ours.port), None):
        transfer = bench.ours.take(bench.ours.address(path), everything(table), equals=table.arrow)
        bench.check("hypostyle", table, transfer)
        if not transfer.more["equal"]:
            bench.wrong.add(f"hypostyle, {table.name}")
            bench.report.note(f"WRONG: hypostyle's {table.label} differs from what was loaded")


def _stored(bench: Bench, table: Table) -> list[Transfer]:
    """Measure a stored table on the Unix socket, beside netcat's CSV over loopback."""

    def ours() -> Transfer:
        transfer = bench.ours.take(bench.ours.address(None), everything(table), touch=True)
        bench.check("hypostyle", table, transfer)
        return transfer

    parties: list[tuple[str, Callable[[], Transfer]]] = [("hypostyle", ours)]
    netcat = bench.peer(Netcat)
    if netcat is not None:
        way = netcat.ways()[0]
        parties.append(("netcat", lambda: way.fetch(Path(netcat.port), table)))
    name = f"Unix, {table.label}"
    found = in_turns(name, parties, bench.options.runs, bench.options.patience, _refuse, warm_up=True)
    if table.name == TENTH:
        return found["hypostyle"]
    seconds = [transfer.seconds for transfer in found["hypostyle"]]
    touched = [transfer.seconds + transfer.more["touch_seconds"] for transfer in found["hypostyle"]]
    again = [transfer.seconds + transfer.more["sum_seconds"] for transfer in found["hypostyle"]]
    peers = {"netcat": [transfer.seconds for transfer in found["netcat"]]} if "netcat" in found else {}
    bar = Bar(HAND_SECONDS_MAX, NETCAT_RATIO, "netcat") if table.name == LINEITEM and peers else None
    wrong = bench.is_wrong(table, "hypostyle")
    bench.report.add(Measurement(f"{name}: in hand", seconds, peers, bar, wrong=wrong))
    bench.report.add(Measurement(f"{name}: and first touch", touched, peers, wrong=wrong))
    bench.report.add(Measurement(f"{name}: and touched again", again, peers, wrong=wrong))
    return found["hypostyle"]


def _report_growth(bench: Bench, large: list[Transfer], small: list[Transfer]) -> None:
    peer = "a tenth"
    bench.report.add(
        Measurement(
            "Unix, lineitem: ten times the rows",
            [transfer.seconds for transfer in large],
            {peer: [transfer.seconds for transfer in small]},
            Bar(ratio_min=1 / GROWTH_MAX, peer=peer),
            wrong=bench.is_wrong(bench.data.tables[LINEITEM], "hypostyle"),
        )
    )


def _half(bench: Bench, place: str, path: Path | None) -> None:
    """Measure half of lineitem, computed for each request: by our WHERE, in Flight's server by
    pyarrow.compute.
    """
    table = bench.data.tables[LINEITEM]
    flight = bench.peer(Flight)
    if not isinstance(flight, Flight):
        return
    sql = f"SELECT * FROM lineitem WHERE {HALF}"

    def ours() -> Transfer:
        return bench.ours.take(bench.ours.address(None if path is None else Path(bench.ours.port)), sql)

    def theirs(types: str) -> Transfer:
        address = flight.address(None if path is None else Path(flight.port))
        return flight.take(address, table, types=types, half=True)

    what = f"{place}, half of {table.label}"
    found = in_turns(
        what,
        [
            ("hypostyle", ours),
            ("Flight", lambda: theirs("usual")),
            ("Flight, our types", lambda: theirs("ours")),
        ],
        bench.options.runs,
        bench.options.patience,
        _refuse,
        warm_up=True,
    )
    rows = {transfer.rows for each in found.values() for transfer in each}
    if len(rows) != 1:
        bench.report.note(f"WRONG: half of lineitem has different numbers of rows: {sorted(rows)}")
    samples = {name: [transfer.seconds for transfer in each] for name, each in found.items()}
    own = samples.pop("hypostyle")
    bar = Bar(ratio_min=HALF_RATIO, peer="Flight")
    bench.report.add(Measurement(what, own, samples, bar, wrong=len(rows) != 1))


def _refuse(_name: str, error: PeerError) -> None:
    raise error
