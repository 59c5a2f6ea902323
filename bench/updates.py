"""Updates of different rows of one table with a primary key, by 64 clients of a server at once.

pgbench connects to both servers, to ours by PostgreSQL's protocol. Each client updates its own row
with a prepared statement, and each update is a durable commit. Afterwards the table must have
counted every one of them. The clients update different rows, so that no update may fail.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from measure import Bar, Measurement, Report, cache_directory, options
from protocol.processes import PeerError, free_port, program, run, running, unprivileged, wait_until

CLIENTS = 64
THREADS = 2
UPDATE = "\\set id :client_id + 1\nUPDATE counter SET n = n + 1 WHERE id = :id\n"
USER = "bench"
DATABASES = {"hypostyle": "hypostyle", "PostgreSQL": "postgres"}


def postgresql(name: str) -> str:
    """Return the path of one of PostgreSQL's programs."""
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = shutil.which(name) or (str(installed[-1]) if installed else None)
    if found is None:
        raise PeerError(f"{name} is not installed; run scripts/setup_peers.sh")
    return found


@contextlib.contextmanager
def hypostyle(scratch: Path, port: int) -> Iterator[None]:
    command = [program("hypostyle"), "serve", scratch / "d.hypo", "--pgwire", f"127.0.0.1:{port}"]
    with served([*command, "--log-level", "warn"], scratch / "hypostyle.log", port):
        yield


@contextlib.contextmanager
def peer(scratch: Path, port: int) -> Iterator[None]:
    cluster = scratch / "cluster"
    made = ["--auth=trust", f"--username={USER}", "--encoding=UTF8", "--locale=C.UTF-8"]
    run([*unprivileged(), postgresql("initdb"), "-D", cluster, *made])
    command = [*unprivileged(), postgresql("postgres"), "-D", cluster, "-p", str(port), "-k", scratch]
    with served(command, scratch / "postgresql.log", port, signal.SIGINT):
        yield


@contextlib.contextmanager
def served(
    command: list[str | Path], log: Path, port: int, stop: signal.Signals = signal.SIGTERM
) -> Iterator[None]:
    with log.open("w") as output, running(command, stop, stdout=output, stderr=output) as server:
        wait_until(lambda: is_ready(port), server, log)
        yield


def is_ready(port: int) -> bool:
    command = [postgresql("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port), "-U", USER]
    return subprocess.run(command, check=False).returncode == 0


PARTIES = {"hypostyle": hypostyle, "PostgreSQL": peer}


def psql(address: list[str], sql: str) -> str:
    return run([postgresql("psql"), *address, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql])


def updates(party: str, rows: int, seconds: int) -> tuple[float, int]:
    """Return the seconds of each update, and how many of them failed."""
    with tempfile.TemporaryDirectory(dir=cache_directory()) as directory:
        scratch, port = Path(directory), free_port()
        script = scratch / "update.sql"
        script.write_text(UPDATE)
        address = ["-h", "127.0.0.1", "-p", str(port), "-U", USER]
        with PARTIES[party](scratch, port):
            database = DATABASES[party]
            table = "CREATE TABLE counter (id INTEGER PRIMARY KEY, n INTEGER NOT NULL)"
            psql([*address, database], table)
            numbers = f"generate_series(1, {rows}) AS s(id)"
            psql([*address, database], f"INSERT INTO counter SELECT id, 0 FROM {numbers}")
            command = [postgresql("pgbench"), *address, "-n", "-M", "prepared", "-f", str(script)]
            command += ["-c", str(CLIENTS), "-j", str(THREADS), "-T", str(seconds), database]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            counted = int(psql([*address, database], "SELECT sum(n) FROM counter"))
    told = re.search(r"transactions actually processed: (\d+)", done.stdout)
    failed = re.search(r"failed transactions: (\d+)", done.stdout)
    rate = re.search(r"^tps = ([\d.]+)", done.stdout, re.MULTILINE)
    if done.returncode != 0 or told is None or rate is None:
        raise PeerError(f"pgbench against {party}: {done.stderr.strip()[-500:]}")
    if counted < int(told[1]):
        raise RuntimeError(f"{party}: {told[1]} updates, of which {counted} are counted")
    return 1 / float(rate[1]), int(failed[1]) if failed else 0


def main(options: Namespace) -> None:
    report = Report("updates", options)
    samples: dict[str, list[float]] = {party: [] for party in PARTIES}
    failures = dict.fromkeys(PARTIES, 0)
    for _ in range(options.runs):
        for party in PARTIES:
            each, failed = updates(party, options.rows, options.seconds)
            samples[party].append(each)
            failures[party] += failed
    ours = samples.pop("hypostyle")
    what = f"update of one row, {CLIENTS} clients, {options.rows} rows"
    report.add(Measurement(what, ours, samples, Bar(at_most=0.001), wrong=failures["hypostyle"] > 0))
    report.note(f"failed updates: {failures}")
    report.write()


if __name__ == "__main__":
    parser = options(__doc__)
    parser.add_argument("--rows", type=int, default=1000, help="rows of the table (default 1000)")
    parser.add_argument("--seconds", type=int, default=10, help="seconds of a run (default 10)")
    main(parser.parse_args())
