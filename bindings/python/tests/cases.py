"""One column of every type: the data to append, and what each library must give back.

`rows` are the exact Python values without NULL; the tests add NULLs between them.
"""

import datetime as dt
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

UTC = dt.UTC


@dataclass(frozen=True)
class Case:
    """A type: its SQL name, the Arrow type of its data, its values, and its NumPy dtype.

    `numpy` is `None` if NumPy gets objects; `pandas` is the dtype of an exact frame without NULLs.
    """

    sql: str
    arrow: Any
    rows: list[Any]
    numpy: str | None
    pandas: str
    null: str

    def frame_dtype(self, nulls: bool) -> str:
        """Return the dtype of an ordinary frame's column; strings may be categories."""
        if self.sql.startswith("DECIMAL"):
            return "float64"
        if self.sql == "DATE":
            return "datetime64[us]"
        if self.null == "masked" and nulls:
            return "boolean" if self.sql == "BOOLEAN" else self.pandas_nullable
        if self.numpy is None or self.sql == "TIME":
            return "object"
        return "bool" if self.sql == "BOOLEAN" else self.pandas

    @property
    def pandas_nullable(self) -> str:
        """Return `Int64` for int64, `UInt8` for uint8, …"""
        return self.pandas.replace("u", "U").replace("i", "I")

    def array(self, nulls: bool) -> Any:
        """Return the values as an Arrow array, with a NULL behind the first if requested."""
        return pa.array(self.with_nulls(nulls), self.arrow)

    def with_nulls(self, nulls: bool) -> list[Any]:
        """Return the values, with a None behind the first if requested."""
        return [self.rows[0], None, *self.rows[1:]] if nulls else list(self.rows)


def _integer(sql: str, arrow: Any, numpy: str, low: int, high: int) -> Case:
    return Case(sql, arrow, [low, high, 7], numpy, str(arrow), "masked")


CASES = [
    Case("BOOLEAN", pa.bool_(), [True, False, True], "bool", "bool[pyarrow]", "masked"),
    _integer("TINYINT", pa.int8(), "int8", -127, 127),
    _integer("SMALLINT", pa.int16(), "int16", -32767, 32767),
    _integer("INTEGER", pa.int32(), "int32", -(2**31) + 1, 2**31 - 1),
    _integer("BIGINT", pa.int64(), "int64", -(2**63) + 1, 2**63 - 1),
    _integer("UTINYINT", pa.uint8(), "uint8", 0, 255),
    _integer("USMALLINT", pa.uint16(), "uint16", 0, 65535),
    _integer("UINTEGER", pa.uint32(), "uint32", 0, 2**32 - 1),
    _integer("UBIGINT", pa.uint64(), "uint64", 0, 2**64 - 1),
    Case("FLOAT", pa.float32(), [1.5, -0.25, 3.0], "float32", "float32", "nan"),
    Case("DOUBLE", pa.float64(), [1.1, -1e300, 0.1], "float64", "float64", "nan"),
    Case(
        "DECIMAL(9,2)",
        pa.decimal128(9, 2),
        [Decimal("1234567.89"), Decimal("-0.01"), Decimal("0.00")],
        "float64",
        "decimal128(9, 2)[pyarrow]",
        "nan",
    ),
    Case(
        "DECIMAL(15,2)",
        pa.decimal128(15, 2),
        [Decimal("1234567890123.45"), Decimal("-0.01"), Decimal("9.99")],
        "float64",
        "decimal128(15, 2)[pyarrow]",
        "nan",
    ),
    Case(
        "DECIMAL(38,10)",
        pa.decimal128(38, 10),
        [Decimal("1234567890123456789012345678.0123456789"), Decimal("-1.5000000000"), Decimal("0E-10")],
        "float64",
        "decimal128(38, 10)[pyarrow]",
        "nan",
    ),
    Case(
        "DECIMAL(60,3)",
        pa.decimal256(60, 3),
        [Decimal("1" * 57 + ".125"), Decimal("-2.500"), Decimal("0.001")],
        "float64",
        "decimal256(60, 3)[pyarrow]",
        "nan",
    ),
    Case(
        "DATE",
        pa.date32(),
        [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29)],
        "datetime64[D]",
        "date32[day][pyarrow]",
        "nat",
    ),
    Case(
        "TIME",
        pa.time64("us"),
        [dt.time(0, 0), dt.time(23, 59, 59, 999999), dt.time(12, 30, 1, 5)],
        "timedelta64[us]",
        "time64[us][pyarrow]",
        "nat",
    ),
    Case(
        "TIMESTAMP_S",
        pa.timestamp("s"),
        [dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(2024, 2, 29, 12), dt.datetime(1970, 1, 1)],
        "datetime64[s]",
        "datetime64[s]",
        "nat",
    ),
    Case(
        "TIMESTAMP",
        pa.timestamp("us"),
        [
            dt.datetime(1, 1, 1),
            dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
            dt.datetime(1969, 7, 20, 20, 17),
        ],
        "datetime64[us]",
        "datetime64[us]",
        "nat",
    ),
    Case(
        "TIMESTAMP_NS",
        pa.timestamp("ns"),
        [dt.datetime(1999, 1, 1, 0, 0, 0, 1), dt.datetime(2024, 2, 29), dt.datetime(1950, 1, 1)],
        "datetime64[ns]",
        "datetime64[ns]",
        "nat",
    ),
    Case(
        "TIMESTAMP WITH TIME ZONE",
        pa.timestamp("us", "UTC"),
        [dt.datetime(2024, 7, 1, 12, tzinfo=UTC), dt.datetime(1960, 1, 1, tzinfo=UTC)],
        "datetime64[us]",
        "datetime64[us, UTC]",
        "nat",
    ),
    Case(
        "DURATION",
        pa.duration("us"),
        [dt.timedelta(days=3, microseconds=1), dt.timedelta(seconds=-1), dt.timedelta(0)],
        "timedelta64[us]",
        "timedelta64[us]",
        "nat",
    ),
    Case("VARCHAR", pa.large_string(), ["Zürich", "", "日本語 🏛"], "str", "str", "text"),
    Case("BLOB", pa.large_binary(), [b"\x00\xff", b"", b"abc"], None, "large_binary[pyarrow]", "none"),
    Case(
        "UUID",
        pa.uuid(),
        [uuid.UUID(int=1), uuid.UUID("12345678-1234-5678-1234-567812345678")],
        None,
        "extension<arrow.uuid>[pyarrow]",
        "none",
    ),
    Case(
        "INTEGER[]",
        pa.large_list(pa.int32()),
        [[1, None, 3], [], [4]],
        None,
        "large_list<item: int32>[pyarrow]",
        "none",
    ),
    Case(
        "STRUCT(a INTEGER, b VARCHAR)",
        pa.struct([("a", pa.int32()), ("b", pa.large_string())]),
        [{"a": 1, "b": "x"}, {"a": None, "b": "y"}],
        None,
        "struct<a: int32, b: large_string>[pyarrow]",
        "none",
    ),
]

IDS = [case.sql for case in CASES]
