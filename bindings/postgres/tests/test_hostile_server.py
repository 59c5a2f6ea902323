"""Our client at a server that sends anything: each result is right or an error, without a panic, a wait that
does not end, or memory beyond what has come.
"""

import os
import random
import select
import socket
import subprocess
import sys
import time

import hostile
import pytest

from cluster import HERE, wait_until

hypostyle = pytest.importorskip("hypostyle", reason="our Python package is not installed")

# As in the tests of the Python package: the first repeats a run, the second makes it longer.
SEED, ROUNDS = "HYPOSTYLE_TEST_SEED", "HYPOSTYLE_TEST_ROUNDS"
STREAMS = 100
ANSWER_SECONDS = 20
MEMORY_BYTES = 512 << 20
QUERY = """
    SELECT n, n * 1.5::float8 AS f, (n * 1.25)::numeric(12, 2) AS d, md5((n % 700)::text) AS t,
        (n % 7)::text AS few, NULLIF(n % 5, 0) AS holes,
        (ARRAY['sad', 'ok', 'glad'])[n % 3 + 1]::feeling AS e,
        CASE WHEN n % 4 > 0 THEN ARRAY[n, NULL] END AS l, ROW(n, n::text)::couple AS p, n % 2 = 0 AS b,
        date '2000-01-01' + n AS day
    FROM generate_series(1, 3000) n
"""
TAKE = """
import hashlib, resource, sys, hypostyle
query = sys.stdin.readline().encode().decode("unicode_escape")
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + int(sys.argv[1]),) * 2)
for port in sys.stdin:
    try:
        place = f"postgres@127.0.0.1:{int(port)}/postgres"
        with hypostyle.connect(f"postgresql://{place}?sslmode=disable") as client:
            table = client.sql(query).arrow()
            table.validate(full=True)
            print("rows", hashlib.sha256(repr(table.to_pylist()).encode()).hexdigest(), flush=True)
    except hypostyle.Error as error:
        print("error", error.sqlstate, str(error).splitlines()[:1], flush=True)
"""


class Client:
    """Our client in a process of its own, whose memory is bounded."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE, str(MEMORY_BYTES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=HERE,
        )
        self.send(QUERY.encode("unicode_escape").decode())

    def send(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def answer(self):
        """What has come of the query: rows with their digest, or an error."""
        if not select.select([self.process.stdout], [], [], ANSWER_SECONDS)[0]:
            self.process.kill()
            raise AssertionError("the client waits for ever")
        line = self.process.stdout.readline()
        assert line, f"the client is gone: {self.process.stderr.read()}"
        return line.split()

    def close(self):
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def client():
    client = Client()
    yield client
    client.close()


@pytest.fixture(scope="module")
def recorded(cluster):
    """The answers of a server, and the digest of the result."""
    with cluster.connect() as connection:
        connection.execute("CREATE TYPE feeling AS ENUM ('sad', 'ok', 'glad')")
        connection.execute("CREATE TYPE couple AS (x int, y text)")
        client, digests = Client(), []

        def use(port):
            client.send(port)
            digests.append(client.answer())

        answers = hostile.record(cluster.port, use)
        client.close()
        yield answers, digests[0]
        connection.execute("DROP TYPE feeling, couple")


def result_of(client, answers):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client.send(listener.getsockname()[1])
        hostile.replay(listener, answers)
    return client.answer()


def seeds():
    first = int(os.environ.get(SEED) or time.time_ns())
    for seed in range(first, first + int(os.environ.get(ROUNDS) or 1)):
        print(f"{SEED}={seed}")
        yield random.Random(seed)


def test_what_was_recorded_is_the_result(client, recorded):
    answers, digest = recorded
    assert digest[0] == "rows"
    frames = [body for kind, body in hostile.messages(answers[-1]) if kind == b"d"]
    assert len(frames) > 3, "a Result, dictionaries, chunks and Done"
    assert result_of(client, answers) == digest


def test_any_byte_of_a_session_may_be_another(client, recorded):
    answers, digest = recorded
    errors = 0
    for chosen in seeds():
        for _ in range(STREAMS):
            mutated = list(answers)
            # The last answer has the frames.
            at = chosen.choice([len(answers) - 1, chosen.randrange(len(answers))])
            mutated[at] = hostile.changed(chosen, answers[at])
            errors += result_of(client, mutated)[0] == "error"
    assert errors > 0
    assert result_of(client, answers) == digest


def test_a_frame_that_is_changed_is_never_a_wrong_result(client, recorded):
    """The messages around are right, so that the change gets as far as it can."""
    answers, digest = recorded
    *before, last = answers
    parts = hostile.messages(last)
    frames = [index for index, (kind, _) in enumerate(parts) if kind == b"d"]
    errors = 0
    for chosen in seeds():
        for _ in range(STREAMS):
            mutated = list(parts)
            index = chosen.choice(frames[1:])
            mutated[index] = (b"d", hostile.changed_frame(chosen, parts[index][1]))
            came = result_of(client, [*before, hostile.joined(mutated)])
            assert came == digest or came[0] == "error", came
            errors += came[0] == "error"
    assert errors > 0


def test_a_connection_may_end_after_every_message(cluster, client, recorded):
    """Both sides are as before: the client has an error, and the server no session that is left over."""
    answers, digest = recorded
    total = sum(len(hostile.messages(answer)) for answer in answers)
    with cluster.connect() as watcher:
        for count in range(total):
            passed = hostile.Passed(cluster.port, count)
            client.send(passed.port)
            came = client.answer()
            passed.join()
            # The end of the last answer is ReadyForQuery, after the result.
            assert came[0] == "error" or (count == total - 1 and came == digest), (count, came)
        # There is one, of `recorded`.
        others = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> %s"
        wait_until(lambda: watcher.execute(others, [watcher.info.backend_pid]).fetchone() == (1,))
        whole = hostile.Passed(cluster.port)
        client.send(whole.port)
        assert client.answer() == digest
