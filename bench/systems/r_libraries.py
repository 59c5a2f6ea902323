"""data.table and dplyr: Q1 to Q10 by the programs of bench/r, on data in the memory of R."""

from __future__ import annotations

import csv
import shutil
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from protocol.processes import PeerError
from r import R, data_frames, missing

LIBRARIES = ("data.table", "dplyr")
NEEDED = ("DBI", "data.table", "dplyr", "bit64", "lubridate")
# Answers as R keeps them, with dates that are dates.
TO_R = """
for (path in list.files({place!r}, "csv$", full.names = TRUE)) {{
  answer <- read.csv(path, stringsAsFactors = FALSE, header = FALSE)
  for (name in names(answer)) if (all(grepl("^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}$", answer[[name]])))
    answer[[name]] <- as.Date(answer[[name]])
  saveRDS(as.list(answer), sub("csv$", "rds", path))
}}
"""


class LibrariesOfR:
    """Runs the queries of both libraries, each time all of them in a new process."""

    def __init__(self, scratch: Path, given: Namespace) -> None:
        """Raise PeerError if R or one of its packages is not there."""
        if shutil.which("Rscript") is None:
            raise PeerError("R is not installed; run scripts/setup_r.sh")
        if lacking := missing(NEEDED):
            raise PeerError(f"packages of R are missing: {', '.join(lacking)}; run scripts/setup_r.sh")
        options = Namespace(patience=given.patience, threads=1)
        self._scratch = scratch
        self._r = R(scratch, data_frames(given), options, with_package=False)

    def keep(self, answers: Mapping[str, Sequence[Sequence[Any]]]) -> None:
        """Give R the answers that it compares its own with."""
        place = self._scratch / "answers"
        for name, rows in answers.items():
            with (place / f"{name}.csv").open("w", newline="") as file:
                csv.writer(file).writerows(rows)
        self._r.evaluate(TO_R.format(place=str(place)))

    def run(
        self, library: str, names: Sequence[str], compare: bool
    ) -> tuple[dict[str, float], list[str], str]:
        """Return the seconds of each query, the faults that were found, and why it did not end."""
        known = {"system": "memory", "way": library, "case": "query", "only": ",".join(names)}
        outcome = self._r.run("tpch.R", **known, check="yes" if compare else "no")
        faults = [f"{what} by {library}: {text}" for _, what, text in outcome.faults]
        why = f"{outcome.begun}: {outcome.why}" if outcome.why else ""
        return {what: wall for what, (wall, _) in outcome.took.items()}, faults, why
