"""A database of PostgreSQL by the driver manager: what it says of itself, ingestion, bound rows,
transactions, cancelling, and values of all types.
"""

import contextlib
import datetime as dt
import sys
import threading
import time
import uuid
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from adbc_driver_manager import AdbcStatusCode, Error, dbapi
from conftest import DRIVER

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))
from postgres_fixture import TRANSFERS, postgres_addresses


@pytest.fixture(scope="module")
def addresses():
    with postgres_addresses() as addresses:
        if addresses is None:
            pytest.skip("no PostgreSQL server: run scripts/setup_postgres.sh")
        yield addresses


@pytest.fixture(params=TRANSFERS)
def address(request, addresses):
    if request.param not in addresses:
        pytest.skip("PostgreSQL has not the extension: run scripts/test_postgres.sh")
    return addresses[request.param]


@pytest.fixture
def connect(address):
    """Make connections, whose one schema is empty at first."""
    with contextlib.ExitStack() as opened:
        uri = f"{address}&options=-csearch_path%3Dshop"
        first = opened.enter_context(dbapi.connect(driver=DRIVER, db_kwargs={"uri": uri}, autocommit=True))
        with first.cursor() as cursor:
            cursor.execute("set client_min_messages = warning; drop schema if exists shop, sales cascade")
            cursor.execute("create schema shop; create schema sales")

        def connect(autocommit=True):
            connection = opened.enter_context(first.adbc_clone())
            connection.adbc_connection.set_autocommit(autocommit)
            return connection

        yield connect


@pytest.fixture
def con(connect):
    return connect()


@pytest.fixture
def run(con):
    def run(sql, parameters=None, on=con):
        with on.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall()

    return run


def refused(sqlstate, call, *args, status=None, **kwargs):
    with pytest.raises(Error) as error:
        call(*args, **kwargs)
    assert error.value.sqlstate == sqlstate, error.value
    if status is not None:
        assert error.value.status_code == status
    return error.value


def tables(con, **filters):
    """Return the tables of the schemas by their names."""
    [catalog] = con.adbc_get_objects(**filters).read_all().to_pylist()
    assert catalog["catalog_name"] in ("postgres", "columns")
    schemas = {schema["db_schema_name"]: schema for schema in catalog["catalog_db_schemas"]}
    assert not any(name.startswith("pg_toast") or name == "information_schema" for name in schemas)
    return {
        name: {table["table_name"]: table for table in schema["db_schema_tables"]}
        for name, schema in schemas.items()
    }


def test_objects(con, run):
    run(
        "create table customer (id int primary key, name text unique not null, "
        "balance numeric(10,2) default 0)"
    )
    run("comment on column customer.name is 'as on the card'")
    run(
        "create table sales.orders (customer int references customer, placed timestamptz, tags text[], "
        "total float8, twice float8 generated always as (total * 2) stored, "
        "number bigint generated always as identity, check (total > 0))"
    )
    run("create view rich as select name from customer")
    run("create materialized view kept as select 1 as one")
    run("create temp table brief (a int)")
    found = tables(con, depth="all")
    assert {name: table["table_type"] for name, table in found["shop"].items()} == {
        "customer": "table",
        "rich": "view",
        "kept": "view",
    }
    columns = {column["column_name"]: column for column in found["shop"]["customer"]["table_columns"]}
    balance = columns["balance"]
    assert (balance["xdbc_type_name"], balance["xdbc_data_type"]) == ("numeric(10,2)", 3)
    assert (balance["xdbc_column_size"], balance["xdbc_decimal_digits"]) == (10, 2)
    assert balance["xdbc_column_def"] == "0"
    assert (balance["ordinal_position"], balance["xdbc_is_nullable"]) == (3, "YES")
    assert (columns["name"]["remarks"], columns["name"]["xdbc_nullable"]) == ("as on the card", 0)
    orders = found["sales"]["orders"]
    columns = {column["column_name"]: column for column in orders["table_columns"]}
    assert columns["twice"]["xdbc_is_generatedcolumn"] and columns["number"]["xdbc_is_autoincrement"]
    assert columns["placed"]["xdbc_data_type"] == 93
    assert columns["tags"]["xdbc_type_name"] == "text[]"
    constraints = {found["constraint_type"]: found for found in orders["table_constraints"]}
    assert set(constraints) == {"FOREIGN KEY", "CHECK"}
    [usage] = constraints["FOREIGN KEY"]["constraint_column_usage"]
    assert (usage["fk_db_schema"], usage["fk_table"], usage["fk_column_name"]) == ("shop", "customer", "id")
    # Those of this session alone.
    assert [name for name in found if name.startswith("pg_temp")] != []
    assert any("brief" in held for held in found.values())
    assert list(tables(con, depth="tables", table_name_filter="ord%")["sales"]) == ["orders"]
    assert tables(con, depth="tables", db_schema_filter="nosuch%") == {}


def test_what_it_says_of_itself(con, run):
    info = con.adbc_get_info()
    [(version,)] = run("show server_version")
    assert (info["vendor_name"], info["vendor_version"]) == ("PostgreSQL", version)
    assert con.adbc_get_table_types() == ["table", "view"]
    run("create table t (a int, b numeric(9,2), c text[])")
    names = con.adbc_get_table_schema("t").names
    assert names == con.adbc_get_table_schema("t", db_schema_filter="shop").names == ["a", "b", "c"]
    refused("42P01", con.adbc_get_table_schema, "nosuch", status=AdbcStatusCode.NOT_FOUND)
    # Only the number of rows would be one, which the server does not know.
    assert [
        catalog["catalog_db_schemas"] for catalog in con.adbc_get_statistics().read_all().to_pylist()
    ] == [[]]


def test_the_current_catalog_and_schema(con, run):
    catalog = con.adbc_current_catalog
    assert con.adbc_current_db_schema == "shop"
    run("create table sales.only_there (a int)")
    con.adbc_current_db_schema = "sales"
    assert (con.adbc_current_db_schema, run("select count(*) from only_there")) == ("sales", [(0,)])
    con.adbc_current_catalog = catalog
    refused("0A000", setattr, con, "adbc_current_catalog", "template1", status=AdbcStatusCode.NOT_IMPLEMENTED)
    refused("3F000", setattr, con, "adbc_current_db_schema", "nosuch", status=AdbcStatusCode.NOT_FOUND)
    assert con.adbc_current_db_schema == "sales"


ROWS = pa.table(
    {
        "i": pa.array([1, 2, None], pa.int32()),
        "t": ["a", None, "é"],
        "n": pa.array([Decimal("1.50"), None, Decimal("-0.01")], pa.decimal128(9, 2)),
        "z": pa.array([0, None, 1], pa.timestamp("us", "UTC")),
        "b": [b"\x00\xff", None, b""],
        "l": pa.array([[1, None], None, []], pa.list_(pa.int64())),
        "k": pa.array(["x", None, "x"]).dictionary_encode(),
    }
)


def test_ingestion(con, run):
    def ingest(mode, table="t", data=ROWS, **options):
        with con.cursor() as cursor:
            return cursor.adbc_ingest(table, data, mode=mode, **options)

    refused("42P01", ingest, "append", status=AdbcStatusCode.NOT_FOUND)
    assert ingest("create") == 3
    refused("42P07", ingest, "create", status=AdbcStatusCode.ALREADY_EXISTS)
    assert ingest("append") == ingest("create_append") == 3
    assert run("select count(*), count(i), count(l) from t") == [(9, 6, 6)]
    assert ingest("replace") == 3
    with con.cursor() as cursor:
        cursor.execute("select * from t")
        found = cursor.fetch_arrow_table()
    assert found.to_pylist() == ROWS.to_pylist()
    assert ingest("create", db_schema_name="sales") == 3
    catalog = con.adbc_current_catalog
    assert (
        ingest("append", catalog_name=catalog)
        == ingest("append", catalog_name=catalog, db_schema_name="sales")
        == 3
    )
    assert run("select count(*) from shop.t union all select count(*) from sales.t") == [(6,), (6,)]
    refused("0A000", ingest, "append", catalog_name="template1")
    # A temporary table hides the other.
    assert ingest("create", temporary=True) == ingest("append", temporary=True) == 3
    assert run("select count(*) from t") == run("select count(*) from pg_temp.t") == [(6,)]
    assert ingest("replace", temporary=True) == 3
    assert run("select count(*) from pg_temp.t") == [(3,)]
    refused("42703", ingest, "append", data=pa.table({"nosuch": [1]}), status=AdbcStatusCode.ALREADY_EXISTS)
    refused("22P02", ingest, "append", data=pa.table({"i": ["no number"]}))
    assert run("select count(*) from pg_temp.t") == [(3,)]


def test_many_rows_are_bound(con, run):
    run("create table t (a int primary key, b text)")
    with con.cursor() as cursor:
        cursor.executemany("insert into t values (?, ?)", [(i, str(i)) for i in range(2000)])
        assert cursor.rowcount == 2000
        cursor.executemany("update t set b = $2 where a = $1", [(1, "x"), (2, "y"), (9999, "z")])
        assert cursor.rowcount == 2
        refused("23505", cursor.executemany, "insert into t values (?, ?)", [(5000, "new"), (1, "old")])
        cursor.execute("select ?::int + 1", pa.record_batch({"p": pa.array([1, 2, None])}))
        assert cursor.fetchall() == [(2,), (3,), (None,)]
        assert [field.type for field in cursor.adbc_prepare("select * from t where a = $1 and b = $2")] == [
            pa.int32(),
            pa.large_string(),
        ]
        assert cursor.adbc_execute_schema("insert into t values (-1, 'x') returning a").names == ["a"]
    assert run("select count(*), min(a), max(a) from t") == [(2000, 0, 1999)]
    assert run("select $b::int - $a", {"a": 1, "b": 5}) == [(4,)]
    refused("07001", run, "select ?::int", (1, 2))


def test_transactions(con, connect, run):
    run("create table t (a int)")
    other = connect(autocommit=False)
    run("insert into t values (1)", on=other)
    assert run("select count(*) from t") == [(0,)]
    other.rollback()
    run("insert into t values (2)", on=other)
    other.commit()
    assert run("select * from t") == [(2,)]
    run("insert into t values (3)", on=other)
    refused("22012", run, "select 1 / 0", on=other)
    refused("25P02", run, "select 1", on=other, status=AdbcStatusCode.INVALID_STATE)
    # The server rolls back, which is no success.
    refused("25P02", other.commit)
    assert run("select * from t", on=other) == [(2,)]
    other.rollback()
    key = uuid.uuid4()
    assert run("select ?", (key,), on=other) == [(key,)]
    other.rollback()
    other.adbc_connection.set_options(**{"adbc.connection.readonly": "true"})
    refused("25006", run, "insert into t values (4)", on=other)
    other.rollback()


def test_isolation_levels_are_the_server_s(con, run):
    option = "adbc.connection.transaction.isolation_level"
    level = "adbc.connection.transaction.isolation."
    for name, shown in [
        ("read_committed", "read committed"),
        ("snapshot", "repeatable read"),
        ("serializable", "serializable"),
        ("default", "read committed"),
    ]:
        con.adbc_connection.set_options(**{option: level + name})
        assert run("show transaction_isolation") == [(shown,)]
    assert con.adbc_connection.get_option(option) == level + "read_committed"
    refused("0A000", con.adbc_connection.set_options, **{option: level + "linearizable"})
    refused("HY024", con.adbc_connection.set_options, **{option: "nosuch"})


@pytest.mark.parametrize(
    "sql", ["select pg_sleep(60)", "select i, pg_sleep(0.001) from generate_series(1, 100000) i"]
)
def test_cancel(con, run, sql):
    with con.cursor() as cursor:
        timer = threading.Timer(0.3, cursor.adbc_cancel)
        timer.start()
        begin = time.monotonic()

        def all_rows():
            cursor.execute(sql)
            cursor.fetchall()

        refused("57014", all_rows, status=AdbcStatusCode.CANCELLED)
        timer.join()
    assert time.monotonic() - begin < 20
    assert run("select 1") == [(1,)]


def test_a_result_outlives_the_next_statement(con, run):
    with con.cursor() as cursor:
        cursor.execute("select i from generate_series(1, 100000) i")
        assert cursor.fetchone() == (1,)
        assert run("select 2") == [(2,)]
        assert sum(row[0] for row in cursor.fetchall()) == 5000049999


def test_values_of_all_types(con, run):
    run("create type shop.mood as enum ('sad', 'ok'); create type shop.pair as (x int, y text)")
    run(
        "create table t (n numeric(12,3), u numeric, z timestamptz, d date, i uuid, j jsonb, a int[], "
        "e mood, b bytea, v interval, f float8, p pair, q inet)"
    )
    run(
        "insert into t values (12.345, 0.10, '2024-01-01 00:00+02', '2024-02-29', "
        "'6ccd780c-baba-1026-9564-5b8c656024db', '{\"a\":1}', '{1,null}', 'ok', '\\x00ff', "
        "'1 month 2 days 3.5 s', 'NaN', '(1,z)', '10.0.0.1'), "
        "(null, null, null, null, null, null, null, null, null, null, null, null, null)"
    )
    with con.cursor() as cursor:
        cursor.execute("select * from t")
        table = cursor.fetch_arrow_table()
    first, second = table.to_pylist()
    assert first.pop("f") != 0
    assert first == {
        "n": Decimal("12.345"),
        "u": "0.10",
        "z": dt.datetime(2023, 12, 31, 22, tzinfo=dt.UTC),
        "d": dt.date(2024, 2, 29),
        "i": uuid.UUID("6ccd780c-baba-1026-9564-5b8c656024db"),
        "j": '{"a": 1}',
        "a": [1, None],
        "e": "ok",
        "b": b"\x00\xff",
        "v": pa.MonthDayNano([1, 2, 3_500_000_000]),
        "p": {"x": 1, "y": "z"},
        "q": "10.0.0.1",
    }
    assert set(second.values()) == {None}
    assert pa.types.is_dictionary(table.schema.field("e").type)
    refused("22008", run, "select timestamptz 'infinity'")
