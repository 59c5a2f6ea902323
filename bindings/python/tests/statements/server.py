"""A server with little memory, as it can be seen from outside."""

import contextlib
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from .client import Client, Gone

MEMORY_LIMIT = 512 << 20
# The memory that it may take besides: as much again (docs/decisions/0012), and what a process has
# without statements.
ALLOWANCE = MEMORY_LIMIT + (256 << 20)
# The size at which the server is killed before the machine suffers.
RUNAWAY = 3 * MEMORY_LIMIT + ALLOWANCE

STATEMENT_SECONDS = 2
START_SECONDS = 60
SAMPLE_SECONDS = 0.02

READER, ADMIN = "reader", "root"
PASSWORD = "opensesame"


class Server:
    """A running `hypostyle serve` to which a reader can send statements."""

    def __init__(self, process: subprocess.Popen, log: Path) -> None:
        self.process = process
        self._log = log
        self.port = int(self._await(r"postgresql://[^ /]*:(\d+)/")[1])
        self.is_runaway = False
        self._is_over = threading.Event()
        threading.Thread(target=self._guard, daemon=True).start()

    def connect(self, seconds: float, user: str = READER) -> Client:
        return Client(self.port, user, PASSWORD, seconds)

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def await_end(self, seconds: float) -> None:
        """Give the process a moment to end, if it does."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def reset_peak(self) -> None:
        """Reset the peak of memory to the present value."""
        with contextlib.suppress(OSError):
            Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def peak_bytes(self) -> int:
        return self._status("VmHWM") << 10

    def threads(self) -> int:
        return self._status("Threads")

    def descriptors(self) -> int:
        try:
            return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))
        except OSError:
            return 0

    def end(self) -> None:
        self._is_over.set()
        self.process.kill()
        self.process.wait()

    def _status(self, name: str) -> int:
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return 0
        found = re.search(rf"(?m)^{name}:\s+(\d+)", status)
        return int(found[1]) if found else 0

    def _guard(self) -> None:
        while not self._is_over.wait(SAMPLE_SECONDS):
            if self._status("VmRSS") << 10 > RUNAWAY:
                self.is_runaway = True
                self.process.kill()
                return

    def _await(self, pattern: str) -> re.Match:
        deadline = time.monotonic() + START_SECONDS
        while not (found := re.search(pattern, self.log)):
            assert self.is_alive, f"the server has ended:\n{self.log}"
            assert time.monotonic() < deadline, f"the server does not start:\n{self.log}"
            time.sleep(0.01)
        return found


def prepare(program: Path, directory: Path, schema: str) -> None:
    """Create the database and the users of every server of a campaign."""
    made = subprocess.run([program, directory / "d.hypo", "-c", schema], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    lines = []
    for name, role in ((READER, "read"), (ADMIN, "admin")):
        command = [program, "user", name, "--role", role]
        line = subprocess.run(command, input=PASSWORD, capture_output=True, text=True, check=True)
        lines.append(line.stdout)
    (directory / "users").write_text("".join(lines))
    (directory / "users").chmod(0o600)


@contextlib.contextmanager
def serving(program: Path, directory: Path) -> Iterator[Server]:
    """Serve the prepared database, until the block's end at the latest."""
    log = directory / f"server-{time.monotonic_ns()}.log"
    options = {
        "--pgwire": "127.0.0.1:0",
        "--users": directory / "users",
        "--memory-limit": MEMORY_LIMIT,
        "--statement-timeout": STATEMENT_SECONDS,
        "--threads": 2,
        "--temp-directory": directory,
        "--log-level": "info",
    }
    command = [program, "serve", directory / "d.hypo", *(part for pair in options.items() for part in pair)]
    with log.open("w") as errors:
        process = subprocess.Popen([*map(str, command)], stdin=subprocess.DEVNULL, stderr=errors)
    try:
        server = Server(process, log)
        yield server
        server.end()
    finally:
        process.kill()
        process.wait()


class Probe:
    """Another client, which runs a small query all the time and records the longest wait."""

    def __init__(self, server: Server, seconds: float) -> None:
        self._server, self._seconds = server, seconds
        self._lock = threading.Lock()
        self._worst = 0.0
        self._asked: float | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def worst_since(self) -> float:
        """Return the longest wait since the last call, also of a query that still has no answer."""
        with self._lock:
            waiting = time.monotonic() - self._asked if self._asked is not None else 0.0
            worst, self._worst = max(self._worst, waiting), 0.0
        return worst

    def end(self) -> None:
        self._is_over.set()
        self._thread.join(self._seconds)

    def _run(self) -> None:
        while not self._is_over.is_set():
            with contextlib.suppress(OSError, Gone), self._server.connect(self._seconds) as client:
                while not self._is_over.wait(0.05):
                    self._ask(client)

    def _ask(self, client: Client) -> None:
        start = time.monotonic()
        with self._lock:
            self._asked = start
        try:
            client.ask("SELECT count(*) FROM few", self._seconds)
        finally:
            with self._lock:
                self._worst, self._asked = max(self._worst, time.monotonic() - start), None
