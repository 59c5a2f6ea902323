"""Results as pandas frames, built without looking at the rows.

NumPy holds what it can share with the storage, Arrow the rest; nothing is consolidated.
"""

import functools
from typing import Any

from hypostyle import _native
from hypostyle.interval import time_zone
from hypostyle.numpy_columns import to_numpy
from hypostyle.optional import require


def to_pandas(native: _native.QueryResult, names: list[str], classic: bool) -> Any:
    """A frame of the whole result; `classic` uses NumPy dtypes alone."""
    pd = require("pandas", "df()")
    # The columns are numbered, because a frame may have two of one name but a dict may not.
    columns = {
        index: _classic(pd, native.column_private(index)) if classic else _exact(pd, native, index)
        for index in range(len(names))
    }
    frame = pd.DataFrame(columns, index=pd.RangeIndex(native.row_count()), copy=False)
    frame.columns = pd.Index(names, dtype="str")
    return frame


def _exact(pd: Any, native: _native.QueryResult, index: int) -> Any:
    column = native.column(index)
    kind = column.kind
    if kind in ("float", "timestamp", "duration") or (kind == "integer" and not column.null_count):
        return to_numpy(native.column_private(index))
    if kind == "timestamp with time zone":
        return _zoned(pd, native.column_private(index))
    if kind == "dictionary":
        return _categorical(pd, native.column_private(index))
    if kind == "interval":
        return to_numpy(column)
    if kind == "decimal" and column.narrow_decimal is not None:
        return _decimal_array_class(pd).narrow(column)
    pa = require("pyarrow", f"df() of a {kind} column (but not df(dtypes='numpy'))")
    array = pa.chunked_array([pa.array(column.plain() if kind in ("string", "binary") else column)])
    if kind == "string":
        return pd.arrays.ArrowStringArray(array, dtype=_string_dtype(pd))
    return pd.arrays.ArrowExtensionArray(array)


@functools.cache
def _decimal_array_class(pd: Any) -> Any:
    """The class of decimals of 32 and 64 bits, made when pandas is there."""
    pa = require("pyarrow", "df() of a decimal column (but not df(dtypes='numpy'))")

    class DecimalArray(pd.arrays.ArrowExtensionArray):  # type: ignore[misc]
        """Decimals that are widened to 128 bits when they are first used.

        pyarrow 26 adds, compares and sorts no narrower ones, so that `frame["x"].sum()` would fail.
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


def _string_dtype(pd: Any) -> Any:
    return pd.StringDtype("pyarrow", na_value=float("nan"))


def _zoned(pd: Any, column: _native.Column) -> Any:
    dtype = pd.DatetimeTZDtype(column.unit, time_zone(column.time_zone or "UTC"))
    # The public constructors copy the ticks or take them for local time.
    return pd.arrays.DatetimeArray._simple_new(to_numpy(column), dtype=dtype)


def _categorical(pd: Any, column: _native.Column) -> Any:
    np = require("numpy", "df()")
    dtype, codes, categories = column.dictionary()
    values = np.frombuffer(codes, dtype=dtype) if len(codes) else np.empty(0, dtype)
    categories = pd.Index(categories.objects(), dtype="str")
    return pd.Categorical.from_codes(values, dtype=pd.CategoricalDtype(categories), validate=False)


def _classic(pd: Any, column: _native.Column) -> Any:
    np = require("numpy", "df()")
    if column.kind == "timestamp with time zone":
        return _zoned(pd, column)
    if column.kind == "vector" or (column.kind == "boolean" and column.null_count):
        return np.fromiter(column.objects(), dtype=object, count=len(column))
    array = to_numpy(column, strings="object")
    if column.kind == "date":
        return array.astype("M8[s]")
    if isinstance(array, np.ma.MaskedArray):
        return array.astype(np.float64).filled(np.nan)
    return array
