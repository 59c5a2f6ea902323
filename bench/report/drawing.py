"""Draws the panels of a finding: which rows and columns stand in which chart."""

from __future__ import annotations

from dataclasses import dataclass

from report.charts import Bar, Line, bars, lines, stacks
from report.findings import Finding
from report.papers import Value
from report.records import OURS, OWN
from report.verdict import Matrix

# A chart of more rows has only those that the paper has, too, and ours; the table has all.
ROWS_MAX = 16
UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
UNIT_OF_SIZE = 2**20  # sizes are measured in bytes, and drawn in MiB


@dataclass(frozen=True)
class Drawn:
    title: str
    svg: str


def is_size(unit: str) -> bool:
    return unit in UNITS or unit == "bytes"


def draw(finding: Finding, matrix: Matrix) -> list[Drawn]:
    """Draw a panel, if there is anything to draw: one chart, or one for each column of bars."""
    panel = matrix.panel
    name = f"{finding.experiment.label}: {panel.title}"
    if panel.kind == "lines":
        return _lines(name, matrix)
    if panel.kind == "stack":
        return _stack(name, matrix)
    found = []
    for column in panel.charts or panel.columns:
        rows = _rows(matrix, column)
        if rows:
            title = panel.title if len(panel.columns) == 1 else f"{panel.title}, {column}"
            found.append(Drawn(title, bars(f"{name}, {column}", rows, panel.base)))
    return found


def _rows(matrix: Matrix, column: str) -> list[Bar]:
    """Return the bars of a column: what was measured, quickest first, then what only the paper has."""
    panel = matrix.panel
    has_published = any(matrix.published_ratio(row, column) for row in panel.published)
    base = matrix.value(panel.base, column)
    measured, used = [], set()
    for row in matrix.rows:
        cell = matrix.cells.get((row, column))
        if cell is None or not isinstance(base, int | float):
            continue
        theirs = panel.counterpart(row, column)
        if theirs:
            used.add(theirs)
        low, high = (min(cell.samples) / base, max(cell.samples) / base) if cell.samples else (0.0, 0.0)
        ratio = matrix.ratio(row, column)
        published = _published(matrix, theirs, column) if theirs and has_published else None
        is_ours = row.lower().startswith(OURS) or row in OWN
        value = ratio if ratio is not None else cell.mark
        name = theirs if theirs and theirs != row else ""
        measured.append(Bar(row, value, low, high, published, is_ours, name))
    if len(measured) > ROWS_MAX:
        measured = [bar for bar in measured if bar.published is not None or bar.is_ours]
    if panel.same or not measured:
        measured.sort(key=lambda bar: (isinstance(bar.measured, str), bar.measured))
    only = [
        Bar(row, None, published=_published(matrix, row, column))
        for row in panel.published
        if row not in used and has_published and panel.published_at(row, column) != "–"
    ]
    return [*measured, *only]


def _published(matrix: Matrix, row: str, column: str) -> Value | None:
    """Return a ratio of the paper, its mark, or nothing."""
    ratio = matrix.published_ratio(row, column)
    if ratio is not None:
        return ratio
    value = matrix.panel.published_at(row, column)
    return value if value in ("T", "E") else None


def _lines(name: str, matrix: Matrix) -> list[Drawn]:
    panel = matrix.panel
    places = dict(zip(panel.columns, panel.x, strict=True)) if panel.x else {}
    known = []
    for row in matrix.rows:
        points = [(places.get(column), matrix.value(row, column)) for column in matrix.columns]
        points = [
            (float(column) if x is None else x, y)
            for (x, y), column in zip(points, matrix.columns, strict=True)
        ]
        numbers = sorted((x, y) for x, y in points if isinstance(y, int | float))
        known.append(Line(row, numbers, is_ours=row == OURS))
    if panel.linear and known:
        xs = sorted({x for line in known for x, _ in line.points})
        known.append(Line("linear", [(x, x / xs[0]) for x in xs], is_published=True))
    known = [line for line in known if line.points]
    if not known:
        return []
    band = (panel.band.text, panel.band.low, panel.band.high) if panel.band else None
    return [Drawn(panel.title, lines(name, known, panel.x_title, panel.unit, panel.log, band))]


def _stack(name: str, matrix: Matrix) -> list[Drawn]:
    rows = {}
    for row in matrix.rows:
        values = [matrix.value(row, column) for column in matrix.columns]
        if all(isinstance(value, int | float) for value in values):
            rows[row] = values
    published = {
        f"{row}, paper": [value for value in values if not isinstance(value, str)]
        for row, values in matrix.panel.published.items()
    }
    rows |= {row: values for row, values in published.items() if len(values) == len(matrix.columns)}
    return [Drawn(matrix.panel.title, stacks(name, rows, matrix.columns, matrix.panel.unit))] if rows else []
