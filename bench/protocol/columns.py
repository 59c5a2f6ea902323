"""PostgreSQL by our client, with our extension in the server and without: the rows of the chapter's Tables
3.10 to 3.12, beside the other clients of the same server.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from measure import Bar, Measurement
from protocol.bench import Bench, progress
from protocol.data import ACS, LINEITEM, ONTIME, TENTH, Table
from protocol.networks import LAN, LOCAL, WAN, Network
from protocol.networks import Path as NetworkPath
from protocol.peers.postgresql import (
    ADBC,
    CHOSEN,
    COMPRESSED,
    CONNECTORX,
    COPY,
    LIBPQ,
    OF_OURS,
    PLAIN,
    PSYCOPG,
    SCANNER,
    WITHOUT,
    PostgreSQL,
)
from protocol.processes import PeerError

# The bars of the columns as the client chooses them, and of the client without the extension: how many times
# ADBC's speed.
EXTENSION_RATIOS = {
    LOCAL.name: {LINEITEM: 7.0, ACS: 4.0, ONTIME: 7.0},
    LAN.name: {LINEITEM: 5.0, ACS: 3.5, ONTIME: 4.0},
    WAN.name: {TENTH: 8.0, ACS: 8.0, ONTIME: 20.0},
}
CLIENT_RATIOS = {LOCAL.name: {LINEITEM: 1.9, ACS: 1.3, ONTIME: 2.0}}
LIBPQ_RATIO_LOCAL = 1.5
LINEITEM_SECONDS_LOCAL = 1.4
LINEITEM_BYTES_LAN = 165e6
SESSION_END_SECONDS = 0.3
PEERS = (LIBPQ, COPY, ADBC, CONNECTORX, SCANNER, PSYCOPG)


@dataclass(frozen=True)
class Cell:
    """What was measured of one table through one network: seconds, and bytes to the client, of each way."""

    network: Network
    table: Table
    seconds: dict[str, list[float]]
    carried: dict[str, int]

    @property
    def label(self) -> str:
        return f"{self.network.name}, {self.table.label}"

    def ratio(self, ratios: dict[str, dict[str, float]]) -> float | None:
        return ratios.get(self.network.name, {}).get(self.table.name)


def equal_their_source(bench: Bench) -> None:
    """Compare every value that comes in each of the ways with its source file."""
    peer = bench.peer(PostgreSQL)
    if not isinstance(peer, PostgreSQL):
        return
    for table in bench.data.tables.values():
        for name in OF_OURS:
            if name in peer.missing:
                continue
            progress(f"comparing {table.label} with its source: {name}")
            try:
                transfer = peer.take(name, NetworkPath(peer.port), table, equals=table.arrow)
            except PeerError as error:
                bench.report.note(f"NOT COMPARED: {name}, {table.label}: {error}")
                continue
            bench.check(name, table, transfer)
            if not transfer.more["equal"]:
                bench.wrong.add(f"{name}, {table.name}")
                bench.report.note(f"WRONG: {name}: {table.label} differs from what was loaded")


def in_columns(bench: Bench, cell: Cell) -> None:
    """Report our client beside the other clients of PostgreSQL."""
    if cell.network == LOCAL:
        _note_server_seconds(bench, cell)
    for name in (PLAIN, COMPRESSED, CHOSEN, WITHOUT):
        ours = cell.seconds.get(name)
        if ours is None:
            continue
        peers = {_short(peer): cell.seconds[peer] for peer in PEERS if peer in cell.seconds}
        bar = _bar(cell, name)
        wrong = bench.is_wrong(cell.table, name)
        bench.report.add(Measurement(f"{cell.label}: {name}", ours, peers, bar, wrong=wrong))
        if name == CHOSEN:
            _report_more(bench, cell, ours, wrong)


def _short(name: str) -> str:
    """Return the name of a way below a heading that says whose it is."""
    return name.removeprefix("PostgreSQL, ")


def _note_server_seconds(bench: Bench, cell: Cell) -> None:
    """Note the seconds of processors that each way costs the server, of one more transfer."""
    peer = bench.peer(PostgreSQL)
    if not isinstance(peer, PostgreSQL):
        return
    texts = []
    for way in peer.ways():
        measured = cell.seconds.get(way.name)
        if measured is None or max(measured) > bench.options.patience:
            continue
        progress(f"{cell.label}: the server's processors: {way.name}")
        before = peer.processor_seconds()
        try:
            way.fetch(NetworkPath(peer.port), cell.table)
        except PeerError as error:
            bench.report.note(f"{cell.label}, time of PostgreSQL's processors: {way.name} failed: {error}")
            continue
        # A session ends after its client.
        time.sleep(SESSION_END_SECONDS)
        texts.append(f"{_short(way.name)} {peer.processor_seconds() - before:.2f} s")
    if texts:
        bench.report.note(f"{cell.label}, time of PostgreSQL's processors: {', '.join(texts)}")


def _bar(cell: Cell, name: str) -> Bar | None:
    if name == WITHOUT:
        ratio = cell.ratio(CLIENT_RATIOS)
        return None if ratio is None else Bar(ratio_min=ratio, peer=_short(ADBC))
    if name != CHOSEN:
        return None
    within = LINEITEM_SECONDS_LOCAL if cell.network == LOCAL and cell.table.name == LINEITEM else None
    return Bar(within, cell.ratio(EXTENSION_RATIOS), _short(ADBC))


def _report_more(bench: Bench, cell: Cell, ours: list[float], wrong: bool) -> None:
    """Report the bars that are not beside ADBC."""
    if cell.network == LOCAL:
        bar = Bar(ratio_min=LIBPQ_RATIO_LOCAL, peer=_short(LIBPQ))
        peers = {_short(LIBPQ): cell.seconds[LIBPQ]} if LIBPQ in cell.seconds else {}
        bench.report.add(Measurement(f"{cell.label}: {CHOSEN}", ours, peers, bar, wrong=wrong))
    if cell.network == LAN and cell.table.name == LINEITEM and CHOSEN in cell.carried:
        carried = [float(cell.carried[CHOSEN])]
        what = f"{cell.label}: {CHOSEN}, carried"
        bar = Bar(at_most=LINEITEM_BYTES_LAN)
        bench.report.add(Measurement(what, carried, {}, bar, unit="bytes", wrong=wrong))
