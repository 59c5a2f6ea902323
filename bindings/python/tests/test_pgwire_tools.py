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
