"""What the records say of each figure: the one record that answers it, and the verdict."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measure import output_of
from report.papers import Experiment, Inventory
from report.records import Cell, Record, commits_behind
from report.steps import Step, plan, read_steps
from report.verdict import NOT_RUN, VERDICTS, Answer, Matrix, Verdict, answer, judge


@dataclass(frozen=True)
class Finding:
    """A figure, answered by one record or by none: series of several runs are never mixed."""

    experiment: Experiment
    record: Record | None
    verdict: Verdict
    others: list[Record] = field(default_factory=list)  # that would answer it, too
    distance: str = ""  # of the record from the commit and the machine of the page; "" is none

    @property
    def cells(self) -> list[Cell]:
        return self.record.cells_of(self.experiment.id) if self.record else []

    def matrices(self) -> list[Matrix]:
        return [Matrix(panel, self.cells) for panel in self.experiment.panels]

    def matrices_of(self, other: Record) -> list[Matrix]:
        """Return what another record has of the figure, which stands beside it and never in its pictures."""
        cells = other.cells_of(self.experiment.id)
        matrices = [Matrix(panel, cells) for panel in self.experiment.panels]
        return [matrix for matrix in matrices if matrix]


@dataclass(frozen=True)
class Findings:
    inventory: Inventory
    findings: list[Finding]
    answers: list[Answer]
    records: list[Record]
    steps: dict[str, Step]
    commit: str
    is_dirty: bool
    machine: dict[str, Any]
    versions: dict[str, str]

    def total(self) -> str:
        """Return how many figures have each verdict, the best one first."""
        counts = {name: 0 for name in VERDICTS}
        for finding in self.findings:
            counts[finding.verdict.name] += 1
        return ", ".join(f"{count} {name}" for name, count in counts.items() if count)

    def minutes(self, finding: Finding) -> float | None:
        """Return the measured minutes of the bench that answers a figure."""
        step = self.steps.get(finding.record.bench) if finding.record else None
        return step.seconds / 60 if step else None


def find(inventory: Inventory, records: Sequence[Record], directory: Path) -> Findings:
    """Judge all figures by the records of one directory."""
    newest = max(records, key=lambda record: record.when, default=None)
    machine = newest.machine if newest else {"processor": platform.processor(), "cores": None}
    findings = [_find(experiment, records, machine) for experiment in inventory.experiments.values()]
    by_id = {finding.experiment.id: finding for finding in findings}
    answers = [
        answer(claim, by_id[claim.figure].experiment, by_id[claim.figure].cells) for claim in inventory.claims
    ]
    versions: dict[str, str] = {}
    for record in sorted(records, key=lambda record: record.when):
        versions |= record.content["versions"]
    return Findings(
        inventory,
        findings,
        answers,
        list(records),
        read_steps(directory),
        output_of("git", "rev-parse", "HEAD") or "none",
        bool(output_of("git", "status", "--porcelain", "--", ".", ":!bench/results")),
        machine,
        versions,
    )


def _find(experiment: Experiment, records: Sequence[Record], machine: dict[str, Any]) -> Finding:
    judged = []
    for record in records:
        if cells := record.cells_of(experiment.id):
            verdict = judge(experiment, cells)
            rank = (
                experiment.bench.index(record.bench)
                if record.bench in experiment.bench
                else len(experiment.bench)
            )
            judged.append((record, verdict, (bool(verdict.checks), -rank, record.when)))
    if not judged:
        return Finding(experiment, None, judge(experiment, []))
    record, verdict, _ = max(judged, key=lambda each: each[2])
    others = [other for other, _, _ in judged if other is not record]
    return Finding(experiment, record, verdict, others, distance(record, machine))


def distance(record: Record, machine: dict[str, Any]) -> str:
    """Describe how far a record is from the commit that is checked out, and from a machine."""
    parts = []
    behind = commits_behind(record.commit)
    if behind is None:
        parts.append("of a commit that is not known here")
    elif behind:
        parts.append(f"{behind:,} {'commit' if behind == 1 else 'commits'} of the product ago")
    if record.is_dirty:
        parts.append("of a tree with uncommitted changes")
    if any(record.machine.get(what) != machine.get(what) for what in ("processor", "cores")):
        parts.append(f"of another machine ({record.machine['processor']}, {record.machine['cores']} cores)")
    return ", ".join(parts)


def record_of(finding: Finding) -> str:
    """Name the record of a figure, with its scale: verdicts of small scales say little."""
    return "" if finding.record is None else named(finding.record)


def named(record: Record) -> str:
    runs = record.content["runs"]
    scale = f"SF {record.content['scale_factor']:g}, " if record.content["scale_factor"] else ""
    return f"{record.when[:10]}, {scale}{runs} {'run' if runs == 1 else 'runs'}"


def why_not_run(finding: Finding) -> str:
    """Say why a figure has no verdict."""
    if finding.verdict.name != NOT_RUN:
        return ""
    if finding.record is None:
        step = next(plan()[bench] for bench in finding.experiment.bench if bench in plan())
        needs = f", which needs {step.needs}" if step.needs else ""
        return f"no record has it: it is of the step {step.name}{needs}"
    return "measured, but without the paper’s systems beside it"
