"""Writes all cells that the figures are of as one table of comma-separated values, for other programs."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO

from report.findings import Finding, Findings, distance
from report.papers import Value
from report.records import Cell, Record
from report.verdict import Matrix

HEADS = (
    "figure",
    "panel",
    "unit",
    "system",
    "column",
    "median",
    "least",
    "most",
    "runs",
    "samples",
    "mark",
    "base",
    "times_base",
    "paper_system",
    "paper",
    "paper_times_base",
    "record",
    "when",
    "commit",
    "distance",
)


def cells(findings: Findings) -> str:
    """Return a line for each cell that was measured, and for each published one that was not."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADS)
    for finding in findings.findings:
        for matrix in finding.matrices():
            writer.writerows(_measured_rows(finding, matrix, finding.record, finding.distance))
            writer.writerows(_published_rows(finding, matrix))
        for other in finding.others:
            for matrix in finding.matrices_of(other):
                far = distance(other, findings.machine)
                writer.writerows(_measured_rows(finding, matrix, other, far))
    return text.getvalue()


def _measured_rows(
    finding: Finding, matrix: Matrix, record: Record | None, far: str
) -> Iterator[tuple[object, ...]]:
    panel = matrix.panel
    of = (record.path.name, record.when, record.commit, far) if record else ("", "", "", "")
    for (row, column), cell in matrix.cells.items():
        theirs = _theirs(matrix, row, column)
        yield (
            *(finding.experiment.id, panel.title, panel.unit, row, column),
            *_measured(cell),
            *(panel.base, _number(matrix.ratio(row, column))),
            *(theirs or "", *_published(matrix, theirs, column)),
            *of,
        )


def _published_rows(finding: Finding, matrix: Matrix) -> Iterator[tuple[object, ...]]:
    panel = matrix.panel
    shown = {(_theirs(matrix, *place), place[1]) for place in matrix.cells}
    for row in panel.published:
        for column in panel.columns:
            value, ratio = _published(matrix, row, column)
            if value and (row, column) not in shown:
                yield (
                    *(finding.experiment.id, panel.title, panel.unit, "", column),
                    *("", "", "", "", "", ""),
                    *(panel.base, "", row, value, ratio),
                    *("", "", "", ""),
                )


def _theirs(matrix: Matrix, row: str, column: str) -> str | None:
    """Return the paper's row that stands for one of ours."""
    return matrix.panel.counterpart(row, column) if column in matrix.panel.columns else None


def _measured(cell: Cell) -> tuple[object, ...]:
    if not cell.samples:
        return "", "", "", "", "", cell.mark
    samples = " ".join(map(str, cell.samples))
    return cell.median, min(cell.samples), max(cell.samples), len(cell.samples), samples, cell.mark


def _published(matrix: Matrix, row: str | None, column: str) -> tuple[Value, Value]:
    """Return a number or a mark of the paper, and its ratio to the base."""
    if row is None:
        return "", ""
    value = matrix.panel.published_at(row, column)
    return "" if value == "–" else value, _number(matrix.published_ratio(row, column))


def _number(value: float | None) -> Value:
    return "" if value is None else value
