"""Many clients in one process, a thread and a connection each, that take a table at the same time.

`take` lets each take the whole table and returns what all of them received. `begin` lets each take
one batch and leave the rest; `finish` then takes the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import hypostyle
import pyarrow as pa
from checksum import checksum
from loop import serve, timed


class Crowd:
    def __init__(self) -> None:
        self._started: list[tuple[hypostyle.Connection, Iterator[pa.RecordBatch], pa.RecordBatch]] = []

    def handle(self, do: str, address: str = "", table: str = "", clients: int = 0) -> dict[str, Any]:
        sql = f"SELECT * FROM {table}"
        if do == "begin":
            self._started = list(_at_once(_begin, [(address, sql)] * clients))
            return {}
        if do == "finish":
            seconds, found = timed(lambda: list(_at_once(_finish, self._started)))
            self._started.clear()
        else:
            seconds, found = timed(lambda: list(_at_once(_take, [(address, sql)] * clients)))
        return {"seconds": seconds, "found": found}


def _at_once(work: Any, inputs: Iterable[tuple[Any, ...]]) -> Iterable[Any]:
    inputs = list(inputs)
    with ThreadPoolExecutor(max(1, len(inputs))) as threads:
        return list(threads.map(lambda each: work(*each), inputs))


def _take(address: str, sql: str) -> dict[str, int]:
    with hypostyle.connect(address) as connection:
        return checksum(connection.sql(sql).arrow())


def _begin(address: str, sql: str) -> tuple[Any, Iterator[pa.RecordBatch], pa.RecordBatch]:
    connection = hypostyle.connect(address)
    # Compressed, the table might fit into the credit.
    connection.execute("SET result_codec = 'none'")
    batches = iter(connection.sql(sql).batches())
    return connection, batches, next(batches)


def _finish(connection: Any, batches: Iterator[pa.RecordBatch], first: pa.RecordBatch) -> dict[str, int]:
    with connection:
        return checksum(pa.Table.from_batches([first, *batches]))


if __name__ == "__main__":
    serve(Crowd().handle)
