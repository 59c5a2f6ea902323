"""Cancelling from another thread: a statement that executes, a result that is read, a
connection.
"""

import threading
import time

import pyarrow as pa
import pytest
from adbc_driver_manager import AdbcStatement, AdbcStatusCode, Error

MANY = "generate_series(1, 100000000)"
FOREVER = f"select count(*) from {MANY} a, {MANY} b where a < b"
SOON = 30.0


@pytest.fixture
def cancelled_within():
    """Run `work`, cancel it after a moment, and expect that it ends soon with the right error."""

    def check(work, cancel):
        timer = threading.Timer(0.5, cancel)
        timer.start()
        started = time.monotonic()
        with pytest.raises(Error) as error:
            work()
        assert time.monotonic() - started < SOON
        timer.join()
        assert (error.value.status_code, error.value.sqlstate) == (AdbcStatusCode.CANCELLED, "57014")

    return check


def test_a_query(con, run, cancelled_within):
    with con.cursor() as cursor:
        cancelled_within(lambda: cursor.execute(FOREVER).fetchall(), cursor.adbc_cancel)
    assert run("select 1") == [(1,)]


def test_all_of_a_connection(con, run, cancelled_within):
    with con.cursor() as cursor:
        cancelled_within(lambda: cursor.execute(FOREVER).fetchall(), con.adbc_cancel)
        # Later work is not cancelled.
        con.adbc_cancel()
        cursor.execute("select 1")
        assert cursor.fetchall() == [(1,)]


def test_what_writes(con, run, cancelled_within):
    run("create table t (a bigint)")
    with AdbcStatement(con.adbc_connection) as statement:
        statement.set_sql_query("insert into t " + FOREVER)
        cancelled_within(statement.execute_update, statement.cancel)
    assert run("select * from t") == []


def test_an_ingestion(con, run, cancelled_within):
    batch = pa.record_batch({"a": list(range(1000))})

    def endless():
        while True:
            time.sleep(0.001)
            yield batch

    with AdbcStatement(con.adbc_connection) as statement:
        statement.set_options(**{"adbc.ingest.target_table": "t"})
        statement.bind_stream(pa.RecordBatchReader.from_batches(batch.schema, endless()))
        cancelled_within(statement.execute_update, statement.cancel)
    with pytest.raises(Error) as error:
        run("select * from t")
    assert error.value.status_code == AdbcStatusCode.NOT_FOUND


def test_bound_rows(con, cancelled_within):
    rows = pa.table({"n": list(range(1, 1_000_000))})
    query = "select count(*) from generate_series(1, 100000) where value > ?"
    with con.cursor() as cursor:
        cancelled_within(lambda: cursor.executemany(query, rows), cursor.adbc_cancel)


def test_a_result_between_two_batches(con, run):
    with con.cursor() as cursor:
        cursor.execute("select value from generate_series(1, 1000000000)")
        assert cursor.fetchone() == (1,)
        cursor.adbc_cancel()
        with pytest.raises(Error, match="cancelled") as error:
            cursor.fetchall()
        assert (error.value.status_code, error.value.sqlstate) == (AdbcStatusCode.CANCELLED, "57014")
    assert run("select 1") == [(1,)]


def test_another_statement_goes_on(con, run):
    run("create table t as select value as a from generate_series(1, 200000)")
    with con.cursor() as reading, con.cursor() as other:
        reading.execute("select a from t where a % 2 = 0")
        reader = reading.fetch_record_batch()
        other.execute("select 1")
        other.adbc_cancel()
        assert sum(batch.num_rows for batch in reader) == 100_000


def test_a_transaction_survives_as_aborted(connect, run, cancelled_within):
    con = connect(autocommit=False)
    run("create table t (a integer)", on=con)
    with con.cursor() as cursor:
        cancelled_within(lambda: cursor.execute("insert into t " + FOREVER), cursor.adbc_cancel)
    con.rollback()
    assert run("select 1", on=con) == [(1,)]
