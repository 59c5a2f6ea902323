"""Every type, with and without NULL, stored and computed, in every form of a result."""

import datetime as dt
import decimal
import pickle
import random
import uuid
from decimal import Decimal

import hypostyle
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cases import CASES, IDS

every_case = pytest.mark.parametrize("case", CASES, ids=IDS)
with_and_without_nulls = pytest.mark.parametrize("nulls", [False, True], ids=["full", "nulls"])
# A mapping of the stored column, rows that the scan selects from it, and rows of an operator.
STORED, PICKED = "select v from t", "select v from t where n >= 0"
COMPUTED = "select v from (select v, sum(n) over () as s from t) where s >= 0"
stored_and_computed = pytest.mark.parametrize(
    "query", [STORED, PICKED, COMPUTED], ids=["stored", "picked", "computed"]
)


def fill(con, case, nulls):
    array = case.array(nulls)
    con.append("t", pa.table({"v": array, "n": range(len(array))}), create=True)


def same(value, expected):
    """Compare values and their types; NaN is equal to itself."""
    return type(value) is type(expected) and value == expected


@every_case
@with_and_without_nulls
@stored_and_computed
def test_rows_are_exact_python_values(con, case, nulls, query):
    fill(con, case, nulls)
    result = con.sql(query)
    assert result.types == [case.sql]
    rows = [row[0] for row in result.fetchall()]
    assert rows == case.with_nulls(nulls)
    assert all(same(value, expected) for value, expected in zip(rows, case.with_nulls(nulls), strict=True))


@every_case
@with_and_without_nulls
@stored_and_computed
def test_numpy(con, case, nulls, query):
    fill(con, case, nulls)
    array = con.sql(query).fetchnumpy()["v"]
    expected = case.with_nulls(nulls)
    if case.numpy is None:
        assert array.dtype == object
        assert array.tolist() == expected
    elif case.numpy == "str":
        assert isinstance(array.dtype, np.dtypes.StringDType)
        assert [value for value in array.tolist() if value == value] == case.rows
        if nulls:
            assert np.isnan(array).tolist() == [False, True] + [False] * (len(case.rows) - 1)
    else:
        assert array.dtype == np.dtype(case.numpy)
        assert array.flags.writeable
        present = array.compressed() if isinstance(array, np.ma.MaskedArray) else array
        if nulls:
            if case.null == "masked":
                assert array.mask.tolist() == [value is None for value in expected]
            else:
                missing = np.isnat(array) if case.null == "nat" else np.isnan(array)
                assert missing.tolist() == [value is None for value in expected]
                present = array[~missing]
        else:
            assert type(array) is np.ndarray
        np.testing.assert_array_equal(present, numpy_values(case), strict=True)


def test_rows_that_are_picked_keep_the_stored_types(directory):
    """This also holds for rows that only the log has, whose values have no code, and past deleted
    rows.
    """
    values = {f"c{index}": case.array(True) for index, case in enumerate(CASES)}
    rows = 3000
    columns = {name: pa.concat_arrays([array] * rows)[:rows] for name, array in values.items()}
    columns["word"] = pa.array([None, "one", "two"] * rows)[:rows]
    directory.mkdir()
    with hypostyle.connect(directory / "db") as stored:
        stored.append("t", pa.table({"n": range(rows), **columns}), create=True)
        stored.execute("checkpoint")
        for change in (None, "insert into t (n, word) values (3000, 'three')", "delete from t where n = 1"):
            if change:
                stored.execute(change)
            whole = stored.sql("select * from t").arrow()
            picked = stored.sql("select * from t where n >= 0").arrow()
            assert picked.to_pylist() == whole.to_pylist()
            kinds = [list(map(kind_alike, table.schema.types)) for table in (picked, whole)]
            assert kinds[0] == kinds[1]
            assert pa.types.is_dictionary(picked.schema.field("word").type)


def kind_alike(kind):
    """Return the kind of a type; the codes of a dictionary may be wider."""
    return pa.dictionary(pa.int32(), kind.value_type) if pa.types.is_dictionary(kind) else kind


def numpy_values(case):
    if case.sql.startswith("DECIMAL"):
        return np.array([float(value) for value in case.rows])
    if case.sql == "TIME":
        midnight = dt.datetime.min
        return np.array([dt.datetime.combine(midnight, value) - midnight for value in case.rows], "m8[us]")
    if case.sql.endswith("ZONE"):
        return np.array([value.replace(tzinfo=None) for value in case.rows], case.numpy)
    return np.array(case.rows, case.numpy)


@every_case
@with_and_without_nulls
@stored_and_computed
def test_arrow(con, case, nulls, query):
    fill(con, case, nulls)
    table = con.sql(query).arrow()
    table.validate(full=True)
    assert table.column("v").null_count == int(nulls)
    assert plain(table.column("v").to_pylist()) == case.with_nulls(nulls)


def plain(values):
    """Return the plain class: pyarrow gives nanosecond times as pandas' subclasses of
    datetime's.
    """
    return [value.to_pydatetime() if isinstance(value, pd.Timestamp) else value for value in values]


@every_case
@with_and_without_nulls
@stored_and_computed
def test_pandas(con, case, nulls, query):
    fill(con, case, nulls)
    series = con.sql(query).df()["v"]
    if case.sql == "VARCHAR":
        assert str(series.dtype) in ("str", "category")
    else:
        assert str(series.dtype) == case.frame_dtype(nulls)
    assert series.isna().tolist() == [value is None for value in case.with_nulls(nulls)]
    expected = [float(value) for value in case.rows] if case.sql.startswith("DECIMAL") else case.rows
    assert [day_of(case, value) for value in plain_pandas(series.dropna().tolist())] == expected


def day_of(case, value):
    """Return the date of a date that was widened to its midnight."""
    return value.date() if case.sql == "DATE" else value


@every_case
@with_and_without_nulls
@stored_and_computed
def test_pandas_exact(con, case, nulls, query):
    fill(con, case, nulls)
    series = con.sql(query).df(dtypes="exact")["v"]
    if case.sql == "VARCHAR":
        assert str(series.dtype) in ("str", "category")
    elif nulls and case.null == "masked":
        assert str(series.dtype).endswith("[pyarrow]")
    else:
        assert str(series.dtype) == case.pandas
    assert series.isna().tolist() == [value is None for value in case.with_nulls(nulls)]
    assert plain_pandas(series.dropna().tolist()) == case.rows


def plain_pandas(values):
    def one(value):
        if isinstance(value, pd.Timestamp):
            return value.to_pydatetime()
        return value.to_pytimedelta() if isinstance(value, pd.Timedelta) else value

    return [one(value) for value in values]


@every_case
@with_and_without_nulls
@stored_and_computed
def test_polars(con, case, nulls, query):
    fill(con, case, nulls)
    if case.sql == "DECIMAL(60,3)":
        with pytest.raises(hypostyle.DataError):
            con.sql(query).pl()
        return
    expected = case.with_nulls(nulls)
    if case.sql == "UUID":
        expected = [value and value.bytes for value in expected]
    frame = con.sql(query).pl()
    assert frame["v"].to_list() == expected
    if case.sql != "UUID":
        assert pl.DataFrame(con.sql(query))["v"].to_list() == expected


def test_decimal_options(con):
    values = [Decimal("1.25"), None, Decimal("-7.50")]
    con.append("t", {"v": values}, create=True)
    result = con.sql("select * from t")
    scaled = result.fetchnumpy(decimals="int")["v"]
    assert scaled.tolist() == [125, None, -750]
    assert scaled.dtype.kind == "i"
    assert result.fetchnumpy(decimals="object")["v"].tolist() == values
    with pytest.raises(hypostyle.DataError, match="decimals is 'double'"):
        result.fetchnumpy(decimals="double")


def test_pandas_computes_with_exact_decimals(con):
    con.append("t", {"v": [Decimal("1.25"), None, Decimal("-7.50")], "k": ["a", "a", "b"]}, create=True)
    frame = con.sql("select * from t").df(dtypes="exact")
    assert len(frame["v"].array) == 3
    assert frame["v"].sum() == Decimal("-6.25")
    assert frame["v"].max() == Decimal("1.25")
    assert frame.sort_values("v")["v"].iloc[0] == Decimal("-7.50")
    assert (frame["v"] + frame["v"]).iloc[0] == Decimal("2.50")
    assert frame.groupby("k", observed=True)["v"].sum().tolist() == [Decimal("1.25"), Decimal("-7.50")]
    again = pickle.loads(pickle.dumps(con.sql("select * from t").df(dtypes="exact")))
    assert again["v"].isna().tolist() == [False, True, False]


def test_wide_decimals_as_integers_keep_every_digit(con):
    value = Decimal("1234567890123456789012345678901234.56")
    con.append("t", {"v": [value]}, create=True)
    expected = [123456789012345678901234567890123456]
    assert con.sql("select * from t").fetchnumpy(decimals="int")["v"].tolist() == expected


@pytest.mark.parametrize("precision", [9, 18, 38, 76])
def test_decimals_become_the_nearest_float(con, precision):
    """Values around 2⁵³, from which on a float does not hold every integer, and random ones."""
    rng = random.Random(precision)
    limit = 10**precision - 1
    edges = [0, 1, 2**53 - 1, 2**53, 2**53 + 1, 2**53 + 3, 2**54 + 2, 10**17 + 1, limit]
    whole = [edge for edge in edges if edge <= limit]
    whole += [rng.randrange(10 ** rng.randint(1, precision)) for _ in range(500)]
    for scale in sorted({0, 1, 2, 3, 9, min(precision, 22), min(precision, 23), precision}):
        texts = [f"{'-' * (index % 2)}{value}E-{scale}" for index, value in enumerate(whole)]
        with decimal.localcontext(prec=80):
            values = [+Decimal(text) for text in texts]
        width = pa.decimal256 if precision > 38 else pa.decimal128
        con.append(
            f"t{scale}", pa.table({"v": pa.array([*values, None], width(precision, scale))}), create=True
        )
        result = con.table(f"t{scale}")
        assert result.types == [f"DECIMAL({precision},{scale})"]
        expected = [float(text) for text in texts]
        for array in (result["v"], result.df()["v"].to_numpy()):
            assert array[:-1].tolist() == expected
            assert np.isnan(array[-1])


def test_strings_as_objects(con):
    con.append("t", {"v": ["a", None, "b" * 100]}, create=True)
    assert con.sql("select * from t").fetchnumpy(strings="object")["v"].tolist() == ["a", None, "b" * 100]


@pytest.mark.parametrize("distinct", [2, 300, 100_000])
def test_many_strings_survive_every_form(con, distinct):
    rows = 100_000
    values = [None if row % 1000 == 7 else f"value number {row % distinct}" for row in range(rows)]
    con.append("t", {"v": values}, create=True)
    result = con.table("t")
    assert [row[0] for row in result] == values
    array = result["v"]
    missing = np.isnan(array)
    assert missing.sum() == rows // 1000
    assert array[~missing].tolist() == [value for value in values if value is not None]
    assert result.pl()["v"].to_list() == values
    assert result.arrow()["v"].to_pylist() == values
    frame = result.df()
    assert frame["v"].isna().sum() == rows // 1000
    assert frame["v"].dropna().tolist() == [value for value in values if value is not None]


def test_a_low_cardinality_column_is_categorical(con):
    con.append("t", {"v": ["red", None, "green"] * 1000}, create=True)
    frame = con.table("t").df()
    assert str(frame["v"].dtype) == "category"
    assert sorted(frame["v"].cat.categories) == ["green", "red"]
    assert frame["v"].value_counts().to_dict() == {"red": 1000, "green": 1000}


def test_vectors_are_matrices(con):
    matrix = np.arange(12, dtype=np.float32).reshape(4, 3)
    con.append("t", {"v": matrix}, create=True)
    result = con.table("t")
    assert result.types == ["FLOAT[3]"]
    np.testing.assert_array_equal(result["v"], matrix, strict=True)
    assert result.fetchall()[1] == ([3.0, 4.0, 5.0],)


def test_interval(con):
    interval = hypostyle.Interval(months=14, days=3, nanoseconds=5)
    con.append("t", {"v": [interval, dt.timedelta(days=2, seconds=1), None]}, create=True)
    result = con.table("t")
    assert result.types == ["INTERVAL"]
    expected = [interval, dt.timedelta(days=2, seconds=1), None]
    assert [row[0] for row in result] == expected
    assert result["v"].tolist() == expected
    assert result.df()["v"].tolist() == expected
    assert result.pl()["v"].to_list()[0] == {"months": 14, "days": 3, "nanoseconds": 5}


def test_other_time_zones(con):
    rows = [dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC)]
    con.append("t", pa.table({"v": pa.array(rows, pa.timestamp("us", "Europe/Rome"))}), create=True)
    value = con.table("t").fetchone()[0]
    assert value == rows[0]
    assert value.utcoffset() == dt.timedelta(hours=2)
    assert str(con.table("t").df()["v"].dtype) == "datetime64[us, Europe/Rome]"


def test_a_year_that_python_does_not_have(con):
    con.append("t", {"v": np.array(["12345-01-01"], "M8[D]")}, create=True)
    with pytest.raises(hypostyle.DataError, match='column "v" holds a date in the year 12345'):
        con.table("t").fetchall()
    assert con.table("t")["v"][0] == np.datetime64("12345-01-01")


def test_uuid_and_json_keep_their_types(con):
    con.append("t", {"v": [uuid.UUID(int=5)]}, create=True)
    assert con.table("t").types == ["UUID"]
    assert con.table("t").fetchone() == (uuid.UUID(int=5),)


def test_computed_columns_of_one_name(con):
    result = con.sql("select a.x, b.x from (select 1 as x) a, (select 2 as x) b")
    assert list(result.fetchnumpy()) == ["x", "x_1"]
    assert list(result.df().columns) == ["x", "x_1"]
    assert result.pl().columns == ["x", "x_1"]


def test_no_rows(con):
    con.append(
        "t", pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.large_string())}), create=True
    )
    for result in (con.table("t"), con.sql("select * from t where a > 1")):
        assert result.shape == (0, 2)
        assert result.fetchall() == []
        assert result.fetchone() is None
        assert [len(array) for array in result.fetchnumpy().values()] == [0, 0]
        assert result.df().shape == (0, 2)
        assert result.pl().shape == (0, 2)
        assert result.arrow().num_rows == 0
        assert "0 rows" in repr(result)


def test_results_have_the_same_types_here_and_there(tmp_path):
    """The types are the same however a query gets its values, and also from a server."""
    text, data = pa.large_string(), pa.large_binary()
    types = {
        "select s, b from t": [text, data],
        "select s, b from t where i < 7": [text, data],
        "select upper(s), md5(s), s || 'x', i::varchar, 'abc', 'x'::bytea from t": [text] * 5 + [data],
        "select s, count(*) from t group by s": [text, pa.int64()],
        "select array_agg(s), array_agg(i), ['a', null] from t": [
            pa.large_list(text),
            pa.large_list(pa.int32()),
            pa.large_list(text),
        ],
        "select {'a': 'b', 'c': ['d']} as x": [pa.struct({"a": text, "c": pa.large_list(text)})],
        "values ('a', 1)": [text, pa.int64()],
        "explain select 1": [text, text],
        "select table_name from information_schema.tables": [text],
    }
    path = tmp_path / "db"
    with hypostyle.connect(path) as own, own.serve(listen="127.0.0.1:0", unix=tmp_path / "socket") as server:
        own.execute("create table t (i integer, s varchar, b blob)")
        own.execute(
            "insert into t select i, repeat('word', i), 'x'::bytea from generate_series(1, 9) as g (i)"
        )
        for change in (None, "checkpoint", "delete from t where i = 2"):
            if change:
                own.execute(change)
            for sql, wanted in types.items():
                schema = own.sql(sql).arrow().schema
                assert schema.types == wanted, sql
                for address in server.addresses:
                    with hypostyle.connect(address) as remote:
                        assert remote.sql(sql).arrow().schema.equals(schema, check_metadata=True), sql


def test_categories_without_values(con):
    """All rows are NULL, or there are none."""
    nothing = pd.DataFrame({"v": pd.Categorical([None, None])})
    no_rows = pd.DataFrame({"v": pd.Categorical(["x"])})[:0]
    empty = pa.table(
        {"v": pa.DictionaryArray.from_arrays(pa.array([None], pa.int32()), pa.array([], pa.string()))}
    )
    for given, rows in ((nothing, [None, None]), (no_rows, []), (empty, [None])):  # noqa: B007 - read by name
        assert con.sql("select * from given").fetchall() == [(value,) for value in rows]
        assert con.sql("select * from given").arrow()["v"].to_pylist() == rows
        assert [
            value if isinstance(value, str) else None for value in con.sql("select * from given")["v"]
        ] == rows
        assert con.sql("select * from given").df()["v"].isna().tolist() == [True] * len(rows)


@pytest.mark.parametrize("call", ["any_value(u)", "mode(u)", "mode(u order by u)", "quantile_disc(u, 0.5)"])
def test_a_uuid_that_is_chosen_is_one(call):
    of = "67e55044-10b1-426f-9247-bb680e5fe0c8"
    with hypostyle.connect() as con:
        con.execute(f"create table t as select '{of}'::uuid as u")
        assert con.sql(f"select {call} from t").fetchall() == [(uuid.UUID(of),)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.ma.array([1, 2], mask=[False, True]), [1, None]),
        (np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")]), [{"a": 1, "b": 2.5}]),
        (np.array([1, None], object), [1, None]),
        (np.datetime64("NaT"), None),
        (pd.Series([1, 2]), [1, 2]),
        (pl.Series([1, None]), [1, None]),
        (10**60, Decimal(10**60)),
        (-(10**75), Decimal(-(10**75))),
    ],
    ids=str,
)
def test_parameters_are_what_was_given(con, given, expected):
    assert con.sql("select $1", [given]).fetchall() == [(expected,)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.datetime64(2**40, "Y"), "out of range"),
        (np.datetime64("12000-01-01"), "year"),
        (np.timedelta64(2**62, "s"), "out of range"),
        (np.timedelta64(1, "M"), "number of days"),
        (np.datetime64("2024-01-01T00:00:00.000000001"), "finer than"),
        (10**76, "more than 76 digits"),
        (10**5000, "more than 76 digits"),
    ],
    ids=["years", "year", "seconds", "months", "nanoseconds", "digits", "many digits"],
)
def test_parameters_that_no_type_holds_are_refused(con, given, message):
    with pytest.raises(hypostyle.DataError, match=message):
        con.sql("select $1", [given])
    with pytest.raises(hypostyle.DataError, match=message):
        con.append("t", {"v": [given]}, create=True)


def test_a_map_with_keys_that_no_dict_has_is_refused(con):
    for keys in ("[[1], [2]]", "[{'a': 1}, {'a': 2}]"):
        result = con.sql(f"select map({keys}, ['x', 'y']) as m")
        with pytest.raises(hypostyle.DataError, match="map_entries"):
            result.fetchall()
        assert len(result.arrow()["m"][0].as_py()) == 2


def test_a_zone_that_there_is_not_is_an_error_of_ours(con, tmp_path):
    path = tmp_path / "zone.parquet"
    pq.write_table(pa.table({"t": pa.array([0], pa.timestamp("us", "Mars/Olympus"))}), path)
    with pytest.raises(hypostyle.DataError, match="Mars/Olympus"):
        con.sql(f"select t from '{path}'").fetchall()
    rows = con.sql(f"select t::timestamptz from '{path}'").fetchall()
    assert rows == [(dt.datetime(1970, 1, 1, tzinfo=dt.UTC),)]
