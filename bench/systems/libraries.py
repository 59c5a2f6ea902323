"""pandas: Q1 to Q10 by hand, on frames in memory.

As in the paper the author does what a planner would do: rows and columns that are not wanted are left out
first, and the small side is joined first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from systems.system import Source, System

Frames = dict[str, pd.DataFrame]


def day(text: str) -> pd.Timestamp:
    return pd.Timestamp(text)


def revenue(frame: pd.DataFrame) -> pd.Series:
    return frame.l_extendedprice * (1 - frame.l_discount)


def nations_of(t: Frames, region: str) -> pd.DataFrame:
    regions = t["region"].query("r_name == @region")[["r_regionkey"]]
    nations = t["nation"].merge(regions, left_on="n_regionkey", right_on="r_regionkey")
    return nations[["n_nationkey", "n_name"]]


def q01(t: Frames) -> pd.DataFrame:
    lines = t["lineitem"]
    lines = lines.loc[
        lines.l_shipdate <= day("1998-09-02"),
        ["l_returnflag", "l_linestatus", "l_quantity", "l_extendedprice", "l_discount", "l_tax"],
    ]
    price = revenue(lines)
    lines = lines.assign(price=price, charge=price * (1 + lines.l_tax))
    return (
        lines.groupby(["l_returnflag", "l_linestatus"])
        .agg(
            sum_qty=("l_quantity", "sum"),
            sum_base_price=("l_extendedprice", "sum"),
            sum_disc_price=("price", "sum"),
            sum_charge=("charge", "sum"),
            avg_qty=("l_quantity", "mean"),
            avg_price=("l_extendedprice", "mean"),
            avg_disc=("l_discount", "mean"),
            count_order=("l_quantity", "size"),
        )
        .reset_index()
    )


def q02(t: Frames) -> pd.DataFrame:
    suppliers = t["supplier"].merge(nations_of(t, "EUROPE"), left_on="s_nationkey", right_on="n_nationkey")
    parts = t["part"]
    parts = parts.loc[(parts.p_size == 15) & parts.p_type.str.endswith("BRASS"), ["p_partkey", "p_mfgr"]]
    offers = t["partsupp"][["ps_partkey", "ps_suppkey", "ps_supplycost"]]
    offers = offers.merge(parts, left_on="ps_partkey", right_on="p_partkey")
    offers = offers.merge(suppliers, left_on="ps_suppkey", right_on="s_suppkey")
    least = offers.groupby("p_partkey").ps_supplycost.transform("min")
    found = offers[offers.ps_supplycost == least].sort_values(
        ["s_acctbal", "n_name", "s_name", "p_partkey"], ascending=[False, True, True, True]
    )
    columns = ["s_acctbal", "s_name", "n_name", "p_partkey", "p_mfgr", "s_address", "s_phone", "s_comment"]
    return found[columns].head(100)


def q03(t: Frames) -> pd.DataFrame:
    customers, orders, lines = t["customer"], t["orders"], t["lineitem"]
    customers = customers.loc[customers.c_mktsegment == "BUILDING", ["c_custkey"]]
    orders = orders.loc[
        orders.o_orderdate < day("1995-03-15"), ["o_orderkey", "o_custkey", "o_orderdate", "o_shippriority"]
    ]
    orders = orders.merge(customers, left_on="o_custkey", right_on="c_custkey")
    lines = lines.loc[lines.l_shipdate > day("1995-03-15"), ["l_orderkey", "l_extendedprice", "l_discount"]]
    joined = lines.merge(orders, left_on="l_orderkey", right_on="o_orderkey")
    joined["revenue"] = revenue(joined)
    found = joined.groupby(["l_orderkey", "o_orderdate", "o_shippriority"], as_index=False).revenue.sum()
    found = found.sort_values(["revenue", "o_orderdate"], ascending=[False, True]).head(10)
    return found[["l_orderkey", "revenue", "o_orderdate", "o_shippriority"]]


def q04(t: Frames) -> pd.DataFrame:
    orders, lines = t["orders"], t["lineitem"]
    is_wanted = (orders.o_orderdate >= day("1993-07-01")) & (orders.o_orderdate < day("1993-10-01"))
    orders = orders.loc[is_wanted, ["o_orderkey", "o_orderpriority"]]
    late = lines.loc[lines.l_commitdate < lines.l_receiptdate, "l_orderkey"].unique()
    orders = orders[orders.o_orderkey.isin(late)]
    return orders.groupby("o_orderpriority").size().reset_index(name="order_count")


def q05(t: Frames) -> pd.DataFrame:
    nations = nations_of(t, "ASIA")
    customers = t["customer"][["c_custkey", "c_nationkey"]]
    customers = customers.merge(nations, left_on="c_nationkey", right_on="n_nationkey")
    orders = t["orders"]
    is_wanted = (orders.o_orderdate >= day("1994-01-01")) & (orders.o_orderdate < day("1995-01-01"))
    orders = orders.loc[is_wanted, ["o_orderkey", "o_custkey"]]
    orders = orders.merge(customers, left_on="o_custkey", right_on="c_custkey")
    lines = t["lineitem"][["l_orderkey", "l_suppkey", "l_extendedprice", "l_discount"]]
    lines = lines.merge(orders, left_on="l_orderkey", right_on="o_orderkey")
    suppliers = t["supplier"][["s_suppkey", "s_nationkey"]]
    joined = lines.merge(
        suppliers, left_on=["l_suppkey", "c_nationkey"], right_on=["s_suppkey", "s_nationkey"]
    )
    joined["revenue"] = revenue(joined)
    found = joined.groupby("n_name", as_index=False).revenue.sum()
    return found.sort_values("revenue", ascending=False)


def q06(t: Frames) -> pd.DataFrame:
    lines = t["lineitem"]
    is_wanted = (
        (lines.l_shipdate >= day("1994-01-01"))
        & (lines.l_shipdate < day("1995-01-01"))
        & (lines.l_discount >= 0.05 - 1e-9)
        & (lines.l_discount <= 0.07 + 1e-9)
        & (lines.l_quantity < 24)
    )
    lines = lines.loc[is_wanted, ["l_extendedprice", "l_discount"]]
    return pd.DataFrame({"revenue": [(lines.l_extendedprice * lines.l_discount).sum()]})


def q07(t: Frames) -> pd.DataFrame:
    nations = t["nation"].loc[t["nation"].n_name.isin(["FRANCE", "GERMANY"]), ["n_nationkey", "n_name"]]
    suppliers = t["supplier"][["s_suppkey", "s_nationkey"]].merge(
        nations.rename(columns={"n_name": "supp_nation"}), left_on="s_nationkey", right_on="n_nationkey"
    )
    customers = t["customer"][["c_custkey", "c_nationkey"]].merge(
        nations.rename(columns={"n_name": "cust_nation"}), left_on="c_nationkey", right_on="n_nationkey"
    )
    orders = t["orders"][["o_orderkey", "o_custkey"]]
    orders = orders.merge(customers[["c_custkey", "cust_nation"]], left_on="o_custkey", right_on="c_custkey")
    lines = t["lineitem"]
    is_wanted = (lines.l_shipdate >= day("1995-01-01")) & (lines.l_shipdate <= day("1996-12-31"))
    lines = lines.loc[is_wanted, ["l_orderkey", "l_suppkey", "l_shipdate", "l_extendedprice", "l_discount"]]
    joined = lines.merge(suppliers[["s_suppkey", "supp_nation"]], left_on="l_suppkey", right_on="s_suppkey")
    joined = joined.merge(orders, left_on="l_orderkey", right_on="o_orderkey")
    joined = joined[joined.supp_nation != joined.cust_nation]
    joined = joined.assign(l_year=joined.l_shipdate.dt.year, revenue=revenue(joined))
    return joined.groupby(["supp_nation", "cust_nation", "l_year"], as_index=False).revenue.sum()


def q08(t: Frames) -> pd.DataFrame:
    parts = t["part"].loc[t["part"].p_type == "ECONOMY ANODIZED STEEL", ["p_partkey"]]
    lines = t["lineitem"][["l_orderkey", "l_partkey", "l_suppkey", "l_extendedprice", "l_discount"]]
    lines = lines.merge(parts, left_on="l_partkey", right_on="p_partkey")
    orders = t["orders"]
    is_wanted = (orders.o_orderdate >= day("1995-01-01")) & (orders.o_orderdate <= day("1996-12-31"))
    orders = orders.loc[is_wanted, ["o_orderkey", "o_custkey", "o_orderdate"]]
    joined = lines.merge(orders, left_on="l_orderkey", right_on="o_orderkey")
    customers = t["customer"][["c_custkey", "c_nationkey"]]
    customers = customers.merge(nations_of(t, "AMERICA"), left_on="c_nationkey", right_on="n_nationkey")
    joined = joined.merge(customers[["c_custkey"]], left_on="o_custkey", right_on="c_custkey")
    suppliers = t["supplier"][["s_suppkey", "s_nationkey"]].merge(
        t["nation"][["n_nationkey", "n_name"]], left_on="s_nationkey", right_on="n_nationkey"
    )
    joined = joined.merge(suppliers[["s_suppkey", "n_name"]], left_on="l_suppkey", right_on="s_suppkey")
    volume = revenue(joined)
    joined = joined.assign(
        o_year=joined.o_orderdate.dt.year,
        volume=volume,
        of_brazil=volume.where(joined.n_name == "BRAZIL", 0.0),
    )
    found = joined.groupby("o_year")[["of_brazil", "volume"]].sum().reset_index()
    return pd.DataFrame({"o_year": found.o_year, "mkt_share": found.of_brazil / found.volume})


def q09(t: Frames) -> pd.DataFrame:
    parts = t["part"].loc[t["part"].p_name.str.contains("green", regex=False), ["p_partkey"]]
    lines = t["lineitem"][
        ["l_orderkey", "l_partkey", "l_suppkey", "l_quantity", "l_extendedprice", "l_discount"]
    ]
    joined = lines.merge(parts, left_on="l_partkey", right_on="p_partkey")
    offers = t["partsupp"][["ps_partkey", "ps_suppkey", "ps_supplycost"]]
    joined = joined.merge(offers, left_on=["l_partkey", "l_suppkey"], right_on=["ps_partkey", "ps_suppkey"])
    suppliers = t["supplier"][["s_suppkey", "s_nationkey"]].merge(
        t["nation"][["n_nationkey", "n_name"]], left_on="s_nationkey", right_on="n_nationkey"
    )
    joined = joined.merge(suppliers[["s_suppkey", "n_name"]], left_on="l_suppkey", right_on="s_suppkey")
    orders = t["orders"][["o_orderkey", "o_orderdate"]]
    joined = joined.merge(orders, left_on="l_orderkey", right_on="o_orderkey")
    amount = revenue(joined) - joined.ps_supplycost * joined.l_quantity
    joined = joined.assign(o_year=joined.o_orderdate.dt.year, amount=amount)
    found = joined.groupby(["n_name", "o_year"], as_index=False).amount.sum()
    return found.sort_values(["n_name", "o_year"], ascending=[True, False])


def q10(t: Frames) -> pd.DataFrame:
    orders, lines = t["orders"], t["lineitem"]
    is_wanted = (orders.o_orderdate >= day("1993-10-01")) & (orders.o_orderdate < day("1994-01-01"))
    orders = orders.loc[is_wanted, ["o_orderkey", "o_custkey"]]
    lines = lines.loc[lines.l_returnflag == "R", ["l_orderkey", "l_extendedprice", "l_discount"]]
    joined = lines.merge(orders, left_on="l_orderkey", right_on="o_orderkey")
    joined["revenue"] = revenue(joined)
    found = joined.groupby("o_custkey", as_index=False).revenue.sum()
    found = found.sort_values("revenue", ascending=False).head(20)
    found = found.merge(t["customer"], left_on="o_custkey", right_on="c_custkey")
    found = found.merge(t["nation"], left_on="c_nationkey", right_on="n_nationkey")
    found = found.sort_values("revenue", ascending=False)
    columns = ["c_custkey", "c_name", "revenue", "c_acctbal", "n_name", "c_address", "c_phone", "c_comment"]
    return found[columns]


QUERIES: dict[str, Callable[[Frames], pd.DataFrame]] = {
    query.__name__: query for query in (q01, q02, q03, q04, q05, q06, q07, q08, q09, q10)
}


class Pandas(System):
    def load(self, tables: Sequence[Source]) -> None:
        """Remember the tables: a library has no database."""
        self.tables = tables

    def open(self) -> None:
        self.frames = {table.name: table.frame() for table in self.tables}

    def run(self, name: str, sql: str) -> Any:
        return QUERIES[name](self.frames)

    def rows(self, name: str, sql: str, result: Any) -> Sequence[Sequence[Any]]:
        return list(result.itertuples(index=False, name=None))
