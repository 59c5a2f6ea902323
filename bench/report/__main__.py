"""Writes the report of the papers: report/index.html, report/report.md, and report/cells.csv.

    make report                       # from the records of the repository, in seconds
    make report RUN=quick             # runs the benches first; RUN=smoke, RUN=full
    make report RUN=full ONLY=r,one_thread

A run has a directory of its own for its scale, commit and machine, and goes on where it stopped. The exit
code is 1 when the page is broken, a record has a wrong answer, or a step of the run failed.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from pathlib import Path

from measure import RECORDS, REPOSITORY
from report.cells import cells
from report.check import faults_of, wrong_answers
from report.findings import find
from report.markdown import markdown
from report.page import html
from report.papers import inventory
from report.pictures import write
from report.records import read
from report.steps import SCALES, execute, plan, run_of


def options() -> Namespace:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--run", choices=SCALES, help="run the benches at this scale first")
    parser.add_argument("--only", default="", help=f"some of the steps: {','.join(plan())}")
    parser.add_argument("--records", type=Path, default=RECORDS, help="the records to report without a run")
    parser.add_argument("--output", type=Path, default=REPOSITORY / "report", help="where the pages go")
    parser.add_argument("--pictures", type=Path, help="also write the charts of README and docs, there")
    chosen = parser.parse_args()
    chosen.only = list(filter(None, chosen.only.split(",")))
    if unknown := set(chosen.only) - set(plan()):
        parser.error(f"{', '.join(sorted(unknown))} is none of the steps: {', '.join(plan())}")
    if chosen.only and not chosen.run:
        parser.error("--only names steps of a run: give --run, too")
    return chosen


def main(chosen: Namespace) -> int:
    faults = []
    directory = chosen.records
    if chosen.run:
        run = run_of(chosen.run)
        directory = run.directory
        faults = [f"{step.name} {step.why}" for step in execute(run, chosen.only)]
    findings = find(inventory(), read(directory), directory)
    page = html(findings)
    chosen.output.mkdir(parents=True, exist_ok=True)
    (chosen.output / "index.html").write_text(page)
    (chosen.output / "report.md").write_text(markdown(findings))
    (chosen.output / "cells.csv").write_text(cells(findings))
    if chosen.pictures:
        write(findings, chosen.pictures)
    print(f"{findings.total()}; {chosen.output / 'index.html'}")
    faults += faults_of(page, findings) + wrong_answers(findings)
    for fault in faults:
        print(f"FAULT: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(options()))
