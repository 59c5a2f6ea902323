"""The Star Schema Benchmark has the same answers here and in DuckDB, over the same rows."""

from pathlib import Path

import duckdb
import hypostyle
import pytest

TABLES = ("date", "supplier", "customer", "part", "lineorder")
QUERIES = Path(__file__).resolve().parents[3] / "crates" / "tpch" / "src" / "queries" / "ssb"


@pytest.fixture(scope="module")
def engines():
    """Our connection, and DuckDB's with the same tables."""
    with hypostyle.connect() as ours, duckdb.connect() as peer:
        ours.sql("CALL ssb_generate(sf => 0.1)")
        for table in TABLES:
            peer.register("source", ours.table(table).arrow())
            peer.execute(f"CREATE TABLE {table} AS FROM source")
            peer.unregister("source")
        yield ours, peer


@pytest.mark.parametrize("path", sorted(QUERIES.glob("q*.sql")), ids=lambda path: path.stem)
def test_answers_are_those_of_duckdb(engines, path):
    ours, peer = engines
    sql = path.read_text()
    expected = sorted(peer.sql(sql).fetchall())
    assert sorted(ours.sql(sql).fetchall()) == expected
    assert expected


def test_there_are_thirteen_queries():
    assert len(list(QUERIES.glob("q*.sql"))) == 13
