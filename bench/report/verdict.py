"""The rule by which a figure is reproduced, has the same shape, or differs."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations, pairwise
from math import inf

from report.papers import Claim, Experiment, Panel, Place, Value
from report.records import OWN, Cell

# A ratio is that of the paper within this factor; a paper's order counts where it is clearer than CLEAR.
WITHIN = 2.0
CLEAR = 1.25
ORDERS_MIN = 0.9  # the share of orders that make a shape
RULE = (
    "Both sides are divided by the same row, column by column. Reproduced: every ratio is the paper’s within "
    f"a factor of {WITHIN:g}, all systems stand in the paper’s order wherever it has them more than "
    f"{CLEAR:g} times apart, and what the paper states in words holds. Hypostyle stands for the paper’s own "
    "system, and PostgreSQL with our extension for its PostgreSQL++; they may be better than these by any "
    "factor. In part: the same, of what was measured. "
    f"Shape only: {ORDERS_MIN:.0%} or more of the orders and statements hold. "
    "Differs: fewer do. Not run: there is no record."
)

REPRODUCED, SHAPE, DIFFERS, NOT_RUN = "reproduced", "shape only", "differs", "not run"
IN_PART = "reproduced in part"
VERDICTS = (REPRODUCED, IN_PART, SHAPE, DIFFERS, NOT_RUN)
# Of these, more is better.
MORE_IS_BETTER = "×"


@dataclass(frozen=True)
class Check:
    text: str
    holds: bool
    is_ratio: bool = False


@dataclass(frozen=True)
class Verdict:
    name: str
    checks: list[Check] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # the panels that no record answers

    @property
    def failed(self) -> list[Check]:
        return [check for check in self.checks if not check.holds]

    def counts(self) -> str:
        """Return how many checks hold: `12 of 14 ratios, 30 of 31 orders and statements`."""
        parts = []
        for is_ratio, what in ((True, "ratios"), (False, "orders and statements")):
            of = [check for check in self.checks if check.is_ratio == is_ratio]
            if of:
                parts.append(f"{sum(check.holds for check in of)} of {len(of)} {what}")
        return ", ".join(parts)


class Matrix:
    """The measured cells of a panel."""

    def __init__(self, panel: Panel, cells: list[Cell]) -> None:
        self.panel = panel
        self.cells = {(cell.row, cell.column): cell for cell in cells if cell.panel == panel.title}
        self.rows = list(dict.fromkeys(row for row, _ in self.cells))
        found = list(dict.fromkeys(column for _, column in self.cells))
        self.columns = panel.columns or sorted(found, key=float)

    def __bool__(self) -> bool:
        return bool(self.cells)

    def value(self, row: str, column: str) -> Value | None:
        """Return a median, or a mark; None where nothing was measured."""
        cell = self.cells.get((row, column))
        return None if cell is None else cell.mark or cell.median

    def ratio(self, row: str, column: str) -> float | None:
        """Return a median in parts of that of the base."""
        value, base = self.value(row, column), self.value(self.panel.base, column)
        return value / base if _are_numbers(value, base) else None

    def published_ratio(self, row: str, column: str) -> float | None:
        value, base = (self.panel.published_at(each, column) for each in (row, self.panel.base))
        return value / base if _are_numbers(value, base) else None


def _are_numbers(*values: object) -> bool:
    return all(isinstance(value, int | float) for value in values)


def _number(value: Value | None) -> float | None:
    """Return a value to compare: what ended in a mark took longest."""
    if value in ("T", "E"):
        return inf
    return None if value is None or isinstance(value, str) else value


def judge(experiment: Experiment, cells: list[Cell]) -> Verdict:
    checks: list[Check] = []
    missing = []
    for panel in experiment.panels:
        matrix = Matrix(panel, cells)
        if not matrix:
            missing.append(panel.title)
            continue
        found = [*_ratios(matrix), *_orders(matrix), *_stated(matrix), *_lines(matrix)]
        checks += found
        if not found:
            missing.append(panel.title)
    if not checks:
        return Verdict(NOT_RUN, missing=missing)
    others = [check for check in checks if not check.is_ratio]
    if all(check.holds for check in checks):
        return Verdict(IN_PART if missing else REPRODUCED, checks, missing)
    is_shape = others and sum(check.holds for check in others) >= ORDERS_MIN * len(others)
    return Verdict(SHAPE if is_shape else DIFFERS, checks, missing)


def _ratios(matrix: Matrix) -> list[Check]:
    panel = matrix.panel
    checks = []
    for row, column in matrix.cells:
        theirs = panel.counterpart(row, column) if column in panel.columns else None
        if theirs is None or row == panel.base:
            continue
        ours, published = matrix.ratio(row, column), matrix.published_ratio(theirs, column)
        if ours is None or published is None:
            continue
        factor = ours / published
        is_better = row in OWN and factor < 1 and panel.unit != MORE_IS_BETTER
        of_paper = f"published {published:.3g} ({theirs})"
        text = f"{panel.title}, {column}: {row} is {ours:.3g} of {panel.base}, {of_paper}"
        checks.append(Check(text, is_better or 1 / WITHIN <= factor <= WITHIN, is_ratio=True))
    return checks


def _orders(matrix: Matrix) -> list[Check]:
    panel = matrix.panel
    checks = []
    for column in panel.columns:
        known = []
        for row in matrix.rows:
            theirs = panel.counterpart(row, column)
            published = _number(panel.published_at(theirs, column)) if theirs else None
            ours = _number(matrix.value(row, column))
            if published is not None and ours is not None:
                known.append((row, published, ours))
        for one, other in combinations(known, 2):
            (less, less_published, less_ours), (more, more_published, more_ours) = sorted(
                (one, other), key=lambda each: each[1]
            )
            if more_published < CLEAR * less_published or less_published == inf:
                continue
            # The paper's own systems are not held back to their old places.
            is_better = more in OWN and panel.unit != MORE_IS_BETTER
            text = f"{panel.title}, {column}: {less} before {more}"
            checks.append(Check(text, less_ours <= more_ours or is_better))
    return checks


def _stated(matrix: Matrix) -> list[Check]:
    checks = []
    for stated in matrix.panel.stated:
        for column in matrix.columns if stated.less[1] == "*" else [""]:
            places = [(row, column or of) for row, of in (stated.less, stated.than)]
            less, more = (_number(matrix.value(*place)) for place in places)
            if less is not None and more is not None:
                text = f"{stated.text}{column and f', {column}'}: {_told(matrix, places)}"
                checks.append(Check(text, less * stated.times < more))
    return checks


def _told(matrix: Matrix, places: list[Place]) -> str:
    values = [matrix.value(*place) for place in places]
    return " against ".join(f"{value:.3g}" if _are_numbers(value) else str(value) for value in values)


def _lines(matrix: Matrix) -> list[Check]:
    """Check what is stated of a whole line."""
    panel, checks = matrix.panel, []
    if panel.growth:
        points = _points(matrix, panel.growth.row)
        for (x, y), (next_x, next_y) in pairwise(points):
            grows = (next_y / y) / (next_x / x)
            text = f"{panel.growth.text}: from {x:g} to {next_x:g} {grows:.2f} times"
            checks.append(Check(text, grows <= panel.growth.times))
    if panel.at_least:
        wanted = panel.at_least
        for x, y in _points(matrix, wanted.row):
            least = max(wanted.value, wanted.of_x * x)
            checks.append(Check(f"{wanted.text}: {y:.2f} at {x:g}", y >= least))
    return checks


def _points(matrix: Matrix, row: str) -> list[tuple[float, float]]:
    found = [(column, matrix.value(row, column)) for column in matrix.columns]
    return [(float(column), value) for column, value in found if isinstance(value, int | float)]


@dataclass(frozen=True)
class Answer:
    """A claim, computed: what the paper has, what is measured, and what follows."""

    claim: Claim
    published: float | None
    measured: float | None

    @property
    def name(self) -> str:
        if self.measured is None:
            return "unmeasured"
        wanted = self.claim.at_least if self.claim.at_least is not None else self.published
        if wanted is None:
            return "measured"
        if self.measured >= wanted:
            return "met"
        return "below" if self.measured >= wanted / WITHIN else "missed"


def answer(claim: Claim, experiment: Experiment, cells: list[Cell]) -> Answer:
    """Compute a claim: how many times the value of `row` that of `other` is."""
    panel = next(panel for panel in experiment.panels if panel.title == claim.panel)
    matrix = Matrix(panel, cells)
    if not claim.other:
        column = matrix.columns[-1] if matrix and claim.column == "last" else claim.column
        value = matrix.value(claim.row, column)
        return Answer(claim, None, value if _are_numbers(value) else None)
    ours, other = matrix.value(claim.row, claim.column), matrix.value(claim.other, claim.column)
    measured = other / ours if _are_numbers(ours, other) else None
    rows = [panel.counterpart(row, claim.column) for row in (claim.row, claim.other)]
    published = [panel.published_at(row, claim.column) if row else "–" for row in rows]
    ratio = published[1] / published[0] if _are_numbers(*published) else None
    return Answer(claim, ratio, measured)
