"""Makes statements of many subjects from random numbers, the same from the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .calls import AGGREGATES, BOTH, CALLS, DUCKDB, PAIRS, POSTGRES, TYPES
from .nodes import EMPTY, Node
from .tables import COLUMNS, KEYED, NARROW, TABLES, VALUES, sql_type

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
# What ORDER BY puts in one place for all: rows that are peers are the same.
ORDERLY = [type_ for type_ in TYPES if type_ not in ("interval", "double", "integer[]")]


@dataclass(frozen=True)
class Relation:
    """What a name in FROM stands for: its columns with their types, and whether `id` is its key."""

    alias: str
    columns: dict[str, str]
    keyed: bool = False

    def named(self, column: str) -> str:
        return f"{self.alias}.{column}" if self.alias else column


@dataclass(frozen=True)
class Statement:
    """A statement, who may answer it, and whether its rows are in order."""

    subject: str
    tree: Node
    peers: frozenset[str] = BOTH
    ordered: bool = False
    parameters: tuple[Any, ...] = ()
    writes: bool = False


def raw(kind: str, text: str, **options: Any) -> Node:
    """A piece without others in it."""
    return Node(kind, text.replace("{", "{{").replace("}", "}}"), **options)


def items(kind: str, nodes: list[Node], separator: str = ", ", least: int = 1) -> Node:
    return Node(kind, children=tuple(nodes), separator=separator, least=least)


class Grammar:
    """A maker of one statement."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._aliases = 0
        # Innermost last; what is seen of the queries around comes first.
        self._scopes: list[list[Relation]] = []
        self._named: dict[str, dict[str, str]] = {}
        self._peers = BOTH
        self._edgy = False
        self._parameters: list[Any] | None = None

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
            "structs": (5, lambda: (self._structs(), False)),
            "writes": (8, lambda: (self._write(), False)),
        }
        names = list(subjects)
        subject = rng.choices(names, [subjects[name][0] for name in names])[0]
        # A part of them by one only, which knows more.
        self._peers = rng.choices([BOTH, POSTGRES, DUCKDB], [7, 2, 1])[0]
        if subject == "structs":
            self._peers = DUCKDB
        if rng.random() < 0.15:
            self._parameters = []
        tree, ordered = subjects[subject][1]()
        # So that the whole of it has something around it.
        return Statement(
            subject,
            Node("statement", "{0}", (tree,)),
            self._peers,
            ordered,
            tuple(self._parameters or ()),
            subject == "writes",
        )

    # Names and columns

    def _alias(self) -> str:
        self._aliases += 1
        return f"a{self._aliases}"

    def _seen(self, type_: str, own: bool = False) -> list[str]:
        """Columns of a type, those of the innermost query thrice."""
        found = []
        for depth, scope in enumerate(reversed(self._scopes)):
            for relation in scope:
                names = [relation.named(name) for name, of in relation.columns.items() if of == type_]
                found += names * (3 if depth == 0 else 1)
            if own:
                break
        return found

    def _column(self, type_: str, own: bool = False) -> Node:
        """A column, or a constant where there is none."""
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

    # Expressions

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
        # Conditions on each type are many; what joins them is not to be rare.
        call = rng.choice(calls)
        return call.node(tuple(self._value(argument, depth - 1, subqueries) for argument in call.arguments))

    def _condition(self, depth: int, subqueries: int = 0) -> Node:
        return self._value("boolean", max(1, depth), subqueries)

    def _inside(self, relations: list[Relation], make: Callable[[], Node]) -> Node:
        """What is made where these relations are seen as well."""
        self._scopes.append(relations)
        try:
            return make()
        finally:
            self._scopes.pop()

    def _scalar(self, type_: str, depth: int) -> Node:
        """A subquery of one row at most."""
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
        """A column of the queries around, or a constant."""
        scope = self._scopes.pop()
        try:
            return self._atom(type_)
        finally:
            self._scopes.append(scope)

    def _about_rows(self, depth: int) -> Node:
        """A condition on the rows of a subquery."""
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
        """Rows of these types, of a table as it is in most cases: often the one outside, once more."""
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
            tail = " order by " + ", ".join(str(n + 1) for n in range(len(types))) + " limit 3" if limit else ""
            return Node(
                "query",
                f"select {rng.choice(['', '', 'distinct '])}{{0}} from {{1}}{{2}}{{3}}",
                (outputs, source, self._where(2, depth), raw("limit", tail, droppable=True)),
            )

        return self._inside(relations, select)

    def _aggregate(self, type_: str, depth: int) -> Node:
        rng = self._rng
        choices = [
            (template, of) for template, of, peers in AGGREGATES[type_] if self._peers <= peers
        ] or [("count({0})", "any")]
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
                # There is none of this type that all know.
                return Node(type_, "case when count(*) > 1 then {0} end", (self._constant(type_),))
            made = Node(type_, template, (argument,))
        if rng.random() < 0.2:
            # Before the reducer an aggregate is what it was, with and without its filter.
            filter_ = Node("filter", " filter (where {0})", (self._condition(1),), droppable=True)
            made = Node(made.kind, made.template + "{" + str(len(made.children)) + "}", (*made.children, filter_))
        return made

    # FROM

    def _table(self, names: list[str]) -> tuple[Node, list[Relation]]:
        name, alias = self._rng.choice(names), self._alias()
        columns = {column: COLUMNS[column] for column in TABLES[name][0]}
        return raw("relation", f"{name} {alias}"), [Relation(alias, columns, name in KEYED)]

    def _relation(self, depth: int) -> tuple[Node, list[Relation]]:
        rng = self._rng
        chosen = rng.random()
        if self._named and chosen < 0.3:
            name, alias = rng.choice(list(self._named)), self._alias()
            return raw("relation", f"{name} {alias}"), [Relation(alias, self._named[name])]
        if chosen < 0.7 or depth <= 0:
            return self._table([*KEYED, "t", "t", "u", *NARROW])
        alias = self._alias()
        if chosen < 0.78:
            return raw("relation", f"generate_series(0, {rng.randrange(4)}) as {alias}(g)"), [
                Relation(alias, {"g": "integer"})
            ]
        if chosen < 0.86:
            return self._rows_of_values(alias)
        types = [self._type() for _ in range(rng.randint(1, 3))]
        scopes, self._scopes = self._scopes, self._scopes[:]
        try:
            query = self._query(depth - 1, types)
        finally:
            self._scopes = scopes
        return self._derived(query, alias, types)

    def _derived(self, query: Node, alias: str, types: list[str]) -> tuple[Node, list[Relation]]:
        columns = {f"c{number}": type_ for number, type_ in enumerate(types)}
        node = Node("relation", f"({{0}}) {alias} ({', '.join(columns)})", (query,))
        return node, [Relation(alias, columns)]

    def _rows_of_values(self, alias: str) -> tuple[Node, list[Relation]]:
        types = [self._rng.choice(ORDERLY) for _ in range(self._rng.randint(1, 2))]
        rows = [
            Node("row", "({0})", (items("values", [self._constant(type_) for type_ in types], least=len(types)),))
            for _ in range(self._rng.randint(1, 3))
        ]
        node, relations = self._derived(items("query", rows), alias, types)
        return Node("relation", node.template.replace("({0})", "(values {0})", 1), node.children), relations

    def _from(self, depth: int) -> tuple[Node, list[Relation]]:
        """Relations, joined; the conditions see only what stands before them."""
        rng = self._rng
        node, relations = self._relation(depth)
        for _ in range(rng.choices([0, 1, 2], [5, 4, 1])[0]):
            other, more = self._relation(depth - 1)
            kind = rng.choice(["join", "join", "left join", "left join", "right join", "full join", "cross join"])
            one, relations = relations, relations + more
            if kind == "cross join":
                node = Node("relation", "{0} cross join {1}", (node, other))
                continue
            on = self._inside(relations, lambda one=one, more=more, kind=kind: self._on(one, more, kind))
            node = Node("relation", f"{{0}} {kind} {{1}} on {{2}}", (node, other, on))
        return node, relations

    def _on(self, left: list[Relation], right: list[Relation], kind: str) -> Node:
        """Two columns that are equal if there are two of a type; more, but for a full join."""
        rng = self._rng
        pairs = [
            (relation.named(name), other.named(another), type_)
            for relation in left
            for name, type_ in relation.columns.items()
            for other in right
            for another, of in other.columns.items()
            if of == type_ and type_ in ORDERLY
        ]
        if kind == "full join" and not pairs:
            return raw("boolean", "1 = 1")
        if not pairs or (kind != "full join" and rng.random() < 0.15):
            return self._condition(2)
        one, other, _ = rng.choice(pairs)
        equal = raw("boolean", f"({one} = {other})")
        if kind != "full join" and rng.random() < 0.3:
            return Node("boolean", "({0} and {1})", (equal, self._condition(2)))
        return equal

    def _where(self, depth: int, subqueries: int) -> Node:
        if self._rng.random() < 0.4:
            return EMPTY
        return Node("where", " where {0}", (self._condition(depth, subqueries),), droppable=True)

    # Queries

    def _query(self, depth: int, types: list[str] | None = None) -> Node:
        """A query of these types, or of some."""
        rng = self._rng
        wanted = types or [self._type() for _ in range(rng.randint(1, 4))]
        chosen = rng.random()
        if depth > 0 and chosen < 0.12:
            return self._grouped(depth - 1, wanted)
        if depth > 0 and chosen < 0.2:
            return self._set_operation(depth - 1, wanted)
        source, relations = self._from(depth)

        def select() -> Node:
            outputs = self._outputs([self._value(type_, 2, depth) for type_ in wanted])
            distinct = rng.choice(["", "", "", "", "distinct "])
            return Node("query", f"select {distinct}{{0}} from {{1}}{{2}}", (outputs, source, self._where(3, depth)))

        return self._inside(relations, select)

    def _outputs(self, nodes: list[Node]) -> Node:
        named = [Node("output", f"{{0}} as c{number}", (node,)) for number, node in enumerate(nodes)]
        return items("outputs", named)

    def _grouped(self, depth: int, types: list[str] | None = None) -> Node:
        """GROUP BY columns, or none, with sets of them; what is behind it sees only them and aggregates."""
        rng = self._rng
        source, relations = self._from(depth)
        wanted = types or [self._type() for _ in range(rng.randint(1, 3))]
        columns = [
            (relation, name, type_)
            for relation in relations
            for name, type_ in relation.columns.items()
            if type_ not in ("interval", "integer[]")
        ]
        keys = rng.sample(columns, min(len(columns), rng.choice([0, 1, 1, 2, 2, 3])))
        names = [relation.named(name) for relation, name, _ in keys]
        seen = [Relation(relation.alias, {name: type_}) for relation, name, type_ in keys]

        def aggregated(type_: str) -> Node:
            if keys and rng.random() < 0.25:
                return self._inside_only(seen, lambda: self._value(type_, 1, depth))
            if rng.random() < 0.2 and type_ in CALLS:
                return Node(type_, "coalesce({0}, {1})", (self._aggregate(type_, 1), self._constant(type_)))
            return self._aggregate(type_, 1)

        def select() -> Node:
            where = self._where(2, depth)
            outputs = [aggregated(type_) for type_ in wanted]
            if types is None:
                outputs = [raw(type_, name) for name, (_, _, type_) in zip(names, keys, strict=True)] + outputs
                if keys and rng.random() < 0.2:
                    outputs.append(raw("integer", f"grouping({rng.choice(names)})"))
            having = EMPTY
            if rng.random() < 0.3 or (not keys and rng.random() < 0.5):
                having = Node("having", " having {0}", (self._having(seen, depth),), droppable=True)
            grouping = self._grouping(names)
            return Node(
                "query",
                "select {0} from {1}{2}{3}{4}",
                (self._outputs(outputs), source, where, grouping, having),
            )

        return self._inside(relations, select)

    def _inside_only(self, relations: list[Relation], make: Callable[[], Node]) -> Node:
        """What is made where of the innermost query only these are seen."""
        scope = self._scopes.pop()
        self._scopes.append(relations)
        try:
            return make()
        finally:
            self._scopes[-1] = scope

    def _having(self, seen: list[Relation], depth: int) -> Node:
        rng = self._rng
        kind = rng.choice(["aggregate", "aggregate", "count", "rows"])
        if kind == "count":
            return Node("boolean", f"(count({{0}}) {rng.choice(['>', '<', '='])} {rng.randrange(3)})", (self._atom("integer"),))
        if kind == "rows":
            return self._inside_only(seen, lambda: self._about_rows(depth))
        type_ = rng.choice(["integer", "double", "varchar", "date", "bigint"])
        sign = rng.choice(["=", "<>", "<", ">=", "is distinct from"])
        return Node("boolean", f"({{0}} {sign} {{1}})", (self._aggregate(type_, 1), self._constant(type_)))

    def _grouping(self, names: list[str]) -> Node:
        rng = self._rng
        if not names:
            text = rng.choice(["", "", "", " group by ()"]) if self._peers != DUCKDB else ""
            return raw("group by", text, droppable=bool(text))
        listed, first = ", ".join(names), names[0]
        text = rng.choice(
            [listed] * 5
            + [
                f"rollup ({listed})",
                f"cube ({listed})",
                f"grouping sets (({listed}), ({first}), ())",
                f"grouping sets (({first}), ({listed}))",
                f"grouping sets ((), ({first}), ({first}))",
            ]
        )
        if text.startswith("grouping sets ((), ") and len(names) > 1:
            text = f"grouping sets (({listed}), ())"
        return raw("group by", f" group by {text}")

    def _set_operation(self, depth: int, types: list[str] | None = None) -> Node:
        rng = self._rng
        wanted = types or [rng.choice(TYPES) for _ in range(rng.randint(1, 2))]
        queries = [self._operand(wanted, depth) for _ in range(rng.choice([2, 2, 3]))]
        node = queries[0]
        for query in queries[1:]:
            word = rng.choice(["union", "union all", "intersect", "except", "intersect all", "except all"])
            node = Node("query", f"({{0}}) {word} ({{1}})", (node, query))
        return node

    def _operand(self, types: list[str], depth: int) -> Node:
        """Few columns without much about them, so that rows are there on both sides."""
        if depth > 0 and self._rng.random() < 0.2:
            return self._query(depth - 1, types)
        source, relations = self._table([*KEYED, "t", "u"])
        return self._inside(
            relations,
            lambda: Node(
                "query",
                "select {0} from {1}{2}",
                (self._outputs([self._value(type_, self._rng.randrange(2)) for type_ in types]), source, self._where(1, 0)),
            ),
        )

    def _with(self) -> Node:
        rng = self._rng
        parts = []
        for _ in range(rng.randint(1, 2)):
            name = f"with{len(self._named)}"
            types = [self._type() for _ in range(rng.randint(1, 3))]
            query = self._query(1, types)
            columns = {f"c{number}": type_ for number, type_ in enumerate(types)}
            word = rng.choice(["", "", "", "materialized ", "not materialized "])
            parts.append(Node("with", f"{name} ({', '.join(columns)}) as {word}({{0}})", (query,)))
            self._named[name] = columns
        query = self._query(2)
        return Node("query", "with {0} {1}", (items("withs", parts), query))

    def _recursive(self) -> Node:
        """Three steps at most, each with the rows of a table for which a key is one of the rows before."""
        rng = self._rng
        types = ["integer", rng.choice(TYPES)]
        start = self._operand(types, 0)
        columns = {"c0": types[0], "c1": types[1]}
        source, relations = self._table(KEYED)
        name, alias = "steps", self._alias()
        step = Relation(alias, columns)
        count = rng.randint(2, 4)

        def again() -> Node:
            value = self._value(types[1], 2, rng.choice([0, 0, 1]))
            if rng.random() < 0.5:
                where = Node("where", " and {0}", (self._condition(2),), droppable=True)
                join = Node("relation", f"{name} {alias} join {{0}} on {relations[0].named('id')} = {alias}.c0", (source,))
            else:
                where, join = EMPTY, raw("relation", f"{name} {alias}")
                value = self._inside_only([step], lambda: self._value(types[1], 2))
            text = f"select {alias}.c0 + 1, {{0}} from {{1}} where {alias}.c0 < {count}{{2}}"
            return Node("query", text, (value, join, where))

        following = self._inside([step, *relations], again)
        self._named[name] = columns
        rest = self._query(1) if rng.random() < 0.4 else raw("query", f"select c0, c1 from {name}")
        word = rng.choice(["union all", "union"])
        text = f"with recursive {name} (c0, c1) as (select c0, c1 from ({{0}}) b where c0 > -3 {word} {{1}}) {{2}}"
        return Node("query", text.replace("(select c0, c1 from ({0}) b", "(select c0, c1 from ({0}) b (c0, c1)"), (start, following, rest))

    def _merged(self) -> Node:
        """NATURAL and USING, of which the columns that are merged have no other name."""
        rng = self._rng
        tables = rng.sample(NARROW, rng.choice([2, 2, 3]))
        sides = [{column: COLUMNS[column] for column in TABLES[table][0]} for table in tables]
        node, columns = raw("relation", tables[0]), dict(sides[0])
        for table, side in zip(tables[1:], sides[1:], strict=True):
            common = [name for name in columns if name in side]
            kind = rng.choice(["join", "left join", "right join", "full join"])
            if len(tables) > 2 and kind in ("right join", "full join"):
                kind = "left join"
            if rng.random() < 0.5:
                node = Node("relation", f"{{0}} natural {kind} {table}", (node,))
                merged = common
            else:
                merged = rng.sample(common, rng.randint(1, len(common)))
                node = Node("relation", f"{{0}} {kind} {table} using ({', '.join(merged)})", (node,))
            twice = [name for name in common if name not in merged]
            columns = {name: type_ for name, type_ in {**columns, **side}.items() if name not in twice}
            if twice and len(tables) > 2:
                break
        relations = [Relation("", columns)]

        def select() -> Node:
            if rng.random() < 0.3:
                outputs = raw("outputs", "*")
            elif rng.random() < 0.2:
                outputs = raw("outputs", f"{tables[0]}.*, {', '.join(columns)}")
            else:
                outputs = self._outputs([self._value(self._type(), 1, 1) for _ in range(rng.randint(1, 3))])
            return Node("query", "select {0} from {1}{2}", (outputs, node, self._where(2, 1)))

        return self._inside(relations, select)

    def _lateral(self) -> Node:
        rng = self._rng
        source, relations = self._table([*KEYED, "t"])
        alias = self._alias()
        kind = rng.choice(["query", "query", "unnest", "series"])

        def beside() -> tuple[Node, list[Relation]]:
            if kind == "unnest":
                return Node("relation", f"unnest({{0}}) as {alias}(v)", (self._column("integer[]"),)), [
                    Relation(alias, {"v": "integer"})
                ]
            if kind == "series":
                return Node(
                    "relation", f"generate_series(1, {{0}}) as {alias}(v)", (self._column("integer"),)
                ), [Relation(alias, {"v": "integer"})]
            types = [self._type() for _ in range(rng.randint(1, 2))]
            if rng.random() < 0.3:
                # The first rows of an order.
                inner = self._subquery(types, 0)
                order = ", ".join(str(number + 1) for number in range(len(types)))
                inner = Node("query", f"select * from ({{0}}) o order by {order} limit 2", (inner,))
            else:
                inner = self._query(1, types)
            node, found = self._derived(inner, alias, types)
            return Node("relation", f"lateral {node.template}", node.children), found

        self._scopes.append(relations)
        other, more = beside()
        self._scopes.pop()
        join = rng.choice(["{0}, {1}", "{0} cross join {1}", "{0} left join {1} on true", "{0} join {1} on {2}"])
        relations = relations + more
        on = self._inside(relations, lambda: self._condition(2))
        node = Node("relation", join, (source, other, on))

        def select() -> Node:
            outputs = self._outputs([self._value(self._type(), 1, 1) for _ in range(rng.randint(1, 3))])
            return Node("query", "select {0} from {1}{2}", (outputs, node, self._where(2, 1)))

        return self._inside(relations, select)

    def _values(self) -> tuple[Node, bool]:
        """Expressions with values at the edges of their types, one by one: which of two errors comes first
        is nobody's promise."""
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
                text = f" offset {skipped}" if rng.random() < 0.5 else f" offset {skipped} rows fetch first {count} rows only"
            limit = raw("limit", text, droppable=True)
        return Node("query", "select * from ({0}) o{1}{2}", (query, order, limit)), True

    def _first_of_each(self) -> Node:
        """DISTINCT ON."""
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
            return Node("query", text, (listed, outputs, source, self._where(2, 1), items("order", order, least=len(order)), tail))

        return self._inside(relations, select)

    # Windows

    def _windowed(self) -> Node:
        rng = self._rng
        source, relations = self._table(["t", "t", "u", "filled"])
        relation = relations[0]

        def select() -> Node:
            named = self._named_windows(relation)
            outputs = [raw("integer", relation.named("id"))]
            outputs += [self._window_call(relation, list(named)) for _ in range(rng.randint(1, 3))]
            windows = EMPTY
            if named:
                parts = [Node("window", f"{name} as ({{0}})", (node,)) for name, node in named.items()]
                windows = Node("windows", " window {0}", (items("named", parts),), droppable=True)
            query = Node("query", "select {0} from {1}{2}{3}", (self._outputs(outputs), source, self._where(2, 0), windows))
            return query

        return self._inside(relations, select)

    def _named_windows(self, relation: Relation) -> dict[str, Node]:
        """A window, and another that inherits it."""
        rng = self._rng
        if rng.random() < 0.55:
            return {}
        windows = {"w": self._partition()}
        if rng.random() < 0.3:
            windows["v"] = Node("specification", "w {0}", (self._window_order(relation),))
        return windows

    def _partition(self) -> Node:
        keys = [self._value(self._rng.choice(ORDERLY), self._rng.randrange(2)) for _ in range(self._rng.randint(1, 2))]
        return Node("partition", "partition by {0}", (items("keys", keys),), droppable=True)

    def _window_order(self, relation: Relation) -> Node:
        rng = self._rng
        key = self._value(rng.choice(ORDERLY), rng.randrange(2))
        ending = rng.choice(["", " desc", " nulls first", " desc nulls last"])
        return Node("order", f"order by {{0}}{ending}, {relation.named('id')}{rng.choice(['', ' desc'])}", (key,))

    def _specification(self, relation: Relation, named: list[str], framed: bool, alike: bool) -> Node:
        """What is in the parentheses behind OVER; rows are in an order that is total, or the frame has peers."""
        rng = self._rng
        base = EMPTY
        if named and rng.random() < 0.6:
            # `v` has an order already.
            name = rng.choice(named)
            if name == "v":
                return raw("specification", "v")
            base = raw("base", f"{name} ")
        elif rng.random() < 0.6:
            partition = self._partition()
            base = Node("base", "{0} ", (partition,), droppable=True)
        if not framed:
            return Node("specification", "{0}{1}", (base, self._window_order(relation)))
        bounds = rng.choice(
            [
                ("unbounded preceding", "current row"),
                ("1 preceding", "1 following"),
                ("2 preceding", "1 preceding"),
                ("current row", "unbounded following"),
                ("unbounded preceding", "unbounded following"),
                ("1 following", "2 following"),
                ("0 preceding", "0 following"),
            ]
        )
        excluded = rng.choice([""] * 6 + [" exclude current row", " exclude ties", " exclude group", " exclude no others"])
        # Which of several peers a value is of is nobody's promise.
        unit = rng.choice(["rows", "rows", "range", "groups"]) if alike else "rows"
        frame = f" {unit} between {bounds[0]} and {bounds[1]}{excluded}"
        if rng.random() < 0.2:
            frame = " rows 2 preceding"
        order = self._window_order(relation)
        if unit != "rows" and "rows" not in frame:
            if unit == "range" and (bounds[0][0].isdigit() or bounds[1][0].isdigit()):
                type_ = rng.choice(["integer", "date", "timestamp", "bigint", "double", "decimal"])
                if type_ in ("date", "timestamp"):
                    frame = frame.replace("1 ", "interval '1 month' ").replace("2 ", "interval '40 days' ").replace("0 ", "interval '0 days' ")
                order = Node("order", f"order by {{0}}{rng.choice(['', ' desc'])}", (self._column(type_, own=True),))
            else:
                order = Node("order", "order by {0}", (self._value(rng.choice(ORDERLY), 1),))
        return Node("specification", "{0}{1}{2}", (base, order, raw("frame", frame, droppable=True)))

    def _window_call(self, relation: Relation, named: list[str]) -> Node:
        rng = self._rng
        type_ = rng.choice([type_ for type_ in TYPES if type_ != "interval"])
        kind = rng.choice(["number", "number", "shift", "value", "aggregate", "aggregate", "aggregate"])
        if kind == "number":
            text = rng.choice(["row_number()", "rank()", "dense_rank()", "percent_rank()", "cume_dist()", "ntile(3)"])
            call, type_ = raw("call", text), "bigint"
        elif kind == "shift":
            name, offset = rng.choice(["lag", "lead"]), rng.choice(["", "", ", 1", ", 2", ", 0", ", -1"])
            default = Node("default", ", {0}", (self._value(type_, 0),)) if offset and rng.random() < 0.5 else EMPTY
            call = Node("call", f"{name}({{0}}{offset}{{1}})", (self._value(type_, 1), default))
        elif kind == "value":
            text = rng.choice(["first_value({0})", "last_value({0})", "nth_value({0}, 2)", "nth_value({0}, 1)"])
            call = Node("call", text, (self._value(type_, 1),))
        else:
            type_ = rng.choice(["bigint", "bigint", "integer", "double", "decimal", "varchar", "boolean", "date"])
            simple = {
                "bigint": ["count(*)", "count({0})", "sum({0})"],
                "double": ["avg({0})"],
                "decimal": ["sum({0})", "max({0})"],
                "boolean": ["bool_and({0})", "bool_or({0})"],
            }.get(type_, ["max({0})", "min({0})"])
            of = {"bigint": "integer", "double": "integer"}.get(type_, type_)
            call = Node("call", rng.choice(simple), (self._value(of, 1),))
            if rng.random() < 0.2:
                call = Node("call", "{0} filter (where {1})", (call, self._condition(1)))
        framed = kind in ("value", "aggregate") and rng.random() < 0.6
        if named and rng.random() < 0.25 and kind == "aggregate":
            return Node(type_, f"{{0}} over {rng.choice(named)}", (call,))
        return Node(type_, "{0} over ({1})", (call, self._specification(relation, named, framed, kind == "aggregate")))

    # Structs and lists, as only DuckDB has them

    def _structs(self) -> Node:
        rng = self._rng
        alias, other = self._alias(), self._alias()
        field_ = rng.choice(["{0}.c.a", "({0}.c).b", "{0}.c['a']", "{0}.g[1].a", "{0}.m[1]", "len({0}.m)", "len({0}.g)"])
        values = [
            "{0}.c", "{0}.g", "{0}.m", "{0}.c is null", "{0}.g[2]", "{0}.m[-1]", "{0}.m[2:]", "{0}.m || ['z']",
            "list_contains({0}.m, 'a')", "{{'k': {0}.id, 'v': {0}.m}}", "{0}.c = {1}.c", "{0}.m = {1}.m",
            "{0}.c < {1}.c", "{0}.m < {1}.m", "{0}.g = {1}.g", "[{0}.c, {1}.c]", "[{0}.m, {1}.m]",
            "coalesce({0}.c, {1}.c)", "case when {0}.id > 2 then {0}.c else {1}.c end", "list_sort({0}.m)",
            "list_distinct({0}.m) is null", "{0}.c in ({1}.c)", "{0}.m is distinct from {1}.m", "{0}.c is distinct from {1}.c",
            "array_to_string({0}.m, '-')", "list_position({0}.m, 'b')", "{0}.m @> {1}.m", "{0}.m && {1}.m",
            "struct_extract({0}.c, 'b')", "greatest({0}.m, {1}.m)", "[{0}.c.a, {1}.c.a]", "list_concat({0}.m, {1}.m)",
            field_,
        ]  # fmt: skip

        def one(template: str) -> str:
            return template.format(alias, other)

        kind = rng.choice(["select", "join", "group", "order", "aggregate", "unnest", "distinct", "sets", "semi", "window"])
        key = rng.choice(["{0}.c", "{0}.m", "{0}.g", field_])
        source = one("r {0} join r {1} on {0}.id + 1 >= {1}.id")
        match kind:
            case "join":
                word = rng.choice(["join", "left join", "full join"])
                on = one(key) + " = " + key.format(other)
                return raw("query", one(f"select {{0}}.id, {{1}}.id from r {{0}} {word} r {{1}} on {on}"))
            case "group":
                having = rng.choice(["", " having count(*) > 1"])
                return raw("query", one(f"select {key}, count(*), min({{0}}.id) from r {{0}} group by {key}{having}"))
            case "order":
                way = rng.choice(["", " desc", " nulls first", " desc nulls last"])
                return raw("query", one(f"select row_number() over (order by {key}{way}, {{0}}.id), {{0}}.id from r {{0}}"))
            case "aggregate":
                call = rng.choice(["min", "max", "count", "array_agg", "first"])
                order = " order by {0}.id" if call in ("array_agg", "first") else ""
                filter_ = rng.choice(["", " filter (where {0}.id > 1)"])
                distinct = "distinct " if call == "count" and rng.random() < 0.5 else ""
                return raw("query", one(f"select {call}({distinct}{key}{order}){filter_} from r {{0}}"))
            case "unnest":
                return raw("query", one(rng.choice([
                    "select {0}.id, v from r {0}, unnest({0}.m) as x(v)",
                    "select {0}.id, v from r {0} left join unnest({0}.m) as x(v) on true",
                    "select {0}.id, v.a, v from r {0}, unnest({0}.g) as x(v)",
                    "select {0}.id, unnest({0}.m) from r {0}",
                    "select {0}.id, unnest({0}.g) as v from r {0}",
                ])))  # fmt: skip
            case "distinct":
                return raw("query", one(f"select distinct {key} from r {{0}}"))
            case "sets":
                word = rng.choice(["union", "intersect", "except", "union all", "except all", "intersect all"])
                return raw("query", one(f"select {key} from r {{0}} where id > 2 {word} select {key} from r {{0}} where id < 5"))
            case "semi":
                word = rng.choice(["in", "not in"])
                return raw("query", one(f"select {{0}}.id from r {{0}} where {key} {word} (select {key.format(other)} from r {{1}} where {{1}}.id < 4)"))
            case "window":
                call = rng.choice(["lag({0}.c)", "first_value({0}.m)", "last_value({0}.g)", "count({0}.c)", "max({0}.m)", "lead({0}.g, 2)"])
                return raw("query", one(f"select {{0}}.id, {call} over (partition by {{0}}.id % 2 order by {{0}}.id) from r {{0}}"))
        chosen = [raw("any", one(rng.choice(values))) for _ in range(rng.randint(1, 3))]
        where = EMPTY
        if rng.random() < 0.4:
            condition = rng.choice(["{0}.c.a = {1}.c.a", "{0}.m = {1}.m", "{0}.c is not null", "{0}.c = {1}.c", "not ({0}.m = {1}.m)"])
            where = raw("where", " where " + one(condition), droppable=True)
        return Node("query", "select {0} from {1}{2}", (self._outputs(chosen), raw("relation", source), where))

    # Writes

    def _write(self) -> Node:
        rng = self._rng
        target = Relation("t", {name: COLUMNS[name] for name in TABLES["t"][0]}, keyed=True)
        other = Relation("v", target.columns, keyed=True)
        kind = rng.choice(["insert", "conflict", "conflict", "update", "update from", "delete", "delete using", "merge", "merge"])
        column = rng.choice([name for name in target.columns if name != "id"])
        second = rng.choice([name for name in target.columns if name not in ("id", column)])

        def value(name: str, *relations: Relation, depth: int = 2, subqueries: int = 0) -> Node:
            return self._inside(list(relations), lambda: self._value(COLUMNS[name], depth, subqueries))

        def condition(*relations: Relation, subqueries: int = 0) -> Node:
            return self._inside(list(relations), lambda: self._condition(2, subqueries))

        def returned(*relations: Relation) -> Node:
            if rng.random() < 0.7:
                return EMPTY
            return Node("returning", " returning t.id, {0}", (value(column, *relations, depth=1),), droppable=True)

        source = rng.choice(["u v", "filled v", "(select * from u where id > 2) v"])
        match kind:
            case "insert":
                rows = self._inside([other], lambda: self._outputs([self._value(COLUMNS[column], 2, 1), self._value(COLUMNS[second], 1)]))
                return Node("write", f"insert into t (id, {column}, {second}) select v.id + 20, {{0}} from {source}{{1}}", (rows, self._inside([other], lambda: self._where(1, 1))))
            case "conflict":
                excluded = Relation("excluded", {"id": "integer", column: COLUMNS[column], second: COLUMNS[second]})
                head = f"insert into t (id, {column}, {second}) select v.id + 5, {{0}}, {{1}} from {source} where true"
                values = (value(column, other), value(second, other, depth=1))
                if rng.random() < 0.3:
                    return Node("write", f"{head} on conflict do nothing", values)
                where = Node("where", " where {0}", (condition(target, excluded),), droppable=rng.random() < 0.6)
                if not where.droppable:
                    where = EMPTY
                return Node("write", f"{head} on conflict (id) do update set {column} = {{2}}{{3}}", (*values, value(column, target, excluded), where))
            case "update":
                return Node("write", f"update t set {column} = {{0}}, {second} = {{1}} where {{2}}{{3}}", (value(column, target, subqueries=1), value(second, target), condition(target, subqueries=1), returned(target)))
            case "update from":
                return Node("write", f"update t set {column} = {{0}} from {source} where t.id = v.id and {{1}}{{2}}", (value(column, target, other), condition(target, other), returned(target)))
            case "delete":
                return Node("write", "delete from t where {0}{1}", (condition(target, subqueries=2), returned(target)))
            case "delete using":
                return Node("write", f"delete from t using {source} where t.id = v.id and {{0}}{{1}}", (condition(target, other), returned(target)))
        clauses = []
        for _ in range(rng.randrange(3)):
            action = rng.choice(["delete", "do nothing", f"update set {column} = {{1}}"])
            parts = (condition(target, other), value(column, target, other)) if "{1}" in action else (condition(target, other),)
            clauses.append(Node("clause", f"when matched and {{0}} then {action}", parts))
        if rng.random() < 0.6 or not clauses:
            clauses.append(Node("clause", f"when matched then update set {column} = {{0}}, {second} = v.{second}", (value(column, target, other),)))
        if rng.random() < 0.5:
            clauses.append(Node("clause", f"when not matched and {{0}} then insert (id, {column}) values (v.id, {{1}})", (condition(other), value(column, other))))
        if rng.random() < 0.5:
            clauses.append(Node("clause", f"when not matched then insert (id, {second}) values (v.id + 50, v.{second})"))
        return Node("write", f"merge into t using {source} on t.id = v.id + {rng.randrange(4)} {{0}}", (items("clauses", clauses, " "),))
