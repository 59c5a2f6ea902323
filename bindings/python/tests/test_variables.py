"""`FROM name`: variables of the program as tables."""

import gc
import weakref

import hypostyle
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

module_frame = pd.DataFrame({"x": [10, 20]})


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame({"x": [1, 2]}),
        pl.DataFrame({"x": [1, 2]}),
        pl.LazyFrame({"x": [1, 2]}),
        pa.table({"x": [1, 2]}),
        pa.record_batch({"x": [1, 2]}),
        {"x": np.array([1, 2])},
        {"x": [1, 2]},
    ],
    ids=["pandas", "polars", "lazy", "table", "batch", "dict", "lists"],
)
def test_kinds_of_variables(con, data):
    assert con.sql("select sum(x) as s from data").fetchone() == (3,)
    assert con.execute("select * from data").fetchall() == [(1,), (2,)]
    assert con.cursor().execute("select max(x) as m from data").fetchone() == (2,)


def test_a_reader_can_be_named_twice(con):
    reader = pa.table({"x": [1, 2]}).to_reader()  # noqa: F841
    assert con.sql("select count(*) as n from reader a, reader b").fetchone() == (4,)


@pytest.mark.parametrize("kind", ["pandas", "arrow", "reader", "csv"])
def test_rows_keep_their_order(con, tmp_path, kind):
    values = np.random.default_rng(7).permutation(300_000)
    data, source = pa.table({"v": values}), "data"
    if kind == "pandas":
        data = data.to_pandas()
    elif kind == "reader":
        data = pa.RecordBatchReader.from_batches(data.schema, data.to_batches(max_chunksize=5000))
    elif kind == "csv":
        source = f"'{tmp_path / 'data.csv'}'"
        data.to_pandas().to_csv(tmp_path / "data.csv", index=False)
    con.execute(f"create table copy as select v, 'text ' || v as w from {source} where v % 5 <> 2")
    assert (con.sql("select v from copy").df()["v"].to_numpy() == values[values % 5 != 2]).all()


def test_a_result_is_a_table(con):
    numbers = con.sql("select 7 as x")  # noqa: F841
    assert con.sql("select x + 1 as y from numbers").fetchone() == (8,)


def test_globals_case_and_comprehensions(con):
    MixedCase = pd.DataFrame({"x": [5]})
    assert con.sql("select * from module_frame").fetchall() == [(10,), (20,)]
    assert con.sql("select * from MixedCase").fetchall() == [(5,)]
    assert con.sql('select * from "MixedCase"').fetchall() == [(5,)]
    assert [con.sql(f"select {n} as n from MixedCase").fetchone() for n in range(2)] == [(0,), (1,)]
    assert len(MixedCase) == 1


def test_exact_spelling_comes_first(con):
    frame = pd.DataFrame({"x": [1]})
    FRAME = pd.DataFrame({"x": [2]})
    assert con.sql("select * from frame").fetchall() == [(1,)]
    assert con.sql('select * from "FRAME"').fetchall() == [(2,)]
    assert len(frame) == len(FRAME)


def test_a_table_hides_a_variable(con):
    t = pd.DataFrame({"x": [1]})
    con.append("t", {"x": [2]}, create=True)
    assert con.sql("select * from t").fetchall() == [(2,)]
    assert len(t) == 1


def test_functions_that_wrap_sql(con):
    def ask(query):
        return con.sql(query).fetchall()

    local = pd.DataFrame({"x": [3]})
    assert ask("select * from local") == [(3,)]
    assert len(local) == 1


def test_variables_that_are_no_tables(con):
    number, series, array = 5, pd.Series([1]), pa.array([1])  # noqa: F841
    for name in ("number", "series", "array", "nothing_at_all"):
        with pytest.raises(hypostyle.UnknownNameError):
            con.sql(f"select * from {name}")


def test_a_variable_that_cannot_be_read_says_why(con):
    broken = pd.DataFrame({"x": [object()]})
    with pytest.raises(hypostyle.DataError, match=r'"broken".*column "x", row 0'):
        con.sql("select * from broken")
    assert len(broken) == 1


def test_a_server_gets_no_variable_that_nobody_has_allowed(tmp_path):
    secret = pd.DataFrame({"x": [1]})
    with (
        hypostyle.connect() as database,
        database.serve(listen="127.0.0.1:0", unix=tmp_path / "socket") as server,
    ):
        tcp, unix = server.addresses
        for address, allowed in [
            (tcp, False),
            (tcp + "?variables=on", True),
            (unix, True),
            (unix + "?variables=off", False),
        ]:
            with hypostyle.connect(address) as con:
                if allowed:
                    assert con.sql("select * from secret").fetchall() == [(1,)]
                else:
                    with pytest.raises(hypostyle.UnknownNameError):
                        con.sql("select * from secret")
    assert len(secret) == 1


def test_a_view_never_reads_a_variable_or_a_file(con, tmp_path):
    hidden = pd.DataFrame({"x": [1]})
    path = tmp_path / "secret.csv"
    path.write_text("x\n7\n")
    for name in ["hidden", str(path)]:
        con.execute(f'create table "{name}" (x integer)')
        con.execute(f'create view v as select * from "{name}"')
        con.execute(f'drop table "{name}"')
        with pytest.raises(hypostyle.UnknownNameError):
            con.sql("select * from v")
        assert con.sql(f'select count(*) from "{name}"').fetchone() == (1,)
        con.execute("drop view v")
    assert len(hidden) == 1


def test_frames_are_let_go(con):
    class Marker:
        pass

    def use():
        marker = Marker()
        frame = pd.DataFrame({"x": [1]})  # noqa: F841
        result = con.sql("select * from frame")
        return weakref.ref(marker), result.fetchall()

    marker, rows = use()
    gc.collect()
    assert rows == [(1,)] and marker() is None
