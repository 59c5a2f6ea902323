"""Bulk ingestion: its modes, its targets, and that it takes effect as a whole or not at all."""

import struct

import pyarrow as pa
import pytest
from adbc_driver_manager import AdbcStatusCode, Error

ROWS = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]})


@pytest.fixture
def ingest(con):
    def ingest(table="t", data=ROWS, on=con, **options):
        with on.cursor() as cursor:
            return cursor.adbc_ingest(table, data, **options)

    return ingest


def fails(status, match, call, *args, **kwargs):
    with pytest.raises(Error, match=match) as error:
        call(*args, **kwargs)
    assert error.value.status_code == status
    return error.value


def test_create(ingest, run):
    assert ingest(mode="create") == 3
    assert run("select * from t order by a") == [(1, "x"), (2, None), (3, "z")]
    error = fails(AdbcStatusCode.ALREADY_EXISTS, '"t"', ingest, mode="create")
    assert error.sqlstate == "42P07"
    run("create view v as select 1 as a")
    fails(AdbcStatusCode.ALREADY_EXISTS, '"v"', ingest, "v", mode="create")
    assert run("select count(*) from t") == [(3,)]


def test_append(ingest, run):
    error = fails(AdbcStatusCode.NOT_FOUND, '"t"', ingest, mode="append")
    assert error.sqlstate == "42P01"
    run("create table t (b varchar, a bigint, c integer default 7)")
    assert ingest(mode="append") == 3
    # Columns are matched by name, and missing ones get their default.
    assert run("select a, b, c from t order by a") == [(1, "x", 7), (2, None, 7), (3, "z", 7)]
    fails(AdbcStatusCode.ALREADY_EXISTS, '"d"', ingest, data=pa.table({"d": [1]}), mode="append")
    fails(AdbcStatusCode.INVALID_DATA, '"a"', ingest, data=pa.table({"a": ["no number"]}), mode="append")
    assert run("select count(*) from t") == [(3,)]


def test_replace(ingest, run):
    assert ingest(mode="replace") == 3
    assert ingest(data=pa.table({"other": [1.5]}), mode="replace") == 1
    assert run("select other from t") == [(1.5,)]


def test_create_append(ingest, run):
    assert ingest(mode="create_append") == 3
    assert ingest(mode="create_append") == 3
    assert run("select count(*) from t") == [(6,)]
    fails(AdbcStatusCode.ALREADY_EXISTS, '"d"', ingest, data=pa.table({"d": [1]}), mode="create_append")


def test_targets(ingest, run, con):
    run("create schema s")
    run('create schema "we.ird"')
    assert ingest(db_schema_name="s") == 3
    assert ingest("T.t", db_schema_name="we.ird", catalog_name="hypostyle") == 3
    assert ingest(catalog_name="hypostyle") == 3
    assert run('select count(*) from hypostyle."we.ird"."T.t"') == run("select count(*) from s.t") == [(3,)]
    assert run("select count(*) from main.t") == [(3,)]
    con.adbc_current_db_schema = "s"
    fails(AdbcStatusCode.ALREADY_EXISTS, "hypostyle.s", ingest)
    fails(AdbcStatusCode.NOT_FOUND, "no_schema", ingest, db_schema_name="no_schema")
    fails(AdbcStatusCode.NOT_FOUND, "no_catalog", ingest, catalog_name="no_catalog", mode="replace")


def test_names(ingest, run):
    for name in ["a.b", "UPPER", "per%cent", "ünï", "select", "a" * 255]:
        assert ingest(name) == 3
        assert run(f'select count(*) from "{name}"') == [(3,)]
    # It is refused, because it would be read as "ab".
    fails(AdbcStatusCode.NOT_IMPLEMENTED, "quote", ingest, 'a"b')
    assert ingest("ab") == 3


def test_temporary_tables_are_the_connections_own(ingest, run, connect):
    assert ingest(temporary=True) == 3
    assert ingest(temporary=True, mode="append") == 3
    assert run("select count(*) from t") == [(6,)]
    assert ingest(temporary=True, mode="replace") == 3
    fails(AdbcStatusCode.ALREADY_EXISTS, "temp", ingest, temporary=True)
    # There is another table of the same name.
    assert ingest(data=pa.table({"a": [1]})) == 1
    assert run("select count(*) from t") == [(3,)]
    assert run("select count(*) from t", on=connect()) == [(1,)]
    with pytest.raises(Error, match="leave"):
        ingest("u", temporary=True, db_schema_name="main")


def test_a_stream_that_fails_leaves_nothing(ingest, run):
    schema = ROWS.schema

    def batches():
        yield from ROWS.to_batches()
        raise ValueError("the disk of the caller is on fire")

    def reader():
        return pa.RecordBatchReader.from_batches(schema, batches())

    with pytest.raises(Error, match="on fire"):
        ingest(data=reader(), mode="create")
    with pytest.raises(Error, match="t"):
        run("select * from t")
    ingest(mode="create")
    for mode in ["append", "replace", "create_append"]:
        with pytest.raises(Error, match="on fire"):
            ingest(data=reader(), mode=mode)
        assert run("select count(*) from t") == [(3,)]


def test_rows_that_break_a_constraint_leave_nothing(ingest, run):
    run("create table t (a bigint primary key, b varchar)")
    ingest(mode="append")
    many = pa.table({"a": [*range(10, 100_010), 3]})
    error = fails(AdbcStatusCode.INTEGRITY, "t_pkey", ingest, data=many, mode="append")
    assert error.sqlstate.startswith("23")
    assert run("select count(*) from t") == [(3,)]


def test_in_a_transaction(ingest, run, connect):
    writer = connect(autocommit=False)
    ingest(on=writer)
    assert run("select count(*) from t", on=writer) == [(3,)]
    with pytest.raises(Error):
        run("select * from t")
    writer.rollback()
    ingest(on=writer, mode="replace")
    writer.commit()
    assert run("select count(*) from t") == [(3,)]
    # A refusal before anything is written leaves the transaction open.
    ingest("other", on=writer)
    fails(AdbcStatusCode.ALREADY_EXISTS, '"t"', ingest, on=writer)
    writer.commit()
    assert run("select count(*) from other") == [(3,)]


def test_from_another_statements_result(ingest, run, con):
    run("create table source as select value as a from generate_series(1, 100000)")
    with con.cursor() as reading:
        reading.execute("select a, a * 2 as b from source where a % 2 = 0")
        assert ingest(data=reading.fetch_record_batch()) == 50_000
    assert run("select count(*), sum(b) from t") == [(50_000, 2 * 2_500_050_000)]


def test_nothing_to_ingest(ingest, run, con):
    assert ingest(data=ROWS.slice(0, 0)) == 0
    assert run("select * from t") == []
    assert con.adbc_get_table_schema("t").names == ["a", "b"]
    empty = pa.record_batch({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())})
    assert ingest(data=pa.RecordBatchReader.from_batches(empty.schema, [empty] * 3), mode="append") == 0
    statement = con.cursor()
    with statement, pytest.raises(Error, match="bind"):
        statement.adbc_statement.set_options(**{"adbc.ingest.target_table": "t"})
        statement.adbc_statement.execute_update()


def test_many_rows(ingest, run):
    rows = 1_000_000
    batch = pa.record_batch({"a": pa.array(range(10_000)), "b": pa.array(["text"] * 10_000)})
    reader = pa.RecordBatchReader.from_batches(batch.schema, (batch for _ in range(rows // 10_000)))
    assert ingest(data=reader) == rows
    assert run("select count(*), sum(a) from t") == [(rows, rows // 10_000 * 49_995_000)]


def test_modes_are_checked(con):
    with con.cursor() as cursor:
        set_options = cursor.adbc_statement.set_options
        fails(
            AdbcStatusCode.INVALID_ARGUMENT,
            'mode.create.*not "truncate"',
            set_options,
            **{"adbc.ingest.mode": "truncate"},
        )
        fails(
            AdbcStatusCode.INVALID_ARGUMENT,
            "true or false",
            set_options,
            **{"adbc.ingest.temporary": "perhaps"},
        )
        assert cursor.adbc_statement.get_option("adbc.ingest.mode") == "adbc.ingest.mode.create"


def test_damaged_rows_are_refused(ingest, run):
    offsets = pa.py_buffer(struct.pack("<iii", 0, 1_000_000_000, 5))
    texts = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"hello")])
    fails(AdbcStatusCode.INVALID_DATA, "damaged Arrow data", ingest, data=pa.table({"b": texts}))
    assert run("select 1") == [(1,)]


def test_slices_of_structs_within_structs(ingest, run):
    rows = pa.array([{"a": {"n": number}} for number in range(10)])
    assert ingest(data=pa.table({"s": rows.slice(3, 2)})) == 2
    assert run("select s from t") == [({"a": {"n": 3}},), ({"a": {"n": 4}},)]
