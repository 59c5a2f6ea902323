"""Our client and the extension together: what comes in columns is what comes in rows, and what goes wrong on
the way is an error of the statement, which leaves both sides usable.
"""

import contextlib
import csv
import decimal
import os
import signal
import subprocess
import sys
import time

import pooler
import psycopg
import pytest

from cluster import ENDLESS, table, wait_until

hypostyle = pytest.importorskip("hypostyle", reason="our Python package is not installed")

VALUES = """
    SELECT i, i::smallint AS s, i::bigint * 4000000000 AS b, i::real / 3 AS f, i::float8 / 3 AS d,
        (i * 1.25)::numeric(9, 2) AS n, (i * 1.25)::numeric(30, 9) AS w, NULLIF(i % 3, 0) = 1 AS q,
        NULLIF(md5(i::text), md5('7')) AS t, (i % 5)::text AS few, '{"a": 1}'::jsonb AS j,
        date '2000-01-01' + i AS day, timestamp '1969-12-31' + i * interval '1 hour' AS at,
        timestamptz '2000-01-01 00:00+00' + i * interval '1 day' AS zoned,
        time '00:00' + i * interval '1 s' AS c, make_interval(months => i, secs => i) AS v,
        decode(md5(i::text), 'hex') AS bytes, md5(i::text)::uuid AS u,
        CASE WHEN i % 4 > 0 THEN ARRAY[i, NULL, -i] END AS l, ROW(i, i::text)::pair AS p,
        '::1'::inet AS shown, ''::oidvector AS no_oids, '1 2'::int2vector AS numbers,
        (ARRAY['sad', 'ok'])[1 + i % 2]::mood AS feeling, ARRAY['ok', NULL]::mood[] AS feelings,
        ARRAY[i * 1.5, NULL] AS free, ARRAY['::1', NULL]::inet[] AS nets,
        ARRAY[ROW(i, 'x')::pair, NULL] AS pairs, ROW(i, 'sad', ARRAY[1.5])::felt AS felt
    FROM generate_series(1, 5000) i
"""


def address(cluster, transfer="columns", port=None, user="postgres"):
    place = f"{user}@127.0.0.1:{port or cluster.port}/postgres"
    return f"postgresql://{place}?sslmode=disable&transfer={transfer}"


@pytest.fixture
def client(cluster):
    with hypostyle.connect(address(cluster)) as client:
        yield client


@pytest.fixture(scope="module")
def pair(cluster):
    with cluster.connect() as connection:
        connection.execute(
            "CREATE TYPE pair AS (x int, y text); CREATE TYPE mood AS ENUM ('sad', 'ok'); "
            "CREATE TYPE felt AS (n int, m mood, free numeric[]); CREATE TYPE place AS (n int, at inet)"
        )
        yield
        connection.execute("DROP TYPE pair, felt, mood, place")


def test_columns_are_what_rows_are(cluster, pair):
    tables = {}
    for transfer in ("columns", "copy", "rows", "auto"):
        with hypostyle.connect(address(cluster, transfer)) as client:
            tables[transfer] = client.sql(VALUES).arrow()
    assert tables["columns"].num_rows == 5000
    for transfer, came in tables.items():
        assert came.schema == tables["columns"].schema, transfer
        assert came.equals(tables["columns"]), transfer


def test_a_row_with_a_member_that_is_shown_is_a_text_unless_columns_are_asked_for(cluster, pair):
    query = "SELECT ROW(1, '::1')::place AS p, ARRAY[ROW(2, NULL)::place] AS l"
    for transfer in ("auto", "copy", "rows"):
        with hypostyle.connect(address(cluster, transfer)) as client:
            assert client.sql(query).fetchall() == [("(1,::1)", ["(2,)"])], transfer
    with hypostyle.connect(address(cluster, "columns")) as client:
        assert client.sql(query).fetchall() == [({"n": 1, "at": "::1"}, [{"n": 2, "at": None}])]


def test_what_is_described_is_what_comes(cluster, pair):
    """Through ATTACH, too, where the types are known before the rows."""
    with cluster.connect() as connection, table(connection, "kinds", "id int"):
        connection.execute(f"DROP TABLE kinds; CREATE TABLE kinds AS {VALUES}")
        connection.execute("ALTER TABLE kinds ADD place place, ADD places place[], ADD deep int[][]")
        connection.execute("UPDATE kinds SET place = ROW(1, '::1'), places = ARRAY[ROW(2, NULL)::place]")
        expected = {}
        for transfer in ("copy", "auto"):
            with hypostyle.connect() as ours:
                ours.execute(f"ATTACH '{address(cluster, transfer)}' AS pg")
                names = [row[0] for row in ours.sql("DESCRIBE pg.kinds").fetchall()]
                for name in names:
                    rows = ours.sql(f'SELECT "{name}" FROM pg.kinds ORDER BY i LIMIT 9').fetchall()
                    assert rows == expected.setdefault(name, rows), name
        assert len(expected) == len(names) > 30


def test_numerics_whose_digits_the_query_tells(cluster):
    query = "SELECT sum(i) AS n, sum(i) * 0.5 AS m, avg(i) AS text FROM (VALUES (1::bigint), ($1)) t(i)"
    for transfer in ("columns", "copy", "rows", "auto"):
        with hypostyle.connect(address(cluster, transfer) + "&numeric=auto") as client:
            came = client.sql(query, [2]).arrow()
            types = [str(field.type) for field in came.schema]
            assert types[:2] == ["decimal128(38, 0)", "decimal256(39, 1)"], transfer
            assert came.to_pylist() == [
                {"n": decimal.Decimal(3), "m": decimal.Decimal("1.5"), "text": "1.5000000000000000"}
            ]
            assert client.sql("SELECT 1.5 AS a, 2 AS b").fetchall() == [(decimal.Decimal("1.5"), 2)]
        with hypostyle.connect(address(cluster, transfer)) as client:
            assert client.sql("SELECT sum(1::bigint) AS n").fetchall() == [("1",)]


def test_a_server_with_the_first_version_of_the_extension_tells_no_digits(cluster):
    with cluster.connect() as connection:
        connection.execute("CREATE DATABASE older")
    try:
        with cluster.connect(dbname="older") as connection:
            connection.execute("CREATE EXTENSION hypostyle VERSION '0.1'")
            place = address(cluster, "columns").replace("/postgres?", "/older?") + "&numeric=auto"
            with hypostyle.connect(place) as client:
                assert client.sql("SELECT sum(1::bigint) AS n").fetchall() == [("1",)]
                connection.execute("ALTER EXTENSION hypostyle UPDATE")
            with hypostyle.connect(place) as client:
                assert client.sql("SELECT sum(1::bigint) AS n").fetchall() == [(decimal.Decimal(1),)]
    finally:
        with cluster.connect() as connection:
            connection.execute("DROP DATABASE older WITH (FORCE)")


SHOWN = [
    "'10.0.0.1'::inet",
    "'10.0.0.0/8'::cidr",
    "array['10.0.0.1', NULL]::inet[]",
    "'-12.34'::money",
    "B'101'::bit(3)",
    "'08:00:2b:01:02:03:04:05'::macaddr8",
    "'a:1 b:2'::tsvector",
    "box '(1,2),(3,4)'",
    "tstzrange('2020-01-01 00:00+00', NULL)",
    "'5'::xid",
    "'10:20:10,14,15'::pg_snapshot",
    "'int4'::regtype",
    "timetz '00:00:00.5+02:30'",
    "'$.a'::jsonpath",
    "'(0,1)'::tid",
    "'ab'::char(5)",
    "row(1, '10.0.0.1'::inet)",
    "(SELECT histogram_bounds FROM pg_stats WHERE tablename = 'pg_class' AND attname = 'oid')",
    """'<?xml version="1.0" encoding="UTF-8"?><a>é</a>'::xml""",
]


@pytest.mark.parametrize("value", SHOWN)
def test_texts_of_other_types_are_the_server_s_however_they_come(cluster, value):
    with cluster.connect() as connection:
        try:
            with connection.cursor().copy(f"COPY (SELECT {value}) TO STDOUT (FORMAT csv)") as rows:
                (expected,) = next(csv.reader([b"".join(map(bytes, rows)).decode()]))
        except psycopg.errors.FeatureNotSupported:
            pytest.skip("this server knows no XML")
    for transfer in ("columns", "copy", "rows"):
        with hypostyle.connect(address(cluster, transfer)) as client:
            ((came,),) = client.sql(f"SELECT {value} AS v").fetchall()
        if isinstance(came, list):
            came = "{" + ",".join("NULL" if element is None else element for element in came) + "}"
        assert came == expected, transfer


@pytest.mark.parametrize("transfer", ["auto", "columns"])
def test_rows_may_be_as_long_as_postgresql_has_them(cluster, transfer):
    query = "SELECT n, repeat('x', n * 90000000) AS t FROM generate_series(1, 3) n"
    with hypostyle.connect(address(cluster, transfer)) as client:
        lengths = client.sql(f"SELECT n, octet_length(t) AS length FROM ({query}) q").fetchall()
        came = client.sql(query).arrow()
        sizes = [len(value.as_buffer()) for value in came["t"]]
        assert list(zip(came["n"].to_pylist(), sizes, strict=True)) == lengths


def test_errors_on_the_way_leave_the_connection_usable(client):
    for query, state in [
        ("SELECT 1 / (40000 - n) FROM generate_series(1, 50000) n", "22012"),
        ("SELECT 'infinity'::date AS day", "22008"),
        ("SELECT * FROM missing", "42P01"),
        ("TABLE pg_authid", "42501"),
    ]:
        if state == "42501":
            client.execute("SET ROLE pg_monitor")
        with pytest.raises(hypostyle.Error) as failed:
            client.sql(query).fetchall()
        assert failed.value.sqlstate == state
        assert client.sql("SELECT 1").fetchone() == (1,)


def test_rights_and_limits_are_the_server_s(cluster, client):
    client.execute("CREATE ROLE seer LOGIN; CREATE TABLE guarded (u text, secret int)")
    client.execute("INSERT INTO guarded VALUES ('seer', 1), ('other', 2)")
    client.execute("GRANT SELECT (u) ON guarded TO seer")
    client.execute("ALTER TABLE guarded ENABLE ROW LEVEL SECURITY")
    client.execute("CREATE POLICY own ON guarded USING (u = current_user)")
    with hypostyle.connect(address(cluster, user="seer")) as seer:
        assert seer.sql("SELECT u FROM guarded").fetchall() == [("seer",)]
        with pytest.raises(hypostyle.Error) as failed:
            seer.sql("SELECT secret FROM guarded").fetchall()
        assert failed.value.sqlstate == "42501"
        seer.execute("SET statement_timeout = '200ms'")
        with pytest.raises(hypostyle.Error) as failed:
            seer.sql("SELECT n, pg_sleep(n / 20000 * 10) FROM generate_series(1, 20001) n").fetchall()
        assert failed.value.sqlstate == "57014"
        assert seer.sql("SELECT u FROM guarded").fetchall() == [("seer",)]
    client.execute("DROP TABLE guarded; DROP ROLE seer")


def test_a_result_that_is_not_read_is_no_hindrance(client):
    unread = client.sql("SELECT n FROM generate_series(1, 300000) n")
    assert client.sql("SELECT 1").fetchone() == (1,)
    assert unread.arrow().num_rows == 300000
    endless = iter(client.sql(ENDLESS).batches())
    next(endless)
    client.interrupt()
    with pytest.raises(hypostyle.Error) as failed:
        for _ in endless:
            pass
    assert failed.value.sqlstate == "57014"
    assert client.sql("SELECT 1").fetchone() == (1,)


CLIENT = """
import sys, hypostyle
with hypostyle.connect(sys.argv[1]) as client:
    print(client.sql("SELECT pg_backend_pid()").fetchone()[0], flush=True)
    batches = iter(client.sql(sys.argv[2]).batches())
    for _ in range(int(sys.argv[3])):
        next(batches)
    print("read", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("batches", [0, 1, 5])
def test_a_client_that_is_killed_ends_its_statement(cluster, batches):
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT, address(cluster), ENDLESS, str(batches)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    backend = int(process.stdout.readline())
    assert process.stdout.readline() == "read\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with cluster.connect() as watcher:
        there = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
        wait_until(lambda: watcher.execute(there, [backend]).fetchone() == (0,))


@pytest.mark.skipif(pooler.PROGRAM is None, reason="no pgbouncer: install the package pgbouncer")
@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_a_pooler_may_be_between(cluster, mode):
    query = "SELECT n, md5(n::text) FROM generate_series(1, 9000) n"
    with contextlib.closing(pooler.Pooler(cluster, mode)) as pool, contextlib.ExitStack() as stack:
        count = 1 if mode == "session" else 3
        place = address(cluster, port=pool.port)
        clients = [stack.enter_context(hypostyle.connect(place)) for _ in range(count)]
        for client in clients:
            for _ in range(3):
                assert client.sql(query).arrow().num_rows == 9000
                assert client.sql("SELECT ?::int + ?", [40, 2]).fetchone() == (42,)
                with pytest.raises(hypostyle.Error, match="division by zero"):
                    client.sql("SELECT 1 / (5000 - n) FROM generate_series(1, 9000) n").fetchall()
            with client.transaction():
                client.execute("CREATE TEMPORARY TABLE seen (a) ON COMMIT DROP AS SELECT 7")
                assert client.sql("SELECT a FROM seen").fetchall() == [(7,)]
            begin = time.monotonic()
            batches = iter(client.sql(ENDLESS).batches())
            next(batches)
            client.interrupt()
            with pytest.raises(hypostyle.Error):
                for _ in batches:
                    pass
            assert time.monotonic() - begin < 10
            assert client.sql("SELECT 1").fetchone() == (1,)


@pytest.mark.skipif(pooler.PROGRAM is None, reason="no pgbouncer: install the package pgbouncer")
def test_another_server_behind_a_pooler_loads_the_extension(cluster):
    pool = pooler.Pooler(cluster, "transaction", size=2)
    place = address(cluster, port=pool.port, transfer="columns")
    with contextlib.closing(pool), hypostyle.connect(place) as one, hypostyle.connect(place) as other:
        for _ in range(2):
            assert one.sql("SELECT 1").fetchone() == (1,)
            with other.transaction():
                # Until it ends, it has the server that has answered so far.
                assert other.sql("SELECT 2").fetchone() == (2,)
                assert one.sql("SELECT 3, ?::int", [4]).fetchone() == (3, 4)
                assert one.sql("SELECT n FROM generate_series(1, 5) n").fetchall()[-1] == (5,)


@pytest.mark.parametrize("transfer", ["columns", "copy", "rows"])
def test_results_may_have_as_many_columns_as_a_table(cluster, transfer):
    listed = ", ".join(f"n + {number} AS c{number}" for number in range(1600))
    with hypostyle.connect(address(cluster, transfer)) as client:
        table = client.sql(f"SELECT {listed} FROM generate_series(0, 2999) n").arrow()
    assert (table.num_rows, table.num_columns) == (3000, 1600)
    assert all(column[2999].as_py() == 2999 + number for number, column in enumerate(table.columns))


@pytest.mark.parametrize("transfer", ["columns", "copy", "rows"])
@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_databases_in_other_encodings(cluster, encoding, transfer):
    made = f"CREATE DATABASE other TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'"
    with cluster.connect() as connection:
        connection.execute(made)
    try:
        with cluster.connect(dbname="other") as connection:
            connection.execute("CREATE EXTENSION hypostyle")
        with hypostyle.connect(address(cluster, transfer).replace("/postgres?", "/other?")) as client:
            assert client.sql("SELECT 'é' AS ö, 'é' || $1 AS t", ["ü"]).fetchall() == [("é", "éü")]
            if encoding == "SQL_ASCII":
                # Bytes of no encoding are no text.
                with pytest.raises(hypostyle.Error):
                    client.sql("SELECT E'\\xff'::text AS wrong").fetchall()
            assert client.sql("SELECT 1").fetchone() == (1,)
    finally:
        with cluster.connect() as connection:
            connection.execute("DROP DATABASE other")
