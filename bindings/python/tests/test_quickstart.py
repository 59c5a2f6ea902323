"""Runs the blocks of docs/quickstart.md, and the first Python block of the README."""

import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from served import PROGRAM, needs_program

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

DOCUMENTS = Path(__file__).resolve().parents[3]
DEADLINE = 60

# The output of the first statements.
SHOWN = ["Ann", "140.4", "column_name,column_type", "5 rows affected", "still_there", "4,240.00"]


def blocks(document: str) -> list[tuple[str, str]]:
    """Return the blocks that are run, with their languages."""
    text = (DOCUMENTS / document).read_text(encoding="utf-8")
    return re.findall(r"^```(sh|python)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@needs_program
def test_the_quickstart_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = f"{PROGRAM.resolve().parent}:{os.environ['PATH']}"
    names: dict[str, object] = {}
    log = tmp_path / "log"
    groups = []
    try:
        for language, code in blocks("docs/quickstart.md"):
            if language == "python":
                exec(code, names)
                continue
            with log.open("ab") as out:
                # A group of its own lets the test end what a block leaves running.
                shell = subprocess.Popen(
                    ["bash", "-euo", "pipefail", "-c", code],
                    env={**os.environ, "PATH": path},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
            groups.append(shell.pid)
            assert shell.wait(DEADLINE) == 0, f"{code}\n{log.read_text()}"
    finally:
        for group in groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGTERM)
    text = log.read_text()
    for expected in SHOWN:
        assert expected in text, text


def test_the_first_block_of_the_readme_runs() -> None:
    names: dict[str, object] = {}
    exec(blocks("README.md")[0][1], names)
    rows = names["con"].table("orders").fetchall()  # type: ignore[attr-defined]
    assert rows == [(1, 120.5), (2, 80.0), (3, 240.0)]
