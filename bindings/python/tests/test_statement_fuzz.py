"""What a reader may say to a server: it stays alive, within its memory, and answers others meanwhile.

`HYPOSTYLE_TEST_SEED` repeats a run, `HYPOSTYLE_TEST_ROUNDS` makes it longer, and `python -m statements`
does it by hand.
"""

import os
import time

import pytest
from campaigns import ROUNDS, SEED
from served import PROGRAM, needs_program
from statements import campaign

pytestmark = needs_program

# Of a kind and a seed, in `make test`.
SECONDS = 12


@pytest.mark.parametrize("kind", campaign.KINDS)
@pytest.mark.parametrize("seed", ["fixed", "new"])
def test_no_statement_of_a_reader_harms_a_server(tmp_path, kind, seed):
    number = 0 if seed == "fixed" else int(os.environ.get(SEED) or time.time_ns())
    print(f"{SEED}={number}")
    seconds = SECONDS * int(os.environ.get(ROUNDS) or 1)
    (report,) = campaign.run(PROGRAM, tmp_path, [kind], number, seconds)
    print(report)
    assert not report.findings, report
    assert report.statements > SECONDS
