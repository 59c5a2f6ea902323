"""Checks a written page: whole HTML, a section for each figure, the data of each chart."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from urllib.parse import unquote

from report.findings import Findings

# Elements that have no end.
EMPTY = {"meta", "br", "hr", "img", "input", "link"}


class _Page(HTMLParser):
    """Follows elements as they begin and end, and keeps ids, links and embedded data."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []
        self.ids: list[str] = []
        self.links: set[str] = set()
        self.charts: dict[str, int] = {}
        self.data: dict[str, str] = {}
        self.cells = ""
        self._section = ""
        self._record = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag not in EMPTY:
            self.open.append(tag)
        if identity := known.get("id"):
            self.ids.append(identity)
            if tag == "section":
                self._section = identity
        if known.get("id") == "cells":
            self.cells = unquote(known.get("href") or "")
        if tag == "svg" and self._section and not known.get("aria-label"):
            self.faults.append(f"a chart in {self._section} has no words")
        if tag == "svg" and self._section:
            self.charts[self._section] = self.charts.get(self._section, 0) + 1
        if tag == "script":
            self._record = known.get("id") or ""
            if known.get("type") != "application/json" or known.get("src"):
                self.faults.append("there is a script that is no data")
        for name in ("href", "src"):
            value = known.get(name) or ""
            if value.startswith("#"):
                self.links.add(value[1:])
            elif value and (name == "src" or tag == "link"):
                self.faults.append(f"the page wants another file: {value}")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in EMPTY:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at line {self.getpos()[0]} ends something else")

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.data[self._record] = self.data.get(self._record, "") + data


def faults_of(page: str, findings: Findings) -> list[str]:
    """Return what is wrong with a page; nothing if it is whole."""
    found = _Page()
    found.feed(page)
    found.close()
    faults = list(found.faults)
    if found.open:
        faults.append(f"never ended: {', '.join(found.open)}")
    if len(set(found.ids)) < len(found.ids):
        faults.append("two elements have the same id")
    if lost := found.links - set(found.ids):
        faults.append(f"links to nothing: {', '.join(sorted(lost))}")
    for finding in findings.findings:
        name = finding.experiment.id
        if name not in found.ids:
            faults.append(f"no section for {name}")
        if finding.record and not found.charts.get(name):
            faults.append(f"no chart in {name}, which has a record")
        if finding.cells and f"\n{name}," not in found.cells:
            faults.append(f"the cells of {name} are not in the table of all")
        if finding.record and f"record-{finding.record.path.name}" not in found.data:
            faults.append(f"the data of {name} are not in the page")
    for name, text in found.data.items():
        try:
            json.loads(text)
        except ValueError as error:
            faults.append(f"{name} is no JSON: {error}")
    return faults


def wrong_answers(findings: Findings) -> list[str]:
    """Return the records that have a line with a wrong answer."""
    return [f"{record.path.name} has a wrong answer" for record in findings.records if record.is_wrong]
