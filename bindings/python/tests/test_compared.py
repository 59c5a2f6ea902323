"""Random statements of all kinds here, in DuckDB and in PostgreSQL: all differences are known.

`HYPOSTYLE_TEST_SEED` repeats a run, `HYPOSTYLE_TEST_ROUNDS` makes it longer, and `python -m
compared` does it by hand.
"""

import os

import pytest
from campaigns import ROUNDS, fixed_seeds
from compared.campaign import BATCH, run
from compared.peers import postgres_program, postgres_server

# The statements of a seed, in `make test`.
STATEMENTS = 50


@pytest.fixture(scope="module")
def postgres():
    if postgres_program() is None:
        pytest.skip("no program of a PostgreSQL server: install postgresql-15")
    with postgres_server() as address:
        yield address


def compare(seed, address):
    report = run(range(seed, seed + 1), BATCH if os.environ.get(ROUNDS) else STATEMENTS, address)
    print(report)
    assert not report.differences, report
    assert report.answered > report.statements / 3


@pytest.mark.parametrize("seed", fixed_seeds())
def test_statements_have_the_answers_of_duckdb(seed):
    compare(seed, None)


@pytest.mark.parametrize("seed", fixed_seeds())
def test_statements_have_the_answers_of_postgresql(seed, postgres):
    compare(seed, postgres)
