"""The page in a browser: at two widths no text overlaps another or is cut, and both palettes can be read."""

from __future__ import annotations

import html as markup
import itertools
import json
import os
import random
import re
import shutil
import subprocess
from dataclasses import asdict

import pytest

from measure import RECORDS
from report.charts import CHART_STYLE, COLOURS
from report.check import faults_of
from report.findings import find
from report.page import STYLE, html
from report.papers import inventory
from report.records import Cell, read

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WIDTHS = (1280, 390)
CONTRAST_MIN = 4.5  # of text, by the Web Content Accessibility Guidelines
CONTRAST_OF_SHAPES_MIN = 3.0

# A frame has exactly the width that is wanted; a window does not.
FRAME = """<!doctype html><meta charset="utf-8">
<iframe id="page" style="width:{width}px;height:900px;border:0" srcdoc="{page}"></iframe>
<pre id="found"></pre>
<script>
document.getElementById("page").onload = (event) => {{
  const page = event.target.contentDocument, found = [];
  const name = (element) => element.textContent.trim().slice(0, 40);
  for (const details of page.querySelectorAll("details")) details.open = true;
  const apart = (a, b) =>
    a.right <= b.left + 1 || b.right <= a.left + 1 || a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
  const within = (a, b) =>
    a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
  let charts = 0, texts = 0;
  for (const chart of page.querySelectorAll("figure svg")) {{
    charts += 1;
    const box = chart.getBoundingClientRect(), label = chart.getAttribute("aria-label");
    if (box.width < 300 || box.height < 30) found.push(`${{label}} is ${{box.width}} by ${{box.height}}`);
    const known = [...chart.querySelectorAll("text")]
      .map((text) => [name(text), text.getBoundingClientRect()]);
    texts += known.length;
    known.forEach(([text, place], index) => {{
      if (!within(place, box)) found.push(`${{label}}: ${{text}} is cut`);
      for (const [other, its] of known.slice(index + 1))
        if (!apart(place, its)) found.push(`${{label}}: ${{text}} overlaps ${{other}}`);
    }});
    for (const shape of chart.querySelectorAll("rect, circle, path.line"))
      if (!within(shape.getBoundingClientRect(), box)) found.push(`${{label}}: a shape is outside`);
  }}
  const root = page.documentElement;
  if (root.scrollWidth > root.clientWidth)
    found.push(`the page is ${{root.scrollWidth}} wide, not ${{root.clientWidth}}`);
  for (const element of page.querySelectorAll("p, li, h1, h2, h3, dd, td, th, summary, figcaption")) {{
    if (element.closest(".wide")) continue;
    const place = element.getBoundingClientRect();
    if (place.right > root.clientWidth + 1 || place.left < -1) found.push(`${{name(element)}} is outside`);
  }}
  const sections = page.querySelectorAll("section").length;
  document.getElementById("found").textContent = JSON.stringify({{charts, texts, sections, found}});
}};
</script>
"""


def measured(random):
    """Cells of every panel of every figure, by their bench, with any values and some marks."""
    found = {}
    for experiment in inventory().experiments.values():
        for panel in experiment.panels:
            places = [place for stated in panel.stated for place in (stated.less, stated.than)]
            rows = ["hypostyle", *(panel.same or panel.published), panel.base, *(row for row, _ in places)]
            rows = [*filter(None, dict.fromkeys(rows)), "PostgreSQL, by a client with quite a long name"]
            for row, column in itertools.product(rows, panel.columns or ["1", "3", "10", "30"]):
                value = 10 ** random.uniform(-3, 3)
                samples = [value * random.uniform(0.9, 1.1) for _ in range(3)]
                mark = random.choice("TE") if random.random() < 0.03 and row != panel.base else ""
                cell = (experiment.id, panel.title, row, column, [] if mark else samples, mark)
                found.setdefault(experiment.bench[0], []).append(Cell(*cell))
    return found


@pytest.fixture(scope="module", params=[1, 2])
def full(request, tmp_path_factory):
    """The page of a run in which everything was measured."""
    directory = tmp_path_factory.mktemp("records")
    for bench, cells in measured(random.Random(request.param)).items():
        record = json.loads((RECORDS / "tpch.json").read_text())
        record |= {"bench": bench, "measurements": [], "cells": [asdict(cell) for cell in cells]}
        (directory / f"{bench}.json").write_text(json.dumps(record))
    findings = find(inventory(), read(directory), directory)
    page = html(findings)
    assert faults_of(page, findings) == []
    assert all(finding.verdict.checks for finding in findings.findings)
    return page


@pytest.fixture(scope="module")
def page():
    return html(find(inventory(), read(RECORDS), RECORDS))


def looked_at(page, width, directory):
    """Return what a browser finds in a page of this width."""
    wrapped = directory / "frame.html"
    wrapped.write_text(FRAME.format(width=width, page=markup.escape(page, quote=True)))
    command = [CHROMIUM, "--headless", "--disable-gpu", f"--user-data-dir={directory / 'profile'}"]
    if os.geteuid() == 0:
        command.append("--no-sandbox")  # which root cannot have
    command += ["--virtual-time-budget=20000", "--dump-dom", wrapped.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    found = re.search(r'<pre id="found">(.+?)</pre>', done.stdout, re.DOTALL)
    assert found, f"the browser told nothing: {done.stderr[-500:]}"
    return json.loads(markup.unescape(found[1]))


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed; scripts/setup_report.sh installs it")
@pytest.mark.parametrize("width", WIDTHS)
def test_no_text_overlaps_or_is_cut(page, width, tmp_path):
    found = looked_at(page, width, tmp_path)
    assert found["found"] == []
    assert found["charts"] >= 40
    assert found["texts"] >= 400
    assert found["sections"] >= len(inventory().experiments)


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed; scripts/setup_report.sh installs it")
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_overlaps_when_all_figures_are_measured(full, width, tmp_path):
    found = looked_at(full, width, tmp_path)
    assert found["found"] == []
    assert found["charts"] >= 60


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed; scripts/setup_report.sh installs it")
def test_the_browser_finds_what_overlaps(page, tmp_path):
    places = {"one text": 1, "another text": 5, "cut": 2000}
    text = "".join(f'<text x="{x}" y="20">{word}</text>' for word, x in places.items())
    broken = page.replace('role="img"', 'role="img" class="first"', 1).replace(
        "</svg><figcaption>", f"{text}</svg><figcaption>", 1
    )
    found = " ".join(looked_at(broken, WIDTHS[0], tmp_path)["found"])
    assert "one text overlaps another text" in found
    assert "cut is cut" in found


def luminance(colour):
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(palette, name, background):
    light, dark = re.findall(r":root \{(.*?)\}", CHART_STYLE.read_text(), re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", dark if palette == "dark" else light))
    high, low = sorted((luminance(colours[name]), luminance(colours[background])), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", ["light", "dark"])
@pytest.mark.parametrize("background", ["page", "panel"])
@pytest.mark.parametrize("name", ["text", "muted", "good", "middling", "bad", "link"])
def test_text_can_be_read_on_both_palettes(palette, background, name):
    assert contrast(palette, name, background) >= CONTRAST_MIN


@pytest.mark.parametrize("palette", ["light", "dark"])
@pytest.mark.parametrize("name", ["ours", "peer", "paper", *(f"c{number}" for number in range(COLOURS))])
def test_bars_and_lines_can_be_seen_on_both_palettes(palette, name):
    assert contrast(palette, name, "panel") >= CONTRAST_OF_SHAPES_MIN


def test_the_words_of_an_older_record_are_as_clear_as_others():
    aged = [line for line in STYLE.read_text().splitlines() if "figure.aged" in line]
    assert [line for line in aged if "opacity" in line and "svg :is(" not in line] == []
    assert "figure.aged svg text { fill: var(--muted); }" in aged
