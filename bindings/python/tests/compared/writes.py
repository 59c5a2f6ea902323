"""INSERT with ON CONFLICT, UPDATE … FROM, DELETE … USING and MERGE, all of the table `t`."""

from .expressions import Relation
from .nodes import EMPTY, Node, items
from .queries import Queries
from .tables import COLUMNS, TABLES

COLUMNS_OF_T = {name: COLUMNS[name] for name in TABLES["t"][0]}
TARGET = Relation("t", COLUMNS_OF_T, keyed=True)
SOURCE = Relation("v", COLUMNS_OF_T, keyed=True)
SOURCES = ["u v", "filled v", "(select * from u where id > 2) v"]


class Writes(Queries):
    """A generator of statements that write two columns of a table."""

    def _write(self) -> Node:
        column, second = self._rng.sample([name for name in COLUMNS_OF_T if name != "id"], 2)
        make = self._rng.choice(
            [
                self._insert,
                self._insert_or_update,
                self._insert_or_update,
                self._update,
                self._update_from,
                self._delete,
                self._merge,
                self._merge,
            ]
        )
        return make(column, second, self._rng.choice(SOURCES))

    def _new(self, column: str, *relations: Relation, depth: int = 2, subqueries: int = 0) -> Node:
        """Return a value for a column."""
        return self._inside(list(relations), lambda: self._value(COLUMNS[column], depth, subqueries))

    def _test(self, *relations: Relation, subqueries: int = 0) -> Node:
        return self._inside(list(relations), lambda: self._condition(2, subqueries))

    def _returned(self, column: str) -> Node:
        if self._rng.random() < 0.7:
            return EMPTY
        return Node(
            "returning", " returning t.id, {0}", (self._new(column, TARGET, depth=1),), droppable=True
        )

    def _insert(self, column: str, second: str, source: str) -> Node:
        values = (self._new(column, SOURCE, subqueries=1), self._new(second, SOURCE, depth=1))
        where = self._inside([SOURCE], lambda: self._where(1, 1))
        head = f"insert into t (id, {column}, {second}) select v.id + 20, {{0}}, {{1}} from {source}{{2}}"
        return Node("write", head, (*values, where))

    def _insert_or_update(self, column: str, second: str, source: str) -> Node:
        head = (
            f"insert into t (id, {column}, {second}) select v.id + 5, {{0}}, {{1}} from {source} where true"
        )
        values = (self._new(column, SOURCE), self._new(second, SOURCE, depth=1))
        if self._rng.random() < 0.3:
            return Node("write", f"{head} on conflict do nothing", values)
        excluded = Relation("excluded", {"id": "integer", column: COLUMNS[column], second: COLUMNS[second]})
        where = EMPTY
        if self._rng.random() < 0.6:
            where = Node("where", " where {0}", (self._test(TARGET, excluded),), droppable=True)
        update = f" on conflict (id) do update set {column} = {{2}}{{3}}"
        return Node("write", head + update, (*values, self._new(column, TARGET, excluded), where))

    def _update(self, column: str, second: str, _: str) -> Node:
        values = (self._new(column, TARGET, subqueries=1), self._new(second, TARGET))
        text = f"update t set {column} = {{0}}, {second} = {{1}} where {{2}}{{3}}"
        return Node("write", text, (*values, self._test(TARGET, subqueries=1), self._returned(column)))

    def _update_from(self, column: str, _: str, source: str) -> Node:
        text = f"update t set {column} = {{0}} from {source} where t.id = v.id and {{1}}{{2}}"
        value = self._new(column, TARGET, SOURCE)
        return Node("write", text, (value, self._test(TARGET, SOURCE), self._returned(column)))

    def _delete(self, column: str, _: str, source: str) -> Node:
        if self._rng.random() < 0.5:
            using = f"delete from t using {source} where t.id = v.id and {{0}}{{1}}"
            return Node("write", using, (self._test(TARGET, SOURCE), self._returned(column)))
        return Node(
            "write", "delete from t where {0}{1}", (self._test(TARGET, subqueries=2), self._returned(column))
        )

    def _merge(self, column: str, second: str, source: str) -> Node:
        rng = self._rng
        both = (TARGET, SOURCE)
        clauses = []
        for _ in range(rng.randrange(3)):
            action = rng.choice(["delete", "do nothing", f"update set {column} = {{1}}"])
            parts = (self._test(*both), self._new(column, *both))[: 1 + ("{1}" in action)]
            clauses.append(Node("clause", f"when matched and {{0}} then {action}", parts))
        if rng.random() < 0.6 or not clauses:
            text = f"when matched then update set {column} = {{0}}, {second} = v.{second}"
            clauses.append(Node("clause", text, (self._new(column, *both),)))
        if rng.random() < 0.5:
            text = f"when not matched and {{0}} then insert (id, {column}) values (v.id, {{1}})"
            clauses.append(Node("clause", text, (self._test(SOURCE), self._new(column, SOURCE))))
        if rng.random() < 0.5:
            text = f"when not matched then insert (id, {second}) values (v.id + 50, v.{second})"
            clauses.append(Node("clause", text))
        head = f"merge into t using {source} on t.id = v.id + {rng.randrange(4)} {{0}}"
        return Node("write", head, (items("clauses", clauses, " "),))
