"""Damaged and unusual files of other projects (apache/parquet-testing, apache/arrow-testing): each gives
rows or an error, in time, within memory, and never ends the process.

The files are not part of the project. They are looked for in HYPOSTYLE_CORPORA, or in
`../shared/corpora` beside the clone.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CORPORA = Path(os.environ.get("HYPOSTYLE_CORPORA", ROOT.parent / "shared" / "corpora"))

#: What one file may take: three times the limit of the database, as for statements, and this long.
MEMORY_LIMIT_MIB = 256
MEMORY_MAX_MIB = 3 * MEMORY_LIMIT_MIB
SECONDS_MAX = 20

#: Reads each file that is named on its standard input, and says what came of it and what it took.
READER = f"""
import re, sys, time, hypostyle
con = hypostyle.connect()
con.execute("SET memory_limit = '{MEMORY_LIMIT_MIB}MB'")
for line in sys.stdin:
    kind, path = line.rstrip("\\n").split(" ", 1)
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")
    begin = time.monotonic()
    source = kind + "('" + path.replace("'", "''") + "')"
    outcomes = []
    for statement in (f"SELECT count(*) FROM {{source}}", f"SELECT * FROM {{source}}"):
        try:
            outcomes.append(f"{{con.sql(statement).arrow().num_rows}} rows")
        except hypostyle.InternalError as error:
            outcomes.append(f"INTERNAL {{error}}")
        except hypostyle.Error as error:
            outcomes.append("error")
        except BaseException as error:
            outcomes.append(f"UNEXPECTED {{type(error).__name__}} {{error}}")
    peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read()).group(1)
    what = " / ".join(outcomes).replace("\\n", " ")
    print(f"{{int(peak) // 1024}} {{time.monotonic() - begin:.1f}} {{what}}", flush=True)
"""


def files() -> list[tuple[str, Path]]:
    """The files that are read, with the functions that read them."""
    found = []
    for path in sorted(CORPORA.rglob("*")):
        if not path.is_file() or path.suffix in {".md", ".gz", ".yaml", ".proto", ".json", ".encrypted"}:
            continue
        if path.suffix == ".parquet" or "parquet" in str(path.relative_to(CORPORA)):
            found.append(("read_parquet", path))
        elif path.suffix == ".csv":
            found.append(("read_csv", path))
        else:
            found.append(("read_arrow", path))
    return found


class Reader:
    """A process that reads files, and another one when it has ended."""

    def __init__(self):
        self.process = None

    def read(self, kind: str, path: Path) -> str:
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-c", READER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        self.process.stdin.write(f"{kind} {path}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if line:
            return line.rstrip("\n")
        return f"0 0 ENDED with {self.close()}"

    def close(self) -> int | None:
        if self.process is None:
            return None
        # Leaving the block closes the pipes and waits.
        with self.process as process:
            self.process = None
        return process.returncode


@pytest.mark.skipif(not CORPORA.is_dir(), reason="the corpora of damaged files are not beside the clone")
def test_files_of_others_give_rows_or_an_error():
    all_files = files()
    assert len(all_files) > 300
    reader, wrong = Reader(), []
    for kind, path in all_files:
        memory, seconds, outcome = reader.read(kind, path).split(" ", 2)
        is_wrong = any(word in outcome for word in ("INTERNAL", "UNEXPECTED", "ENDED"))
        if is_wrong or int(memory) > MEMORY_MAX_MIB or float(seconds) > SECONDS_MAX:
            wrong.append(f"{path.relative_to(CORPORA)}: {memory} MiB, {seconds} s, {outcome}")
    reader.close()
    assert not wrong, "\n".join(wrong)
