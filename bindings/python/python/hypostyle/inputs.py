"""Converts users' data to Arrow streams.

Types are found by reading every value, never a sample.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hypostyle import _native, errors, interval
from hypostyle.optional import require

# The columns of a table.
_COLUMNS_MAX = 16_384
# Rows times columns that rows of any keys may have, and those for each value that is given: all others
# would be NULL.
_PLACES_MAX = 1 << 25
_PLACES_PER_VALUE_MAX = 16


def to_arrow(data: Any) -> tuple[Any, bool]:
    """Return an object with the Arrow PyCapsule interface, and whether its columns have real names.

    Raises:
        DataError: the data is not a table, or a value fits no SQL type.
    """
    if _is_reader(data):
        return Batches(data), True
    if is_table(data) or isinstance(data, Mapping):
        return to_table(data), True
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes, bytearray)):
        return _from_rows(list(data))
    raise errors.DataError(
        f"cannot append a {type(data).__name__}; pass a dict of arrays, a pandas or Polars frame, "
        "an Arrow table or stream, or a list of rows"
    )


class Batches:
    """The batches of a pyarrow reader as they come, because they may not all fit into memory."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        # The reader's exception, of which only the message would get through C.
        self.raised: BaseException | None = None

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        reader = type(self._reader).from_batches(self._reader.schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[Any]:
        try:
            for batch in self._reader:
                _check_lengths(batch)
                yield batch
        except GeneratorExit:
            raise
        except BaseException as error:
            self.raised = error
            raise


def _check_lengths(batch: Any) -> None:
    """Check that a pyarrow batch's buffers are long enough: their lengths do not come through C."""
    try:
        batch.validate()
    except ValueError as error:
        raise errors.DataError(f"damaged Arrow data: {error}") from error


def _is_reader(data: Any) -> bool:
    return _is_a(data, "pyarrow", "RecordBatchReader")


def is_table(data: Any) -> bool:
    """Say whether `to_table` takes the data: a frame, an Arrow table or stream, or a dict of
    arrays.
    """
    if isinstance(data, dict):
        return bool(data) and all(isinstance(key, str) and _is_array(data[key]) for key in list(data))
    kind = type(data)
    if _is_a(data, "pandas", "DataFrame") or _is_a(data, "polars", "LazyFrame"):
        return True
    if _is_a(data, "numpy", "ndarray"):
        return data.dtype.names is not None
    speaks_arrow = hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__arrow_c_array__")
    # A Series has a dtype, and a pyarrow array has a type: they are columns, not tables.
    return speaks_arrow and not hasattr(kind, "dtype") and not hasattr(kind, "type")


def to_table(data: Any) -> Any:
    """Return an object with the Arrow PyCapsule interface for data that `is_table` accepts."""
    if isinstance(data, Mapping):
        return _native.Table([_column(str(name), values) for name, values in data.items()])
    if _is_a(data, "pandas", "DataFrame"):
        return _native.Table([_from_series(str(name), column) for name, column in data.items()])
    if _is_a(data, "polars", "LazyFrame"):
        return to_table(data.collect())
    if _is_a(data, "numpy", "ndarray"):
        return _native.Table([_from_numpy(name, data[name]) for name in data.dtype.names])
    if _is_reader(data):
        # A reader can be read once, but a query may name it twice.
        return data.read_all()
    if _is_a(data, "polars", "DataFrame"):
        for name, dtype in data.schema.items():
            _refuse_objects(name, dtype)
    return data


def _refuse_objects(name: str, dtype: Any) -> None:
    """Refuse Python objects: Polars gives Arrow their addresses, as if they were bytes."""
    if type(dtype).__name__ == "Object" or getattr(dtype, "__name__", None) == "Object":
        raise errors.DataError(
            f'column "{name}" has the Polars dtype Object, which no SQL type holds; '
            "pass its values as a list, or cast it to another dtype"
        )


def _is_a(value: Any, package: str, name: str) -> bool:
    """Say whether a class has a base of this name and package, without importing the package."""
    return any(
        base.__name__ == name and base.__module__.partition(".")[0] == package for base in type(value).__mro__
    )


def _is_array(value: Any) -> bool:
    kind = type(value)
    return isinstance(value, (list, tuple)) or any(
        hasattr(kind, name) for name in ("__array__", "__arrow_c_array__", "__arrow_c_stream__")
    )


def _column(name: str, values: Any) -> _native.Column:
    """Return a column of any object that holds one."""
    if _is_a(values, "pandas", "Series"):
        return _from_series(name, values)
    if _is_a(values, "numpy", "ndarray"):
        return _from_numpy(name, values)
    if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
        if _is_a(values, "polars", "Series"):
            _refuse_objects(name, values.dtype)
        return _native.column_from_arrow(name, values)
    if hasattr(values, "__array__"):
        return _from_numpy(name, require("numpy", "an array").asarray(values))
    if isinstance(values, Iterable) and not isinstance(values, (str, bytes, bytearray, Mapping)):
        return _native.column_from_objects(name, list(values), False)
    raise errors.DataError(f'column "{name}" is a {type(values).__name__}, not an array or a list of values')


def _from_rows(rows: list[Any]) -> tuple[Any, bool]:
    if not rows:
        raise errors.DataError("there are no rows, so no columns to append")
    if all(isinstance(row, Mapping) for row in rows):
        names = list(dict.fromkeys(itertools.chain.from_iterable(rows)))
        _check_keys(rows, names)
        columns = [[row.get(name) for row in rows] for name in names]
        return _table_of_objects([str(name) for name in names], columns), True
    width = None
    for number, row in enumerate(rows):
        if isinstance(row, Mapping) or not isinstance(row, Sequence) or isinstance(row, (str, bytes)):
            raise errors.DataError(
                f"row {number} is a {type(row).__name__}; rows are all sequences, or all dicts"
            )
        if width is None:
            width = len(row)
        if len(row) != width:
            raise errors.DataError(f"row {number} has {len(row)} values, but row 0 has {width}")
    named = hasattr(rows[0], "_fields")
    names = list(rows[0]._fields) if named else [f"column{number + 1}" for number in range(width or 0)]
    return _table_of_objects(names, [list(column) for column in zip(*rows, strict=True)]), named


def _check_keys(rows: list[Any], names: list[Any]) -> None:
    """Check, before there are columns, that dicts do not have all too many different keys."""
    if len(names) > _COLUMNS_MAX:
        raise errors.DataError(
            f"the rows have {len(names)} different keys, but a table has at most {_COLUMNS_MAX} columns"
        )
    places = len(rows) * len(names)
    if places > _PLACES_MAX:
        given = sum(len(row) for row in rows)
        if places > _PLACES_PER_VALUE_MAX * given:
            raise errors.DataError(
                f"{len(rows)} rows with {len(names)} different keys have only {given} values; "
                "append the dicts as JSON texts of one column"
            )


def _table_of_objects(names: list[str], columns: list[list[Any]]) -> _native.Table:
    return _native.Table(
        [
            _native.column_from_objects(name, values, False)
            for name, values in zip(names, columns, strict=True)
        ]
    )


def _from_series(name: str, series: Any) -> _native.Column:
    """Convert a pandas column: its missing values are NULL."""
    array = series.array
    kind = type(array).__name__
    if _is_a(array, "pandas", "ArrowExtensionArray"):
        return _native.column_from_arrow(name, array.__arrow_array__())
    if kind == "Categorical":
        categories = _from_series(name, array.categories.to_series())
        return _native.column_from_codes(name, _from_numpy(name, array.codes), categories)
    if kind == "DatetimeArray" and array.tz is not None:
        ticks = array.asi8.view(f"M8[{array.unit}]")
        zone = interval.zone_name(array.tz)
        if zone is None:
            raise errors.DataError(
                f'column "{name}" has the time zone {array.tz}, which has no name that SQL knows; '
                "convert it first, as by .dt.tz_convert('UTC')"
            )
        return _from_numpy(name, ticks, time_zone=zone)
    if kind in ("IntegerArray", "FloatingArray", "BooleanArray"):
        column = _from_numpy(name, array._data)
        return column.masked(_bytes(array._mask)) if array._mask.any() else column
    return _from_numpy(name, series.to_numpy(), nan_is_null=True)


def _from_numpy(
    name: str, array: Any, *, nan_is_null: bool = False, time_zone: str | None = None
) -> _native.Column:
    np = require("numpy", "an array")
    if array.ndim == 2 and array.shape[1] == 0:
        # Rows of no values cannot be counted by their values.
        return _native.column_from_objects(name, array.tolist(), nan_is_null)
    if isinstance(array, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(array)
        if array.dtype.kind == "O" and array.ndim == 1:
            return _native.column_from_objects(name, array.tolist(), nan_is_null)
        column = _from_numpy(name, array.data.reshape(-1), nan_is_null=nan_is_null)
        if mask.any():
            column = column.masked(_bytes(mask.reshape(-1)))
        return column.grouped(array.shape[1]) if _is_matrix(name, array) else column
    if _is_matrix(name, array):
        # A NumPy matrix has two dimensions in every shape.
        values = np.asarray(array).reshape(-1)
        return _from_numpy(name, values, nan_is_null=nan_is_null).grouped(array.shape[1])
    kind = array.dtype.kind
    if kind == "O":
        return _native.column_from_objects(name, array.tolist(), nan_is_null)
    if kind == "T":
        array = np.ascontiguousarray(array)
        return _native.column_from_strings(name, len(array), array.ctypes.data, array.itemsize, array.dtype)
    if kind in "US" and array.dtype.itemsize == 0:
        return _native.column_from_objects(name, array.tolist(), False)
    array = _stored(np, name, array)
    dtype = array.dtype.str.lstrip("<>=|")
    if kind == "U":
        dtype = f"U{array.dtype.itemsize // 4}"
    column = _native.column_from_numpy(name, dtype, _bytes(array), time_zone)
    if nan_is_null and kind == "f":
        missing = np.isnan(array)
        if missing.any():
            return column.masked(_bytes(missing))
    return column


def _is_matrix(name: str, array: Any) -> bool:
    """Say whether the array has two dimensions; one is the other possibility."""
    if array.ndim in (1, 2):
        return array.ndim == 2
    raise errors.DataError(
        f'column "{name}" has {array.ndim} dimensions; an array of a column has one or two'
    )


def _bytes(array: Any) -> Any:
    """Return the array's memory, contiguous and aligned, as an array of bytes."""
    np = require("numpy", "an array")
    return np.require(array, requirements=["C", "A"]).view(np.uint8)


def _stored(np: Any, name: str, array: Any) -> Any:
    """Return the array in a dtype that `_storable` names.

    Raises:
        DataError: a value does not fit it: NumPy goes around to another one then.
    """
    stored = array.astype(_storable(np, name, array.dtype), copy=False)
    if array.dtype.kind in "Mm" and np.datetime_data(stored.dtype) != np.datetime_data(array.dtype):
        wrong = (stored.astype(array.dtype) != array) & ~np.isnat(array)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise errors.DataError(
                f'column "{name}", row {row}: {array[row]!r} is out of range for {stored.dtype}'
            )
    return stored


def _storable(np: Any, name: str, dtype: Any) -> Any:
    """Return the native-endian dtype that holds all values of `dtype` and has an SQL type."""
    kind = dtype.kind
    if kind == "f" and dtype.itemsize == 2:
        return np.float32
    if kind in "Mm":
        unit, count = np.datetime_data(dtype)
        if (unit in ("s", "ms", "us", "ns") and count == 1) or (kind == "M" and unit == "D" and count == 1):
            return dtype.newbyteorder("=")
        if unit in ("h", "m", "s") or (kind == "m" and unit in ("W", "D")):
            return f"{kind}8[s]"
        if unit in ("ms", "us", "ns"):
            return f"{kind}8[{unit}]"
        if kind == "M" and unit in ("Y", "M", "W", "D"):
            return "M8[D]"
    elif kind in "biuUS" or (kind == "f" and dtype.itemsize in (4, 8)):
        return dtype.newbyteorder("=")
    raise errors.DataError(f'column "{name}" has the NumPy dtype {dtype}, which no SQL type holds')


def plain_object(value: Any) -> Any:
    """Return a NumPy scalar, or an array, as Python objects; called by the native module.

    Raises:
        ValueError: the value is finer than microseconds or in a year that Python's datetime has not, or is of
            a dtype that Python has no class for.
    """
    if not hasattr(value, "dtype"):
        # An item of an array of objects, or of a pandas Series.
        return value
    if getattr(value, "ndim", 0):
        return [plain_object(item) for item in value]
    kind = getattr(value.dtype, "kind", None)
    if kind is None:
        if hasattr(value, "to_list"):
            return value.to_list()
        raise ValueError(f"a value of the Python type {type(value).__name__} fits no SQL type; pass a list")
    if names := getattr(value.dtype, "names", None):
        return {name: plain_object(value[name]) for name in names}
    if getattr(value, "mask", False):
        return None
    if kind in "Mm":
        return _plain_moment(value)
    plain = value.item() if hasattr(value, "item") else value
    if hasattr(plain, "dtype"):
        # A long double gives itself.
        raise ValueError(f"a value of the dtype {plain.dtype} fits no SQL type")
    return plain


def _plain_moment(value: Any) -> Any:
    """Return a NumPy datetime64 or timedelta64 as Python's datetime or timedelta."""
    np = require("numpy", "a datetime64")
    kind = value.dtype.kind
    if kind == "m" and np.datetime_data(value.dtype)[0] in ("Y", "M"):
        raise ValueError(f"{value!r} has no number of days; pass a hypostyle.Interval")
    coarse = value.astype(f"{kind}8[us]")
    if np.isnat(coarse):
        return None
    elsewhere = "put it in an array of its own dtype"
    if coarse != value:
        raise ValueError(f"{value!r} is finer than microseconds; {elsewhere}")
    if coarse.astype(value.dtype) != value:
        # NumPy goes around to another value, in comparisons, too.
        raise ValueError(f"{value!r} is out of range for microseconds; {elsewhere}")
    plain = coarse.item()
    if isinstance(plain, int):
        raise ValueError(f"{value!r} is in a year that Python's datetime has not; {elsewhere}")
    return plain
