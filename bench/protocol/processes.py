"""The processes of the bench: servers, the relay, and the measured clients.

All of them end when the bench does, in any case: each is in a session of its own, so that an
interrupt reaches only the bench, which then stops them in turn.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from measure import REPOSITORY, cache_directory

BENCH = REPOSITORY / "bench"
CLIENTS = BENCH / "protocol" / "clients"
STOP_SECONDS = 20
START_SECONDS = 60
ANSWER_SECONDS_MAX = 900


class PeerError(Exception):
    """A party could not start, or a transfer failed."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def program(name: str) -> Path:
    """Return a program that `make build` has built."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or cache_directory() / "target")
    return target / "release" / name


def environment(name: str) -> Path:
    """Return the interpreter of an environment that scripts/setup_peers.sh creates."""
    python = cache_directory() / name / "bin" / "python"
    if not python.exists():
        raise PeerError(f"{python} is missing; run scripts/setup_peers.sh")
    return python


def unprivileged() -> list[str]:
    """Return the beginning of a command that refuses to run as root: it runs as another user."""
    return [] if os.geteuid() else ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"]


def run(command: Sequence[str | Path], **options: Any) -> str:
    """Return the output of a command, which must succeed, and within `timeout` if there is one."""
    words = [str(word) for word in command]
    options.setdefault("stdout", subprocess.PIPE)
    try:
        done = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False, **options)
    except FileNotFoundError as error:
        raise PeerError(f"{error.filename} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise PeerError(f"{words[0]} was ended after {error.timeout:.0f} s") from error
    if done.returncode != 0:
        raise PeerError(f"{' '.join(words)[:100]} failed: {done.stderr.strip()[-500:]}")
    return done.stdout or ""


@contextlib.contextmanager
def running(
    command: Sequence[str | Path], stop: signal.Signals = signal.SIGTERM, **options: Any
) -> Iterator[subprocess.Popen[Any]]:
    """Start a process that ends with the block."""
    process = subprocess.Popen([str(word) for word in command], start_new_session=True, **options)
    try:
        yield process
    finally:
        end(process, stop)


def end(process: subprocess.Popen[Any], stop: signal.Signals = signal.SIGTERM) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    if process.poll() is None:
        process.send_signal(stop)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[Any], log: Path) -> None:
    """Wait until a server answers; raise its log if it does not."""
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            state = "does not answer" if process.poll() is None else f"ended with {process.returncode}"
            raise PeerError(f"{Path(str(process.args[0])).name} {state}: {log.read_text()[-500:].strip()}")
        time.sleep(0.05)


def accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


class Client:
    """A client process: one of the scripts in `clients/`, which answers requests until it is
    closed.

    It lives as long as its party, as a user's own program would: the time of imports is not
    measured.
    """

    def __init__(self, script: str, python: Path | None = None) -> None:
        self._process = subprocess.Popen(
            [str(python or sys.executable), str(CLIENTS / script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(BENCH)},
        )
        try:
            self._answer()
        except BaseException:
            self.close()
            raise

    @property
    def process(self) -> subprocess.Popen[str]:
        return self._process

    def ask(self, **request: Any) -> dict[str, Any]:
        self.send(**request)
        return self._answer()

    def send(self, **request: Any) -> None:
        """Send a request without waiting; `receive` takes the answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise PeerError(f"the client {self._process.args[1]} takes no requests: {error}") from error

    def receive(self) -> dict[str, Any]:
        return self._answer()

    def close(self) -> None:
        end(self._process)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], ANSWER_SECONDS_MAX)[0]:
            self._process.kill()
            raise PeerError(f"the client {self._process.args[1]} said nothing for {ANSWER_SECONDS_MAX} s")
        line = self._process.stdout.readline()
        if not line:
            raise PeerError(f"the client {self._process.args[1]} ended with {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer
