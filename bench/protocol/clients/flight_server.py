"""An Arrow Flight server (C++, by pyarrow) of Arrow files, on TCP and on a Unix socket.

A ticket is JSON: the table; its types, either the usual ones or those that our client returns; the
compression of the record batches; and whether only half of lineitem is wanted, which the server
computes for each request.
"""

from __future__ import annotations

import json
import sys
import threading
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.flight as flight

# Batches of a few thousand rows and of 100 MB are both slow.
BATCH_BYTES = 4 << 20
DICTIONARY_VALUES_MAX = 128


class Server(flight.FlightServerBase):
    def __init__(self, location: str, tables: dict[str, dict[str, pa.Table]], half: str) -> None:
        super().__init__(location)
        self._tables = tables
        self._column, self._limit = half.split(" <= ")

    def do_get(self, _context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        wanted = json.loads(ticket.ticket)
        table = self._tables[wanted["types"]][wanted["table"]]
        if wanted["half"]:
            limit = pa.scalar(Decimal(self._limit), table.schema.field(self._column).type)
            table = table.filter(pc.field(self._column) <= limit)
        options = pa.ipc.IpcWriteOptions(compression=wanted["compression"])
        return flight.RecordBatchStream(table, options=options)


def in_batches(table: pa.Table) -> pa.Table:
    rows = max(1, BATCH_BYTES * table.num_rows // max(1, table.nbytes))
    return pa.Table.from_batches(table.combine_chunks().to_batches(max_chunksize=rows))


def with_our_types(table: pa.Table) -> pa.Table:
    """Return the table with narrow decimals, and dictionaries for strings with few distinct
    values.
    """
    for index, field in enumerate(table.schema):
        column = table.column(index)
        if pa.types.is_decimal(field.type):
            column = column.cast(pa.decimal64(field.type.precision, field.type.scale))
        elif pa.types.is_string(field.type) and pc.count_distinct(column).as_py() <= DICTIONARY_VALUES_MAX:
            codes = pa.dictionary(pa.int8(), pa.string())
            column = column.combine_chunks().dictionary_encode().cast(codes)
        table = table.set_column(index, field.with_type(column.type), column)
    return table


def main() -> None:
    half, tcp, unix, *files = sys.argv[1:]
    usual = {path.stem: pa.ipc.open_file(pa.memory_map(str(path))).read_all() for path in map(Path, files)}
    tables = {
        "usual": {name: in_batches(table) for name, table in usual.items()},
        "ours": {name: in_batches(with_our_types(table)) for name, table in usual.items()},
    }
    servers = [Server(place, tables, half) for place in (tcp, unix)]
    threads = [threading.Thread(target=server.serve) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
