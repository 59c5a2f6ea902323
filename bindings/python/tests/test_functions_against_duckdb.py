"""Random calls of functions that DuckDB has, too, must give the same values."""

import datetime
import math
import random

import duckdb
import hypostyle
import pytest

UNITS = [
    "microsecond",
    "millisecond",
    "second",
    "minute",
    "hour",
    "day",
    "month",
    "quarter",
    "year",
    "decade",
]
BUCKETS = ["3 months", "1 year", "2 weeks", "10 minutes", "5 days", "7 seconds"]


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def some(self, *of):
        return self.random.choice(of)

    def null_or(self, of, made):
        return f"null::{of}" if self.random.random() < 0.1 else made

    def moment(self):
        day = datetime.datetime(1990, 1, 1) + datetime.timedelta(seconds=self.random.randrange(2**30))
        ends = self.some(
            day, day.replace(day=28), datetime.datetime(2024, 2, 29), datetime.datetime(2023, 12, 31, 23, 59)
        )
        return self.null_or("timestamp", f"timestamp '{ends}'")

    def integer(self):
        return self.null_or(
            "integer", str(self.some(0, 1, -1, 7, -42, 255, 10**6, self.random.randrange(-(10**9), 10**9)))
        )

    def double(self):
        return self.null_or("double", f"{self.random.uniform(-1000, 1000):.4f}::double")

    def text(self):
        return self.null_or("varchar", "'" + self.some("", "abc", "foo-123", "é", "a1b22", "x" * 20) + "'")

    def list(self):
        return "[" + ", ".join(self.integer() for _ in range(self.random.randrange(1, 5))) + "]::bigint[]"


def unit(make):
    return f"'{make.some(*UNITS)}'"


CALLS = {
    "date_diff": lambda make: f"date_diff({unit(make)}, {make.moment()}, {make.moment()})",
    "date_sub": lambda make: f"date_sub({unit(make)}, {make.moment()}, {make.moment()})",
    "time_bucket": lambda make: f"time_bucket(interval '{make.some(*BUCKETS)}', {make.moment()})",
    "printf %d": lambda make: (
        f"printf('{make.some('%d', '%5d|', '%-8d|', '%05d', '%x', '%+d')}', {make.integer()})"
    ),
    "printf %f": lambda make: f"printf('{make.some('%f', '%.2f', '%10.3f|', '%e', '%g')}', {make.double()})",
    "printf %s": lambda make: f"printf('{make.some('%s', '%5s|', '%-5s|')}', {make.text()})",
    "format": lambda make: f"format('{make.some('{}', '<{0}>', '{:d}', '{:,}')}', {make.integer()})",
    "regexp_extract": lambda make: f"regexp_extract({make.text()}, '{make.some('[0-9]+', 'b', '^$')}')",
    "regexp_extract group": lambda make: (
        f"regexp_extract({make.text()}, '([a-z]+)-?([0-9]+)', {make.some(0, 1, 2)})"
    ),
    "list_sum": lambda make: f"list_sum({make.list()})",
    "list_aggregate": lambda make: (
        f"list_aggregate({make.list()}, '{make.some('max', 'min', 'count', 'sum')}')"
    ),
    "list_unique": lambda make: f"list_unique({make.list()})",
    "length": lambda make: f"length({make.some(make.list(), make.text())})",
    "strlen": lambda make: f"strlen({make.text()})",
    "round": lambda make: f"round({make.double()}, {make.some(0, 1, 2, 3, -1, -2, 400)})",
}

AGGREGATES = [
    "quantile_disc(x, 0.3)",
    "quantile_disc(x, [0.1, 0.9])",
    "skewness(x)",
    "kurtosis(x)",
    "kurtosis_pop(x)",
]
AGGREGATES += ["regr_r2(x, y)", "regr_r2(y, x)", "quantile_disc(s, 0.5)"]


def same(ours, theirs):
    if not (isinstance(ours, float) and isinstance(theirs, float)):
        return ours == theirs
    if math.isnan(ours) or math.isnan(theirs):
        return math.isnan(ours) and math.isnan(theirs)
    return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9)


def both(query):
    ours, theirs = hypostyle.connect(), duckdb.connect()
    return ours.execute(query).fetchall(), theirs.execute(query).fetchall()


@pytest.mark.parametrize("name", CALLS)
def test_calls_have_one_value(name):
    make = Maker(name)
    ours, theirs = hypostyle.connect(), duckdb.connect()
    for _ in range(40):
        call = CALLS[name](make)
        ((value,),), ((expected,),) = (
            session.execute(f"select {call}").fetchall() for session in (ours, theirs)
        )
        assert same(value, expected), f"{call}: {value!r}, DuckDB has {expected!r}"


@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates_have_one_value(name):
    make = Maker(name)
    for rows in (0, 1, 2, 3, 40):
        values = ", ".join(
            f"({make.some(0, 1)}, {make.some(7, make.integer())}, {make.integer()}, {make.text()})"
            for _ in range(rows)
        )
        values = values or "(null, null::integer, null::integer, null::varchar)"
        table = f"(values {values}) as v (g, x, y, s)"
        query = f"select g, {name} from {table} group by g order by g nulls first"
        for (_, value), (_, expected) in zip(*both(query), strict=True):
            assert same(value, expected), f"{query}: {value!r}, DuckDB has {expected!r}"
