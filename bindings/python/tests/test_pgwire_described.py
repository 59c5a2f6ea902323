"""The columns that the extended protocol describes are those that come, whatever the parameters."""

import asyncio
import datetime
import decimal
import math
import os
import random
import subprocess

import hypostyle
import pytest

psycopg = pytest.importorskip("psycopg")
asyncpg = pytest.importorskip("asyncpg")

PROGRAM = os.environ.get("HYPOSTYLE_PGWIRE")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="HYPOSTYLE_PGWIRE is not set")

SETUP = [
    "CREATE TABLE cs (x INTEGER, k SMALLINT, l BIGINT, r REAL, y DOUBLE, d DECIMAL(10,2), "
    "s VARCHAR, b BOOLEAN, dt DATE, ts TIMESTAMP)",
    "INSERT INTO cs VALUES "
    "(1, 2, 3, 0.5, 2.5, 7.25, 'seven', true, DATE '2024-02-29', TIMESTAMP '2024-02-29 12:30:00'), "
    "(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), "
    "(-7, -8, 5000000000, 1.25, -0.125, -1.50, '', false, DATE '1999-12-31', TIMESTAMP '1999-12-31')",
]

NUMBERS = {"x": "integer", "k": "smallint", "l": "bigint", "r": "real", "y": "float8", "d": "decimal(10,2)"}
OTHERS = {"s": "varchar", "b": "boolean", "dt": "date", "ts": "timestamp"}
VALUES = {
    "integer": [0, 3, -40000],
    "smallint": [1, -3],
    "bigint": [2**40, -1],
    "real": [0.25, -2.5],
    "float8": [2.75, -0.1, 1e10],
    "decimal(10,2)": [decimal.Decimal("1.25"), decimal.Decimal("-99999.99")],
    "varchar": ["", "seven", "x'y"],
    "boolean": [True, False],
    "date": [datetime.date(2000, 1, 1)],
    "timestamp": [datetime.datetime(2001, 2, 3, 4, 5, 6, 789)],
}

# `{c}` is a column, `{p}` the parameter, `{t}` its type.
FORMS = [
    "SELECT CASE WHEN {c} > {p} THEN 0 ELSE {c} END FROM cs ORDER BY cs.x",
    "SELECT CASE WHEN x > 0 THEN {p} ELSE {c} END FROM cs ORDER BY cs.x",
    "SELECT CASE x WHEN 1 THEN {p}::{t} WHEN 2 THEN 1 ELSE {c} END FROM cs ORDER BY cs.x",
    "SELECT coalesce({c}, {p}) FROM cs ORDER BY cs.x",
    "SELECT coalesce({p}, {c}, 0) FROM cs ORDER BY cs.x",
    "SELECT nullif({c}, {p}) FROM cs ORDER BY cs.x",
    "SELECT greatest({c}, {p}), least({p}::{t}, {c}) FROM cs ORDER BY cs.x",
    "SELECT {c} + {p} FROM cs ORDER BY cs.x",
    "SELECT {c} * {p}::{t}, {p}::{t} - {c} FROM cs ORDER BY cs.x",
    "SELECT q FROM (SELECT 0 AS q UNION ALL SELECT {p}::{t}) u ORDER BY q",
    "SELECT q FROM (SELECT {c} AS q FROM cs UNION ALL SELECT {p}) u ORDER BY q",
    "SELECT c FROM (VALUES (1), ({p}::{t})) v (c) ORDER BY c",
    "SELECT sum(CASE WHEN x > 0 THEN {p}::{t} ELSE {c} END), max({p}::{t}) FROM cs",
    "SELECT x, {c} = {p}, {c} BETWEEN {p} AND {c}, {c} IN ({p}, {c}) FROM cs ORDER BY cs.x",
    "SELECT ARRAY[{c}, {p}::{t}] FROM cs ORDER BY cs.x",
    "SELECT (SELECT {p}::{t} UNION ALL SELECT 1 ORDER BY 1 LIMIT 1), x FROM cs ORDER BY cs.x",
    "WITH w AS (SELECT {p}::{t} AS p) SELECT CASE WHEN x > 0 THEN p ELSE {c} END FROM cs, w ORDER BY cs.x",
    "SELECT x, first_value(coalesce({p}::{t}, {c})) OVER (ORDER BY x) FROM cs ORDER BY cs.x",
]
SAME = [
    "SELECT CASE WHEN {c} > {p} THEN {p} ELSE {c} END FROM cs ORDER BY cs.x",
    "SELECT coalesce({c}, {p}), nullif({p}::{t}, {c}), greatest({c}, {p}) FROM cs ORDER BY cs.x",
    "SELECT {p}::{t}, {c} FROM cs WHERE {c} < {p} ORDER BY cs.x",
    "SELECT q FROM (SELECT {c} AS q FROM cs UNION ALL SELECT {p}) u ORDER BY q",
    "SELECT ARRAY[{c}, {p}::{t}] FROM cs ORDER BY cs.x",
    "SELECT max({c}) FROM cs HAVING max({c}) <> {p}",
]


def generated(count, seed):
    rng = random.Random(seed)
    for _ in range(count):
        if rng.random() < 0.7:
            form, column = rng.choice(FORMS), rng.choice(list(NUMBERS))
            of = rng.choice(list(NUMBERS.values()))
        else:
            form, column = rng.choice(SAME), rng.choice([*NUMBERS, *OTHERS])
            of = {**NUMBERS, **OTHERS}[column]
        yield form.replace("{c}", column).replace("{t}", of), rng.choice(VALUES[of])


def plain(value):
    """Return numbers as they compare, whatever type carries them."""
    match value:
        case bool() | None | str() | datetime.date():
            return value
        case float() if math.isnan(value):
            return "nan"
        case int() | float() | decimal.Decimal():
            return float(f"{float(value):.6g}")
        case list() | tuple():
            return [plain(item) for item in value]
    return value


@pytest.fixture(scope="module")
def port():
    server = subprocess.Popen([PROGRAM, "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    try:
        port = int(server.stdout.readline().rsplit(":", 1)[1])
        with psycopg.connect(f"host=127.0.0.1 port={port} user=ada") as connection:
            for sql in SETUP:
                connection.execute(sql)
        yield port
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def of_psycopg(connection, sql, value, cursor, binary):
    try:
        with cursor(connection) as cursor:
            return plain(
                cursor.execute(sql.replace("{p}", "%s"), [value] * sql.count("{p}"), binary=binary).fetchall()
            )
    except psycopg.Error as error:
        connection.rollback()
        return error.sqlstate


async def of_asyncpg(connection, sql, value):
    try:
        statement = await connection.prepare(sql.replace("{p}", "$1"))
        [parameter] = statement.get_parameters()
        # It would truncate the value itself.
        if parameter.name.startswith("int") and not isinstance(value, int):
            return "another type"
        return plain([list(row) for row in await statement.fetch(value)])
    except asyncpg.PostgresError as error:
        return error.sqlstate
    except asyncpg.DataError:
        # It asks for another type than that of the value.
        return "another type"


def embedded(connection, sql, value):
    try:
        rows = connection.execute(sql.replace("{p}", "$p"), {"p": value}).fetchall()
    except hypostyle.Error as error:
        return error.sqlstate
    return plain(rows)


def test_statements_give_the_same_however_they_are_asked(port):
    wrong = []

    async def compare():
        there = await asyncpg.connect(host="127.0.0.1", port=port, user="ada", database="hypostyle")
        with (
            hypostyle.connect() as here,
            psycopg.connect(f"host=127.0.0.1 port={port} user=ada") as connection,
        ):
            for sql in SETUP:
                here.execute(sql)
            asked = 0
            for sql, value in generated(400, seed=28):
                found = {
                    "embedded": embedded(here, sql, value),
                    "text": of_psycopg(connection, sql, value, psycopg.Cursor, False),
                    "binary": of_psycopg(connection, sql, value, psycopg.Cursor, True),
                    "prepared": await of_asyncpg(there, sql, value),
                }
                rows = {way: rows for way, rows in found.items() if isinstance(rows, list)}
                asked += len(rows)
                if any(answer != next(iter(rows.values())) for answer in rows.values()):
                    wrong.append((sql, value, found))
                # The same statement does not fail in one format only.
                if isinstance(found["text"], list) != isinstance(found["binary"], list):
                    wrong.append((sql, value, found))
        await there.close()
        return asked

    assert asyncio.run(compare()) > 1000
    assert not wrong, f"{len(wrong)}, such as {wrong[:3]}"


def test_the_described_types_are_those_of_the_coerced_plan(port):
    async def types():
        connection = await asyncpg.connect(host="127.0.0.1", port=port, user="ada", database="hypostyle")
        found = {}
        for sql in [
            "SELECT CASE WHEN y > $1 THEN 0 ELSE y END FROM cs",
            "SELECT 0 UNION ALL SELECT $1::float8",
            "SELECT coalesce(d, $1) FROM cs",
            "SELECT coalesce($1, dt) FROM cs",
            "SELECT CASE WHEN b THEN $1 ELSE x END FROM cs",
            "SELECT l FROM cs UNION ALL SELECT $1",
        ]:
            statement = await connection.prepare(sql)
            parameters = [parameter.name for parameter in statement.get_parameters()]
            found[sql] = (parameters, [column.type.name for column in statement.get_attributes()])
        await connection.close()
        return found

    assert list(asyncio.run(types()).values()) == [
        (["float8"], ["float8"]),
        (["float8"], ["float8"]),
        (["numeric"], ["numeric"]),
        (["date"], ["date"]),
        (["int4"], ["int4"]),
        (["int8"], ["int8"]),
    ]


def test_a_column_that_has_changed_its_type_since_it_was_described_is_an_error_as_in_postgresql(port):
    async def change():
        connection = await asyncpg.connect(host="127.0.0.1", port=port, user="ada", database="hypostyle")
        try:
            await connection.execute("CREATE TABLE changing (v INTEGER)")
            query = "SELECT v FROM changing ORDER BY v"
            statement = await connection.prepare(query)
            await connection.execute("ALTER TABLE changing ALTER COLUMN v TYPE DOUBLE")
            await connection.execute("INSERT INTO changing VALUES (2), (2.5)")
            with pytest.raises(asyncpg.InvalidCachedStatementError):
                await statement.fetch()
            statement = await connection.prepare(query)
            return [row["v"] for row in await statement.fetch()]
        finally:
            await connection.close()

    assert asyncio.run(change()) == [2, 2.5]
