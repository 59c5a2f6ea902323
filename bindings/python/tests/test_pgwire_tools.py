"""Features that tools rely on: origins of columns, advisory locks, rows of functions, plans as
JSON.
"""

import json
import os
import struct
import subprocess
import threading
import time

import pytest

psycopg = pytest.importorskip("psycopg")

PROGRAM = os.environ.get("HYPOSTYLE_PGWIRE")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="HYPOSTYLE_PGWIRE is not set")


@pytest.fixture
def connect():
    server = subprocess.Popen([PROGRAM, "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    connections = []

    def connect(**options):
        connections.append(psycopg.connect(f"host=127.0.0.1 port={port} user=ada", **options))
        return connections[-1]

    try:
        port = int(server.stdout.readline().rsplit(":", 1)[1])
        yield connect
    finally:
        for connection in connections:
            connection.close()
        server.kill()
        server.wait()
        server.stdout.close()


@pytest.fixture
def pg(connect):
    return connect(autocommit=True)


def origins(cursor):
    result = cursor.pgresult
    return [(result.ftable(index), result.ftablecol(index)) for index in range(result.nfields)]


def test_columns_tell_the_table_and_the_number_that_the_catalogs_have(pg):
    pg.execute("CREATE TABLE t (a INTEGER, gone INTEGER, b DECIMAL(12,3))")
    pg.execute("ALTER TABLE t DROP COLUMN gone")
    pg.execute("INSERT INTO t VALUES (1, 2.5)")
    numbers = dict(
        pg.execute(
            "SELECT attname, attnum FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 "
            "AND NOT attisdropped"
        ).fetchall()
    )
    oid = pg.execute("SELECT 't'::regclass::oid").fetchone()[0]
    a, b, none = (oid, numbers["a"]), (oid, numbers["b"]), (0, 0)
    for sql, expected in [
        ("SELECT * FROM t", [a, b]),
        ("SELECT b AS x, a, a + 1, count(*) OVER () FROM t", [b, a, none, none]),
        ("SELECT s.b, s.c FROM (SELECT b, a + 1 AS c FROM t WHERE a > 0 ORDER BY a) s", [b, none]),
        ("SELECT u.a, v.b FROM t u LEFT JOIN t v ON u.a = v.a", [a, b]),
        ("SELECT b, max(a) FROM t GROUP BY b", [b, none]),
        ("SELECT DISTINCT b FROM t ORDER BY b LIMIT 1", [b]),
        ("WITH w AS (SELECT a FROM t) SELECT a, a::text FROM w", [a, none]),
        ("SELECT a FROM t UNION ALL SELECT 1", [none]),
    ]:
        assert origins(pg.execute(sql)) == expected, sql
        assert origins(pg.execute(sql, prepare=True)) == expected, sql
    column = pg.execute("SELECT b FROM t").description[0]
    assert (column.precision, column.scale) == (12, 3)


@pytest.mark.parametrize("binary", [False, True])
def test_columns_of_the_catalogs_have_postgresqls_types(pg, binary):
    pg.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
    with pg.cursor(binary=binary) as cursor:
        cursor.execute(
            "SELECT oid, relname, relkind, relnatts, relpages, reltuples, oid + 1 FROM pg_class "
            "WHERE relname = 't'"
        )
        assert [column.type_code for column in cursor.description] == [26, 19, 18, 21, 23, 700, 20]
        oid, name, _kind, columns, *_, next_oid = cursor.fetchone()
        assert (name, columns, next_oid) == ("t", 1, oid + 1)
        cursor.execute("SELECT conkey FROM pg_constraint WHERE conrelid = %s", [oid])
        assert (cursor.description[0].type_code, cursor.fetchone()) == (1005, ([1],))


NAMES = ["a", "b"]
COLUMNS = "FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0"


@pytest.mark.parametrize(
    ("sql", "oid", "value"),
    [
        (f"SELECT array_agg(attname ORDER BY attnum) {COLUMNS}", 1003, NAMES),
        (f"SELECT c.n FROM (SELECT array_agg(attname ORDER BY attnum) AS n {COLUMNS}) c", 1003, NAMES),
        (f"SELECT array(SELECT attname {COLUMNS} ORDER BY attnum)", 1003, NAMES),
        (f"SELECT unnest(array_agg(attname ORDER BY attnum)) {COLUMNS} LIMIT 1", 19, "a"),
        (f"SELECT array_agg(attnum ORDER BY attnum) {COLUMNS}", 1005, [1, 2]),
        (f"SELECT array_agg(DISTINCT attrelid) = ARRAY['t'::regclass::oid] {COLUMNS}", 16, True),
        ("SELECT ARRAY[relname, relname] FROM pg_class WHERE relname = 't'", 1003, ["t", "t"]),
        ("SELECT coalesce(relname, relname) FROM pg_class WHERE relname = 't'", 19, "t"),
        ("SELECT CASE WHEN relkind = 'r' THEN relname END FROM pg_class WHERE relname = 't'", 19, "t"),
        (
            "SELECT relname FROM pg_class WHERE relname = 't' UNION SELECT relname FROM pg_class WHERE false",
            19,
            "t",
        ),
        ("WITH w AS (SELECT relname AS n FROM pg_class) SELECT n FROM w WHERE n = 't'", 19, "t"),
        ("SELECT current_user", 19, "ada"),
        ("SELECT current_database()", 19, "hypostyle"),
        ("SELECT current_schemas(false)", 1003, ["main"]),
        ("SELECT relname || '' FROM pg_class WHERE relname = 't'", 1043, "t"),
        ("SELECT array_agg('x'::varchar)", 1015, ["x"]),
        ("SELECT table_name::varchar FROM information_schema.tables WHERE table_name = 't'", 1043, "t"),
    ],
)
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("prepare", [False, True])
def test_names_in_the_catalogs_stay_names(pg, sql, oid, value, binary, prepare):
    pg.execute("CREATE TABLE t (a INTEGER, b INTEGER)")
    with pg.cursor(binary=binary) as cursor:
        cursor.execute(sql, prepare=prepare)
        assert (cursor.description[0].type_code, cursor.fetchone()[0]) == (oid, value)


@pytest.mark.parametrize("prepare", [False, True])
def test_groups_by_a_primary_key_have_the_other_columns(pg, prepare):
    pg.execute("CREATE TABLE author (id INTEGER PRIMARY KEY, name VARCHAR)")
    pg.execute("CREATE TABLE book (id INTEGER PRIMARY KEY, author INTEGER, price INTEGER)")
    pg.execute("INSERT INTO author VALUES (1, 'Ann'), (2, 'Bob')")
    pg.execute("INSERT INTO book VALUES (1, 1, 10), (2, 1, 20)")
    sql = (
        "SELECT a.id, a.name, sum(b.price) + %s FROM author a LEFT JOIN book b ON b.author = a.id "
        "GROUP BY a.id HAVING a.name <> %s ORDER BY a.name DESC"
    )
    cursor = pg.execute(sql, [1, "Cid"], prepare=prepare)
    assert cursor.fetchall() == [(2, "Bob", None), (1, "Ann", 31)]
    oid = pg.execute("SELECT 'author'::regclass::oid").fetchone()[0]
    assert origins(cursor) == [(oid, 1), (oid, 2), (0, 0)]
    with pytest.raises(psycopg.errors.GroupingError):
        pg.execute("SELECT name FROM author GROUP BY name || ''", prepare=prepare)
    # A view is planned by its definition, and is no table itself.
    pg.execute("CREATE VIEW v AS SELECT id, name, count(*) AS n FROM author GROUP BY id")
    assert pg.execute("SELECT max(n) FROM v", prepare=prepare).fetchone() == (1,)
    with pytest.raises(psycopg.errors.GroupingError):
        pg.execute("SELECT id, name FROM v GROUP BY id", prepare=prepare)


@pytest.mark.parametrize("prepare", [False, True])
@pytest.mark.parametrize("binary", [False, True])
def test_texts_beside_booleans_are_booleans(pg, prepare, binary):
    pg.execute("CREATE TABLE f (id INTEGER, b BOOLEAN)")
    pg.execute("INSERT INTO f VALUES (1, true), (2, false), (3, NULL)")
    for form, parameters, expected in [
        ("SELECT id FROM f WHERE b = 'f'", [], [2]),
        ("SELECT id FROM f WHERE b = %s", ["no"], [2]),
        ("SELECT id FROM f WHERE b IN (%s, 'off')", ["t"], [1, 2]),
        ("SELECT id FROM f WHERE b = ANY (%s) ORDER BY id", [[True, False]], [1, 2]),
        ("SELECT coalesce(b, %s) FROM f ORDER BY id", ["y"], [True, False, True]),
        ("SELECT CASE WHEN id = 1 THEN %s ELSE b END FROM f ORDER BY id", ["0"], [False, False, None]),
        ("SELECT b = 't' FROM f ORDER BY id", [], [True, False, None]),
        ("SELECT CASE b WHEN %s THEN 1 ELSE 0 END FROM f ORDER BY id", ["1"], [1, 0, 0]),
    ]:
        with pg.cursor(binary=binary) as cursor:
            rows = cursor.execute(form, parameters, prepare=prepare).fetchall()
            assert [value for (value,) in rows] == expected, form
    with pytest.raises(psycopg.errors.InvalidTextRepresentation):
        pg.execute("SELECT id FROM f WHERE b = 'maybe'", prepare=prepare)
    with pytest.raises(psycopg.errors.InvalidTextRepresentation):
        pg.execute("SELECT id FROM f WHERE b = %s", ["maybe"], prepare=prepare)


@pytest.mark.parametrize("prepare", [False, True])
def test_columns_are_listed_in_their_order(pg, prepare):
    types = {"d": "TIMESTAMP", "c": "VARCHAR", "b": "DOUBLE", "a": "BIGINT", "e": "BOOLEAN", "f": "VARCHAR"}
    columns = ", ".join(f"{name} {of}" for name, of in types.items())
    pg.execute(f"CREATE TABLE t ({columns})")
    for sql in [
        "SELECT a.attname, t.typname FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_class c "
        "ON a.attrelid = c.oid JOIN pg_catalog.pg_type AS t ON a.atttypid = t.oid "
        "WHERE a.attnum > 0 AND c.relname LIKE %s",
        "SELECT c.column_name FROM information_schema.columns c JOIN information_schema.tables t "
        "ON c.table_name = t.table_name AND c.table_schema = t.table_schema JOIN pg_type p "
        "ON p.typname = c.udt_name WHERE t.table_name = %s",
    ]:
        assert [row[0] for row in pg.execute(sql, ["t"], prepare=prepare)] == list(types)
    # What is asked for goes before.
    sql = "SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attname"
    assert [row[0] for row in pg.execute(sql, prepare=prepare)] == sorted(types)
    count = "SELECT count(*) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0"
    assert pg.execute(count, prepare=prepare).fetchone() == (6,)


def test_errors_of_keys_tell_the_key(pg):
    pg.execute("CREATE TABLE t (a INTEGER, b VARCHAR, UNIQUE (b, a))")
    pg.execute("CREATE TABLE u (id INTEGER PRIMARY KEY)")
    pg.execute("CREATE TABLE r (u INTEGER REFERENCES u)")
    pg.execute("INSERT INTO t VALUES (1, 'x')")
    for sql, code, detail in [
        ("INSERT INTO t VALUES (1, 'x')", "23505", "Key (b, a)=(x, 1) already exists."),
        ("INSERT INTO r VALUES (7)", "23503", 'Key (u)=(7) is not present in table "u".'),
    ]:
        with pytest.raises(psycopg.Error) as failed:
            pg.execute(sql)
        assert (failed.value.sqlstate, failed.value.diag.message_detail) == (code, detail)


def test_sequelize_may_try_to_insert_a_row(pg):
    pg.execute(
        "CREATE TABLE c (id INTEGER GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, name VARCHAR UNIQUE)"
    )

    def attempt(values):
        return pg.execute(
            'CREATE OR REPLACE FUNCTION pg_temp.testfunc(OUT response "c", '
            "OUT sequelize_caught_exception text) RETURNS RECORD AS $func_1$ BEGIN "
            f'INSERT INTO "c" ("id","name") VALUES ({values}) RETURNING * INTO response; '
            "EXCEPTION WHEN unique_violation THEN GET STACKED DIAGNOSTICS sequelize_caught_exception = "
            'PG_EXCEPTION_DETAIL; END $func_1$ LANGUAGE plpgsql; SELECT (testfunc.response)."id", '
            '(testfunc.response)."name", testfunc.sequelize_caught_exception FROM pg_temp.testfunc(); '
            "DROP FUNCTION IF EXISTS pg_temp.testfunc()"
        )

    def row(cursor):
        assert cursor.statusmessage == "CREATE FUNCTION"
        cursor.nextset()
        names = [column.name for column in cursor.description]
        assert names == ["id", "name", "sequelize_caught_exception"]
        assert cursor.statusmessage == "SELECT 1"
        found = cursor.fetchone()
        cursor.nextset()
        assert cursor.statusmessage == "DROP FUNCTION"
        return found

    assert row(attempt("DEFAULT, 'dan; '' RETURNING * INTO x'")) == (1, "dan; ' RETURNING * INTO x", None)
    with pg.transaction():
        assert row(attempt("DEFAULT, 'eve'")) == (2, "eve", None)
        # Neither the violation nor what came before it ends the transaction.
        assert row(attempt("DEFAULT, 'eve'")) == (None, None, "Key (name)=(eve) already exists.")
        pg.execute("INSERT INTO c (name) VALUES ('fay')")
    assert pg.execute("SELECT count(*) FROM c").fetchone() == (3,)
    with pytest.raises(psycopg.errors.NotNullViolation):
        attempt("NULL, 'gil'")
    with pytest.raises(psycopg.Error):
        pg.execute("SELECT * FROM pg_temp.testfunc()")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        pg.execute("CREATE FUNCTION f() RETURNS RECORD AS $$ BEGIN END $$ LANGUAGE plpgsql")


def test_the_name_of_a_setting_is_no_code(pg):
    pg.execute("CREATE TABLE kept (a INTEGER)")
    size = "datafusion.execution.batch_size"
    with pytest.raises(psycopg.Error):
        pg.execute(f"SET \"{size} = '4096'; DROP TABLE kept; SET {size}\" = 4096")
    assert pg.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    with pg.transaction():
        pg.execute(f"SET LOCAL {size} = 4096")
    pg.execute(f"RESET {size}")
    pg.execute("SET TIME ZONE 'Europe/Rome'")
    assert pg.execute("SHOW timezone").fetchone() == ("Europe/Rome",)


def test_functions_give_rows_side_by_side(pg):
    def rows(sql):
        return pg.execute(sql).fetchall()

    assert rows("SELECT generate_series(1, 3)") == [(1,), (2,), (3,)]
    assert rows("SELECT generate_series(1, 3), generate_series(1, 2)") == [(1, 1), (2, 2), (3, None)]
    assert rows("SELECT generate_series(1, 2) * 2, unnest(ARRAY['x'])") == [(2, "x"), (4, None)]
    assert rows("SELECT generate_series(1, 0)") == []
    assert rows("SELECT string_to_table('a,b', ',')") == [("a",), ("b",)]
    assert rows("SELECT array(SELECT generate_series(1, 3))") == [([1, 2, 3],)]
    pg.execute("CREATE TABLE t AS SELECT generate_series(1, 1000) AS id")
    assert rows("SELECT count(*), sum(id) FROM t") == [(1000, 500500)]


def test_advisory_locks_are_waited_for_and_end_with_their_owner(connect):
    one, other = connect(autocommit=True), connect(autocommit=True)

    def call(connection, sql):
        return connection.execute(f"SELECT {sql}").fetchone()[0]

    call(one, "pg_advisory_lock(1)")
    call(one, "pg_advisory_lock(1)")
    assert call(other, "pg_try_advisory_lock(1)") is False
    assert call(other, "pg_try_advisory_lock(1, 1)") is True
    waited = threading.Thread(target=call, args=(other, "pg_advisory_lock(1)"))
    waited.start()
    assert call(one, "pg_advisory_unlock(1)") is True
    time.sleep(0.2)
    assert waited.is_alive()
    assert call(one, "pg_advisory_unlock(1)") is True
    waited.join(20)
    assert not waited.is_alive()
    assert call(one, "pg_advisory_unlock(1)") is False
    # The locks are of a transaction, and shared.
    with one.transaction():
        call(one, "pg_advisory_xact_lock_shared(2)")
        assert call(other, "pg_try_advisory_lock_shared(2)") is True
        assert call(other, "pg_try_advisory_lock(2)") is False
        assert call(other, "pg_advisory_unlock_shared(2)") is True
    assert call(other, "pg_try_advisory_lock(2)") is True
    # A wait can be ended.
    one.execute("SET lock_timeout = '100ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        call(one, "pg_advisory_lock(1)")
    one.execute("SET lock_timeout = 0; SET statement_timeout = '200ms'")
    with pytest.raises(psycopg.errors.QueryCanceled):
        call(one, "pg_advisory_lock(1)")
    one.execute("RESET statement_timeout")
    other.close()
    call(one, "pg_advisory_lock(1)")


def test_sessions_are_ended_by_others(connect):
    one, other = connect(autocommit=True), connect(autocommit=True)
    process = one.execute("SELECT pg_backend_pid()").fetchone()[0]
    assert process == one.info.backend_pid
    other.execute("SELECT pg_advisory_lock(5)")
    failed = []

    def wait():
        try:
            one.execute("SELECT pg_advisory_lock(5)")
        except psycopg.Error as error:
            failed.append(error.sqlstate)

    waits = threading.Thread(target=wait)
    waits.start()
    time.sleep(0.3)
    assert other.execute("SELECT pg_cancel_backend(%s)", [process]).fetchone() == (True,)
    waits.join(20)
    assert failed == ["57014"]
    assert other.execute("SELECT pg_terminate_backend(%s)", [process]).fetchone() == (True,)
    assert other.execute("SELECT pg_terminate_backend(-1)").fetchone() == (False,)
    with pytest.raises(psycopg.Error):
        for _ in range(100):
            one.execute("SELECT 1")
            time.sleep(0.1)


def test_plans_are_json_where_it_is_asked_for(pg):
    pg.execute("CREATE TABLE t (a INTEGER)")
    for options in ["FORMAT JSON", "VERBOSE, FORMAT JSON", "ANALYZE, FORMAT JSON"]:
        cursor = pg.execute(f"EXPLAIN ({options}) SELECT * FROM t WHERE a > 1")
        assert [column.name for column in cursor.description] == ["QUERY PLAN"]
        [[plan]] = cursor.fetchall()
        plan = json.loads(plan) if isinstance(plan, str) else plan
        assert plan[0]["Plan"]["Node Type"]
        assert ("Execution Time" in plan[0]) == ("ANALYZE" in options)


@pytest.mark.parametrize(
    "sql",
    [
        "VACUUM ANALYZE t",
        "ANALYZE t (a)",
        "CREATE EXTENSION IF NOT EXISTS pgcrypto",
        "SET CONSTRAINTS ALL IMMEDIATE",
        "COMMENT ON CONSTRAINT t_pkey ON t IS 'key'",
        "EXPLAIN (COSTS OFF) SELECT * FROM t",
        "EXPLAIN (FORMAT JSON) SELECT * FROM t",
        "SELECT pg_try_advisory_xact_lock(1)",
    ],
)
def test_statements_of_tools_come_by_both_protocols(pg, sql):
    pg.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
    simple = pg.execute(sql).statusmessage
    prepared = pg.pgconn.prepare(b"", sql.encode())
    assert prepared.status == psycopg.pq.ExecStatus.COMMAND_OK, prepared.error_message
    described = pg.pgconn.describe_prepared(b"")
    assert described.status == psycopg.pq.ExecStatus.COMMAND_OK, described.error_message
    done = pg.pgconn.exec_prepared(b"", [])
    assert done.command_status.decode() == simple
    assert done.nfields == described.nfields


def test_binary_copy_may_end_without_its_mark(pg):
    pg.execute("CREATE TABLE t (a INTEGER)")
    row = struct.pack("!hii", 1, 4, 7)
    with pg.cursor().copy("COPY t FROM STDIN (FORMAT binary)") as copy:
        copy.write(b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0) + row * 3)
    assert pg.execute("SELECT count(*), sum(a) FROM t").fetchone() == (3, 21)
    with (
        pytest.raises(psycopg.Error, match="unexpected end"),
        pg.cursor().copy("COPY t FROM STDIN (FORMAT binary)") as copy,
    ):
        copy.write(b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0) + row[:-1])


@pytest.mark.parametrize("prepare", [False, True])
def test_errors_tell_where_they_are(pg, prepare):
    pg.execute("CREATE TABLE t (a INTEGER)")
    for sql, position in [
        ("SELECT nosuch FROM t", 8),
        ("SELECT 'ä', nosuch FROM t", 13),
        ("SELECT 1 FROM nosuch", 15),
    ]:
        with pytest.raises(psycopg.Error) as failed:
            pg.execute(sql, prepare=prepare)
        assert int(failed.value.diag.statement_position) == position, sql


def test_paths_into_json_may_be_parameters(pg):
    value = """'{"a": [1, {"b": "x"}]}'::json"""
    for path, found in [(["a", "1", "b"], "x"), (["a", "-1", "b"], "x"), (["a", "2"], None)]:
        assert pg.execute(f"SELECT {value} #>> %s", [path]).fetchone() == (found,)
    assert pg.execute(f"SELECT {value} #>> %s", ["{a,0}"]).fetchone() == ("1",)
