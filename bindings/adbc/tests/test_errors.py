"""Errors: their status, SQLSTATE and message; closed handles; malicious input."""

import ctypes

import pyarrow as pa
import pytest
from adbc_driver_manager import (
    AdbcConnection,
    AdbcDatabase,
    AdbcStatement,
    AdbcStatusCode,
    DataError,
    Error,
    IntegrityError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
)
from conftest import DRIVER

CASES = [
    ("selec 1", ProgrammingError, AdbcStatusCode.INVALID_ARGUMENT, "42601"),
    ("select * from no_such", ProgrammingError, AdbcStatusCode.NOT_FOUND, "42P01"),
    ("create table t (a integer)", ProgrammingError, AdbcStatusCode.ALREADY_EXISTS, "42P07"),
    ("insert into t values (null)", IntegrityError, AdbcStatusCode.INTEGRITY, "23502"),
    ("insert into t values (1), (1)", IntegrityError, AdbcStatusCode.INTEGRITY, "23505"),
    ("insert into t values ('x')", DataError, AdbcStatusCode.INVALID_DATA, "22"),
    ("begin isolation level serializable", NotSupportedError, AdbcStatusCode.NOT_IMPLEMENTED, "0A000"),
]


@pytest.mark.parametrize(("sql", "kind", "status", "sqlstate"), CASES)
def test_statuses(run, sql, kind, status, sqlstate):
    run("create table t (a integer primary key)")
    with pytest.raises(kind) as error:
        run(sql)
    assert error.value.status_code == status
    assert error.value.sqlstate.startswith(sqlstate)
    assert len(error.value.sqlstate) == 5


def test_an_error_in_the_middle_of_a_result(con):
    with con.cursor() as cursor:
        cursor.execute("select 1000 / (200000 - value) from generate_series(1, 400000)")
        with pytest.raises(DataError, match="division by zero") as error:
            cursor.fetchall()
        assert error.value.status_code == AdbcStatusCode.INVALID_DATA
        assert error.value.sqlstate == "22012"


def test_after_close(connect, run):
    con = connect()
    cursor = con.cursor()
    cursor.execute("select value from generate_series(1, 10)")
    con.close()
    for call in [cursor.fetchall, lambda: run("select 1", on=con), con.adbc_get_info]:
        with pytest.raises(Error):
            call()
    # Other statements are not affected.
    assert run("select 1") == [(1,)]


def test_the_order_of_closing_is_checked(options):
    database = AdbcDatabase(driver=DRIVER, **options)
    connection = AdbcConnection(database)
    statement = AdbcStatement(connection)
    for handle in [database, connection]:
        with pytest.raises(RuntimeError):
            handle.close()
    statement.close()
    connection.close()
    database.close()


def test_a_statement_without_a_query(con):
    with AdbcStatement(con.adbc_connection) as statement:
        for call in [
            statement.prepare,
            statement.execute_query,
            statement.execute_update,
            statement.execute_schema,
            statement.get_parameter_schema,
        ]:
            with pytest.raises(Error, match="no query") as error:
                call()
            assert error.value.status_code == AdbcStatusCode.INVALID_STATE


def test_hostile_text(con, run):
    run("create table t (a varchar)")
    run("insert into t values (?)", ["nul \0 in it"])
    assert run("select a, length(a) from t") == [("nul \0 in it", 11)]
    # An error that quotes it is still reported completely.
    with pytest.raises(Error, match="in it"):
        run("select cast(a as integer) from t")
    long = "x" * 1_000_000
    for sql in [
        f'select "{long}"',
        f"create table {long} (a integer)",
        "select '" + long,
    ]:
        with pytest.raises(Error):
            run(sql)
    # A text without a statement does nothing.
    assert run("\ufeff;;;") == []
    assert run(f"select length('{long}')") == [(1_000_000,)]
    for name in [long, "", "a\0b"[:1], "a" * 256]:
        with con.cursor() as cursor:
            if name == "a":
                continue
            with pytest.raises(Error):
                cursor.adbc_ingest(name, pa.table({"a": [1]}))
    with con.cursor() as cursor, pytest.raises(Error):
        cursor.adbc_ingest("u", pa.table({long: [1]}))
    assert run("select 1") == [(1,)]


def test_hostile_parameters(con, run):
    for batch in [
        pa.record_batch({}),
        pa.record_batch({"a": pa.array([1]), "b": pa.array([2])}),
        pa.record_batch({"a": pa.array([b"\xff"])}),
        pa.record_batch({"a": pa.nulls(1)}),
        pa.record_batch({"a": pa.array([1, 1]).dictionary_encode()}),
        pa.record_batch({"a": pa.DictionaryArray.from_arrays(pa.array([None], pa.int8()), pa.array(["x"]))}),
        pa.record_batch({"a": pa.array([[{"x": [1]}]])}),
    ]:
        with con.cursor() as cursor:
            try:
                cursor.execute("select ? as a", batch)
                assert cursor.fetch_arrow_table().num_rows <= 2
            except Error as error:
                assert error.status_code != AdbcStatusCode.INTERNAL, error
    assert run("select 1") == [(1,)]


def test_batches_without_columns(con, run):
    empty = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))
    assert empty.num_rows == 3
    with con.cursor() as cursor, pytest.raises(Error) as error:
        cursor.adbc_ingest("t", empty)
    assert error.value.status_code != AdbcStatusCode.INTERNAL
    run("create table t (a integer default 7)")
    with con.cursor() as cursor:
        cursor.execute("insert into t values (1)", empty)
    assert run("select count(*) from t") == [(3,)]


def test_types_that_no_column_has(con):
    for column in [
        pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]),
        pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array(["x"])),
    ]:
        with con.cursor() as cursor:
            try:
                cursor.adbc_ingest("t", pa.table({"a": column}), mode="replace")
            except Error as error:
                assert error.status_code in (
                    AdbcStatusCode.NOT_IMPLEMENTED,
                    AdbcStatusCode.INVALID_DATA,
                    AdbcStatusCode.INVALID_ARGUMENT,
                )


def test_a_row_that_is_null_is_refused_and_nothing_breaks(con, run):
    """`adbc_ffi` would panic at it, and refuse every later call of the process."""
    rows = pa.array([{"a": 1}, None], pa.struct({"a": pa.int64()}))

    class Rows:
        def __arrow_c_array__(self, requested_schema=None):
            return rows.__arrow_c_array__(requested_schema)

    with AdbcStatement(con.adbc_connection) as statement:
        statement.set_sql_query("select ?")
        with pytest.raises(Error, match="NULL"):
            statement.bind(Rows())
    assert run("select 1") == [(1,)]


def test_an_old_driver_manager_is_told(con):
    library = ctypes.CDLL(DRIVER)
    for entry, version, driver, status in [
        (
            library.AdbcDriverInit,
            1_000_000,
            ctypes.create_string_buffer(8192),
            AdbcStatusCode.NOT_IMPLEMENTED,
        ),
        (library.AdbcDriverHypostyleInit, 1_001_000, None, AdbcStatusCode.INVALID_ARGUMENT),
    ]:
        entry.restype = ctypes.c_uint8
        assert entry(version, driver, None) == status


def test_a_server_that_is_not_there():
    uri = "hypostyle://127.0.0.1:1/"
    with AdbcDatabase(driver=DRIVER, uri=uri) as database, pytest.raises(OperationalError) as error:
        AdbcConnection(database)
    assert error.value.status_code == AdbcStatusCode.IO
    assert error.value.sqlstate.startswith("08")
