"""Statements of a reader: the server stays alive, within its memory, and answers others meanwhile.

`HYPOSTYLE_TEST_SEED` repeats a run, `HYPOSTYLE_TEST_ROUNDS` makes it longer, and `python -m
statements` does it by hand.
"""

import os
import time

import pytest
from campaigns import ROUNDS, SEED
from served import PROGRAM, needs_program
from statements import campaign

pytestmark = needs_program

# Statements of a kind, in `make test`. The fixed ones take less time if nothing is wrong.
SECONDS = 12
STATEMENTS = {"repetition": 300, "smith": 2000}


def rounds() -> int:
    return int(os.environ.get(ROUNDS) or 1)


# `make test-long` and `make fuzz` search at random: a change is not judged by chance.
by_chance = pytest.mark.skipif(not os.environ.get(ROUNDS), reason=f"new statements, when {ROUNDS} is set")


@by_chance
@pytest.mark.parametrize("kind", campaign.KINDS)
def test_no_new_statement_of_a_reader_harms_a_server(tmp_path, kind):
    seed = int(os.environ.get(SEED) or time.time_ns())
    print(f"{SEED}={seed}")
    (report,) = campaign.run(PROGRAM, tmp_path, [kind], seed, SECONDS * rounds())
    print(report)
    # An internal error harms nobody else: chance finds new ones, and they are reported.
    assert not report.harm(), report
    assert report.statements > SECONDS


@pytest.mark.parametrize("kind", campaign.KINDS)
def test_no_known_statement_of_a_reader_harms_a_server_or_is_an_internal_error(tmp_path, kind):
    (report,) = campaign.run(PROGRAM, tmp_path, [kind], 0, 10 * SECONDS, STATEMENTS[kind])
    print(report)
    assert not report.findings, report
