"""A system that takes part: its process, on one core, and what was measured of it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from measure import REPOSITORY, Report, cache_directory
from protocol.bench import progress
from protocol.processes import PeerError, end, environment
from systems.system import Source

# Loading has no patience, but an end.
LOADING_SECONDS_MAX = 3600


class Timeout(Exception):
    """A worker did not answer in time."""


class Ended(Exception):
    """A worker has ended."""


class Worker:
    """A system in a process of its own, on one core."""

    def __init__(self, system: str, python: Path, log: Path) -> None:
        script = REPOSITORY / "bench" / "systems" / "worker.py"
        core = max(os.sched_getaffinity(0))
        self._log = log.open("a")
        self._process = subprocess.Popen(
            ["taskset", "-c", str(core), str(python), str(script), system],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
            env={**os.environ, **_python_path(system)},
        )
        self._receive(LOADING_SECONDS_MAX)

    def ask(self, action: str, seconds: float = LOADING_SECONDS_MAX, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"action": action, **request}) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise Ended(f"ended with {self._process.wait()}") from error
        return self._receive(seconds)

    def _receive(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            raise Timeout(f"more than {seconds:g} s")
        line = self._process.stdout.readline()
        if not line:
            raise Ended(f"ended with {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer

    def close(self) -> None:
        self._process.kill()
        end(self._process)
        self._log.close()


def _python_path(system: str) -> dict[str, str]:
    """Return where a worker finds the benches, and MonetDB's unpacked packages."""
    places = [str(REPOSITORY / "bench")]
    if system in MONETDB:
        places.append(str(cache_directory() / "monetdb" / MONETDB[system]))
    return {"PYTHONPATH": os.pathsep.join(places)}


MONETDB = {"MonetDBLite": "monetdblite", "MonetDB": "monetdbe"}


def interpreter(system: str) -> Path:
    """Return the interpreter that has a system; raise PeerError if it is not installed."""
    if system not in MONETDB:
        return Path(sys.executable)
    if not (cache_directory() / "monetdb" / MONETDB[system]).exists():
        raise PeerError("it is not installed; run scripts/setup_report.sh")
    return environment("venv-monetdb")


@dataclass
class Party:
    """A system that is loaded: its worker, and what was measured."""

    name: str
    place: Path
    address: dict[str, Any]
    sources: list[Source]
    log: Path
    worker: Worker | None = None
    samples: dict[str, list[float]] = field(default_factory=dict)
    marks: dict[str, str] = field(default_factory=dict)
    wrong: set[str] = field(default_factory=set)

    def start(self, load: bool = False) -> dict[str, Any]:
        """Start a worker; return what it tells of the loading."""
        self.worker = Worker(self.name, interpreter(self.name), self.log)
        return self.worker.ask(
            "prepare",
            place=str(self.place),
            address=self.address,
            tables=[asdict(source) for source in self.sources],
            load=load,
        )

    def open(self) -> None:
        self.start()
        assert self.worker is not None
        self.worker.ask("open")

    def stop(self) -> None:
        if self.worker is not None:
            self.worker.close()
            self.worker = None

    def ask(self, what: str, report: Report, patience: float, **request: Any) -> dict[str, Any] | None:
        """Ask the worker; mark what does not end, and go on with a new one."""
        if what in self.marks:
            return None
        progress(f"{what} by {self.name}")
        try:
            if self.worker is None:
                self.open()
            assert self.worker is not None
            return self.worker.ask(seconds=patience, **request)
        except (Timeout, Ended, PeerError) as error:
            self.marks[what] = "T" if isinstance(error, Timeout) else "E"
            report.note(f"{what} by {self.name}: {self.marks[what]}, {error}")
            self.samples.pop(what, None)
            self.stop()
            return None
