"""Generates statements of many subjects from random numbers; the same ones from the same seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import structs
from .calls import BOTH, DUCKDB, POSTGRES
from .expressions import ORDERLY
from .nodes import EMPTY, Node, items, raw
from .windows import Windows
from .writes import Writes


@dataclass(frozen=True)
class Statement:
    """A statement, the systems that know it, and whether its rows are in order."""

    subject: str
    tree: Node
    peers: frozenset[str] = BOTH
    ordered: bool = False
    parameters: tuple[Any, ...] = ()
    writes: bool = False


class Grammar(Windows, Writes):
    """A generator of one statement."""

    def statement(self) -> Statement:
        rng = self._rng
        subjects: dict[str, tuple[int, Callable[[], tuple[Node, bool]]]] = {
            "values": (12, self._values),
            "query": (16, lambda: (self._query(2), False)),
            "groups": (10, lambda: (self._grouped(1), False)),
            "windows": (10, lambda: (self._windowed(), False)),
            "sets": (7, lambda: (self._set_operation(1), False)),
            "with": (6, lambda: (self._with(), False)),
            "recursive": (4, lambda: (self._recursive(), False)),
            "joins": (8, lambda: (self._merged(), False)),
            "ordered": (9, self._ordered),
            "lateral": (5, lambda: (self._lateral(), False)),
            "structs": (5, lambda: (structs.query(rng), False)),
            "writes": (8, lambda: (self._write(), False)),
        }
        names = list(subjects)
        subject = rng.choices(names, [subjects[name][0] for name in names])[0]
        # Some of them are for one system only, which has more functions.
        self._peers = rng.choices([BOTH, POSTGRES, DUCKDB], [7, 2, 1])[0]
        if subject == "structs":
            self._peers = DUCKDB
        if rng.random() < 0.15:
            self._parameters = []
        tree, ordered = subjects[subject][1]()
        # The expression gets something around it.
        return Statement(
            subject,
            Node("statement", "{0}", (tree,)),
            self._peers,
            ordered,
            tuple(self._parameters or ()),
            subject == "writes",
        )

    def _values(self) -> tuple[Node, bool]:
        """Return expressions with values at the edges of their types, one by one: nobody promises
        which of two errors comes first.
        """
        self._edgy = True
        type_ = self._type()
        source, relations = self._table(["t", "t", "u", "filled"])
        node = self._inside(relations, lambda: self._value(type_, self._rng.choice([1, 2, 2, 3])))
        key = raw("integer", relations[0].named("id"))
        return Node("query", "select {0} from {1}", (self._outputs([key, node]), source)), False

    def _ordered(self) -> tuple[Node, bool]:
        rng = self._rng
        types = [rng.choice(ORDERLY) for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.3:
            return self._first_of_each(), True
        query = self._query(1, types)
        keys = []
        for number in rng.sample(range(1, len(types) + 1), len(types)):
            direction = rng.choice(["", " asc", " desc"])
            nulls = rng.choice(["", " nulls first", " nulls last"])
            keys.append(raw("key", f"{number}{direction}{nulls}"))
        order = Node("order", " order by {0}", (items("keys", keys, least=len(keys)),))
        limit = EMPTY
        if rng.random() < 0.6:
            count, skipped = rng.choice([0, 1, 2, 3, 100]), rng.choice([0, 0, 1, 2, 50])
            text = f" limit {count}" + (f" offset {skipped}" if skipped else "")
            if rng.random() < 0.2:
                text = (
                    f" offset {skipped}"
                    if rng.random() < 0.5
                    else f" offset {skipped} rows fetch first {count} rows only"
                )
            limit = raw("limit", text, droppable=True)
        return Node("ordered", "select * from ({0}) o{1}{2}", (query, order, limit)), True

    def _first_of_each(self) -> Node:
        """Return a DISTINCT ON."""
        rng = self._rng
        source, relations = self._table(["t", "t", "u", "filled"])
        relation = relations[0]

        def select() -> Node:
            keys = [self._value(rng.choice(ORDERLY), rng.randrange(2)) for _ in range(rng.randint(1, 2))]
            listed = items("keys", keys, least=len(keys))
            order = [Node("key", "{0}" + rng.choice(["", " desc"]), (key,)) for key in keys]
            outputs = self._outputs([self._value(self._type(), 1), raw("integer", relation.named("id"))])
            tail = raw("key", f"{relation.named('id')}{rng.choice(['', ' desc'])}")
            text = "select distinct on ({0}) {1} from {2}{3} order by {4}, {5}"
            return Node(
                "ordered",
                text,
                (listed, outputs, source, self._where(2, 1), items("order", order, least=len(order)), tail),
            )

        return self._inside(relations, select)
