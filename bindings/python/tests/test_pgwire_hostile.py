"""Hostile clients of PostgreSQL's protocol: messages in any order, with changed, truncated or
mistyped values, and connections that end in the middle. Each is answered or ended, and the server
stays up.
"""

import contextlib
import os
import random
import socket
import struct
import subprocess

import pytest
from campaigns import seeds

PROGRAM = os.environ.get("HYPOSTYLE_PGWIRE")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="HYPOSTYLE_PGWIRE is not set")

CONNECTIONS = 500

TEXTS = [
    "SELECT 1",
    "SELECT $1::int4, $2::text",
    "SELECT * FROM t WHERE i > $1",
    "INSERT INTO t VALUES ($1, $2, $3)",
    "COPY t FROM STDIN",
    "COPY t FROM STDIN (FORMAT binary)",
    "COPY t FROM STDIN CSV",
    "COPY t TO STDOUT (FORMAT binary)",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "DECLARE c CURSOR FOR SELECT * FROM t",
    "SELECT 1; SELECT 2",
    "",
    "SELECT",
]
SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
DATA = [
    b"1\ta\t2.5\n",
    b"1,a,2.5\n\\.\n",
    SIGNATURE,
    SIGNATURE + struct.pack(">hi4si1si8sh", 3, 4, b"\0\0\0\7", 1, b"x", 8, bytes(8), -1),
    struct.pack(">hi4s", 3, 4, b"\0\0\0\7"),
    struct.pack(">hi", 3, 2**31 - 1),
    struct.pack(">h", -1),
]
VALUES = [
    None,
    b"",
    b"7",
    b"\0\0\0\7",
    b"\0\7",
    b"x",
    b"{1,2}",
    b"\xff\xfe",
    b"2024-02-30",
    bytes(8),
    bytes(16),
]
OIDS = [
    0,
    16,
    17,
    20,
    21,
    23,
    25,
    114,
    700,
    701,
    1007,
    1009,
    1043,
    1082,
    1114,
    1184,
    1186,
    1231,
    1700,
    2950,
    99999,
]


def text(value):
    return value.encode() + b"\0"


def listed(items, form):
    return struct.pack(">h", len(items)) + b"".join(struct.pack(form, item) for item in items)


def message(rng):
    """Return the type and the body of a message, valid as far as its parts fit together."""
    kind = rng.choice(b"QPBDECHSdcfp" if rng.random() < 0.99 else b"XF!\0")
    name, portal = rng.choice(["", "s", "p"]), rng.choice(["", "p", "c"])
    values = rng.choices(VALUES, k=rng.randrange(4))
    bound = b"".join(struct.pack(">i", -1) if v is None else struct.pack(">i", len(v)) + v for v in values)
    formats = rng.choices([0, 1], k=rng.choice([0, 1, len(values)]))
    body = {
        b"Q": text(rng.choice(TEXTS)),
        b"P": text(name) + text(rng.choice(TEXTS)) + listed(rng.choices(OIDS, k=rng.randrange(4)), ">I"),
        b"B": text(portal)
        + text(name)
        + listed(formats, ">h")
        + struct.pack(">h", len(values))
        + bound
        + listed(rng.choices([0, 1, 7], k=rng.randrange(3)), ">h"),
        b"D": rng.choice([b"S", b"P", b"?"]) + text(name),
        b"E": text(portal) + struct.pack(">i", rng.choice([0, 1, -1, 2**31 - 1])),
        b"C": rng.choice([b"S", b"P"]) + text(name),
        b"d": rng.choice(DATA),
        b"f": text("no more"),
        b"p": text("secret"),
    }
    return bytes([kind]), body.get(bytes([kind]), b"")


def conversation(rng):
    for _ in range(rng.randrange(1, 30)):
        if rng.random() < 0.1:
            # COPY messages outside a COPY are skipped: rows are read in a COPY only.
            yield b"Q", text(rng.choice([sql for sql in TEXTS if "FROM STDIN" in sql]))
            for _ in range(rng.randrange(4)):
                yield b"d", rng.choice(DATA)
            yield b"c", b""
        yield message(rng)


def changed(rng, body):
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        at = rng.randrange(len(body) + 1)
        new = rng.choice([b"", b"\0", b"\xff", b"\x7f\xff\xff\xff", bytes([rng.randrange(256)])])
        body = body[:at] + new + body[at + rng.randrange(3) :]
    return body


def startup(options=b"user\0eve\0\0"):
    return struct.pack(">ii", 8 + len(options), 196608) + options


def replies(connection):
    """Return the types of the messages until the server closes, and SQLSTATE and message of its
    errors.
    """
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(1 << 16):
            received += piece
    kinds, errors = b"", []
    while len(received) >= 5:
        (length,) = struct.unpack(">i", received[1:5])
        body = received[5 : 1 + length]
        kinds += received[:1]
        if received[:1] == b"E":
            fields = dict((field[:1], field[1:]) for field in body.split(b"\0") if field)
            errors.append((fields[b"C"].decode(), fields[b"M"].decode()))
        received = received[1 + length :]
    return kinds, errors


@pytest.fixture(scope="module")
def server():
    with subprocess.Popen(
        [PROGRAM, "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        yield server, int(server.stdout.readline().rsplit(":", 1)[1])
        server.kill()
        # A panic of a session's thread would not end the server.
        assert "panicked" not in server.stderr.read()


def asked(port, sql, *more):
    """Return the replies to a query and to more messages, from a client that behaves."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(startup())
        for kind, body in ((b"Q", text(sql)), *more, (b"X", b"")):
            connection.sendall(kind + struct.pack(">i", 4 + len(body)) + body)
        return replies(connection)


def attack(server, sent):
    """Connect, send random messages of `sent`, and yield the replies; one round for each seed."""
    process, port = server
    for seed in seeds():
        rng = random.Random(seed)
        for number in range(CONNECTIONS):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                with contextlib.suppress(OSError):
                    connection.sendall(sent(rng))
                    connection.shutdown(socket.SHUT_WR)
                yield replies(connection)
            if number % 50 == 0:
                assert process.poll() is None
                assert asked(port, "SELECT 1")[0].endswith(b"TDCZ")


def test_any_messages_are_answered_or_end_the_connection(server):
    def sent(rng):
        stream = b""
        for kind, body in conversation(rng):
            body = changed(rng, body)
            stream += kind + struct.pack(">i", 4 + len(body)) + body
        if rng.random() < 0.2:
            stream = stream[: rng.randrange(len(stream))]
        return startup() + stream

    assert asked(server[1], "CREATE TABLE t (i INTEGER, s VARCHAR, f DOUBLE)")[1] == []
    seen = set()
    for kinds, errors in attack(server, sent):
        assert kinds.startswith(b"R")
        states = {sqlstate for sqlstate, _ in errors}
        # An unforeseen case would be an internal error.
        assert "XX000" not in states, errors
        seen |= states
    # Not all of it was refused for the same reason.
    assert {"08P01", "42601", "22P04"} <= seen, seen
    assert asked(server[1], "SELECT count(*) FROM t")[0].endswith(b"TDCZ")


def test_any_startup_is_answered_or_ends_the_connection(server):
    options = [b"user", b"eve", b"database", b"x", b"options", b"-c a=b", b"client_encoding", b"UTF8", b""]

    def sent(rng):
        packet = startup(b"\0".join(rng.choices(options, k=rng.randrange(9))) + b"\0\0")
        return changed(rng, packet) if rng.random() < 0.8 else packet[: rng.randrange(len(packet))]

    answers = [kinds[:1] for kinds, _ in attack(server, sent)]
    # Some log in, some get a reason, some have not sent enough.
    assert {b"R", b"E", b""} <= set(answers)


def test_a_client_that_gives_a_copy_up_is_told_so(server):
    assert asked(server[1], "CREATE TABLE given_up (x INTEGER)")[1] == []
    rows, failure = (b"d", b"1\n"), (b"f", text("no more"))
    kinds, errors = asked(server[1], "COPY given_up FROM STDIN", rows, failure)
    assert kinds.endswith(b"GEZ")
    assert [sqlstate for sqlstate, _ in errors] == ["57014"]
    assert errors[0][1].endswith("COPY from stdin failed: no more")
    assert asked(server[1], "SELECT * FROM given_up")[0].endswith(b"TCZ")
