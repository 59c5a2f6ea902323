"""Takes two rows from each server through a tap, and tells data from overhead: the chapter's Table 3.2 and
Figures 3-5 to 3-11.

    cd bench && "$VENV/bin/python" -m protocol.wire_dumps

Data are the bytes of the values themselves; all else that a row or a chunk brings is overhead. What one row
more costs is the difference between a long result and a short one of such rows, over all bytes of the answer.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import tempfile
import threading
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import hypostyle

from measure import Report, options
from protocol.clients.mariadb_library import MariaDBLibrary
from protocol.data import Data
from protocol.peers.mariadb import MariaDB
from protocol.peers.ours import Hypostyle
from protocol.peers.postgresql import DATABASE, OF_OURS, PLAIN, PostgreSQL
from protocol.peers.postgresql import USER as OWNER
from protocol.processes import Client, PeerError, free_port
from updates import DATABASES, USER, peer

# Table 3.2: an INT32 and a VARCHAR(10).
ROWS: list[tuple[int | None, str]] = [(100_000_000, "OK"), (None, "DPFKG")]
MORE_ROWS = 100
TWO_ROWS, ONE_ROW = "CP-F3.5", "CP-F3.10"
CHUNK = 37  # the type of a frame with rows (docs/protocol.md §2)
NULL_LENGTH = 0xFB  # of a value in a row of MariaDB

# A part of a message: "data" or "overhead", what it means, and its bytes.
Field = tuple[str, str, bytes]


class Tap:
    """A way to a server that keeps what the server has sent since the last `begin`."""

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._answer = bytearray()
        self.port: int = self._listener.getsockname()[1]

    def begin(self) -> None:
        with self._lock:
            self._answer.clear()

    def answer(self) -> bytes:
        with self._lock:
            return bytes(self._answer)

    def serve(self) -> None:
        """Pass on all connections until the tap is closed."""
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server))
                for source, sink, is_answer in ((client, server, False), (server, client, True)):
                    threading.Thread(
                        target=self._pass_on, args=(source, sink, is_answer), daemon=True
                    ).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 16):
                if is_answer:
                    with self._lock:
                        self._answer += piece
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._listener.close()


@contextlib.contextmanager
def tapped(port: int) -> Iterator[Tap]:
    with contextlib.closing(Tap(port)) as tap:
        threading.Thread(target=tap.serve, daemon=True).start()
        yield tap


def query(rows: list[tuple[int | None, str]]) -> str:
    """Return a query with these rows."""
    values = ", ".join(f"(CAST({_literal(number)} AS INTEGER), '{text}')" for number, text in rows)
    return f"SELECT a, b FROM (VALUES {values}) AS t (a, b)"


def query_of_mariadb(rows: list[tuple[int | None, str]]) -> str:
    """Return the same for MariaDB, which cannot name the columns of VALUES."""
    return " UNION ALL ".join(f"SELECT {_literal(number)} AS a, '{text}' AS b" for number, text in rows)


def _literal(number: int | None) -> str:
    return "NULL" if number is None else str(number)


def many_rows() -> list[tuple[int | None, str]]:
    """Return the two rows, and as many more of their kind."""
    return [
        (None if number is None else number + index, text)
        for index in range(MORE_ROWS // len(ROWS) + 1)
        for number, text in ROWS
    ]


# The answers of each system ----------------------------------------------------------------------------


def of_postgresql(tap: Tap, rows: list[tuple[int | None, str]]) -> bytes:
    """Ask from another process, because psycopg lets no other thread run meanwhile. The answer begins with
    the messages of the connection.
    """
    address = f"host=127.0.0.1 port={tap.port} user={USER} dbname={DATABASES['PostgreSQL']}"
    with contextlib.closing(Client("libpq_client.py")) as client:
        tap.begin()
        found = client.ask(address=f"{address} sslmode=disable gssencmode=disable", sql=query(rows))
        _expect("PostgreSQL", rows, found["rows"])
        return tap.answer()


def of_mariadb(tap: Tap, rows: list[tuple[int | None, str]]) -> bytes:
    library = MariaDBLibrary()
    connection = library.connect("127.0.0.1", tap.port, "mysql", compressed=False)
    try:
        tap.begin()
        result = library.query(connection, query_of_mariadb(rows))
        _expect("MariaDB", rows, library.rows(result))
        library.free(result)
        return tap.answer()
    finally:
        library.close(connection)


def of_hypostyle(tap: Tap, rows: list[tuple[int | None, str]]) -> bytes:
    with hypostyle.connect(f"hypostyle://127.0.0.1:{tap.port}/?tls=off") as connection:
        connection.execute("SET result_codec = 'none'")
        tap.begin()
        table = connection.sql(query(rows)).arrow()
        _expect("hypostyle", rows, table.num_rows)
        return tap.answer()


def of_postgresql_in_columns(tap: Tap, rows: list[tuple[int | None, str]]) -> bytes:
    """Ask by our client for the frames of our extension. A first statement looks for the extension."""
    address = f"postgresql://{OWNER}@127.0.0.1:{tap.port}/{DATABASE}?sslmode=disable&{OF_OURS[PLAIN]}"
    with hypostyle.connect(address) as connection:
        connection.sql(query(ROWS)).arrow()
        tap.begin()
        table = connection.sql(query(rows)).arrow()
        _expect(PLAIN, rows, table.num_rows)
        return tap.answer()


def _expect(party: str, rows: list[tuple[int | None, str]], found: int) -> None:
    if found != len(rows):
        raise PeerError(f"{party} returned {found} rows, not {len(rows)}")


# The parts of their messages ---------------------------------------------------------------------------


def parts_of_postgresql(answer: bytes) -> list[Field]:
    """Return the parts of all DataRow messages."""
    fields: list[Field] = []
    at = 0
    while at < len(answer):
        kind, length = answer[at : at + 1], struct.unpack_from(">I", answer, at + 1)[0]
        if kind == b"D":
            body = answer[at + 5 : at + 1 + length]
            fields += [
                ("overhead", "kind of the message", kind),
                ("overhead", "length of the message", answer[at + 1 : at + 5]),
                ("overhead", "number of fields", body[:2]),
            ]
            place = 2
            while place < len(body):
                size = struct.unpack_from(">i", body, place)[0]
                fields.append(("overhead", "length of a field, -1 for NULL", body[place : place + 4]))
                place += 4
                if size > 0:
                    fields.append(("data", "a value as text", body[place : place + size]))
                    place += size
        at += 1 + length
    return fields


def parts_of_mariadb(answer: bytes) -> list[Field]:
    """Return the parts of the packets with rows: those of the columns come before, and an end of them."""
    packets = []
    at = 0
    while at < len(answer):
        length = int.from_bytes(answer[at : at + 3], "little")
        packets.append((answer[at : at + 3], answer[at + 3 : at + 4], answer[at + 4 : at + 4 + length]))
        at += 4 + length
    columns = packets[0][2][0]
    rows = packets[1 + columns :]
    fields: list[Field] = []
    for length_bytes, sequence, body in rows:
        if body[:1] == b"\xfe" and len(body) < 9:  # an end of columns, or of rows
            continue
        fields += [
            ("overhead", "length of the packet", length_bytes),
            ("overhead", "number of the packet", sequence),
        ]
        place = 0
        while place < len(body):
            fields.append(("overhead", "length of a field, FB for NULL", body[place : place + 1]))
            size = 0 if body[place] == NULL_LENGTH else body[place]
            place += 1
            if size:
                fields.append(("data", "a value as text", body[place : place + size]))
                place += size
    return fields


def parts_of_hypostyle(answer: bytes) -> list[Field]:
    """Return the parts of the frame with the chunk."""
    at = 0
    while at < len(answer):
        length, kind = struct.unpack_from("<IB", answer, at)
        frame = answer[at : at + 8 + length]
        if kind == CHUNK:
            return _parts_of_chunk(frame)
        at += 8 + length
    raise PeerError("hypostyle sent no chunk")


def parts_of_postgresql_in_columns(answer: bytes) -> list[Field]:
    """Return the parts of the CopyData message with the frame with the chunk."""
    at = 0
    while at < len(answer):
        kind, length = answer[at : at + 1], struct.unpack_from(">I", answer, at + 1)[0]
        frame = answer[at + 5 : at + 1 + length]
        if kind == b"d" and frame[4] == CHUNK:
            message = ("overhead", "kind and length of the message", answer[at : at + 5])
            return [message, *_parts_of_chunk(frame)]
        at += 1 + length
    raise PeerError(f"{PLAIN} sent no chunk")


def _parts_of_chunk(frame: bytes) -> list[Field]:
    head_bytes = struct.unpack_from("<I", frame, 33)[0]
    fields: list[Field] = []
    for meaning, start, end in (
        ("length, type and flags of the frame", 0, 8),
        ("number of the query, where the payload is", 8, 13),
        ("number of the chunk, number of rows", 13, 25),
        ("checksum of the payload", 25, 33),
        ("length of the head", 33, 37),
        ("the head: layout, codec and length of each buffer", 37, 37 + head_bytes),
    ):
        fields.append(("overhead", meaning, frame[start:end]))
    payload = frame[37 + head_bytes :]
    place = 0
    for meaning, value in (
        ("a: the integer", struct.pack("<i", 100_000_000)),
        ("b: the strings", b"OKDPFKG"),
    ):
        start = payload.index(value, place)
        if start > place:
            fields.append(("overhead", "masks, lengths of strings, and padding", payload[place:start]))
        fields.append(("data", meaning, value))
        place = start + len(value)
    if place < len(payload):
        fields.append(("overhead", "padding", payload[place:]))
    return fields


PARTIES = {
    "PostgreSQL": (of_postgresql, parts_of_postgresql),
    "MariaDB": (of_mariadb, parts_of_mariadb),
    "hypostyle": (of_hypostyle, parts_of_hypostyle),
    PLAIN: (of_postgresql_in_columns, parts_of_postgresql_in_columns),
}


def measure(report: Report, party: str, port: int) -> dict[str, list[tuple[str, str, str]]]:
    """Take both results from a party, and record them; return the dump of the two rows."""
    answer_of, parts_of = PARTIES[party]
    with tapped(port) as tap:
        answer, longer = answer_of(tap, ROWS), answer_of(tap, many_rows())
    fields = parts_of(answer)
    counts = {
        kind: float(sum(len(content) for of, _, content in fields if of == kind))
        for kind in ("data", "overhead")
    }
    for kind, count in counts.items():
        report.cell(TWO_ROWS, "Rows of Table 3.2 in bytes", party, kind, [count])
    a_row_more = (len(longer) - len(answer)) / (len(many_rows()) - len(ROWS))
    report.cell(ONE_ROW, "Bytes for one more row", party, "a row more", [a_row_more])
    told = f"{counts['data']:.0f} bytes of data, {counts['overhead']:.0f} of overhead"
    report.note(f"{party}: {told}, {a_row_more:.1f} for one more row")
    return {party: [(kind, meaning, content.hex(" ")) for kind, meaning, content in fields]}


def main(given: Namespace) -> None:
    report = Report("wire_dumps", given, "the two rows of Table 3.2")
    dumps: dict[str, dict[str, list[tuple[str, str, str]]]] = {TWO_ROWS: {}, ONE_ROW: {}}
    with tempfile.TemporaryDirectory(prefix="hypostyle-bench-") as directory:
        scratch = Path(directory)
        empty = Data(scratch, {})
        for kind, experiment in ((MariaDB, TWO_ROWS), (Hypostyle, ONE_ROW), (PostgreSQL, ONE_ROW)):
            party = kind(scratch)
            name = PLAIN if kind is PostgreSQL else party.name
            with contextlib.ExitStack() as stack:
                stack.callback(party.stop)
                try:
                    party.start(empty)
                    if name in party.missing:
                        raise PeerError(party.missing[name])
                    dumps[experiment] |= measure(report, name, party.port)
                    report.versions |= party.versions()
                except PeerError as error:
                    report.note(f"NOT MEASURED: {name}: {error}")
        try:
            port = free_port()
            with peer(scratch, port):
                dumps[TWO_ROWS] |= measure(report, "PostgreSQL", port)
        except PeerError as error:
            report.note(f"NOT MEASURED: PostgreSQL: {error}")
    report.details["dumps"] = dumps
    if "hypostyle" not in dumps[ONE_ROW]:
        raise SystemExit("hypostyle itself does not run")
    report.write()


if __name__ == "__main__":
    parser = options(__doc__)
    parser.set_defaults(sf=0.0, runs=1)
    main(parser.parse_args())
