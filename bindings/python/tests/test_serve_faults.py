"""A killed server or client, a full disk, and a process that may open no more files."""

import contextlib
import os
import resource
import subprocess
import sys
import textwrap
import threading

import hypostyle
import numpy as np
import pyarrow as pa
import pytest
from served import DEADLINE, is_running, later, needs_program, promptly, run, serve, sessions, start, until

pytestmark = needs_program

LISTEN = ("--listen", "127.0.0.1:0")
SCHEMES = pytest.mark.parametrize("scheme", ["hypostyle", "hypostyle+unix"])

# 80 MB that no codec makes shorter: more than a client lets a server send before it reads.
LARGE = "select random() as x from generate_series(1, 10000000)"

BATCH_ROWS = 100_000


class Rows:
    """Batches of 800 kB for an append, created one by one."""

    def __init__(self, batches):
        self._batches = batches

    def __arrow_c_stream__(self, requested_schema=None):
        schema = pa.schema([("x", pa.int64())])
        return pa.RecordBatchReader.from_batches(schema, self._batches).__arrow_c_stream__(requested_schema)


def batch(number):
    first = number * BATCH_ROWS
    return pa.record_batch({"x": pa.array(np.arange(first, first + BATCH_ROWS))})


def check(con):
    """Check that the database is sound."""
    assert con.sql("check database").fetchall() == []


def child(program, *arguments):
    """Start a process that runs a Python program."""
    return start(sys.executable, "-c", textwrap.dedent(program), *arguments)


# A server that is killed


@pytest.mark.parametrize("options", ["", "?streams=3"])
@SCHEMES
def test_a_server_killed_in_mid_stream_is_an_error_and_no_short_result(tmp_path, scheme, options):
    with (
        serve(tmp_path, *LISTEN, "--unix", tmp_path / "socket") as served,
        hypostyle.connect(served.places[scheme] + options) as con,
    ):
        result = con.sql(LARGE)
        served.kill()
        for use in (lambda: len(result), result.fetchall, lambda: con.sql("select 1"), con.tables):
            with pytest.raises(hypostyle.ServerConnectionError, match="connection") as error:
                promptly(use)
            assert error.value.sqlstate.startswith("08")


@SCHEMES
def test_batches_of_a_server_that_is_killed_end_in_an_error(tmp_path, scheme):
    with (
        serve(tmp_path, *LISTEN, "--unix", tmp_path / "socket") as served,
        served.connect(scheme) as con,
    ):
        batches = con.sql(LARGE).batches()
        rows = batches.read_next_batch().num_rows
        served.kill()

        def rest():
            for found in batches:
                nonlocal rows
                rows += found.num_rows

        with pytest.raises(hypostyle.ServerConnectionError, match="closed the connection"):
            promptly(rest)
        assert rows < 10_000_000


def test_a_server_that_is_there_again_does_not_know_the_session(tmp_path):
    with serve(tmp_path, *LISTEN, database=tmp_path / "t.hypo") as served, served.connect() as con:
        con.execute("create table t as select 1 as x")
        con.execute("begin")
        con.execute("insert into t values (2)")
        result = con.sql(LARGE)
        place = ("--listen", f"127.0.0.1:{served.port('hypostyle')}")
        served.kill()
        with serve(tmp_path, *place, database=tmp_path / "t.hypo") as again:
            with pytest.raises(hypostyle.ServerConnectionError, match="could not be resumed"):
                promptly(lambda: len(result))
            with pytest.raises(hypostyle.ServerConnectionError, match="connect again"):
                promptly(con.commit)
            with again.connect() as other:
                assert other.table("t").fetchall() == [(1,)]
                check(other)


@SCHEMES
def test_a_server_killed_in_mid_append_has_appended_nothing(tmp_path, scheme):
    half_way, go_on = threading.Event(), threading.Event()

    def batches():
        # This is more than the server lets a client send before it has taken some.
        yield from map(batch, range(40))
        half_way.set()
        assert go_on.wait(DEADLINE)
        yield from map(batch, range(40, 80))

    options = (*LISTEN, "--unix", tmp_path / "socket")
    with serve(tmp_path, *options, database=tmp_path / "t.hypo") as served, served.connect(scheme) as con:
        con.append("t", Rows(map(batch, range(2))), create=True)
        append = later(lambda: con.append("t", Rows(batches())))
        assert half_way.wait(DEADLINE)
        served.kill()
        go_on.set()
        with pytest.raises(hypostyle.ServerConnectionError):
            append.result(timeout=DEADLINE)
    with serve(tmp_path, *options, database=tmp_path / "t.hypo") as served, served.connect(scheme) as con:
        assert con.sql("select count(*) as n, max(x) as m from t").fetchone() == (200_000, 199_999)
        check(con)
        assert con.append("t", Rows(map(batch, range(2, 4)))) == 200_000
        assert con.sql("select sum(x) as s from t").fetchone() == (400_000 * 399_999 // 2,)


@pytest.mark.parametrize("options", ["", "(FORMAT csv)", "(FORMAT binary)"])
def test_a_server_killed_in_mid_copy_has_copied_nothing(tmp_path, options):
    psycopg = pytest.importorskip("psycopg")
    place = tmp_path / "t.hypo"
    with serve(tmp_path, "--pgwire", "127.0.0.1:0", database=place) as served:
        address = f"host=127.0.0.1 port={served.port('postgresql')} user=ada"
        with psycopg.connect(address, autocommit=True) as pg:
            pg.execute("create table t (x bigint)")
            pg.execute("insert into t values (7)")
            with (
                pytest.raises(psycopg.OperationalError),
                pg.cursor() as cursor,
                cursor.copy(f"copy t from stdin {options}") as copy,
            ):
                copy.set_types(["int8"])
                for x in range(1_000_000):
                    copy.write_row((x,)) if options != "(FORMAT csv)" else copy.write(f"{x}\n")
                    if x == 300_000:
                        served.kill()
    with hypostyle.connect(place) as con:
        assert con.table("t").fetchall() == [(7,)]
        check(con)


def append_to_a_server_that_is_killed(served, con, seconds):
    """Say whether rows were appended to a server that is killed some time after it was sent the
    last.
    """
    last = threading.Event()

    def batches():
        yield from map(batch, range(4))
        last.set()

    append = later(lambda: con.append("t", Rows(batches())))
    assert last.wait(DEADLINE)
    with contextlib.suppress(TimeoutError):
        append.exception(timeout=seconds)
    served.kill()
    try:
        return append.result(timeout=DEADLINE) == 4 * BATCH_ROWS
    except hypostyle.ServerConnectionError:
        return False


def test_a_server_killed_while_it_commits_has_appended_all_or_nothing(tmp_path):
    before, options = 0, ("--unix", tmp_path / "socket")
    for moment in range(6):
        with (
            serve(tmp_path, *options, database=tmp_path / "t.hypo") as served,
            served.connect("hypostyle+unix") as con,
        ):
            con.execute("create table if not exists t (x bigint)")
            is_done = append_to_a_server_that_is_killed(served, con, 0.002 * moment)
        with hypostyle.connect(tmp_path / "t.hypo") as con:
            check(con)
            (after,) = con.sql("select count(*) as n from t").fetchone()
        all_rows = before + 4 * BATCH_ROWS
        assert after == all_rows or (after == before and not is_done)
        before = after


# A client that is killed


READER = f"""
    import sys, hypostyle
    con = hypostyle.connect(sys.argv[1])
    con.execute("create temporary table mine as select 1 as x")
    result = con.sql({LARGE!r})
    print("reading", flush=True)
    sys.stdin.read()
"""

WRITER = """
    import sys, hypostyle
    import numpy as np, pyarrow as pa
    class Rows:
        def __arrow_c_stream__(self, requested_schema=None):
            batch = pa.record_batch({"x": pa.array(np.arange(100_000))})
            def batches():
                for number in range(80):
                    if number == 40:
                        print("appending", flush=True)
                        sys.stdin.read()
                    yield batch
            reader = pa.RecordBatchReader.from_batches(batch.schema, batches())
            return reader.__arrow_c_stream__(requested_schema)
    con = hypostyle.connect(sys.argv[1])
    con.append("t", Rows())
"""


@pytest.mark.parametrize(("program", "word"), [(READER, "reading"), (WRITER, "appending")])
@SCHEMES
def test_a_server_goes_on_when_a_client_is_killed(tmp_path, scheme, program, word):
    options = (*LISTEN, "--unix", tmp_path / "socket", "--resume-timeout", "1")
    with (
        serve(tmp_path, *options, database=tmp_path / "t.hypo") as served,
        served.connect() as con,
        child(program, served.places[scheme]) as client,
    ):
        con.append("t", Rows(map(batch, range(1))), create=True)
        assert client.stdout.readline() == f"{word}\n"
        assert len(sessions(con)) == 1
        client.kill()
        until(lambda: not sessions(con))
        assert con.sql("select count(*) as n, max(x) as m from t").fetchone() == (100_000, 99_999)
        check(con)
        with served.connect(scheme) as other:
            assert other.append("t", Rows(map(batch, range(1, 2)))) == 100_000
            assert other.sql("select count(*) as n from t").fetchone() == (200_000,)


def test_a_statement_of_a_client_that_is_killed_ends(tmp_path):
    program = """
        import sys, hypostyle
        con = hypostyle.connect(sys.argv[1])
        con.sql(sys.argv[2]).fetchall()
    """
    endless = "select count(*) from t a, t b, t c where a.x * b.x + c.x = -7"
    with serve(tmp_path, *LISTEN, "--resume-timeout", "0") as served, served.connect() as con:
        con.execute("create table t as select value as x from generate_series(1, 50000) as g (value)")
        with child(program, served.tcp, endless) as client:
            until(lambda: is_running(con, endless))
            client.kill()
            until(lambda: not sessions(con))
        # This includes the threads that the other one had.
        row = promptly(lambda: con.sql("select count(*) as n from t where x > 5").fetchone())
        assert row == (49_995,)


# A disk that is full


@pytest.fixture
def disk(tmp_path):
    """A file system of 24 MB."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", place], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("no small file system can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def fill(disk, leave):
    """Write a file that leaves some bytes of the disk free."""
    filler, space = disk / "filler", os.statvfs(disk)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, space.f_bavail * space.f_frsize - leave)
    return filler


@SCHEMES
def test_a_disk_that_is_full_refuses_an_append_and_keeps_the_rest(tmp_path, disk, scheme):
    options = (*LISTEN, "--unix", tmp_path / "socket")
    with serve(tmp_path, *options, database=disk / "t.hypo") as served, served.connect(scheme) as con:
        con.append("t", Rows(map(batch, range(2))), create=True)
        filler = fill(disk, 4 << 20)
        for attempt in range(3):
            with pytest.raises(hypostyle.DiskFullError, match="No space left") as error:
                promptly(lambda: con.append("t", Rows(map(batch, range(2, 12)))))
            assert error.value.sqlstate == "53100", attempt
            assert con.sql("select count(*) as n, sum(x) as s from t").fetchone() == (
                200_000,
                200_000 * 199_999 // 2,
            )
        # Few rows fit, so the space of the failed ones was given back.
        con.execute("insert into t values (-1)")
        check(con)
        filler.unlink()
        assert con.append("t", Rows(map(batch, range(2, 12)))) == 1_000_000
        assert con.sql("select count(*) as n, max(x) as m from t").fetchone() == (1_200_001, 1_199_999)
        check(con)
        served.kill()
    with hypostyle.connect(disk / "t.hypo") as con:
        assert con.sql("select count(*) as n, min(x) as m from t").fetchone() == (1_200_001, -1)


def test_a_full_disk_ends_a_transaction_of_a_client_and_not_its_connection(tmp_path, disk):
    with serve(tmp_path, *LISTEN, database=disk / "t.hypo") as served, served.connect() as con:
        con.append("t", Rows(map(batch, range(1))), create=True)
        filler = fill(disk, 2 << 20)
        with pytest.raises(hypostyle.DiskFullError) as error, con.transaction():
            con.execute("update t set x = -1 where x < 10")
            con.execute("insert into t select value from generate_series(1, 5000000) as g (value)")
        assert error.value.sqlstate == "53100"
        assert not con.in_transaction
        assert con.sql("select count(*) as n, min(x) as m from t").fetchone() == (100_000, 0)
        filler.unlink()
        assert con.sql("insert into t select value from generate_series(1, 50000) as g (value)").rows_affected
        assert con.sql("select count(*) as n from t").fetchone() == (150_000,)
        check(con)


def test_a_full_disk_refuses_checkpoints_and_compaction_and_loses_nothing(tmp_path, disk):
    with serve(tmp_path, *LISTEN, database=disk / "t.hypo") as served, served.connect() as con:
        con.append("t", Rows(map(batch, range(8))), create=True)
        con.execute("delete from t where x % 2 = 0")
        for value in range(20):
            con.execute("insert into t values (?)", (-value - 1,))
        expected = (400_020, sum(range(1, 800_000, 2)) - sum(range(1, 21)))
        filler = fill(disk, 0)
        statements = ["vacuum t", "checkpoint", "alter table t add column y bigint default 7"]
        for statement in statements * 2:
            with pytest.raises(hypostyle.DiskFullError) as error:
                promptly(lambda statement=statement: con.execute(statement))
            assert error.value.sqlstate == "53100", statement
            assert con.sql("select count(*) as n, sum(x) as s from t").fetchone() == expected
            check(con)
        filler.unlink()
        for statement in statements:
            con.execute(statement)
        assert con.sql("select count(*) as n, sum(x) as s, min(y) as y from t").fetchone() == (*expected, 7)
        check(con)
        served.kill()
    with hypostyle.connect(disk / "t.hypo") as con:
        assert con.sql("select count(*) as n, sum(x) as s, max(y) as y from t").fetchone() == (*expected, 7)
        check(con)


def test_rows_and_tables_can_be_removed_on_a_full_disk(tmp_path, disk):
    with hypostyle.connect(disk / "t.hypo") as con:
        con.append("large", {"x": np.random.default_rng(7).integers(0, 1 << 60, 1_000_000)}, create=True)
        con.execute("create table small as select 1 as x")
        con.execute("checkpoint")
        filler = fill(disk, 0)
        with pytest.raises(hypostyle.DiskFullError):
            while True:
                con.execute("insert into small values (2)")
        rows = con.sql("select count(*) as n from small").fetchone()[0]
        con.execute("delete from small where x = 1")
        con.execute("truncate small")
        con.execute("drop table large")
        # Its data is there for others.
        con.append("next", {"x": np.arange(500_000)}, create=True)
        assert con.sql("select count(*) as n, sum(x) as s from next").fetchone() == (500_000, 124_999_750_000)
        assert rows >= 1
        filler.unlink()
    with hypostyle.connect(disk / "t.hypo") as con:
        assert con.sql("select count(*) as n from small").fetchone() == (0,)
        check(con)


def test_a_shell_is_told_that_the_disk_is_full(tmp_path, disk):
    with serve(tmp_path, *LISTEN, database=disk / "t.hypo") as served:
        fill(disk, 1 << 20)
        done = run(served.tcp, text="create table t as select value from generate_series(1, 5000000);")
        assert (done.returncode, done.stdout) == (1, "")
        assert "Error [53100 DiskFull]: " in done.stderr


# No descriptors left


COLUMNS = 16
WIDE = ", ".join(f"value % {n + 2} as c{n}" for n in range(COLUMNS))
SUMS = [sum(value % (n + 2) for value in range(1, 20_001)) for n in range(COLUMNS)]
COMPUTED = "select c0 + 1 as a, c1 + 1 as b from wide"


def limit_files(process, free):
    """Let a process open so many files more, beside its free descriptors."""
    used = max(map(int, os.listdir(f"/proc/{process}/fd"))) + 1
    _, hard = resource.prlimit(process, resource.RLIMIT_NOFILE)
    resource.prlimit(process, resource.RLIMIT_NOFILE, (used + free, hard))


def unlimit_files(process):
    _, hard = resource.prlimit(process, resource.RLIMIT_NOFILE)
    resource.prlimit(process, resource.RLIMIT_NOFILE, (hard, hard))


def test_a_server_without_descriptors_gives_right_results_or_says_why(tmp_path):
    options = ("--unix", tmp_path / "socket")
    with (
        serve(tmp_path, *options, database=tmp_path / "t.hypo") as served,
        served.connect("hypostyle+unix") as con,
    ):
        con.execute(f"create table wide as select {WIDE} from generate_series(1, 20000) as g (value)")
        con.execute("checkpoint")
        con.execute("create table kept (n integer)")

        def columns():
            result = con.table("wide")
            assert [result[name].sum() for name in result.columns] == SUMS
            return "mapped" if result.statistics.mapped else "bytes"

        def computed():
            result = con.sql(COMPUTED)
            assert [result[name].sum() for name in result.columns] == [total + 20_000 for total in SUMS[:2]]
            return "computed"

        def insert():
            assert con.sql("insert into kept values (1)").rows_affected == 1
            return "inserted"

        def outcome(work):
            try:
                return work()
            except hypostyle.OperationalError as error:
                assert "Too many open files" in str(error), error
                return "refused"

        seen = []
        for free in range(2 * COLUMNS):
            limit_files(served.process.pid, free)
            seen += [outcome(work) for work in (columns, computed, insert)]
        assert {"refused", "bytes"} & set(seen) and seen[-3:] == ["mapped", "computed", "inserted"], seen
        unlimit_files(served.process.pid)
        assert (columns(), computed()) == ("mapped", "computed")
        assert con.sql("select count(*) as n from kept").fetchone() == (seen.count("inserted"),)
        check(con)


def test_a_server_that_was_started_with_few_descriptors_serves_wide_tables(tmp_path):
    options = (*LISTEN, "--unix", tmp_path / "socket")
    few = ("prlimit", "--nofile=64:64")
    with serve(tmp_path, *options, database=tmp_path / "t.hypo", before=few) as served:
        assert resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE) == (64, 64)
        with served.connect("hypostyle+unix") as local, served.connect() as con:
            con.execute(f"create table wide as select {WIDE} from generate_series(1, 20000) as g (value)")
            con.execute("checkpoint")
            for connection in (local, con, local):
                result = connection.table("wide")
                assert [result[name].sum() for name in result.columns] == SUMS


def test_a_server_that_may_accept_nobody_goes_on_and_accepts_who_waits(tmp_path):
    refused = "a client could not be accepted"
    with (
        serve(tmp_path, *LISTEN, "--unix", tmp_path / "socket") as served,
        served.connect("hypostyle+unix") as con,
        contextlib.ExitStack() as others,
    ):
        con.execute("create table t as select value as x from generate_series(1, 20000) as g (value)")
        limit_files(served.process.pid, 3)
        waiting = []
        while refused not in served.log:
            waiting.append(later(served.connect))
            until(lambda: waiting[-1].done() or refused in served.log)
            assert len(waiting) < 64
        assert con.sql("select sum(x) as s from t").fetchone() == (20_000 * 20_001 // 2,)
        unlimit_files(served.process.pid)
        for future in waiting:
            other = others.enter_context(future.result(timeout=DEADLINE))
            assert other.sql("select count(*) as n from t").fetchone() == (20_000,)
        assert len(sessions(con)) == len(waiting)


CLIENT = """
    import os, resource, sys, hypostyle
    expected = eval(sys.argv[2])
    con = hypostyle.connect(sys.argv[1])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def sums(result):
        return [int(result[name].sum()) for name in result.columns]

    def look():
        result = con.table("wide")
        assert sums(result) == expected
        return result.statistics.mapped

    assert look()
    used = max(map(int, os.listdir("/proc/self/fd"))) + 1
    seen, failed = [], 0
    for free in range(2 * len(expected)):
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + free, hard))
        seen.append(look())
        try:
            computed = sums(con.sql("select c0 + 1 as a, c1 + 1 as b from wide"))
            assert computed == [total + 20_000 for total in expected[:2]]
        except hypostyle.OperationalError as error:
            assert "no descriptors left" in str(error), error
            failed += 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert look()
    # As bytes while there are too few of them, and then as mappings.
    assert seen == sorted(seen) and set(seen) == {False, True}, seen
    assert failed <= 2, failed
    con.append("wide", {name: [0] for name in con.table("wide").columns})
    print("fine")
"""


def test_a_client_without_descriptors_gets_its_results_as_bytes(tmp_path):
    with (
        serve(tmp_path, "--unix", tmp_path / "socket", database=tmp_path / "t.hypo") as served,
        served.connect("hypostyle+unix") as con,
    ):
        con.execute(f"create table wide as select {WIDE} from generate_series(1, 20000) as g (value)")
        con.execute("checkpoint")
        with child(CLIENT, served.unix, SUMS) as client:
            output, errors = client.communicate(timeout=DEADLINE)
        assert (output, errors) == ("fine\n", "")
        assert con.sql("select count(*) as n from wide").fetchone() == (20_001,)


def test_a_client_that_can_open_nothing_cannot_connect_and_says_why(tmp_path):
    program = """
        import resource, sys, hypostyle
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            hypostyle.connect(sys.argv[1])
        except hypostyle.ServerConnectionError as error:
            print(error)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        print(hypostyle.connect(sys.argv[1]).sql("select 7 as x").fetchone())
    """
    with serve(tmp_path, *LISTEN, "--unix", tmp_path / "socket") as served:
        for address in (served.unix, served.tcp):
            with child(program, address) as client:
                output, errors = client.communicate(timeout=DEADLINE)
            assert errors == ""
            why, row = output.splitlines()
            assert "Too many open files" in why and row == "(7,)"
