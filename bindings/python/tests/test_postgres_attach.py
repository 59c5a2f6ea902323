"""Databases of PostgreSQL that ATTACH names: each query is compared with the server's own answer."""

import datetime as dt
import decimal
import threading
import time

import hypostyle
import psycopg
import pyarrow as pa
import pytest
from compared.peers import postgres_program, postgres_server

pytestmark = pytest.mark.skipif(
    postgres_program() is None, reason="no program of a PostgreSQL server: install postgresql-15"
)

ROWS = 2000
HOSTILE = ["'; drop table items; --", "\\'; drop table items; --", '$1 $$ /* */ -- "', "é%_", "", "\\"]

TABLES = """
create type mood as enum ('sad', 'ok', 'happy');
create domain positive as int check (value > 0);
create type pair as (a int, b text);
create collation ignoring_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
create table items (
    id bigint primary key, small smallint, whole int, flag bool, price numeric(9,2), free numeric,
    ratio float8, single float4, name text collate "und-x-icu", short varchar(20), padded char(6), day date,
    moment timestamp, instant timestamptz, key uuid, feeling mood, count positive, both_of pair,
    list int[], "odd ""name" int, loose text collate ignoring_case, address inet
);
insert into items select
    i, case when i % 7 > 0 then i % 100 - 50 end, i * 1000 - 700000,
    case i % 3 when 0 then true when 1 then false end, (i - 900) / 4.0, i / 3.0,
    case i % 50 when 0 then 'NaN' when 1 then '-0' when 2 then 'Infinity' else i / 8.0 end, (i - 1000) / 3.0,
    case when i % 11 > 0 then chr(65 + i % 58) || chr(97 + i % 7) || repeat('é', (i % 5 = 0)::int) end,
    'v' || i % 40, 'p' || i % 9, date '2020-01-01' + (i % 900)::int,
    timestamp '2021-05-05 05:05:05.123456' + i * interval '1 hour 1 microsecond',
    timestamptz '2021-05-05 05:05:05+02' + i * interval '37 minutes',
    ('00000000-0000-4000-8000-' || lpad(to_hex(i % 300), 12, '0'))::uuid,
    (array['sad', 'ok', 'happy'])[1 + i % 3]::mood, i,
    case i % 4 when 0 then null when 1 then row(null, null)::pair else row(i, 'b')::pair end,
    case when i % 13 > 0 then array[i, null] end, i % 10, case i % 2 when 0 then 'Ab' else 'aB' end,
    case when i % 17 > 0 then ('10.0.0.' || i % 200)::inet end
from generate_series(1, 2000) i;
create table words (id serial primary key, word text);
create schema "Other Schema";
create table "Other Schema"."Mixed Case" (a int, "B c" text);
insert into "Other Schema"."Mixed Case" values (1, 'x'), (2, null);
create view cheap as select id, price from items where price < 0;
create table parts (id int, k int) partition by range (k);
create table parts_1 partition of parts for values from (0) to (100);
create table parts_2 partition of parts for values from (100) to (1000);
insert into parts select i, i from generate_series(0, 999) i;
"""


class Server:
    """A running server: its address for us, and a connection of psycopg."""

    def __init__(self, keywords):
        given = dict(part.split("=", 1) for part in keywords.split())
        self.address = f"postgresql://{given['user']}@/postgres?host={given['host']}"
        self.keywords = f"{keywords} dbname=postgres"
        self.direct = psycopg.connect(self.keywords, autocommit=True)

    def rows(self, sql, parameters=None):
        return self.direct.execute(sql, parameters).fetchall()


@pytest.fixture(scope="module")
def server():
    with postgres_server() as keywords:
        running = Server(keywords)
        running.direct.execute(TABLES)
        for word in HOSTILE:
            running.direct.execute("insert into words (word) values (%s)", [word])
        running.direct.execute("analyze")
        yield running
        running.direct.close()


@pytest.fixture
def con(server):
    with hypostyle.connect(threads=2) as connection:
        connection.execute(f"ATTACH '{server.address}' AS pg")
        yield connection


def plan(con, sql):
    """The text of a query's physical plan."""
    return "\n".join(str(row[-1]) for row in con.sql(f"EXPLAIN {sql}").fetchall())


def scan(con, sql):
    """The query that a plan sends."""
    lines = [line for line in plan(con, sql).splitlines() if "ForeignScanExec" in line]
    assert len(lines) == 1, lines
    return lines[0]


# Conditions, and what they are there if their collations say something else.
PUSHED = [
    ("id = 17", None),
    ("id <> 17 and id < 30", None),
    ("small > 10", None),
    ("small between -5 and 5", None),
    ("small is null", None),
    ("whole >= 1000000", None),
    ("whole = 300000", None),
    ("flag", None),
    ("not flag", None),
    ("flag is not true", None),
    ("price = 12.25", None),
    ("price > -5.5 and price <= 7", None),
    ("ratio > 100.5", None),
    ("name = 'Ffé'", None),
    ("name < 'b'", "name collate \"C\" < 'b'"),
    ("name >= 'a'", "name collate \"C\" >= 'a'"),
    ("name in ('Aa', 'Bb', 'x''y', 'Cc')", None),
    ("name like 'A%'", None),
    ("name not like '_b'", None),
    ("short = 'v7'", None),
    ("day = date '2020-02-29'", None),
    ("day between date '2020-06-01' and date '2020-07-01'", None),
    ("moment < timestamp '2021-05-06 00:00:00'", None),
    ("key = '00000000-0000-4000-8000-00000000000a'", None),
    ("feeling = 'ok'", None),
    ("feeling in ('sad', 'nosuch')", "feeling::text in ('sad', 'nosuch')"),
    ("count < 5", None),
    ('"odd ""name" = 3', None),
    ("loose = 'Ab'", "loose collate \"C\" = 'Ab'"),
    ("(id < 5 or id > 1995) and not (id = 3 or flag)", None),
    ("list is not null", None),
    ("address is null", None),
    ("whole > id", None),
    ("id = count or count < 7", None),
    ("name < short", 'name collate "C" < short'),
    ("name <> loose", 'name collate "C" <> loose'),
]


@pytest.mark.parametrize(("condition", "theirs"), PUSHED)
def test_a_condition_that_means_the_same_is_left_to_the_server(con, server, condition, theirs):
    expected = server.rows(f"select id from items where {theirs or condition} order by id")
    sql = f"SELECT id FROM pg.items WHERE {condition}"
    assert con.sql(f"{sql} ORDER BY id").fetchall() == expected
    assert " WHERE " in scan(con, sql)
    assert "FilterExec" not in plan(con, sql)


STAYS = [
    "padded = 'p1'",
    "padded = 'p1    '",
    "feeling > 'ok'",
    "ratio = 0",
    "ratio >= 'NaN'::double",
    "free > '5'",
    "address = '10.0.0.7'",
    "loose like 'A%'",
    "name ilike 'a%'",
    "both_of is null",
    "length(name) = 2",
    "id % 2 = 0 and whole + 1 > id",
    'ratio > "single"',
]


@pytest.mark.parametrize("condition", STAYS)
def test_a_condition_that_may_mean_something_else_stays_here(con, condition):
    sql = f"SELECT id FROM pg.items WHERE {condition}"
    con.execute("CREATE TEMP TABLE mine AS SELECT * FROM pg.items")
    expected = con.sql(f"SELECT id FROM mine WHERE {condition} ORDER BY id").fetchall()
    assert con.sql(f"{sql} ORDER BY id").fetchall() == expected
    assert " WHERE " not in scan(con, sql)


def test_half_of_a_condition_is_left_to_the_server(con, server):
    sql = "SELECT id FROM pg.items WHERE id > 1990 AND length(name) = 2"
    expected = server.rows("select id from items where id > 1990 and length(name) = 2 order by id")
    assert con.sql(f"{sql} ORDER BY id").fetchall() == expected
    assert "(\"id\" > '1990'::pg_catalog.int8)" in scan(con, sql)


def test_columns_and_limits_are_left_to_the_server(con):
    line = scan(con, "SELECT whole FROM pg.items WHERE id > 5 LIMIT 7")
    assert 'SELECT "whole" FROM "public"."items"' in line
    assert line.rstrip().endswith("LIMIT 7")
    assert con.sql("SELECT whole FROM pg.items WHERE id > 5 LIMIT 7").arrow().num_rows == 7
    assert con.sql("SELECT count(*) FROM pg.items").fetchone() == (ROWS,)
    limited = con.sql("SELECT id FROM pg.items WHERE length(name) = 2 LIMIT 3").fetchall()
    assert len(limited) == 3
    assert "LIMIT" not in scan(con, "SELECT id FROM pg.items WHERE length(name) = 2 LIMIT 3")


def test_values_are_those_of_a_connection_of_its_own(con, server):
    columns = (
        "id, small, whole, flag, price, free, name, short, padded, day, moment, instant, key, feeling, "
        'count, list, "odd ""name", loose, address'
    )
    with hypostyle.connect(server.address) as own:
        expected = own.sql(f"select {columns} from items order by id").fetchall()
    assert con.sql(f"SELECT {columns} FROM pg.items ORDER BY id").fetchall() == expected
    described = dict(row[:2] for row in con.sql("DESCRIBE pg.items").fetchall())
    assert described["price"] == "DECIMAL(9,2)"
    assert described["key"] == "UUID"
    assert described["instant"] == "TIMESTAMP WITH TIME ZONE"


def test_hostile_texts_are_only_compared(con, server):
    for word in HOSTILE:
        quoted = word.replace("'", "''")
        expected = server.rows("select id from words where word = %s", [word])
        assert len(expected) == 1
        for sql in (
            f"SELECT id FROM pg.words WHERE word = '{quoted}'",
            f"SELECT id FROM pg.words WHERE word IN ('{quoted}', 'nosuch')",
        ):
            assert con.sql(sql).fetchall() == expected, word
            assert " WHERE " in scan(con, sql)
        assert con.execute("SELECT id FROM pg.words WHERE word = ?", [word]).fetchall() == expected
    assert con.execute("SELECT id FROM pg.words WHERE word = ?", ["a\0b"]).fetchall() == []
    assert server.rows("select count(*) from items") == [(ROWS,)]


def test_operators_of_others_are_not_called(con, server):
    """Whoever may create operators in a schema of the search path has no function of theirs run."""
    made = [
        ("=", "varchar", "text"),
        ("<", "varchar", "text"),
        ("~~", "varchar", "text"),
        ("<", "positive", "bigint"),
    ]
    for number, (operator, left, right) in enumerate(made):
        server.direct.execute(
            f"create function caught_{number}({left}, {right}) returns bool language plpgsql "
            "as $$ begin raise exception 'caught'; end $$"
        )
        operands = f"leftarg = {left}, rightarg = {right}"
        server.direct.execute(f"create operator public.{operator} ({operands}, function = caught_{number})")
    try:
        for condition in ("short = 'v7'::text", "count < 5::bigint"):
            with pytest.raises(psycopg.Error, match="caught"):
                server.rows(f"select id from items where {condition}")
        for condition, rows in [
            ("short = 'v7'", 50),
            ("short in ('v7', 'v8')", 100),
            ("short < 'v1'", 50),
            ("short like 'v7%'", 50),
            ("count < 5", 4),
        ]:
            sql = f"SELECT count(*) FROM pg.items WHERE {condition}"
            assert con.sql(sql).fetchone() == (rows,), condition
            assert " WHERE " in scan(con, sql)
    finally:
        for number, (operator, left, right) in enumerate(made):
            server.direct.execute(f"drop operator public.{operator} ({left}, {right})")
            server.direct.execute(f"drop function caught_{number}({left}, {right})")


def test_a_search_path_that_names_pg_catalog_last_changes_no_operator(server):
    """Operators of the very types of a condition are not called either, nor in what asks for the tables."""
    made = [("=", "bigint"), ("<", "bigint"), ("=", "oid"), ("=", "text"), ("~~", "text")]
    server.direct.execute("create schema before")
    for number, (operator, of) in enumerate(made):
        server.direct.execute(
            f"create function before.caught_{number}({of}, {of}) returns bool language plpgsql "
            "as $$ begin raise exception 'caught'; end $$"
        )
        function = f"before.caught_{number}"
        operands = f"leftarg = {of}, rightarg = {of}"
        server.direct.execute(f"create operator before.{operator} ({operands}, function = {function})")
    server.direct.execute("alter role current_user set search_path = before, public, pg_catalog")
    try:
        with psycopg.connect(server.keywords) as direct, pytest.raises(psycopg.Error, match="caught"):
            direct.execute("select id from items where id = 5::bigint")
        with hypostyle.connect(threads=2) as con:
            con.execute(f"ATTACH '{server.address}' AS pg")
            conditions = [("id = 5", 1), ("id in (5, 6)", 2), ("id < 5", 4), ("short like 'v7%'", 50)]
            for condition, rows in conditions:
                sql = f"SELECT count(*) FROM pg.items WHERE {condition}"
                assert con.sql(sql).fetchone() == (rows,), condition
                assert " WHERE " in scan(con, sql)
    finally:
        server.direct.execute("alter role current_user reset search_path")
        server.direct.execute("drop schema before cascade")


def test_tables_of_both_are_joined(con, server):
    con.execute("CREATE TABLE mine AS SELECT i AS id, i * 2 AS twice FROM range(1, 101) r(i)")
    found = con.sql(
        "SELECT sum(twice), count(*) FROM mine JOIN pg.items USING (id) WHERE pg.items.small IS NOT NULL"
    ).fetchone()
    expected = server.rows("select sum(id * 2), count(*) from items where id <= 100 and small is not null")
    assert [tuple(map(int, found))] == [tuple(map(int, row)) for row in expected]
    both = con.sql("SELECT count(*) FROM pg.items a JOIN pg.public.items b ON a.id = b.whole / 1000 + 700")
    assert both.fetchone() == (ROWS,)


def test_names_of_schemas_views_and_partitions(con, server):
    assert con.sql('SELECT * FROM pg."Other Schema"."Mixed Case" ORDER BY a').fetchall() == [
        (1, "x"),
        (2, None),
    ]
    assert con.sql("SELECT count(*) FROM pg.cheap").fetchall() == server.rows("select count(*) from cheap")
    assert con.sql("SELECT sum(k) FROM pg.parts WHERE k >= 90").fetchone()[0] == sum(range(90, 1000))
    assert con.table("pg.parts").arrow().num_rows == 1000
    names = con.sql("SELECT table_name FROM pg.information_schema.tables WHERE table_schema = 'public'")
    assert {"items", "words", "cheap", "parts"} <= {row[0] for row in names.fetchall()}
    relations = con.sql("SELECT relname FROM pg.pg_catalog.pg_class WHERE relname = 'items'")
    assert relations.fetchall() == [("items",)]
    with pytest.raises(hypostyle.Error, match="nosuch"):
        con.sql("SELECT * FROM pg.nosuch")


def test_relations_of_all_kinds(con, server):
    server.direct.execute(
        """
        create unlogged table kind_unlogged as select 1 as a;
        create materialized view kind_stored as select 2 as a;
        create table kind_parent (a int, gone int, b int generated always as (a * 2) stored);
        alter table kind_parent drop column gone;
        insert into kind_parent values (3);
        create table kind_child (c int) inherits (kind_parent);
        insert into kind_child (a, c) values (4, 5);
        create table kind_empty ();
        insert into kind_empty default values;
        create temp table kind_temporary as select 6 as a;
        create sequence kind_sequence;
        """
    )
    assert con.sql("SELECT a FROM pg.kind_unlogged").fetchall() == [(1,)]
    assert con.sql("SELECT * FROM pg.kind_stored").fetchall() == [(2,)]
    assert con.sql("SELECT * FROM pg.kind_parent ORDER BY a").fetchall() == [(3, 6), (4, 8)]
    assert con.sql("SELECT count(*) FROM pg.kind_empty").fetchone() == (1,)
    for name in ("kind_temporary", "kind_sequence"):
        with pytest.raises(hypostyle.Error) as caught:
            con.sql(f"SELECT * FROM pg.{name}")
        assert caught.value.sqlstate == "42P01"
    with pytest.raises(hypostyle.Error) as caught:
        con.sql("SELECT ctid FROM pg.kind_unlogged")
    assert caught.value.sqlstate == "42703"
    con.execute("INSERT INTO pg.kind_parent (a) VALUES (7)")
    assert server.rows("select b from kind_parent where a = 7") == [(14,)]


def test_rights_are_those_of_the_user_of_the_address(con, server):
    server.direct.execute(
        """
        create role limited login;
        create table guarded (id int, owner text, secret text);
        insert into guarded values (1, 'limited', 'a'), (2, 'other', 'b');
        alter table guarded enable row level security;
        create policy own on guarded using (owner = current_user);
        grant select (id, owner) on guarded to limited;
        """
    )
    address = server.address.replace("test@", "limited@")
    con.execute(f"ATTACH '{address}' AS restricted")
    assert con.sql("SELECT id FROM restricted.guarded").fetchall() == [(1,)]
    assert con.sql("SELECT count(*) FROM restricted.guarded WHERE id > 0").fetchone() == (1,)
    assert con.sql("SELECT count(*) FROM restricted.guarded").fetchone() == (1,)
    assert con.sql("SELECT count(*) FROM pg.guarded").fetchone() == (2,)
    for columns in ("secret", "*"):
        with pytest.raises(hypostyle.Error) as caught:
            con.sql(f"SELECT {columns} FROM restricted.guarded").fetchall()
        assert caught.value.sqlstate == "42501"


def test_values_that_differ_there_are_as_documented(con, server):
    server.direct.execute(
        """
        create table odd (n numeric(9,2), d date, s timestamp, c char(4));
        insert into odd values ('NaN', 'infinity', '-infinity', 'ab');
        insert into odd values (1, '2020-01-01', '2020-01-01', 'abcd');
        """
    )
    # What the server computes may hold for values that no type here has.
    for condition in ("n > 5", "d > date '2024-01-01'", "s < timestamp '2000-01-01 00:00:00'"):
        expected = server.rows(f"select count(*) from odd where {condition}")
        assert con.sql(f"SELECT count(*) FROM pg.odd WHERE {condition}").fetchall() == expected == [(1,)]
    for column in ("n", "d", "s"):
        with pytest.raises(hypostyle.Error, match=f'column "{column}"'):
            con.sql(f"SELECT {column} FROM pg.odd").fetchall()
    # Blanks at the end of char(n) are part of the text.
    assert con.sql("SELECT count(*) FROM pg.odd WHERE c = 'ab'").fetchone() == (0,)
    assert con.sql("SELECT count(*) FROM pg.odd WHERE rtrim(c) = 'ab'").fetchone() == (1,)


def test_rows_are_copied_into_tables_of_ours(con, server):
    con.execute("CREATE TABLE copied AS SELECT id, price, key, instant FROM pg.items WHERE id <= 500")
    con.execute("INSERT INTO copied SELECT id, price, key, instant FROM pg.items WHERE id > 500")
    expected = server.rows("select count(*), sum(price), count(distinct key), max(instant) from items")
    found = con.sql("SELECT count(*), sum(price), count(DISTINCT key), max(instant) FROM copied").fetchall()
    assert found == expected


def test_a_large_table_is_read_by_several_connections_in_one_snapshot(con, server):
    server.direct.execute("drop table if exists large")
    server.direct.execute("create table large (id bigint, filler text)")
    server.direct.execute("insert into large select i, repeat('x', 400) from generate_series(1, 120000) i")
    server.direct.execute("delete from large where id % 10 = 0")
    assert "partitions=2," in scan(con, "SELECT id FROM pg.large")
    for number, partitions in [(1, 1), (64, 2)]:
        con.execute(f"SET foreign_connections = {number}")
        assert f"partitions={partitions}," in scan(con, "SELECT id FROM pg.large")
    with pytest.raises(hypostyle.Error, match="foreign_connections is a number of 1 to 64"):
        con.execute("SET foreign_connections = 0")
    con.execute("SET foreign_connections = 8")
    count, total = server.rows("select count(*), sum(id) from large")[0]
    assert con.sql("SELECT count(*), sum(id) FROM pg.large").fetchone() == (count, int(total))
    # Each change of the writer keeps the number of rows.
    stop = threading.Event()

    def change():
        with psycopg.connect(server.keywords, autocommit=True) as writer:
            number = 0
            while not stop.is_set():
                number += 1
                writer.execute(
                    "with gone as (delete from large where id = %s returning filler) "
                    "insert into large select -id, 'moved' from (values (%s)) v(id), gone",
                    [number, number],
                )

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(10):
            sql = "SELECT (SELECT count(*) FROM pg.large), count(*), sum(abs(id)) FROM pg.large"
            assert con.sql(sql).fetchone() == (count, count, int(total))
    finally:
        stop.set()
        thread.join()


def test_a_snapshot_is_held_for_as_long_as_a_statement_takes(server):
    """Its connection is idle while others read, and what begins late still has to find it."""
    server.direct.execute("create view late as select 1 as x from (select pg_sleep(3)) s")
    server.direct.execute("alter role test set idle_in_transaction_session_timeout = '1s'")
    try:
        with hypostyle.connect(threads=2) as con:
            con.execute(f"ATTACH '{server.address}' AS pg")
            sql = "SELECT count(*), (SELECT count(*) FROM pg.late) FROM pg.items"
            assert con.sql(sql).fetchone() == (ROWS, 1)
    finally:
        server.direct.execute("alter role test reset idle_in_transaction_session_timeout")


def test_no_transaction_stays_open_behind_a_statement(con, server):
    con.sql("SELECT id FROM pg.items LIMIT 1").fetchall()
    con.sql("SELECT id FROM pg.items WHERE length(name) = 2 LIMIT 1").fetchall()
    ours = (
        "select count(*) from pg_stat_activity where application_name like 'hypostyle%' and state <> 'idle'"
    )
    for _ in range(100):
        if server.rows(ours) == [(0,)]:
            break
        time.sleep(0.1)
    assert server.rows(ours) == [(0,)]


def test_rows_are_inserted_by_the_server_all_or_none(con, server):
    server.direct.execute("drop table if exists filled")
    server.direct.execute(
        "create table filled (a int primary key, t text default 'd', n numeric(9,2), k uuid, d date)"
    )
    con.execute("CREATE TABLE mine (a INTEGER, n DECIMAL(9,2), k UUID, d DATE)")
    con.execute(
        "INSERT INTO mine VALUES (1, 1.5, '00000000-0000-4000-8000-00000000000a', '2024-02-29'), "
        "(2, NULL, NULL, NULL)"
    )
    assert con.execute("INSERT INTO pg.filled (a, n, k, d) SELECT a, n, k, d FROM mine").rows_affected == 2
    con.execute("INSERT INTO pg.public.filled (a, t) VALUES (3, 'it''s'), (?, ?)", [4, HOSTILE[0]])
    con.append("pg.filled", pa.table({"a": [5], "t": ["appended"]}))
    assert server.rows("select a, t, n, k::text, d from filled order by a") == [
        (1, "d", decimal.Decimal("1.50"), "00000000-0000-4000-8000-00000000000a", dt.date(2024, 2, 29)),
        (2, "d", None, None, None),
        (3, "it's", None, None, None),
        (4, HOSTILE[0], None, None, None),
        (5, "appended", None, None, None),
    ]
    with pytest.raises(hypostyle.Error) as caught:
        con.execute("INSERT INTO pg.filled (a) SELECT i FROM range(10, 0, -1) r(i)")
    assert caught.value.sqlstate == "23505"
    with pytest.raises(hypostyle.Error):
        con.execute(
            "INSERT INTO pg.filled (a) "
            "SELECT CAST(CASE i WHEN 7 THEN 'x' ELSE '9' END AS INTEGER) FROM range(10) r(i)"
        )
    with pytest.raises(hypostyle.Error, match="nosuch"):
        con.execute("INSERT INTO pg.filled (nosuch) VALUES (1)")
    with pytest.raises(hypostyle.Error) as caught:
        con.execute("INSERT INTO pg.filled (a, t) VALUES (1)")
    assert caught.value.sqlstate == "42601"
    assert server.rows("select count(*) from filled") == [(5,)]
    con.execute("INSERT INTO pg.filled (a, t) SELECT a + 100, t FROM pg.filled")
    con.execute("INSERT INTO pg.filled BY NAME SELECT 'named' AS t, 6 AS a")
    assert server.rows("select t, n from filled where a = 6") == [("named", None)]
    with pytest.raises(hypostyle.Error, match='no column "nosuch"'):
        con.execute("INSERT INTO pg.filled BY NAME SELECT 7 AS a, 1 AS nosuch")
    with pytest.raises(hypostyle.Error, match="OVERRIDING SYSTEM VALUE for a table of another system"):
        con.execute("INSERT INTO pg.filled (a) OVERRIDING SYSTEM VALUE VALUES (7)")
    server.direct.execute("drop table if exists made")
    assert con.append("pg.made", {"a": [1, 2], "t": ["x", None]}, create=True) == 2
    assert server.rows("select a, t from made order by a") == [(1, "x"), (2, None)]
    assert server.rows("select count(*) from filled") == [(11,)]


def test_what_could_not_be_taken_back_is_refused(con, server):
    con.execute("BEGIN")
    assert con.sql("SELECT count(*) FROM pg.items").fetchone() == (ROWS,)
    with pytest.raises(hypostyle.Error) as caught:
        con.execute("INSERT INTO pg.words (word) VALUES ('x')")
    assert caught.value.sqlstate == "25001"
    con.execute("ROLLBACK")
    for sql in (
        "UPDATE pg.words SET word = 'x'",
        "DELETE FROM pg.words",
        "DROP TABLE pg.words",
        "CREATE TABLE pg.made (a INTEGER)",
        "TRUNCATE pg.words",
        "USE pg",
        "INSERT INTO pg.words (word) VALUES ('x') RETURNING id",
        "INSERT INTO pg.words (word) VALUES ('x') ON CONFLICT DO NOTHING",
    ):
        with pytest.raises(hypostyle.Error) as caught:
            con.execute(sql)
        assert caught.value.sqlstate == "0A000", sql
    assert server.rows("select count(*) from words") == [(len(HOSTILE),)]


def test_a_database_that_is_attached_for_reading_takes_no_rows(server):
    with hypostyle.connect() as con:
        con.execute(f"ATTACH '{server.address}' AS pg (TYPE postgres, READ_ONLY)")
        assert con.sql("SELECT count(*) FROM pg.words").fetchone() == (len(HOSTILE),)
        with pytest.raises(hypostyle.Error) as caught:
            con.execute("INSERT INTO pg.words (word) VALUES ('x')")
        assert caught.value.sqlstate == "25006"


def test_errors_are_the_server_s(con, server):
    server.direct.execute("create or replace view failing as select 1 / (id - 1000) as x from items")
    with pytest.raises(hypostyle.Error, match='database "pg"') as caught:
        con.sql("SELECT * FROM pg.failing").fetchall()
    assert caught.value.sqlstate == "22012"
    server.direct.execute("drop role if exists nobody_here")
    server.direct.execute("create role nobody_here login")
    address = server.address.replace("test@", "nobody_here@")
    con.execute(f"ATTACH '{address}' AS restricted")
    with pytest.raises(hypostyle.Error) as caught:
        con.sql("SELECT * FROM restricted.items").fetchall()
    assert caught.value.sqlstate == "42501"
    assert con.sql("SELECT count(*) FROM pg.items").fetchone() == (ROWS,)


def test_an_interrupt_cancels_the_query_on_the_server(con, server):
    server.direct.execute("create or replace view slow as select pg_sleep(60)::text as x")
    timer = threading.Timer(0.5, con.interrupt)
    timer.start()
    begin = time.monotonic()
    with pytest.raises(hypostyle.QueryInterrupted):
        con.sql("SELECT * FROM pg.slow").fetchall()
    assert time.monotonic() - begin < 10
    timer.join()
    sleeping = (
        "select count(*) from pg_stat_activity where state = 'active' and query like '%slow%' "
        "and pid <> pg_backend_pid()"
    )
    for _ in range(50):
        if server.rows(sleeping) == [(0,)]:
            break
        time.sleep(0.1)
    assert server.rows(sleeping) == [(0,)]
    assert con.sql("SELECT count(*) FROM pg.items").fetchone() == (ROWS,)


def test_a_connection_that_the_server_has_ended_is_replaced(con, server):
    assert con.sql("SELECT count(*) FROM pg.items").fetchone() == (ROWS,)
    server.rows(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'hypostyle%'"
    )
    time.sleep(0.3)
    assert con.sql("SELECT count(*) FROM pg.items").fetchone() == (ROWS,)


def test_a_table_that_changes_between_statements_is_read_as_it_is(con, server):
    server.direct.execute("drop table if exists changing")
    server.direct.execute("create table changing as select 1 as a")
    assert con.sql("SELECT * FROM pg.changing").columns == ["a"]
    server.direct.execute("alter table changing add column b text default 'x'")
    for _ in range(3):
        assert con.sql("SELECT * FROM pg.changing").fetchall() == [(1, "x")]
    con.execute("PREPARE q AS SELECT * FROM pg.changing")
    server.direct.execute("alter table changing drop column a")
    assert con.sql("EXECUTE q").fetchall() == [("x",)]


def test_databases_are_shown_and_detached(con, server):
    shown = {row[0]: row for row in con.sql("SHOW DATABASES").fetchall()}
    assert shown["pg"][1].startswith("postgresql://")
    assert shown["pg"][2:] == (False, False)
    with pytest.raises(hypostyle.Error) as caught:
        con.execute(f"ATTACH '{server.address}' AS pg")
    assert caught.value.sqlstate == "42P04"
    con.execute(f"ATTACH IF NOT EXISTS '{server.address}' AS pg")
    con.execute("DETACH pg")
    with pytest.raises(hypostyle.Error):
        con.sql("SELECT * FROM pg.items")
    con.execute("DETACH DATABASE IF EXISTS pg")


def test_a_password_is_not_shown(server):
    with hypostyle.connect() as con:
        address = server.address.replace("test@", "test:secret@")
        con.execute(f"ATTACH '{address}' AS pg")
        assert "secret" not in str(con.sql("SHOW DATABASES").fetchall())
        with pytest.raises(hypostyle.Error) as caught:
            con.execute(f"ATTACH '{address}'")
        assert "secret" not in str(caught.value)


def test_an_address_that_nobody_answers_attaches_nothing():
    with hypostyle.connect() as con:
        with pytest.raises(hypostyle.Error):
            con.execute("ATTACH 'postgresql://nobody@127.0.0.1:1/x' AS pg")
        with pytest.raises(hypostyle.Error, match="no databases of type sqlite"):
            con.execute("ATTACH 'postgresql://nobody@127.0.0.1:1/x' AS pg (TYPE sqlite)")
        assert [row[0] for row in con.sql("SHOW DATABASES").fetchall()] == ["hypostyle"]
