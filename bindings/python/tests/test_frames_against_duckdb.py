"""Aggregates over random frames here and in DuckDB must be the same: of rows with NULLs next to each
other, great and small numbers, and frames that leave rows behind, or have none.
"""

import random

import pytest
from campaigns import fixed_seeds
from compared.peers import DuckDb, Hypostyle, same

ROWS = 40
QUERIES = 60
ONE = ["sum", "avg", "min", "max", "count", "var_samp", "var_pop", "stddev_samp", "stddev_pop"]
TWO = [
    "covar_pop",
    "covar_samp",
    "corr",
    "regr_slope",
    "regr_intercept",
    "regr_count",
    "regr_sxy",
    "regr_avgx",
]


def values(rng):
    """Return a row for each number, with runs of NULLs."""
    runs = [rng.random() < 0.4 for _ in range(ROWS // 4 + 1)]
    for number in range(ROWS):
        is_null = runs[number // 4] and rng.random() < 0.9
        i = "null" if is_null else rng.randint(-5, 5)
        f = "null" if is_null else rng.choice([0, 1, 2.5, -3, 0.125, 1000])
        d = "null" if is_null else rng.choice(["1.50", "-2.25", "100.00", "0.01"])
        yield f"({number}, {rng.randint(0, 2)}, {i}, {f}, {d}, {rng.choice(['null', 'true', 'false'])})"


def bounds(rng, units):
    """Return a frame."""
    offsets = [
        "unbounded preceding",
        "3 preceding",
        "1 preceding",
        "current row",
        "1 following",
        "4 following",
    ]
    start, end = sorted(rng.sample(range(len(offsets) + 1), 2))
    offsets.append("unbounded following")
    if units == "range" and rng.random() < 0.3:
        end = start
    return f"{units} between {offsets[start]} and {offsets[max(end, start)]}"


def call(rng):
    """Return an aggregate over a window."""
    if rng.random() < 0.3:
        name, arguments = rng.choice(TWO), ", ".join(rng.choice(["f", "i", "id"]) for _ in range(2))
    else:
        name = rng.choice(ONE)
        arguments = rng.choice(["f", "i", "d"])
    condition = rng.choice(["", "", " filter (where o)", " filter (where i > 0)"])
    units = rng.choice(["rows", "rows", "range", "groups"])
    partition = rng.choice(["", "partition by g "])
    return f"{name}({arguments}){condition} over ({partition}order by id {bounds(rng, units)})"


@pytest.mark.parametrize("seed", fixed_seeds())
@pytest.mark.parametrize("pipelines", ["on", "off"])
def test_frames_have_the_answers_of_duckdb(seed, pipelines, monkeypatch):
    monkeypatch.setattr(Hypostyle, "pipelines", pipelines)
    rng = random.Random(seed)
    ours, theirs = Hypostyle(), DuckDb()
    table = "create table t (id integer, g integer, i integer, f double, d decimal(9, 2), o boolean)"
    rows = f"insert into t values {', '.join(values(rng))}"
    for who in (ours, theirs):
        assert who.answer(table, []).rows is not None
        assert who.answer(rows, []).rows is not None
    for _ in range(QUERIES):
        sql = f"select id, {call(rng)} as c from t order by id"
        if (expected := theirs.answer(sql, [])).rows is None:
            continue
        found = ours.answer(sql, [])
        # Where a variance is 0, DuckDB has NaN for NULL.
        rows = [(key, None if value != value else value) for key, value in expected.rows]
        assert same(found, type(found)(rows), True), f"{sql}\n{found}\n{expected}"
