"""The module as a connection, registered data, and the connection's own fetch methods."""

import os
import threading

import hypostyle
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest


@pytest.fixture
def default():
    """Return the default connection, and leave none behind."""
    connection = hypostyle.default_connection()
    yield connection
    connection.close()


def test_the_default_connection(default):
    assert default.path is None
    hypostyle.execute("create table t as select 1 as a")
    frame = pd.DataFrame({"b": [2]})  # noqa: F841 - read by its name
    assert hypostyle.sql("select a, b from t, frame").fetchall() == [(1, 2)]
    assert hypostyle.sql("select ? + 1 as x", [1]).fetchone() == (2,)
    assert hypostyle.default_connection() is default
    found = []
    thread = threading.Thread(target=lambda: found.append(hypostyle.sql("select a from t").fetchall()))
    thread.start()
    thread.join()
    assert found == [[(1,)]]


def test_a_default_connection_that_was_closed_is_made_anew(default):
    hypostyle.execute("create table t as select 1 as a")
    default.close()
    with pytest.raises(hypostyle.UnknownNameError):
        hypostyle.sql("select * from t")
    hypostyle.default_connection().close()


def test_a_child_has_a_default_connection_of_its_own(default):
    hypostyle.execute("create table t as select 1 as a")
    child = os.fork()
    if child == 0:
        try:
            assert hypostyle.sql("select 41 + 1 as x").fetchall() == [(42,)]
            assert [table.name for table in hypostyle.default_connection().tables()] == []
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert hypostyle.sql("select * from t").fetchall() == [(1,)]


def test_files(default, tmp_path):
    (tmp_path / "it's.csv").write_text("a|b\n1|NA\n2|x\n")
    (tmp_path / "two.csv").write_text("a|b\n3|y\n")
    options = {"delim": "|", "nullstr": ["NA"], "header": True}
    assert hypostyle.read_csv(tmp_path / "it's.csv", **options).fetchall() == [(1, None), (2, "x")]
    paths = [str(tmp_path / "it's.csv"), tmp_path / "two.csv"]
    assert hypostyle.read_csv(paths, types={"a": "VARCHAR"}, **options)["a"].tolist() == ["1", "2", "3"]
    assert len(hypostyle.read_csv(str(tmp_path / "*.csv"), skip=1, header=False, delim="|")) == 3
    hypostyle.execute(f"copy (select 7 as x) to '{tmp_path}/x.parquet'")
    hypostyle.execute(f"copy (select 8 as x) to '{tmp_path}/x.json'")
    assert hypostyle.read_parquet(tmp_path / "x.parquet").fetchall() == [(7,)]
    assert hypostyle.read_json(tmp_path / "x.json").fetchall() == [(8,)]
    with pytest.raises(hypostyle.Error, match='did you mean "header"'):
        hypostyle.read_csv(tmp_path / "two.csv", heder=True)
    with pytest.raises(hypostyle.DataError, match="but not bytes"):
        hypostyle.read_csv(b"two.csv")


def test_frames_as_results(con):
    assert con.from_df(pd.DataFrame({"a": [1, None]})).fetchall() == [(1.0,), (None,)]
    assert con.from_df(pl.DataFrame({"a": ["x"]})).types == ["VARCHAR"]
    assert con.from_arrow(pa.table({"a": [1, 2]}).to_reader()).fetchall() == [(1,), (2,)]
    with pytest.raises(hypostyle.DataError, match="a list is no table"):
        con.from_df([1])


def test_registered_tables(con):
    frame = pd.DataFrame({"a": [1, 2]})
    con.register("numbers", frame)
    del frame
    assert con.sql("select sum(a) as s from NUMBERS").fetchone() == (3,)

    def elsewhere():
        return con.sql("select count(*) as n from numbers").fetchone()

    assert elsewhere() == (2,)
    numbers = {"a": [7]}  # noqa: F841 - what is registered comes first
    assert con.sql("select a from numbers").fetchall() == [(1,), (2,)]
    con.register("numbers", {"a": np.arange(5)})
    assert elsewhere() == (5,)
    con.unregister("numbers")
    con.unregister("numbers")
    assert con.sql("select a from numbers").fetchall() == [(7,)]
    with pytest.raises(hypostyle.DataError, match='"numbers" is a int'):
        con.register("numbers", 5)
    con.execute("create table stored as select 1 as a")
    con.register("stored", {"a": [2]})
    assert con.sql("select a from stored").fetchall() == [(1,)]


def test_fetching_from_the_connection(con):
    with pytest.raises(hypostyle.ProgrammingError, match="execute\\(\\) has run no query"):
        con.fetchall()
    query = "select * from (values (1, 'a'), (2, 'b'), (3, null)) as t (x, y) order by x"
    con.execute(query)
    assert con.fetchone() == (1, "a")
    assert con.fetchmany(1) == [(2, "b")]
    assert con.fetchall() == [(3, None)]
    assert con.fetchnumpy()["x"].tolist() == [1, 2, 3]
    assert con.df()["x"].tolist() == con.fetchdf()["x"].tolist() == [1, 2, 3]
    assert con.pl()["x"].to_list() == con.arrow()["x"].to_pylist() == [1, 2, 3]
    con.execute(query)
    assert con.fetch_record_batch().read_all().num_rows == 3
    assert con.sql(query).fetch_record_batch().read_all().num_rows == 3
    # `sql()` leaves the result of `execute()`; a statement without rows, or that fails, removes it.
    con.execute(query)
    con.sql("select 1 as x")
    assert len(con.fetchall()) == 3
    con.execute("create table t (a integer)")
    with pytest.raises(hypostyle.ProgrammingError):
        con.fetchall()
    con.execute(query)
    with pytest.raises(hypostyle.Error):
        con.execute("select * from nothing")
    with pytest.raises(hypostyle.ProgrammingError):
        con.fetchall()


OTHERS = {
    "number": (5, "an int, which is not read as a table; pass a pandas or Polars frame"),
    "series": (pd.Series([1]), "a pandas.Series, which is not read as a table; pass its to_frame()"),
    "polars_series": (pl.Series([1]), "a polars.Series, which"),
    "array": (np.arange(3), "a numpy.ndarray, which is not read as a table; pass a dict of it"),
    "some_list": ([1, 2], "a list, which is not read as a table; pass a dict of lists"),
    "some_dict": ({"a": 1}, "a dict, which is not read as a table; pass one whose values are arrays"),
    "module": (os, "a module, which"),
    "nothing": (None, "a NoneType, which"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_variable_that_is_no_table(con, name):
    value, what = OTHERS[name]
    locals_of_a_caller = {"con": con, name: value}
    for spelled in (name, name.upper()):
        with pytest.raises(hypostyle.UnknownNameError) as error:
            exec(f"con.sql('select * from {spelled}')", {}, locals_of_a_caller)
        assert f'the Python variable "{name}" is {what}' in error.value.message
        assert error.value.sqlstate == "42P01"
    with pytest.raises(hypostyle.UnknownNameError) as error:
        con.sql("select * from there_is_none_such")
    assert "Python" not in error.value.message


def test_a_table_further_out_comes_before_what_is_none(con):
    rows = {"a": [1]}  # noqa: F841 - read by its name

    def inner():
        rows = 5  # noqa: F841
        return con.sql("select * from rows").fetchall()

    assert inner() == [(1,)]
