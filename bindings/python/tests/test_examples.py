"""The programs in examples/ run, and print what they promise."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

PRINTED = {
    "embedded": "[('Oslo', 14.0), ('Rome', 42.5)]\n[2.75, 3.5, 6.6]\n[(3,)]\n",
    "files": "[('Oslo', 7.0), ('Rome', 42.5)]\n",
    "served": "[(1000000, 499999500000)]\n",
}


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == PRINTED.keys()


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints(name):
    program = [sys.executable, EXAMPLES / f"{name}.py"]
    run = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert (run.stdout, run.stderr, run.returncode) == (PRINTED[name], "", 0)
