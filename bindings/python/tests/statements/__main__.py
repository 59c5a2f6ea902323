"""`python -m statements`: fuzzes a server with statements of a reader, and says what it found."""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from . import campaign

PROGRAM = Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "release" / "hypostyle"


def main() -> int:
    options = argparse.ArgumentParser(prog="statements", description=__doc__)
    options.add_argument("--program", type=Path, default=PROGRAM, help="the hypostyle that serves")
    options.add_argument("--seconds", type=float, default=60, help="how long each kind runs")
    options.add_argument("--seed", type=int, default=time.time_ns(), help="repeats a run")
    options.add_argument("--kind", choices=campaign.KINDS, action="append", help="which ones; all without it")
    options.add_argument(
        "--replay", type=Path, metavar="FILE", help="sends the statement in a file, and no other"
    )
    options.add_argument(
        "--findings", type=Path, metavar="DIR", help="where statements that do harm are kept"
    )
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        if chosen.replay:
            reports = [campaign.replay(chosen.program, directory, chosen.replay.read_text())]
        else:
            kinds = chosen.kind or campaign.KINDS
            reports = campaign.run(chosen.program, directory, kinds, chosen.seed, chosen.seconds)
    for report in reports:
        print(report)
    if chosen.findings:
        chosen.findings.mkdir(parents=True, exist_ok=True)
        for number, finding in enumerate(found for report in reports for found in report.classes()):
            (chosen.findings / f"{number:03}-{finding.kind.replace(' ', '-')}.sql").write_text(finding.sql)
    return any(report.findings for report in reports)


if __name__ == "__main__":
    sys.exit(main())
