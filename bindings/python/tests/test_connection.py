"""Connections: parameters, threads, many databases, interruption, closing, errors."""

import datetime as dt
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import hypostyle
import numpy as np
import pyarrow as pa
import pytest

# A query that never ends, and takes little memory.
ENDLESS = (
    "with recursive n as (select 1 as x union all select x + 1 from n where x > 0) select count(*) from n"
)


def run(program: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )


@pytest.mark.parametrize(
    "value",
    [
        5,
        -(2**62),
        2.5,
        "it's",
        True,
        Decimal("12.50"),
        dt.date(2024, 2, 29),
        dt.datetime(2024, 2, 29, 12, 30, 0, 1),
        b"\x00\x01",
        None,
    ],
    ids=repr,
)
def test_parameters_come_back(con, value):
    assert con.sql("select ? as v", [value]).fetchone() == (value,)
    assert con.sql("select $name as v", {"name": value}).fetchone() == (value,)


def test_parameters_by_position_and_name(con):
    con.append("t", {"x": [1, 2, 3], "s": ["a", "b", "c"]}, create=True)
    assert con.sql("select s from t where x > ? and s <> ?", (1, "c")).fetchall() == [("b",)]
    assert con.execute("select s from t where x = $2 or s = $1", ["a", 3]).fetchall() == [("a",), ("c",)]
    assert con.sql("select s from t where x = $key", {"key": np.int32(2)}).fetchall() == [("b",)]


@pytest.mark.parametrize(
    "value", [dt.timedelta.max, dt.timedelta.min, dt.timedelta(days=106_751_992, microseconds=1)]
)
def test_long_intervals_come_back(con, value):
    assert con.sql("select ? as v", [value]).fetchone() == (value,)
    assert con.sql("select interval '-2147483648 days' as v").fetchone() == (
        hypostyle.Interval(0, -(2**31), 0),
    )


def test_nothing_is_lost_within_nested_values(con):
    con.execute("CREATE TABLE t (l INTEGER[], s STRUCT<a INTEGER, b VARCHAR>)")
    con.append("t", {"l": [[1, 2], None], "s": [{"b": "x", "a": 3}, None]})
    assert con.execute("SELECT * FROM t").fetchall() == [([1, 2], {"a": 3, "b": "x"}), (None, None)]
    for rows, message in [
        ({"l": [[1.0], [1.6]]}, 'column "l", row 1: 1.6 does not fit INTEGER'),
        ({"s": [{"a": 1.6, "b": "x"}]}, 'column "s", row 0: 1.6 does not fit INTEGER'),
        ({"s": [{"c": 1, "b": "x"}]}, "convert it first"),
    ]:
        with pytest.raises(hypostyle.DataError, match=message):
            con.append("t", rows)
    dictionary = pa.array([["a", "b"], ["a"]], pa.list_(pa.dictionary(pa.int32(), pa.string())))
    con.append("d", pa.table({"l": dictionary}), create=True)
    assert con.execute("SELECT l FROM d").fetchall() == [(["a", "b"],), (["a"],)]


def test_parameters_that_are_uuids(con):
    one, other = uuid.UUID(int=1 << 120), uuid.UUID(int=2)
    con.execute("CREATE TABLE t (u UUID, n INTEGER)")
    con.execute("INSERT INTO t VALUES (?, 1), (?, 2)", [one, other])
    assert con.execute("SELECT n FROM t WHERE u = ?", [one]).fetchall() == [(1,)]
    assert con.execute(
        "SELECT n FROM t WHERE u IN ($a, $b) ORDER BY n", {"a": one, "b": other}
    ).fetchall() == [(1,), (2,)]
    con.execute("UPDATE t SET u = ? WHERE u = ?", [other, one])
    assert con.execute("SELECT u FROM t").fetchall() == [(other,), (other,)]


def test_wrong_parameters(con):
    with pytest.raises(hypostyle.DataError, match="not a str"):
        con.sql("select ?", "ab")
    with pytest.raises(hypostyle.DataError, match=r"parameter \"\$2\""):
        con.sql("select ?, ?", [1, object()])
    with pytest.raises(hypostyle.DataError, match="list, tuple or dict"):
        con.sql("select ?", 5)
    with pytest.raises(hypostyle.ProgrammingError, match="a query is a str"):
        con.sql(5)


def test_executemany(con):
    con.sql("create table t (a integer, b varchar)")
    assert con.executemany("insert into t values (?, ?)", [(1, "x"), (2, None)]) == 2
    assert sorted(con.table("t").fetchall()) == [(1, "x"), (2, None)]


def test_rows_affected_and_description(con):
    created = con.sql("create table t (a decimal(15,2) not null)")
    assert created.description is None and created.columns == []
    assert con.sql("insert into t values (1.5), (2.5)").rows_affected == 2
    query = con.sql("select a from t")
    assert query.rows_affected is None
    assert query.description[0][:6] == ("a", "DECIMAL(15,2)", None, None, 15, 2)


def test_tables(con):
    con.append("t", {"a": [1, 2]}, create=True)
    con.sql("create view w as select a from t")
    table, view = sorted(con.tables(), key=lambda info: info.name)
    assert (table.name, table.kind, table.rows) == ("t", "table", 2)
    assert [column[:2] for column in table.columns] == [("a", "BIGINT")]
    assert (view.name, view.kind, view.rows) == ("w", "view", None)


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("selec 1", hypostyle.SqlSyntaxError),
        ("select * from nowhere", hypostyle.UnknownNameError),
        ("select cast('x' as integer)", hypostyle.DataError),
    ],
)
def test_errors_have_a_class_and_a_state(con, sql, kind):
    with pytest.raises(kind) as error:
        con.sql(sql).fetchall()
    assert isinstance(error.value, hypostyle.DatabaseError)
    assert len(error.value.sqlstate) == 5
    assert con.sql("select 1 as a").fetchone() == (1,)


def test_a_database_on_disk_is_there_again(directory):
    with hypostyle.connect(directory) as con:
        con.append("t", {"id": [uuid.UUID(int=1)], "x": [1.5]}, create=True)
        assert con.path == os.fspath(directory)
    with hypostyle.connect(str(directory), read_only=True) as con:
        assert con.table("t").fetchall() == [(uuid.UUID(int=1), 1.5)]
        with pytest.raises(hypostyle.ReadOnlyError):
            con.append("t", {"x": [2.5]})


def test_wrong_openings(tmp_path):
    with pytest.raises(hypostyle.NotFoundError):
        hypostyle.connect(tmp_path / "nowhere", read_only=True)
    with pytest.raises(hypostyle.NotFoundError, match="make it first"):
        hypostyle.connect(tmp_path / "nowhere" / "x.hypo")
    assert not list(tmp_path.iterdir())
    with pytest.raises(hypostyle.DataError, match="threads is 0"):
        hypostyle.connect(threads=0)
    with pytest.raises(hypostyle.DataError):
        hypostyle.connect(memory_limit="many")
    with pytest.raises(hypostyle.DataError):
        hypostyle.connect(memory_limit=1.5)


def test_options(tmp_path):
    with hypostyle.connect(threads=1, memory_limit="1GB", temp_directory=tmp_path) as con:
        assert con.sql("select 1 as a").fetchone() == (1,)
    with hypostyle.connect(memory_limit=2**30) as con:
        assert con.sql("select 1 as a").fetchone() == (1,)


def test_a_closed_connection_says_so():
    con = hypostyle.connect()
    con.close()
    con.close()
    assert con.closed and "closed" in repr(con)
    for use in (lambda: con.sql("select 1"), lambda: con.append("t", {"a": [1]}), con.tables, con.commit):
        with pytest.raises(hypostyle.ClosedError):
            use()


def test_databases_do_not_see_each_other(tmp_path):
    with hypostyle.connect(tmp_path / "a.hypo") as a, hypostyle.connect(tmp_path / "b.hypo") as b:
        a.append("t", {"x": [1]}, create=True)
        b.append("t", {"x": [2]}, create=True)
        assert a.table("t").fetchall() == [(1,)]
        assert b.table("t").fetchall() == [(2,)]
        with hypostyle.connect() as c, pytest.raises(hypostyle.UnknownNameError):
            c.table("t")


def test_many_threads_on_one_connection(con):
    con.append("t", {"x": np.arange(10_000)}, create=True)

    def work(number):
        found = con.sql("select sum(x) as s from t where x < ?", [number]).fetchone()[0]
        return found or 0

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(64))) == [n * (n - 1) // 2 for n in range(64)]


def test_many_threads_with_connections_of_their_own(con):
    con.append("t", {"x": [0]}, create=True)

    def work(number):
        with con.duplicate() as own:
            return own.append("t", {"x": [number]})

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(1, 33))) == 32
    assert con.sql("select count(*) as n, sum(x) as s from t").fetchone() == (33, 32 * 33 // 2)


def test_interrupt_from_another_thread(con):
    timer = threading.Timer(0.5, con.interrupt)
    timer.start()
    start = time.monotonic()
    with pytest.raises(hypostyle.QueryInterrupted) as error:
        con.sql(ENDLESS).fetchall()
    assert time.monotonic() - start < 30
    assert error.value.sqlstate == "57014"
    assert con.sql("select 1 as a").fetchone() == (1,)


def test_control_c_raises_keyboard_interrupt_and_leaves_the_connection_usable():
    program = f"""
        import os, signal, threading, hypostyle
        con = hypostyle.connect()
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            con.sql({ENDLESS!r}).fetchall()
        except KeyboardInterrupt:
            print("interrupted", con.sql("select 1 as a").fetchall())
    """
    done = run(program)
    assert done.stdout.strip() == "interrupted [(1,)]", done.stderr


def test_control_c_ends_the_wait_for_a_lock_of_another_process(tmp_path):
    with hypostyle.connect(tmp_path / "d") as con:
        con.execute("create table t (a int)")
    program = f"""
        import os, signal, sys, threading, hypostyle

        def interrupted(doing):
            timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            try:
                doing()
            except KeyboardInterrupt:
                print("interrupted")
            timer.join()

        path = {str(tmp_path / "d")!r}
        locked = open(path + "/shared")
        con = hypostyle.connect(path)
        # As another process would.
        import fcntl
        fcntl.flock(locked, fcntl.LOCK_EX)
        interrupted(lambda: hypostyle.connect(path))
        interrupted(lambda: con.execute("insert into t values (1)"))
        con.execute("set lock_timeout = '50ms'")
        try:
            con.execute("insert into t values (1)")
        except hypostyle.BusyError as error:
            print(error.sqlstate)
        fcntl.flock(locked, fcntl.LOCK_UN)
        con.execute("insert into t values (2)")
        print(con.sql("select a from t").fetchall())
    """
    done = run(program)
    assert done.stdout.splitlines() == ["interrupted", "interrupted", "55P03", "[(2,)]"], done.stderr


def test_a_signal_handler_that_raises_something_else(con):
    def handler(number, frame):
        raise TimeoutError("too long")

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(TimeoutError, match="too long"):
            con.sql(ENDLESS).fetchall()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert con.sql("select 1 as a").fetchone() == (1,)


def test_other_threads_run_while_a_statement_does(con):
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.wait(0.01):
            ticks.append(1)

    thread = threading.Thread(target=tick)
    thread.start()
    threading.Timer(1.0, con.interrupt).start()
    with pytest.raises(hypostyle.QueryInterrupted):
        con.sql(ENDLESS).fetchall()
    stop.set()
    thread.join()
    assert len(ticks) > 20


def test_the_same_text_with_other_parameters(con):
    for values in [(1, "a"), ("b", None), (2.5, [1])]:
        assert con.sql("SELECT ?, ?", values).fetchone() == values
    for wrong in [(1,), (1, 2, 3), None]:
        with pytest.raises(hypostyle.Error):
            con.sql("SELECT ?, ?", wrong).fetchall()
    for text, extra in [("SELECT $1::int", (1, 2)), ("SELECT $2, $1", (1, 2, 3)), ("SELECT 1", (1,))]:
        with pytest.raises(hypostyle.Error, match="given") as error:
            con.sql(text, extra).fetchall()
        assert error.value.sqlstate == "07001"
    assert con.sql("SELECT ?, ?", (1, 2)).fetchone() == (1, 2)
    assert con.sql("SELECT $a", {"a": 1}).fetchone() == (1,)
    assert con.sql("SELECT $a", {"a": "x"}).fetchone() == ("x",)
    with pytest.raises(hypostyle.Error):
        con.sql("SELECT $a", {"b": 1}).fetchall()


def test_parameters_with_names_in_statements_that_write(con):
    con.execute("CREATE TABLE t (i INTEGER PRIMARY KEY, s VARCHAR)")
    con.execute("INSERT INTO t VALUES ($i, $s), ($i + 1, $s)", {"i": 1, "s": "x"})
    con.executemany("INSERT INTO t (s, i) VALUES ($s, $i)", [{"i": 3, "s": "y"}, {"i": 4, "s": None}])
    update = "INSERT INTO t VALUES ($i, 'z') ON CONFLICT (i) DO UPDATE SET s = $s RETURNING s || $more"
    assert con.sql(update, {"i": 1, "s": "new", "more": "!"}).fetchall() == [("new!",)]
    assert con.sql("SELECT s FROM t ORDER BY i").fetchall() == [("new",), ("x",), ("y",), (None,)]
    with pytest.raises(hypostyle.Error, match=r"\$s") as error:
        con.execute("INSERT INTO t VALUES ($i, $s)", {"i": 9})
    assert error.value.sqlstate == "07001"
    # As SQLite and Oracle write them.
    con.executemany("INSERT INTO t VALUES (:i, :s)", [{"i": 10, "s": "a"}, {"i": 11, "s": "b"}])
    con.execute("INSERT INTO t SELECT :i, :s || $s", {"i": 12, "s": "c"})
    rows = con.sql("SELECT s FROM t WHERE i >= :i ORDER BY i", {"i": 10}).fetchall()
    assert rows == [("a",), ("b",), ("cc",)]


def test_a_path_may_begin_with_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with hypostyle.connect("~/shop.hypo") as connection:
        connection.execute("CREATE TABLE t (i INTEGER)")
    assert (tmp_path / "shop.hypo").is_dir()


@pytest.mark.parametrize("address", ["hypostile://localhost/", "http://localhost:80", "hypostyle:///x"])
def test_a_mistyped_address_makes_no_database(address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(hypostyle.Error, match="address"):
        hypostyle.connect(address)
    assert not list(tmp_path.iterdir())


def test_a_server_is_not_opened_read_only(tmp_path):
    with (
        hypostyle.connect() as own,
        own.serve(listen="127.0.0.1:0") as server,
        pytest.raises(hypostyle.NotSupportedError, match="role read"),
    ):
        hypostyle.connect(server.addresses[0], read_only=True)
