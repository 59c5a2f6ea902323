"""What a session may expect: rights, transactions, limits of time, errors, and clients that are gone."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

import psycopg
import pytest
from psycopg import pq

from cluster import (
    ENDLESS,
    HERE,
    Cluster,
    Failed,
    copy,
    copy_bytes,
    decoder,
    load,
    pg_config,
    statement,
    table,
    wait_until,
)

INT4, TEXT, INT8 = 23, 25, 20


def sqlstate(connection, query=None, text=None, **options):
    with pytest.raises(Failed) as failed:
        copy_bytes(connection, query, text=text, **options)
    return failed.value.sqlstate, failed.value.received


# --- what is taken, and what is left alone ---


@pytest.mark.parametrize(
    ("options", "state"),
    [
        ("protocol 2", "0A000"),
        ("protocol 0", "0A000"),
        ("protocol 'x'", "22P02"),
        ("compression 'lz4'", "42601"),
        ("header", "42601"),
        ("delimiter ','", "42601"),
        ("protocol 1, protocol 1", "42601"),
        ("format csv", "42601"),
        ("codec 'gzip'", "22000"),
        ("codecs -1", "22023"),
        ("chunk_bytes -1", "22023"),
        ("frame_bytes 1000", "22023"),
        ("numeric 'exact'", "22023"),
    ],
)
def test_a_wrong_option_is_an_error_before_the_first_byte(connection, options, state):
    text = f"COPY (SELECT 1) TO STDOUT (FORMAT hypostyle, {options})"
    if options == "protocol 'x'":
        state = {"22P02", "42601"}
        with pytest.raises(Failed) as failed:
            copy_bytes(connection, None, text=text)
        assert failed.value.sqlstate in state and failed.value.received == 0
        return
    assert sqlstate(connection, text=text) == (state, 0)


def test_the_protocol_that_is_spoken_is_named(connection):
    with pytest.raises(Failed) as failed:
        copy(connection, "SELECT 1", protocol=9)
    assert "9" in failed.value.message and "1 to 1" in failed.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "COPY t TO STDOUT (FORMAT hypostyle)",
        "COPY t FROM STDIN (FORMAT hypostyle)",
        "COPY (SELECT 1) TO '/tmp/never' (FORMAT hypostyle)",
        "COPY (SELECT 1) TO PROGRAM 'cat' (FORMAT hypostyle)",
        "COPY (SELECT 1) TO STDOUT (FORMAT 'Hypostyle')",
    ],
)
def test_other_copies_are_postgresqls(connection, text):
    with table(connection, "t", "a int"):
        with pytest.raises(Failed) as failed:
            copy_bytes(connection, None, text=text)
        assert failed.value.sqlstate == "22023" and "not recognized" in failed.value.message


def test_other_copies_work_as_before(connection, tmp_path):
    load(connection)
    with table(connection, "t", "a int, b text"), connection.cursor() as cursor:
        with cursor.copy("COPY t FROM STDIN (FORMAT csv)") as writer:
            writer.write(b"1,x\n2,y\n")
        with cursor.copy("COPY (SELECT * FROM t) TO STDOUT") as reader:
            assert b"".join(bytes(part) for part in reader) == b"1\tx\n2\ty\n"
        with cursor.copy("COPY (SELECT 1::int4) TO STDOUT (FORMAT binary)") as reader:
            assert b"".join(bytes(part) for part in reader).startswith(b"PGCOPY")
        connection.execute("COPY t TO PROGRAM 'cat > /dev/null'")
        connection.execute("COPY t TO '/dev/null'")


@pytest.mark.parametrize(
    ("query", "state"),
    [
        ("SELECT 1 INTO made", "0A000"),
        ("SELECT 1 AS a INTO made UNION SELECT 2", "0A000"),
        ("(SELECT 1 AS a INTO made UNION SELECT 2) UNION SELECT 3", "0A000"),
        ("INSERT INTO t VALUES (1)", "0A000"),
        ("DELETE FROM t", "0A000"),
        ("SELECT * FROM missing", "42P01"),
        ("SELECT $1", "42P02"),
        ("SELECT 1/0", "22012"),
    ],
)
def test_queries_that_cannot_be_copied(connection, query, state):
    with table(connection, "t", "a int"):
        with pytest.raises(Failed) as failed:
            copy_bytes(connection, query)
        assert failed.value.sqlstate == state
        assert connection.execute("SELECT to_regclass('made')").fetchone() == (None,)
        assert copy(connection, "SELECT 1").rows == [[1]]


def test_rules_that_are_not_one_statement_are_refused(connection):
    with table(connection, "t", "a int"):
        connection.execute("CREATE RULE r AS ON INSERT TO t DO INSTEAD NOTHING")
        assert sqlstate(connection, "INSERT INTO t VALUES (1) RETURNING a") == ("0A000", 0)


def test_types_of_too_many_fields_are_refused(connection):
    """Each has eight times the fields of the one before, the last 8^6 numbers."""
    names = [f"wide_{level}" for level in range(6)]
    inner = "int"
    try:
        for name in names:
            attributes = ", ".join(f"a{number} {inner}" for number in range(8))
            connection.execute(f"CREATE TYPE {name} AS ({attributes})")
            inner = name
        assert sqlstate(connection, f"SELECT NULL::{inner}") == ("54011", 0)
        assert copy(connection, "SELECT 1").rows == [[1]]
    finally:
        for name in reversed(names):
            connection.execute(f"DROP TYPE IF EXISTS {name}")


def test_inside_a_function_it_stays_refused(connection):
    load(connection)
    connection.execute(
        "CREATE OR REPLACE FUNCTION f() RETURNS void LANGUAGE plpgsql AS "
        "$$BEGIN COPY (SELECT 1) TO STDOUT (FORMAT hypostyle); END$$"
    )
    with pytest.raises(psycopg.Error):
        connection.execute("SELECT f()")
    with pytest.raises(psycopg.Error):
        connection.execute("DO $$BEGIN EXECUTE 'COPY (SELECT 1) TO STDOUT (FORMAT hypostyle)'; END$$")
    assert copy(connection, "SELECT 1").rows == [[1]]


def test_loading_and_copying_in_one_message(cluster):
    with cluster.connect() as connection:
        text = f"SELECT pg_catalog.hypostyle_protocol(); {statement('SELECT 7 AS seven')}; SELECT 'after'"
        pgconn = connection.pgconn
        pgconn.send_query(text.encode())
        assert pgconn.get_result().status == pq.ExecStatus.TUPLES_OK
        result = pgconn.get_result()
        assert result.status == pq.ExecStatus.COPY_OUT
        frames = []
        while (part := pgconn.get_copy_data(0))[0] > 0:
            frames.append(bytes(part[1]))
        lines = subprocess.run([decoder()], input=b"".join(frames), capture_output=True, check=True).stdout
        assert lines.splitlines()[:2] == [b'[["seven","INTEGER"]]', b"[7]"]
        assert pgconn.get_result().status == pq.ExecStatus.COMMAND_OK
        assert pgconn.get_result().get_value(0, 0) == b"after"
        assert pgconn.get_result() is None


# --- parameters and transactions ---


def test_parameters(connection):
    came = copy(connection, "SELECT $1 + 1 AS a, $2 AS b, $1::bigint AS c", [41, "it's"], [INT4, TEXT])
    assert came.columns == [("a", "INTEGER"), ("b", "VARCHAR"), ("c", "BIGINT")]
    assert came.rows == [[42, "it's", 41]]
    assert copy(connection, "SELECT $1 AS a", [None], [INT8]).rows == [[None]]
    rows = copy(connection, "SELECT n FROM generate_series(1, 1000) n WHERE n > $1", [995], [INT4]).rows
    assert rows == [[number] for number in range(996, 1001)]


def test_own_rows_that_are_not_committed_are_seen(cluster, connection):
    with table(connection, "t", "a int"):
        with connection.transaction():
            connection.execute("INSERT INTO t VALUES (1), (2)")
            came = copy(connection, "SELECT a FROM t ORDER BY a")
            assert came.rows == [[1], [2]] and came.end["in_transaction"]
            with cluster.connect() as other:
                assert copy(other, "SELECT a FROM t").rows == []
        assert not copy(connection, "SELECT 1").end["in_transaction"]


def test_rows_that_are_written_come_and_are_counted(connection):
    with table(connection, "t", "a int"):
        came = copy(connection, "INSERT INTO t SELECT generate_series(1, 3) RETURNING a")
        assert (came.rows, came.end["affected"]) == ([[1], [2], [3]], 3)
        assert copy(connection, "SELECT a FROM t").end["affected"] is None
        with connection.transaction():
            connection.execute("SET TRANSACTION READ ONLY")
            with pytest.raises(Failed) as failed:
                copy(connection, "DELETE FROM t RETURNING a")
            assert (failed.value.sqlstate, failed.value.received) == ("25006", 0)
            raise psycopg.Rollback
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (3,)


def test_a_cursor_that_is_open_goes_on(connection):
    with connection.transaction():
        connection.execute("DECLARE c CURSOR FOR SELECT n FROM generate_series(1, 5) n")
        assert connection.execute("FETCH 2 FROM c").fetchall() == [(1,), (2,)]
        assert copy(connection, "SELECT 7 AS a").rows == [[7]]
        assert connection.execute("FETCH 2 FROM c").fetchall() == [(3,), (4,)]


def test_rows_and_errors_of_parallel_workers_come(connection):
    with table(connection, "t", "a int, b text"):
        connection.execute("INSERT INTO t SELECT n, md5(n::text) FROM generate_series(1, 20000) n")
        connection.execute("ANALYZE t")
        for setting in ("parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size"):
            connection.execute(f"SET {setting} = 0")
        query = "SELECT a, 1 / (a - {}) AS q FROM t WHERE length(b) = 32"
        plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN {query.format(0)}"))
        assert "Gather" in plan, plan
        came = copy(connection, query.format(0))
        assert sorted(row[0] for row in came.rows) == list(range(1, 20001))
        with pytest.raises(Failed) as failed:
            copy(connection, query.format(10000))
        assert failed.value.sqlstate == "22012"
        assert copy(connection, "SELECT 1").rows == [[1]]


@pytest.fixture
def workers(connection):
    """A connection whose parallel queries are encoded by their workers, and a table that has several."""
    load(connection)
    with table(connection, "t", "a int, b text, n numeric(12,2), l int[], day date"):
        connection.execute(
            "INSERT INTO t SELECT n, md5(n::text), n / 8.0, ARRAY[n, NULL], date '2000-01-01' + n % 1000 "
            "FROM generate_series(1, 60000) n"
        )
        connection.execute("ANALYZE t")
        for setting in ("parallel_setup_cost", "min_parallel_table_scan_size"):
            connection.execute(f"SET {setting} = 0")
        connection.execute("SET hypostyle.encode_in_workers = on")
        yield connection


def is_relayed(came):
    """What came encoded is not counted among what was chosen."""
    return len(came.rows) > 0 and came.end["chosen"] == []


@pytest.mark.parametrize(
    "settings",
    [
        "",
        "SET parallel_leader_participation = off",
        "SET max_parallel_workers = 0",
        "SET max_parallel_workers = 0; SET parallel_leader_participation = off",
    ],
)
def test_workers_encode(workers, settings):
    workers.execute(settings or "SELECT 1")
    query = "SELECT a, b, n, l, day - date '2000-01-01' AS d, 7 AS seven FROM t"
    came = copy(workers, query, chunk_bytes=65536)
    assert is_relayed(came)
    assert [kind for _, kind in came.columns] == [
        "INTEGER",
        "VARCHAR",
        "DECIMAL(12,2)",
        "INTEGER[]",
        "INTEGER",
        "INTEGER",
    ]
    expected = workers.execute(query.replace("n, l", "n::text, l") + " ORDER BY a").fetchall()
    assert sorted(came.rows) == [list(row) for row in expected]
    assert len([kind for kind, _ in came.end["frames"] if kind == "Chunk"]) > 10
    # Nothing of one statement is left for the next.
    assert is_relayed(copy(workers, "SELECT a FROM t WHERE a > $1", [59000], [INT4]))
    assert sorted(copy(workers, "SELECT a FROM t WHERE a < 4").rows) == [[1], [2], [3]]
    assert copy(workers, "SELECT a FROM t WHERE a < 0").rows == []


def test_workers_encode_what_the_query_tells_of_numerics(workers):
    came = copy(workers, "SELECT n * 2 AS m FROM t", numeric="auto")
    assert is_relayed(came) and came.types == ["DECIMAL(13,2)"]
    assert sorted(came.rows)[0] == ["0.26"]
    assert copy(workers, "SELECT n * 2 AS m FROM t", numeric="double").types == ["DOUBLE"]


def test_other_plans_are_encoded_as_ever(workers):
    workers.execute(
        "CREATE TYPE worn AS ENUM ('odd', 'even'); "
        "CREATE FUNCTION unsafe(a int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN a; END'"
    )
    try:
        for query, rows in [
            ("SELECT a FROM t LIMIT 7", 7),
            ("SELECT a FROM t ORDER BY b", 60000),
            ("SELECT count(*) FROM t", 1),
            ("SELECT a, a FROM t", 60000),
            ("SELECT (ARRAY['odd', 'even'])[1 + a % 2]::worn FROM t", 60000),
            ("SELECT ROW(a, b) FROM t", 60000),
            ("SELECT unsafe(a) FROM t", 60000),
            ("INSERT INTO t (a) VALUES (0) RETURNING a", 1),
        ]:
            came = copy(workers, query)
            assert len(came.rows) == rows and not is_relayed(came), query
    finally:
        workers.execute("DROP TYPE worn; DROP FUNCTION unsafe")
    workers.execute("SET hypostyle.encode_in_workers = off")
    assert not is_relayed(copy(workers, "SELECT a FROM t"))


def test_errors_of_workers_that_encode_come(workers):
    for query, state in [
        ("SELECT a, 1 / (a - 30000) AS q FROM t", "22012"),
        ("SELECT CASE WHEN a = 30000 THEN 'infinity'::date ELSE day END AS v FROM t", "22008"),
        ("SELECT CASE WHEN a = 30000 THEN repeat('x', 3000000) ELSE b END AS v FROM t", "54000"),
    ]:
        with pytest.raises(Failed) as failed:
            copy(workers, query, frame_bytes=2 << 20)
        assert failed.value.sqlstate == state, query
        if state == "22008":
            assert '"v"' in failed.value.message
        assert is_relayed(copy(workers, "SELECT a FROM t"))
    with workers.transaction():
        workers.execute("INSERT INTO t (a) VALUES (-1)")
        came = copy(workers, "SELECT a FROM t")
        assert [-1] in came.rows and is_relayed(came)
        raise psycopg.Rollback


def test_workers_that_encode_are_cancelled(cluster, workers):
    query = "SELECT a, b, g FROM t, generate_series(1, 20000) g"
    workers.execute("SET statement_timeout = '300ms'")
    with pytest.raises(Failed) as failed:
        copy(workers, query)
    assert failed.value.sqlstate == "57014"
    workers.execute("SET statement_timeout = 0")
    assert is_relayed(copy(workers, "SELECT a FROM t"))
    # A client that is gone ends its workers, too.
    with cluster.connect() as other:
        load(other)
        other.execute("SET hypostyle.encode_in_workers = on; SET parallel_setup_cost = 0")
        other.execute("SET min_parallel_table_scan_size = 0")
        other.pgconn.send_query(statement(query).encode())
        other.pgconn.get_result()
        pid = other.info.backend_pid
        other.pgconn.finish()
    left = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} OR leader_pid = {pid}"
    wait_until(lambda: workers.execute(left).fetchone() == (0,))


def test_an_error_on_the_way_leaves_the_session_usable(connection):
    query = "SELECT n, 1 / (400000 - n) AS q, md5(n::text) AS t FROM generate_series(1, 400001) n"
    with pytest.raises(Failed) as failed:
        copy(connection, query, chunk_bytes=65536)
    assert failed.value.sqlstate == "22012" and failed.value.received > 1 << 20
    assert copy(connection, "SELECT 1").rows == [[1]]
    with connection.transaction():
        connection.execute("SAVEPOINT s")
        with pytest.raises(Failed):
            copy(connection, query, chunk_bytes=65536)
        connection.execute("ROLLBACK TO s")
        assert copy(connection, "SELECT 2").rows == [[2]]


def test_a_row_that_is_longer_than_a_frame_is_an_error(connection):
    query = "SELECT n, repeat('x', n * 1000000) AS t FROM generate_series(1, 3) n"
    with pytest.raises(Failed) as failed:
        copy(connection, query, frame_bytes=2 << 20)
    assert failed.value.sqlstate == "54000" and str(2 << 20) in failed.value.message
    came = copy(connection, query)
    assert [len(row[1]) for row in came.rows] == [1000000, 2000000, 3000000]
    came = copy(connection, "SELECT repeat('xyz', 30000000) AS t", codec="none")
    assert len(came.rows[0][0]) == 90000000


@contextlib.contextmanager
def row_type(connection, name, attributes):
    connection.execute(f"CREATE TYPE {name} AS ({attributes})")
    try:
        yield name
    finally:
        connection.execute(f"DROP TYPE {name} CASCADE")


def test_a_type_that_is_changed_on_the_way_is_an_error(connection):
    """No lock keeps the type of rows that a function makes: a number is not taken for a text's length."""
    make = """
        CREATE FUNCTION make(n int) RETURNS changing LANGUAGE plpgsql AS $$
        DECLARE made record;
        BEGIN
            IF n = 3 THEN
                EXECUTE 'ALTER TYPE changing ALTER ATTRIBUTE a TYPE bigint';
            END IF;
            EXECUTE 'SELECT ' || CASE WHEN n < 3 THEN $s$'x'::text$s$ ELSE '1073741820::bigint' END INTO made;
            RETURN made;
        END$$
    """
    for value in ("make(n)", "ARRAY[make(n)]"):
        with row_type(connection, "changing", "a text"):
            connection.execute(make)
            with pytest.raises(Failed) as failed:
                copy(connection, f"SELECT {value} AS made FROM generate_series(1, 5) n")
            assert failed.value.sqlstate == "42804" and '"made"' in failed.value.message
            # The change went with the statement.
            assert copy(connection, f"SELECT {value} AS made FROM generate_series(1, 2) n").rows


def test_a_type_that_the_cache_has_read_again_is_the_same(connection):
    touch = """
        CREATE FUNCTION touch(n int) RETURNS kept LANGUAGE plpgsql AS $$
        BEGIN
            EXECUTE CASE WHEN n % 2 = 1 THEN 'ALTER TYPE kept RENAME ATTRIBUTE b TO c'
                ELSE 'ALTER TYPE kept RENAME ATTRIBUTE c TO b' END;
            RETURN ROW(n::text, n)::kept;
        END$$
    """
    with row_type(connection, "kept", "a text, b int"):
        connection.execute(touch)
        came = copy(connection, "SELECT touch(n) AS k FROM generate_series(1, 4) n")
        assert came.rows == [[[str(number), number]] for number in range(1, 5)]


def test_lists_of_rows_count_for_chunks(connection):
    with row_type(connection, "two", "a int, b int"):
        query = "SELECT n, array_fill(ROW(1, 2)::two, ARRAY[1000]) AS l FROM generate_series(1, 1000) n"
        came = copy(connection, query, chunk_bytes=1 << 20, codec="none")
        assert came.rows[999] == [1000, [[1, 2]] * 1000]
        assert len([kind for kind, _ in came.end["frames"] if kind == "Chunk"]) >= 6


def test_a_row_of_many_values_that_are_stored_compressed_is_refused(connection):
    columns = ", ".join(f"c{number} text" for number in range(12))
    with table(connection, "packed", columns):
        value = "repeat('x', 30000000)"
        connection.execute(f"INSERT INTO packed SELECT {', '.join(['v'] * 12)} FROM (SELECT {value} AS v) q")
        assert sqlstate(connection, "SELECT * FROM packed")[0] == "54000"
        assert len(copy(connection, "SELECT c0 FROM packed").rows[0][0]) == 30000000


def test_short_values_that_become_long_rows_are_refused(connection):
    """A list of rows that are NULL has a bit for each here, and all members there."""
    attributes = ", ".join(f"c{number} bigint" for number in range(1000))
    with row_type(connection, "wide", attributes):
        for value in ("array_fill(NULL::wide, ARRAY[1000000])", "array_fill(NULL::bigint, ARRAY[40000000])"):
            assert sqlstate(connection, f"SELECT {value} AS l")[0] == "54000"
        assert copy(connection, "SELECT array_fill(NULL::wide, ARRAY[10]) AS l").rows == [[[None] * 10]]


def test_chunks_are_as_long_as_the_client_wants(connection):
    query = "SELECT n, md5(n::text) FROM generate_series(1, 100000) n"
    for chunk_bytes in (65536, 1 << 20):
        came = copy(connection, query, chunk_bytes=chunk_bytes, codec="none")
        lengths = [length for kind, length in came.end["frames"] if kind == "Chunk"]
        assert len(lengths) > 1
        assert all(0.7 * chunk_bytes < length < 1.4 * chunk_bytes for length in lengths[:-1])


# --- rights ---


@pytest.fixture
def guarded(cluster, connection):
    connection.execute("DROP TABLE IF EXISTS guarded; DROP ROLE IF EXISTS reader")
    connection.execute(
        """
        CREATE ROLE reader LOGIN;
        CREATE TABLE guarded (owner text, open int, secret int);
        INSERT INTO guarded VALUES ('reader', 1, 10), ('other', 2, 20);
        GRANT SELECT (owner, open) ON guarded TO reader;
        """
    )
    with cluster.connect(user="reader") as reader:
        yield reader
    connection.execute("DROP TABLE guarded; DROP ROLE reader")


def test_rights_of_columns(guarded):
    assert copy(guarded, "SELECT open FROM guarded ORDER BY open").rows == [[1], [2]]
    for query in (
        "SELECT secret FROM guarded",
        "SELECT * FROM guarded",
        "SELECT 1 FROM guarded WHERE secret > 0",
        "DELETE FROM guarded RETURNING open",
        "TABLE pg_authid",
    ):
        assert sqlstate(guarded, query) == ("42501", 0)


def test_security_of_rows(connection, guarded):
    connection.execute("ALTER TABLE guarded ENABLE ROW LEVEL SECURITY")
    assert copy(guarded, "SELECT open FROM guarded").rows == []
    connection.execute("CREATE POLICY own ON guarded USING (owner = current_user)")
    assert copy(guarded, "SELECT open FROM guarded").rows == [[1]]
    assert copy(guarded, "SELECT open FROM guarded WHERE open = $1", [2], [INT4]).rows == []
    guarded.execute("SET row_security = off")
    assert sqlstate(guarded, "SELECT open FROM guarded") == ("42501", 0)
    assert len(copy(connection, "SELECT open FROM guarded").rows) == 2


def test_a_user_without_rights_may_use_the_format(guarded):
    assert copy(guarded, "SELECT 1").rows == [[1]]


def test_who_owns_a_database_may_install_it(cluster, connection):
    connection.execute("DROP DATABASE IF EXISTS theirs")
    connection.execute("DROP ROLE IF EXISTS builder")
    connection.execute("CREATE ROLE builder LOGIN")
    connection.execute("CREATE DATABASE theirs OWNER builder")
    with cluster.connect(user="builder", dbname="theirs") as builder:
        builder.execute("CREATE EXTENSION hypostyle")
        assert copy(builder, "SELECT 1").rows == [[1]]
        builder.execute("DROP EXTENSION hypostyle")
    connection.execute("DROP DATABASE theirs")
    connection.execute("DROP ROLE builder")


# --- limits, and clients that are gone ---


def test_a_statement_that_takes_too_long_is_cancelled(connection):
    connection.execute("SET statement_timeout = '300ms'")
    query = "SELECT n, pg_sleep(CASE WHEN n = 20000 THEN 60 ELSE 0 END) FROM generate_series(1, 20001) n"
    begin = time.monotonic()
    assert sqlstate(connection, query, chunk_bytes=65536)[0] == "57014"
    assert time.monotonic() - begin < 30
    connection.execute("RESET statement_timeout")
    assert copy(connection, "SELECT 1").rows == [[1]]


def backend(connection, pid):
    return connection.execute(
        "SELECT state, wait_event FROM pg_stat_activity WHERE pid = %s", [pid]
    ).fetchone()


@pytest.mark.parametrize("host", [None, "127.0.0.1"])
def test_a_statement_whose_client_does_not_read_is_cancelled_when_it_does(cluster, connection, host):
    with cluster.connect(host=host) as stalled:
        load(stalled)
        stalled.pgconn.send_query(statement(ENDLESS).encode())
        pid = stalled.info.backend_pid
        wait_until(lambda: backend(connection, pid)[1] == "ClientWrite")
        connection.execute("SELECT pg_cancel_backend(%s)", [pid])
        assert stalled.pgconn.get_result().status == pq.ExecStatus.COPY_OUT
        frames = 0
        while stalled.pgconn.get_copy_data(0)[0] > 0:
            frames += 1
        # What was on the way, and no more.
        assert 1 <= frames < 100
        result = stalled.pgconn.get_result()
        assert result.error_field(pq.DiagnosticField.SQLSTATE) == b"57014"
        assert stalled.pgconn.get_result() is None
        assert copy(stalled, "SELECT 1").rows == [[1]]


CLIENT = """
import sys
sys.path.insert(0, sys.argv[1])
import psycopg
from cluster import load, statement
connection = psycopg.connect(sys.argv[2], autocommit=True)
load(connection)
print(connection.info.backend_pid, flush=True)
connection.pgconn.send_query(statement(sys.argv[3]).encode())
connection.pgconn.get_result()
for _ in range(int(sys.argv[4])):
    connection.pgconn.get_copy_data(0)
print("read", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("messages", [0, 1, 2, 7])
def test_a_client_that_is_killed_ends_its_statement(cluster, connection, messages):
    address = f"host={cluster.folder} port={cluster.port} user=postgres dbname=postgres"
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, HERE, address, ENDLESS, str(messages)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    pid = int(client.stdout.readline())
    assert client.stdout.readline() == "read\n"
    assert backend(connection, pid) is not None
    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    wait_until(lambda: backend(connection, pid) is None)
    assert copy(connection, "SELECT 1").rows == [[1]]


def test_a_session_that_is_terminated(cluster, connection):
    other = cluster.connect()
    load(other)
    other.pgconn.send_query(statement(ENDLESS).encode())
    pid = other.info.backend_pid
    wait_until(lambda: backend(connection, pid)[1] == "ClientWrite")
    connection.execute("SELECT pg_terminate_backend(%s)", [pid])
    wait_until(lambda: backend(connection, pid) is None)
    other.close()


# --- memory, and where a client is ---


def resident(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


@pytest.mark.parametrize("columns", [1, 274, 1600])
def test_memory_stays_within_64_mib_of_a_plain_copy(cluster, columns):
    listed = ", ".join(f"n + {number} AS c{number}" for number in range(columns))
    query = f"SELECT {listed} FROM generate_series(1, {8_000_000 // (columns + 4)}) n"
    most = {}
    for name, text in [("plain", f"COPY ({query}) TO STDOUT (FORMAT binary)"), ("ours", statement(query))]:
        with cluster.connect() as connection:
            load(connection)
            result = connection.pgconn.exec_(text.encode())
            assert result.status == pq.ExecStatus.COPY_OUT
            while connection.pgconn.get_copy_data(0)[0] > 0:
                pass
            while connection.pgconn.get_result() is not None:
                pass
            most[name] = resident(connection.info.backend_pid)
    print(f"{columns} columns: plain {most['plain']} KiB, ours {most['ours']} KiB")
    assert most["ours"] - most["plain"] < 64 << 10


def test_memory_does_not_grow_from_statement_to_statement(cluster):
    with cluster.connect() as connection:
        query = "SELECT n, md5(n::text) AS t, ARRAY[n, n] AS l FROM generate_series(1, 5000) n"
        pid = connection.info.backend_pid
        sizes = []
        for _ in range(3):
            for _ in range(60):
                copy_bytes(connection, query)
                with pytest.raises(Failed):
                    copy_bytes(connection, query + " WHERE 1 / (n - 4999) < 2")
            sizes.append(resident(pid))
        assert sizes[2] - sizes[1] < 4 << 10, sizes


def test_a_client_on_this_machine_gets_plain_values(cluster):
    query = "SELECT n, md5(n::text) AS t FROM generate_series(1, 100000) n"

    def encodings(connection, origin):
        return {chosen[1] for chosen in copy(connection, query, origin=origin).end["chosen"]}

    with cluster.connect() as connection:
        assert encodings(connection, os.getpid()) == {0}
        assert encodings(connection, 1) != {0}
    with cluster.connect(host="127.0.0.1") as connection:
        address, port = connection.execute("SELECT host(inet_client_addr()), inet_client_port()").fetchone()
        assert encodings(connection, f"{address}:{port}") == {0}
        assert encodings(connection, f"{address}:1") != {0}


WATCHERS = ["auto_explain", "pg_stat_statements", "pgaudit"]


def test_others_that_watch_statements():
    """Those of the watchers that are installed see the query, and none of them is in the way."""
    folder = pathlib.Path(pg_config("--pkglibdir"))
    installed = [name for name in WATCHERS if (folder / f"{name}.so").exists()]
    if not installed:
        pytest.skip("none is installed")
    cluster = Cluster(f"shared_preload_libraries={','.join(installed)}")
    try:
        with cluster.connect() as connection:
            connection.execute("CREATE EXTENSION hypostyle")
            settings = {
                "auto_explain": "SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on",
                "pg_stat_statements": "CREATE EXTENSION pg_stat_statements",
                "pgaudit": "SET pgaudit.log = 'all'; CREATE ROLE auditor; SET pgaudit.role = 'auditor'; "
                "CREATE TABLE watched (a int); GRANT SELECT ON watched TO auditor",
            }
            for name in installed:
                connection.execute(settings[name])
            rows = copy(connection, "SELECT count(*) FROM pg_class WHERE relname <> $1", ["x"], [TEXT]).rows
            assert rows[0][0] > 0
            with pytest.raises(Failed):
                copy(connection, "SELECT 1 / (n - 5000) FROM generate_series(1, 9000) n")
            assert copy(connection, "SELECT 1").rows == [[1]]
            if "pg_stat_statements" in installed:
                seen = "SELECT calls FROM pg_stat_statements WHERE query LIKE '%relname <> $1%' AND rows = 1"
                assert connection.execute(seen).fetchone() == (1,)
            log = cluster.log()
            if "auto_explain" in installed:
                assert "Query Text: COPY (SELECT count(*) FROM pg_class" in log
            if "pgaudit" in installed:
                assert copy(connection, "SELECT a FROM watched").rows == []
                assert sqlstate(connection, "SELECT nosuch FROM watched") == ("42703", 0)
                log = cluster.log()
                assert "AUDIT: SESSION" in log and "READ,SELECT" in log
                assert "AUDIT: OBJECT" in log and "public.watched" in log
            assert "terminated by signal" not in log
    finally:
        cluster.stop()
