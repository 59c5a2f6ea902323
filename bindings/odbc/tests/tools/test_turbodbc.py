"""turbodbc, which binds arrays of rows and of parameters."""

import datetime

import numpy as np
import pytest
import turbodbc


@pytest.fixture
def connection(file_database):
    options = turbodbc.make_options(
        read_buffer_size=turbodbc.Rows(1000),
        parameter_sets_to_buffer=500,
        varchar_max_character_limit=200,
        limit_varchar_results_to_max=True,
        prefer_unicode=True,
        autocommit=False,
    )
    opened = turbodbc.connect(
        connection_string=f"Driver=Hypostyle;Database={file_database}", turbodbc_options=options
    )
    yield opened
    opened.close()


@pytest.fixture
def filled(connection):
    """Insert rows of several types, more than one array of parameters has."""
    cursor = connection.cursor()
    cursor.execute(
        "CREATE TABLE sold (id BIGINT, name VARCHAR, price DOUBLE, day DATE, at TIMESTAMP, is_paid BOOLEAN)"
    )
    rows = [
        (
            number,
            None if number % 3 == 0 else f"größe {number}",
            None if number % 5 == 0 else number / 8,
            datetime.date(2020, 1, 1) + datetime.timedelta(days=number % 700),
            datetime.datetime(2020, 1, 1, 1, 2, 3, 456000) + datetime.timedelta(seconds=number),
            number % 2 == 0,
        )
        for number in range(2300)
    ]
    cursor.executemany("INSERT INTO sold VALUES (?, ?, ?, ?, ?, ?)", rows)
    return cursor, rows


def test_rows(connection, filled):
    cursor, rows = filled
    cursor.execute("SELECT * FROM sold ORDER BY id")
    assert [column[0] for column in cursor.description] == ["id", "name", "price", "day", "at", "is_paid"]
    assert [tuple(row) for row in cursor.fetchall()] == rows
    cursor.execute("SELECT name, count(*) FROM sold WHERE id < ? GROUP BY name ORDER BY 2 DESC LIMIT 1", [30])
    assert cursor.fetchone() == [None, 10]
    connection.rollback()
    with pytest.raises(turbodbc.Error, match="42S02"):
        cursor.execute("SELECT * FROM sold")


def test_arrays_of_numpy(connection, filled):
    cursor, rows = filled
    connection.commit()
    cursor.execute("SELECT id, price FROM sold ORDER BY id")
    found = cursor.fetchallnumpy()
    assert found["id"].tolist() == [row[0] for row in rows]
    assert np.ma.getmaskarray(found["price"]).tolist() == [row[2] is None for row in rows]
    cursor.execute("CREATE TABLE numbers (a BIGINT, b DOUBLE)")
    cursor.executemanycolumns(
        "INSERT INTO numbers VALUES (?, ?)",
        [
            np.arange(70_000, dtype="int64"),
            np.ma.MaskedArray(np.arange(70_000) / 4, mask=np.arange(70_000) % 7 == 0),
        ],
    )
    cursor.execute("SELECT count(*), count(b), sum(a)::BIGINT, sum(b)::DOUBLE FROM numbers")
    of_sevenths = np.arange(0, 70_000, 7)
    total = 70_000 * 69_999 // 2
    assert cursor.fetchone() == [
        70_000,
        70_000 - len(of_sevenths),
        total,
        (total - int(of_sevenths.sum())) / 4,
    ]


def test_a_large_result_comes_in_pieces(connection):
    """Rows that are computed while they are fetched."""
    cursor = connection.cursor()
    cursor.execute("SELECT i, 'row ' || i FROM range(1500000) AS t (i)")
    seen = 0
    for piece in cursor.fetchnumpybatches():
        numbers = next(iter(piece.values()))
        assert numbers[0] == seen
        seen += len(numbers)
    assert seen == 1_500_000
