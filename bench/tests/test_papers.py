"""The inventory of the papers: that all of it is there, and that its numbers agree with each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from report.papers import INVENTORY, InventoryError, inventory
from report.steps import SCALES, plan

BENCH = Path(__file__).resolve().parent.parent
EXPERIMENTS = inventory().experiments


def panel(experiment, title):
    return next(panel for panel in EXPERIMENTS[experiment].panels if panel.title == title)


def test_all_tables_and_figures_are_there():
    by_paper = {paper: 0 for paper in inventory().papers}
    for experiment in EXPERIMENTS.values():
        by_paper[experiment.paper] += 1
    assert by_paper == {"CP": 16, "ML": 5, "PD": 4}


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda experiment: experiment.id)
def test_every_experiment_has_a_command_and_a_step(experiment):
    assert experiment.question.endswith("?")
    assert set(experiment.bench) & set(plan()), "no step of a run answers it"
    module = re.search(r"-m (\S+)", experiment.command)
    script = re.search(r"(?:bench/)?(\w+\.py)", experiment.command)
    if module:
        path = BENCH / module[1].replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists()
    elif script:
        assert (BENCH / script[1]).exists()
    else:
        target = re.search(r"make (\S+)", experiment.command)[1]
        assert f"\n{target}:" in (BENCH.parent / "Makefile").read_text()


@pytest.mark.parametrize("step", plan().values(), ids=lambda step: step.name)
def test_every_step_tells_what_it_takes(step):
    assert set(step.arguments) == set(step.minutes) == set(step.disk_gb) <= set(SCALES)
    assert "full" in step.arguments
    assert bool(step.script) != bool(step.module)


def test_a_smoke_run_fits_in_two_minutes_and_a_quick_one_in_half_an_hour():
    for scale, minutes in (("smoke", 2), ("quick", 36)):
        assert sum(step.minutes.get(scale, 0) for step in plan().values()) <= minutes


# The design space prints the chapter's figures, too, which were typed for it on another day.
def test_numbers_of_the_design_space_are_those_that_its_bench_prints():
    from design_space import TABLES

    def number(text):
        return float(text)

    chunks = panel("CP-T3.3", "lineitem, time"), panel("CP-T3.3", "lineitem, ratio of Snappy")
    for name, figures in TABLES["3.3"].figures.items():
        size = name.partition(":")[0]
        seconds, _, ratio = map(number, figures.split(", "))
        assert (chunks[0].published[size], chunks[1].published[size]) == ([seconds], [ratio])
    of_files = panel("CP-T3.4", "Ratio of compression")
    for name, figures in TABLES["3.4"].figures.items():
        layout, _, method = name.partition(": ")
        assert of_files.published_at(layout, method) == number(figures.split(", ")[1])
    for table, time, size, rows in (
        ("3.5", "Time", "Size", {"columns": "None", "columns + ": ""}),
        ("3.6", "lineitem, time", "lineitem, size", {"None + Snappy": "Snappy", " + Snappy": "+Sy"}),
        ("3.7", "Time", "Size", {"columns": "Custom", "Protobuf rows": "Protobuf", " + Snappy": "+C"}),
    ):
        for name, figures in TABLES[table].figures.items():
            row = name
            if table == "3.5":
                row = "None" if name == "columns" else name.removeprefix("columns + ")
            else:
                for old, new in rows.items():
                    row = row.replace(old, new)
            seconds, _, megabytes = figures.partition("; ")
            assert panel(f"CP-T{table}", time).published[row] == [*map(number, seconds.split(", "))]
            assert panel(f"CP-T{table}", size).published[row] == [number(megabytes)]
    for table in ("3.8", "3.9"):
        for name, figures in TABLES[table].figures.items():
            row, is_compressed = name.removesuffix(" + Snappy"), name.endswith(" + Snappy")
            column = "Snappy" if is_compressed else "plain"
            seconds, *more = map(number, re.split("[,;] ", figures))
            assert panel(f"CP-T{table}", "Time").published_at(row, column) == seconds
            if not is_compressed:
                assert panel(f"CP-T{table}", "Size").published[row] == more


@pytest.mark.parametrize("title", ["SF 1", "SF 10"])
def test_totals_of_the_queries_are_their_sums(title):
    for row, values in panel("ML-T1", title).published.items():
        *queries, total = values
        if "T" in queries or "E" in queries:
            assert total in ("T", "E"), row
        else:
            assert sum(queries) == pytest.approx(total, abs=0.04), row


def test_sizes_of_figure_3_1_are_those_of_table_3_10():
    figure, table = panel("CP-F3.1", "Bytes").published, panel("CP-T3.10", "Size").published
    for row in ("netcat", "MySQL", "MySQL+C", "PostgreSQL", "DB2", "DBMS X", "Hive", "MonetDB"):
        assert figure[row][0] == pytest.approx(table[row][0], rel=0.005), row


@pytest.mark.parametrize("experiment", ["CP-T3.10", "CP-T3.11", "CP-T3.12"])
@pytest.mark.parametrize("title", ["Time", "Size"])
def test_postgresql_with_our_extension_stands_beside_the_papers(experiment, title):
    found = panel(experiment, title)
    for row, end in (("PostgreSQL++", "++"), ("PostgreSQL++C", "++C")):
        assert all(found.counterpart(row, column).endswith(end) for column in found.columns)


@pytest.mark.parametrize("experiment", ["CP-T3.10", "CP-T3.11", "CP-T3.12"])
def test_a_wide_network_is_not_faster_than_its_rate(experiment):
    time, size = panel(experiment, "Time").published, panel(experiment, "Size").published
    for row, (gigabytes,) in size.items():
        seconds = time[row][2]
        # 100 Mbit/s; compressions go on while they send.
        assert seconds == "T" or seconds >= gigabytes * 2**30 * 8 / 1e8 * 0.8, row


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("[1.35, 15.7, 159.0]", "", None),
        ('columns = ["print"]', 'columns = ["print", "more"]', "1 values for 2 columns"),
        ('"T", 19.05', '"X", 19.05', "a mark that nobody knows"),
        ("netcat = [0.23]", "netcat = [0.0]", "not above 0"),
        ('same = { netcat = "netcat" }', 'same = { netcat = "cat" }', "the paper has no cat"),
        ('kind = "stack"', 'kind = "pie"', "no kind pie"),
        ('id = "CP-T3.3"', 'id = "CP-T3.4"', "the same id"),
        ('panel = "Scaleup"', 'panel = "Speedup"', "has no panel"),
    ],
)
def test_an_inventory_that_contradicts_itself_is_refused(tmp_path, old, new, told):
    text = INVENTORY.read_text()
    changed = tmp_path / "papers.toml"
    changed.write_text(text.replace(old, new, 1))
    if told is None:
        assert inventory(changed).experiments.keys() == EXPERIMENTS.keys()
        return
    assert old in text
    with pytest.raises(InventoryError, match=told):
        inventory(changed)
