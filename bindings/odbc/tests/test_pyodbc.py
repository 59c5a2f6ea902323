"""pyodbc: values of each type there and back, catalogs, errors, and a server that dies."""

import datetime
import decimal
import random

import duckdb
import pyodbc
import pytest

pyodbc.pooling = False

ROW = {
    "small SMALLINT": [-32768, 32767],
    "middle INTEGER": [-(2**31), 2**31 - 1],
    "large BIGINT": [-(2**63), 2**63 - 1],
    "exact DECIMAL(38, 10)": [
        decimal.Decimal("-1234567890123456789012345678.0123456789"),
        decimal.Decimal("0.0000000001"),
    ],
    "money DECIMAL(9, 2)": [decimal.Decimal("-9999999.99"), decimal.Decimal("0.01")],
    "real DOUBLE": [1.7976931348623157e308, -5e-324],
    "text VARCHAR": ["größe 😀 'quoted' \\ %", ""],
    "bytes BLOB": [bytes(range(256)), b""],
    "flag BOOLEAN": [True, False],
    "day DATE": [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
    "at TIMESTAMP": [
        datetime.datetime(1, 1, 1, 0, 0, 0, 1),
        datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
    ],
    "clock TIME": [datetime.time(0, 0, 0), datetime.time(23, 59, 59)],
}


@pytest.fixture
def connection(database):
    with pyodbc.connect(f"Driver=Hypostyle;Database={database}", autocommit=True) as connection:
        yield connection
    connection.close()


@pytest.fixture
def in_memory():
    connection = pyodbc.connect("Driver=Hypostyle;Database=:memory:", autocommit=True)
    yield connection
    connection.close()


def test_values_there_and_back(connection):
    cursor = connection.cursor()
    cursor.execute(f"CREATE TABLE there ({', '.join(ROW)})")
    rows = [tuple(row) for row in zip(*ROW.values(), strict=True)] + [(None,) * len(ROW)]
    places = ", ".join("?" * len(ROW))
    for row in rows:
        cursor.execute(f"INSERT INTO there VALUES ({places})", row)
        assert cursor.rowcount == 1
    assert [tuple(row) for row in cursor.execute("SELECT * FROM there").fetchall()] == rows


@pytest.mark.parametrize("fast", [False, True])
def test_many_rows(connection, fast):
    cursor = connection.cursor()
    cursor.execute(
        "CREATE TABLE many (id INTEGER, text VARCHAR, money DECIMAL(12, 2), day DATE, real DOUBLE)"
    )
    start = datetime.date(2020, 1, 1)
    rows = [
        (
            i if i % 7 else None,
            f"text {i} 😀" if i % 5 else None,
            decimal.Decimal(i) / 4 if i % 3 else None,
            start + datetime.timedelta(days=i) if i % 2 else None,
            i / 8 if i % 11 else None,
        )
        for i in range(3000 if fast else 300)
    ]
    cursor.fast_executemany = fast
    for begin in range(0, len(rows), 1000):
        cursor.executemany("INSERT INTO many VALUES (?, ?, ?, ?, ?)", rows[begin : begin + 1000])
    found = [tuple(row) for row in cursor.execute("SELECT * FROM many").fetchall()]
    key = str
    assert sorted(found, key=key) == sorted(rows, key=key)


def test_answers_are_those_of_duckdb(in_memory):
    """Queries over the same rows, as both are read by Python."""
    peer = duckdb.connect()
    seed = random.Random(7)
    rows = [
        (
            i,
            seed.choice(["a", "b", None]),
            round(seed.uniform(-100, 100), 2),
            datetime.date(2020, 1, 1) + datetime.timedelta(days=seed.randrange(999)),
        )
        for i in range(2000)
    ]
    cursor = in_memory.cursor()
    for each in (cursor, peer):
        each.execute("CREATE TABLE t (i INTEGER, g VARCHAR, x DOUBLE, d DATE)")
        each.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    for query in [
        "SELECT g, count(*), sum(i), min(x), max(d) FROM t GROUP BY g ORDER BY g NULLS LAST",
        "SELECT i, x, d FROM t WHERE g = 'a' ORDER BY i LIMIT 100",
        "SELECT CAST(x AS DECIMAL(9, 2)), i % 7 = 3, d + 1, upper(g) FROM t ORDER BY i LIMIT 500",
        "SELECT CAST(d AS TIMESTAMP), CAST(i AS BIGINT) * 1000000000, g || '!' FROM t ORDER BY i",
        "SELECT a.i, b.g FROM t a JOIN t b ON a.i = b.i + 1 ORDER BY 1",
    ]:
        ours = [tuple(row) for row in cursor.execute(query).fetchall()]
        theirs = [
            tuple(v.date() if isinstance(v, datetime.datetime) and "d + 1" in query else v for v in row)
            for row in peer.execute(query).fetchall()
        ]
        assert ours == theirs, query


def test_catalog(connection):
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE listed (id INTEGER PRIMARY KEY, text VARCHAR NOT NULL)")
    assert [row.table_name for row in cursor.tables(table="list%", tableType="TABLE")] == ["listed"]
    assert [(row.column_name, row.type_name, row.nullable) for row in cursor.columns("listed")] == [
        ("id", "INTEGER", 0),
        ("text", "VARCHAR", 0),
    ]
    assert [row.column_name for row in cursor.primaryKeys("listed")] == ["id"]
    assert [row.column_name for row in cursor.statistics("listed")] == ["id"]
    assert cursor.procedures().fetchall() == []
    assert connection.getinfo(pyodbc.SQL_DBMS_NAME) == "Hypostyle"


def test_long_values(connection):
    """Values that no buffer holds at once, read in pieces."""
    text, data = "größe😀" * 200_000, random.Random(1).randbytes(3_000_000)
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE long (text VARCHAR, bytes BLOB)")
    cursor.execute("INSERT INTO long VALUES (?, ?)", text, data)
    assert tuple(cursor.execute("SELECT * FROM long").fetchone()) == (text, data)


def test_errors(connection):
    cursor = connection.cursor()
    for statement, kind, state in [
        ("SELEC", pyodbc.ProgrammingError, "42601"),
        ("SELECT * FROM missing", pyodbc.ProgrammingError, "42S02"),
        ("SELECT missing", pyodbc.ProgrammingError, "42S22"),
        ("SELECT 1 / 0", pyodbc.DataError, "22012"),
    ]:
        with pytest.raises(kind) as refused:
            cursor.execute(statement).fetchall()
        assert refused.value.args[0] == state
    cursor.execute("CREATE TABLE keyed (id INTEGER PRIMARY KEY)")
    cursor.execute("INSERT INTO keyed VALUES (1)")
    with pytest.raises(pyodbc.IntegrityError):
        cursor.execute("INSERT INTO keyed VALUES (1)")
    with pytest.raises(pyodbc.OperationalError) as late:
        connection.timeout = 1
        connection.execute(
            "SELECT count(*) FROM range(1000000) a (i), range(1000000) b (k) WHERE (i * k) % 7 = 3"
        )
    assert late.value.args[0] == "HYT00"


def test_transactions(file_database):
    one = pyodbc.connect(f"Driver=Hypostyle;Database={file_database}")
    other = pyodbc.connect(f"Driver=Hypostyle;Database={file_database}", autocommit=True)
    one.execute("CREATE TABLE account (balance INTEGER)")
    one.execute("INSERT INTO account VALUES (100)")
    one.commit()
    one.execute("UPDATE account SET balance = 0")
    assert other.execute("SELECT balance FROM account").fetchval() == 100
    one.rollback()
    assert one.execute("SELECT balance FROM account").fetchval() == 100
    one.close()
    other.close()


def test_keywords(tmp_path):
    place = tmp_path / "a;b}c.hypo"
    quoted = str(place).replace("}", "}}")
    with pyodbc.connect(f"Driver=Hypostyle;Database={{{quoted}}}", autocommit=True) as connection:
        connection.execute("CREATE TABLE t (a INTEGER)")
    connection.close()
    assert place.is_dir()
    connection = pyodbc.connect(f"Driver=Hypostyle;Database={{{quoted}}};ReadOnly=yes", autocommit=True)
    assert connection.getinfo(pyodbc.SQL_DATA_SOURCE_READ_ONLY)
    with pytest.raises(pyodbc.Error):
        connection.execute("INSERT INTO t VALUES (1)")
    connection.close()


def test_a_server_that_dies_in_the_middle(tcp_server):
    """The rows that are missing are an error, and not the end, whenever they are asked for."""
    server, address = tcp_server
    connection = pyodbc.connect(f"Driver=Hypostyle;Database={address}", autocommit=True)
    cursor = connection.cursor()
    cursor.execute("SELECT i, repeat('x', 100) FROM range(100000000) AS t (i)")
    assert [row[0] for row in cursor.fetchmany(1000)] == list(range(1000))
    server.kill()
    server.wait()
    for _ in range(2):
        with pytest.raises(pyodbc.Error) as lost:
            while cursor.fetchmany(1000):
                pass
        assert lost.value.args[0] == "08S01"
    connection.close()


def test_a_server_that_dies(tcp_server):
    server, address = tcp_server
    connection = pyodbc.connect(f"Driver=Hypostyle;Database={address}", autocommit=True)
    cursor = connection.cursor()
    cursor.execute("SELECT * FROM range(100000)")
    server.kill()
    server.wait()
    # What has been received is there; what is asked for afterwards is an error with a state.
    assert cursor.fetchone()[0] == 0
    with pytest.raises(pyodbc.Error) as lost:
        connection.execute("SELECT 1")
    assert lost.value.args[0].startswith("08")
    connection.close()
    with pytest.raises(pyodbc.Error) as refused:
        pyodbc.connect(f"Driver=Hypostyle;Database={address}")
    assert refused.value.args[0].startswith("08")
