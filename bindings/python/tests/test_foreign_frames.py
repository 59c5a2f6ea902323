"""Every dtype of pandas, Polars and pyarrow: its values come back, or it is refused by its name."""

import datetime as dt
import fractions
import signal
from decimal import Decimal

import hypostyle
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

DAYS = pd.date_range("2024-01-01", periods=3, unit="us")
OFFSET = dt.timezone(dt.timedelta(hours=2))
HALF_HOURS = dt.timezone(-dt.timedelta(hours=3, minutes=30))


class Anything:
    """A class that no database knows."""


def column(values, **options):
    return pd.DataFrame({"v": pd.Series(values, **options)})


PANDAS = {
    "Int64": column([1, None, 3], dtype="Int64"),
    "UInt8": column([1, None, 255], dtype="UInt8"),
    "Float32": column([1.5, None, -2.0], dtype="Float32"),
    "boolean": column([True, None, False], dtype="boolean"),
    "nothing but NA": column([None, None], dtype="Int64"),
    "string": column(["a", None, ""], dtype="string"),
    "python strings": column(["a", None], dtype="string[python]"),
    "str": column(["a", None], dtype="str"),
    "category of str": column(pd.Categorical(["a", None, "b", "a"])),
    "category of int": column(pd.Categorical([1, None, 3])),
    "category of days": column(pd.Categorical(DAYS)),
    "sparse int": column(pd.arrays.SparseArray([0, 0, 1])),
    "sparse float": column(pd.arrays.SparseArray([np.nan, 1.0])),
    "sparse bool": column(pd.arrays.SparseArray([True, False])),
    "datetime64": column(["2024-01-01", None], dtype="M8[ns]"),
    "timedelta64": column(pd.to_timedelta([1, None], unit="s")),
    "UTC": column(DAYS.tz_localize("UTC")),
    "a zone": column(DAYS.tz_localize("Europe/Rome")),
    "an offset": column(DAYS.tz_localize(OFFSET)),
    "half an hour": column(DAYS.tz_localize(HALF_HOURS)),
    "a named offset": column(DAYS.tz_localize(dt.timezone(dt.timedelta(hours=1), "CET"))),
    "Arrow's offset": column([0, None], dtype=pd.ArrowDtype(pa.timestamp("us", "+02:00"))),
    "Arrow's list": column([[1, None], None], dtype=pd.ArrowDtype(pa.list_(pa.int32()))),
    "Arrow's null": column([None, None], dtype=pd.ArrowDtype(pa.null())),
    "lists": column([[1, 2], None], dtype=object),
    "dicts": column([{"a": 1}, None], dtype=object),
    "arrays": column([np.array([1, 2]), np.array([3])], dtype=object),
    "decimals": column([Decimal("1.50"), None], dtype=object),
    "bytes": column([b"\0a", None], dtype=object),
    "None": column([None, None], dtype=object),
}

REFUSED = {
    "periods": (column(pd.period_range("2024-01", periods=3, freq="M")), "Period"),
    "intervals": (column(pd.interval_range(0, 3)), "Interval"),
    "category of intervals": (column(pd.cut([1, 2, 3], 2)), "Interval"),
    "category of all sorts": (column(pd.Categorical([1, "a"])), "VARCHAR, but the rows before are BIGINT"),
    "complex": (column([1 + 2j]), "complex128"),
    "long double": (column(np.array([1.5], np.longdouble)), str(np.dtype(np.longdouble))),
    "objects": (column([Anything()], dtype=object), "Anything"),
    "fractions": (column([fractions.Fraction(1, 3)], dtype=object), "Fraction"),
    "sets": (column([{1}], dtype=object), "set"),
    "all sorts": (column([1, "a"], dtype=object), "VARCHAR, but the rows before are BIGINT"),
    "seconds of an offset": (column(DAYS.tz_localize(dt.timezone(dt.timedelta(seconds=90)))), "00:01:30"),
    "Polars' Object": (pl.DataFrame({"v": pl.Series([Anything()], dtype=pl.Object)}), "Object"),
    "lazy Polars' Object": (pl.DataFrame({"v": pl.Series([Anything()], dtype=pl.Object)}).lazy(), "Object"),
    "a series of Object": ({"v": pl.Series([Anything()], dtype=pl.Object)}, "Object"),
    "Polars' Int128": (pl.DataFrame({"v": pl.Series([2**100], dtype=pl.Int128)}), "_pli128"),
    "no time zone": (pa.table({"v": pa.array([0], pa.timestamp("us", "Mars/Olympus"))}), "Mars/Olympus"),
    "a nested zone": (
        pa.table({"v": pa.array([[0]], pa.list_(pa.timestamp("us", "Mars/Olympus")))}),
        "Mars/Olympus",
    ),
    "a union": (pa.table({"v": pa.nulls(2, pa.dense_union([pa.field("a", pa.int32())]))}), "Union"),
    "runs": (pa.table({"v": pa.nulls(2, pa.run_end_encoded(pa.int32(), pa.int64()))}), "RunEndEncoded"),
    "a negative scale": (pa.table({"v": pa.nulls(2, pa.decimal128(38, -2))}), r"DECIMAL\(38,-2\)"),
}

ARROW = {
    "a zone by its offset": pa.array([0, None], pa.timestamp("us", "UTC+02:00")),
    "zulu": pa.array([0, None], pa.timestamp("s", "Z")),
    "null": pa.nulls(2),
    "list of null": pa.array([[None], None, []], pa.list_(pa.null())),
    "struct of null": pa.array([{"a": None}, None], pa.struct([("a", pa.null())])),
    "half float": pa.array([1.5, None], pa.float16()),
    "date64": pa.array([dt.date(2024, 2, 29), None], pa.date64()),
    "time32": pa.array([dt.time(1, 2, 3), None], pa.time32("s")),
    "string view": pa.array(["a", None], pa.string_view()),
    "binary view": pa.array([b"a", None], pa.binary_view()),
    "fixed binary": pa.array([b"abc", None], pa.binary(3)),
    "narrow decimal": pa.array([Decimal("1.25"), None], pa.decimal32(5, 2)),
    "list view": pa.array([[1], None], pa.list_view(pa.int32())),
    "fixed list": pa.array([[1, 2], None], pa.list_(pa.int8(), 2)),
    "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32())),
    "dictionary of numbers": pa.array([7, None, 7]).dictionary_encode(),
    "dictionary of lists": pa.DictionaryArray.from_arrays(
        pa.array([0, None, 0], pa.int32()), pa.array([[1, 2]])
    ),
}

POLARS = {
    "null": pl.Series([None, None]),
    "list of null": pl.Series([[None], None, []]),
    "struct of null": pl.Series([{"a": None, "b": 1}, None]),
    "categorical": pl.Series(["a", None], dtype=pl.Categorical),
    "enum": pl.Series(["a", None], dtype=pl.Enum(["a", "b"])),
    "decimal": pl.Series([Decimal("1.5"), None]),
    "time": pl.Series([dt.time(1, 2, 3), None]),
    "duration": pl.Series([dt.timedelta(1), None]),
    "zoned": pl.Series([dt.datetime(2024, 1, 1), None]).dt.replace_time_zone("Europe/Rome"),
    "array": pl.Series([[1, 2], None], dtype=pl.Array(pl.Int32, 2)),
    "struct": pl.Series([{"a": 1, "b": "x"}, None]),
    "binary": pl.Series([b"a", None]),
}


def values_of(series):
    """Return the values of a pandas column as Python's, with None for each missing one."""
    missing = [False if isinstance(value, list | dict | np.ndarray) else pd.isna(value) for value in series]
    return [None if gone else plain(value) for value, gone in zip(series, missing, strict=True)]


def plain(value):
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime()
    if isinstance(value, pd.Timedelta):
        return value.to_pytimedelta()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value


def every_form(con, data):
    """Check all forms of a stored result, and the rows of the variable itself."""
    con.append("t", data, create=True)
    variable = data if not isinstance(data, dict) else pa.table(data)  # noqa: F841 - read by its name
    for query in ("select * from t", "select * from variable"):
        result = con.sql(query)
        yield result
        assert result.df().shape == result.df(dtypes="exact").shape == result.arrow().shape
        assert result.pl().shape == result.arrow().shape


@pytest.mark.parametrize("name", PANDAS)
def test_pandas(con, name):
    for result in every_form(con, PANDAS[name]):
        expected = values_of(PANDAS[name]["v"])
        assert [row[0] for row in result] == expected
        if name != "decimals":
            assert values_of(result.df()["v"]) == expected


def in_utc(array):
    """Convert to UTC, because pyarrow has objects for the zones of few names."""
    zoned = pa.types.is_timestamp(array.type)
    return array.cast(pa.timestamp(array.type.unit, "UTC")) if zoned else array


@pytest.mark.parametrize("name", ARROW)
def test_pyarrow(con, name):
    for result in every_form(con, pa.table({"v": ARROW[name]})):
        expected = in_utc(ARROW[name]).to_pylist(maps_as_pydicts="strict")
        assert [row[0] for row in result] == expected
        assert result.arrow()["v"].to_pylist(maps_as_pydicts="strict") == expected


@pytest.mark.parametrize("name", POLARS)
def test_polars(con, name):
    for result in every_form(con, POLARS[name].to_frame("v")):
        assert [row[0] for row in result] == POLARS[name].to_list()
        assert result.pl()["v"].to_list() == POLARS[name].to_list()
    con.append("series", {"v": POLARS[name]}, create=True)
    assert [row[0] for row in con.table("series")] == POLARS[name].to_list()


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_sql_type_holds_is_refused_by_name(con, name):
    data, what = REFUSED[name]
    with pytest.raises((hypostyle.DataError, hypostyle.NotSupportedError), match=what) as error:
        con.append("t", data, create=True)
    assert 'column "v"' in str(error.value)
    assert [table.name for table in con.tables()] == []


@pytest.mark.parametrize("zone", [OFFSET, HALF_HOURS, dt.UTC], ids=str)
def test_offsets_are_zones_of_their_own(con, zone):
    con.append("t", column(DAYS.tz_localize(zone)), create=True)
    assert con.table("t").fetchone()[0].utcoffset() == zone.utcoffset(None)
    assert con.table("t").df()["v"].dt.tz == zone
    assert con.table("t").pl()["v"].dt.convert_time_zone("UTC").to_list() == [
        day.to_pydatetime() for day in DAYS.tz_localize(zone).tz_convert("UTC")
    ]


def test_nulls_are_appended_to_any_column(con):
    con.execute("create table t (v bigint, l integer[])")
    con.append("t", pl.DataFrame({"v": [None], "l": [[None]]}))
    con.append("t", {"v": pl.Series([None]), "l": pl.Series([None])})
    assert con.table("t").fetchall() == [(None, [None]), (None, None)]


def test_what_a_stream_says_of_its_failure_is_told(con):
    def batches():
        yield pa.record_batch({"a": [1]})
        raise ValueError("the disk is on fire")

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            reader = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), batches())
            return reader.__arrow_c_stream__()

    with pytest.raises(hypostyle.Error, match="the disk is on fire"):
        con.append("t", Stream(), create=True)


def in_itself(kind):
    """Return a list or a dict that is its own element."""
    value = kind()
    if kind is dict:
        value["a"] = value
    else:
        value.append(value)
    return value


def nested(levels):
    value = [1]
    for _ in range(levels - 1):
        value = [value]
    return value


class FarDay(dt.datetime):
    """A subclass that says anything."""

    year = 2**62


ENDLESS = {
    "a list in itself": in_itself(list),
    "a dict in itself": in_itself(dict),
    "very many levels": nested(100_000),
    "a decimal of very many digits": Decimal("1." + "0" * 10_000_000),
    "a long double": np.longdouble(1),
    "long doubles in a list": [np.longdouble(1)],
    "a day of a year that there is not": FarDay(2024, 1, 1),
    "an interval that is too long": pd.Timedelta(np.timedelta64(2**60, "s")),
}


@pytest.mark.parametrize("value", ENDLESS)
def test_objects_that_no_value_is_are_refused(value):
    with hypostyle.connect() as con:
        with pytest.raises(hypostyle.DataError):
            con.execute("select $1", [ENDLESS[value]])
        data = {"c": [None, ENDLESS[value]]}  # noqa: F841 - read by its name
        with pytest.raises(hypostyle.DataError, match="row 1"):
            con.sql("select * from data").fetchall()
        assert con.sql("select 1").fetchall() == [(1,)]


MANY_KEYS = {
    "a dict": {f"k{number}": number for number in range(20_000)},
    "dicts of different keys": [{f"k{number}": number} for number in range(20_000)],
    "dicts within a dict": {
        f"d{outer}": {f"k{number}": number for number in range(100)} for outer in range(100)
    },
}


@pytest.mark.parametrize("value", MANY_KEYS)
def test_dicts_of_very_many_keys_are_refused(value):
    data = {"c": [None, MANY_KEYS[value]]}  # noqa: F841 - read by its name
    with hypostyle.connect() as con:
        with pytest.raises(hypostyle.DataError, match=r'parameter "\$1.*4096 different keys'):
            con.execute("select $1", [MANY_KEYS[value]])
        with pytest.raises(hypostyle.DataError, match="4096 different keys"):
            con.sql("select * from data").fetchall()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT x FROM (SELECT ? AS x) AS t",
        "SELECT count(*) FROM (SELECT [?] AS x) AS t GROUP BY x",
        "SELECT count(DISTINCT x) FROM (SELECT ? AS x) AS t",
    ],
)
def test_groups_of_structures_without_fields_are_refused(con, query):
    with pytest.raises(hypostyle.NotSupportedError, match="structures without fields"):
        con.execute(query, [{}]).fetchall()
    assert con.execute("SELECT x FROM (SELECT ? AS x) AS t ORDER BY x", [{}]).fetchall() == [({},)]


def test_a_table_of_structures_without_fields_is_refused(con):
    for value in ({}, {"a": {}}):
        with pytest.raises(hypostyle.NotSupportedError, match="nothing but structures without fields"):
            con.execute("CREATE TABLE hollow AS SELECT ? AS x", [value])
    con.execute("CREATE TABLE partly AS SELECT ? AS x, 1 AS y", [{}])
    assert con.execute("SELECT * FROM partly").fetchall() == [({}, 1)]


def test_dicts_of_many_keys_are_structs(con):
    value = {f"k{number}": number for number in range(500)}
    assert con.execute("select $1", [value]).fetchall() == [(value,)]
    short = [{f"k{number}": number} for number in range(100)]
    read = con.execute("select $1", [short]).fetchone()[0]
    assert [row[f"k{number}"] for number, row in enumerate(read)] == list(range(100))
    assert read[1]["k0"] is None and read[0]["k99"] is None


def test_rows_that_would_be_of_nulls_are_refused():
    sparse = [{f"k{number % 4_000}": number} for number in range(10_000)]
    data = {"c": sparse}  # noqa: F841 - read by its name
    with hypostyle.connect() as con:
        with pytest.raises(hypostyle.DataError, match="only 10000 values"):
            con.sql("select * from data").fetchall()
        with pytest.raises(hypostyle.DataError, match="only 10000 values"):
            con.append("t", sparse, create=True)
        with pytest.raises(hypostyle.DataError, match="20000 different keys"):
            con.append("t", MANY_KEYS["dicts of different keys"], create=True)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer of the system")
def test_values_of_more_parts_than_there_is_time_are_interrupted():
    value = {"a": 1}
    for _ in range(200):
        value = {"a": value, "b": value}

    class Enough(BaseException):
        pass

    def stop(*_):
        raise Enough

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with hypostyle.connect() as con, pytest.raises(Enough):
            con.execute("select $1", [value])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_lists_may_have_many_levels():
    with hypostyle.connect() as con:
        value = nested(100)
        assert con.execute("select $1", [value]).fetchall() == [(value,)]


OUT_OF_RANGE = {
    "hours": np.array([5, 2**60], "M8[h]"),
    "weeks": np.array([5, 2**60], "M8[W]"),
    "years": np.array([5, 2**60], "M8[Y]"),
    "days between": np.array([5, 2**62], "m8[D]"),
    "minutes between": np.array([5, -(2**61)], "m8[m]"),
    "25 seconds": np.array([5, 2**62], "M8[25s]"),
}


@pytest.mark.parametrize("unit", OUT_OF_RANGE)
def test_times_that_no_other_unit_holds_are_refused(unit):
    data = {"c": OUT_OF_RANGE[unit]}  # noqa: F841 - read by its name
    with hypostyle.connect() as con, pytest.raises(hypostyle.DataError, match='"c", row 1'):
        con.sql("select * from data").fetchall()


def test_matrices_and_rows_of_nothing():
    pairs = {"c": np.array([[1, 2], [3, 4]]).view(np.matrix)}  # noqa: F841 - read by its name
    bare = {"c": np.zeros((3, 0))}  # noqa: F841 - read by its name
    with hypostyle.connect() as con:
        assert con.sql("select * from pairs").fetchall() == [([1, 2],), ([3, 4],)]
        assert con.sql("select count(*) from bare").fetchall() == [(3,)]
