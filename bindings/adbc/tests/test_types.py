"""Values of every type: ingested, queried, bound as parameters, and read back."""

import datetime
import decimal
import uuid

import pyarrow as pa
import pytest

UTC = datetime.UTC
MOMENT = datetime.datetime(2024, 2, 29, 23, 59, 58, 123456)

CASES = {
    "boolean": pa.array([True, None, False]),
    "int8": pa.array([-128, None, 127], pa.int8()),
    "int16": pa.array([-(2**15), None, 2**15 - 1], pa.int16()),
    "int32": pa.array([-(2**31), None, 2**31 - 1], pa.int32()),
    "int64": pa.array([-(2**63), None, 2**63 - 1], pa.int64()),
    "uint8": pa.array([0, None, 255], pa.uint8()),
    "uint64": pa.array([0, None, 2**64 - 1], pa.uint64()),
    "float32": pa.array([1.5, None, float("inf")], pa.float32()),
    "float64": pa.array([1e300, None, -0.25]),
    "decimal32": pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-99999.99")], pa.decimal128(7, 2)),
    "decimal128": pa.array([decimal.Decimal("1." + "3" * 30), None], pa.decimal128(38, 30)),
    "decimal256": pa.array([decimal.Decimal("9" * 60), None], pa.decimal256(60, 0)),
    "date": pa.array([datetime.date(1, 1, 1), None, datetime.date(9999, 12, 31)]),
    "time": pa.array([datetime.time(0, 0), None, datetime.time(23, 59, 59, 999999)]),
    "timestamp": pa.array([MOMENT, None], pa.timestamp("us")),
    "timestamp_ns": pa.array([2**62 + 1, None], pa.timestamp("ns")),
    "timestamp_s": pa.array([0, None, -1], pa.timestamp("s")),
    "instant": pa.array([MOMENT.replace(tzinfo=UTC), None], pa.timestamp("us", "UTC")),
    "instant_in_rome": pa.array([MOMENT.replace(tzinfo=UTC), None], pa.timestamp("ms", "Europe/Rome")),
    "duration": pa.array([datetime.timedelta(days=-1, microseconds=1), None], pa.duration("us")),
    "interval": pa.array([pa.MonthDayNano([1, -2, 3]), None]),
    "string": pa.array(["", None, "ä€😀", "x" * 10_000]),
    "large_string": pa.array(["a", None], pa.large_string()),
    "string_view": pa.array(["a", None, "longer than twelve bytes"], pa.string_view()),
    "binary": pa.array([b"", None, b"\x00\xff\x00"]),
    "fixed_binary": pa.array([b"abc", None], pa.binary(3)),
    "list": pa.array([[1, None], None, [], [2]]),
    "list_of_lists": pa.array([[["a"], None], None, [[]]]),
    "fixed_list": pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
    "null": pa.nulls(3),
}


@pytest.mark.parametrize("name", CASES)
def test_ingested_values_come_back(con, name):
    column = CASES[name]
    table = pa.table({"n": pa.array(range(len(column))), "v": column})
    with con.cursor() as cursor:
        assert cursor.adbc_ingest("t", table) == len(column)
        # Stored columns as mappings, and computed ones.
        for sql in ["select * from t", "select * from t where n >= 0 order by n"]:
            cursor.execute(sql)
            found = cursor.fetch_arrow_table()
            assert found.num_rows == len(column)
            assert found["v"].to_pylist() == column.to_pylist()
        schema = con.adbc_get_table_schema("t")
        assert schema.names == ["n", "v"]


@pytest.mark.parametrize(
    "name",
    [
        "boolean",
        "int64",
        "uint64",
        "float64",
        "decimal128",
        "date",
        "time",
        "timestamp",
        "instant",
        "string",
        "binary",
    ],
)
def test_bound_values_come_back(con, name):
    with con.cursor() as cursor:
        for value in CASES[name]:
            batch = pa.record_batch({"v": pa.array([value.as_py()], CASES[name].type)})
            cursor.execute("select ? as v", batch)
            assert cursor.fetch_arrow_table()["v"].to_pylist() == [value.as_py()]


def test_sql_types_have_arrow_types(run, con):
    run("create table u (u uuid, j json, d decimal(5,1), z timestamp with time zone)")
    run(
        "insert into u values ('00112233-4455-6677-8899-aabbccddeeff', '{\"a\": 1}', 1.5, "
        "'2024-01-01T00:00:00Z')"
    )
    with con.cursor() as cursor:
        cursor.execute("select * from u")
        row = cursor.fetch_arrow_table().to_pylist()[0]
    assert uuid.UUID(str(row["u"])) if isinstance(row["u"], uuid.UUID) else len(row["u"]) == 16
    assert row["j"] == '{"a": 1}'
    assert row["d"] == decimal.Decimal("1.5")
    assert row["z"] == datetime.datetime(2024, 1, 1, tzinfo=UTC)


def test_dictionaries_stay_dictionaries(run, con):
    """A column with few distinct strings is a dictionary, and is handed out as one."""
    column = pa.array(["red", "green", None] * 5000)
    with con.cursor() as cursor:
        cursor.adbc_ingest("t", pa.table({"c": column}))
        cursor.execute("select c from t")
        found = cursor.fetch_arrow_table()["c"]
        assert pa.types.is_dictionary(found.type)
        assert found.to_pylist() == column.to_pylist()
        encoded = pa.table({"c": column.dictionary_encode()})
        cursor.adbc_ingest("t", encoded, mode="append")
    assert run("select c, count(*) from t group by c order by c nulls last") == [
        ("green", 10_000),
        ("red", 10_000),
        (None, 10_000),
    ]
