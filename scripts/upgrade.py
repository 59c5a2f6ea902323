"""Upgrades the nodes of a cluster one after the other, while clients write and read.

`upgrade.py EARLIER LATER DIRECTORY` starts nodes with one program and ends and starts them, one by one,
with the other. At each step, nodes of both releases are in the cluster. No acknowledged row is lost or
doubled, all nodes give the same answers, and whatever a cluster does works: tables, queries of all kinds,
writes on any node.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

NODES = 3

# The time in which a node comes up, or its replicas are in sync.
PATIENCE = 60

# A statement that takes longer hangs.
HANG = 60

QUERIES = [
    "SELECT count(*), sum(k), max(v) FROM kept",
    "SELECT k % 7 AS g, count(*), avg(v) FROM kept GROUP BY k % 7 ORDER BY 1",
    "SELECT v, k FROM kept ORDER BY v DESC, k LIMIT 5",
    "SELECT name, sum(v) FROM kept JOIN names ON k % 10 = n GROUP BY name ORDER BY 1",
    "SELECT count(*) FROM kept a JOIN kept b ON a.k = b.k",
    "SELECT k FROM kept WHERE k = 500",
]


class Failed(Exception):
    """A statement has failed."""


class Node:
    """A node: a process of one program or the other."""

    def __init__(self, directory: Path, number: int, port: int):
        self.name, self.address = f"node{number}", f"127.0.0.1:{port}"
        self.directory = directory / self.name
        self.directory.mkdir(parents=True)
        self.process: subprocess.Popen | None = None
        configuration = f'name = "{self.name}"\nlisten = "{self.address}"\ncredentials = "../password"\n'
        (self.directory / "cluster.toml").write_text(configuration)

    def start(self, program: str) -> None:
        command = [program, "serve", str(self.directory / "main.hypo"), "--threads", "2", "--cluster"]
        with (self.directory / "log").open("a") as log:
            self.process = subprocess.Popen([*command, str(self.directory / "cluster.toml")], stderr=log)
        self.program = program
        until(f"{self.name} comes up", lambda: self.run("SELECT 1") == ["1"])

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=PATIENCE)

    def run(self, sql: str) -> list[str]:
        """Run a statement; return the lines of its rows."""
        address = f"hypostyle://{self.address}/"
        command = [self.program, address, "--csv", "--no-header", "--quiet", "-c", sql]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG)
        if done.returncode != 0:
            raise Failed(done.stderr.strip())
        return done.stdout.splitlines()


def until(what: str, holds) -> None:
    """Wait until something holds."""
    end, why = time.monotonic() + PATIENCE, None
    while time.monotonic() < end:
        try:
            if holds():
                return
        except Failed as failed:
            why = failed
        time.sleep(0.2)
    raise SystemExit(f"not within {PATIENCE} s: {what} ({why})")


class Client(threading.Thread):
    """Write rows through any node, one after the other, and read them."""

    def __init__(self, nodes: list[Node]):
        super().__init__(daemon=True)
        self.nodes, self.over = nodes, threading.Event()
        self.written: set[int] = set()
        # Nobody knows what became of these.
        self.unsure: set[int] = set()
        self.wrong: list[str] = []

    def run(self) -> None:
        chance = random.Random(1)
        for value in itertools.count(1_000_000):
            if self.over.is_set():
                return
            node = chance.choice(self.nodes)
            try:
                node.run(f"INSERT INTO kept VALUES ({value}, {value})")
                self.written.add(value)
            except (Failed, subprocess.TimeoutExpired) as failed:
                self.unsure.add(value)
                if isinstance(failed, subprocess.TimeoutExpired):
                    self.wrong.append(f"INSERT hangs on {node.name}")
            written = len(self.written)
            with contextlib.suppress(Failed):
                # Who reads where nobody coordinates may be behind for some seconds, but reads one state.
                (row,) = chance.choice(self.nodes).run("SELECT count(*), count(DISTINCT k) FROM kept")
                count, distinct = map(int, row.split(","))
                if count != distinct or count > 1000 + written + len(self.unsure):
                    self.wrong.append(f"{row} rows, of which {written} were written")


def check(nodes: list[Node], step: str) -> None:
    """Check that all nodes answer alike and do whatever a cluster does."""
    in_sync = "SELECT count(*) FROM hypostyle_cluster.replica WHERE NOT in_sync"
    for node in nodes:
        until(
            f"{step}: all replicas are in sync on {node.name}", lambda node=node: node.run(in_sync) == ["0"]
        )
    placed = "PARTITION BY HASH (k) INTO 4 FRAGMENTS REPLICAS 2"
    probe = "CREATE TABLE IF NOT EXISTS probe (k BIGINT) REPLICATED"
    for number, node in enumerate(nodes):
        # The coordinator may just have begun again.
        until(f"{step}: {node.name} takes writes", lambda node=node: node.run(probe) == [])
        node.run(f"CREATE TABLE made (k BIGINT, w{number} BIGINT) {placed}")
        node.run("INSERT INTO made SELECT i, i FROM generate_series(1, 100) AS g(i)")
        node.run(f"UPDATE made SET w{number} = 0 WHERE k <= 50")
        node.run("ALTER TABLE made ADD COLUMN more BIGINT")
        node.run("DELETE FROM made WHERE k > 90")
        for other in nodes:
            sums = f"SELECT count(*), sum(w{number}), count(more) FROM made"
            until(
                f"{step}: {other.name} reads", lambda other=other, sums=sums: other.run(sums) == ["90,2820,0"]
            )
        node.run("DROP TABLE made")


def answers(nodes: list[Node], step: str) -> None:
    """Check that all nodes give the same rows while nobody writes."""
    for sql in QUERIES:
        expected = nodes[0].run(sql)
        for node in nodes[1:]:
            alike = partial(lambda node, sql, expected: node.run(sql) == expected, node, sql, expected)
            until(f"{step}: {node.name} answers as node1: {sql}", alike)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [found.getsockname()[1] for found in sockets]


def upgrade(earlier: str, later: str, directory: Path) -> None:
    directory.mkdir(parents=True)
    (directory / "password").write_text("of the nodes of a test\n")
    nodes = [Node(directory, number, port) for number, port in enumerate(free_ports(NODES), start=1)]
    try:
        for node in nodes:
            node.start(earlier)
        first = nodes[0]
        first.run(f"ALTER CLUSTER PROMOTE {first.name}")
        for node in nodes[1:]:
            first.run(f"ALTER CLUSTER ADD NODE {node.name} ADDRESS '{node.address}'")
        first.run("CREATE TABLE kept (k BIGINT, v BIGINT) PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2")
        first.run("CREATE TABLE names (n BIGINT, name VARCHAR) REPLICATED")
        first.run("INSERT INTO names SELECT i, 'n' || i FROM generate_series(0, 9) AS g(i)")
        first.run("INSERT INTO kept SELECT i, i FROM generate_series(1, 1000) AS g(i)")
        written, unsure = set(range(1, 1001)), set()
        # The coordinator is the last one, so that it leads nodes of the later release, too.
        for node in [*nodes[1:], first]:
            step = f"{node.name} upgraded"
            client = Client(nodes)
            client.start()
            time.sleep(2)
            node.end()
            time.sleep(2)
            node.start(later)
            check(nodes, step)
            client.over.set()
            client.join(timeout=2 * HANG)
            if client.is_alive() or client.wrong:
                raise SystemExit(f"{step}: {client.wrong or 'a client hangs'}")
            written |= client.written
            unsure |= client.unsure
            answers(nodes, step)
            print(f"{step}: {len(client.written)} rows written, {len(client.unsure)} refused", flush=True)
            there = [int(value) for value in first.run("SELECT k FROM kept")]
            if len(there) != len(set(there)):
                raise SystemExit(f"{step}: rows are doubled")
            if missing := written - set(there):
                raise SystemExit(f"{step}: {len(missing)} rows are lost, such as {min(missing)}")
            if strange := set(there) - written - unsure:
                raise SystemExit(f"{step}: nobody has written {min(strange)}")
            first.run("DELETE FROM kept WHERE k >= 1000000")
            written = {value for value in written if value < 1_000_000}
            unsure.clear()
    finally:
        for node in nodes:
            node.end()


if __name__ == "__main__":
    upgrade(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
