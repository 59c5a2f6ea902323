"""Partitions: parts of a query's rows, which other sessions and processes read."""

import contextlib
import json
import socket
import subprocess
import sys

import pytest
from adbc_driver_manager import AdbcStatusCode, Error, dbapi
from conftest import DRIVER, TARGET

READER = """
import json, sys
from adbc_driver_manager import dbapi

driver, uri = sys.argv[1:]
with dbapi.connect(driver=driver, db_kwargs={"uri": uri}) as con, con.cursor() as cursor:
    cursor.adbc_read_partition(sys.stdin.buffer.read())
    print(json.dumps(cursor.fetchall()))
"""


def partitions(con, sql):
    with con.cursor() as cursor:
        return cursor.adbc_execute_partitions(sql)


def rows(con, parts):
    """Return the rows of partitions, in an order of their own."""
    found = []
    for part in parts:
        with con.cursor() as cursor:
            cursor.adbc_read_partition(part)
            found += cursor.fetchall()
    return sorted(found)


def rows_elsewhere(uri, part):
    """Return the rows of a partition, read by another process."""
    command = [sys.executable, "-c", READER, DRIVER, uri]
    done = subprocess.run(command, input=part, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return [tuple(row) for row in json.loads(done.stdout)]


def refusal(con, part):
    with pytest.raises(Error) as error, con.cursor() as cursor:
        cursor.adbc_read_partition(part)
    return error.value.status_code, error.value.sqlstate


def test_a_database_gives_one_partition(con, run, connect):
    run("create table t (k integer, s varchar)")
    run("insert into t values (1, 'it''s'), (2, null)")
    parts, schema = partitions(con, "select k, s || '\\' as s, now() is null as n from t -- all")
    assert (len(parts), schema.names) == (1, ["k", "s", "n"])
    # It is read in the state of then, by another session.
    run("insert into t values (3, 'c')")
    other = connect()
    expected = [(1, "it's\\", False), (2, None, False), (3, "c\\", False)]
    assert rows(other, parts) == expected
    assert rows(other, parts) == expected
    with other.cursor() as cursor:
        cursor.adbc_read_partition(parts[0])
        assert cursor.fetch_arrow_table().schema == schema


def test_another_process_reads_a_partition(con, run, options):
    if options["uri"] == ":memory:":
        pytest.skip("no other process has this database")
    run("create table t as select i as k from generate_series(1, 5) as g(i)")
    parts, _ = partitions(con, "select k, k * 2 from t where k > 2")
    assert sorted(rows_elsewhere(options["uri"], parts[0])) == [(3, 6), (4, 8), (5, 10)]


def test_partitions_in_transactions(connect, run):
    run("create table t (k integer)")
    con = connect(autocommit=False)
    parts, _ = partitions(con, "select count(*) from t")
    run("insert into t values (1)", on=con)
    with pytest.raises(Error, match="COMMIT") as error:
        partitions(con, "select count(*) from t")
    assert error.value.sqlstate == "0A000"
    con.rollback()
    assert rows(con, parts) == [(0,)]


def test_only_queries_have_partitions(con, run):
    run("create table t (k integer)")
    for sql in ["insert into t values (1)", "drop table t", "show tables"]:
        with pytest.raises(Error):
            partitions(con, sql)
    with pytest.raises(Error) as error, con.cursor() as cursor:
        cursor.adbc_execute_partitions("select ?", (1,))
    assert error.value.sqlstate == "0A000"
    assert run("select count(*) from t") == [(0,)]


def test_bad_partitions_are_refused(con):
    (part,), _ = partitions(con, "select 1")
    assert refusal(con, b"x") == (AdbcStatusCode.INVALID_DATA, "22023")
    assert refusal(con, b"\xff\0") == (AdbcStatusCode.INVALID_ARGUMENT, "HY024")
    for end in [1, len(part) // 2, len(part) - 1]:
        assert refusal(con, part[:end]) == (AdbcStatusCode.INVALID_DATA, "22023")
    assert refusal(con, part.replace(b"select 1", b"select 2"))[1] == "22023"
    later = part.replace(b" 1 ", b" 2 ", 1)
    assert refusal(con, later) == (AdbcStatusCode.NOT_IMPLEMENTED, "0A000")
    assert rows(con, [part]) == [(1,)]


def test_settings_that_decide_about_rows_are_those_of_then(con, run, connect):
    run("set timezone = 'Europe/Berlin'")
    parts, _ = partitions(con, "select 1")
    with pytest.raises(Error, match="timezone"):
        rows(connect(), parts)
    assert rows(con, parts) == [(1,)]


def free_ports(count):
    """Return the first of some ports that follow each other, which nobody listens at."""
    for first in range(42_000, 60_000, count):
        with contextlib.ExitStack() as sockets:
            try:
                for port in range(first, first + count):
                    sockets.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return first
    raise AssertionError("no ports are free")


@contextlib.contextmanager
def cluster(directory, nodes):
    """Run a cluster on this machine; give the addresses of its nodes."""
    first, place = free_ports(nodes), ["--data", str(directory)]
    program = [str(TARGET / "hypostyle"), "cluster"]
    try:
        subprocess.run([*program, "up", str(nodes), "--port", str(first), *place], check=True, timeout=120)
        yield [f"hypostyle://127.0.0.1:{port}/" for port in range(first, first + nodes)]
    finally:
        subprocess.run([*program, "down", *place], check=False, timeout=60)


@pytest.fixture(scope="module")
def addresses(tmp_path_factory):
    with cluster(tmp_path_factory.mktemp("cluster"), 3) as addresses:
        yield addresses


@pytest.fixture
def nodes(addresses):
    """Return a connection to each node of a cluster."""
    with contextlib.ExitStack() as opened:
        connect = [dbapi.connect(driver=DRIVER, db_kwargs={"uri": uri}, autocommit=True) for uri in addresses]
        yield [opened.enter_context(con) for con in connect]


def execute(con, sql):
    with con.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall() if cursor.description else []


def filled(con, name, replicas=2):
    """Make a table of the cluster with 1,000 rows; return them."""
    execute(con, f"drop table if exists {name}")
    placed = f"partition by hash (k) into 6 fragments replicas {replicas}"
    execute(con, f"create table {name} (k bigint, v bigint) {placed}")
    execute(con, f"insert into {name} select i, i * 10 from generate_series(1, 1000) as g(i)")
    return [(k, k * 10) for k in range(1, 1001)]


def test_all_partitions_are_the_rows_of_one_state(nodes, addresses):
    first, second, third = nodes
    expected = filled(first, "parted")
    parts, schema = partitions(first, "select k, v from parted where v > 20")
    assert (len(parts), schema.names) == (3, ["k", "v"])
    # Rows are written and deleted meanwhile.
    execute(first, "insert into parted values (5000, 50000)")
    execute(first, "update parted set v = 0 where k % 2 = 0")
    execute(first, "delete from parted where k < 500")
    for con in nodes:
        assert rows(con, parts) == expected[2:]
    apart = [row for part, uri in zip(parts, addresses, strict=True) for row in rows_elsewhere(uri, part)]
    assert sorted(apart) == expected[2:]
    # No row is in two of them, and none of the parts is all.
    found = [rows(second, [part]) for part in parts]
    assert sum(map(len, found)) == len(expected) - 2
    assert all(found)
    # In a transaction, too, whatever that reads itself.
    third.adbc_connection.set_autocommit(False)
    assert execute(third, "select count(*) from parted where k = 5000") == [(1,)]
    assert rows(third, parts) == expected[2:]
    assert execute(third, "select count(*) from parted where k = 5000") == [(1,)]
    third.rollback()


def test_joins_and_groups_by_the_partition_key_are_read_apart(nodes):
    first, second, _ = nodes
    filled(first, "one")
    filled(first, "other")
    execute(first, "drop table if exists names")
    execute(first, "create table names (r bigint, name varchar) replicated")
    execute(first, "insert into names select i, 'n' || i from generate_series(0, 9) as g(i)")
    for sql in [
        "select one.k, sum(other.v) from one join other on one.k = other.k group by one.k",
        "select k, name from one join names on k % 10 = r",
        "select k, row_number() over (partition by k order by v) from one",
        "select k from one where not exists (select 1 from other where other.k = one.k and other.k < 100)",
    ]:
        parts, _ = partitions(first, sql)
        assert len(parts) == 3, sql
        expected = sorted(execute(first, sql))
        execute(first, "insert into other values (1, 1), (99999, 1)")
        assert rows(second, parts) == expected, sql


def test_what_needs_all_rows_is_one_partition(nodes):
    first, second, _ = nodes
    filled(first, "whole")
    for sql in [
        "select count(*), sum(v) from whole",
        "select k from whole order by k limit 3",
        "select distinct v % 7 from whole",
        "select k from whole where v > (select avg(v) from whole)",
    ]:
        expected = sorted(execute(first, sql))
        parts, _ = partitions(first, sql)
        assert len(parts) == 1, sql
        # It is of the state of then all the same.
        execute(first, "insert into whole values (-1, 1000000)")
        assert rows(second, parts) == expected, sql
        execute(first, "delete from whole where k = -1")
    # Without rows there is one, too.
    execute(first, "delete from whole")
    parts, _ = partitions(first, "select k from whole")
    assert (len(parts), rows(second, parts)) == (1, [])
    # Aggregates of nothing have a row, and an empty part has none more.
    parts, _ = partitions(first, "select count(*) from whole")
    assert rows(second, parts) == [(0,)]


def test_what_only_one_node_has_is_read_there(nodes):
    first, second, _ = nodes
    filled(first, "here")
    execute(first, "create table if not exists own as select 1 as k")
    for sql in [
        "select here.k from here join own on here.k = own.k",
        "select k from own where now() > timestamptz '2020-01-01 00:00:00+00'",
    ]:
        parts, _ = partitions(first, sql)
        assert (len(parts), rows(first, parts)) == (1, [(1,)])
        assert refusal(second, parts[0])[1] == "22023"
    # A view of the same name, which is another one there.
    execute(first, "create or replace view seen as select k from here where k < 10")
    execute(second, "create or replace view seen as select k from here where k < 20")
    parts, _ = partitions(first, "select k from seen")
    assert len(rows(first, parts)) == 9
    assert {refusal(second, part)[1] for part in parts} == {"55000"}


def test_partitions_of_rows_that_are_gone_say_so(nodes):
    first, second, _ = nodes
    filled(first, "altered")
    parts, _ = partitions(first, "select k from altered")
    execute(first, "alter table altered add column more bigint")
    assert refusal(second, parts[0]) == (AdbcStatusCode.NOT_FOUND, "72000")
    parts, _ = partitions(first, "select k from altered")
    execute(first, "drop table altered")
    assert refusal(second, parts[0]) == (AdbcStatusCode.NOT_FOUND, "72000")


def test_rows_that_are_moved_are_read_or_said_to_be_gone(tmp_path):
    with cluster(tmp_path / "moved", 3) as addresses, contextlib.ExitStack() as opened:
        connect = [dbapi.connect(driver=DRIVER, db_kwargs={"uri": uri}, autocommit=True) for uri in addresses]
        first, second, _ = [opened.enter_context(con) for con in connect]
        expected = filled(first, "kept")
        filled(first, "lone", replicas=1)
        kept, _ = partitions(first, "select k, v from kept")
        lone, _ = partitions(first, "select k, v from lone")
        execute(first, "delete from kept where k < 100")
        execute(first, "alter cluster drain node node3")
        # Another replica of each fragment has stayed where it was.
        assert rows(second, kept) == expected
        # The only one has not, for a third of the rows: the others are read.
        outcomes = []
        for part in lone:
            try:
                outcomes.append(len(rows(second, [part])) > 0)
            except Error as error:
                assert (error.status_code, error.sqlstate) == (AdbcStatusCode.NOT_FOUND, "72000")
                outcomes.append(False)
        assert sorted(outcomes) == [False, True, True]


def test_a_partition_of_another_cluster_is_refused(nodes, tmp_path):
    filled(nodes[0], "mine")
    parts, _ = partitions(nodes[0], "select k from mine")
    with contextlib.ExitStack() as opened:
        (uri, _) = opened.enter_context(cluster(tmp_path / "other", 2))
        other = dbapi.connect(driver=DRIVER, db_kwargs={"uri": uri}, autocommit=True)
        assert refusal(opened.enter_context(other), parts[0]) == (AdbcStatusCode.INVALID_DATA, "22023")
    with dbapi.connect(driver=DRIVER, db_kwargs={"uri": ":memory:"}, autocommit=True) as alone:
        assert refusal(alone, parts[0]) == (AdbcStatusCode.INVALID_DATA, "22023")
