"""A server that sends what a real one has sent, with changes."""

import contextlib
import socket
import struct
import threading

# The server leaves when no request has come for so long: after a change both sides may wait for each other.
SILENCE_SECONDS = 0.15
# Numbers at the edges of what lengths and counts are.
EDGES = [0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x3FFFFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]


def receive_exactly(stream, length):
    data = b""
    while len(data) < length:
        part = stream.recv(length - len(data))
        if not part:
            raise ConnectionError
        data += part
    return data


def read_request(stream, is_first):
    """What a client sends up to the end of a request: the first message, Sync, or a query."""
    request = b""
    while True:
        kind = b"" if is_first else receive_exactly(stream, 1)
        length = receive_exactly(stream, 4)
        request += kind + length + receive_exactly(stream, struct.unpack(">I", length)[0] - 4)
        if is_first or kind in (b"S", b"Q", b"X"):
            return request


def messages(answer):
    """The messages of an answer: kinds and bodies."""
    found, at = [], 0
    while at < len(answer):
        length = struct.unpack_from(">I", answer, at + 1)[0]
        found.append((answer[at : at + 1], answer[at + 5 : at + 1 + length]))
        at += 1 + length
    return found


def joined(parts):
    return b"".join(kind + struct.pack(">I", len(body) + 4) + body for kind, body in parts)


class Passed(threading.Thread):
    """One connection that is passed on to a server, up to a number of the server's messages: then both ends
    are gone, without a farewell.
    """

    def __init__(self, port, messages=None):
        super().__init__()
        self.server_port = port
        self.left = messages
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        # What the server has said to each request.
        self.answers = []
        self.start()

    def run(self):
        with self.listener, contextlib.suppress(OSError):
            client, _ = self.listener.accept()
            with client, socket.create_connection(("127.0.0.1", self.server_port)) as server:
                self.pass_on(client, server)
                for end in (client, server):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def pass_on(self, client, server):
        with contextlib.suppress(OSError):
            while True:
                server.sendall(read_request(client, not self.answers))
                self.answers.append(b"")
                kind = b""
                # ReadyForQuery ends an answer.
                while kind != b"Z":
                    if self.left == 0:
                        return
                    header = receive_exactly(server, 5)
                    message = header + receive_exactly(server, struct.unpack(">I", header[1:])[0] - 4)
                    self.answers[-1] += message
                    client.sendall(message)
                    kind = header[:1]
                    if self.left is not None:
                        self.left -= 1


def record(port, use):
    """The answers of the server at a port to each request that `use` makes through another port."""
    passed = Passed(port)
    use(passed.port)
    passed.join()
    # The last request was Terminate.
    return [answer for answer in passed.answers if answer]


def replay(listener, answers):
    """Serves one client: each answer after a request. Then the connection ends."""
    with contextlib.suppress(OSError):
        stream, _ = listener.accept()
        with stream:
            stream.settimeout(SILENCE_SECONDS)
            for index, answer in enumerate(answers):
                read_request(stream, index == 0)
                stream.sendall(answer)


def changed(random, data):
    """Bytes with one to three changes, each of which cuts, doubles, drops or overwrites some of them."""
    data = bytearray(data)
    for _ in range(random.randint(1, 3)):
        if not data:
            break
        at = random.randrange(len(data))
        length = min(random.choice([1, 1, 2, 4, 8, 64]), len(data) - at)
        match random.randrange(6):
            case 0:
                data[at] = random.randrange(256)
            case 1:
                data[at] ^= 1 << random.randrange(8)
            case 2:
                place = slice(at, at + 4)
                data[place] = struct.pack(random.choice("<>") + "I", random.choice(EDGES))[: len(data[place])]
            case 3:
                del data[at : at + length]
            case 4:
                data[at:at] = data[at : at + length]
            case 5:
                del data[at:]
    return bytes(data)


def changed_frame(random, frame):
    """A frame (docs/protocol.md, §2) whose body is changed, with the length that it has then."""
    header, body = frame[4:8], changed(random, frame[8:])
    return struct.pack("<I", len(body)) + header + body
