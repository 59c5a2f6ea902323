"""Usual work with a frame of `df()` gives the same results as with DuckDB's frames."""

import datetime as dt
import io
import json
import warnings
from decimal import Decimal

import duckdb
import hypostyle
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cases import CASES, IDS

ROWS = 5000


@pytest.fixture
def frame(con):
    """Lines of orders, with the types of TPC-H, some of them NULL."""
    con.sql(
        f"""
        create table lines as
        select n as orderkey,
               (n % 50)::decimal(15,2) + 0.25 as quantity,
               (n % 11)::decimal(15,2) / 100 as discount,
               date '1992-01-01' + (n % 2500)::integer as shipdate,
               case when n % 10 > 0 then date '1992-01-05' + (n % 2500)::integer end as receiptdate,
               timestamp '1992-01-01 12:00:00' + n * interval '1 hour' as sold,
               case when n % 7 > 0 then n % 7 end as linenumber,
               case when n % 5 > 0 then n % 2 = 0 end as returned,
               case n % 3 when 0 then 'AIR' when 1 then 'RAIL' else 'SHIP' end as shipmode,
               'comment ' || n as comment
        from generate_series(0, {ROWS - 1}) as g (n)
        """
    )
    return con.table("lines").df()


def test_dtypes(frame):
    assert {name: str(dtype) for name, dtype in frame.dtypes.items() if name != "shipmode"} == {
        "orderkey": "int64",
        "quantity": "float64",
        "discount": "float64",
        "shipdate": "datetime64[us]",
        "receiptdate": "datetime64[us]",
        "sold": "datetime64[us]",
        "linenumber": "Int64",
        "returned": "boolean",
        "comment": "str",
    }
    assert str(frame["shipmode"].dtype) in ("str", "category")


def test_means_of_groups_are_exact_enough(frame):
    means = frame.groupby("shipmode", observed=True).discount.mean()
    for mode, remainder in (("AIR", 0), ("RAIL", 1), ("SHIP", 2)):
        expected = np.mean([n % 11 / 100 for n in range(remainder, ROWS, 3)])
        assert means[mode] == pytest.approx(expected, rel=1e-12)
    assert frame.groupby("linenumber")["quantity"].sum().index.tolist() == [1, 2, 3, 4, 5, 6]


def test_dates_compare_with_texts_and_timestamps(frame):
    days = (frame.orderkey % 2500).to_numpy()
    assert len(frame[frame.shipdate > "1995-01-01"]) == (days > 1096).sum()
    assert len(frame[frame.shipdate == pd.Timestamp("1992-01-02")]) == 2
    assert len(frame[frame.shipdate.between("1992-01-01", dt.datetime(1992, 1, 10))]) == 20
    assert len(frame.query("shipdate < '1992-01-03'")) == 4
    assert (frame.shipdate.dt.year == 1992).sum() == 732
    late = (frame.receiptdate - frame.shipdate).dt.days
    assert late.dropna().unique().tolist() == [4.0] and late.isna().sum() == ROWS // 10
    assert (frame.shipdate + pd.offsets.MonthEnd(0)).max() == pd.Timestamp("1998-11-30")
    assert frame.shipdate.dt.to_period("M").nunique() == 83


def test_time_series(frame):
    indexed = frame.set_index("sold")
    assert indexed["discount"].resample("D").count().head(2).tolist() == [12, 24]
    assert frame.set_index("shipdate")["quantity"].resample("YE").sum().index[0] == pd.Timestamp("1992-12-31")
    assert frame.set_index("shipdate").sort_index().loc["1992-01-02"].shape[0] == 2
    by_month = frame.groupby(pd.Grouper(key="shipdate", freq="MS"))["quantity"].sum()
    assert by_month.sum() == pytest.approx(frame.quantity.sum())
    assert indexed["quantity"].rolling("2h").mean().iloc[1] == pytest.approx(0.75)


def test_numbers_are_numpys(frame):
    for function in (np.log1p, np.sqrt, np.exp):
        expected = function(np.array([n % 50 + 0.25 for n in range(ROWS)]))
        np.testing.assert_array_equal(function(frame.quantity).to_numpy(), expected)
    assert (frame.quantity * 2.5 + 1).iloc[1] == 4.125
    assert (frame.quantity * (1 - frame.discount)).iloc[2] == pytest.approx(2.25 * 0.98)
    assert frame.quantity.round().iloc[2] == 2.0
    assert np.polyfit(frame.orderkey, frame.quantity, 1).shape == (2,)
    assert frame[["quantity", "discount", "linenumber"]].corr().shape == (3, 3)
    assert frame.quantity.quantile([0.5]).tolist() == [24.75]
    assert pd.cut(frame.quantity, 5).nunique() == 5
    assert np.log(frame.linenumber).isna().sum() == frame.linenumber.isna().sum()
    # These are the forms that plotting and scikit-learn take.
    assert frame[["quantity", "discount"]].to_numpy().dtype == np.float64
    assert np.asarray(frame.linenumber, dtype=float)[0] != np.asarray(frame.linenumber, dtype=float)[0]


def test_describe(frame):
    numbers = frame.describe()
    assert numbers.loc["mean", "discount"] == pytest.approx(np.mean([n % 11 / 100 for n in range(ROWS)]))
    assert numbers.loc["max", "shipdate"] == pd.Timestamp("1998-11-04")
    assert numbers.loc["count", "linenumber"] == frame.linenumber.notna().sum()
    assert "comment" in frame.describe(include="all")
    frame.info(buf=io.StringIO())


def test_json_and_csv(frame):
    (first,) = json.loads(frame.head(1).to_json(orient="records", date_format="iso"))
    assert first["quantity"] == 0.25 and first["shipdate"].startswith("1992-01-01")
    assert first["linenumber"] is None and first["returned"] is None
    again = pd.read_csv(io.StringIO(frame.to_csv(index=False)), parse_dates=["shipdate"])
    assert again.shipdate.tolist() == frame.shipdate.tolist()
    assert again.quantity.tolist() == frame.quantity.tolist()


def test_merge(frame):
    calendar = pd.DataFrame({"day": pd.date_range("1992-01-01", periods=10), "holiday": range(10)})
    for unit in ("s", "us", "ns"):
        right = calendar.assign(day=calendar.day.astype(f"datetime64[{unit}]"))
        assert len(frame.merge(right, left_on="shipdate", right_on="day")) == 20
    rates = pd.DataFrame({"discount": [0.01, 0.05], "rate": ["low", "mid"]})
    assert len(frame.merge(rates, on="discount")) == sum(n % 11 in (1, 5) for n in range(ROWS))
    lines = pd.DataFrame({"linenumber": [1, 2], "what": ["one", "two"]})
    assert len(frame.merge(lines, on="linenumber")) == frame.linenumber.isin([1, 2]).sum()
    ordered = pd.merge_asof(frame.sort_values("shipdate"), calendar, left_on="shipdate", right_on="day")
    assert ordered.holiday.max() == 9
    assert len(pd.concat([frame, frame])) == 2 * ROWS


def test_pivot_table(frame):
    table = frame.pivot_table(
        "quantity", index="shipmode", columns="linenumber", aggfunc="mean", observed=True
    )
    assert table.shape == (3, 6) and (table.dtypes == np.float64).all()
    assert frame.melt("orderkey", ["quantity", "discount"])["value"].dtype == np.float64
    assert frame.pivot_table("discount", index=frame.shipdate.dt.year).index.tolist() == list(
        range(1992, 1999)
    )


def test_missing_values(frame):
    assert len(frame[frame.returned]) == frame.returned.sum()
    assert frame.linenumber.fillna(0).astype("int64").max() == 6
    assert frame.receiptdate.fillna(frame.shipdate).notna().all()
    assert frame.dropna().shape[0] < ROWS
    assert frame.isna().sum()["receiptdate"] == ROWS // 10


def test_frames_are_written_to(frame):
    frame.loc[0, "quantity"] = 7.5
    frame.loc[frame.orderkey == 1, "shipdate"] = pd.Timestamp("2000-01-01")
    frame["revenue"] = frame.quantity * (1 - frame.discount)
    assert frame.quantity[0] == 7.5 and frame.shipdate[1] == pd.Timestamp("2000-01-01")


def test_a_frame_comes_back(con, frame):
    con.append("again", frame, create=True)
    assert con.table("again").types == [
        "BIGINT", "DOUBLE", "DOUBLE", "TIMESTAMP", "TIMESTAMP", "TIMESTAMP", "BIGINT", "BOOLEAN",
        "VARCHAR", "VARCHAR",
    ]  # fmt: skip
    pd.testing.assert_frame_equal(con.table("again").df(), frame)
    # Dates, decimals and all others become what they were.
    assert con.append("lines", frame) == ROWS
    assert con.sql(
        "select count(*), count(distinct (orderkey, quantity, discount, shipdate, receiptdate)) from lines"
    ).fetchone() == (2 * ROWS, ROWS)
    frame.loc[3, "shipdate"] = pd.Timestamp("2000-01-01 00:00:01")
    with pytest.raises(hypostyle.DataError, match='column "shipdate", row 3: 2000-01-01T00:00:01'):
        con.append("lines", frame)


def test_years_that_few_clocks_have(con):
    """The first and last days of Python's calendar, a year beyond it, and days beyond
    microseconds.
    """
    days = np.array(["0001-01-01", "1582-10-15", "1969-12-31", "9999-12-31", "12345-06-07", "NaT"], "M8[D]")
    seconds = np.array(["0001-01-01", "9999-12-31T23:59:59", "12345-06-07", "NaT"] * 2, "M8[s]")[:6]
    con.append("t", {"d": days, "s": seconds}, create=True)
    for result in (con.table("t"), con.sql("select d, s from t where d is null or d is not null")):
        frame = result.df()
        np.testing.assert_array_equal(frame.d.to_numpy(), days.astype("M8[us]"), strict=True)
        np.testing.assert_array_equal(frame.s.to_numpy(), seconds, strict=True)
    assert frame.d.isna().tolist() == [False] * 5 + [True]
    for year in (-290_000, 290_000, -300_000, 300_000):
        for nulls in ([], ["NaT"]):
            far = np.array([f"{year}-01-01", *nulls], "M8[D]")
            con.append("far", {"d": far}, create=True)
            unit = "us" if abs(year) < 292_000 else "s"
            expected = far.astype(f"M8[{unit}]")
            np.testing.assert_array_equal(con.table("far").df().d.to_numpy(), expected, strict=True)
            con.execute("drop table far")


@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.parametrize("nulls", [False, True], ids=["full", "nulls"])
def test_frames_are_duckdbs(case, nulls):
    if case.sql == "DECIMAL(60,3)":
        pytest.skip("DuckDB's decimals end at 38 digits")
    given = pa.table({"v": case.array(nulls)})
    with hypostyle.connect() as con, duckdb.connect() as peer:
        con.append("t", given, create=True)
        ours = con.table("t").df()["v"]
        peer.execute("set timezone = 'UTC'")
        with warnings.catch_warnings(action="ignore"):
            theirs = peer.sql("select * from given").df()["v"]
    if case.sql == "VARCHAR":
        ours = ours.astype("str")
    assert str(ours.dtype).replace("Etc/UTC", "UTC") == str(theirs.dtype).replace("Etc/UTC", "UTC")
    assert ours.isna().tolist() == theirs.isna().tolist()
    mine, others = ours.dropna().tolist(), theirs.dropna().tolist()
    if case.sql == "INTEGER[]":
        others = [[None if item is np.ma.masked else item for item in value] for value in others]
    if case.sql.startswith("DECIMAL"):
        # DuckDB's are not always the nearest.
        assert others == pytest.approx(mine, rel=1e-15)
        others = [float(value) for value in case.rows]
    assert mine == [bytes(value) if isinstance(value, bytearray) else value for value in others]


def test_dtypes_that_are_none(con):
    with pytest.raises(hypostyle.DataError, match="dtypes is 'arrow', but must be 'numpy' or 'exact'"):
        con.sql("select 1 as x").df(dtypes="arrow")


def test_columns_without_a_name_of_their_own_or_without_rows(con):
    con.append("t", {"d": [Decimal("1.5")], "day": [dt.date(2024, 1, 1)]}, create=True)
    empty = con.sql("select * from t where d > 2").df()
    assert empty.dtypes.astype(str).tolist() == ["float64", "datetime64[us]"]
    twice = con.sql("select a.day, b.day from t as a, t as b").df()
    assert twice.iloc[:, 0].tolist() == twice.iloc[:, 1].tolist() == [pd.Timestamp("2024-01-01")]


def test_many_rows_are_converted_by_several_threads(con):
    rows = 1_000_000
    con.append(
        "t",
        pa.table(
            {
                "d": pa.array(np.arange(rows) - rows // 2)
                .cast(pa.decimal128(19, 0))
                .cast(pa.decimal128(21, 2)),
                "day": pa.array(np.arange(rows, dtype=np.int32), mask=np.arange(rows) % 1000 == 7).cast(
                    pa.date32()
                ),
            }
        ),
        create=True,
    )
    frame = con.table("t").df()
    np.testing.assert_array_equal(frame.d.to_numpy(), np.arange(rows) - rows // 2.0)
    assert frame.day.isna().sum() == rows // 1000
    present = frame.day.dropna()
    np.testing.assert_array_equal(present.to_numpy().astype("M8[D]").astype(int), present.index.to_numpy())
