"""Runs the benches that the report is of, each step once for a scale, a commit and a machine.

A run has a directory whose name says what it is a run of, so that the records of two never mix. A step whose
record is there is not run again: a run goes on where it was stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from measure import REPOSITORY, cache_directory, commit, machine, output_of

PLAN = Path(__file__).with_name("steps.toml")
RUNS = "runs.json"  # beside the records of a run: which steps ran, and how long
SCALES = ("smoke", "quick", "full")
TOLD_MAX = 300  # characters of a failed step's last words


@dataclass(frozen=True)
class Plan:
    """One step: a bench, and what it takes at each scale."""

    name: str
    needs: str
    seed: str
    arguments: dict[str, str]
    minutes: dict[str, float]
    disk_gb: dict[str, float]
    script: str = ""
    module: str = ""

    def command(self, scale: str) -> list[str]:
        program = ["-m", self.module] if self.module else [self.script]
        return [sys.executable, *program, *shlex.split(self.arguments[scale])]


@dataclass(frozen=True)
class Step:
    """One step that has run; `why` says why it did not end well."""

    name: str
    command: str
    seconds: float
    why: str = ""


@dataclass
class Run:
    """The steps of one scale, in a directory of their own."""

    scale: str
    directory: Path
    steps: dict[str, Step] = field(default_factory=dict)

    def has(self, step: Plan) -> bool:
        return (self.directory / f"{step.name}.json").exists() and step.name in self.steps

    def keep(self, step: Step) -> None:
        self.steps[step.name] = step
        content = json.dumps([asdict(each) for each in self.steps.values()], indent=1, ensure_ascii=False)
        (self.directory / RUNS).write_text(content + "\n")


@cache
def plan() -> dict[str, Plan]:
    """Return all steps by name, in the order in which they run."""
    with PLAN.open("rb") as file:
        steps = [Plan(**step) for step in tomllib.load(file)["step"]]
    return {step.name: step for step in steps}


def read_steps(directory: Path) -> dict[str, Step]:
    """Return the steps that have run; none for the records of the repository."""
    path = directory / RUNS
    steps = [Step(**step) for step in json.loads(path.read_text())] if path.exists() else []
    return {step.name: step for step in steps}


def run_of(scale: str) -> Run:
    """Return the run of this scale, commit and machine, with the steps that it has already."""
    what = json.dumps([commit(), output_of("git", "diff", "HEAD"), machine()], sort_keys=True)
    name = f"{scale}-{commit()[:12]}-{hashlib.sha256(what.encode()).hexdigest()[:8]}"
    directory = cache_directory() / "report" / name
    directory.mkdir(parents=True, exist_ok=True)
    return Run(scale, directory, read_steps(directory))


def execute(run: Run, only: Sequence[str] = ()) -> list[Step]:
    """Run the steps that are missing, or some of them; return those that failed."""
    failed = []
    for step in plan().values():
        if run.scale not in step.arguments or (only and step.name not in only):
            continue
        if run.has(step):
            print(f"\n== {step.name}: done before", flush=True)
            continue
        done = _execute(run, step)
        run.keep(done)
        if done.why:
            failed.append(done)
    return failed


def _execute(run: Run, step: Plan) -> Step:
    command = step.command(run.scale)
    told = shlex.join(["python", *command[1:]])
    print(f"\n== {step.name}, about {step.minutes[run.scale]:g} min: {told}", flush=True)
    log = run.directory / f"{step.name}.log"
    environment = {**os.environ, "HYPOSTYLE_RESULTS": str(run.directory)}
    start = time.monotonic()
    with log.open("w") as output:
        # The last words of a bench that fails are on standard error.
        process = subprocess.run(
            command,
            cwd=REPOSITORY / "bench",
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    seconds = time.monotonic() - start
    why = ""
    if process.returncode != 0:
        last = log.read_text().strip().rpartition("\n")[2]
        why = f"ended with {process.returncode}: {last[-TOLD_MAX:]}"
    elif not (run.directory / f"{step.name}.json").exists():
        why = "wrote no record"
    print(f"== {step.name}: {why or 'ok'}, {seconds:.0f} s; {log}", flush=True)
    return Step(step.name, f"cd bench && {told}", seconds, why)
