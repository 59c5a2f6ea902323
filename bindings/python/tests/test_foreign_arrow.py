"""Arrow arrays of other producers: slices of every kind, and damaged ones, by every door."""

import ctypes
import datetime as dt
import struct
from decimal import Decimal

import hypostyle
import pandas as pd
import pyarrow as pa
import pytest


def buffer(layout, *values):
    return pa.py_buffer(struct.pack(f"<{layout}", *values))


def texts(*offsets, data=b"hello", kind=None):
    layout = "i" * len(offsets)
    return pa.Array.from_buffers(
        kind or pa.string(), len(offsets) - 1, [None, buffer(layout, *offsets), pa.py_buffer(data)]
    )


def view(length, prefix, number, offset):
    return struct.pack("<i4sii", length, prefix, number, offset)


def views(*views, data=b"some text that is long enough"):
    return pa.Array.from_buffers(
        pa.string_view(), len(views), [None, pa.py_buffer(b"".join(views)), pa.py_buffer(data)]
    )


def lists(*offsets, values=(1, 2, 3)):
    layout = "i" * len(offsets)
    return pa.Array.from_buffers(
        pa.list_(pa.int32()),
        len(offsets) - 1,
        [None, buffer(layout, *offsets)],
        children=[pa.array(values, pa.int32())],
    )


SOUND_VIEW = view(29, b"some", 0, 0)
#: Arrays that pyarrow makes without a look at what is in them.
DAMAGED = {
    "offsets beyond the text": texts(0, 1_000_000_000, 5),
    "offsets that go back": texts(0, 4, 2, 5),
    "negative offsets": texts(0, -4, 5),
    "offsets of a binary value": texts(0, 1_000_000_000, 5, kind=pa.binary()),
    "text that is not UTF-8": texts(0, 2, 5, data=b"he\xff\xfeo"),
    "half a character": texts(0, 1, 2, data="é".encode()),
    "a view beyond its buffer": views(SOUND_VIEW, view(29, b"some", 0, 1_000_000_000)),
    "a view of a buffer that is not there": views(view(29, b"some", 77, 0)),
    "a view of a negative length": views(view(-5, b"some", 0, 0)),
    "a view with another beginning": views(view(29, b"else", 0, 0)),
    "a view that is not UTF-8": views(view(4, b"a\xff\xfeb", 0, 0)),
    "codes beyond the dictionary": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 99], pa.int32()), pa.array(["a", "b"]), safe=False
    ),
    "negative codes": pa.DictionaryArray.from_arrays(
        pa.array([0, -7], pa.int32()), pa.array(["a", "b"]), safe=False
    ),
    "a dictionary of damaged text": pa.DictionaryArray.from_arrays(
        pa.array([0, 1], pa.int32()), texts(0, 2, 5, data=b"he\xff\xfeo"), safe=False
    ),
    "a decimal of too many digits": pa.Array.from_buffers(
        pa.decimal128(5, 2), 2, [None, buffer("qqqq", 100, 0, 123_456_789, 0)]
    ),
    "a time before midnight": pa.Array.from_buffers(pa.time64("us"), 2, [None, buffer("qq", 5, -1)]),
    "a time of another day": pa.Array.from_buffers(pa.time32("s"), 2, [None, buffer("ii", 5, 86_401)]),
    "a point in time beyond all microseconds": pa.array([0, 2**62], pa.timestamp("s", tz="UTC")),
    "offsets beyond the elements": lists(0, 1_000_000_000, 3),
    "offsets of lists that go back": lists(0, 3, 1, 3),
    "damaged text in lists": pa.ListArray.from_arrays([0, 1, 2], texts(0, 2, 5, data=b"he\xff\xfeo")),
    "damaged text in structs": pa.StructArray.from_arrays([texts(0, 1_000_000_000, 5)], ["s"]),
}


class Stream:
    """Rows of an unknown producer."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def scan(con, data):
    return con.sql("select * from data").fetchall()


def compute(con, data):
    return con.sql("select upper(c::text), c::text like '%x%', length(c::text) from data").fetchall()


def create(con, data):
    con.execute("create table made as select * from data")


def read(con, data):
    return con.sql("select * from data").arrow()


def register(con, data):
    con.register("registered", data)
    return con.sql("select count(*), max(c::text) from registered").fetchall()


def append(con, data):
    con.append("appended", data, create=True)


def append_twice(con, data):
    append(con, pa.table({"c": data["c"].slice(0, 0)}))
    append(con, data)


def append_reader(con, data):
    con.append("appended", data.to_reader(), create=True)


DOORS = {
    "scan": scan,
    "compute": compute,
    "create": create,
    "read": read,
    "register": register,
    "append": append,
    "append to a table": append_twice,
    "append a reader": append_reader,
    "scan a reader": lambda con, data: scan(con, data.to_reader()),
    "scan batches": lambda con, data: scan(con, data.to_batches()[0]),
    "scan a stream": lambda con, data: scan(con, Stream(data)),
    "append a stream": lambda con, data: append(con, Stream(data)),
    "scan a dict": lambda con, data: scan(con, {"c": data["c"]}),
    "append a dict": lambda con, data: append(con, {"c": data["c"].chunk(0)}),
    "scan a pandas frame": lambda con, data: scan(
        con, pd.DataFrame({"c": pd.Series(pd.arrays.ArrowExtensionArray(data["c"]))})
    ),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_arrays_are_refused_by_every_door(damage):
    data = pa.table({"c": DAMAGED[damage]})
    with hypostyle.connect() as con:
        for door, use in DOORS.items():
            with pytest.raises(hypostyle.DataError) as error:
                use(con, data)
            assert error.value.sqlstate.startswith("22"), door
            con.execute("drop table if exists appended")
        assert con.sql("select 1").fetchall() == [(1,)]


class ArrowArray(ctypes.Structure):
    """The struct of Arrow's C data interface."""


ArrowArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowArray))),
    ("dictionary", ctypes.POINTER(ArrowArray)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]

pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype = ctypes.c_void_p
pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Lying:
    """Rows whose struct, or that of one of their columns, says something else."""

    def __init__(self, rows, column, member, value):
        self.rows, self.column, self.member, self.value = rows, column, member, value

    def __arrow_c_array__(self, requested_schema=None):
        schema, array = self.rows.__arrow_c_array__(requested_schema)
        told = ArrowArray.from_address(pointer_of(array, b"arrow_array"))
        if self.column is not None:
            told = told.children[self.column].contents
        setattr(told, self.member, self.value)
        return schema, array


def test_numbers_that_lie_are_refused():
    rows = pa.StructArray.from_arrays(
        [
            pa.array(["x", "y", "z"]),
            pa.array([1, 2, 3]),
            pa.array([[1], [2], [3]]),
            pa.array(["a", "b", "c"], pa.string_view()),
            pa.array([True, False, True]),
        ],
        ["s", "i", "l", "v", "b"],
    )
    numbers = [-1, -(2**62), 2**61, 2**63 - 1]
    with hypostyle.connect() as con:
        for column in (None, *range(5)):
            for member in ("length", "offset", "n_buffers"):
                for number in numbers:
                    data = Lying(rows, column, member, number)
                    with pytest.raises(hypostyle.DataError, match="damaged Arrow data"):
                        con.sql("select * from data").fetchall()
                    with pytest.raises(hypostyle.DataError, match="damaged Arrow data"):
                        con.append("appended", data, create=True)
            data = Lying(rows, column, "null_count", 2)
            with pytest.raises(hypostyle.DataError, match="NULLs"):
                con.sql("select * from data").fetchall()
        sound = Lying(rows, 1, "null_count", 0)  # noqa: F841 - read by its name
        assert con.sql("select count(*) from sound").fetchall() == [(3,)]


class Array:
    """Rows of an unknown producer, in one piece."""

    def __init__(self, rows):
        self.rows = rows

    def __arrow_c_array__(self, requested_schema=None):
        return self.rows.__arrow_c_array__(requested_schema)


def test_rows_that_are_null_as_a_whole_are_refused():
    mask = pa.array([False, True, False])
    rows = pa.StructArray.from_arrays([pa.array([1, 2, 3])], ["a"], mask=mask)
    with hypostyle.connect() as con:
        for data in (Array(rows), Stream(pa.chunked_array([rows]))):
            with pytest.raises(hypostyle.DataError, match="NULL as a whole"):
                con.sql("select * from data").fetchall()
            with pytest.raises(hypostyle.DataError, match="NULL as a whole"):
                con.append("t", data, create=True)


def test_types_of_very_many_levels_are_refused():
    kind = pa.int32()
    for _ in range(300):
        kind = pa.list_(kind)
    data = pa.table({"c": pa.array([None], kind)})  # noqa: F841 - read by its name
    with hypostyle.connect() as con, pytest.raises(hypostyle.DataError, match="levels"):
        con.sql("select count(*) from data").fetchall()


def test_buffers_that_are_too_short_are_refused():
    sound = pa.table({"c": [f"text {number}" for number in range(10)]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, sound.schema) as writer:
        writer.write_table(sound)
    end = struct.pack("<ii", 54, 60)
    written = sink.getvalue().to_pybytes()
    assert written.count(end) == 1
    damaged = written.replace(end, struct.pack("<ii", 54, 1_000_000_000))
    data = pa.ipc.open_stream(damaged).read_all()
    with hypostyle.connect() as con:
        for use in DOORS.values():
            with pytest.raises(hypostyle.DataError):
                use(con, data)
            con.execute("drop table if exists appended")
        reader = pa.ipc.open_stream(damaged)
        with pytest.raises(hypostyle.DataError, match="damaged"):
            con.append("appended", reader, create=True)


def test_text_that_nobody_sees_may_be_anything():
    """What lies under NULL, and behind the rows of a slice, is no value."""
    validity = pa.py_buffer(b"\x05")
    data = pa.Array.from_buffers(
        pa.string(), 3, [validity, buffer("iiii", 0, 1, 3, 4), pa.py_buffer(b"a\xff\xfeb")]
    )
    behind = texts(0, 1, 3, data=b"a\xff\xfe").slice(0, 1)
    with hypostyle.connect() as con:
        for array in (data, behind):
            rows = pa.table({"c": array})
            expected = [(value,) for value in array.to_pylist()]
            assert con.sql("select c from rows").fetchall() == expected
            con.append("t", rows, create=True)
            assert con.sql("select c from t").fetchall() == expected
            con.execute("drop table t")


ROWS = 61
NUMBERS = list(range(ROWS))


def typed(values, kind):
    """Return an array with a NULL in each fifth row."""
    return pa.array([None if row % 5 == 2 else value for row, value in enumerate(values)], kind)


TYPES = {
    "bool": typed([row % 3 == 0 for row in NUMBERS], pa.bool_()),
    "int8": typed(NUMBERS, pa.int8()),
    "int64": typed(NUMBERS, pa.int64()),
    "uint16": typed(NUMBERS, pa.uint16()),
    "double": typed([row / 4 for row in NUMBERS], pa.float64()),
    "string": typed([f"text {row}" for row in NUMBERS], pa.string()),
    "large string": typed([f"text {row}" for row in NUMBERS], pa.large_string()),
    "string view": typed([f"a text of more than 12 bytes {row}" for row in NUMBERS], pa.string_view()),
    "binary": typed([b"\xff" * row for row in NUMBERS], pa.binary()),
    "binary of 3": typed([bytes([row, 0, 1]) for row in NUMBERS], pa.binary(3)),
    "date": typed([dt.date(2024, 1, 1) + dt.timedelta(row) for row in NUMBERS], pa.date32()),
    "time": typed([dt.time(row % 24, row) if row < 60 else dt.time() for row in NUMBERS], pa.time64("us")),
    "timestamp": typed([dt.datetime(2024, 1, 1, row % 24) for row in NUMBERS], pa.timestamp("us")),
    "duration": typed([dt.timedelta(row) for row in NUMBERS], pa.duration("us")),
    "decimal": typed([Decimal(row) / 4 for row in NUMBERS], pa.decimal128(20, 2)),
    "dictionary": typed([f"word {row % 4}" for row in NUMBERS], pa.string()).dictionary_encode(),
    "null": pa.nulls(ROWS),
}


def in_lists(array, kind=pa.ListArray):
    """Return lists of three values each, but for the last one."""
    offsets = [*range(0, len(array), 3), len(array)]
    return kind.from_arrays(offsets, array)


def in_vectors(array):
    return pa.FixedSizeListArray.from_arrays(array.slice(0, len(array) // 2 * 2), 2)


def in_struct(array):
    """Return structs of the values and of something else, some of them NULL."""
    beside = pa.array(range(len(array)), pa.int32())
    mask = pa.array([row % 7 == 3 for row in range(len(array))])
    return pa.StructArray.from_arrays([array, beside], ["a", "b"], mask=mask)


def in_map(array):
    keys = pa.array([f"key {row}" for row in range(len(array))])
    return pa.MapArray.from_arrays([*range(0, len(array), 2), len(array)], keys, array)


SHAPES = {
    "itself": [],
    "struct": [in_struct],
    "struct in struct": [in_struct, in_struct],
    "struct in struct in struct": [in_struct, in_struct, in_struct],
    "list": [in_lists],
    "list of struct": [in_struct, in_lists],
    "struct of list": [in_lists, in_struct],
    "vector of struct": [in_struct, in_vectors],
    "struct of vector of struct": [in_struct, in_vectors, in_struct],
    "list of list of struct": [in_struct, in_lists, in_lists],
    "map": [in_map],
    "struct of map of struct": [in_struct, in_map, in_struct],
}


@pytest.mark.parametrize("slices", [(0, 0), (1, 0), (3, 1), (13, 5), (8, 2)])
@pytest.mark.parametrize("shape", SHAPES)
def test_slices_at_every_level(shape, slices):
    first, later = slices
    with hypostyle.connect() as con:
        for name, array in TYPES.items():
            nested = array.slice(first)
            for wrap in SHAPES[shape]:
                nested = wrap(nested).slice(later)
            nested = nested.slice(min(1, later), max(len(nested) - 2, 1))
            data = pa.table({"c": nested})
            expected = nested.to_pylist()
            assert con.sql("select c from data").arrow()["c"].to_pylist() == expected, name
            assert con.append("t", data, create=True) == len(expected), name
            assert con.sql("select c from t").arrow()["c"].to_pylist() == expected, name
            # Again, behind rows that are there.
            con.append("t", data.slice(1))
            assert con.sql("select c from t").arrow()["c"].to_pylist() == expected + expected[1:], name
            con.execute("drop table t")


def test_values_of_types_that_only_files_have():
    data = pa.table(
        {
            "s": pa.array([1, None], pa.time32("s")),
            "ms": pa.array([1_001, None], pa.time32("ms")),
            "half": pa.array([1.5, None], pa.float16()),
            "day": pa.array([86_400_000, None], pa.date64()),
        }
    )
    one = (dt.time(0, 0, 1), dt.time(0, 0, 1, 1_000), 1.5, dt.date(1970, 1, 2))
    with hypostyle.connect() as con:
        assert con.sql("select * from data").fetchall() == [one, (None,) * 4]
        con.append("t", data, create=True)
        assert con.sql("select * from t").fetchall() == [one, (None,) * 4]
