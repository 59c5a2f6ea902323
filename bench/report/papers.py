"""The inventory of the papers: papers.toml, read and checked.

Numbers are as published, in the unit of their panel. A string in their place is a mark: "T" is a timeout,
"E" out of memory, "–" a number that was not published.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

INVENTORY = Path(__file__).with_name("papers.toml")
MARKS = ("T", "E", "–")
KINDS = ("bars", "lines", "stack")

Value = float | str
Place = tuple[str, str]  # a row and a column


@dataclass(frozen=True)
class Paper:
    id: str
    title: str
    authors: str
    year: int
    where: str
    machine: str
    name: str  # for a column
    url: str = ""


@dataclass(frozen=True)
class Stated:
    """A comparison that a paper states in words: `times` what is at `less` is less than what is at `than`.

    The column "*" is every column.
    """

    text: str
    less: Place
    than: Place
    times: float = 1.0


@dataclass(frozen=True)
class Growth:
    """A statement about a line: y grows at most `times` as fast as x does."""

    text: str
    row: str
    times: float


@dataclass(frozen=True)
class AtLeast:
    """A statement about a line: every y is at least `value`, or at least `of_x` of its x."""

    text: str
    row: str
    value: float = 0.0
    of_x: float = 0.0


@dataclass(frozen=True)
class Band:
    """The range in which a paper saw its own values."""

    text: str
    low: float
    high: float


@dataclass(frozen=True)
class Panel:
    """One matrix of a figure. Without `columns` those of the record stand in their place."""

    title: str
    unit: str
    columns: list[str]
    kind: str = "bars"
    base: str = ""
    published: dict[str, list[Value]] = field(default_factory=dict)
    same: dict[str, str | list[str]] = field(default_factory=dict)
    charts: list[str] = field(default_factory=list)  # the columns that are drawn; all of them
    x: list[float] = field(default_factory=list)
    x_title: str = ""
    log: bool = False
    linear: bool = False
    stated: list[Stated] = field(default_factory=list)
    growth: Growth | None = None
    at_least: AtLeast | None = None
    band: Band | None = None

    def published_at(self, row: str, column: str) -> Value:
        """Return what the paper has at a place; "–" if it has nothing there."""
        values = self.published.get(row)
        return values[self.columns.index(column)] if values and column in self.columns else "–"

    def counterpart(self, row: str, column: str) -> str | None:
        """Return the paper's row that stands for one of ours in a column."""
        if not self.same:
            return row if row in self.published else None
        found = self.same.get(row)
        return found if isinstance(found, str | None) else found[self.columns.index(column)]


@dataclass(frozen=True)
class Experiment:
    """One table or figure. `bench` names the records that may answer it, the best one first."""

    id: str
    paper: str
    label: str
    title: str
    question: str
    bench: list[str]
    command: str
    panels: list[Panel]
    deviations: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper as a ratio: `other` through `row`, or a value and what it is at least."""

    text: str
    figure: str
    panel: str
    row: str
    column: str
    other: str = ""
    at_least: float | None = None


@dataclass(frozen=True)
class Inventory:
    papers: dict[str, Paper]
    experiments: dict[str, Experiment]
    claims: list[Claim]


class InventoryError(Exception):
    """The inventory contradicts itself."""


@cache
def inventory(path: Path = INVENTORY) -> Inventory:
    """Return the inventory; raise InventoryError where a row, a column or a name does not fit."""
    with path.open("rb") as file:
        content = tomllib.load(file)
    papers = [Paper(**paper) for paper in content["paper"]]
    experiments = [_experiment(**experiment) for experiment in content["experiment"]]
    claims = [Claim(**claim) for claim in content["claim"]]
    found = Inventory(
        {paper.id: paper for paper in papers},
        {experiment.id: experiment for experiment in experiments},
        claims,
    )
    if len(found.experiments) < len(experiments):
        raise InventoryError("two experiments have the same id")
    for experiment in experiments:
        if experiment.paper not in found.papers:
            raise InventoryError(f"{experiment.id} is of no paper: {experiment.paper}")
        for panel in experiment.panels:
            _check(f"{experiment.id}, {panel.title}", panel)
    for claim in claims:
        titles = [panel.title for panel in found.experiments[claim.figure].panels]
        if claim.panel not in titles:
            raise InventoryError(f"{claim.figure} has no panel {claim.panel}: {claim.text}")
    return found


def _experiment(panel: list[dict[str, Any]], **known: Any) -> Experiment:
    return Experiment(panels=[_panel(**each) for each in panel], **known)


def _panel(
    stated: list[dict[str, Any]] | None = None,
    growth: dict[str, Any] | None = None,
    at_least: dict[str, Any] | None = None,
    band: dict[str, Any] | None = None,
    **known: Any,
) -> Panel:
    comparisons = [
        Stated(**{**each, "less": tuple(each["less"]), "than": tuple(each["than"])}) for each in stated or []
    ]
    return Panel(
        stated=comparisons,
        growth=Growth(**growth) if growth else None,
        at_least=AtLeast(**at_least) if at_least else None,
        band=Band(**band) if band else None,
        **known,
    )


def _check(name: str, panel: Panel) -> None:
    if panel.kind not in KINDS:
        raise InventoryError(f"{name}: no kind {panel.kind}")
    for row, values in panel.published.items():
        if len(values) != len(panel.columns):
            raise InventoryError(f"{name}: {row} has {len(values)} values for {len(panel.columns)} columns")
        if wrong := [value for value in values if isinstance(value, str) and value not in MARKS]:
            raise InventoryError(f"{name}: {row} has a mark that nobody knows: {wrong[0]}")
        if any(not isinstance(value, str) and value <= 0 for value in values):
            raise InventoryError(f"{name}: {row} has a value that is not above 0")
    for ours, theirs in panel.same.items():
        rows = [theirs] if isinstance(theirs, str) else theirs
        if len(rows) not in (1, len(panel.columns)):
            raise InventoryError(f"{name}: {ours} stands for {len(rows)} rows")
        for row in rows:
            if row not in panel.published:
                raise InventoryError(f"{name}: the paper has no {row}")
    for column in (*panel.charts, *(place[1] for each in panel.stated for place in (each.less, each.than))):
        if column not in (*panel.columns, "*"):
            raise InventoryError(f"{name}: there is no column {column}")
    if panel.x and len(panel.x) != len(panel.columns):
        raise InventoryError(f"{name}: {len(panel.x)} places for {len(panel.columns)} columns")
