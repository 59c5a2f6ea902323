"""A checksum of a received lineitem: quick to compute, and unlikely to match by mistake."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def checksum(table: pa.Table) -> dict[str, int]:
    """Return the number of rows, and sums over a column of integers, of decimals, and of text."""
    prices = table.column("l_extendedprice").cast(pa.decimal128(15, 2))
    lines = table.column("l_linenumber").cast(pa.int64())
    return {
        "rows": table.num_rows,
        "keys": pc.sum(pc.multiply(table.column("l_orderkey"), lines)).as_py(),
        "prices": int(pc.sum(prices).as_py() * 100),
        "letters": pc.sum(pc.utf8_length(table.column("l_comment"))).as_py(),
    }
