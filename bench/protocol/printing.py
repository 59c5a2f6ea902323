"""Retrieves lineitem and prints it by each database's own program: Figure 1 of the VLDB paper.

    cd bench && "$VENV/bin/python" -m protocol.printing --sf 0.17 --runs 3

A scale factor of 0.17 has the paper's million rows. Programs print into /dev/null, as they print by themselves
to what is no terminal. Their start and the connection are part of the time.
"""

from __future__ import annotations

import subprocess
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from measure import Measurement, Report
from protocol.bench import Bench, in_turns
from protocol.data import LINEITEM
from protocol.networks import Path as NetworkPath
from protocol.parties import bench_of, lineitem_of, peer_options
from protocol.peers.mariadb import MariaDB
from protocol.peers.netcat import Netcat
from protocol.peers.peer import Transfer
from protocol.peers.postgresql import PostgreSQL
from protocol.processes import PeerError, program, run
from updates import postgresql

SQL = "SELECT * FROM lineitem"
OURS = "hypostyle, shell"


def printing(command: Sequence[str | Path]) -> Callable[[], Transfer]:
    def fetch() -> Transfer:
        start = time.perf_counter()
        run(command, stdout=subprocess.DEVNULL)
        return Transfer(time.perf_counter() - start, None, {})

    return fetch


def programs(bench: Bench) -> dict[str, Callable[[], Transfer]]:
    """Return what prints lineitem, by name: our shell, netcat, and the programs of the peers that run."""
    table = bench.data.tables[LINEITEM]
    address = bench.ours.address(NetworkPath(bench.ours.port))
    found = {
        OURS: printing([program("hypostyle"), address, "-c", SQL]),
        "hypostyle, shell, CSV": printing([program("hypostyle"), address, "-c", SQL, "--csv"]),
    }
    for peer in bench.peers:
        path = NetworkPath(peer.port)
        if isinstance(peer, Netcat):
            plain = next(way for way in peer.ways() if way.name == "netcat")
            found["netcat"] = lambda path=path, plain=plain: plain.fetch(path, table)
        elif isinstance(peer, PostgreSQL):
            found["PostgreSQL, psql"] = printing([postgresql("psql"), "-X", peer.address(path), "-c", SQL])
        elif isinstance(peer, MariaDB):
            client = ["mariadb", "--no-defaults", f"--host={path.host}", f"--port={path.port}", "--user=root"]
            found["MariaDB, mariadb"] = printing([*client, "--skip-ssl", "bench", "-e", SQL])
    return found


def main(chosen: Namespace) -> None:
    report = Report("printing", chosen)

    def failed(name: str, error: PeerError) -> None:
        report.note(f"{name} failed: {error}")

    with bench_of(report, chosen, lineitem_of(chosen)) as bench:
        parties = list(programs(bench).items())
        found = in_turns("printing", parties, chosen.runs, chosen.patience, failed, warm_up=True)
    samples = {name: [transfer.seconds for transfer in each] for name, each in found.items()}
    for name, seconds in samples.items():
        report.cell("CP-F1", "Time", name, "print", seconds)
    report.add(Measurement("lineitem retrieved and printed", samples.pop(OURS), samples))
    report.write()


if __name__ == "__main__":
    main(peer_options(__doc__).parse_args())
