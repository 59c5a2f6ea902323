"""Takes a result from Hypostyle's server as an Arrow table, connection included."""

from __future__ import annotations

import time
from typing import Any

import hypostyle
import pyarrow as pa
from loop import serve, timed

from consumers import touch_arrow


def handle(
    address: str,
    sql: str,
    codec: str | None = None,
    touch: bool = False,
    equals: str | None = None,
    ordered: bool = True,
) -> dict[str, Any]:
    """Handle a request; `codec` is set before the time begins, `equals` is an Arrow file with the
    same rows, if `ordered` in the same order.
    """
    parts: dict[str, float] = {}
    if codec is not None:
        with hypostyle.connect(address) as connection:
            connection.execute(f"SET result_codec = '{codec}'")
            seconds, table = timed(lambda: connection.sql(sql).arrow())
    else:
        seconds, (table, parts) = timed(fetch, address, sql)
    answer: dict[str, Any] = {"seconds": seconds, "rows": table.num_rows, **parts}
    if touch:
        answer["touch_seconds"] = timed(touch_arrow, table)[0]
        answer["sum_seconds"] = timed(touch_arrow, table)[0]
    if equals is not None:
        expected = pa.ipc.open_file(pa.memory_map(equals)).read_all()
        tables = [table.cast(expected.schema), expected]
        one, other = tables if ordered else map(in_order, tables)
        answer["equal"] = one.equals(other)
    return answer


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names])


def fetch(address: str, sql: str) -> tuple[pa.Table, dict[str, float]]:
    """Return a result, and the seconds of connecting and, where the server tells them, of executing: until
    it had the first row.
    """
    start = time.perf_counter()
    with hypostyle.connect(address) as connection:
        connected = time.perf_counter() - start
        result = connection.sql(sql)
        table = result.arrow()
        told = result.statistics  # PostgreSQL tells none
        executed = {} if told is None else {"execute_seconds": told.execute}
        return table, {"connect_seconds": connected, **executed}


if __name__ == "__main__":
    serve(handle)
