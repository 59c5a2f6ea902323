"""Results as Polars frames.

Polars 2.1 reads 32- and 64-bit decimals of an Arrow stream as if they had 128 bits, which gives
other numbers without an error, so every way to Polars goes through `Column.widely_readable()`.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hypostyle import _native
from hypostyle.optional import require


def to_polars(native: _native.QueryResult, names: list[str]) -> Any:
    """Return a frame of the whole result; its columns are converted and imported in parallel."""
    pl = require("polars", "pl()")
    native.materialize()

    def series(index: int) -> Any:
        return pl.Series(readable_column(native, index)).alias(names[index])

    with ThreadPoolExecutor(native.threads) as pool:
        return pl.DataFrame(list(pool.map(series, range(len(names)))))


def readable_column(native: _native.QueryResult, index: int) -> _native.Column:
    """Return a column in a layout that Polars reads correctly."""
    return native.column(index).widely_readable()


def readable_stream(native: _native.QueryResult) -> Any:
    """Return the whole result as an Arrow stream that Polars reads correctly."""
    columns = [readable_column(native, index) for index in range(len(native.columns()))]
    return _native.Table(columns).__arrow_c_stream__()


def is_calling() -> bool:
    """Say whether Polars has called the method, as in `pl.DataFrame(result)`."""
    caller = sys._getframe(1).f_back
    return caller is not None and caller.f_globals.get("__name__", "").partition(".")[0] == "polars"
