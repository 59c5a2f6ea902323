"""Random queries over the same rows here and in DuckDB must have the same answers."""

import itertools
import random

import duckdb
import hypostyle
import pytest
from campaigns import fixed_seeds

TABLES = """
create table t (i integer, f double, s varchar);
create table u (i integer, f double, s varchar);
create table nothing (i integer, f double, s varchar);
create table full_ (i integer not null, f double not null, s varchar not null);
insert into t values
    (3, 1, 'a'), (4, 2, null), (null, 5, 'c'), (5, 2, 'b'), (3, 7, 'zz'), (null, null, 'a');
insert into u values (3, 1, 'a'), (5, 2, 'b'), (null, 5, 'c'), (3, 7, null);
insert into full_ values (3, 1, 'a'), (4, 9, 'b'), (3, 2, 'b');
"""


class Maker:
    """Generates conditions with correlated subqueries; all tables have the same columns."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.aliases = 0

    def some(self, *of):
        return self.random.choice(of)

    def alias(self):
        self.aliases += 1
        return f"k{self.aliases}"

    def pair(self, a, b):
        """Return a condition of two rows."""
        return self.some(
            f"{a}.i = {b}.i",
            f"{a}.f = {b}.f",
            f"{a}.f > {b}.f",
            f"{a}.i is not distinct from {b}.i",
            f"{a}.s = {b}.s",
            f"{a}.f <> {b}.f",
            f"{a}.i + 1 = {b}.i",
            f"coalesce({a}.i, 3) = {b}.i",
            f"{a}.f between {b}.f and {b}.f + 3",
        )

    def rows(self, outer, depth):
        """Return rows of a subquery: their alias, and FROM with its WHERE."""
        alias, table = self.alias(), self.some("t", "u", "nothing", "full_")
        if self.random.random() < 0.15:
            # It may also be the outer table, whose columns are then hidden.
            alias = table
        conditions = []
        if self.random.random() < 0.15:
            other = self.alias()
            join = self.some("join", "left join")
            source = f"{table} {alias} {join} {self.some('t', 'u')} {other} on {self.pair(alias, other)}"
            conditions += [self.pair(other, outer)] * (self.random.random() < 0.5)
        elif self.random.random() < 0.12:
            source = f"(select i, max(f) as f, min(s) as s from {table} group by i) {alias}"
        else:
            source = f"{table} {alias}"
        conditions += [self.pair(alias, outer)] * (self.random.random() < 0.7)
        if self.random.random() < 0.3:
            conditions.append(self.some(f"{alias}.i is not null", f"{alias}.s <> 'zz'", f"{alias}.f > 1.5"))
        if depth < 2 and self.random.random() < 0.25:
            conditions.append(self.condition(alias, depth + 1))
        return alias, source + (f" where {' and '.join(conditions)}" if conditions else "")

    def condition(self, outer, depth=0):
        alias, rows = self.rows(outer, depth)
        column, negated = self.some("i", "f"), self.some("", "not ")
        value = f"select {alias}.{column} from {rows}"
        made = self.some(
            f"{outer}.{column} {negated}in ({value})",
            f"{outer}.{column} {negated}in ({value})",
            f"3 {negated}in ({value})",
            f"{negated}exists (select 1 from {rows})",
            f"{outer}.{column} {self.some('=', '<>', '<', '>=')} {self.some('any', 'all')} ({value})",
            f"{outer}.{column} {self.some('=', '<>', '<')} "
            f"(select {self.some('max', 'min', 'count', 'sum')}({alias}.{column}) from {rows})",
            f"coalesce((select max({alias}.f) from {rows}), 0) > {self.random.randrange(6)}",
            f"({outer}.{column} {negated}in ({value})) is {self.some('null', 'not true', 'true', 'false')}",
            f"case when {outer}.{column} {negated}in ({value}) then {outer}.f > 1 else {outer}.i is null end",
            f"(select count(*) from {rows}) {self.some('=', '>', '<')} {self.random.randrange(4)}",
            f"exists (select {alias}.i from {rows} group by {alias}.i having count(*) > {self.some(0, 1)})",
        )
        if depth == 0:
            made = self.some(made, made, f"not ({made})", f"({made} or {self.condition(outer, 1)})")
        return made

    def statements(self):
        """Return one statement, and for one that writes the statements before and after it."""
        condition, order = self.condition("t"), "order by 1, 2, 3"
        written = [f"select f, i, s from t {order}", "rollback"]
        kind = self.random.randrange(7)
        if kind == 0:
            return ["begin", f"delete from t where {condition}", *written]
        if kind == 1:
            return ["begin", f"update t set f = f + 10, s = 'x' where {condition}", *written]
        if kind == 2:
            alias, rows = self.rows("t", 0)
            value = f"select {self.some('max', 'min', 'sum')}({alias}.f) from {rows}"
            text = f"case when {condition} then 'y' else 'n' end"
            return ["begin", f"update t set f = ({value}), s = {text}", *written]
        if kind == 3:
            return [f"select f, i, s from t where {condition} {order}"]
        if kind == 4:
            return [f"select f, i, ({condition}) as c from t {order}"]
        if kind == 5:
            test = self.some("c", "not c", "c is null", "c is not true")
            return [f"select f, i, s from (select *, ({condition}) as c from t) x where {test} {order}"]
        join, side = self.some(("join", "a"), ("left join", "b"), ("right join", "a"), ("left join", "a"))
        on = f"{self.pair('a', 'b')} and {self.condition(side, 1)}"
        filters = self.some("", f" where {self.pair('a', 'b')}", f" where {self.condition('b', 1)}")
        return [f"select a.*, b.* from t a {join} u b on {on}{filters} order by 1, 2, 3, 4, 5, 6"]


def answer(connection, sql):
    result = connection.execute(sql)
    if sql.split()[0] in ("update", "delete"):
        return result.rows_affected if isinstance(connection, hypostyle.Connection) else result.fetchone()[0]
    return result.fetchall() if sql.startswith("select") else None


@pytest.mark.parametrize("seed", fixed_seeds())
def test_subqueries(seed):
    maker, compared = Maker(seed), 0
    with hypostyle.connect() as ours, duckdb.connect() as theirs:
        for statement in TABLES.strip().strip(";").split(";"):
            ours.execute(statement)
            theirs.execute(statement)
        for _ in range(80):
            statements = maker.statements()
            try:
                expected = [answer(theirs, sql) for sql in statements]
            except duckdb.NotImplementedException:
                # DuckDB does not have all of them either.
                if "begin" in statements:
                    theirs.execute("rollback")
                continue
            assert [answer(ours, sql) for sql in statements] == expected, (seed, statements)
            compared += 1
    assert compared > 60


class Changer:
    """Generates statements that change `t`, whose key and condition they may break, by data of
    `u`.
    """

    def __init__(self, seed):
        self.random = random.Random(seed)

    def some(self, *of):
        return self.random.choice(of)

    def number(self):
        return self.random.randrange(12)

    def value(self, *columns):
        return self.some(
            "null",
            str(self.number()),
            *columns,
            *(f"{column} + {self.number()}" for column in columns),
            *(f"case when {column} > {self.number()} then {column} end" for column in columns),
        )

    def plain(self, *columns):
        """Return a condition without subqueries, which DuckDB lacks in MERGE and ON CONFLICT."""
        column, other = self.some(*columns), self.some(*columns)
        return self.some(
            f"{column} < {self.number()}",
            f"{column} % 2 = {self.some(0, 1)}",
            f"{column} is {self.some('null', 'not null')}",
            f"{column} {self.some('=', '<>', '<=')} {other}",
        )

    def condition(self, *columns):
        column = self.some(*columns)
        return self.some(
            self.plain(*columns),
            f"{column} in (select a from u where k > {self.number()})",
            f"exists (select 1 from u as w where w.k = {column} and w.a > {self.number()})",
        )

    def rows(self):
        keys = self.random.sample(range(16), self.random.randrange(1, 6))
        return ", ".join(f"({key}, {self.value()}, '{self.some('x', 'y', 'z')}')" for key in keys)

    def source(self):
        return self.some(f"(values {self.rows()})", "(select * from u)", "(select k + 3, a, s from u)")

    def merge(self):
        matched = [
            f"when matched and {self.plain('t.a', 'v.a', 't.k')} then "
            f"{self.some('delete', 'do nothing', 'update set a = ' + self.value('t.a', 'v.a'))}"
            for _ in range(self.random.randrange(3))
        ]
        if self.random.random() < 0.6:
            matched.append(f"when matched then update set a = {self.value('v.a', 't.a')}, s = v.s")
        missing = [
            f"when not matched and {self.plain('v.a', 'v.k')} then insert (k, a) "
            f"values (v.k, {self.value('v.a', 'v.k')})"
        ] * (self.random.random() < 0.5)
        if not matched or self.random.random() < 0.6:
            missing.append("when not matched then insert values (v.k, v.a, v.s)")
        unsourced = [
            f"when not matched by source and {self.plain('t.a', 't.k')} then "
            f"{self.some('delete', 'update set a = ' + self.value('t.a'))}"
        ] * (self.random.random() < 0.3)
        clauses = " ".join([*matched, *missing, *unsourced])
        return f"merge into t using {self.source()} as v (k, a, s) on t.k = v.k {clauses}"

    def statement(self):
        insert = f"insert into t {self.some(f'values {self.rows()}', f'select * from {self.source()} as v')}"
        update = f"on conflict (k) do update set a = {self.value('t.a', 'excluded.a')}, s = excluded.s"
        return self.some(
            insert,
            f"{insert} on conflict do nothing",
            f"{insert} {update}",
            f"{insert} {update} where {self.plain('t.a', 'excluded.a', 't.k')}",
            f"update t set a = {self.value('a', 'k')} where {self.condition('a', 'k')}",
            f"update t set a = {self.value('t.a', 'v.a')}, s = v.s from {self.source()} as v (k, a, s) "
            f"where t.k = v.k and {self.condition('v.a', 't.a')}",
            f"delete from t where {self.condition('a', 'k')} and {self.condition('a', 'k')}",
            f"delete from t using {self.source()} as v (k, a, s) where t.k = v.k and {self.condition('v.a')}",
            *[self.merge() for _ in range(4)],
        )


def changed(connection, sql, refused):
    """Return how many rows a statement has changed; none if a constraint refuses them."""
    try:
        result = connection.execute(sql)
    except refused:
        return None
    return result.rows_affected if isinstance(connection, hypostyle.Connection) else result.fetchone()[0]


@pytest.mark.parametrize("seed", fixed_seeds())
def test_changes(seed):
    changer, outcomes = Changer(seed), {"refused": 0, "changed": 0}
    with hypostyle.connect() as ours, duckdb.connect() as theirs:
        for connection in (ours, theirs):
            connection.execute("create table t (k integer primary key, a integer check (a < 20), s varchar)")
            connection.execute("create table u (k integer primary key, a integer, s varchar)")
            connection.execute("insert into u select i, i * 5 % 13, 'u' from range(0, 14, 2) as r (i)")
            connection.execute("insert into u values (1, null, null)")
        for _ in range(120):
            sql = changer.statement()
            expected = changed(theirs, sql, duckdb.ConstraintException)
            assert changed(ours, sql, hypostyle.ConstraintError) == expected, (seed, sql)
            outcomes["refused" if expected is None else "changed"] += 1
            rows = "select k, a, s from t order by k"
            assert ours.execute(rows).fetchall() == theirs.execute(rows).fetchall(), (seed, sql)
    assert min(outcomes.values()) > 3, outcomes


def test_joins_of_tables_whose_columns_have_the_same_names():
    """The tables are large enough for the plans of many rows, in which the filters of joins go far
    down.
    """
    with hypostyle.connect() as ours, duckdb.connect() as theirs:
        for table, columns, rows in (
            ("a", "i as id, (i * 7) % 10007 as x, i % 13 as y", 150_000),
            ("b", "(i * 17) % 75000 as id, i * 3 % 10007 as x, i % 11 as y", 100_000),
            ("c", "i * 20 as id, (i * 11) % 10007 as x, i % 3 as y", 70_000),
        ):
            theirs.execute(f"create table {table} as select {columns} from range(1, {rows + 1}) g (i)")
        for table in "abc":
            ours.append(table, theirs.sql(f"select * from {table}").to_arrow_table(), create=True)
        keys, filters = (
            [("x", "id"), ("id", "x")],
            ["coalesce(t2.y, 1) < t3.y + 3", "t3.y = 1 and t3.id < 90000"],
        )
        for tables, (one, other), source, extra in itertools.product(
            itertools.permutations("abc"), keys, ("t1", "t2"), filters
        ):
            first, second, third = tables
            sql = (
                "select count(*), sum(t1.id)::bigint, sum(t2.id)::bigint, sum(t3.id)::bigint, max(t2.y) "
                f"from {first} t1 join {second} t2 on t1.{one} = t2.{one} "
                f"join {third} t3 on {source}.{other} = t3.{other} where {extra}"
            )
            assert ours.sql(sql).fetchall() == theirs.execute(sql).fetchall(), sql
