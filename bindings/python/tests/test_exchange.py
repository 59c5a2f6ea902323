"""COPY TO Parquet and Arrow, read by other programs: every type, with NULL and with extreme values."""

import datetime as dt
import math
import re
import uuid
from decimal import Decimal

import duckdb
import hypostyle
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

UTC = dt.UTC
UUIDS = ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"]

# The name of a type, and values as SQL writes them and as Python has them.
TYPES = {
    "BOOLEAN": {"true": True, "false": False},
    "TINYINT": {"-128": -128, "127": 127},
    "SMALLINT": {"-32768": -32768, "32767": 32767},
    "INTEGER": {"-2147483648": -(2**31), "2147483647": 2**31 - 1},
    "BIGINT": {"-9223372036854775808": -(2**63), "9223372036854775807": 2**63 - 1},
    "UTINYINT": {"255": 255},
    "UBIGINT": {"18446744073709551615": 2**64 - 1},
    "REAL": {"1.5": 1.5, "'-inf'": -math.inf, "'nan'": math.nan},
    "DOUBLE": {"0.1": 0.1, "'inf'": math.inf, "'nan'": math.nan, "1e308": 1e308},
    "DECIMAL(4,1)": {"-999.9": Decimal("-999.9")},
    "DECIMAL(18,3)": {"999999999999999.999": Decimal("999999999999999.999")},
    "DECIMAL(38,10)": {
        "-1234567890123456789012345678.0123456789": Decimal("-1234567890123456789012345678.0123456789")
    },
    "VARCHAR": {"''": "", "'it''s'": "it's", "'日本 🦆'": "日本 🦆"},
    "BLOB": {"'\\x00ff'": b"\x00\xff", "''": b""},
    "DATE": {"'0001-01-01'": dt.date(1, 1, 1), "'9999-12-31'": dt.date(9999, 12, 31)},
    "TIME": {"'00:00:00'": dt.time(0), "'23:59:59.999999'": dt.time(23, 59, 59, 999999)},
    "TIMESTAMP": {"'1969-12-31 23:59:59.999999'": dt.datetime(1969, 12, 31, 23, 59, 59, 999999)},
    "TIMESTAMP_S": {"'2024-01-01 00:00:00'": dt.datetime(2024, 1, 1)},
    "TIMESTAMP_MS": {"'2024-01-01 00:00:00.125'": dt.datetime(2024, 1, 1, 0, 0, 0, 125000)},
    "TIMESTAMPTZ": {"'2024-02-29 10:00:00+02'": dt.datetime(2024, 2, 29, 8, tzinfo=UTC)},
    "UUID": {f"'{value}'": uuid.UUID(value) for value in UUIDS},
    "INTEGER[]": {"[1, NULL, 3]": [1, None, 3], "[]": []},
    "VARCHAR[]": {"['', 'x']": ["", "x"]},
    "STRUCT(a INTEGER, b VARCHAR)": {"{'a': 1, 'b': NULL}": {"a": 1, "b": None}},
}
FORMATS = ["parquet", "arrow"]


# Expressions and queries of UUIDs within other values, and their values; U stands for the first UUID and
# V for the second one.
NESTED_UUIDS = {
    "list": ("[U, NULL, V]", ["U", None, "V"]),
    "empty list": ("array_pop_back([U])", []),
    "list of lists": ("[[U], NULL, [V, V]]", [["U"], None, ["V", "V"]]),
    "structure": ("{'u': U, 'n': 1, 't': 'text'}", {"u": "U", "n": 1, "t": "text"}),
    "list of structures": ("[{'u': U}, NULL]", [{"u": "U"}, None]),
    "structure of lists": ("{'l': [U, V], 'i': 2}", {"l": ["U", "V"], "i": 2}),
    "map": ("map {'a': U, 'b': V}", {"a": "U", "b": "V"}),
    "map of lists": ("map {'a': [U]}", {"a": ["U"]}),
    "second": ("{'u': U, 's': '2024-01-01'::timestamp_s}", {"u": "U", "s": dt.datetime(2024, 1, 1)}),
    "aggregate": ("select array_agg(u order by u) as v from (values (V), (U)) as s (u)", ["U", "V"]),
    "stored": ("select l as v from stored", ["U", None]),
}


def by_pyarrow(path):
    table = pq.read_table(path) if path.suffix == ".parquet" else feather.read_table(path)
    return table["v"].to_pylist()


def by_polars(path):
    frame = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_ipc(path)
    return frame["v"].to_list()


def by_duckdb(path):
    with duckdb.connect() as con:
        con.execute("set timezone = 'UTC'")
        if path.suffix == ".parquet":
            return [row[0] for row in con.execute(f"select v from '{path}'").fetchall()]
        rows = feather.read_table(path)  # noqa: F841, which the query names
        return [row[0] for row in con.execute("select v from rows").fetchall()]


def by_hypostyle(path):
    with hypostyle.connect() as con:
        return [row[0] for row in con.sql(f"select v from '{path}'").fetchall()]


READERS = {"pyarrow": by_pyarrow, "polars": by_polars, "duckdb": by_duckdb, "hypostyle": by_hypostyle}


def plain(value):
    """Return a value in a form in which those of all readers are equal."""
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return value


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("of", TYPES)
def test_every_type_is_read_by_others(tmp_path, of, form, reader):
    values = TYPES[of]
    path = tmp_path / f"t.{form}"
    with hypostyle.connect() as con:
        con.execute(f"create table t (n integer, v {of})")
        for number, text in enumerate(["NULL", *values]):
            con.execute(f"insert into t values ({number}, cast({text} as {of}))")
        con.execute(f"copy t to '{path}'")
    if of == "TIMESTAMPTZ" and reader == "duckdb":
        pytest.importorskip("pytz", reason="DuckDB makes its points in time with pytz")
    expected = [None, *values.values()]
    found = READERS[reader](path)
    if of == "UUID" and reader == "polars":
        found = [value and uuid.UUID(bytes=value) if isinstance(value, bytes) else value for value in found]
        found = [uuid.UUID(value) if isinstance(value, str) else value for value in found]
    assert [plain(value) for value in found] == [plain(value) for value in expected]


def with_uuids(value):
    """Return an expected value with UUIDs in the place of their letters."""
    if isinstance(value, list):
        return [with_uuids(part) for part in value]
    if isinstance(value, dict):
        return {name: with_uuids(part) for name, part in value.items()}
    return uuid.UUID(UUIDS["UV".index(value)]) if value in ("U", "V") else value


def alike(value, expected):
    """Return what a reader has made of a value in the form of the expected one: UUIDs may be their bytes
    or texts, and maps may be lists of pairs."""
    if value is None or expected is None:
        return value
    if isinstance(expected, list) and len(value) == len(expected):
        return [alike(*pair) for pair in zip(value, expected, strict=True)]
    if isinstance(expected, dict) and len(value) == len(expected):
        value = dict(value)
        return {name: alike(part, expected[name]) for name, part in value.items() if name in expected}
    if isinstance(expected, uuid.UUID) and isinstance(value, bytes):
        return uuid.UUID(bytes=value)
    return uuid.UUID(value) if isinstance(expected, uuid.UUID) and isinstance(value, str) else value


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("of", NESTED_UUIDS)
def test_uuids_within_others_are_read_by_others(tmp_path, of, form, reader):
    sql, expected = NESTED_UUIDS[of]
    for letter, text in zip("UV", UUIDS, strict=True):
        sql = re.sub(rf"\b{letter}\b", f"'{text}'::uuid", sql)
    query, expected = sql, [with_uuids(expected)]
    if not sql.startswith("select"):
        query = f"select case when n = 1 then {sql} end as v from generate_series(1, 2) as s (n)"
        expected.append(None)
    path = tmp_path / f"t.{form}"
    with hypostyle.connect() as con:
        con.execute("create table stored (l uuid[])")
        con.execute(f"insert into stored values (['{UUIDS[0]}', NULL])")
        con.execute(f"copy ({query}) to '{path}'")
        copied = con.sql(f"describe select v from '{path}'").fetchall()
        assert "UUID" in copied[0][1]
    found = READERS[reader](path)
    assert [alike(*pair) for pair in zip(found, expected, strict=True)] == expected


def test_uuids_within_others_are_named_in_parquet(tmp_path):
    ours, theirs = tmp_path / "ours.parquet", tmp_path / "theirs.parquet"
    one = f"'{UUIDS[1]}'::uuid"
    columns = f"{one} as u, [{one}] as l, {{'u': {one}, 'b': [{one}]}} as s, 'text' as t"
    types = ["UUID", "UUID[]", "STRUCT(u UUID, b UUID[])", "VARCHAR"]
    with duckdb.connect() as con, hypostyle.connect() as own:
        own.execute(f"copy (select {columns}) to '{ours}'")
        con.execute(f"copy (select {columns}) to '{theirs}'")
        for path in [ours, theirs]:
            assert [row[1] for row in con.execute(f"describe select * from '{path}'").fetchall()] == types
            assert [row[1] for row in own.sql(f"describe select * from '{path}'").fetchall()] == types
            assert own.sql(f"select * from '{path}'").fetchall() == con.sql(f"from '{path}'").fetchall()


def test_types_that_parquet_lacks_are_told(tmp_path):
    path = tmp_path / "t.parquet"
    with hypostyle.connect() as con:
        con.execute(
            f"copy (select cast('2024-01-01 00:00:00' as timestamp_s) as s, cast('{UUIDS[1]}' as uuid) as u, "
            f"interval '1 day' as i) to '{path}'"
        )
        rows = con.sql(f"select s, u, i from '{path}'").fetchall()
    assert rows[0][:2] == (dt.datetime(2024, 1, 1), uuid.UUID(UUIDS[1]))
    schema = pq.read_schema(path)
    assert schema.field("s").type == pa.timestamp("ms")
    assert pq.ParquetFile(path).schema.column(1).logical_type.type == "UUID"
    with duckdb.connect() as con:
        types = con.execute(f"describe select * from '{path}'").fetchall()
    assert [row[1] for row in types] == ["TIMESTAMP", "UUID", "VARCHAR"]


def test_errors_with_a_nul_reach_the_reader_of_a_stream():
    """The text of an error is C's there, which ends at a NUL."""
    with hypostyle.connect() as con:
        con.execute(
            "create table t as select case when i = 15000 then 'a' || chr(0) || 'b' else i::text end as c "
            "from generate_series(1, 20000) as g (i)"
        )
        result = con.sql("select cast(c as integer) from t")
        with pytest.raises((pa.ArrowInvalid, hypostyle.Error)):
            pa.RecordBatchReader.from_stream(result).read_all()
        assert con.sql("select count(*) from t").fetchall() == [(20000,)]
