"""Generates queries: relations and their joins, groups, set operations, common table
expressions.
"""

from __future__ import annotations

from .calls import CALLS, DUCKDB, TYPES
from .expressions import ORDERLY, Expressions, Relation
from .nodes import EMPTY, Node, items, raw
from .tables import COLUMNS, KEYED, NARROW, TABLES


class Queries(Expressions):
    """A generator of queries without windows."""

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
            Node(
                "row",
                "({0})",
                (items("values", [self._constant(type_) for type_ in types], least=len(types)),),
            )
            for _ in range(self._rng.randint(1, 3))
        ]
        node, relations = self._derived(items("query", rows), alias, types)
        return Node("relation", node.template.replace("({0})", "(values {0})", 1), node.children), relations

    def _from(self, depth: int) -> tuple[Node, list[Relation]]:
        """Return joined relations; conditions see only the relations before them."""
        rng = self._rng
        node, relations = self._relation(depth)
        for _ in range(rng.choices([0, 1, 2], [5, 4, 1])[0]):
            other, more = self._relation(depth - 1)
            kind = rng.choice(
                ["join", "join", "left join", "left join", "right join", "full join", "cross join"]
            )
            one, relations = relations, relations + more
            if kind == "cross join":
                node = Node("relation", "{0} cross join {1}", (node, other))
                continue
            on = self._inside(relations, lambda one=one, more=more, kind=kind: self._on(one, more, kind))
            node = Node("relation", f"{{0}} {kind} {{1}} on {{2}}", (node, other, on))
        return node, relations

    def _on(self, left: list[Relation], right: list[Relation], kind: str) -> Node:
        """Return an equality of two columns of one type; other conditions too, except in a full
        join.
        """
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

    def _query(self, depth: int, types: list[str] | None = None) -> Node:
        """Return a query of these types, or of any."""
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
            return Node(
                "query", f"select {distinct}{{0}} from {{1}}{{2}}", (outputs, source, self._where(3, depth))
            )

        return self._inside(relations, select)

    def _outputs(self, nodes: list[Node]) -> Node:
        named = [Node("output", f"{{0}} as c{number}", (node,)) for number, node in enumerate(nodes)]
        return items("outputs", named)

    def _grouped(self, depth: int, types: list[str] | None = None) -> Node:
        """Return a GROUP BY, perhaps with grouping sets; later clauses see only its columns and
        aggregates.
        """
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
                outputs = [
                    raw(type_, name) for name, (_, _, type_) in zip(names, keys, strict=True)
                ] + outputs
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

    def _having(self, seen: list[Relation], depth: int) -> Node:
        rng = self._rng
        kind = rng.choice(["aggregate", "aggregate", "count", "rows"])
        if kind == "count":
            return Node(
                "boolean",
                f"(count({{0}}) {rng.choice(['>', '<', '='])} {rng.randrange(3)})",
                (self._atom("integer"),),
            )
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
        """Return an operand with few columns and conditions, so that there are rows on both
        sides.
        """
        if depth > 0 and self._rng.random() < 0.2:
            return self._query(depth - 1, types)
        source, relations = self._table([*KEYED, "t", "u"])
        return self._inside(
            relations,
            lambda: Node(
                "query",
                "select {0} from {1}{2}",
                (
                    self._outputs([self._value(type_, self._rng.randrange(2)) for type_ in types]),
                    source,
                    self._where(1, 0),
                ),
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
        """Return a recursion of three steps at most, each with rows of a table that refer to the
        last ones.
        """
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
                join = Node(
                    "relation",
                    f"{name} {alias} join {{0}} on {relations[0].named('id')} = {alias}.c0",
                    (source,),
                )
            else:
                where, join = EMPTY, raw("relation", f"{name} {alias}")
                value = self._inside_only([step], lambda: self._value(types[1], 2))
            text = f"select {alias}.c0 + 1, {{0}} from {{1}} where {alias}.c0 < {count}{{2}}"
            return Node("query", text, (value, join, where))

        following = self._inside([step, *relations], again)
        self._named[name] = columns
        rest = self._query(1) if rng.random() < 0.4 else raw("query", f"select c0, c1 from {name}")
        word = rng.choice(["union all", "union"])
        first = "select c0, c1 from ({0}) b (c0, c1) where c0 > -3"
        text = f"with recursive {name} (c0, c1) as ({first} {word} {{1}}) {{2}}"
        return Node("query", text, (start, following, rest))

    def _merged(self) -> Node:
        """Return a NATURAL or USING join; no other columns have the names of the merged ones."""
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
                # Only the first rows of an order are read.
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
        join = rng.choice(
            ["{0}, {1}", "{0} cross join {1}", "{0} left join {1} on true", "{0} join {1} on {2}"]
        )
        relations = relations + more
        on = self._inside(relations, lambda: self._condition(2))
        node = Node("relation", join, (source, other, on))

        def select() -> Node:
            outputs = self._outputs([self._value(self._type(), 1, 1) for _ in range(rng.randint(1, 3))])
            return Node("query", "select {0} from {1}{2}", (outputs, node, self._where(2, 1)))

        return self._inside(relations, select)
