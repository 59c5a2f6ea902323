"""A client of PostgreSQL's protocol that keeps no rows, and may leave at any moment."""

import base64
import hashlib
import hmac
import os
import socket
import struct
import time
from dataclasses import dataclass

# The length of an answer after which the client leaves.
ANSWER_BYTES_MAX = 16 << 20

PROTOCOL = 196608
SASL, SASL_CONTINUE, SASL_FINAL, AUTHENTICATED = 10, 11, 12, 0


@dataclass(frozen=True)
class Answer:
    """The outcome of a statement.

    Attributes:
        state: the SQLSTATE of its error, or None.
        message: the message of the error.
        seconds: the time that it took.
        is_whole: False when the client left before the end.
    """

    state: str | None
    message: str
    seconds: float
    is_whole: bool = True


class Gone(Exception):
    """The server has closed the connection."""


class Client:
    """A connection; after `Gone` or `TimeoutError` a new one is needed."""

    def __init__(self, port: int, user: str, password: str, seconds: float) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=seconds)
        self._received = bytearray()
        start = struct.pack(">i", PROTOCOL) + f"user\0{user}\0\0".encode()
        self._socket.sendall(struct.pack(">i", 4 + len(start)) + start)
        self._prove(password)
        self._answer(time.monotonic())

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def ask(self, sql: str, seconds: float, *, prepared: bool = False) -> Answer:
        """Send a statement, at once or in the steps of the extended protocol, and wait for its
        end.
        """
        start = time.monotonic()
        self._socket.settimeout(seconds)
        try:
            self.send(sql, prepared=prepared)
            return self._answer(start)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Gone from error

    def column(self, sql: str) -> list[str | None]:
        """Return the first column of a query, as texts."""
        rows: list[bytes] = []
        self.send(sql)
        answer = self._answer(time.monotonic(), rows)
        assert answer.state is None and answer.is_whole, answer
        return [_first(row) for row in rows]

    def send(self, sql: str, *, prepared: bool = False) -> None:
        """Send a statement without reading its answer."""
        text = sql.encode() + b"\0"
        if not prepared:
            self._socket.sendall(_message(b"Q", text))
            return
        steps = [
            (b"P", b"\0" + text + b"\0\0"),
            (b"D", b"S\0"),
            (b"B", b"\0\0" + bytes(6)),
            (b"E", b"\0" + bytes(4)),
            (b"S", b""),
        ]
        self._socket.sendall(b"".join(_message(kind, body) for kind, body in steps))

    def _prove(self, password: str) -> None:
        """SCRAM-SHA-256 (RFC 7677)."""
        client_first = b"n=,r=" + base64.b64encode(os.urandom(18))
        server_first, signature = b"", b""
        while True:
            kind, body = self._message()
            if kind == b"E":
                raise Gone(_error(body)[1])
            (step,) = struct.unpack(">i", body[:4])
            if step == AUTHENTICATED:
                return
            if step == SASL:
                first = b"n,," + client_first
                response = b"SCRAM-SHA-256\0" + struct.pack(">i", len(first)) + first
            elif step == SASL_CONTINUE:
                server_first = body[4:]
                response, signature = _final(password, client_first, server_first)
            else:
                assert step == SASL_FINAL and body[4:] == b"v=" + base64.b64encode(signature)
                continue
            self._socket.sendall(_message(b"p", response))

    def _answer(self, start: float, rows: list[bytes] | None = None) -> Answer:
        state, message, taken = None, "", 0
        while True:
            try:
                kind, body = self._message()
            except Gone as gone:
                raise Gone(f"after {state}: {message}" if state else "without a word") from gone
            taken += len(body)
            if kind == b"Z":
                return Answer(state, message, time.monotonic() - start)
            if kind == b"E":
                state, message = _error(body)
            elif kind == b"D" and rows is not None:
                rows.append(body)
            if taken > ANSWER_BYTES_MAX:
                self.close()
                return Answer(state, message, time.monotonic() - start, is_whole=False)

    def _message(self) -> tuple[bytes, bytes]:
        (kind, length) = struct.unpack(">ci", self._take(5))
        if length - 4 > ANSWER_BYTES_MAX:
            return kind, self._skip(length - 4)
        return kind, self._take(length - 4)

    def _skip(self, length: int) -> bytes:
        while length > 0:
            length -= len(self._take(min(length, 1 << 20)))
        return bytes(ANSWER_BYTES_MAX + 1)

    def _take(self, length: int) -> bytes:
        while len(self._received) < length:
            piece = self._socket.recv(1 << 20)
            if not piece:
                raise Gone
            self._received += piece
        taken = bytes(self._received[:length])
        del self._received[:length]
        return taken


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack(">i", 4 + len(body)) + body


def _error(body: bytes) -> tuple[str, str]:
    fields = {field[:1]: field[1:].decode(errors="replace") for field in body.split(b"\0") if field}
    return fields[b"C"], fields[b"M"]


def _first(row: bytes) -> str | None:
    (length,) = struct.unpack(">i", row[2:6])
    return None if length < 0 else row[6 : 6 + length].decode()


def _final(password: str, client_first: bytes, server_first: bytes) -> tuple[bytes, bytes]:
    """Return the client's proof, and the signature by which the server will prove itself."""
    parts = dict(part.split(b"=", 1) for part in server_first.split(b","))
    without_proof = b"c=biws,r=" + parts[b"r"]
    signed = b",".join((client_first, server_first, without_proof))
    salt = base64.b64decode(parts[b"s"])
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, int(parts[b"i"]))
    key = _hmac(salted, b"Client Key")
    proof = bytes(a ^ b for a, b in zip(key, _hmac(hashlib.sha256(key).digest(), signed), strict=True))
    signature = _hmac(_hmac(salted, b"Server Key"), signed)
    return without_proof + b",p=" + base64.b64encode(proof), signature


def _hmac(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")
