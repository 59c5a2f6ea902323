"""Closing a connection, and calling it from the data that it reads: nothing hangs."""

import _thread
import subprocess
import sys
import textwrap
import threading
import time

import hypostyle
import pyarrow as pa
import pytest

#: It takes hours.
ENDLESS = "select sum(a.x * b.x) from generate_series(1, 1000000) a (x), generate_series(1, 1000000) b (x)"
#: Rows that come one after the other, without an end.
ROWS = "select a.x + b.x as s from generate_series(1, 1000000) a (x), generate_series(1, 1000000) b (x)"
DEADLINE = 30
ENDED = (hypostyle.QueryInterrupted, hypostyle.ClosedError, hypostyle.ServerConnectionError)


class Call(threading.Thread):
    """A call in a thread of its own, and the exception that it has raised."""

    def __init__(self, call) -> None:
        super().__init__(daemon=True)
        self.call = call
        self.raised: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.call()
        except BaseException as error:
            self.raised = error

    def ended(self) -> BaseException | None:
        self.join(DEADLINE)
        assert not self.is_alive()
        return self.raised


def wait_until_running(con) -> None:
    deadline = time.monotonic() + DEADLINE
    while not (con.progress and con.progress.running):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.1)


def close(con) -> None:
    begin = time.monotonic()
    con.close()
    assert time.monotonic() - begin < DEADLINE
    assert con.closed


@pytest.mark.parametrize(
    "use",
    [
        lambda con: con.sql(ENDLESS).fetchall(),
        lambda con: con.sql(ROWS).fetchall(),
        lambda con: con.cursor().execute(ROWS).fetchall(),
        lambda con: con.execute(f"create table u as {ROWS}"),
        lambda con: con.sql(ROWS).df(),
    ],
    ids=["fetch", "rows", "cursor", "create", "frame"],
)
def test_closing_ends_what_runs_in_another_thread(con, use):
    call = Call(lambda: use(con))
    wait_until_running(con)
    close(con)
    assert isinstance(call.ended(), ENDED)
    with pytest.raises(hypostyle.ClosedError):
        con.sql("select 1")


def test_nothing_is_computed_after_closing(con):
    result = con.sql(ROWS)
    close(con)
    for use in (result.fetchone, result.fetchall, result.df, lambda: result.batches().read_all()):
        with pytest.raises(ENDED):
            use()


@pytest.mark.parametrize(
    "statement",
    [
        f"create table u as {ROWS}",
        f"insert into t {ROWS}",
        f"copy ({ROWS}) to '/dev/null' (format csv)",
        f"explain analyze {ROWS}",
        f"select count(s) from ({ROWS}) r",
    ],
    ids=["create", "insert", "copy", "explain", "count"],
)
def test_the_database_hears_an_interrupt_while_rows_come_quickly(con, statement):
    con.execute("create table t (x bigint)")
    call = Call(lambda: con.execute(statement).fetchall())
    wait_until_running(con)
    con.interrupt()
    assert isinstance(call.ended(), hypostyle.QueryInterrupted)
    assert con.sql("select count(*) from t").fetchall() == [(0,)]


#: Of every pair of rows something is computed that is never true: no operator gives a row.
PAIRS = {
    "nested loop": "select count(*) from a join b on a.s like b.p",
    "nested loop, outer": "select count(*) from a full join b on a.s like b.p",
    "exists": "select count(*) from a where exists (select from b where a.s like b.p)",
    "hash join": "select count(*) from a join b on a.i % 1 = b.j % 1 and a.s like b.p",
    "hash join, outer": "select count(*) from a left join b on a.i % 1 = b.j % 1 and a.s like b.p",
    "hash join, anti": "select count(*) from a where not exists "
    "(select from b where a.i % 1 = b.j % 1 and a.s like b.p)",
    "band": "select count(*) from a join b on a.i between b.j and b.j + 100000 and a.s like b.p",
    "numbers": "select count(*) from a join b on a.i % 1 = b.j % 1 and a.i * b.j < 0",
    "three": "select count(*) from a x join a y on x.i = y.i join b on x.s like b.p or y.s like b.p",
    "subquery": "select sum((select max(j) from b where a.s like b.p)) from a",
    "delete": "delete from a where exists (select from b where a.s like b.p)",
    "window": "select max(len(c)) "
    "from (select array_agg(i) over (order by i rows 100000 preceding) as c from a) w",
    "window, texts": "select max(len(c)) from (select string_agg(s, '') over (order by i) as c from a) w",
    "window, median": "select max(c) from (select median(i) over (order by i) as c from a) w",
    "window, distinct": "select max(len(c)) "
    "from (select array_agg(distinct i % 50000) over (order by i) as c from a) w",
}


@pytest.fixture(scope="module")
def pairs():
    with hypostyle.connect(":memory:") as con:
        con.execute("create table a as select i, 'abc' || i as s from generate_series(1, 300000) g (i)")
        con.execute("create table b as select i as j, '%x' || i as p from generate_series(1, 300000) g (i)")
        yield con


@pytest.mark.parametrize("statement", PAIRS.values(), ids=PAIRS)
def test_a_statement_that_was_interrupted_computes_no_more(pairs, statement):
    call = Call(lambda: pairs.execute(statement).fetchall())
    wait_until_running(pairs)
    pairs.interrupt()
    assert isinstance(call.ended(), hypostyle.QueryInterrupted)
    # The next statement begins at once: what it does not interrupt must not go on, either.
    assert pairs.sql("select 1").fetchall() == [(1,)]
    deadline = time.monotonic() + DEADLINE
    while True:
        before = time.process_time()
        time.sleep(0.3)
        if time.process_time() - before < 0.1:
            break
        assert time.monotonic() < deadline, "the engine's threads compute for nobody"


def test_closing_one_connection_leaves_the_others_at_work(con):
    other = con.duplicate()
    call = Call(lambda: other.sql(ENDLESS).fetchall())
    wait_until_running(other)
    close(con)
    time.sleep(0.2)
    assert call.is_alive()
    close(other)
    assert isinstance(call.ended(), ENDED)


def test_closing_waits_not_for_ever_for_the_rows_of_a_program(con):
    go_on = threading.Event()

    def batches():
        yield pa.record_batch({"x": [1]})
        go_on.wait(DEADLINE)
        yield pa.record_batch({"x": [2]})

    con.execute("create table t (x bigint)")
    reader = pa.RecordBatchReader.from_batches(pa.schema({"x": pa.int64()}), batches())
    call = Call(lambda: con.append("t", reader))
    time.sleep(0.3)
    close(con)
    go_on.set()
    assert isinstance(call.ended(), ENDED)


def test_a_connection_that_is_closed_by_the_rows_it_reads(con):
    def batches():
        yield pa.record_batch({"x": [1]})
        con.close()
        yield pa.record_batch({"x": [2]})

    con.execute("create table t (x bigint)")
    reader = pa.RecordBatchReader.from_batches(pa.schema({"x": pa.int64()}), batches())
    call = Call(lambda: con.append("t", reader))
    assert isinstance(call.ended(), ENDED)


def test_a_program_ends_that_closes_its_connection():
    program = f"""
        import threading, time, hypostyle
        con = hypostyle.connect()
        def work():
            try:
                con.sql({ENDLESS!r}).fetchall()
            except hypostyle.Error as error:
                print(type(error).__name__)
        thread = threading.Thread(target=work)
        thread.start()
        while not (con.progress and con.progress.running):
            time.sleep(0.01)
        time.sleep(0.2)
        con.close()
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE * 2, check=True)
    assert ended.stdout in ("QueryInterrupted\n", "ClosedError\n")


def test_data_that_is_made_by_the_connection_that_reads_it(con):
    def batches(source):
        yield pa.record_batch({"x": [source.sql("select 7").fetchone()[0]]})

    def reader(source):
        return pa.RecordBatchReader.from_batches(pa.schema({"x": pa.int64()}), batches(source))

    def use(source):
        rows = reader(source)  # noqa: F841
        return con.sql("select x from rows").fetchall()

    refused = Call(lambda: use(con)).ended()
    assert isinstance(refused, hypostyle.DataError)
    assert "duplicate()" in str(refused)
    other = con.duplicate()
    assert use(other) == [(7,)]
    # The connection is as good as before.
    assert con.sql("select 1").fetchall() == [(1,)]


def test_batches_raise_the_errors_of_the_database(con):
    reader = con.sql(ROWS).batches()
    threading.Timer(0.5, con.interrupt).start()
    with pytest.raises(hypostyle.QueryInterrupted) as error:
        for _ in reader:
            pass
    assert error.value.sqlstate == "57014"
    with pytest.raises(hypostyle.DataError, match="division by zero") as error:
        con.sql("select 1 / (x - 70000) as q from generate_series(1, 100000) g (x)").batches().read_all()
    assert error.value.sqlstate == "22012"
    threading.Timer(0.5, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        for _ in con.sql(ROWS).batches():
            pass
    assert con.sql("select 1").fetchall() == [(1,)]
