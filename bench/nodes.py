"""Nodes of a cluster on this machine, each with a share of a core and a network link of its own.

A node is a process in a control group (v1) that has a quota of time on the processors, and in a
network namespace whose only interface is one end of a link to a bridge. Both ends of a link let a
gigabit a second pass. So workers do not take time from each other as long as the quotas add up to
less than the machine has, and all bytes that a node sends are counted. Where the kernel does not
let this program make groups or namespaces, nodes run without, and `Lab` says so.

Clients reach nodes at Unix sockets, so that nothing but what nodes send each other is on the links.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import STDOUT
from typing import Any

import hypostyle

from measure import cache_directory
from protocol.processes import PeerError, free_port, run, running, wait_until

GROUPS = Path("/sys/fs/cgroup/cpu")
PERIOD = 10_000  # microseconds, in which a quota is given out
RATE, BURST, LATENCY = "1gbit", "256kb", "50ms"
USER, PORT = "bench", 4953
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc")


@dataclass(frozen=True)
class Link:
    """The network of a node: its namespace, its address, and the file that counts what it sends."""

    address: str
    namespace: str | None = None
    counter: Path | None = None

    def sent(self) -> int:
        """Return the bytes that the node has sent: what the other end of its link has received."""
        return int(self.counter.read_text()) if self.counter else 0


@dataclass(frozen=True)
class Node:
    """A process that serves a database."""

    name: str
    link: Link
    group: Path | None
    url: str

    def limit(self, cores: float | None) -> None:
        """Give the node so many cores; `None` for as many as there are."""
        if self.group:
            quota = -1 if cores is None else round(cores * PERIOD)
            (self.group / "cpu.cfs_quota_us").write_text(str(quota))

    def connect(self) -> Any:
        return hypostyle.connect(self.url)


@dataclass(frozen=True)
class Cores:
    """The shares of a core that nodes have while they are measured."""

    worker: float
    coordinator: float


@dataclass(frozen=True)
class Cluster:
    """A coordinator that has no rows, and workers."""

    coordinator: Node
    workers: list[Node]
    cores: Cores

    def limit(self) -> None:
        self.coordinator.limit(self.cores.coordinator)
        for worker in self.workers:
            worker.limit(self.cores.worker)

    def free(self) -> None:
        for node in (self.coordinator, *self.workers):
            node.limit(None)

    def sent(self) -> list[int]:
        return [worker.link.sent() for worker in self.workers]

    def all_sent(self) -> list[int]:
        return [self.coordinator.link.sent(), *self.sent()]


class Lab:
    """Makes nodes, in a directory of their own."""

    def __init__(self, program: Path, directory: Path) -> None:
        self.program = program
        self.directory = directory
        self.tag = f"hy{os.getpid() % 100_000}"
        self.limits = self.network = ""
        self._groups: Path | None = None
        self._has_links = False
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> Lab:
        with self._cleanup:
            self._write_secrets()
            self._try_groups()
            self._try_links()
            self._cleanup = self._cleanup.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def _write_secrets(self) -> None:
        self._password = secrets.token_hex(16)
        self._users = self.directory / "users"
        line = run([self.program, "user", USER, "--role", "admin"], input=self._password + "\n")
        self._users.write_text(line)
        self._credentials = self.directory / "password"
        self._credentials.write_text(secrets.token_hex(32))
        key, certificate = self.directory / "ca.key", self.directory / "ca.pem"
        _openssl(
            "req", "-x509", *KEY, "-days", "2", "-subj", "/CN=bench", "-keyout", key, "-out", certificate
        )

    def _try_groups(self) -> None:
        groups = GROUPS / self.tag
        try:
            groups.mkdir()
        except OSError as error:
            self.limits = f"none: {error}"
            return
        self._cleanup.callback(groups.rmdir)
        self._groups = groups
        self.limits = f"cgroup v1 cpu, period {PERIOD // 1000} ms"

    def _try_links(self) -> None:
        try:
            run(["ip", "link", "add", self.tag, "type", "bridge"])
            self._cleanup.callback(run, ["ip", "link", "delete", self.tag])
            run(["ip", "link", "set", self.tag, "up"])
            with self._link(1):
                self._has_links = True
        except (PeerError, OSError) as error:
            self.network = f"loopback, not counted: {error}"
            return
        self.network = f"a network namespace for each node, bridge, tbf {RATE} at both ends of each link, TLS"

    @contextlib.contextmanager
    def _link(self, number: int) -> Iterator[Link]:
        namespace, outer = f"{self.tag}n{number}", f"{self.tag}v{number}"
        address = f"10.77.0.{number}"
        shape = ["root", "tbf", "rate", RATE, "burst", BURST, "latency", LATENCY]
        with contextlib.ExitStack() as stack:
            run(["ip", "netns", "add", namespace])
            stack.callback(run, ["ip", "netns", "delete", namespace])
            run(["ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", namespace])
            # The end of a namespace ends its links later, and their names are wanted again.
            stack.callback(run, ["ip", "link", "delete", outer])
            run(["ip", "link", "set", outer, "master", self.tag, "up"])
            run(["ip", "-n", namespace, "address", "add", f"{address}/24", "dev", "eth0"])
            for interface in ("lo", "eth0"):
                run(["ip", "-n", namespace, "link", "set", interface, "up"])
            run(["tc", "-n", namespace, "qdisc", "add", "dev", "eth0", *shape])
            run(["tc", "qdisc", "add", "dev", outer, *shape])
            counter = Path(f"/sys/class/net/{outer}/statistics/rx_bytes")
            yield Link(f"{address}:{PORT}", namespace, counter)

    @contextlib.contextmanager
    def _group(self, name: str) -> Iterator[Path | None]:
        if self._groups is None:
            yield None
            return
        group = self._groups / name
        group.mkdir()
        try:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD))
            yield group
        finally:
            group.rmdir()

    @contextlib.contextmanager
    def node(self, directory: Path, name: str, number: int | None = None) -> Iterator[Node]:
        """Start a node: one of a cluster, if it has a number, or a server of a database alone."""
        directory = directory / name
        directory.mkdir(parents=True)
        with contextlib.ExitStack() as stack:
            group = stack.enter_context(self._group(name))
            link = Link("")
            options: list[str | Path] = []
            if number is not None:
                has_link = self._has_links
                link = (
                    stack.enter_context(self._link(number)) if has_link else Link(f"127.0.0.1:{free_port()}")
                )
                options = ["--cluster", self._configuration(directory, name, link)]
            socket, log = directory / "socket", directory / "log"
            serve = [self.program, "serve", directory / "main.hypo", "--unix", socket, "--users", self._users]
            # A worker is a part of a core.
            command = _within(group, link, [*serve, "--threads", "1", *options])
            output = stack.enter_context(log.open("w"))
            process = stack.enter_context(running(command, stdout=output, stderr=STDOUT))
            url = f"hypostyle+unix://{USER}:{self._password}@{socket}"
            # A process that ends at full speed ends sooner.
            node = Node(name, link, group, url)
            stack.callback(node.limit, None)
            wait_until(socket.exists, process, log)
            yield node

    @contextlib.contextmanager
    def cluster(self, workers: int, cores: Cores) -> Iterator[Cluster]:
        """Start a cluster whose coordinator gets no rows. All its nodes have all cores at first."""
        with contextlib.ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=self.directory)))
            names = ["coordinator", *(f"worker{number}" for number in range(1, workers + 1))]
            nodes = [
                stack.enter_context(self.node(directory, name, number))
                for number, name in enumerate(names, start=1)
            ]
            coordinator, *others = nodes
            with coordinator.connect() as connection:
                connection.sql("ALTER CLUSTER PROMOTE coordinator")
                for other in others:
                    connection.sql(f"ALTER CLUSTER ADD NODE {other.name} ADDRESS '{other.link.address}'")
                connection.sql("ALTER CLUSTER DRAIN NODE coordinator")
            yield Cluster(coordinator, others, cores)

    def _configuration(self, directory: Path, name: str, link: Link) -> Path:
        """Write the configuration of a node, which uses TLS if it is not at the loopback interface."""
        lines = [f'name = "{name}"', f'listen = "{link.address}"', f'credentials = "{self._credentials}"']
        if link.namespace:
            self._certificate(directory, link.address.partition(":")[0])
            lines += [
                "[tls]",
                f'certificate = "{directory / "node.pem"}"',
                f'key = "{directory / "node.key"}"',
                f'authorities = "{self.directory / "ca.pem"}"',
            ]
        path = directory / "cluster.toml"
        path.write_text("\n".join(lines) + "\n")
        return path

    def _certificate(self, directory: Path, host: str) -> None:
        request, extensions = directory / "request", directory / "extensions"
        extensions.write_text(f"subjectAltName=IP:{host}\nbasicConstraints=critical,CA:FALSE\n")
        key, certificate = directory / "node.key", directory / "node.pem"
        authority = ["-CA", self.directory / "ca.pem", "-CAkey", self.directory / "ca.key"]
        _openssl("req", *KEY, "-subj", f"/CN={host}", "-keyout", key, "-out", request)
        signed = ["-CAcreateserial", "-days", "2", "-extfile", extensions, "-out", certificate]
        _openssl("x509", "-req", "-in", request, *authority, *signed)


@contextlib.contextmanager
def laboratory(program: Path) -> Iterator[Lab]:
    """Make a lab in a directory of the scratch data, which goes with it."""
    scratch = cache_directory() / "data"
    scratch.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=scratch, prefix="cluster-") as directory,
        Lab(program, Path(directory)) as lab,
    ):
        yield lab


def _openssl(*words: str | Path) -> None:
    run(["openssl", *words])


def _within(group: Path | None, link: Link, command: Sequence[str | Path]) -> list[str | Path]:
    """Return a command that runs in a group and in a namespace, if there are any."""
    words = list(command)
    if link.namespace:
        words = ["ip", "netns", "exec", link.namespace, *words]
    if group:
        words = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', group / "cgroup.procs", *words]
    return words
