"""Writes single charts as files of their own, for README and docs, which a page of theirs cannot style."""

from __future__ import annotations

from pathlib import Path

from report.charts import CHART_STYLE, HATCH
from report.drawing import draw
from report.findings import Findings
from report.verdict import Matrix

# The charts that tell most: the name of the file, the figure, and the title of the chart.
PICTURES = {
    "lineitem_loopback": ("CP-T3.10", "Time, Local"),
    "lineitem_wide_network": ("CP-T3.10", "Time, WAN"),
    "scaleup": ("PD-F6", "Scaleup"),
}


def pictures(findings: Findings) -> dict[str, str]:
    """Return the pictures that have a record, by the names of their files."""
    found = {}
    for name, (experiment, title) in PICTURES.items():
        finding = next(each for each in findings.findings if each.experiment.id == experiment)
        matrices: list[Matrix] = finding.matrices() if finding.record else []
        for drawn in (drawn for matrix in matrices for drawn in draw(finding, matrix)):
            if drawn.title == title:
                found[f"{name}.svg"] = _standalone(drawn.svg)
    return found


def _standalone(svg: str) -> str:
    """Return a chart with its own colours, light and dark, and a ground."""
    start, end = svg.split("\n", 1)
    sized = start.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    ground = '<rect width="100%" height="100%" style="fill: var(--page)"/>'
    return f"{sized}\n<style>\n{CHART_STYLE.read_text()}</style>\n{HATCH}\n{ground}\n{end}\n"


def write(findings: Findings, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, svg in pictures(findings).items():
        (directory / name).write_text(svg)
