"""Retrieves lineitem and prints it by each database's own program: Figure 1 of the VLDB paper.

    cd bench && "$VENV/bin/python" -m protocol.printing --sf 0.17 --runs 3

A scale factor of 0.17 has the paper's million rows. Programs print into /dev/null, as they print by
themselves to what is no terminal, but our box, which is told to have all rows. Their start and the
connection are part of the time.
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
from protocol.parties import bench_of, lineitem_of, one_table_options
from protocol.peers.mariadb import MariaDB
from protocol.peers.netcat import Netcat
from protocol.peers.peer import Transfer
from protocol.peers.postgresql import PostgreSQL
from protocol.processes import PeerError, program, run
from updates import postgresql

SQL = "SELECT * FROM lineitem"
OURS = "hypostyle, shell"


def printing(command: Sequence[str | Path]) -> Callable[[], Transfer]:
    """Return what runs a program, and counts the lines that it prints in a first run of its own."""
    words = [str(word) for word in command]

    def lines() -> int:
        with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            return sum(piece.count(b"\n") for piece in iter(lambda: process.stdout.read(1 << 20), b""))

    def fetch() -> Transfer:
        if not printed:
            printed.append(lines())
        start = time.perf_counter()
        run(command, stdout=subprocess.DEVNULL)
        return Transfer(time.perf_counter() - start, printed[0], {})

    printed: list[int] = []
    return fetch


def programs(bench: Bench) -> dict[str, Callable[[], Transfer]]:
    """Return what prints lineitem, by name: our shell, netcat, and the programs of the peers that run."""
    table = bench.data.tables[LINEITEM]
    address = bench.ours.address(NetworkPath(bench.ours.port))
    shell = [program("hypostyle"), address]
    found = {
        OURS: printing([*shell, "-c", ".maxrows 0", "-c", SQL]),  # a box of all rows
        "hypostyle, shell, CSV": printing([*shell, "--csv", "-c", SQL]),
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
    rows = bench.data.tables[LINEITEM].rows
    short = [name for name, each in found.items() if any((transfer.rows or rows) < rows for transfer in each)]
    for name in short:
        report.note(f"WRONG: {name} printed fewer lines than there are rows")
    samples = {name: [transfer.seconds for transfer in each] for name, each in found.items()}
    for name, seconds in samples.items():
        report.cell("CP-F1", "Time", name, "print", seconds)
    report.add(Measurement("lineitem retrieved and printed", samples.pop(OURS), samples, wrong=bool(short)))
    report.write_if(chosen.data is None)


if __name__ == "__main__":
    main(one_table_options(__doc__).parse_args())
