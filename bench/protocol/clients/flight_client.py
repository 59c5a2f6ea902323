"""Takes a result from an Arrow Flight server as an Arrow table, connection included."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
from loop import serve, timed


def handle(address: str, ticket: str) -> dict[str, Any]:
    seconds, table = timed(fetch, address, ticket)
    return {"seconds": seconds, "rows": table.num_rows}


def fetch(address: str, ticket: str) -> pa.Table:
    # The messages are larger than gRPC accepts by default.
    options = [("grpc.max_receive_message_length", -1)]
    with flight.connect(address, generic_options=options) as connection:
        return connection.do_get(flight.Ticket(ticket.encode())).read_all()


if __name__ == "__main__":
    serve(handle)
