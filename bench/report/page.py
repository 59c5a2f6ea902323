"""Writes the report as one page: HTML with the charts in it, which needs no script and no other file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from measure import quantity
from report.cells import cells
from report.charts import CHART_STYLE, HATCH, number
from report.drawing import Drawn, draw, is_size
from report.findings import Finding, Findings, distance, named, record_of, why_not_run
from report.papers import MARKS, Paper, Value
from report.records import OWN, Cell, Record
from report.steps import SCALES, Plan, plan
from report.verdict import RULE, Matrix

STYLE = Path(__file__).with_name("style.css")
NOT_MEASUREMENTS = (
    "Figure 3-2 of the chapter, Figures 1 to 4 of MonetDBLite’s paper and Figures 1 and 2 of PosDB’s are "
    "drawings, and not repeated; Table 3.2 is the input of Figures 3-5 to 3-11."
)


def html(findings: Findings) -> str:
    """Return the page."""
    sections = [_section(findings, finding) for finding in findings.findings]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            "<title>The papers, reproduced</title>",
            f"<style>\n{CHART_STYLE.read_text()}{STYLE.read_text()}</style>",
            "</head>",
            "<body>",
            f'<svg class="defined" aria-hidden="true">{HATCH}</svg>',
            "<h1>The papers, reproduced</h1>",
            _introduction(findings),
            _contents(findings),
            _matrix(findings),
            _claims(findings),
            _machine(findings),
            _plan(findings),
            *sections,
            _records(findings),
            "</body>",
            "</html>",
            "",
        ]
    )


def _introduction(findings: Findings) -> str:
    papers = "".join(f"<li>{_paper(paper)}</li>" for paper in findings.inventory.papers.values())
    return (
        "<p>Three papers are the specification of Hypostyle. This page repeats each of their tables and "
        "figures by a command of this repository, beside the published numbers and the systems of today.</p>"
        f"<ul>{papers}</ul>"
        "<p>Machines and scales differ from the papers’, so both sides are ratios to a common base. A bar is "
        "the median of the runs, its whisker reaches from the least to the most, hatched bars are published. "
        "Bars begin at the base, on a logarithmic axis. "
        "T is a timeout, E an end without memory. A figure is of one run of one bench: nothing of two runs, "
        f"commits or machines is in the same picture.</p><p>{escape(NOT_MEASUREMENTS)}</p>"
    )


def _contents(findings: Findings) -> str:
    """Return links to all parts of the page, the figures by their papers."""
    parts = {
        "matrix": "Verdicts: the matrix of all tables and figures",
        "claims": "The headline claims, computed",
        "machine": "Commit, machine, versions",
        "steps": "To repeat it: steps, minutes, disk, seeds",
        "records": "Raw data",
    }
    lists = ["<ul>" + "".join(f'<li><a href="#{id}">{text}</a></li>' for id, text in parts.items()) + "</ul>"]
    for paper in findings.inventory.papers.values():
        figures = "".join(
            f'<li><a href="#{finding.experiment.id}">{escape(finding.experiment.label)}</a>: '
            f"{escape(finding.experiment.title)}</li>"
            for finding in findings.findings
            if finding.experiment.paper == paper.id
        )
        lists.append(f"<ul><li>{escape(paper.name)}<ul>{figures}</ul></li></ul>")
    return f'<nav id="contents" aria-label="Contents">{"".join(lists)}</nav>'


def _paper(paper: Paper) -> str:
    title = f'<a href="{escape(paper.url)}">{escape(paper.title)}</a>' if paper.url else escape(paper.title)
    where = f"{escape(paper.where)}; measured on: {escape(paper.machine)}"
    return f"{escape(paper.authors)}: {title}, {paper.year}; {where}."


def _table(
    heads: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]], numbers: set[int] | None = None
) -> str:
    """Return a table of ready cells; each row has a class, and `numbers` are the columns of numbers."""
    numbers = numbers or set()

    def kind(index: int) -> str:
        return ' class="number"' if index in numbers else ""

    head = "".join(f'<th scope="col"{kind(index)}>{text}</th>' for index, text in enumerate(heads))
    body = "".join(
        f'<tr class="{row_class}">'
        + "".join(f"<td{kind(index)}>{text}</td>" for index, text in enumerate(cells))
        + "</tr>\n"
        for row_class, cells in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _named(name: str) -> str:
    return f'<span class="verdict {name.partition(" ")[0]}">{escape(name)}</span>'


def _matrix(findings: Findings) -> str:
    rows = []
    for finding in findings.findings:
        verdict = finding.verdict
        experiment = finding.experiment
        missing = (
            f"; not measured: {'; '.join(verdict.missing)}" if verdict.checks and verdict.missing else ""
        )
        rows.append(
            (
                "aged" if finding.distance else "",
                (
                    escape(findings.inventory.papers[experiment.paper].name),
                    f'<a href="#{experiment.id}">{escape(experiment.label)}</a>',
                    escape(experiment.title),
                    _named(verdict.name),
                    escape(why_not_run(finding) or verdict.counts()) + escape(missing),
                    escape(record_of(finding)),
                    escape(finding.distance),
                ),
            )
        )
    heads = (
        "paper",
        "table or figure",
        "what",
        "verdict",
        "what holds",
        "record of",
        "distance of the record",
    )
    title = f"All {len(findings.findings)} tables and figures"
    return (
        f'<section id="matrix"><h2>{title}</h2><p>{escape(findings.total())}.</p>{_table(heads, rows)}'
        f'<p class="muted">{escape(RULE)} Greyed: a record of another commit or machine than this page.</p>'
        "</section>"
    )


def _claims(findings: Findings) -> str:
    rows = []
    for found in findings.answers:
        claim = found.claim
        ratio = escape(
            f"{claim.other} ÷ {claim.row}, {claim.column}" if claim.other else f"{claim.panel}, {claim.row}"
        )
        wanted = "" if claim.at_least is None else f"at least {number(claim.at_least)}×"
        rows.append(
            (
                "",
                (
                    escape(claim.text),
                    f'<a href="#{claim.figure}">{claim.figure}</a>: {ratio}',
                    wanted if found.published is None else f"{number(found.published)}×",
                    "–" if found.measured is None else f"{number(found.measured)}×",
                    _named(found.name),
                ),
            )
        )
    heads = ("what the paper says", "as a ratio", "paper", "here", "")
    return (
        '<section id="claims"><h2>The headline claims, computed</h2>'
        f"{_table(heads, rows, {2, 3})}"
        '<p class="muted">Met: our ratio is the paper’s or more. Below: half of it or more. Missed: less.</p>'
        "</section>"
    )


def _machine(findings: Findings) -> str:
    dirty = ' <span class="dirty">with uncommitted changes</span>' if findings.is_dirty else ""
    machine = "".join(
        f"<dt>{escape(what.replace('_', ' '))}</dt><dd>{escape(_told(what, value))}</dd>"
        for what, value in findings.machine.items()
    )
    versions = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in findings.versions.items()
    )
    return (
        '<section id="machine"><h2>Commit, machine, versions</h2>'
        f"<p>Commit <code>{escape(findings.commit)}</code>{dirty}.</p><dl>{machine}</dl>"
        "<details><summary>Versions of everything that was measured</summary>"
        f"<dl>{versions}</dl></details></section>"
    )


def _told(what: str, value: Any) -> str:
    return quantity(value, "bytes") if what.endswith("_bytes") else str(value)


def _plan(findings: Findings) -> str:
    rows = []
    for step in plan().values():
        ran = findings.steps.get(step.name)
        rows.append(
            (
                "",
                (
                    escape(step.name),
                    escape(step.needs),
                    escape(step.seed),
                    *(_cost(step, scale) for scale in SCALES),
                    ""
                    if ran is None
                    else f"{ran.seconds / 60:.1f} min{f', {escape(ran.why)}' if ran.why else ''}",
                ),
            )
        )
    heads = ("step", "needs", "seed", *SCALES, "this run")
    return (
        '<section id="steps"><h2>To repeat it</h2><p><code>make report RUN=smoke</code>, '
        "<code>RUN=quick</code> or <code>RUN=full</code> runs the steps and writes this page. "
        "It goes on where it stopped. Minutes are those of two cores.</p>"
        f"{_table(heads, rows)}</section>"
    )


def _cost(step: Plan, scale: str) -> str:
    minutes, disk = step.minutes.get(scale), step.disk_gb.get(scale)
    return "–" if minutes is None else f"{minutes:g} min, {disk:g} GB"


def _section(findings: Findings, finding: Finding) -> str:
    experiment = finding.experiment
    paper = findings.inventory.papers[experiment.paper]
    by = f"{paper.authors.partition(',')[0]} et al., {paper.year}"
    parts = [
        f'<section id="{experiment.id}"><h2>{escape(experiment.label)}: {escape(experiment.title)}</h2>',
        f'<p><em>{escape(experiment.question)}</em> <span class="muted">({escape(by)})</span></p>',
        f"<p>{_named(finding.verdict.name)}: {escape(why_not_run(finding) or finding.verdict.counts())}.</p>",
        _charts(finding),
        _wire(finding),
        *(_numbers(matrix) for matrix in finding.matrices()),
        *(_other(findings, finding, other) for other in finding.others),
        _failed(finding),
        _facts(findings, finding),
        '<p class="up"><a href="#contents">Contents</a></p>',
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _charts(finding: Finding) -> str:
    aged = ' class="aged"' if finding.distance else ""
    drawn: list[Drawn] = [each for matrix in finding.matrices() for each in draw(finding, matrix)]
    figures = "\n".join(
        f"<figure{aged}>{each.svg}<figcaption>{escape(each.title)}</figcaption></figure>" for each in drawn
    )
    return f'<div class="charts">{figures}</div>' if drawn else ""


def _wire(finding: Finding) -> str:
    """Return the bytes of two rows on the wire, data and overhead told apart, if the record has them."""
    dumps = finding.record.content.get("dumps", {}) if finding.record else {}
    dumps = dumps.get(finding.experiment.id, {})
    parts = []
    for party, fields in dumps.items():
        content = "".join(
            f'<span class="{kind}" title="{escape(meaning, quote=True)}">{escape(text)}</span> '
            for kind, meaning, text in fields
        )
        parts.append(f'<h3>{escape(party)}</h3><pre class="wire">{content}</pre>')
    return "\n".join(parts)


def _numbers(matrix: Matrix) -> str:
    """Return the table of a panel: ours with spread and number of runs, the paper’s, and both ratios."""
    panel = matrix.panel
    has_both = panel.base and panel.published
    rows = []
    for row in [*matrix.rows, *(row for row in panel.published if row not in matrix.rows)]:
        for column in matrix.columns:
            cell = matrix.cells.get((row, column))
            theirs = panel.counterpart(row, column) if cell else row
            published = panel.published_at(theirs, column) if theirs else "–"
            if cell is None and (published == "–" or (matrix and _is_shown(matrix, row, column))):
                continue
            cells = (
                escape(row)
                + (f' <span class="muted">({escape(theirs)})</span>' if theirs not in (None, row) else ""),
                escape(column),
                *_measured(cell, panel.unit),
                *([_ratio(matrix.ratio(row, column))] if panel.base else []),
                *([_plain(published, panel.unit)] if panel.published else []),
                *([_ratio(matrix.published_ratio(theirs, column) if theirs else None)] if has_both else []),
            )
            rows.append(("ours" if row in OWN else "", cells))
    if not rows:
        return ""
    base = escape(panel.base)
    heads = ["system", escape(panel.x_title) or "column", "median", "least to most", "runs"]
    heads += [f"÷ {base}"] if panel.base else []
    heads += ["paper"] if panel.published else []
    heads += [f"÷ {base}, paper"] if has_both else []
    table = _table(heads, rows, set(range(2, len(heads))))
    return f"<details><summary>{escape(panel.title)}: the numbers</summary>{table}</details>"


def _other(findings: Findings, finding: Finding, other: Record) -> str:
    """Return the tables of another record of the figure, which may have other systems."""
    tables = "".join(map(_numbers, finding.matrices_of(other)))
    far = distance(other, findings.machine)
    told = f"{other.path.name}, {named(other)}{far and f'; {far}'}"
    aged = ' class="aged"' if far else ""
    return (
        f"<details{aged}><summary>Another record: {escape(told)}</summary>{tables}</details>"
        if tables
        else ""
    )


def _is_shown(matrix: Matrix, row: str, column: str) -> bool:
    """Whether a row of the paper stands beside one of ours already."""
    return any(of == column and matrix.panel.counterpart(ours, column) == row for ours, of in matrix.cells)


def _measured(cell: Cell | None, unit: str) -> tuple[str, str, str]:
    if cell is None:
        return "", "", ""
    if not cell.samples:
        return cell.mark, "", ""
    spread = f"{_formatted(min(cell.samples), unit)} to {_formatted(max(cell.samples), unit)}"
    return _formatted(cell.median, unit), spread if len(cell.samples) > 1 else "", str(len(cell.samples))


def _formatted(value: float, unit: str) -> str:
    if is_size(unit):
        return f"{value:.0f} B" if value < 2**10 else quantity(value, "bytes")
    return quantity(value, "s") if unit == "s" else f"{number(value)} {unit}"


def _plain(value: Value, unit: str) -> str:
    return str(value) if value in MARKS else f"{number(float(value))} {unit}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{number(value)}×"


def _failed(finding: Finding) -> str:
    failed = finding.verdict.failed
    if not failed:
        return ""
    listed = "".join(f"<li>{escape(check.text)}</li>" for check in failed)
    return f"<details><summary>What does not hold ({len(failed)})</summary><ul>{listed}</ul></details>"


def _facts(findings: Findings, finding: Finding) -> str:
    experiment, record = finding.experiment, finding.record
    facts = [("Command", f"<code>{escape(experiment.command)}</code>")]
    if experiment.deviations:
        facts.append(
            (
                "Deviations",
                "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in experiment.deviations) + "</ul>",
            )
        )
    if record:
        runs = f"scale factor {record.content['scale_factor']:g}, {record.content['runs']} runs"
        told = f"{record.path.name}, {record.when}, {runs}, commit"
        facts.append(("Record", f"{escape(told)} <code>{escape(record.commit[:12])}</code>"))
        if finding.distance:
            facts.append(("Distance", escape(finding.distance)))
        if record.is_wrong:
            facts.append(("Answers", '<span class="dirty">the record has lines with wrong answers</span>'))
        if notes := [note for note in record.content["notes"] if "carried to the client" not in note]:
            listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
            facts.append(
                (
                    "Notes",
                    f"<details><summary>{len(notes)} of the record</summary><ul>{listed}</ul></details>",
                )
            )
    facts.append(("Time", escape(_minutes(findings, finding))))
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in facts) + "</dl>"


def _minutes(findings: Findings, finding: Finding) -> str:
    """Say how long the bench of a figure took, or takes."""
    if (minutes := findings.minutes(finding)) is not None:
        return f"{minutes:.1f} minutes for the bench"
    step = next(plan()[bench] for bench in finding.experiment.bench if bench in plan())
    told = ", ".join(f"{minutes:g} ({scale})" for scale, minutes in step.minutes.items())
    return f"about {told} minutes for the bench {step.name}"


def _records(findings: Findings) -> str:
    """Embed the records that the figures are of, with every sample."""
    used: dict[str, Record] = {
        record.path.name: record
        for finding in findings.findings
        for record in (finding.record, *finding.others)
        if record
    }
    parts = [
        f'<script type="application/json" id="record-{escape(name)}">\n{_embedded(record.content)}\n</script>'
        for name, record in used.items()
    ]
    return (
        '<section id="records"><h2>Raw data</h2>'
        f"<p>The {len(used)} records with all samples are in this file, "
        "each in an element <code>script</code> of the type <code>application/json</code>: "
        f"{escape(', '.join(used))}. In the repository they are in bench/results.</p>"
        f"<p>{_download(findings)}: one line for each cell of each figure, with its samples, the published "
        "value, and both ratios to the base.</p></section>\n" + "\n".join(parts)
    )


def _download(findings: Findings) -> str:
    """Return a link to all cells, which is the file itself."""
    content = quote(cells(findings), safe=",:;/()+*=-_.~!@$'")
    return f'<a id="cells" download="cells.csv" href="data:text/csv;charset=utf-8,{content}">cells.csv</a>'


def _embedded(content: Any) -> str:
    """Return JSON that no browser takes for an end of its element."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
