"""Many clients at once, some of which stop reading: results are right, and the server's memory is
bounded.

All clients come over TCP, so that they get chunks, and take the same table. A quarter of the
clients take one batch and then nothing until the others are done: half of those do not ask their
connection for more, the others are stopped as processes. Then they continue, and must get all of
the rest.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measure import Bar, Measurement
from protocol.bench import Bench, progress
from protocol.clients.checksum import checksum
from protocol.data import LINEITEM, TENTH
from protocol.networks import Path as NetworkPath
from protocol.processes import Client

ACTIVE_PROCESSES, ACTIVE_CLIENTS = 4, 12
STALLED_PROCESSES, STALLED_CLIENTS = 2, 8
CLIENTS = ACTIVE_PROCESSES * ACTIVE_CLIENTS + STALLED_PROCESSES * STALLED_CLIENTS
# The credit that our client grants, plus one frame (protocol.md §6).
WINDOW_BYTES = 32 << 20
FRAME_BYTES = 1 << 20
SAMPLE_SECONDS = 0.02


def crowd(bench: Bench) -> None:
    # A table that is much larger than a window, and that all clients can hold at once.
    tables = (bench.data.tables[TENTH], bench.data.tables[LINEITEM])
    table = next((table for table in tables if table.csv.stat().st_size > 2 * WINDOW_BYTES), tables[1])
    expected = checksum(table.read())
    request = {"address": bench.ours.address(NetworkPath(bench.ours.port)), "table": table.name}
    active = [bench.ours.client("crowd_client.py") for _ in range(ACTIVE_PROCESSES)]
    stalled = [bench.ours.client("crowd_client.py") for _ in range(STALLED_PROCESSES)]
    memory = Path(f"/proc/{bench.ours.server.pid}/status")
    samples: dict[str, list[float]] = {"active": [], "stalled": [], "memory": []}
    wrong = False
    for run in range(bench.options.runs):
        progress(f"{CLIENTS} clients, {len(stalled) * STALLED_CLIENTS} stalled: run {run + 1}")
        with peak(memory) as growth:
            together(stalled, do="begin", clients=STALLED_CLIENTS, **request)
            with stopped(stalled[0]):
                done = together(active, do="take", clients=ACTIVE_CLIENTS, **request)
            late = together(stalled, do="finish")
        for name, answers in (("active", done), ("stalled", late)):
            samples[name].append(max(answer["seconds"] for answer in answers))
            found = [each for answer in answers for each in answer["found"]]
            if any(each != expected for each in found):
                wrong = True
                bench.report.note(f"WRONG: {name} clients got {found}, not {expected}")
        samples["memory"].append(growth[0])
    bar = Bar(at_most=CLIENTS * (WINDOW_BYTES + FRAME_BYTES))
    title = f"{CLIENTS} clients, {table.label}"
    bench.report.add(Measurement(f"{title}: those who read", samples["active"], wrong=wrong))
    bench.report.add(Measurement(f"{title}: the stalled, after", samples["stalled"], wrong=wrong))
    bench.report.add(Measurement(f"{title}: server grows by", samples["memory"], {}, bar, "bytes", wrong))


def together(processes: list[Client], **request: Any) -> list[dict[str, Any]]:
    for process in processes:
        process.send(**request)
    return [process.receive() for process in processes]


@contextlib.contextmanager
def stopped(client: Client) -> Iterator[None]:
    client.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        client.process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def peak(status: Path) -> Iterator[list[float]]:
    """Append to the list, after the block, the bytes by which the process grew at most; mapped
    files do not count.
    """
    before, growth, done = own_bytes(status), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(SAMPLE_SECONDS):
            growth[0] = max(growth[0], own_bytes(status) - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield growth
    finally:
        done.set()
        watcher.join()


def own_bytes(status: Path) -> float:
    """Return the memory of the process itself: anonymous pages and shared memory."""
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return sum(int(fields[name].split()[0]) * 1024.0 for name in ("RssAnon", "RssShmem"))
