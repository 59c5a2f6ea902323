"""The rule of the verdicts, on panels that are made up."""

from __future__ import annotations

import pytest

from report.papers import AtLeast, Claim, Experiment, Growth, Panel, Stated
from report.records import Cell
from report.verdict import answer, judge

PUBLISHED = {"base": [10.0], "quick": [20.0], "slow": [200.0], "proposed": [8.0]}
SAME = {"base": "base", "quick": "quick", "slow": "slow", "hypostyle": "proposed"}


def figure(*panels):
    return Experiment("X", "CP", "Figure X", "title", "why?", ["bench"], "command", list(panels))


def panel(**changed):
    known = {"title": "Time", "unit": "s", "columns": ["local"], "base": "base"}
    return Panel(**{**known, "published": PUBLISHED, "same": SAME, **changed})


def cells(title="Time", column="local", **values):
    return [
        Cell("X", title, row, column, mark=value)
        if isinstance(value, str)
        else Cell("X", title, row, column, [value])
        for row, value in values.items()
    ]


@pytest.mark.parametrize(
    ("measured", "name"),
    [
        ({"base": 1.0, "quick": 2.0, "slow": 20.0}, "reproduced"),
        ({"base": 1.0, "quick": 1.1, "slow": 39.0}, "reproduced"),
        ({"base": 1.0, "quick": 2.0, "slow": 50.0}, "shape only"),
        ({"base": 1.0, "quick": 30.0, "slow": 20.0}, "differs"),
        ({"base": 1.0, "hypostyle": 0.001, "slow": 20.0}, "reproduced"),
        ({"base": 1.0, "hypostyle": 1.7, "slow": 20.0}, "differs"),
        ({"base": 1.0, "quick": 2.0, "slow": "T"}, "reproduced"),
        ({"base": 1.0, "unknown": 3.0}, "not run"),
        ({}, "not run"),
    ],
)
def test_a_bar_chart_is_judged_by_ratios_and_orders(measured, name):
    assert judge(figure(panel()), cells(**measured)).name == name


def test_postgresql_with_our_extension_may_be_better_than_the_papers():
    of_ours = panel(same={"base": "base", "slow": "slow", "PostgreSQL++": "proposed"})
    measured = cells(base=1.0, slow=20.0, **{"PostgreSQL++": 0.001})
    assert judge(figure(of_ours), measured).name == "reproduced"


def test_the_base_is_that_of_the_same_column():
    two = panel(
        columns=["a", "b"], published={"base": [1.0, 10.0], "slow": [5.0, 50.0]}, same={"slow": "slow"}
    )
    measured = [*cells(column="a", base=2.0, slow=10.0), *cells(column="b", base=100.0, slow=500.0)]
    assert judge(figure(two), measured).name == "reproduced"


def test_what_was_not_measured_is_told():
    verdict = judge(figure(panel(), panel(title="Size")), cells(base=1.0, quick=2.0, slow=20.0))
    assert (verdict.name, verdict.missing) == ("reproduced in part", ["Size"])


def test_more_is_better_of_ratios():
    ratios = panel(
        unit="×", published={"base": [2.0], "proposed": [4.0]}, same={"base": "base", "hypostyle": "proposed"}
    )
    assert judge(figure(ratios), cells(base=2.0, hypostyle=4.5)).name == "reproduced"
    assert judge(figure(ratios), cells(base=2.0, hypostyle=1.0)).name == "differs"


@pytest.mark.parametrize(("slow", "holds"), [(50.0, True), (9.0, False), ("T", True)])
def test_statements_hold_or_do_not(slow, holds):
    stated = Stated("ten times", ("hypostyle", "local"), ("slow", "local"), 10)
    verdict = judge(figure(panel(published={}, same={}, stated=[stated])), cells(hypostyle=1.0, slow=slow))
    assert [check.holds for check in verdict.checks] == [holds]


def test_a_statement_of_every_column_is_checked_in_each():
    stated = Stated("less", ("q2", "*"), ("q1", "*"))
    lines = panel(columns=[], published={}, same={}, stated=[stated])
    measured = [*cells(column="1", q1=2.0, q2=1.0), *cells(column="10", q1=2.0, q2=3.0)]
    assert [check.holds for check in judge(figure(lines), measured).checks] == [True, False]


def test_lines_have_growth_and_a_least():
    growing = panel(columns=[], published={}, same={}, growth=Growth("grows", "hypostyle", 1.5))
    measured = [
        *cells(column="1", hypostyle=1.0),
        *cells(column="2", hypostyle=2.0),
        *cells(column="4", hypostyle=9.0),
    ]
    assert [check.holds for check in judge(figure(growing), measured).checks] == [True, False]
    least = panel(columns=[], published={}, same={}, at_least=AtLeast("half", "hypostyle", of_x=0.5))
    measured = [*cells(column="1", hypostyle=1.0), *cells(column="8", hypostyle=3.9)]
    assert [check.holds for check in judge(figure(least), measured).checks] == [True, False]


@pytest.mark.parametrize(
    ("ours", "name"), [(0.5, "met"), (1.2, "met"), (2.0, "below"), (4.0, "missed"), (None, "unmeasured")]
)
def test_a_claim_is_a_ratio_beside_that_of_the_paper(ours, name):
    claim = Claim("faster", "X", "Time", "hypostyle", "local", other="base")
    measured = cells(base=1.5, **({} if ours is None else {"hypostyle": ours}))
    found = answer(claim, figure(panel()), measured)
    assert found.name == name
    assert found.published == 10 / 8


def test_a_claim_may_be_of_the_last_point_of_a_line():
    claim = Claim("scaleup", "X", "Time", "hypostyle", "last", at_least=0.5)
    lines = panel(columns=[], published={}, same={})
    measured = [*cells(column="10", hypostyle=0.4), *cells(column="2", hypostyle=0.9)]
    assert answer(claim, figure(lines), measured).name == "below"
