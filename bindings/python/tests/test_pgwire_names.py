"""Unnamed columns have the names that PostgreSQL 15 gives them, listed in `pgwire_names.txt`."""

import os
import pathlib
import subprocess

import pytest

psycopg = pytest.importorskip("psycopg")

PROGRAM = os.environ.get("HYPOSTYLE_PGWIRE")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="HYPOSTYLE_PGWIRE is not set")

NAMES = pathlib.Path(__file__).with_name("pgwire_names.txt")

# Expressions that cannot be computed here.
REFUSED_MOST = 12


@pytest.fixture
def pg():
    server = subprocess.Popen([PROGRAM, "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    try:
        port = int(server.stdout.readline().rsplit(":", 1)[1])
        with psycopg.connect(f"host=127.0.0.1 port={port} user=ada", autocommit=True) as connection:
            yield connection
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def names(pg, sql):
    return [column.name for column in pg.execute(sql).description]


def name_of(pg, expression):
    # Some expressions do not stand beside a table, and others need one.
    for sql in [f"SELECT {expression} FROM t", f"SELECT {expression}"]:
        try:
            return names(pg, sql)[0]
        except psycopg.Error:
            continue
    return None


def test_expressions_have_the_names_that_postgresql_gives_them(pg):
    pg.execute('CREATE TABLE t (a INTEGER, b INTEGER, c VARCHAR, d DOUBLE, "A b" INTEGER)')
    wrong, refused = [], []
    for line in NAMES.read_text().splitlines():
        expected, expression = line.split("\t")
        found = name_of(pg, expression)
        if found is None:
            refused.append(expression)
        elif found != expected:
            wrong.append((expression, expected, found))
    assert not wrong
    assert len(refused) <= REFUSED_MOST, refused


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1, 2, 'x'", ["?column?", "?column?", "?column?"]),
        ("SELECT a, t.a, count(*), count(b) FROM t GROUP BY a", ["a", "a", "count", "count"]),
        ("SELECT * FROM (SELECT max(a), max(b), 1 FROM t) s", ["max", "max", "?column?"]),
        ("SELECT s.max FROM (SELECT max(a) FROM t) s", ["max"]),
        ("WITH w AS (SELECT upper(c) FROM t) SELECT upper FROM w ORDER BY upper", ["upper"]),
        ("SELECT upper(c) FROM t UNION ALL SELECT 'x'", ["upper"]),
        ("SELECT upper(c) FROM t ORDER BY upper(c)", ["upper"]),
        ("SELECT count(*) FROM t GROUP BY a ORDER BY count", ["count"]),
        ("SELECT length(c) FROM t GROUP BY length(c) HAVING count(*) > 0", ["length"]),
        ("VALUES (1, 2)", ["column1", "column2"]),
        ("INSERT INTO t (a) VALUES (1) RETURNING a + 1, upper(c), a::text", ["?column?", "upper", "a"]),
    ],
)
def test_columns_of_one_name_and_of_queries_within(pg, sql, expected):
    pg.execute("CREATE TABLE t (a INTEGER, b INTEGER, c VARCHAR)")
    assert names(pg, sql) == expected
    with pg.cursor() as cursor:
        cursor.execute(sql, prepare=True)
        assert [column.name for column in cursor.description] == expected


def test_views_and_tables_take_the_names(pg):
    pg.execute("CREATE TABLE t (a INTEGER)")
    pg.execute("CREATE VIEW v AS SELECT count(*), max(a) FROM t")
    pg.execute("CREATE TABLE made AS SELECT count(*), a::text FROM t GROUP BY a")
    assert names(pg, "SELECT * FROM v") == ["count", "max"]
    assert names(pg, "SELECT * FROM made") == ["count", "a"]
