"""Sends statements to all systems that know them, compares their answers, and explains differences.

A batch has the statements of a seed over the tables of that seed. It runs in a process of its own,
which is ended if a statement does not end: that is a difference as well.
"""

from __future__ import annotations

import multiprocessing
import random
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from . import tables
from .grammar import Grammar, Statement
from .nodes import Node, reduced
from .peers import UNREADABLE, Answer, DuckDb, Hypostyle, Postgres, by_length, same

BATCH = 250
# The time of a statement; each system gives up before it.
SECONDS = 20
REDUCING_SECONDS = 120
ZONES = ["UTC", "UTC", "Europe/Berlin", "America/New_York"]


@dataclass(frozen=True)
class Difference:
    """A statement with several answers."""

    seed: int
    index: int
    subject: str
    kind: str
    sql: str
    answers: dict[str, str]
    setting: str
    # The other systems that took part and do not give our answer.
    disagreeing: frozenset[str] = frozenset()

    def __str__(self) -> str:
        lines = [
            f"-- {self.kind} ({self.subject}, seed {self.seed}, statement {self.index}; {self.setting})",
            self.sql,
        ]
        return "\n".join([*lines, *(f"--   {name}: {answer}" for name, answer in self.answers.items())])


@dataclass
class Report:
    """The outcome of some statements."""

    statements: int = 0
    # The number of statements to which all gave rows.
    answered: int = 0
    subjects: Counter[str] = field(default_factory=Counter)
    explained: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join([self.summary(), *map(str, self.differences)])

    def summary(self) -> str:
        """Return the numbers, without the statements."""
        explained = sum(self.explained.values())
        lines = [
            f"{self.statements} statements, {self.answered} with rows of all; "
            f"{explained} differences are explained, {len(self.differences)} are not"
        ]
        lines += [f"  {count} times: {why}" for why, count in self.explained.most_common()]
        return "\n".join(lines)


class Explanations:
    """The known differences, from `differences.toml`."""

    def __init__(self) -> None:
        self._known = tomllib.loads(Path(__file__).with_name("differences.toml").read_text())["difference"]

    def of(self, difference: Difference, reduced: bool) -> str | None:
        """Return the reason of a difference, if it is known; patterns of SQL are for reduced
        statements.
        """
        for known in self._known:
            if "sql" in known and not reduced:
                continue
            texts = {**difference.answers, "sql": difference.sql, "kind": difference.kind}
            patterns = {key: known[key] for key in known if key not in ("why", "as_in")}
            if known.get("as_in") in difference.disagreeing:
                continue
            if all(re.search(pattern, texts.get(key, ""), re.S) for key, pattern in patterns.items()):
                return known["why"]
        return None


class Batch:
    """The tables of a seed, in each system."""

    def __init__(self, seed: int, postgres: str | None) -> None:
        self.seed, self._explanations = seed, Explanations()
        rng = random.Random(f"tables {seed}")
        self.zone = rng.choice(ZONES)
        self.ours, self.duckdb = Hypostyle(), DuckDb()
        self.peers: dict[str, Any] = {"duckdb": self.duckdb}
        if postgres:
            self.peers["postgres"] = Postgres(postgres, f"seed{seed}x{random.randrange(10**9)}")
        structs, made = tables.structs(rng), tables.definitions(rng)
        for who in (self.ours, *self.peers.values()):
            own = made if who.name == "postgres" else [*made, *structs]
            for sql in [*own, f"set timezone = '{self.zone}'"]:
                answer = who.answer(sql, [])
                if answer.rows is None:
                    raise RuntimeError(f"{who.name}: {sql}: {answer}")

    def _answer(self, who: Any, statement: Statement, tree: Node) -> Answer:
        sql, parameters = _with_parameters(tree.text(who.name), statement.parameters)
        if not statement.writes:
            return who.answer(sql, parameters)
        who.answer("begin", [])
        answer = who.answer(sql, parameters)
        if answer.rows is not None:
            # The rows that RETURNING gave, besides those of the table.
            given = [("returned", *row) for row in answer.rows] if " returning " in sql else []
            found = who.answer("select * from t", [])
            answer = found if found.rows is None else Answer(given + found.rows)
        who.answer("rollback", [])
        return answer

    def compare(self, statement: Statement, tree: Node) -> tuple[str | None, dict[str, Answer]]:
        """Return the kind of a difference, if there is one, and the answers."""
        peers = [name for name in sorted(statement.peers) if name in self.peers]
        answers = {name: self._answer(self.peers[name], statement, tree) for name in peers}
        if not peers:
            return None, {}
        # If the peers disagree, PostgreSQL is right. What both refuse is not tested here.
        judge = peers[-1]
        refused = all(answer.rows is None for answer in answers.values())
        if refused or answers[judge].sqlstate == UNREADABLE:
            return None, answers
        ours = self._answer(self.ours, statement, tree)
        answers = {"hypostyle": ours, **answers}
        if not same(ours, answers[judge], statement.ordered):
            if same(by_length(ours), by_length(answers[judge]), statement.ordered):
                return f"equal intervals, not those of {judge}", answers
            return _kind(ours, answers[judge], judge), answers
        return None, answers

    def statement(self, index: int) -> Statement:
        return Grammar(random.Random(f"{self.seed} {index}")).statement()

    def difference(self, index: int, reduce: bool) -> tuple[Difference | None, str, bool]:
        """Return what differs about a statement, its subject, and whether all gave rows."""
        statement = self.statement(index)
        kind, answers = self.compare(statement, statement.tree)
        answered = bool(answers) and all(answer.rows is not None for answer in answers.values())
        if kind is None:
            return None, statement.subject, answered
        found = self._found(index, statement, statement.tree, kind, answers)
        if not reduce or kind == "timeout" or self._explanations.of(found, reduced=False):
            return found, statement.subject, answered
        cause = _cause(kind, answers["hypostyle"])

        def holds(other: Node) -> bool:
            kind, answers = self.compare(statement, other)
            return kind is not None and _cause(kind, answers["hypostyle"]) == cause

        tree = reduced(statement.tree, holds)
        _, answers = self.compare(statement, tree)
        return self._found(index, statement, tree, kind, answers), statement.subject, answered

    def _found(
        self, index: int, statement: Statement, tree: Node, kind: str, answers: dict[str, Answer]
    ) -> Difference:
        sql, parameters = _with_parameters(tree.text("hypostyle"), statement.parameters)
        if parameters:
            sql += f" -- {parameters}"
        texts = {name: str(answer) for name, answer in answers.items()}
        theirs = {
            name: answers.get(name) or self._answer(self.peers[name], statement, tree) for name in self.peers
        }
        ours = answers["hypostyle"]
        disagreeing = frozenset(
            name for name, answer in theirs.items() if not same(ours, answer, statement.ordered)
        )
        setting = f"time zone {self.zone}"
        return Difference(self.seed, index, statement.subject, kind, sql, texts, setting, disagreeing)


def _with_parameters(sql: str, parameters: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """Return a statement with the values of the parameters that it has: those of parts that were
    thrown away are none of it.
    """
    used = sorted({int(number) for number in re.findall(r"\$([0-9]+)", sql)})
    places = {number: place for place, number in enumerate(used, 1)}
    sql = re.sub(r"\$([0-9]+)", lambda found: f"${places[int(found[1])]}", sql)
    return sql, [parameters[number - 1] for number in used]


def _cause(kind: str, ours: Answer) -> tuple[str, str]:
    """Return what must stay while a statement is reduced: the kind, and the message's first
    words.
    """
    return kind, "" if ours.rows is not None else re.sub(r'"[^"]*"|[0-9]+', "", ours.message)[:40]


def _kind(ours: Answer, theirs: Answer, judge: str) -> str:
    if ours.rows is not None:
        return f"other rows than {judge}" if theirs.rows is not None else f"rows where {judge} refuses"
    if ours.sqlstate.startswith("XX"):
        return "internal error"
    if ours.sqlstate == "57014":
        return "timeout"
    return "not supported" if ours.sqlstate == "0A000" else f"error {ours.sqlstate}"


def _work(pipe: Connection, seed: int, indexes: range, postgres: str | None, reduce: bool) -> None:
    batch = Batch(seed, postgres)
    for index in indexes:
        pipe.send(index)
        found = batch.difference(index, reduce)
        pipe.send(found)
        if found[0] is not None and found[0].kind == "timeout":
            # Its threads may still run; the next work needs a process of its own.
            break
    pipe.send(None)


def _batch(seed: int, count: int, postgres: str | None, reduce: bool) -> Iterator[tuple[Any, str, bool]]:
    """Return the outcome of each statement, also of statements that did not end."""
    start, context = 0, multiprocessing.get_context("spawn")
    while start < count:
        began = start
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(sender, seed, range(start, count), postgres, reduce))
        process.start()
        sender.close()
        try:
            # The wait for the first one includes the creation of the tables.
            while (at := _received(receiver, 3 * SECONDS)) is not None:
                start = at + 1
                yield _received(receiver, REDUCING_SECONDS if reduce else SECONDS)
        except (TimeoutError, EOFError) as error:
            if start == began:
                raise RuntimeError(f"the tables of seed {seed} cannot be made") from error
            statement = Grammar(random.Random(f"{seed} {start - 1}")).statement()
            kind = "hang" if isinstance(error, TimeoutError) else "died"
            sql = statement.tree.text("hypostyle")
            yield Difference(seed, start - 1, statement.subject, kind, sql, {}, ""), statement.subject, False
        finally:
            process.kill()
            process.join()


def _received(pipe: Connection, seconds: float) -> Any:
    if not pipe.poll(seconds):
        raise TimeoutError
    return pipe.recv()


def run(
    seeds: range,
    count: int,
    postgres: str | None,
    reduce: bool = True,
    tell: Callable[[Difference], None] = lambda _: None,
) -> Report:
    """Compare the first statements of each seed, and report each difference that is not
    explained.
    """
    report, explanations = Report(), Explanations()
    for seed in seeds:
        for found, subject, answered in _batch(seed, count, postgres, reduce):
            report.statements += 1
            report.answered += answered
            report.subjects[subject] += 1
            if found is None:
                continue
            if (why := explanations.of(found, reduced=True)) is not None:
                report.explained[why] += 1
            else:
                report.differences.append(found)
                tell(found)
    return report
