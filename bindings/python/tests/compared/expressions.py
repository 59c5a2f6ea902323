"""Generates expressions over the visible columns, and subqueries in them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .calls import AGGREGATES, BOTH, CALLS, PAIRS, TYPES
from .nodes import Node, items, raw
from .tables import VALUES, sql_type

EDGES = {
    "integer": ["2147483647", "-2147483648", "0"],
    "bigint": ["9223372036854775807", "-9223372036854775808", "9223372036854775806"],
    "double": ["NaN", "Infinity", "-Infinity", "-0.0", "1e308", "5e-324"],
    "decimal": ["999999999.999", "-999999999.999", "0.001"],
    "varchar": ["", "\\", "'", "%", "𝄞", "1", "-5", "true", "2020-01-01", "1 day"],
    "date": ["0101-01-01", "9000-12-31", "1582-10-10"],
    "timestamp": ["1900-01-01 00:00:00", "2038-01-19 03:14:08", "1999-12-31 23:59:59.999999"],
    "timestamptz": ["1900-01-01 00:00:00+00", "2011-12-30 12:00:00+00"],
    "interval": ["1000 months", "-1 microsecond", "1 year -12 months", "100 hours"],
}
# Columns that ORDER BY sorts in the same way in all systems: rows that are peers are the same.
ORDERLY = [type_ for type_ in TYPES if type_ not in ("interval", "double", "integer[]")]


@dataclass(frozen=True)
class Relation:
    """A name in FROM: its columns with their types, and whether `id` is its key."""

    alias: str
    columns: dict[str, str]
    keyed: bool = False

    def named(self, column: str) -> str:
        return f"{self.alias}.{column}" if self.alias else column


class Expressions:
    """A generator of expressions; a subclass adds queries."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._aliases = 0
        # The innermost relations come last; those of the outer queries come first.
        self._scopes: list[list[Relation]] = []
        self._named: dict[str, dict[str, str]] = {}
        self._peers = BOTH
        self._edgy = False
        self._parameters: list[Any] | None = None

    def _alias(self) -> str:
        self._aliases += 1
        return f"a{self._aliases}"

    def _seen(self, type_: str, own: bool = False) -> list[str]:
        """Return the visible columns of a type, those of the innermost query three times."""
        found = []
        for depth, scope in enumerate(reversed(self._scopes)):
            for relation in scope:
                names = [relation.named(name) for name, of in relation.columns.items() if of == type_]
                found += names * (3 if depth == 0 else 1)
            if own:
                break
        return found

    def _column(self, type_: str, own: bool = False) -> Node:
        """Return a column, or a constant if there is none."""
        found = self._seen(type_, own)
        return raw(type_, self._rng.choice(found)) if found else self._constant(type_)

    def _constant(self, type_: str) -> Node:
        rng = self._rng
        if type_ == "integer[]":
            elements = ", ".join(rng.choice(["1", "2", "null"]) for _ in range(rng.randrange(3)))
            return raw(type_, f"cast(array[{elements}] as integer[])")
        value = rng.choice(VALUES[type_])
        if self._edgy and rng.random() < 0.3:
            value = rng.choice(EDGES.get(type_, VALUES[type_]))
        if rng.random() < 0.06:
            return raw(type_, f"cast(null as {sql_type(type_)})")
        if self._parameters is not None and type_ in ("integer", "bigint", "varchar") and rng.random() < 0.4:
            self._parameters.append(value if type_ == "varchar" else int(value))
            return raw(type_, f"cast(${len(self._parameters)} as {type_})")
        if type_ == "integer" and not self._edgy:
            return raw(type_, value if not value.startswith("-") else f"({value})")
        if type_ == "varchar":
            return raw(type_, "'" + value.replace("'", "''") + "'")
        return raw(type_, f"cast('{value}' as {sql_type(type_)})")

    def _type(self) -> str:
        return self._rng.choice([*TYPES, "integer", "integer", "varchar", "boolean"])

    def _atom(self, type_: str) -> Node:
        if self._rng.random() < 0.7:
            return self._column(type_)
        return self._constant(type_)

    def _value(self, type_: str, depth: int, subqueries: int = 0) -> Node:
        rng = self._rng
        if depth <= 0 or rng.random() < 0.2:
            return self._atom(type_)
        if subqueries > 0 and rng.random() < 0.12:
            return self._scalar(type_, subqueries - 1)
        if subqueries > 0 and type_ == "boolean" and rng.random() < 0.5:
            return self._about_rows(subqueries - 1)
        calls = [call for call in CALLS[type_] if self._peers <= call.peers and (self._edgy or not call.edgy)]
        # There are many conditions on each type; combinations of them must not be rare.
        call = rng.choice(calls)
        return call.node(tuple(self._value(argument, depth - 1, subqueries) for argument in call.arguments))

    def _condition(self, depth: int, subqueries: int = 0) -> Node:
        return self._value("boolean", max(1, depth), subqueries)

    def _inside(self, relations: list[Relation], make: Callable[[], Node]) -> Node:
        """Generate where these relations are visible as well."""
        self._scopes.append(relations)
        try:
            return make()
        finally:
            self._scopes.pop()

    def _inside_only(self, relations: list[Relation], make: Callable[[], Node]) -> Node:
        """Generate where only these relations of the innermost query are visible."""
        scope = self._scopes.pop()
        self._scopes.append(relations)
        try:
            return make()
        finally:
            self._scopes[-1] = scope

    def _scalar(self, type_: str, depth: int) -> Node:
        """Return a subquery of one row at most."""
        rng = self._rng
        source, relations = self._relation(depth)
        if rng.random() < 0.6:
            made = self._inside(
                relations,
                lambda: Node(
                    "scalar",
                    "(select {0} from {1}{2})",
                    (self._aggregate(type_, 1), source, self._where(1, depth)),
                ),
            )
        elif relations[0].keyed and rng.random() < 0.5:
            name = relations[0].named("id")
            made = self._inside(
                relations,
                lambda: Node(
                    "scalar",
                    "(select {0} from {1} where {2} = {3})",
                    (self._value(type_, 1), source, raw("key", name), self._outer("integer")),
                ),
            )
        else:
            made = self._inside(
                relations,
                lambda: Node(
                    "scalar",
                    "(select {0} from {1}{2} order by 1 limit 1)",
                    (self._value(type_, 1), source, self._where(1, depth)),
                ),
            )
        return Node(type_, made.template, made.children)

    def _outer(self, type_: str) -> Node:
        """Return a column of the outer queries, or a constant."""
        scope = self._scopes.pop()
        try:
            return self._atom(type_)
        finally:
            self._scopes.append(scope)

    def _about_rows(self, depth: int) -> Node:
        """Return a condition on the rows of a subquery."""
        rng = self._rng
        type_ = rng.choice(ORDERLY)
        kind = rng.choice(["in", "in", "exists", "quantified", "quantified", "rows", "count"])
        if kind == "exists":
            subquery = self._subquery([self._type()], depth)
            return Node("boolean", rng.choice(["exists ({0})", "(not exists ({0}))"]), (subquery,))
        if kind == "rows":
            values = [self._value("integer", 1), self._value("varchar", 1)]
            subquery = self._subquery(["integer", "varchar"], depth)
            word = rng.choice(["in", "in", "not in"])
            return Node("boolean", f"(({{0}}, {{1}}) {word} ({{2}}))", (*values, subquery))
        value, subquery = self._value(type_, 1), self._subquery([type_], depth)
        if kind == "in":
            return Node("boolean", f"({{0}} {rng.choice(['in', 'not in'])} ({{1}}))", (value, subquery))
        if kind == "count":
            return Node("boolean", f"((select count(*) from ({{0}}) c) {rng.choice('<>=')} 2)", (subquery,))
        sign, word = rng.choice(["=", "<>", "<", "<=", ">", ">="]), rng.choice(["any", "all", "some"])
        return Node("boolean", f"({{0}} {sign} {word} ({{1}}))", (value, subquery))

    def _subquery(self, types: list[str], depth: int) -> Node:
        """Return rows of these types, mostly of a table: often of the outer one, once more."""
        rng = self._rng
        if depth > 0 and rng.random() < 0.25:
            return self._query(depth, types)
        source, relations = self._relation(0)

        def select() -> Node:
            outputs = items("outputs", [self._value(type_, 1) for type_ in types], least=len(types))
            if rng.random() < 0.12:
                chosen = [self._aggregate(type_, 0) for type_ in types]
                outputs = items("outputs", chosen, least=len(types))
                return Node("query", "select {0} from {1}{2}", (outputs, source, self._where(1, depth)))
            limit = rng.random() < 0.1
            tail = (
                " order by " + ", ".join(str(n + 1) for n in range(len(types))) + " limit 3" if limit else ""
            )
            return Node(
                "query",
                f"select {rng.choice(['', '', 'distinct '])}{{0}} from {{1}}{{2}}{{3}}",
                (outputs, source, self._where(2, depth), raw("limit", tail, droppable=True)),
            )

        return self._inside(relations, select)

    def _aggregate(self, type_: str, depth: int) -> Node:
        rng = self._rng
        choices = [(template, of) for template, of, peers in AGGREGATES[type_] if self._peers <= peers] or [
            ("count({0})", "any")
        ]
        if type_ == "double" and rng.random() < 0.15:
            arguments = (self._value("integer", depth), self._column("double", own=True))
            made = Node(type_, "cast(" + rng.choice(PAIRS) + " as double precision)", arguments)
        else:
            template, of = rng.choice(choices)
            if of == "column":
                argument = self._column("double", own=True)
            else:
                argument = self._value(self._type() if of == "any" else of, depth)
            if not any(peers >= self._peers for text, _, peers in AGGREGATES[type_] if text == template):
                # There is no function of this type that all systems have.
                return Node(type_, "case when count(*) > 1 then {0} end", (self._constant(type_),))
            made = Node(type_, template, (argument,))
        if rng.random() < 0.2:
            # The reducer may remove the filter of an aggregate.
            filter_ = Node("filter", " filter (where {0})", (self._condition(1),), droppable=True)
            made = Node(
                made.kind, made.template + "{" + str(len(made.children)) + "}", (*made.children, filter_)
            )
        return made

    def _relation(self, depth: int) -> tuple[Node, list[Relation]]:
        raise NotImplementedError

    def _where(self, depth: int, subqueries: int) -> Node:
        raise NotImplementedError

    def _query(self, depth: int, types: list[str] | None = None) -> Node:
        raise NotImplementedError
