"""Results as pandas frames.

A frame that shares data with the storage does not read the rows, and nothing is consolidated. With
NumPy's dtypes, all threads convert dates and decimals, without the interpreter's lock.
"""

import functools
from typing import Any, Literal

from hypostyle import _native, errors
from hypostyle.interval import time_zone
from hypostyle.numpy_columns import over, to_numpy
from hypostyle.optional import available, require

Dtypes = Literal["numpy", "exact"]


def to_pandas(native: _native.QueryResult, names: list[str], dtypes: Dtypes) -> Any:
    """Return a frame of the whole result; the table in README.md lists the dtypes."""
    if dtypes not in ("numpy", "exact"):
        raise errors.DataError(f"dtypes is {dtypes!r}, but must be 'numpy' or 'exact'")
    pd = require("pandas", "df()")
    column = _exact if dtypes == "exact" else _numpy
    native.join_columns()
    # The columns are numbered, because a frame may have two columns of one name but a dict may not.
    columns = {index: column(pd, native, index) for index in range(len(names))}
    frame = pd.DataFrame(columns, index=pd.RangeIndex(native.row_count()), copy=False)
    frame.columns = pd.Index(names, dtype="str")
    return frame


def _numpy(pd: Any, native: _native.QueryResult, index: int) -> Any:
    """Return a column with a dtype that pandas computes with; only decimals are rounded."""
    kind = native.kind(index)
    if kind in ("integer", "boolean"):
        column = native.column_private(index)
        return _masked(pd, to_numpy(column)) if column.null_count else to_numpy(column)
    if kind in ("float", "timestamp", "duration"):
        return to_numpy(native.column_private(index))
    if kind == "timestamp with time zone":
        return _zoned(pd, native.column_private(index))
    if kind == "dictionary":
        return _categorical(pd, native.column_private(index))
    column = native.column(index)
    if midnights := column.midnights():
        dtype, memory = midnights
        return over(memory, dtype)
    if kind == "decimal":
        return to_numpy(column)
    if kind == "string":
        return _strings(pd, column)
    np = require("numpy", "df()")
    return np.fromiter(column.objects(), dtype=object, count=len(column))


def _exact(pd: Any, native: _native.QueryResult, index: int) -> Any:
    kind = native.kind(index)
    if kind in ("float", "timestamp", "duration"):
        return to_numpy(native.column_private(index))
    if kind == "timestamp with time zone":
        return _zoned(pd, native.column_private(index))
    if kind == "dictionary":
        return _categorical(pd, native.column_private(index))
    column = native.column(index)
    if kind == "integer" and not column.null_count:
        return to_numpy(native.column_private(index))
    if kind == "interval":
        return to_numpy(column)
    if kind == "decimal" and column.narrow_decimal is not None:
        return _decimal_array_class(pd).narrow(column)
    if kind == "string":
        return _strings(pd, column)
    pa = require("pyarrow", f"df(dtypes='exact') of a {kind} column")
    array = pa.chunked_array([pa.array(column.plain() if kind == "binary" else column)])
    return pd.arrays.ArrowExtensionArray(array)


@functools.cache
def _decimal_array_class(pd: Any) -> Any:
    """Return the class of decimals of 32 and 64 bits, which is created once pandas is imported."""
    pa = require("pyarrow", "df(dtypes='exact') of a decimal column")

    class DecimalArray(pd.arrays.ArrowExtensionArray):  # type: ignore[misc]
        """Decimals that are widened to 128 bits when they are first used.

        pyarrow 26 does not add, compare or sort narrower ones, so `frame["x"].sum()` would fail.
        """

        _wide: Any = None
        _column: Any = None

        @classmethod
        def narrow(cls, column: _native.Column) -> Any:
            array = cls.__new__(cls)
            array._column = column
            array._dtype = pd.ArrowDtype(pa.decimal128(*column.narrow_decimal))
            array._cache = {}
            return array

        @property
        def _pa_array(self) -> Any:
            if self._wide is None:
                self._wide = pa.chunked_array([pa.array(self._column.widely_readable())])
                self._column = None
            return self._wide

        @_pa_array.setter
        def _pa_array(self, array: Any) -> None:
            self._wide = array

        def __len__(self) -> int:
            column = self._column
            return len(self._pa_array) if column is None else len(column)

        def __reduce__(self) -> Any:
            return pd.arrays.ArrowExtensionArray, (self._pa_array,)

    return DecimalArray


def _masked(pd: Any, values: Any) -> Any:
    """Return booleans and integers with NULLs; pandas uses the masked array's memory."""
    # pandas has these values under NA, where functions of NumPy compute all the same: no warning.
    values.data[values.mask] = 1
    array = pd.arrays.BooleanArray if values.dtype.kind == "b" else pd.arrays.IntegerArray
    return array(values.data, values.mask)


def _strings(pd: Any, column: _native.Column) -> Any:
    """Return strings as pandas holds them: in Arrow's memory, or without pyarrow as objects."""
    if not available("pyarrow"):
        return pd.array(column.objects(), dtype=pd.StringDtype("python", na_value=float("nan")))
    pa = require("pyarrow", "df()")
    array = pa.chunked_array([pa.array(column.plain())])
    return pd.arrays.ArrowStringArray(array, dtype=pd.StringDtype("pyarrow", na_value=float("nan")))


def _zoned(pd: Any, column: _native.Column) -> Any:
    dtype = pd.DatetimeTZDtype(column.unit, time_zone(column.time_zone or "UTC"))
    # The public constructors copy the ticks or read them as local time.
    return pd.arrays.DatetimeArray._simple_new(to_numpy(column), dtype=dtype)


def _categorical(pd: Any, column: _native.Column) -> Any:
    dtype, codes, categories = column.dictionary()
    values = over(codes, dtype)
    categories = pd.Index(categories.objects(), dtype="str")
    return pd.Categorical.from_codes(values, dtype=pd.CategoricalDtype(categories), validate=False)
