"""Whole tables with deleted rows and rows in the log: every way to take one gives what an ordinary
query gives, and what was taken stays what it was.
"""

import random

import pytest

# More than a block has.
ROWS = 70_000
SEED = 20261128
# What is computed is not a mapping, whatever is in the table.
ORDINARY = "SELECT k + 0 AS k, n, few || '' AS few, many || '' AS many, price, day FROM t WHERE k >= 0"


@pytest.fixture
def table(con):
    con.execute("SET automatic_upkeep = off")
    con.execute(
        "CREATE TABLE t AS SELECT value AS k, CASE WHEN value % 7 <> 3 THEN value * 3 END AS n, "
        "'kind ' || value % 9 AS few, 'text ' || value AS many, "
        "CAST(value AS DECIMAL(12, 2)) / 4 AS price, "
        "DATE '2020-01-01' + CAST(value % 5000 AS INTEGER) AS day "
        f"FROM generate_series(0, {ROWS - 1}) AS g (value)"
    )
    con.execute("CHECKPOINT")
    return con


def insert(con, first, rows):
    values = ", ".join(
        f"({key}, {'NULL' if key % 2 else key}, 'new {key % 3}', 'text {key}', 1.5, DATE '2024-02-29')"
        for key in range(first, first + rows)
    )
    con.execute(f"INSERT INTO t VALUES {values}")


def delete(con, keys):
    con.execute(f"DELETE FROM t WHERE k IN ({', '.join(str(key) for key in keys)})")


def expected(con):
    return con.sql(ORDINARY).fetchall()


def compare(con):
    rows = expected(con)
    whole = "SELECT * FROM t"
    assert con.sql(whole).fetchall() == rows
    assert list(con.sql(whole)) == rows
    taken = con.sql(whole).arrow()
    assert taken.num_rows == len(rows)
    taken.validate(full=True)
    columns = list(zip(*rows, strict=True))
    assert [taken.column(index).to_pylist() for index in range(6)] == [list(column) for column in columns]
    streamed = con.sql(whole).batches().read_all()
    assert streamed.column("k").to_pylist() == list(columns[0])
    frame = con.sql(whole).df()
    assert frame["k"].tolist() == list(columns[0])
    assert frame["few"].tolist() == list(columns[2])
    assert frame["many"].tolist() == list(columns[3])
    assert frame["n"].isna().tolist() == [value is None for value in columns[1]]
    assert frame["day"].dt.date.tolist() == list(columns[5])
    exact = con.sql(whole).df(dtypes="exact")
    assert exact["price"].tolist() == list(columns[4])
    arrays = con.sql(whole).fetchnumpy()
    assert arrays["k"].tolist() == list(columns[0])
    assert arrays["n"].mask.tolist() == [value is None for value in columns[1]]
    polars = con.sql(whole).pl()
    assert polars["many"].to_list() == list(columns[3])
    assert polars["few"].cast(str).to_list() == list(columns[2])
    first = len(rows) // 2
    some = con.sql(f"SELECT many, k FROM t LIMIT 50 OFFSET {first}").arrow()
    assert some.column("k").to_pylist() == list(columns[0][first : first + 50])
    return taken, columns


def test_each_state_of_a_table_is_what_an_ordinary_query_gives(table):
    decide = random.Random(SEED)
    compare(table)
    insert(table, ROWS, 1)
    compare(table)
    insert(table, ROWS + 1, 300)
    compare(table)
    delete(table, [5])
    compare(table)
    delete(table, [ROWS + 7, *range(1000, 1100, 2)])
    compare(table)
    table.execute("UPDATE t SET n = 1 WHERE k % 4000 = 17")
    compare(table)
    delete(table, decide.sample(range(ROWS), ROWS // 100))
    compare(table)
    table.execute("DELETE FROM t WHERE k > 100")
    compare(table)


def test_what_was_taken_stays(table):
    held = []
    for change in (
        lambda: insert(table, ROWS, 20),
        lambda: delete(table, [3, 40_000, 40_001]),
        lambda: delete(table, range(60_000, 70_000, 90)),
        lambda: table.execute("UPDATE t SET many = 'other' WHERE k % 10000 = 0"),
        lambda: table.execute("CHECKPOINT"),
        lambda: table.execute("VACUUM"),
        lambda: insert(table, 2 * ROWS, 3),
        lambda: table.execute("DROP TABLE t"),
    ):
        result = table.sql("SELECT * FROM t")
        held.append((result.arrow(), result.fetchnumpy(), expected(table)))
        change()
    for taken, arrays, rows in held:
        columns = list(zip(*rows, strict=True))
        assert taken.column("many").to_pylist() == list(columns[3])
        assert taken.column("n").to_pylist() == list(columns[1])
        assert arrays["k"].tolist() == list(columns[0])
        assert arrays["few"].tolist() == list(columns[2])


def test_whoever_writes_into_his_arrays_changes_nothing_else(table):
    insert(table, ROWS, 5)
    for _ in range(2):
        rows = expected(table)
        arrays = table.sql("SELECT * FROM t").fetchnumpy()
        arrays["k"][:] = -1
        arrays["price"][:] = -1
        frame = table.sql("SELECT * FROM t").df()
        frame.loc[:, "k"] = -2
        assert table.sql("SELECT * FROM t").fetchall() == rows
        delete(table, [17, ROWS + 2])
