"""The report: records as cells, the page that is made of them, and the steps of a run."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from io import StringIO
from statistics import median
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from measure import RECORDS, REPOSITORY
from report import steps
from report.cells import cells
from report.check import faults_of, wrong_answers
from report.findings import find
from report.markdown import markdown
from report.page import html
from report.papers import inventory
from report.pictures import PICTURES, pictures
from report.records import RecordError, read, read_file
from report.verdict import VERDICTS

SAMPLES = [2.0, 1.0, 3.0]


def write_record(directory, name, cells=(), **changed):
    """Write a record as the benches do, with cells (experiment, panel, row, column)."""
    record = {
        "bench": name,
        "when": "2026-01-01T00:00:00+00:00",
        "scale_factor": 1.0,
        "runs": 3,
        "commit": "none",
        "machine": {"processor": "a processor", "cores": 2, "memory_bytes": 2**34, "system": "Linux"},
        "versions": {"hypostyle": "0.1.0"},
        "measurements": [],
        "notes": ["a note"],
        "cells": [
            dict(
                zip(
                    ("experiment", "panel", "row", "column", "samples", "mark"),
                    (*cell, SAMPLES, ""),
                    strict=True,
                )
            )
            for cell in cells
        ],
        **changed,
    }
    path = directory / f"{name}.json"
    path.write_text(json.dumps(record))
    return path


@pytest.fixture(scope="module")
def recorded():
    return find(inventory(), read(RECORDS), RECORDS)


def finding_of(findings, experiment):
    return next(finding for finding in findings.findings if finding.experiment.id == experiment)


# Records --------------------------------------------------------------------------------------------


def test_cells_of_the_recorded_benches_fit_their_panels(recorded):
    known = inventory().experiments
    cells = [cell for record in recorded.records for cell in record.cells]
    assert len(cells) > 400
    for cell in cells:
        panel = next(panel for panel in known[cell.experiment].panels if panel.title == cell.panel)
        assert cell.column in panel.columns or not panel.columns, cell
        assert cell.samples or cell.mark in ("T", "E"), cell


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"bench": "protocol", "when": "now"}', '{"bench": 1, "cells": [{"row": 1}]}']
)
def test_what_is_no_record_is_refused(tmp_path, text):
    (tmp_path / "protocol.json").write_text(text)
    with pytest.raises(RecordError, match=r"protocol\.json is no record"):
        read(tmp_path)


def test_series_of_two_runs_are_never_in_one_figure(tmp_path):
    place = ("ML-F5", "Write")
    write_record(tmp_path, "r", [(*place, "hypostyle", "write"), (*place, "SQLite", "write")])
    write_record(tmp_path, "one_thread", [(*place, "hypostyle", "write"), (*place, "MariaDB", "write")])
    finding = finding_of(find(inventory(), read(tmp_path), tmp_path), "ML-F5")
    assert finding.record.bench == "r"
    assert {cell.row for cell in finding.cells} == {"hypostyle", "SQLite"}
    assert [other.bench for other in finding.others] == ["one_thread"]


def test_another_record_stands_beside_the_figure(tmp_path):
    place = ("ML-F5", "Write")
    write_record(tmp_path, "r", [(*place, "hypostyle", "write"), (*place, "SQLite", "write")])
    write_record(tmp_path, "one_thread", [(*place, "hypostyle", "write"), (*place, "MonetDBLite", "write")])
    findings = find(inventory(), read(tmp_path), tmp_path)
    page = html(findings)
    assert faults_of(page, findings) == []
    section = page[page.index('<section id="ML-F5">') :]
    section = section[: section.index("</section>")]
    pictures, _, others = section.partition("Another record: one_thread.json")
    assert "SQLite" in pictures and "MonetDBLite" not in pictures
    assert "MonetDBLite" in others
    assert {line["record"] for line in csv.DictReader(StringIO(cells(findings)))} == {
        "",
        "r.json",
        "one_thread.json",
    }
    assert 'id="record-one_thread.json"' in page


def test_a_record_with_the_papers_systems_is_better_than_one_without(tmp_path):
    place = ("ML-F5", "Write")
    write_record(tmp_path, "r", [(*place, "hypostyle", "write")])
    write_record(tmp_path, "one_thread", [(*place, "hypostyle", "write"), (*place, "MariaDB", "write")])
    finding = finding_of(find(inventory(), read(tmp_path), tmp_path), "ML-F5")
    assert finding.record.bench == "one_thread"


def test_the_distance_of_a_record_is_told(tmp_path):
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.strip()
    cell = ("ML-F7", "Load", "hypostyle", "in all")
    other = {"processor": "another", "cores": 64}
    for changed, told in (
        ({"commit": commit}, ""),
        ({"commit": "none"}, "of a commit that is not known here"),
        ({"commit": f"{commit} with uncommitted changes"}, "of a tree with uncommitted changes"),
        ({"commit": commit, "machine": other}, "of another machine (another, 64 cores)"),
    ):
        write_record(tmp_path, "r", [cell], **changed)
        write_record(tmp_path, "newer", when="2026-02-01T00:00:00+00:00", commit=commit)
        findings = find(inventory(), read(tmp_path), tmp_path)
        assert finding_of(findings, "ML-F7").distance == told


# The page ----------------------------------------------------------------------------------------------


def test_the_page_of_the_recorded_benches_is_whole(recorded):
    assert faults_of(html(recorded), recorded) == []
    assert wrong_answers(recorded) == []


def test_the_page_begins_with_its_contents(recorded):
    page = html(recorded)
    contents = page[page.index('<nav id="contents"') : page.index("</nav>")]
    assert page.index("</nav>") < page.index("<section")
    sections = re.findall(r'<section id="([^"]+)">', page)
    assert sorted(re.findall(r'href="#([^"]+)"', contents)) == sorted(sections)


def test_verdicts_are_counted_the_best_one_first(recorded):
    counted = re.findall(r"(\d+) ([a-z ]+)", recorded.total())
    assert sum(int(count) for count, _ in counted) == len(recorded.findings)
    assert [name for _, name in counted] == [name for name in VERDICTS if f" {name}" in recorded.total()]


def test_all_cells_can_be_taken_from_the_page(recorded):
    page = html(recorded)
    link = re.search(r'<a id="cells" download="cells.csv" href="data:text/csv;charset=utf-8,([^"]*)">', page)
    text = unquote(link[1])
    assert text == cells(recorded)
    lines = list(csv.DictReader(StringIO(text)))
    matrices = [
        matrix
        for finding in recorded.findings
        for record in (finding.record, *finding.others)
        if record
        for matrix in finding.matrices_of(record)
    ]
    measured = sum(len(matrix.cells) for matrix in matrices)
    assert sum(line["system"] != "" for line in lines) == measured
    for line in lines:
        samples = [float(sample) for sample in line["samples"].split()]
        assert len(samples) == int(line["runs"] or 0)
        if samples:
            assert float(line["median"]) == median(samples)
        if line["times_base"] and line["paper_times_base"]:
            assert line["base"]
            assert line["record"]
    published = {(line["figure"], line["paper_system"], line["column"]): line["paper"] for line in lines}
    assert published["CP-T3.10", "PostgreSQL", "Local"] == str(
        recorded.inventory.experiments["CP-T3.10"].panels[0].published_at("PostgreSQL", "Local")
    )


def test_charts_are_told_in_words(recorded):
    page = html(recorded)
    charts = re.findall(r'<figure[^>]*><svg [^>]*aria-label="([^"]+)"', page)
    assert len(charts) == page.count("<figure")
    assert all(". " in words and re.search(r"[0-9TE]", words) for words in charts)
    assert any("hypostyle 1" in words or "hypostyle 0." in words for words in charts)


def test_numbers_stand_below_heads(recorded):
    page = html(recorded)
    for table in re.findall(r"<table>.*?</table>", page, re.DOTALL):
        heads = re.findall(r"<th [^>]*>(.*?)</th>", table)
        for row in re.findall(r"<tr class=.*?</tr>", table, re.DOTALL):
            assert row.count("<td") == len(heads)
    assert "÷ <" not in page
    assert "÷ ," not in page


def test_every_experiment_is_in_both_forms(recorded):
    page, text = html(recorded), markdown(recorded)
    for experiment in inventory().experiments.values():
        assert f'<section id="{experiment.id}">' in page
        assert f"## {experiment.label}: {experiment.title}" in text


def test_a_page_without_records_says_so(tmp_path):
    findings = find(inventory(), read(tmp_path), tmp_path)
    assert faults_of(html(findings), findings) == []
    assert {finding.verdict.name for finding in findings.findings} == {"not run"}
    assert "no record has it" in html(findings)
    assert "**not run**" in markdown(findings)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('<section id="ML-T1">', '<section id="ML-T9">', "no section for ML-T1"),
        ('href="#CP-T3.10"', 'href="#CP-T3.99"', "links to nothing: CP-T3.99"),
        ("</table>", "", "ends something else"),
        ("</body>", "", "ends something else"),
        ('<section id="PD-F4">', '<section id="PD-F5">', "two elements have the same id"),
        ('id="record-cluster.json">\n{', 'id="record-cluster.json">\n{,', "record-cluster.json is no JSON"),
        ('id="record-protocol.json"', 'id="record-gone.json"', "the data of CP-T3.10 are not in the page"),
        ("<h1>", '<h1><img src="https://example.org/a.png">', "the page wants another file"),
        ("<h1>", "<h1><script>1</script>", "a script that is no data"),
        ("%0APD-F6,", "%0APD-F9,", "the cells of PD-F6 are not in the table of all"),
        (' role="img" aria-label="', ' role="img" title="', "has no words"),
        ("<body>", "<body><p>", "ends something else"),
    ],
)
def test_a_broken_page_is_found(recorded, old, new, told):
    page = html(recorded)
    assert old in page
    assert any(told in fault for fault in faults_of(page.replace(old, new), recorded))


def test_a_chart_that_is_missing_is_found(recorded):
    page = html(recorded)
    start = page.index('<section id="PD-F6">')
    end = page.index("</section>", start)
    section = page[start:end]
    broken = section[: section.index("<svg")] + section[section.index("</svg>") + len("</svg>") :]
    faults = faults_of(page[:start] + broken + page[end:], recorded)
    assert faults == ["no chart in PD-F6, which has a record"]


def test_text_of_a_record_stays_text(tmp_path):
    note = "</script><script>alert(1)</script> & <b>"
    cell = ("PD-F4", "Time of all queries", "<hypostyle>", "1")
    write_record(tmp_path, "ssb_scale", [cell, (*cell[:3], "10")], notes=[note])
    findings = find(inventory(), read(tmp_path), tmp_path)
    page = html(findings)
    assert faults_of(page, findings) == []
    assert "<b>" not in page
    assert "<script>" not in page


def test_marks_stand_in_the_page(tmp_path):
    path = write_record(tmp_path, "one_thread", [("ML-T1", "SF 1", "MonetDBLite", "total")])
    record = json.loads(path.read_text())
    for row, mark in (("SQLite", "T"), ("pandas", "E")):
        cell = {**record["cells"][0], "row": row, "samples": [], "mark": mark}
        record["cells"].append(cell)
    path.write_text(json.dumps(record))
    findings = find(inventory(), [read_file(path)], tmp_path)
    page = html(findings)
    assert faults_of(page, findings) == []
    assert finding_of(findings, "ML-T1").verdict.name == "reproduced in part"
    assert '<td class="number">T</td>' in page


def test_the_pictures_of_the_docs_are_those_of_the_records(recorded):
    drawn = pictures(recorded)
    assert set(drawn) == {f"{name}.svg" for name in PICTURES}
    for name, svg in drawn.items():
        text = (REPOSITORY / "docs" / "pictures" / name).read_text()
        assert text == svg, "make report writes them anew with --pictures ../docs/pictures"
        assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"


def test_a_wrong_answer_is_a_fault(tmp_path):
    path = write_record(tmp_path, "one_thread", measurements=[{"what": "q1", "verdict": "WRONG"}])
    findings = find(inventory(), read(tmp_path), tmp_path)
    assert wrong_answers(findings) == [f"{path.name} has a wrong answer"]


# Runs ----------------------------------------------------------------------------------------------------

BENCH = """
import json, os, pathlib, sys
place = pathlib.Path(os.environ["HYPOSTYLE_RESULTS"])
with (place / "calls").open("a") as calls:
    calls.write(sys.argv[1])
if sys.argv[2] == "fails":
    sys.exit("it does not go")
if sys.argv[2] == "works":
    (place / f"{sys.argv[1]}.json").write_text("{}")
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run whose steps are a program that keeps count."""
    script = tmp_path / "bench.py"
    script.write_text(BENCH)

    def run_of_steps(**ends):
        made = {
            name: steps.Plan(
                name, "", "", {"smoke": f"{name} {end}"}, {"smoke": 1}, {"smoke": 1}, str(script)
            )
            for name, end in ends.items()
        }
        monkeypatch.setattr(steps, "plan", lambda: made)
        return steps.Run("smoke", tmp_path, steps.read_steps(tmp_path))

    return run_of_steps


def test_a_run_goes_on_where_it_stopped(run, tmp_path):
    failed = steps.execute(run(a="works", b="fails"))
    assert [(step.name, step.why) for step in failed] == [("b", "ended with 1: it does not go")]
    assert steps.execute(run(a="works", b="works")) == []
    assert steps.execute(run(a="works", b="works")) == []
    assert (tmp_path / "calls").read_text() == "abb"
    assert set(steps.read_steps(tmp_path)) == {"a", "b"}


def test_a_step_without_a_record_has_failed(run):
    assert [step.why for step in steps.execute(run(a="forgets"))] == ["wrote no record"]


def test_some_steps_can_be_named(run, tmp_path):
    steps.execute(run(a="works", b="works"), ["b"])
    assert (tmp_path / "calls").read_text() == "b"


def test_a_directory_is_of_one_scale_commit_and_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPOSTYLE_CACHE", str(tmp_path))
    first = steps.run_of("smoke").directory
    assert steps.run_of("smoke").directory == first
    assert steps.run_of("quick").directory != first
    monkeypatch.setattr(steps, "machine", lambda: {"processor": "another"})
    assert steps.run_of("smoke").directory != first
    monkeypatch.undo()
    monkeypatch.setenv("HYPOSTYLE_CACHE", str(tmp_path))
    monkeypatch.setattr(steps, "commit", lambda: "0123456789abcdef")
    assert steps.run_of("smoke").directory != first


def test_the_command_writes_both_files_and_refuses_unknown_steps(tmp_path):
    def report(*words):
        command = [sys.executable, "-m", "report", *words]
        return subprocess.run(command, cwd=REPOSITORY / "bench", capture_output=True, text=True, check=False)

    done = report("--output", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "index.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "report.md").read_text().startswith("# The papers, reproduced")
    for words, told in (
        (["--run", "smoke", "--only", "nonsense"], "nonsense is none of the steps"),
        (["--only", "r"], "--only names steps of a run"),
        (["--run", "slow"], "invalid choice"),
    ):
        done = report("--output", str(tmp_path), *words)
        assert (done.returncode, told in done.stderr) == (2, True)
