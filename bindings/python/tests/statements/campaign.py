"""Sends statements to a server and checks the rules that must hold, whatever a reader sends."""

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from . import repetition, smith
from .client import Answer, Client, Gone
from .server import ALLOWANCE, MEMORY_LIMIT, STATEMENT_SECONDS, Probe, Server, prepare, serving

# The time after which a statement must have ended, and which another client may have to wait.
GRACE_SECONDS = 8
WAIT_SECONDS = 5
# The time after which a client that left is forgotten, with threads and descriptors.
REST_SECONDS = 20
# A process that crashes closes its connections before it is gone.
DYING_SECONDS = 1
# Threads of pools and descriptors of files, which may stay once they exist.
THREADS_KEPT, DESCRIPTORS_KEPT = 16, 32

# One of ten statements is prepared first, and one of fifty clients does not wait for the answer.
PREPARED, LEFT = 0.1, 0.02

MEBIBYTE = 1 << 20
FAILED_TRANSACTION = "25P02"

# The part of an internal error that identifies it.
DETAIL_CHARACTERS = 40

# Fragments of known internal errors and panics of one query: each line is a defect to fix.
KNOWN = [
    line
    for line in Path(__file__).with_name("known.txt").read_text().splitlines()
    if line and not line.startswith("#")
]

Statements = Iterator[tuple[str, str]]


@dataclass
class Finding:
    """A violation of a rule.

    Attributes:
        kind: died, panicked, internal, unstoppable, memory, late or left behind.
        construct: the name of the construct that caused it.
        sql: the statement.
        detail: what was seen.
    """

    kind: str
    construct: str
    sql: str
    detail: str

    def __str__(self) -> str:
        sql = self.sql if len(self.sql) <= 240 else f"{self.sql[:160]} … {self.sql[-60:]}"
        return f"{self.kind}: {self.construct}: {len(self.sql)} bytes: {sql!r}: {self.detail}"


@dataclass
class Report:
    """The work and the findings of a campaign."""

    seed: int
    statements: int = 0
    states: Counter = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    known: Counter = field(default_factory=Counter)
    slowest_seconds: float = 0.0
    longest_wait: float = 0.0
    peak_bytes: int = 0

    def classes(self) -> list[Finding]:
        """Return one finding of each kind and construct, or of each internal error, the
        shortest.
        """
        shortest: dict[tuple[str, str], Finding] = {}
        for finding in self.findings:
            is_told = finding.kind in ("internal", "panicked")
            key = (finding.kind, finding.detail[:DETAIL_CHARACTERS] if is_told else finding.construct)
            if key not in shortest or len(finding.sql) < len(shortest[key].sql):
                shortest[key] = finding
        return list(shortest.values())

    def harm(self) -> list[Finding]:
        """Return the harm that one statement did to the server or to others."""
        return [finding for finding in self.findings if finding.kind not in ("internal", "panicked")]

    def __str__(self) -> str:
        states = ", ".join(f"{state} {count}" for state, count in self.states.most_common(12))
        lines = [
            f"seed {self.seed}: {self.statements} statements ({states}); "
            f"the slowest took {self.slowest_seconds:.1f} s, others waited {self.longest_wait:.2f} s, "
            f"peak {self.peak_bytes // MEBIBYTE} MiB"
        ]
        lines += [f"known: {count} times: {fragment}" for fragment, count in self.known.most_common()]
        return "\n".join([*lines, *map(str, self.classes())])


class Campaign:
    """Statements of one seed for some time, with a new server after each that failed."""

    def __init__(
        self, program: Path, directory: Path, seed: int, seconds: float, most: int | None = None
    ) -> None:
        self._program, self._directory, self._most = program, directory, most
        self._rng = random.Random(seed)
        self._deadline = time.monotonic() + seconds
        self._server: Server | None = None
        self._client: Client | None = None
        self._probe: Probe | None = None
        self._log_read = 0
        self.report = Report(seed)

    def run(self, statements: Callable[[random.Random, Server], Statements]) -> Report:
        made, is_over = None, False
        while not is_over:
            with serving(self._program, self._directory) as server:
                self._begin(server)
                made = made or itertools.islice(statements(self._rng, server), self._most)
                try:
                    is_over = self._run_on(made)
                finally:
                    self._leave()
        return self.report

    def _begin(self, server: Server) -> None:
        self._server, self._log_read = server, 0
        with server.connect(WAIT_SECONDS) as client:
            client.ask("SELECT count(*) FROM few", WAIT_SECONDS)
        self._probe = Probe(server, WAIT_SECONDS + GRACE_SECONDS)

    def _leave(self) -> None:
        self._probe.end()
        if self._client is not None:
            self._client.close()
            self._client = None

    def _run_on(self, statements: Statements) -> bool:
        """Continue until the server fails; or until time is up, and then it must come to rest."""
        threads, descriptors = self._server.threads(), self._server.descriptors()
        last = ("", "")
        for last in itertools.takewhile(lambda _: time.monotonic() < self._deadline, statements):
            if not self._try(*last):
                return time.monotonic() >= self._deadline
        self._leave()
        self._rest(threads + THREADS_KEPT, descriptors + DESCRIPTORS_KEPT, *last)
        return True

    def _try(self, construct: str, sql: str) -> bool:
        """Say whether the server is healthy after a statement."""
        server, report = self._server, self.report
        server.reset_peak()
        before = len(report.findings)
        report.statements += 1
        start = time.monotonic()
        try:
            if self._client is None:
                self._client = server.connect(WAIT_SECONDS)
            self._ask(construct, sql)
        except TimeoutError:
            self._drop()
            if server.is_alive:
                detail = f"no answer after {time.monotonic() - start:.1f} s"
                self._find("unstoppable", construct, sql, detail)
        except (Gone, OSError):
            report.states["gone"] += 1
            self._drop()
            server.await_end(DYING_SECONDS)
        self._look(construct, sql)
        return len(report.findings) == before

    def _ask(self, construct: str, sql: str) -> None:
        prepared = self._rng.random() < PREPARED
        if self._rng.random() < LEFT:
            self._client.send(sql, prepared=prepared)
            self._drop()
            self._forget(construct, sql)
            return
        answer = self._client.ask(sql, STATEMENT_SECONDS + GRACE_SECONDS, prepared=prepared)
        self.report.states[answer.state or "done"] += 1
        self.report.slowest_seconds = max(self.report.slowest_seconds, answer.seconds)
        if not answer.is_whole:
            self._client = None
        elif answer.state == FAILED_TRANSACTION:
            self._client.ask("ROLLBACK", STATEMENT_SECONDS + GRACE_SECONDS)
        if _is_internal(answer):
            self._find("internal", construct, sql, f"{answer.state}: {answer.message[:300]}")

    def _forget(self, construct: str, sql: str) -> None:
        """Wait until the session of a client that left has ended: the probe's is the only other
        one.
        """
        deadline = time.monotonic() + STATEMENT_SECONDS + GRACE_SECONDS
        with self._server.connect(WAIT_SECONDS) as client:
            while len(client.column("SHOW SESSIONS")) > 2:
                if time.monotonic() > deadline:
                    self._find("unstoppable", construct, sql, "it goes on after its client has left")
                    return
                time.sleep(0.02)

    def _look(self, construct: str, sql: str) -> None:
        """Check what can be seen of the server from outside."""
        server, report = self._server, self.report
        peak, waited = server.peak_bytes(), self._probe.worst_since()
        report.peak_bytes = max(report.peak_bytes, peak)
        report.longest_wait = max(report.longest_wait, waited)
        said = server.log[self._log_read :]
        self._log_read += len(said)
        if server.is_runaway:
            self._find("memory", construct, sql, "it was killed for its memory")
        elif not server.is_alive:
            status = server.process.wait()
            self._find("died", construct, sql, f"status {status}: {said.strip()[-300:]}")
        elif peak > MEMORY_LIMIT + ALLOWANCE:
            self._find("memory", construct, sql, f"{peak // MEBIBYTE} MiB")
        if "panicked" in said:
            self._find("panicked", construct, sql, said[said.index("panicked") :][:400])
        if waited > WAIT_SECONDS and server.is_alive:
            self._find("late", construct, sql, f"another client waited for {waited:.1f} s")

    def _rest(self, threads: int, descriptors: int, construct: str, sql: str) -> None:
        deadline = time.monotonic() + REST_SECONDS
        while True:
            found = (self._server.threads(), self._server.descriptors())
            if found[0] <= threads and found[1] <= descriptors:
                return
            if time.monotonic() > deadline:
                detail = f"{found} threads and descriptors, where {(threads, descriptors)} may stay"
                self._find("left behind", construct, sql, detail)
                return
            time.sleep(0.1)

    def _drop(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None

    def _find(self, kind: str, construct: str, sql: str, detail: str) -> None:
        known = [fragment for fragment in KNOWN if fragment in detail]
        if kind in ("internal", "panicked") and known:
            self.report.known[known[0]] += 1
            return
        self.report.findings.append(Finding(kind, construct, sql, detail))


def _is_internal(answer: Answer) -> bool:
    """Say whether an error is the server's own; a panic is found in its log."""
    if answer.state is None or "the query panicked" in answer.message:
        return False
    return answer.state.startswith("XX") or "please report" in answer.message


def repetitions(rng: random.Random, _server: Server) -> Statements:
    return repetition.statements(rng)


def random_statements(rng: random.Random, server: Server) -> Statements:
    with server.connect(WAIT_SECONDS) as client:
        return smith.Smith(rng, smith.functions(client)).statements()


KINDS = {"repetition": repetitions, "smith": random_statements}


def run(
    program: Path,
    directory: Path,
    kinds: Iterable[str],
    seed: int,
    seconds: float,
    most: int | None = None,
) -> list[Report]:
    """Run a campaign of each kind, each for some seconds, or statements at most."""
    prepare(program, directory, smith.schema())
    return [Campaign(program, directory, seed, seconds, most).run(KINDS[kind]) for kind in kinds]


def replay(program: Path, directory: Path, sql: str) -> Report:
    """Send one statement, as a campaign would."""
    prepare(program, directory, smith.schema())
    campaign = Campaign(program, directory, 0, STATEMENT_SECONDS + GRACE_SECONDS)
    return campaign.run(lambda _rng, _server: iter([("replayed", sql)]))
