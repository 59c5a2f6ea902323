"""Takes a result from Hypostyle's server as an Arrow table, connection included."""

from __future__ import annotations

from typing import Any

import hypostyle
import pyarrow as pa
from loop import serve, timed

from consumers import touch_arrow


def handle(
    address: str, sql: str, codec: str | None = None, touch: bool = False, equals: str | None = None
) -> dict[str, Any]:
    """Handle a request; `codec` is set before the time begins, `equals` is an Arrow file with the
    same rows.
    """
    if codec is not None:
        with hypostyle.connect(address) as connection:
            connection.execute(f"SET result_codec = '{codec}'")
            seconds, table = timed(lambda: connection.sql(sql).arrow())
    else:
        seconds, table = timed(fetch, address, sql)
    answer: dict[str, Any] = {"seconds": seconds, "rows": table.num_rows}
    if touch:
        answer["touch_seconds"] = timed(touch_arrow, table)[0]
        answer["sum_seconds"] = timed(touch_arrow, table)[0]
    if equals is not None:
        expected = pa.ipc.open_file(pa.memory_map(equals)).read_all()
        answer["equal"] = table.cast(expected.schema).equals(expected)
    return answer


def fetch(address: str, sql: str) -> pa.Table:
    with hypostyle.connect(address) as connection:
        return connection.sql(sql).arrow()


if __name__ == "__main__":
    serve(handle)
