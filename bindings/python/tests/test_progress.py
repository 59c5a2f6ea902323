"""The progress of a statement, read while another thread waits for it."""

import os
import pty
import socket
import subprocess
import threading
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

import hypostyle
import pytest
from served import DEADLINE, ENDLESS, PROGRAM, later, needs_program, until

ROWS = 1_000_000
# Random data, so that no codec makes it short.
TABLE = f"create table big as select random() as x, random() as y from generate_series(1, {ROWS})"
BYTES = 16 * ROWS
BYTES_PER_SECOND = BYTES // 2
# A query that takes seconds and gives one row.
COMPUTED = "select max(md5(md5(x || 'a') || md5(y || 'b'))) from big"


@pytest.fixture(scope="module")
def database():
    with hypostyle.connect() as connection:
        connection.sql(TABLE)
        yield connection


@contextmanager
def slowed(address):
    """Yield the address of a relay to a server whose bytes come at a limited rate."""
    sockets = []

    def pass_on(source, target, bytes_per_second):
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
                time.sleep(len(data) / bytes_per_second)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            # One of both has gone, or the test is over.
            pass

    def serve():
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection((target.hostname, target.port))
            sockets.extend([near, far])
            for one, other, rate in ((near, far, float("inf")), (far, near, BYTES_PER_SECOND)):
                threading.Thread(target=pass_on, args=(one, other, rate), daemon=True).start()

    target = urlsplit(address)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"hypostyle://127.0.0.1:{listener.getsockname()[1]}/?streams=1"
    finally:
        # A thread that accepts keeps a listener open that is only closed.
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for each in sockets:
            each.close()
        thread.join(timeout=DEADLINE)


@pytest.fixture
def far(database):
    """A connection to the database over a slow network."""
    with (
        database.serve(listen="127.0.0.1:0") as server,
        slowed(server.addresses[0]) as address,
        hypostyle.connect(address) as connection,
    ):
        yield connection


def watched(con, work):
    """Return the result of the work, and the progress of the connection meanwhile and at its
    end.
    """
    before, seen = con.progress, []
    waiting = later(work)
    until(lambda: waiting.done() or con.progress != before)
    while not waiting.done():
        seen.append(con.progress)
        time.sleep(0.01)
    return waiting.result(), [*seen, con.progress]


def check_counts(seen):
    """Check one count: it grows up to the total, while time goes on."""
    assert [each.done for each in seen] == sorted(each.done for each in seen)
    assert [each.elapsed for each in seen] == sorted(each.elapsed for each in seen)
    for each in seen:
        assert each.total is None or 0 <= each.done <= each.total
        assert (each.fraction is None) == (each.total is None)
        assert each.remaining is None or 0 <= each.remaining < 1000


def check_end(progress, rows):
    assert (progress.done, progress.total) == (rows, rows)
    assert (progress.fraction, progress.remaining, progress.running) == (1.0, 0.0, False)
    assert 0 < progress.elapsed < DEADLINE
    assert f"{rows:,} of {rows:,} rows" in str(progress)


def test_a_transfer_of_known_length_tells_rows_and_time(far):
    assert far.progress is None
    table, seen = watched(far, lambda: far.sql("select * from big").arrow())
    assert table.num_rows == ROWS
    seen = [each for each in seen if each.receiving]
    check_counts(seen)
    check_end(seen[-1], ROWS)
    assert {each.total for each in seen} == {ROWS}
    middle = [each for each in seen if 0.2 < each.fraction < 0.8]
    assert len({each.done for each in middle}) > 3, seen
    for each in middle:
        assert each.running
        assert 0 < each.remaining < DEADLINE
    # It takes two seconds, of which most remain near the beginning, and few near the end.
    assert middle[0].remaining > middle[-1].remaining
    assert "s left" in str(middle[0])
    assert far.sql("select 1").fetchall() == [(1,)]
    check_end(far.progress, 1)


def test_a_transfer_of_unknown_length_is_as_far_as_its_computation(far):
    query = "select x, y from big union all select y, x from big where x < 0"
    table, seen = watched(far, lambda: far.sql(query).arrow())
    assert table.num_rows == ROWS
    check_end(seen.pop(), ROWS)
    computing = [each for each in seen if not each.receiving]
    receiving = [each for each in seen if each.receiving]
    check_counts(computing)
    check_counts(receiving)
    assert len({(each.receiving, each.done) for each in seen}) > 3, seen
    # The blocks of the second half show that no row is below 0.
    assert {each.total for each in computing} <= {None, ROWS}
    # The number of rows is known when the last of them has been computed.
    assert {each.total for each in receiving} <= {None, ROWS}
    assert any(each.total and each.remaining for each in computing), "there was no frame"


@pytest.fixture(params=["embedded", "unix", "tcp"])
def near(request, database, tmp_path):
    """A connection to the database, in this process or on a server."""
    if request.param == "embedded":
        with database.duplicate() as connection:
            yield connection
        return
    places = {"unix": tmp_path / "socket"} if request.param == "unix" else {"listen": "127.0.0.1:0"}
    with (
        database.serve(**places) as server,
        hypostyle.connect(server.addresses[0]) as connection,
    ):
        yield connection


def test_a_long_query_tells_the_rows_that_it_has_gone_through(near):
    assert near.progress is None
    _, seen = watched(near, lambda: near.sql(COMPUTED).fetchall())
    computing = [each for each in seen if each.running and not each.receiving]
    check_counts(computing)
    middle = [each for each in computing if each.total is not None and 0 < each.done < each.total]
    assert {each.total for each in middle} == {ROWS}, seen
    assert all(each.remaining > 0 for each in middle)
    last = near.progress
    assert (last.fraction, last.remaining, last.running) == (1.0, 0.0, False)
    assert last.done == last.total
    assert near.progress == last


def test_rows_that_are_computed_while_they_are_fetched_tell_how_far_they_are(database):
    with database.duplicate() as con:

        def fetch():
            # No batch is waited for, and all together take seconds.
            with con.cursor() as cursor:
                cursor.execute("select x, md5(y || 'a') from big union all select y, md5(x || 'b') from big")
                return sum(len(rows) for rows in iter(lambda: cursor.fetchmany(10_000), []))

        rows, seen = watched(con, fetch)
        assert rows == 2 * ROWS
        check_counts([each for each in seen if each.running])
        assert len({each.done for each in seen}) > 3
        assert {each.total for each in seen if each.total} == {2 * ROWS}
        check_end(con.progress, 2 * ROWS)


def test_an_append_tells_its_rows(near):
    rows, seen = watched(near, lambda: near.append("appended", ([i] for i in range(200_000)), create=True))
    assert rows == 200_000
    check_counts([each for each in seen if each.running])
    check_end(near.progress, 200_000)
    near.sql("drop table appended")


def test_what_was_interrupted_does_not_run_any_more(near):
    waiting = later(lambda: near.sql(ENDLESS).fetchall())
    until(lambda: near.progress and near.progress.elapsed > 0.1)
    assert near.progress.running
    near.interrupt()
    with pytest.raises(hypostyle.QueryInterrupted):
        waiting.result(timeout=DEADLINE)
    progress = near.progress
    assert not progress.running
    assert progress.remaining is None
    assert near.progress == progress


def test_a_result_that_was_let_go_does_not_run_any_more(far):
    result = far.sql("select * from big")
    assert far.progress.running
    del result
    progress = far.progress
    assert not progress.running
    assert 0 < progress.done < progress.total == ROWS


@needs_program
def test_the_shell_shows_a_bar_while_a_result_comes(database, tmp_path):
    terminal, theirs = pty.openpty()
    with database.serve(listen="127.0.0.1:0") as server, slowed(server.addresses[0]) as address:
        command = [PROGRAM, address, "--csv", "-c", "select * from big"]
        with (tmp_path / "rows.csv").open("wb") as rows:
            # Without a kind of terminal nothing is drawn.
            environment = {**os.environ, "TERM": "xterm"}
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=rows, stderr=theirs, env=environment
            )
        os.close(theirs)
        drawn = b""
        try:
            # Reading fails when nobody has the other end any more.
            while piece := os.read(terminal, 1 << 12):
                drawn += piece
        except OSError:
            pass
        finally:
            os.close(terminal)
            assert process.wait(timeout=DEADLINE) == 0
    text = drawn.decode()
    assert (tmp_path / "rows.csv").read_bytes().count(b"\n") == ROWS + 1
    assert "% " in text, text
    assert " rows, " in text
    assert " left" in text
