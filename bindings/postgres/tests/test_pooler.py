"""Sessions that go through pgbouncer, which may give each transaction another connection to the server."""

import contextlib
import os

import pooler
import pytest
from psycopg import pq

from cluster import ENDLESS, Result, copy, receive, statement, wait_until

LOADED = "SELECT pg_catalog.hypostyle_protocol()"

pytestmark = pytest.mark.skipif(pooler.PROGRAM is None, reason="no pgbouncer: install the package pgbouncer")


@pytest.fixture(scope="module", params=["session", "transaction"])
def mode(request):
    return request.param


@pytest.fixture(scope="module")
def pool(cluster, mode):
    with contextlib.closing(pooler.Pooler(cluster, mode)) as pool:
        yield pool


def loaded_and_copied(connection, query, **options):
    """The frames of a COPY that is sent together with what makes the format known, and the error after."""
    pgconn = connection.pgconn
    pgconn.send_query(f"{LOADED}; {statement(query, **options)}".encode())
    assert pgconn.get_result().status == pq.ExecStatus.TUPLES_OK
    assert pgconn.get_result().status == pq.ExecStatus.COPY_OUT
    frames = receive(connection)
    last = pgconn.get_result()
    assert pgconn.get_result() is None
    return frames, last.error_field(pq.DiagnosticField.SQLSTATE)


def rows(connection, query, **options):
    frames, failure = loaded_and_copied(connection, query, **options)
    assert failure is None
    return Result(frames).rows


def test_results_come_through_a_pooler(pool):
    with pool.connect() as one:
        assert len(rows(one, "SELECT n, md5(n::text) FROM generate_series(1, 30000) n")) == 30000
        _, failure = loaded_and_copied(one, "SELECT 1 / (3000 - n) FROM generate_series(1, 9000) n")
        assert failure == b"22012"
        assert rows(one, "SELECT 1") == [[1]]
        with one.transaction():
            assert copy(one, "SELECT $1::int + 1", [41], [23]).rows == [[42]]


def test_sessions_that_share_a_connection_keep_their_rights(cluster, pool):
    with cluster.connect() as owner:
        owner.execute("DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN; CREATE TABLE shared (u text)")
        owner.execute("INSERT INTO shared VALUES ('reader'), ('other')")
        owner.execute("ALTER TABLE shared ENABLE ROW LEVEL SECURITY")
        owner.execute("CREATE POLICY own ON shared USING (u = current_user)")
        owner.execute("GRANT SELECT ON shared TO reader")
        with pool.connect("postgres") as one, pool.connect("reader") as other:
            for _ in range(3):
                assert len(rows(one, "SELECT u FROM shared")) == 2
                assert rows(other, "SELECT u FROM shared") == [["reader"]]
    # The pooler keeps its connection, which belongs to the role.
    with cluster.connect() as owner:
        owner.execute("DROP TABLE shared")


def test_sessions_take_turns_on_one_connection(pool, mode):
    if mode == "session":
        pytest.skip("a session has the only connection to itself")
    with pool.connect() as one, pool.connect() as other:
        backends = set()
        for number in range(20):
            for connection in (one, other):
                assert rows(connection, f"SELECT {number}") == [[number]]
                backends.add(connection.execute("SELECT pg_backend_pid()").fetchone()[0])
        assert len(backends) == 1


def test_a_client_of_a_pooler_is_not_on_this_machine(pool):
    """The server's peer is the pooler: what it is told of a client is not true of the connection."""
    query = "SELECT n FROM generate_series(1, 100000) n"
    with pool.connect() as connection:
        frames, failure = loaded_and_copied(connection, query, origin=os.getpid())
        assert failure is None
        assert {chosen[1] for chosen in Result(frames).end["chosen"]} != {0}


def test_a_client_that_leaves_frees_its_place(cluster, pool):
    with cluster.connect() as watcher:
        gone = pool.connect()
        gone.pgconn.send_query(f"{LOADED}; {statement(ENDLESS)}".encode())
        assert gone.pgconn.get_result().status == pq.ExecStatus.TUPLES_OK
        assert gone.pgconn.get_result().status == pq.ExecStatus.COPY_OUT
        assert gone.pgconn.get_copy_data(0)[0] > 0
        gone.close()
        running = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE %s"
        wait_until(lambda: watcher.execute(running, [f"{LOADED}%"]).fetchone() == (0,))
        with pool.connect() as connection:
            assert rows(connection, "SELECT 1") == [[1]]
