"""The real program as a server, for the tests of its flags and of its behaviour after failures."""

import contextlib
import http.client
import os
import re
import subprocess
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from urllib.parse import urlsplit

import hypostyle
import pytest

PROGRAM = Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "release" / "hypostyle"
needs_program = pytest.mark.skipif(not PROGRAM.exists(), reason=f"there is no {PROGRAM}")

# The limit for work that takes milliseconds on an idle machine.
DEADLINE = 30

# A query that never ends, and takes little memory.
ENDLESS = (
    "with recursive n as (select 1 as x union all select x + 1 from n where x > 0) select count(*) from n"
)


def later(work) -> Future:
    """Do work on a thread that may hang without blocking the tests; read its result with a
    timeout.
    """
    future = Future()

    def run():
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def promptly(work):
    """Return or raise what the work does, which it must within the deadline."""
    return later(work).result(timeout=DEADLINE)


def until(condition):
    """Wait for a condition, and return its value."""
    deadline = time.monotonic() + DEADLINE
    while not (found := condition()):
        assert time.monotonic() < deadline, "it has not come about"
        time.sleep(0.005)
    return found


def _of_those_there(directory: Path, ask):
    """Apply a function to all names in a directory of /proc; those that have ended give no
    answer.
    """
    answers = []
    for entry in directory.iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            answers.append(ask(entry))
    return answers


class Served:
    """A running `hypostyle serve`.

    Attributes:
        places: the addresses at which it listens, by scheme.
    """

    def __init__(self, process: subprocess.Popen, log: Path) -> None:
        self.process = process
        self._log = log
        line = self.await_log(r"(?m)^hypostyle serves .* on (.*)\n")[1]
        self.places = {urlsplit(address).scheme: address for address in line.split(" ")}

    @property
    def log(self) -> str:
        return self._log.read_text()

    def await_log(self, pattern: str, count: int = 1) -> re.Match:
        """Wait until the log has so many lines of a pattern, and return the last."""

        def look():
            is_over = self.process.poll() is not None
            found = list(re.finditer(pattern, self.log))
            assert len(found) >= count or not is_over, f"the server has ended:\n{self.log}"
            return found[-1] if len(found) >= count else None

        return until(look)

    def port(self, scheme: str) -> int:
        return urlsplit(self.places[scheme]).port

    @property
    def tcp(self) -> str:
        return self.places["hypostyle"]

    @property
    def unix(self) -> str:
        return self.places["hypostyle+unix"]

    def connect(self, scheme: str = "hypostyle") -> hypostyle.Connection:
        return hypostyle.connect(self.places[scheme])

    def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        """Return status and text of an answer of its metrics' address."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port("http"), timeout=DEADLINE)
        with contextlib.closing(connection):
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def abandoned(self) -> int:
        """Count the open TCP sockets of the server whose other end is closed."""
        ports = {urlsplit(address).port for address in self.places.values()} - {None}
        count = 0
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            _, own, other, state, *_, inode = line.split()[:10]
            if state != "0A" and inode != "0":
                count += int(own.split(":")[1], 16) in ports
                count -= int(other.split(":")[1], 16) in ports
        return count

    def held(self) -> dict[str, int]:
        """Count the server's threads, sockets and files for its clients."""
        process = Path("/proc") / str(self.process.pid)
        threads = _of_those_there(process / "task", lambda task: (task / "comm").read_text().strip())
        files = _of_those_there(process / "fd", os.readlink)
        return {
            "threads": sum(name in ("hypostyle-sessi", "pgwire") for name in threads),
            "sockets": sum(file.startswith("socket:") for file in files),
            "memory files": sum(file.startswith("/memfd:") for file in files),
            "deleted files": sum(file.endswith(" (deleted)") and "memfd" not in file for file in files),
        }

    def memory(self) -> int:
        """Return the bytes of the server's own memory."""
        return int(re.search(r"RssAnon:\s+(\d+)", self._status())[1]) << 10

    def is_running(self) -> bool:
        return self.process.poll() is None and "State:\tT" not in self._status()

    def _status(self) -> str:
        return (Path("/proc") / str(self.process.pid) / "status").read_text()

    def metric(self, name: str) -> int:
        return int(re.search(rf"(?m)^hypostyle_{re.escape(name)} (\d+)$", self.get("/metrics")[1])[1])

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def wait(self) -> int:
        return self.process.wait(timeout=DEADLINE)


@contextlib.contextmanager
def serve(directory: Path, *options: object, database: object = ":memory:", before: tuple[str, ...] = ()):
    """Serve a database until the block's end, at the latest; `before` stands in front of the
    command.
    """
    log = directory / f"server-{time.monotonic_ns()}.log"
    command = [*before, PROGRAM, "serve", database, "--log-level", "info", *options]
    with (
        log.open("w") as errors,
        subprocess.Popen([*map(str, command)], stdin=subprocess.DEVNULL, stderr=errors) as process,
    ):
        try:
            served = Served(process, log)
            yield served
            # After every test no connection of a client that has gone is left.
            until(lambda: not served.is_running() or served.abandoned() <= 0)
        finally:
            process.kill()


@contextlib.contextmanager
def start(*command: object, **options):
    """Start another process, which is killed at the block's end if it still runs."""
    pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
    with subprocess.Popen([*map(str, command)], text=True, **pipes, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def run(*arguments: object, text: str = "", **options) -> subprocess.CompletedProcess[str]:
    """Run the program to its end, with a text on its standard input."""
    command = [*map(str, (PROGRAM, *arguments))]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=DEADLINE, **options)


def sessions(con: hypostyle.Connection) -> list[tuple[str, str | None]]:
    """Return state and last statement of each session but the one that asks."""
    own = ("active", "show sessions")
    return [row[4:6] for row in con.sql("show sessions").fetchall() if row[4:6] != own]


def is_running(con: hypostyle.Connection, statement: str) -> bool:
    """Say whether a session runs a statement."""
    return any(found == statement for _, found in sessions(con))
