"""Generates queries with windows: named ones, inheriting ones, and frames of all kinds."""

from __future__ import annotations

from .calls import TYPES
from .expressions import ORDERLY, Relation
from .nodes import EMPTY, Node, items, raw
from .queries import Queries


class Windows(Queries):
    """A generator of queries over one table, whose key orders its rows."""

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
            query = Node(
                "query",
                "select {0} from {1}{2}{3}",
                (self._outputs(outputs), source, self._where(2, 0), windows),
            )
            return query

        return self._inside(relations, select)

    def _named_windows(self, relation: Relation) -> dict[str, Node]:
        """Return a window, and another that inherits it."""
        rng = self._rng
        if rng.random() < 0.55:
            return {}
        windows = {"w": self._partition()}
        if rng.random() < 0.3:
            windows["v"] = Node("specification", "w {0}", (self._window_order(relation),))
        return windows

    def _partition(self) -> Node:
        keys = [
            self._value(self._rng.choice(ORDERLY), self._rng.randrange(2))
            for _ in range(self._rng.randint(1, 2))
        ]
        return Node("partition", "partition by {0}", (items("keys", keys),), droppable=True)

    def _window_order(self, relation: Relation) -> Node:
        rng = self._rng
        key = self._value(rng.choice(ORDERLY), rng.randrange(2))
        ending = rng.choice(["", " desc", " nulls first", " desc nulls last"])
        return Node(
            "order", f"order by {{0}}{ending}, {relation.named('id')}{rng.choice(['', ' desc'])}", (key,)
        )

    def _specification(self, relation: Relation, named: list[str], framed: bool, alike: bool) -> Node:
        """Return the text after OVER; the order of rows is total, or the frame has peers."""
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
        excluded = rng.choice(
            [""] * 6 + [" exclude current row", " exclude ties", " exclude group", " exclude no others"]
        )
        # Nobody promises which of several peers a value comes from.
        unit = rng.choice(["rows", "rows", "range", "groups"]) if alike else "rows"
        frame = f" {unit} between {bounds[0]} and {bounds[1]}{excluded}"
        if rng.random() < 0.2:
            frame = " rows 2 preceding"
        order = self._window_order(relation)
        if unit != "rows" and "rows" not in frame:
            if unit == "range" and (bounds[0][0].isdigit() or bounds[1][0].isdigit()):
                type_ = rng.choice(["integer", "date", "timestamp", "bigint", "double", "decimal"])
                if type_ in ("date", "timestamp"):
                    frame = (
                        frame.replace("1 ", "interval '1 month' ")
                        .replace("2 ", "interval '40 days' ")
                        .replace("0 ", "interval '0 days' ")
                    )
                order = Node(
                    "order", f"order by {{0}}{rng.choice(['', ' desc'])}", (self._column(type_, own=True),)
                )
            else:
                order = Node("order", "order by {0}", (self._value(rng.choice(ORDERLY), 1),))
        return Node("specification", "{0}{1}{2}", (base, order, raw("frame", frame, droppable=True)))

    def _window_call(self, relation: Relation, named: list[str]) -> Node:
        rng = self._rng
        type_ = rng.choice([type_ for type_ in TYPES if type_ != "interval"])
        kind = rng.choice(["number", "number", "shift", "value", "aggregate", "aggregate", "aggregate"])
        if kind == "number":
            text = rng.choice(
                ["row_number()", "rank()", "dense_rank()", "percent_rank()", "cume_dist()", "ntile(3)"]
            )
            call, type_ = raw("call", text), "bigint"
        elif kind == "shift":
            name, offset = rng.choice(["lag", "lead"]), rng.choice(["", "", ", 1", ", 2", ", 0", ", -1"])
            default = (
                Node("default", ", {0}", (self._value(type_, 0),)) if offset and rng.random() < 0.5 else EMPTY
            )
            call = Node("call", f"{name}({{0}}{offset}{{1}})", (self._value(type_, 1), default))
        elif kind == "value":
            text = rng.choice(
                ["first_value({0})", "last_value({0})", "nth_value({0}, 2)", "nth_value({0}, 1)"]
            )
            call = Node("call", text, (self._value(type_, 1),))
        else:
            type_ = rng.choice(
                ["bigint", "bigint", "integer", "double", "decimal", "varchar", "boolean", "date"]
            )
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
        return Node(
            type_, "{0} over ({1})", (call, self._specification(relation, named, framed, kind == "aggregate"))
        )
