"""Several databases in one connection, and temporary tables."""

import hypostyle
import pyarrow
import pytest


@pytest.fixture
def shop(tmp_path):
    path = tmp_path / "shop.hypo"
    with hypostyle.connect(path) as con:
        con.append("orders", pyarrow.table({"a": range(1000)}), create=True)
    return path


def test_an_attached_table_is_a_mapping_and_can_be_appended_to(shop):
    con = hypostyle.connect()
    con.execute(f"ATTACH '{shop}' AS shop")
    assert con.table("shop.orders").fetchnumpy()["a"].sum() == 499500
    assert con.sql("SELECT * FROM shop.orders").arrow().num_rows == 1000
    con.append("shop.orders", pyarrow.table({"a": [1000]}))
    con.append("shop.main.more", pyarrow.table({"b": ["x"]}), create=True)
    with hypostyle.connect(shop) as other:
        assert other.sql("SELECT max(a) AS a, (SELECT b FROM more) AS b FROM orders").fetchall() == [
            (1000, "x")
        ]


def test_show_databases_tells_paths_and_which_is_current(shop, tmp_path):
    con = hypostyle.connect(tmp_path / "own.hypo")
    con.execute(f"ATTACH '{shop}' (READ_ONLY)")
    con.execute("USE shop")
    assert con.sql("SHOW DATABASES").fetchall() == [
        ("hypostyle", str(tmp_path / "own.hypo"), False, False),
        ("shop", str(shop), True, True),
    ]
    assert [table.name for table in con.tables()] == ["orders"]


def test_an_attached_database_is_closed_with_the_connection_that_owns_the_engine(shop):
    con = hypostyle.connect()
    con.execute(f"ATTACH '{shop}' AS shop")
    rows = con.sql("SELECT * FROM shop.orders")
    con.close()
    assert rows.fetchnumpy()["a"].size == 1000
    with pytest.raises(hypostyle.ClosedError):
        con.execute("SELECT * FROM shop.orders")


def test_rows_copied_between_databases_are_the_same(shop, tmp_path):
    con = hypostyle.connect(tmp_path / "copy.hypo")
    con.execute(f"ATTACH '{shop}' AS shop")
    con.execute("CREATE TABLE orders AS SELECT * FROM shop.orders WHERE a % 2 = 0")
    con.execute("DELETE FROM shop.orders WHERE a IN (SELECT a FROM orders)")
    assert con.sql("SELECT sum(a) FROM shop.orders").fetchone()[0] + sum(range(0, 1000, 2)) == 499500


def test_a_frame_goes_into_a_temporary_table(tmp_path):
    con = hypostyle.connect(tmp_path / "own.hypo")
    con.execute("CREATE TEMP TABLE scratch (a BIGINT)")
    con.append("scratch", pyarrow.table({"a": range(100_000)}))
    con.append("temp.scratch", pyarrow.table({"a": [7]}))
    assert con.sql("SELECT count(*) FROM scratch").fetchone() == (100_001,)
    con.close()
    with hypostyle.connect(tmp_path / "own.hypo") as other, pytest.raises(hypostyle.UnknownNameError):
        other.sql("SELECT * FROM scratch")
