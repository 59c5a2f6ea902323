"""asyncpg against a server; `HYPOSTYLE_PGWIRE` names a program that gets an address."""

import asyncio
import datetime
import decimal
import os
import uuid

import pytest
from test_pgwire import port as port

asyncpg = pytest.importorskip("asyncpg")
pytestmark = pytest.mark.skipif("HYPOSTYLE_PGWIRE" not in os.environ, reason="HYPOSTYLE_PGWIRE is not set")

DEADLINE = 30


def run(port, work):
    """Do work with a connection of its own, within the deadline."""

    async def connected():
        connection = await asyncpg.connect(host="127.0.0.1", port=port, user="ada")
        try:
            return await work(connection)
        finally:
            await connection.close()

    return asyncio.run(asyncio.wait_for(connected(), DEADLINE))


VALUES = [
    ("bool", True),
    ("int", 7),
    ("bigint", 2**40),
    ("double precision", 1.5),
    ("numeric(10, 3)", decimal.Decimal("12.340")),
    ("text", "text"),
    ("bytea", b"\x00\xff"),
    ("date", datetime.date(2024, 2, 29)),
    ("timestamp", datetime.datetime(2024, 1, 2, 3, 4, 5, 6)),
    ("timestamptz", datetime.datetime(1900, 1, 2, 3, 4, 5, 6, datetime.UTC)),
    ("interval", datetime.timedelta(days=1, seconds=2)),
    ("uuid", uuid.UUID(int=5)),
    ("int[]", [1, None, 3]),
    ("text[]", ["a", None, 'b"c']),
    ("uuid[]", [uuid.UUID(int=5), None]),
    ("numeric(10, 3)[]", [decimal.Decimal("1.500")]),
    ("timestamptz[]", [datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)]),
]


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=[kind for kind, _ in VALUES])
def test_values_come_back(port, kind, value):
    async def work(connection):
        assert await connection.fetchval(f"select $1::{kind}", value) == value
        assert await connection.fetchval(f"select $1::{kind}", None) is None

    run(port, work)


# An error is sent at once: asyncpg sends no Sync before it has heard of it.
@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("select nosuch", asyncpg.UndefinedColumnError),
        ("select * from nosuch", asyncpg.UndefinedTableError),
        ("selec 1", asyncpg.PostgresSyntaxError),
        ("select 1 / (n - 1) from (values (1)) v (n)", asyncpg.DivisionByZeroError),
    ],
)
def test_errors_are_told(port, sql, error):
    async def work(connection):
        with pytest.raises(error):
            await connection.fetch(sql)
        assert await connection.fetchval("select 1") == 1

    run(port, work)


def test_transactions_cursors_and_copies(port):
    async def work(connection):
        await connection.execute("create table asyncpg_t (a int, b text, c int[])")
        async with connection.transaction():
            await connection.executemany(
                "insert into asyncpg_t values ($1, $2, $3)", [(n, str(n), [n]) for n in range(100)]
            )
            cursor = connection.cursor("select a from asyncpg_t order by a", prefetch=7)
            assert [row["a"] async for row in cursor] == list(range(100))
        records = [(n, str(n), None) for n in range(100, 1100)]
        assert await connection.copy_records_to_table("asyncpg_t", records=records) == "COPY 1000"
        assert await connection.fetchrow("select count(*), sum(a) from asyncpg_t") == (1100, 604450)

    run(port, work)
