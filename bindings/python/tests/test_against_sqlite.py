"""Random changes of tables that refer to each other, here and in SQLite."""

import random
import sqlite3

import hypostyle
import pytest
from campaigns import fixed_seeds

KEYS = 10
ACTIONS = ("cascade", "set null", "set default", "restrict", "no action")
TABLES = ("parent", "child", "grandchild", "part")


def definitions(chance):
    """Every reference with actions of its own; some defaults are keys of no row."""

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
    """Makes statements about few keys, so that most of them meet rows."""

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
            # SQLite deletes row by row: what restricts one may have gone with another by then.
            several = (f"k in ({self.key()}, {self.key()})", f"k > {self.key() + 4}")
            condition = self.chance.choice((f"k = {self.key()}", *several * (table != "parent")))
            return f"delete from {table} where {condition}"
        if kind == 3:
            # One row, since SQLite looks for two of the same key after each.
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
