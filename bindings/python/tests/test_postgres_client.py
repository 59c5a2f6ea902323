"""Connections to a PostgreSQL server: the same calls and results as with a database of ours."""

import datetime as dt
import decimal
import threading
import time
import uuid

import hypostyle
import pyarrow as pa
import pytest
from compared.peers import postgres_program, postgres_server

pytestmark = pytest.mark.skipif(
    postgres_program() is None, reason="no program of a PostgreSQL server: install postgresql-15"
)


@pytest.fixture(scope="module")
def address():
    """A server's URL."""
    with postgres_server() as keywords:
        given = dict(part.split("=", 1) for part in keywords.split())
        yield f"postgresql://{given['user']}@/postgres?host={given['host']}"


@pytest.fixture(params=["auto", "copy", "rows"])
def con(address, request):
    with hypostyle.connect(f"{address}&transfer={request.param}") as connection:
        yield connection


def test_a_result_has_every_form(con):
    columns = "i, i::numeric(9,2) / 4 as n, 'é' || i as t, date '2024-02-29' + i as d"
    sql = f"select {columns} from generate_series(1, 3) i"
    result = con.sql(sql)
    assert result.columns == ["i", "n", "t", "d"]
    table = result.arrow()
    assert table.column("i").to_pylist() == [1, 2, 3]
    assert table.column("t").to_pylist() == ["é1", "é2", "é3"]
    assert con.sql(sql).fetchone()[3] == dt.date(2024, 3, 1)
    frame = con.sql(sql).df()
    assert list(frame["i"]) == [1, 2, 3]
    assert list(con.sql(sql).fetchnumpy()["i"]) == [1, 2, 3]
    assert sum(batch.num_rows for batch in con.sql(sql).batches()) == 3


def test_values_are_exact(con):
    row = con.sql(
        "select 12.30::numeric(9,2), 2::int8, true, null::int, '{1,null}'::int[], "
        "timestamptz '2024-01-01 00:00+02', '\\x00ff'::bytea, interval '1 month 2 days 3.5 s', "
        "'6ccd780c-baba-1026-9564-5b8c656024db'::uuid, '{\"a\":1}'::jsonb"
    ).fetchone()
    assert row[:5] == (decimal.Decimal("12.30"), 2, True, None, [1, None])
    assert row[5] == dt.datetime(2023, 12, 31, 22, tzinfo=dt.UTC)
    assert row[6] == b"\x00\xff"
    assert str(row[8]) == "6ccd780c-baba-1026-9564-5b8c656024db"
    assert str(row[9]) == '{"a": 1}'


def test_parameters_are_bound_by_the_server(con):
    assert con.execute("select ?::int + ?", [1, 2]).fetchone() == (3,)
    assert con.execute("select $2::text || $1", ["a", "b"]).fetchone() == ("ba",)
    assert con.execute("select $x::int * $y", {"x": 6, "y": 7}).fetchone() == (42,)
    hostile = "'; drop table pg_class; --"
    assert con.execute("select ?::text", [hostile]).fetchone() == (hostile,)
    json = con.execute("select '{\"a\":1}'::jsonb ? $1, '{}'::jsonb ? 'a'", ["a"]).fetchone()
    assert json == (True, False)
    for given in ([1, 2], []):
        with pytest.raises(hypostyle.Error, match="1 parameters"):
            con.execute("select ?::int", given)


def test_structures_and_lists_of_lists_are_bound(con):
    con.execute("CREATE TYPE pg_temp.bound AS (x int, y text)")
    text = 'a "b", (c)\\'
    assert con.sql("SELECT ($1::pg_temp.bound).y", [{"x": 1, "y": text}]).fetchall() == [(text,)]
    several = [{"x": None, "y": ""}, None, {"x": 2, "y": text}]
    query = "SELECT y, x FROM unnest($1::pg_temp.bound[])"
    assert con.sql(query, [several]).fetchall() == [("", None), (None, None), (text, 2)]
    assert con.sql("SELECT ($1::int[])[2][1]", [[[1, 2], [3, None]]]).fetchall() == [(3,)]


def test_a_uuid_is_one_in_a_transaction_too(con):
    value = uuid.UUID("6ccd780c-baba-1026-9564-5b8c656024db")
    assert con.execute("select ?", [value]).fetchone() == (value,)
    with con.transaction():
        con.execute("create temp table ids (id uuid)")
        con.execute("insert into ids values (?)", [value])
        assert con.execute("select count(*) from ids where id = ?", [value]).fetchone() == (1,)
    con.execute("drop table ids")


def test_rows_are_appended_by_columns(con):
    con.execute("drop table if exists appended")
    data = {"i": [1, 2, None], "t": ["a", None, "é"], "d": [dt.date(2024, 1, 1)] * 3}
    assert con.append("appended", pa.table(data), create=True) == 3
    assert con.append("appended", pa.table(data)) == 3
    assert con.sql("select count(*), count(i), max(t), min(d) from appended").fetchone() == (
        6,
        4,
        "é",
        dt.date(2024, 1, 1),
    )
    with pytest.raises(hypostyle.Error):
        con.append("appended", pa.table({"nosuch": [1]}))
    assert con.table("appended").arrow().num_rows == 6


def test_transactions_are_the_server_s(con):
    con.execute("drop table if exists kept")
    con.execute("create table kept (i int)")
    with pytest.raises(ZeroDivisionError), con.transaction():
        con.execute("insert into kept values (1)")
        1 / 0  # noqa: B018
    with con.transaction():
        con.execute("insert into kept values (2)")
    assert con.sql("select i from kept").fetchall() == [(2,)]


def test_a_transaction_that_an_error_has_aborted_is_not_committed(con):
    con.execute("begin")
    with pytest.raises(hypostyle.Error) as caught:
        con.sql("select 1 / 0").fetchall()
    assert caught.value.sqlstate == "22012"
    with pytest.raises(hypostyle.Error) as caught:
        con.execute("commit")
    assert caught.value.sqlstate == "25P02"
    assert con.execute("rollback; begin; commit; select 1").fetchone() == (1,)


TEXTS = [
    ("uuid", "6ccd780c-baba-1026-9564-5b8c656024db"),
    ("int[]", "{1,NULL,3}"),
    ("uuid[]", ["6ccd780c-baba-1026-9564-5b8c656024db", None]),
    ("timestamptz", "2024-01-01 00:00+02"),
    ("date", "29-feb-2024"),
    ("interval", "P1DT2H"),
    ("bytea", r"\x00ff"),
    ("int", " 12 "),
    ("boolean", "yes"),
    ("double precision", "1e3"),
    ("numeric", "0.10"),
    ("jsonb", '{"a": 1}'),
    ("inet", "10.0.0.1"),
    ("int4range", "[1,5)"),
    ("text", "plain"),
    ("text[]", '{a,"b c",NULL}'),
]


@pytest.mark.parametrize(("kind", "text"), TEXTS)
def test_the_server_reads_texts_for_other_types(con, kind, text):
    constant = "{" + ",".join(value or "NULL" for value in text) + "}" if isinstance(text, list) else text
    expected = con.sql(f"select cast('{constant}' as {kind})::text").fetchall()
    assert con.execute(f"select cast(? as {kind})::text", [text]).fetchall() == expected
    con.execute(f"drop table if exists texts; create table texts (v {kind}, f float8)")
    con.append("texts", {"v": [text, None], "f": [0.1, None]})
    assert con.sql("select v::text from texts where f = 0.1").fetchall() == expected
    assert con.sql("select count(*) from texts where v is null").fetchone() == (1,)


def test_a_text_that_is_no_value_is_refused_by_the_server(con):
    with pytest.raises(hypostyle.Error) as caught:
        con.execute("select ?::int", ["x"])
    assert caught.value.sqlstate == "22P02"
    con.execute("drop table if exists texts; create table texts (v int)")
    with pytest.raises(hypostyle.Error) as caught:
        con.append("texts", {"v": ["1", "x"]})
    assert caught.value.sqlstate == "22P02"
    assert "row 2" in str(caught.value)
    assert con.sql("select count(*) from texts").fetchone() == (0,)


def test_values_that_would_change_are_not_appended(con):
    con.execute("drop table if exists whole; create table whole (v int, l int[])")
    for data in ({"v": [1.5]}, {"l": [[1.0, 2.5]]}, {"v": [2**40]}, {"l": [[2**40]]}):
        with pytest.raises(hypostyle.Error):
            con.append("whole", data)
    con.execute("drop table if exists finer; create table finer (t timestamp, d date)")
    for column, values in (("t", pa.array([1], pa.timestamp("ns"))), ("d", pa.array([1], pa.timestamp("s")))):
        with pytest.raises(hypostyle.DataError, match="finer than"):
            con.append("finer", pa.table({column: values}))
    assert con.append("finer", pa.table({"t": pa.array([1000], pa.timestamp("ns"))})) == 1
    assert con.append("whole", {"v": [2.0], "l": [[1.0, None]]}) == 1
    assert con.sql("select * from whole").fetchall() == [(2, [1, None])]


def test_errors_are_the_server_s_with_their_place(con):
    with pytest.raises(hypostyle.Error) as caught:
        con.sql("select 1,\n nosuch").fetchall()
    assert caught.value.sqlstate == "42703"
    assert "nosuch" in str(caught.value)
    with pytest.raises(hypostyle.Error) as caught:
        con.sql("select 1 / (5000 - i) from generate_series(1, 10000) i").fetchall()
    assert caught.value.sqlstate == "22012"
    assert con.sql("select 1").fetchone() == (1,)


def test_statements_are_interrupted(con):
    timer = threading.Timer(0.3, con.interrupt)
    timer.start()
    begin = time.monotonic()
    with pytest.raises(hypostyle.QueryInterrupted):
        con.sql("select pg_sleep(60)").fetchall()
    assert time.monotonic() - begin < 10
    timer.join()
    assert con.sql("select 1").fetchone() == (1,)


def test_tables_are_listed(con):
    con.execute("drop table if exists listed")
    con.execute("create table listed (i int not null, t text)")
    names = con.sql("select relname from pg_class").arrow()["relname"].to_pylist()
    assert "listed" in names
    assert con.table("listed").columns == ["i", "t"]


def test_data_of_the_program_are_no_tables_of_the_server(con):
    frame = pa.table({"a": [1, 2]})
    for call in (
        lambda: con.from_df(frame),
        lambda: con.from_arrow(frame),
        lambda: con.register("frame", frame),
        lambda: con.read_csv("a.csv"),
        lambda: con.read_parquet(["a.parquet"]),
        lambda: con.read_json("a.json", lines=True),
        lambda: con.serve("127.0.0.1:0"),
    ):
        with pytest.raises(hypostyle.NotSupportedError):
            call()
    with pytest.raises(hypostyle.UnknownNameError, match='variable "frame" is no table of PostgreSQL'):
        con.sql("select * from frame")
    with pytest.raises(hypostyle.UnknownNameError) as failed:
        con.sql("select * from nosuch_here")
    assert "variable" not in str(failed.value)
    con.execute("create temporary table framed (a bigint)")
    assert con.append("framed", frame) == 2
    assert con.sql("select sum(a)::bigint from framed").fetchone() == (3,)


def test_blocks_of_transactions_are_not_within_others(con):
    con.execute("drop table if exists blocks")
    con.execute("create table blocks (a int)")
    with pytest.raises(hypostyle.TransactionStateError) as failed, con.transaction():
        con.execute("insert into blocks values (1)")
        with con.transaction():
            pass
    assert failed.value.sqlstate == "25001" and not con.in_transaction
    assert con.table("blocks").fetchall() == []
    con.begin(read_only=True)
    with pytest.raises(hypostyle.Error) as failed:
        con.execute("insert into blocks values (1)")
    assert failed.value.sqlstate == "25006"
    con.rollback()

    runs = []

    def work(connection):
        runs.append(connection.execute("insert into blocks values (2)").rows_affected)
        if len(runs) == 1:
            connection.execute("do $$begin raise exception using errcode = '40001'; end$$")
        return len(runs)

    assert con.run_transaction(work) == 2
    assert con.table("blocks").fetchall() == [(2,)]


def test_what_a_connection_tells(con):
    assert con.path is None and not con.closed and con.address.startswith("postgresql://")
    assert con.progress is None
    assert con.executemany("select ?::int", [[1], [2]]) == 0
    assert con.progress is not None
    con.execute("create temporary table many (a int, b text)")
    assert con.executemany("insert into many values (?, ?)", [(1, "x"), (2, "y")]) == 2
    cursor = con.cursor()
    cursor.execute("select a, b from many order by a")
    assert [column[0] for column in cursor.description] == ["a", "b"]
    assert cursor.fetchmany(1) == [(1, "x")] and cursor.fetchall() == [(2, "y")]
    result = con.execute("select a, b from many order by a")
    assert (len(result), result.shape, list(result)) == (2, (2, 2), [(1, "x"), (2, "y")])
    assert (con.fetchone(), con.fetchmany(5), con.fetchall()) == ((1, "x"), [(2, "y")], [])
    with con.duplicate() as other:
        assert other.sql("select to_regclass('many') is null").fetchone() == (True,)
    tables = {(table.schema, table.name): table for table in con.tables()}
    many = next(table for (_, name), table in tables.items() if name == "many")
    assert (many.kind, many.rows, [column[:2] for column in many.columns]) == (
        "table",
        None,
        [("a", "INTEGER"), ("b", "VARCHAR")],
    )
    plan = con.explain("select a from many where b = ?", ["x"], analyze=True)
    assert repr(plan).startswith("Seq Scan on many") and "actual time" in repr(plan)
    assert "&gt;" in con.sql("explain select a from many where a > 1")._repr_html_()
    con.close()
    con.close()
    with pytest.raises(hypostyle.ClosedError):
        con.sql("select 1")


def test_what_there_is_not_is_a_clear_error(address):
    with pytest.raises(hypostyle.Error, match="read-only"):
        hypostyle.connect(address, read_only=True)
    with (
        hypostyle.connect(f"{address}&transfer=columns") as con,
        pytest.raises(hypostyle.Error, match="CREATE EXTENSION hypostyle"),
    ):
        con.sql("select 1").fetchall()
    with pytest.raises(hypostyle.Error, match="nosuch"):
        hypostyle.connect(f"{address}&nosuch=1")
    with pytest.raises(hypostyle.Error):
        hypostyle.connect("postgresql://nobody@127.0.0.1:1/x")
