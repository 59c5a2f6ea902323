"""Random changes here and in SQLite: of tables that refer to each other, and in all kinds of
transactions.
"""

import random
import sqlite3

import hypostyle
import pytest
from campaigns import fixed_seeds

KEYS = 10
ACTIONS = ("cascade", "set null", "set default", "restrict", "no action")
TABLES = ("parent", "child", "grandchild", "part")


def definitions(chance):
    """Return references with actions of their own; some defaults are keys of no row."""

    def actions(*of):
        return f"on delete {chance.choice(of)} on update {chance.choice(of)}"

    def default():
        return f"default {chance.choice(('null', chance.randrange(KEYS), KEYS + 1))}"

    # Rows that one statement deletes may refer to each other: SQLite restricts that row by row.
    among_themselves = [action for action in ACTIONS if action != "restrict"]
    whose = f"{default()} references child {actions(*ACTIONS)}"
    pair = f"foreign key (a, b) references parent (a, b) {actions('cascade', 'set null')}"
    return [
        "create table parent (k integer primary key, u integer unique, a integer, b integer, unique (a, b))",
        "create table child (k integer primary key, "
        f"p integer {default()} references parent {actions(*ACTIONS)}, "
        f"q integer {default()} references parent (u) {actions(*ACTIONS)})",
        f"create table grandchild (k integer primary key, c integer {whose}, a integer, b integer, {pair})",
        "create table part (k integer primary key, "
        f"whole integer {default()} references part {actions(*among_themselves)})",
    ]


class Changer:
    """Generates statements about few keys, so that most of them meet rows."""

    def __init__(self, chance):
        self.chance = chance

    def key(self):
        return self.chance.randrange(KEYS)

    def value(self):
        return self.chance.choice(("null", self.key(), self.key(), self.key()))

    def statement(self):
        table = self.chance.choice(TABLES)
        columns = {"parent": "uab", "child": "pq", "grandchild": "cab", "part": ["whole"]}[table]
        kind = self.chance.randrange(6)
        if kind <= 1:
            values = ", ".join(str(self.value()) for _ in columns)
            return f"insert into {table} values ({self.key()}, {values})"
        if kind == 2:
            # SQLite deletes row by row: a row that restricts one may be gone by then.
            several = (f"k in ({self.key()}, {self.key()})", f"k > {self.key() + 4}")
            condition = self.chance.choice((f"k = {self.key()}", *several * (table != "parent")))
            return f"delete from {table} where {condition}"
        if kind == 3:
            # There is one row, because SQLite looks for two of the same key after each.
            return f"update {table} set k = {self.key()} where k = {self.key()}"
        if kind == 4 and table != "parent":
            return f"update {table} set {self.chance.choice(columns)} = {self.value()} where k < {self.key()}"
        return f"update {table} set {self.chance.choice(columns)} = {self.value()} where k = {self.key()}"


def refuses(connection, sql, error):
    try:
        connection.execute(sql)
    except error:
        return True
    return False


@pytest.mark.parametrize("seed", fixed_seeds())
def test_actions_of_foreign_keys(seed):
    chance = random.Random(seed)
    with hypostyle.connect() as ours, sqlite3.connect(":memory:", isolation_level=None) as theirs:
        theirs.execute("pragma foreign_keys = on")
        for sql in definitions(chance):
            ours.execute(sql)
            theirs.execute(sql)
        changer, refusals = Changer(chance), 0
        for _ in range(400):
            sql = changer.statement()
            refused = refuses(theirs, sql, sqlite3.IntegrityError)
            assert refuses(ours, sql, hypostyle.ConstraintError) == refused, (seed, sql)
            refusals += refused
            for table in TABLES:
                rows = f"select * from {table} order by k"
                assert ours.execute(rows).fetchall() == theirs.execute(rows).fetchall(), (seed, sql, table)
        assert 20 < refusals < 380


class Transactions:
    """Generates statements about few tables, their columns and rows, and transactions around
    them.
    """

    def __init__(self, chance):
        self.chance = chance
        # The names of the savepoints, the last one last; empty outside of a transaction.
        self.savepoints = None

    def control(self):
        """Return BEGIN, COMMIT, ROLLBACK or SAVEPOINT, in any order."""
        if self.savepoints is None:
            self.savepoints = []
            return "begin"
        kind, name = self.chance.randrange(8), self.chance.choice("xyz")
        if kind <= 1:
            self.savepoints = None
            return self.chance.choice(("commit", "commit", "rollback"))
        if kind <= 4 or name not in self.savepoints:
            self.savepoints.append(name)
            return f"savepoint {name}"
        last = len(self.savepoints) - self.savepoints[::-1].index(name)
        if kind <= 6:
            self.savepoints = self.savepoints[:last]
            return f"rollback to savepoint {name}"
        self.savepoints = self.savepoints[: last - 1]
        return f"release savepoint {name}"

    def change(self):
        table, other = self.chance.sample("tuv", 2)
        column, another = self.chance.sample("abcd", 2)
        key, number = self.chance.randrange(KEYS), self.chance.randrange(100)
        return self.chance.choice(
            (
                f"create table {table} (k integer primary key, a integer)",
                f"create table {table} (k integer primary key, a integer)",
                f"drop table {table}",
                f"alter table {table} rename to {other}",
                f"alter table {table} add column {column} integer default {number}",
                f"alter table {table} drop column {column}",
                f"alter table {table} rename column {column} to {another}",
                *[f"insert into {table} (k) values ({key})"] * 3,
                *[f"insert into {table} (k, {column}) values ({key}, {number})"] * 6,
                *[f"update {table} set {column} = {number} where k > {key}"] * 3,
                f"update {table} set {column} = k where {another} < {number}",
                f"insert into {table} (k, a) select k + {key}, a from {other}",
                f"delete from {table} where k = {key}",
                f"delete from {table} where {column} > {number}",
            )
        )


def state(connection):
    """Return all tables with their columns and rows."""
    names = "select table_name from information_schema.tables where table_schema = 'main'"
    if isinstance(connection, sqlite3.Connection):
        names = "select name from sqlite_master where type = 'table'"
    found = {}
    for (table,) in sorted(connection.execute(names).fetchall()):
        result = connection.execute(f"select * from {table} order by k")
        found[table] = [column[0] for column in result.description], result.fetchall()
    return found


@pytest.mark.parametrize("seed", fixed_seeds())
def test_transactions(seed, tmp_path):
    chance = random.Random(seed)
    maker, committed, refusals = Transactions(chance), {}, 0
    with (
        hypostyle.connect(tmp_path / "ours") as ours,
        hypostyle.connect(tmp_path / "ours") as watcher,
        sqlite3.connect(":memory:", isolation_level=None) as theirs,
    ):
        for _ in range(400):
            if chance.random() < 0.25:
                sql = maker.control()
                ours.execute(sql)
                theirs.execute(sql)
            else:
                sql, inside = maker.change(), maker.savepoints is not None
                refused = []
                for connection, error in ((theirs, sqlite3.Error), (ours, hypostyle.Error)):
                    # A statement that fails is undone alone; otherwise one of the systems could not
                    # continue.
                    if inside:
                        connection.execute("savepoint statement")
                    refused.append(refuses(connection, sql, error))
                    if inside:
                        connection.execute(
                            f"{'rollback to' if refused[-1] else 'release'} savepoint statement"
                        )
                assert refused[0] == refused[1], (seed, sql)
                refusals += refused[0]
            expected = state(theirs)
            assert state(ours) == expected, (seed, sql)
            if maker.savepoints is None:
                committed = expected
            assert state(watcher) == committed, (seed, sql)
        assert 20 < refusals < 300
    with hypostyle.connect(tmp_path / "ours") as ours:
        assert state(ours) == committed
        assert ours.execute("check database").fetchall() == []
