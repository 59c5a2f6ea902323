"""Statements as trees, which are written for each dialect and reduced."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

DIALECTS = ("hypostyle", "duckdb", "postgres")


@dataclass(frozen=True)
class Node:
    """A part of a statement: a template and its children; a dialect may have a template of its own.

    Parts of one `kind` can replace each other. A `droppable` part can be left out. The children of
    a node with a `separator` follow each other, and at least `least` of them must stay.
    """

    kind: str
    template: str = ""
    children: tuple[Node, ...] = ()
    droppable: bool = False
    separator: str | None = None
    least: int = 1
    dialects: dict[str, str] = field(default_factory=dict)

    def text(self, dialect: str) -> str:
        """Return the part as SQL of a dialect."""
        pieces = [child.text(dialect) for child in self.children]
        if self.separator is not None:
            return self.separator.join(pieces)
        return self.dialects.get(dialect, self.template).format(*pieces)

    def size(self) -> int:
        """Return the number of parts."""
        return 1 + sum(child.size() for child in self.children)

    def _descendants(self) -> Iterator[Node]:
        for child in self.children:
            yield child
            yield from child._descendants()

    def smaller(self) -> Iterator[Node]:
        """Yield trees with one part less, the smallest first."""
        for index, child in enumerate(self.children):
            if self.separator is not None and len(self.children) > self.least:
                yield self._with(index)
            if child.droppable:
                yield self._with(index, EMPTY)
            for other in child._descendants():
                if other.kind == child.kind and not other.droppable:
                    yield self._with(index, other)
            simplest = SIMPLEST.get(child.kind)
            for text in simplest or ():
                if child.children or (child.template != text and child.template not in simplest):
                    yield self._with(index, Node(child.kind, text))
        for index, child in enumerate(self.children):
            for other in child.smaller():
                yield self._with(index, other)

    def _with(self, index: int, *others: Node) -> Node:
        children = self.children[:index] + others + self.children[index + 1 :]
        return dataclasses.replace(self, children=children)


EMPTY = Node("nothing")


def raw(kind: str, text: str, **options: Any) -> Node:
    """Return a part without children."""
    return Node(kind, text.replace("{", "{{").replace("}", "}}"), **options)


def items(kind: str, nodes: list[Node], separator: str = ", ", least: int = 1) -> Node:
    return Node(kind, children=tuple(nodes), separator=separator, least=least)


# Expressions of each type that can replace any other.
SIMPLEST = {
    "integer": ("1", "cast(null as integer)"),
    "bigint": ("1", "cast(null as bigint)"),
    "double": ("cast(1 as double precision)", "cast(null as double precision)"),
    "decimal": ("cast(1 as decimal(12, 3))", "cast(null as decimal(12, 3))"),
    "boolean": ("true", "cast(null as boolean)"),
    "varchar": ("'a'", "cast(null as varchar)"),
    "date": ("date '2020-01-01'", "cast(null as date)"),
    "timestamp": ("timestamp '2020-01-01 00:00:00'", "cast(null as timestamp)"),
    "timestamptz": ("timestamptz '2020-01-01 00:00:00+00'", "cast(null as timestamptz)"),
    "interval": ("interval '1 day'", "cast(null as interval)"),
    "integer[]": ("cast(null as integer[])",),
    "relation": ("t",),
}


def reduced(tree: Node, holds: Callable[[Node], bool], attempts: int = 1500) -> Node:
    """Return a small tree for which the same condition holds."""
    while attempts > 0:
        for other in tree.smaller():
            attempts -= 1
            if holds(other):
                tree = other
                break
            if attempts <= 0:
                break
        else:
            break
    return tree
