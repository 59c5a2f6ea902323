"""Statements as trees: written for each dialect, and made smaller while something about them holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

DIALECTS = ("hypostyle", "duckdb", "postgres")


@dataclass(frozen=True)
class Node:
    """A piece of a statement: a template and what fills it, which may be written otherwise in a dialect.

    Pieces of one `kind` can stand for each other. What is `droppable` can be left out. Of a node with a
    `separator` all children follow each other, of which as many as `least` must stay.
    """

    kind: str
    template: str = ""
    children: tuple[Node, ...] = ()
    droppable: bool = False
    separator: str | None = None
    least: int = 1
    dialects: dict[str, str] = field(default_factory=dict)

    def text(self, dialect: str) -> str:
        """The piece as SQL of a dialect."""
        pieces = [child.text(dialect) for child in self.children]
        if self.separator is not None:
            return self.separator.join(pieces)
        return self.dialects.get(dialect, self.template).format(*pieces)

    def size(self) -> int:
        """How many pieces there are."""
        return 1 + sum(child.size() for child in self.children)

    def _descendants(self) -> Iterator[Node]:
        for child in self.children:
            yield child
            yield from child._descendants()

    def smaller(self) -> Iterator[Node]:
        """Trees with one piece less, those that lack most first."""
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
    """A piece without others in it."""
    return Node(kind, text.replace("{", "{{").replace("}", "}}"), **options)


def items(kind: str, nodes: list[Node], separator: str = ", ", least: int = 1) -> Node:
    return Node(kind, children=tuple(nodes), separator=separator, least=least)


# What an expression of a type may be when it does not matter.
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
    """A small tree of which the same holds."""
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
