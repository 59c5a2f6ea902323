"""Appends of every kind of container, and the errors of wrong ones."""

import collections
import datetime as dt
from decimal import Decimal

import hypostyle
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest


def stored(con, data):
    con.append("t", data, create=True)
    return con.table("t")


@pytest.mark.parametrize(
    "dtype",
    ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", ">i4", ">f8", ">u2"],
)
def test_numpy_numbers(con, dtype):
    array = np.array([0, 1, 1, 0, 1], dtype)
    result = stored(con, {"v": array})["v"]
    assert result.dtype == array.dtype.newbyteorder("=")
    assert result.tolist() == array.tolist()


def test_numpy_half_floats_become_single(con):
    result = stored(con, {"v": np.array([1.5, -2.25], np.float16)})
    assert result.types == ["FLOAT"] and result["v"].tolist() == [1.5, -2.25]


def test_numpy_arrays_that_are_not_contiguous(con):
    array = np.arange(20).reshape(10, 2)
    result = stored(con, {"a": array[:, 1], "b": array[::-1, 0]})
    assert result["a"].tolist() == array[:, 1].tolist()
    assert result["b"].tolist() == array[::-1, 0].tolist()


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns"])
def test_numpy_datetime_units(con, unit):
    array = np.array(["2024-03-01", "NaT", "1969-01-01"], "M8[D]").astype(f"M8[{unit}]")
    result = stored(con, {"v": array})["v"]
    assert np.isnat(result).tolist() == [False, True, False]
    assert (result[[0, 2]] == array[[0, 2]]).all()


@pytest.mark.parametrize("unit", ["W", "D", "h", "m", "s", "ms", "us", "ns"])
def test_numpy_timedelta_units(con, unit):
    array = np.array([5, "NaT", -3], f"m8[{unit}]")
    result = stored(con, {"v": array})["v"]
    assert np.isnat(result).tolist() == [False, True, False]
    assert (result[[0, 2]] == array[[0, 2]]).all()


def test_numpy_masks(con):
    mask = [False, True, False]
    data = {
        "i": np.ma.MaskedArray([1, 2, 3], mask),
        "f": np.ma.MaskedArray([1.0, 2.0, np.nan], mask),
        "d": np.ma.MaskedArray(np.array(["2024-01-01"] * 3, "M8[D]"), mask),
        "o": np.ma.MaskedArray(np.array(["a", "b", "c"], object), mask),
    }
    rows = stored(con, data).fetchall()
    assert rows[1] == (None, None, None, None)
    assert rows[0] == (1, 1.0, dt.date(2024, 1, 1), "a")
    assert rows[2][1] != rows[2][1]  # NaN is a value of its own


@pytest.mark.parametrize(
    "array",
    [
        np.array(["Zürich", "", "日本"]),
        np.array(["Zürich", "", "日本"], np.dtypes.StringDType()),
        np.array(["Zürich", "", "日本"], object),
        np.array(["", "", "日本" * 30], np.dtypes.StringDType(na_object=None)),
    ],
    ids=["U", "StringDType", "object", "StringDType None"],
)
def test_numpy_strings(con, array):
    result = stored(con, {"v": array})
    assert result.types == ["VARCHAR"]
    assert [row[0] for row in result] == array.tolist()


def test_numpy_missing_strings(con):
    array = np.array(["a", None, "b"], np.dtypes.StringDType(na_object=None))
    assert stored(con, {"v": array}).fetchall() == [("a",), (None,), ("b",)]


def test_numpy_bytes(con):
    assert stored(con, {"v": np.array([b"ab", b"c"])}).fetchall() == [(b"ab",), (b"c",)]


def test_a_structured_array_is_a_table(con):
    array = np.array([(1, 2.5), (3, 4.5)], [("a", "i4"), ("b", "f8")])
    assert stored(con, array).fetchall() == [(1, 2.5), (3, 4.5)]


def test_types_are_found_in_all_rows_not_a_sample(con):
    values = [Decimal("1.5")] * 5000 + [Decimal("12345678901234567890.12345")]
    result = stored(con, {"v": values})
    assert result.types == ["DECIMAL(25,5)"]
    assert result.arrow()["v"][5000].as_py() == values[-1]


def test_integers_take_the_room_they_need(con):
    result = stored(con, {"a": [1, None], "b": [2**63, 0], "c": [2**100, -1], "d": [1, 2.5]})
    assert result.types == ["BIGINT", "UBIGINT", "DECIMAL(31,0)", "DOUBLE"]
    assert result.fetchall() == [(1, 2**63, 2**100, 1.0), (None, 0, -1, 2.5)]


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "i": [1, 2, 3],
            "f": [1.5, np.nan, 2.5],
            "b": pd.array([True, None, False], "boolean"),
            "n": pd.array([1, None, 3], "Int32"),
            "s": ["x", None, "y"],
            "o": pd.Series([Decimal("1.10"), None, Decimal("2.25")], dtype=object),
            "d": pd.Series([dt.date(2024, 1, 1), None, dt.date(2024, 1, 2)], dtype=object),
            "t": pd.to_datetime(["2024-01-01 10:00", None, "2024-01-02 00:00"]),
            "z": pd.to_datetime(["2024-01-01 10:00", None, "2024-01-02 00:00"]).tz_localize("Europe/Rome"),
            "k": pd.Categorical(["lo", None, "hi"], ["lo", "hi"]),
            "w": pd.to_timedelta([1, None, 2], "s"),
            "a": pd.array([dt.date(2024, 1, 1), None, dt.date(2024, 1, 3)], pd.ArrowDtype(pa.date32())),
        }
    )


def test_pandas(con, frame):
    result = stored(con, frame)
    assert result.columns == list(frame.columns)
    assert result.fetchall()[1] == (2,) + (None,) * 11
    first, _, last = list(result)
    assert first[:7] == (1, 1.5, True, 1, "x", Decimal("1.10"), dt.date(2024, 1, 1))
    assert first[7] == dt.datetime(2024, 1, 1, 10)
    assert first[8] == frame["z"][0].to_pydatetime()
    assert last[9:] == ("hi", dt.timedelta(seconds=2), dt.date(2024, 1, 3))


def test_pandas_round_trip(con):
    frame = pd.DataFrame(
        {
            "i": [1, 2],
            "f": [0.5, np.nan],
            "s": ["long enough to be plain", "b"],
            "t": pd.to_datetime(["2024-01-01", "2024-01-02"]).as_unit("us"),
        }
    )
    con.append("t", frame, create=True)
    back = con.table("t").df()
    back["s"] = back["s"].astype("str")
    pd.testing.assert_frame_equal(back, frame)


def test_polars(con):
    frame = pl.DataFrame(
        {
            "a": [1, None],
            "s": ["x", None],
            "c": pl.Series(["u", "v"], dtype=pl.Categorical),
            "d": [dt.date(2024, 1, 1), None],
            "l": [[1], None],
        }
    )
    assert stored(con, frame).fetchall() == frame.rows()
    con.append("lazy", frame.lazy(), create=True)
    assert con.table("lazy").fetchall() == frame.rows()


@pytest.mark.parametrize("form", ["table", "batch", "reader", "chunked"])
def test_pyarrow(con, form):
    table = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]})
    data = {
        "table": table,
        "batch": table.to_batches()[0],
        "reader": table.to_reader(max_chunksize=1),
        "chunked": {
            name: pa.chunked_array([table[name].chunk(0)[:1], table[name].chunk(0)[1:]]) for name in "ab"
        },
    }[form]
    assert stored(con, data).fetchall() == [(1, "x"), (2, None), (3, "z")]


def test_a_stream_of_another_library(con):
    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.table({"a": [1, 2]}).__arrow_c_stream__(requested_schema)

    assert stored(con, Stream()).fetchall() == [(1,), (2,)]


def test_a_result_is_data(con):
    con.append("t", {"a": [1, 2]}, create=True)
    assert con.append("copy", con.sql("select a * 2 as a from t"), create=True) == 2
    assert con.table("copy").fetchall() == [(2,), (4,)]


def test_rows(con):
    assert con.append("t", [{"a": 1, "b": "x"}, {"b": "y", "c": 2.5}], create=True) == 2
    assert con.table("t").fetchall() == [(1, "x", None), (None, "y", 2.5)]
    assert con.append("t", [(7, "z", 0.5)]) == 1
    point = collections.namedtuple("point", "c a")
    con.append("t", [point(9.5, 8)])
    assert con.table("t").fetchall()[2:] == [(7, "z", 0.5), (8, None, 9.5)]
    assert con.append("t", ((n, str(n), n / 2) for n in range(3))) == 3


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"a": [1, 2], "b": [1]}, 'column "b" has 1 rows, but column "a" has 2'),
        ({"a": [1, "x"]}, 'column "a", row 1: the value is a VARCHAR, but the rows before are BIGINT'),
        ({"a": [1, object()]}, 'column "a", row 1: a value of the Python type object'),
        ({"a": [2**300]}, 'column "a", row 0'),
        ({"a": np.zeros(2, complex)}, 'column "a" has the NumPy dtype complex128'),
        ({"a": np.zeros((2, 2, 2))}, 'column "a" has 3 dimensions'),
        ({"a": 5}, 'column "a" is a int'),
        ({"a": [Decimal("NaN")]}, 'column "a", row 0: DECIMAL cannot hold NaN'),
        ({"a": np.array(["1970-01-01"], "M8[ps]")}, 'column "a" has the NumPy dtype datetime64'),
        ({"a": [[1], ["x"]]}, 'column "a", row 1'),
        ([(1, 2), (3,)], "row 1 has 1 values, but row 0 has 2"),
        ([(1, 2), "ab"], "row 1 is a str"),
        ([], "there are no rows"),
        (42, "cannot append a int"),
        ("text", "cannot append a str"),
    ],
)
def test_wrong_data_is_named(con, data, message):
    with pytest.raises(hypostyle.DataError) as error:
        con.append("t", data, create=True)
    assert message in str(error.value)
    assert error.value.sqlstate == "22000"
    assert con.tables() == []


def test_a_table_that_is_not_there(con):
    with pytest.raises(hypostyle.UnknownNameError):
        con.append("nowhere", {"a": [1]})


def test_values_that_do_not_fit_the_table(con):
    con.sql("create table t (a tinyint not null, b varchar)")
    with pytest.raises(hypostyle.DataError, match=r"a.*300|300.*a"):
        con.append("t", {"a": [1, 300]})
    with pytest.raises(hypostyle.IntegrityError):
        con.append("t", {"a": [1, None]})
    with pytest.raises(hypostyle.Error, match="c"):
        con.append("t", {"a": [1], "c": [2]})
    assert con.table("t").fetchall() == []
    con.append("t", {"a": [5]})
    assert con.table("t").fetchall() == [(5, None)]


@pytest.mark.parametrize("rows", [1_000, 70_000])
def test_strings_that_are_not_utf8_are_refused(con, rows):
    offsets = pa.py_buffer(np.arange(rows + 1, dtype="i4"))
    column = pa.Array.from_buffers(
        pa.string(), rows, [None, offsets, pa.py_buffer(b"a" * (rows - 1) + b"\xff")]
    )
    with pytest.raises(hypostyle.DataError, match=r'column "a".*xff.*not UTF-8') as error:
        con.append("t", pa.table({"a": column}), create=True)
    assert error.value.sqlstate == "22021"
    # The rows before it are there.
    con.append("t", pa.table({"a": column.slice(0, rows - 1)}), create=True)
    assert con.sql("select count(*) as n, max(upper(a)) as m from t").fetchone() == (rows - 1, "A")


@pytest.mark.parametrize("rows", [1, 100])
def test_thousands_of_small_batches(con, rows):
    schema = pa.schema([("i", pa.int64()), ("s", pa.string())])

    def batches():
        for number in range(5000):
            numbers = range(number * rows, (number + 1) * rows)
            yield pa.record_batch([pa.array(numbers), pa.array(map(str, numbers))], schema)

    count = 5000 * rows
    con.append("small", pa.RecordBatchReader.from_batches(schema, batches()), create=True)
    assert con.sql("select count(*), sum(i), max(length(s)) from small").fetchone() == (
        count,
        count * (count - 1) // 2,
        len(str(count - 1)),
    )


def numbers(made, step=lambda number: None):
    """Return a reader of a hundred batches that records how many it has produced."""
    schema = pa.schema([("i", pa.int64())])

    def batches():
        for number in range(100):
            step(number)
            made.append(number)
            yield pa.record_batch([pa.array([number])], schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def test_a_reader_is_read_as_its_rows_are_written(con):
    con.execute("create table t (i bigint)")
    made = []
    with pytest.raises(hypostyle.QueryInterrupted):
        con.append("t", numbers(made, lambda number: number == 3 and con.interrupt()))
    assert 3 <= len(made) < 50
    assert con.sql("select count(*) from t").fetchone() == (0,)
    assert con.append("t", numbers([])) == 100


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_reader_that_fails(con, error):
    def fail(number):
        if number == 50:
            raise error("no more")

    con.execute("create table t (i bigint)")
    with pytest.raises(error, match="no more"):
        con.append("t", numbers([], fail))
    assert con.sql("select count(*) from t").fetchone() == (0,)


def test_a_reader_cannot_use_the_connection_that_appends(con):
    con.execute("create table t (i bigint)")
    before = con.sql("select 1")
    for use in (lambda: con.sql("select 1"), con.tables, con.begin, lambda: con.append("t", {"i": [1]})):
        with pytest.raises(hypostyle.DataError, match="another connection") as error:
            con.append("t", numbers([], lambda number, use=use: use()))
        assert error.value.sqlstate == "55006"
    assert con.sql("select count(*) from t").fetchone() == (0,)
    # Its earlier data can be read, and another connection can be used.
    with con.duplicate() as other:
        con.append("t", numbers([], lambda number: (before.fetchone(), other.sql("select 1").fetchone())))
    assert con.sql("select count(*) from t").fetchone() == (100,)


VIOLATIONS = {
    "id": (7, "23505", 'constraint "t_pkey" of table "t" is violated by row {row} of the new rows, (id = 7)'),
    "u": (
        "a",
        "23505",
        'constraint "t_u_key" of table "t" is violated by row {row} of the new rows, (u = a)',
    ),
    "n": (None, "23502", 'column "n" of table "t" is NOT NULL, but row {row} is NULL'),
    "c": (-3, "23514", 'constraint "t_check" of table "t" is violated by row {row} of the new rows, ('),
    "f": (9, "23503", 'constraint "t_f_fkey" of table "t" is violated by row {row} of the new rows, (f = 9)'),
}


@pytest.mark.parametrize("rows", [3, 200_000])
def test_an_append_that_breaks_a_constraint_names_it_with_row_and_value(con, rows):
    con.sql("create table p (id int primary key)")
    con.sql("insert into p values (1), (2)")
    con.sql(
        "create table t (id bigint primary key, u varchar unique, n int not null, c int check (c > 0),"
        " d int default 5, f int references p)"
    )
    con.sql("insert into t values (7, 'a', 1, 1, 1, 1)")
    right = {
        "id": [10 + i for i in range(rows)],
        "u": [f"u{i}" for i in range(rows)],
        "n": [i % 100 for i in range(rows)],
        "c": [1 + i % 100 for i in range(rows)],
        "f": [1 + i % 2 for i in range(rows)],
    }
    for column, (value, sqlstate, message) in VIOLATIONS.items():
        data = {**right, column: [*right[column][:-1], value]}
        with pytest.raises(hypostyle.ConstraintError) as error:
            con.append("t", data)
        assert error.value.sqlstate == sqlstate
        assert message.format(row=rows) in str(error.value)
        if column == "c":
            assert "c = -3" in str(error.value)
            assert "d = 5" in str(error.value)
    assert con.sql("select id from t").fetchall() == [(7,)]


@pytest.mark.parametrize("of", ["f4", "f8"])
def test_there_is_one_nan(con, of):
    numbers = np.array([0, 1, 2, 3], of)
    numbers[0] = -np.array(np.nan, of)
    assert np.signbit(numbers[0])
    rows = pa.table(
        {
            "id": pa.array([0, 1, 2, 3]),
            "a": pa.array(numbers),
            "l": pa.ListArray.from_arrays([0, 1, 2, 3, 4], pa.array(numbers)),
            "s": pa.StructArray.from_arrays([pa.array(numbers)], ["x"]),
            "n": pa.array([None, 1, None, 3], pa.from_numpy_dtype(of)),
        }
    )
    con.append("t", rows, create=True)
    for condition in ["a > 5", "a = 'nan'", "not (a <= 5)", "l[1] > 5", "s.x > 5"]:
        assert con.sql(f"select id, a from t where {condition}").fetchnumpy()["id"].tolist() == [0]
        assert con.sql(f"select count(*) from t where {condition}").fetchall() == [(1,)]
    assert con.sql("select count(n), sum(n) from t").fetchall() == [(2, 4.0)]
    con.sql("update t set id = 9 where a > 5")
    assert con.sql("select id from t where a = 'nan'").fetchall() == [(9,)]
    con.sql("delete from t where a > 5")
    assert con.sql("select count(*) from t").fetchall() == [(3,)]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([{}, {}], pa.struct([])),
        pa.array([[{}] * 1000], pa.list_(pa.struct([]))),
        pa.array([b"", b""], pa.binary(0)),
        pa.array([[], []], pa.list_(pa.int32(), 0)),
    ],
    ids=lambda values: str(values.type),
)
def test_values_of_no_bytes_are_rows(tmp_path, values):
    with hypostyle.connect(tmp_path / "d") as con:
        assert stored(con, pa.table({"v": values})).fetchall() == [(value,) for value in values.to_pylist()]
    with hypostyle.connect(tmp_path / "d") as con:
        assert [row[0] for row in con.table("t")] == values.to_pylist()
