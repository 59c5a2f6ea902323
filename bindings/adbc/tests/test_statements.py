"""Statements: results as streams, parameters, and the description of a statement before it runs."""

import pyarrow as pa
import pytest
from adbc_driver_manager import AdbcStatement, AdbcStatusCode, Error
from pyarrow import RecordBatchReader


def schema_of(handle):
    return pa.schema(handle)


def test_results_are_streams(con):
    with con.cursor() as cursor:
        # The result is larger than memory, if all of it were computed.
        cursor.execute(
            "select value, repeat('x', 1000) as text from generate_series(1, 1000000000) as g (value)"
        )
        reader = cursor.fetch_record_batch()
        first = reader.read_next_batch()
        assert first["value"][0].as_py() == 1


def test_the_number_of_rows(con, run):
    run("create table t (a integer)")
    with con.cursor() as cursor:
        for sql, rows in [
            ("insert into t values (1), (2), (3)", 3),
            ("update t set a = a + 1 where a > 1", 2),
            ("delete from t where a = 1", 1),
            ("create table u (a integer)", -1),
            ("select * from t", -1),
        ]:
            cursor.execute(sql)
            assert cursor.rowcount == rows, sql
        cursor.executemany("insert into t values (?)", [(1,), (2,)])
        assert cursor.rowcount == 2
        cursor.execute("delete from t returning a")
        assert sorted(cursor.fetchall()) == [(1,), (2,), (3,), (4,)]


def test_positions_and_names(con, run):
    assert run("select ? + 1, ?", [41, "x"]) == [(42, "x")]
    assert run("select $2, $1", [1, 2]) == [(2, 1)]
    assert run("select $b, $a, $b", {"a": "A", "b": "B"}) == [("B", "A", "B")]
    assert run('select \'?\', "?" from (select 1 as "?") where ? -- ?', [True]) == [("?", 1)]
    assert run("select ?", [None]) == [(None,)]
    with con.cursor() as cursor:
        # Parameters are matched by position, unless Arrow data asks for names.
        cursor.execute("select $x, $y, $x", pa.record_batch({"0": [1], "1": [2]}))
        assert cursor.fetchall() == [(1, 2, 1)]
    for parameters, match in [([1, 2], "1 parameters|2 values"), ({"no": 1}, '"1"')]:
        with pytest.raises(Error, match=match):
            run("select ?", parameters)
    with pytest.raises(Error):
        run("select ?")


def test_each_row_is_one_execution(con, run):
    rows = pa.table({"n": pa.chunked_array([[1, 2], [], [3]], pa.int64())})
    with con.cursor() as cursor:
        cursor.execute("select value from generate_series(1, 10) where value <= ? order by value", rows)
        assert [row for (row,) in cursor.fetchall()] == [1, 1, 2, 1, 2, 3]
        cursor.execute("select ?", rows.slice(0, 0))
        assert cursor.fetch_arrow_table().num_rows == 0
        run("create table t (a bigint)")
        cursor.execute("insert into t values (?) returning a * 10 as b", rows)
        assert cursor.fetch_arrow_table()["b"].to_pylist() == [10, 20, 30]
        cursor.execute("insert into t values (?)", rows.slice(0, 0))
        assert cursor.rowcount == 0
    assert run("select count(*) from t") == [(3,)]


def test_many_bound_rows(con, run):
    run("create table t (a integer, b varchar)")
    with con.cursor() as cursor:
        rows = [(number, f"row {number}") for number in range(2000)]
        cursor.executemany("insert into t values (?, ?)", rows)
        assert cursor.rowcount == 2000
    assert run("select count(*), sum(a), max(b) from t") == [(2000, 1999000, "row 999")]


def test_bound_rows_are_all_or_nothing(con, run, connect):
    run("create table t (a integer primary key)")
    for connection in [con, connect(autocommit=False)]:
        with connection.cursor() as cursor:
            with pytest.raises(Error) as error:
                cursor.executemany("insert into t values (?)", [(1,), (2,), (1,)])
            assert error.value.status_code == AdbcStatusCode.INTEGRITY
        if connection is not con:
            connection.rollback()
        assert run("select * from t", on=connection) == []


def test_bound_rows_that_fail_to_come_undo_the_statement_only(con, run, connect):
    run("create table t (a bigint)")

    def batches():
        yield pa.record_batch({"a": [1, 2]})
        raise ValueError("no more")

    writer = connect(autocommit=False)
    run("insert into t values (0)", on=writer)
    with writer.cursor() as cursor, pytest.raises(Error, match="no more"):
        reader = RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), batches())
        cursor.execute("insert into t values (?)", reader)
    writer.commit()
    assert run("select * from t") == [(0,)]


def test_a_binding_is_for_one_execution(con):
    with con.cursor() as cursor:
        cursor.execute("select ?", [1])
        assert cursor.fetchall() == [(1,)]
        with pytest.raises(Error):
            cursor.execute("select ?")
        cursor.execute("select 2")
        assert cursor.fetchall() == [(2,)]


def test_prepared_statements_are_executed_again(con, run):
    run("create table t (a bigint, b varchar)")
    with AdbcStatement(con.adbc_connection) as statement:
        statement.set_sql_query("insert into t values ($1, $2)")
        statement.prepare()
        for number in range(3):
            statement.bind(pa.record_batch({"a": [number], "b": [str(number)]}))
            assert statement.execute_update() == 1
    assert run("select * from t order by a") == [(0, "0"), (1, "1"), (2, "2")]


def test_parameters_are_described(con, run):
    run("create table t (a integer, b varchar)")
    with AdbcStatement(con.adbc_connection) as statement:

        def parameters(sql):
            statement.set_sql_query(sql)
            statement.prepare()
            return schema_of(statement.get_parameter_schema())

        found = parameters("select * from t where a = ? and b = ?")
        assert len(found) == 2
        assert found.types == [pa.int32(), pa.large_string()]
        assert parameters("insert into t values ($2, $1)").types == found.types[::-1]
        assert parameters("select $x, $y, $x").names == ["x", "y"]
        assert len(parameters("select '?'")) == 0
    with con.cursor() as cursor:
        assert len(cursor.adbc_prepare("select 1")) == 0


def test_schemas_of_results(con, run):
    run("create table t (a integer, b varchar, d decimal(9,2))")
    run("insert into t values (1, 'x', 1.5)")
    with con.cursor() as cursor:
        for sql, parameters in [
            ("select * from t", None),
            ("select a + 1, b from t order by b -- ?", None),
            ("with x as (select d * 2 as e from t) select * from x;", None),
            ("select a as found from t where a = ?", [1]),
            ("values (1, 'x')", None),
        ]:
            schema = cursor.adbc_execute_schema(sql, parameters)
            cursor.execute(sql, parameters)
            assert cursor.fetch_arrow_table().schema == schema
        assert cursor.adbc_execute_schema("select b from t where a = ?").names == ["b"]
        assert len(cursor.adbc_execute_schema("delete from t")) == 0
        assert len(cursor.adbc_execute_schema("insert into t values (2, 'y', 1)")) == 0
        assert cursor.adbc_execute_schema("delete from t returning a").names == ["a"]
        # Of several statements none is run to describe the last.
        with pytest.raises(Error):
            cursor.adbc_execute_schema("select 1; drop table t")
    assert run("select count(*) from t") == [(1,)]


def test_a_new_statement_does_not_disturb_an_open_result(con, run):
    run("create table t as select value as a from generate_series(1, 300000)")
    with con.cursor() as reading:
        reading.execute("select a, a + 1 as b from t where a % 3 <> 1 order by a")
        reader = reading.fetch_record_batch()
        rows = reader.read_next_batch().num_rows
        run("insert into t values (2), (3)")
        assert run("select count(*) from t") == [(300_002,)]
        assert rows + sum(batch.num_rows for batch in reader) == 200_000


def test_several_statements_in_a_text(con, run):
    assert run("create table t (a integer); insert into t values (1); select a + 1 from t") == [(2,)]


def test_what_is_not_supported_says_so(con):
    with con.cursor() as cursor:
        for call in [
            lambda: cursor.execute(b"substrait"),
            lambda: cursor.adbc_statement.set_options(**{"adbc.none.such": "1"}),
        ]:
            with pytest.raises(Error) as error:
                call()
            assert error.value.status_code == AdbcStatusCode.NOT_IMPLEMENTED
            assert error.value.sqlstate == "0A000"
    with pytest.raises(Error, match=r"adbc\.none\.such"), con.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.none.such": "1"})
