"""Writes the report's tables as Markdown, for who reads in a terminal or a review."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from measure import quantity
from report.charts import number
from report.drawing import is_size
from report.findings import Finding, Findings, record_of, why_not_run
from report.verdict import RULE, Matrix


def markdown(findings: Findings) -> str:
    parts = [
        "# The papers, reproduced",
        "",
        f"Commit `{findings.commit}`{', with uncommitted changes' if findings.is_dirty else ''}; "
        f"{findings.machine.get('processor')}, {findings.machine.get('cores')} cores. "
        "`index.html` beside this file has the charts and all numbers, `cells.csv` the numbers for programs.",
        "",
        f"{findings.total()}.",
        "",
        RULE,
        "",
        *_table(
            ("figure", "what", "verdict", "what holds", "record", "distance"), map(_row, findings.findings)
        ),
        "",
        "## Claims",
        "",
        *_table(
            ("claim", "figure", "paper", "here", ""),
            (
                (
                    found.claim.text,
                    found.claim.figure,
                    _times(found.published if found.published is not None else found.claim.at_least),
                    _times(found.measured),
                    found.name,
                )
                for found in findings.answers
            ),
        ),
    ]
    for finding in findings.findings:
        parts += [
            "",
            f"## {finding.experiment.label}: {finding.experiment.title}",
            "",
            finding.experiment.question,
            "",
        ]
        parts += [f"`{finding.experiment.command}`"]
        for matrix in finding.matrices():
            parts += _panel(matrix)
        parts += ["", *(f"* {text}" for text in finding.experiment.deviations)]
        if failed := finding.verdict.failed:
            parts += ["", f"What does not hold ({len(failed)}):", ""]
            parts += [f"* {check.text}" for check in failed]
    return "\n".join(parts) + "\n"


def _row(finding: Finding) -> Sequence[str]:
    record = finding.record
    return (
        f"{finding.experiment.id}, {finding.experiment.label}",
        finding.experiment.title,
        f"**{finding.verdict.name}**",
        why_not_run(finding) or finding.verdict.counts(),
        f"{record.path.name}, {record_of(finding)}" if record else "",
        finding.distance,
    )


def _panel(matrix: Matrix) -> list[str]:
    panel = matrix.panel
    if not matrix:
        return []
    rows = []
    for row in matrix.rows:
        cells = []
        for column in matrix.columns:
            value = matrix.value(row, column)
            text = "" if value is None else value if isinstance(value, str) else _value(value, panel.unit)
            theirs = panel.counterpart(row, column) if column in panel.columns else None
            ratios = matrix.ratio(row, column), matrix.published_ratio(theirs, column) if theirs else None
            told = " / ".join(_times(ratio) for ratio in ratios) if any(ratios) else ""
            cells.append(f"{text} ({told})" if told else text)
        rows.append((row, *cells))
    title = f"{panel.title} (in brackets: times {panel.base}, here / paper)" if panel.base else panel.title
    return ["", f"{title}:", "", *_table(("", *matrix.columns), rows)]


def _value(value: float, unit: str) -> str:
    if is_size(unit):
        return f"{value:.0f} B" if value < 2**10 else quantity(value, "bytes")
    return quantity(value, "s") if unit == "s" else f"{number(value)} {unit}"


def _times(value: float | None) -> str:
    return "–" if value is None else f"{number(value)}×"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
