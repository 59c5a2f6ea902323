"""Programs in C and C++ with a database of PostgreSQL, by each way in which results come."""

import sys

import pytest
from conftest import HERE, ROOT
from test_c import passes

sys.path.insert(0, str(ROOT / "scripts"))
from postgres_fixture import TRANSFERS, postgres_addresses


@pytest.fixture(scope="module")
def addresses():
    with postgres_addresses() as addresses:
        if addresses is None:
            pytest.skip("no PostgreSQL server: run scripts/setup_postgres.sh")
        yield addresses


@pytest.mark.parametrize("transfer", TRANSFERS)
@pytest.mark.parametrize("program", ["postgres.c", "postgres.cpp"])
def test_programs(compiled, addresses, program, transfer):
    if transfer not in addresses:
        pytest.skip("PostgreSQL has not the extension: run scripts/test_postgres.sh")
    passes([compiled(HERE / program), addresses[transfer]])
