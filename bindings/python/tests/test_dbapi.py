"""DB-API 2.0 (PEP 249)."""

import datetime

import hypostyle
import pytest


@pytest.fixture
def cursor(con):
    with con.cursor() as cursor:
        cursor.execute("create table t (a integer, b varchar, c decimal(9,2), d date, e blob)")
        cursor.executemany(
            "insert into t values (?, ?, ?, ?, ?)",
            [(n, str(n), n, hypostyle.Date(2024, 1, n + 1), hypostyle.Binary(b"x")) for n in range(5)],
        )
        assert cursor.rowcount == 5
        yield cursor


def test_module():
    assert (hypostyle.apilevel, hypostyle.threadsafety, hypostyle.paramstyle) == ("2.0", 2, "qmark")


def test_exception_tree():
    assert issubclass(hypostyle.Warning, Exception) and not issubclass(hypostyle.Warning, hypostyle.Error)
    assert issubclass(hypostyle.InterfaceError, hypostyle.Error)
    assert issubclass(hypostyle.DatabaseError, hypostyle.Error)
    for name in ("Data", "Operational", "Integrity", "Internal", "Programming", "NotSupported"):
        kind = getattr(hypostyle, f"{name}Error")
        assert issubclass(kind, hypostyle.DatabaseError)
        assert getattr(hypostyle.Connection, f"{name}Error") is kind
    for kind in hypostyle.errors.BY_KIND.values():
        assert issubclass(kind, hypostyle.Error) and len(kind.sqlstate) == 5


def test_description(cursor):
    cursor.execute("select * from t")
    names, codes = zip(*[column[:2] for column in cursor.description], strict=True)
    assert names == ("a", "b", "c", "d", "e")
    groups = [hypostyle.NUMBER, hypostyle.STRING, hypostyle.NUMBER, hypostyle.DATETIME, hypostyle.BINARY]
    assert [code == group for code, group in zip(codes, groups, strict=True)] == [True] * 5
    assert codes[0] != hypostyle.STRING and codes[1] != hypostyle.NUMBER and codes[0] != hypostyle.ROWID
    assert cursor.description[2][4:6] == (9, 2)
    assert all(len(column) == 7 for column in cursor.description)
    assert cursor.rowcount == -1


def test_columns_of_one_name(cursor):
    for sql in ["select 1 as a, 2 as a", "select a, a from t", "select a, * from (select 1 as a) as q"]:
        cursor.execute(sql)
        assert [column[0] for column in cursor.description] == ["a", "a"], sql
    result = cursor.connection.sql("select 1 as a, 2 as a, 3 as b")
    assert result.columns == ["a", "a", "b"]
    assert list(result.df().columns) == ["a", "a_1", "b"]
    assert result.fetchall() == [(1, 2, 3)]


def test_fetching(cursor):
    assert cursor.execute("select a from t order by a") is cursor
    assert cursor.fetchone() == (0,)
    assert cursor.fetchmany() == [(1,)]
    cursor.arraysize = 2
    assert cursor.fetchmany() == [(2,), (3,)]
    assert cursor.fetchmany(10) == [(4,)]
    assert cursor.fetchone() is None and cursor.fetchall() == [] and cursor.fetchmany() == []
    assert list(cursor.execute("select a from t where a > ? order by a", [2])) == [(3,), (4,)]


def test_fetching_without_a_query(con):
    cursor = con.cursor()
    with pytest.raises(hypostyle.ProgrammingError):
        cursor.fetchone()
    cursor.execute("create table t (a integer)")
    assert cursor.description is None
    with pytest.raises(hypostyle.ProgrammingError):
        cursor.fetchall()
    with pytest.raises(hypostyle.ProgrammingError):
        cursor.executemany("select ?", [(1,)])


def test_closed(cursor):
    cursor.setinputsizes([None])
    cursor.setoutputsize(10)
    cursor.close()
    with pytest.raises(hypostyle.Error):
        cursor.execute("select 1")


def test_commit_and_rollback_without_a_transaction_do_nothing(con):
    con.commit()
    con.rollback()
    assert not con.in_transaction


def test_a_transaction_is_committed_or_rolled_back(con):
    con.execute("create table t (a integer)")
    con.begin()
    assert con.in_transaction
    con.cursor().execute("insert into t values (1)")
    con.rollback()
    con.begin()
    cursor = con.cursor().execute("insert into t values (2)")
    con.commit()
    assert cursor.execute("select a from t").fetchall() == [(2,)]


def test_constructors():
    assert hypostyle.Date(2024, 1, 2) == datetime.date(2024, 1, 2)
    assert hypostyle.Time(1, 2, 3) == datetime.time(1, 2, 3)
    assert hypostyle.Timestamp(2024, 1, 2, 3, 4, 5) == datetime.datetime(2024, 1, 2, 3, 4, 5)
    ticks = datetime.datetime(2024, 1, 2, 3, 4, 5).timestamp()
    assert hypostyle.DateFromTicks(ticks) == datetime.date(2024, 1, 2)
    assert hypostyle.TimeFromTicks(ticks) == datetime.time(3, 4, 5)
    assert hypostyle.TimestampFromTicks(ticks) == datetime.datetime(2024, 1, 2, 3, 4, 5)
    assert hypostyle.Binary(b"x") == b"x"


def test_no_rows_come_behind_an_error():
    # A server sends its error at once.
    con = hypostyle.connect()
    query = "select value / (50000 - value) as x from generate_series(1, 100000)"
    cursor = con.cursor()
    cursor.execute(query)
    result = con.sql(query)
    batches = con.sql(query).batches()
    for _ in range(3):
        with pytest.raises(hypostyle.Error, match="division by zero"):
            cursor.fetchall()
        with pytest.raises(hypostyle.Error, match="division by zero"):
            result.fetchall()
        with pytest.raises(Exception, match="division by zero"):
            list(batches)


def test_parameters_of_table_functions(con, tmp_path):
    file = tmp_path / "a'b.csv"
    file.write_text("a,b\n1,x\n")
    days = [datetime.date(2020, 1, 1), None]
    assert con.execute("select * from generate_series(-1, ?)", [1]).fetchall() == [(-1,), (0,), (1,)]
    assert con.execute("select * from unnest($days)", {"days": days}).fetchall() == [(day,) for day in days]
    assert con.execute("select * from read_csv(?)", [str(file)]).fetchall() == [(1, "x")]
    assert con.execute("select ? || ?", ["a", "b"]).fetchall() == [("ab",)]


def test_rowcount_of_statements_that_return_what_they_have_written(con):
    cursor = con.cursor()
    cursor.execute("create table written (a int)")
    cursor.execute("insert into written values (1), (2), (3) returning a")
    assert (cursor.fetchall(), cursor.rowcount) == ([(1,), (2,), (3,)], 3)
    cursor.execute("update written set a = a + 1 where a > 1 returning a")
    assert (cursor.fetchall(), cursor.rowcount) == ([(3,), (4,)], 2)
    cursor.execute("delete from written where a > 7 returning a")
    assert (cursor.fetchall(), cursor.rowcount) == ([], 0)
