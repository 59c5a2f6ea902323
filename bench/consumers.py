"""How a result reaches each consumer, and how every byte of it is then touched.

"To have" is the call that returns the consumer's own object. "To touch" then reads every page of
it and adds up each column:

* numbers, dates, timestamps: their sum (decimals in Arrow: of the scaled integers as 64-bit words);
* strings in Arrow, pandas `str` and Polars: the sum of their lengths, and the sum of all 64-bit
  words of the heap that holds the text;
* dictionaries: the sum of the codes, and their values as strings;
* strings in NumPy: the sum of their lengths, for object arrays by asking each Python string.

The same code touches ours and the peer's, so each pays for the layout that it chose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Consumer:
    """One way to take a result: by our method, by DuckDB's, and how to touch either."""

    name: str
    ours: str
    duckdb: str
    touch: Callable[[Any], None]
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def call(self) -> str:
        """Our method as it is called."""
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"{self.ours}({options})"

    def from_ours(self, connection: Any, sql: str) -> Any:
        return getattr(connection.sql(sql), self.ours)(**self.options)

    def from_duckdb(self, connection: Any, sql: str) -> Any:
        return getattr(connection.sql(sql), self.duckdb)()


def touch_arrow(table: pa.Table) -> None:
    for column in table.columns:
        for chunk in column.chunks:
            _touch_array(chunk)


def touch_pandas(frame: pd.DataFrame) -> None:
    for name in frame.columns:
        series = frame[name]
        if isinstance(series.dtype, pd.CategoricalDtype):
            series.cat.codes.to_numpy().sum(dtype=np.int64)
            _touch_array(pa.array(series.cat.categories))
        elif isinstance(series.dtype, np.dtype):
            _touch_numpy(series.to_numpy())
        else:
            _touch_arrow_like(pa.array(series.array))


def touch_polars(frame: pl.DataFrame) -> None:
    for series in frame.get_columns():
        if series.dtype.is_numeric():
            series.sum()
        elif series.dtype.is_temporal():
            series.to_physical().sum()
        else:
            _touch_arrow_like(series.to_arrow(compat_level=pl.CompatLevel.newest()))


def touch_arrays(arrays: Mapping[str, np.ndarray]) -> None:
    for name in arrays:
        _touch_numpy(arrays[name])


def _touch_numpy(array: np.ndarray) -> None:
    if isinstance(array, np.ma.MaskedArray):
        np.count_nonzero(np.ma.getmaskarray(array))
        array = array.data
    match array.dtype.kind:
        case "M" | "m":
            array.view(np.int64).sum()
        case "T" | "U":
            np.strings.str_len(array).sum()
        case "O":
            sum(map(len, array))
        case _:
            array.sum()


def _touch_arrow_like(array: pa.Array | pa.ChunkedArray) -> None:
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        _touch_array(chunk)


def _touch_array(array: pa.Array) -> None:
    """Read the bytes of an array; of a slice only its own, not those of what it is a slice of."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        pc.sum(array.indices)
        _touch_array(array.dictionary)
    elif pa.types.is_string_view(kind):
        # There is one view of 16 bytes per value, its length first; the views hold short strings
        # too.
        _words(array.buffers()[1], 16 * array.offset, 16 * len(array)).sum()
        for heap in array.buffers()[2:]:
            _words(heap).sum()
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        pc.sum(pc.binary_length(array))
        width = np.int64 if pa.types.is_large_string(kind) else np.int32
        ends = np.frombuffer(array.buffers()[1], width)[[array.offset, array.offset + len(array)]]
        _words(array.buffers()[2], int(ends[0]), int(ends[1] - ends[0])).sum()
    elif pa.types.is_date32(kind):
        pc.sum(array.view(pa.int32()))
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        pc.sum(array)
    else:
        validity, values = array.buffers()
        _words(validity, array.offset // 8, -(-len(array) // 8)).sum()
        bits = kind.bit_width
        _words(values, array.offset * bits // 8, len(array) * bits // 8).sum()


def _words(buffer: pa.Buffer | None, start: int = 0, size: int | None = None) -> np.ndarray:
    """Return some bytes of the buffer, or all, as 64-bit words, without the up to seven bytes of an
    incomplete last one.
    """
    if buffer is None:
        return np.empty(0, np.uint64)
    count = buffer.size - start if size is None else min(size, buffer.size - start)
    return np.frombuffer(buffer, np.uint64, count=count // 8, offset=start)


CONSUMERS = (
    Consumer("NumPy", "fetchnumpy", "fetchnumpy", touch_arrays),
    Consumer("pandas", "df", "df", touch_pandas),
    Consumer("pandas, exact", "df", "df", touch_pandas, {"dtypes": "exact"}),
    Consumer("Polars", "pl", "pl", touch_polars),
    Consumer("Arrow", "arrow", "to_arrow_table", touch_arrow),
)
