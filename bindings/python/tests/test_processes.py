"""Many processes with one database: what each sees, and what survives when one of them dies."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ProcessPoolExecutor

import hypostyle
import numpy as np
import pytest

ACCOUNTS = 10
BALANCE = 100
TRANSFERS = 25


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def run(program: str, *arguments: object) -> str:
    """Return the output of another process, which must succeed."""
    with start(program, *arguments) as child:
        try:
            output, errors = child.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            # This includes the children that it has forked.
            os.killpg(child.pid, signal.SIGKILL)
            raise
    assert child.returncode == 0, errors
    return output


def elsewhere(directory, *statements: str) -> None:
    """Run statements in another process."""
    program = """
        import sys, hypostyle
        with hypostyle.connect(sys.argv[1]) as con:
            for statement in sys.argv[2:]:
                con.execute(statement)
    """
    run(program, directory, *statements)


def transfer(directory: str, process: int) -> int:
    """Move money between accounts, record each transfer, and take one order off the queue."""
    decide = random.Random(process)
    with hypostyle.connect(directory) as con:

        def work(con, source, target, amount):
            con.execute("update account set balance = balance - ? where id = ?", [amount, source])
            con.execute("update account set balance = balance + ? where id = ?", [amount, target])
            con.execute("insert into journal values (?, ?, ?)", [source, target, amount])
            ((order,),) = con.execute("select min(id) as id from queue").fetchall()
            return con.execute("delete from queue where id = ?", [order]).rows_affected

        done = 0
        for _ in range(TRANSFERS):
            source, target = decide.sample(range(ACCOUNTS), 2)
            choice = (source, target, decide.randrange(1, 20))
            done += con.run_transaction(lambda con, choice=choice: work(con, *choice), attempts=1000)
        return done


def audit(directory: str, transfers: int) -> int:
    """Read until all transfers are there; every state on the way must add up."""
    totals = (
        "select (select sum(balance) from account), "
        "(select count(*) from journal), (select count(*) from queue)"
    )
    reads = 0
    with hypostyle.connect(directory, read_only=True) as con:
        while True:
            balance, made, waiting = con.sql(totals).fetchone()
            assert (balance, made + waiting) == (ACCOUNTS * BALANCE, transfers)
            reads += 1
            if made == transfers:
                return reads


def test_transfers_by_many_processes_add_up(directory):
    writers, readers = 3, 2
    transfers = writers * TRANSFERS
    con = hypostyle.connect(directory)
    con.append("account", {"id": np.arange(ACCOUNTS), "balance": np.full(ACCOUNTS, BALANCE)}, create=True)
    con.append("queue", {"id": np.arange(transfers)}, create=True)
    con.execute("create table journal (source bigint, target bigint, amount bigint)")
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(writers + readers, spawn) as pool:
        reading = [pool.submit(audit, os.fspath(directory), transfers) for _ in range(readers)]
        writing = [pool.submit(transfer, os.fspath(directory), process) for process in range(writers)]
        assert [future.result(timeout=120) for future in writing] == [TRANSFERS] * writers
        assert all(future.result(timeout=120) > 1 for future in reading)
    balances = dict(con.sql("select id, balance from account").fetchall())
    expected = dict.fromkeys(range(ACCOUNTS), BALANCE)
    for source, target, amount in con.table("journal").fetchall():
        expected[source] -= amount
        expected[target] += amount
    assert balances == expected


def test_a_transaction_keeps_its_snapshot(directory):
    con = hypostyle.connect(directory)
    con.append("t", {"x": np.arange(1000)}, create=True)
    question = "select count(*) as n, sum(x) as s from t"
    con.execute("begin")
    before = con.sql(question).fetchone()
    elsewhere(directory, "insert into t values (5000)", "delete from t where x < 10")
    assert con.sql(question).fetchone() == before
    elsewhere(directory, "update t set x = x + 1", "checkpoint")
    assert con.sql(question).fetchone() == before
    con.execute("insert into t values (7)")
    assert con.sql(question).fetchone() == (before[0] + 1, before[1] + 7)
    con.execute("commit")
    assert con.sql(question).fetchone() == (992, before[1] - 45 + 5000 + 991 + 7)


def test_the_first_committer_of_two_processes_wins(directory):
    con = hypostyle.connect(directory)
    con.execute("create table t as select 1 as id, 10 as x")
    con.execute("begin")
    con.execute("update t set x = x + 1 where id = 1")
    elsewhere(directory, "update t set x = x * 5 where id = 1")
    with pytest.raises(hypostyle.ConflictError) as error:
        con.execute("commit")
    assert error.value.sqlstate == "40001"
    con.run_transaction(lambda con: con.execute("update t set x = x + 1 where id = 1"))
    assert con.sql("select x from t").fetchall() == [(51,)]


@pytest.mark.parametrize("end", ["drop table t", "truncate t", "update t set x = -1"])
def test_results_stay_valid_whatever_another_process_does(directory, end):
    con = hypostyle.connect(directory)
    numbers = np.arange(300_000)
    con.append("t", {"x": numbers}, create=True)
    result = con.table("t")
    array = result["x"]
    fill = "insert into other select value from generate_series(1, 300000) as g (value)"
    elsewhere(directory, end, "create table other (x bigint)", fill, "checkpoint", "vacuum")
    assert (array == numbers).all()
    assert result.fetchall()[-1] == (299_999,)
    assert con.sql("select count(*) as n from other").fetchone() == (300_000,)


def test_a_killed_writer_loses_nothing_and_blocks_nobody(directory):
    program = """
        import sys, hypostyle
        con = hypostyle.connect(sys.argv[1])
        first = int(sys.argv[2])
        for n in range(first, first + 1_000_000):
            con.execute("begin")
            con.execute("insert into t values (?, 'first')", [n])
            con.execute("insert into t values (?, 'second')", [n])
            if n % 10 == 3:
                con.execute("update t set s = upper(s) where n = ?", [n])
            con.execute("commit")
            print(n, flush=True)
    """
    con = hypostyle.connect(directory)
    con.execute("create table t (n bigint, s varchar)")
    rows = "select n, count(*) as c, count(distinct s) as d from t group by n order by n"
    first = 0
    for commits in (5, 30, 80):
        child = start(program, directory, first)
        with child:
            acknowledged = [int(child.stdout.readline()) for _ in range(commits)]
            # Its next commits are in progress.
            child.kill()
            acknowledged += [int(line) for line in child.stdout]
        begun = time.monotonic()
        con.execute("insert into t values (-1, 'mine')")
        con.execute("delete from t where n = -1")
        assert time.monotonic() - begun < 10
        last = acknowledged[-1]
        found = con.sql(rows).fetchall()
        # The commit that was not acknowledged is there as a whole, or not at all.
        assert found in ([(n, 2, 2) for n in range(end)] for end in (last + 1, last + 2))
        with hypostyle.connect(directory, read_only=True) as reader:
            assert reader.sql(rows).fetchall() == found
        first = len(found)


def test_a_child_of_fork_is_refused_and_its_parent_is_not(directory):
    program = """
        import os, sys, hypostyle
        con = hypostyle.connect(sys.argv[1])
        con.execute("create table t as select 1 as x")
        beside, reading = con.duplicate(), con.duplicate()
        numbers = "select value from generate_series(1, 200000) as g (value) where value % 2 = 0"
        half = con.duplicate().sql(numbers)
        con.execute("begin")
        con.execute("insert into t values (2)")
        con.execute("create table u as select value from generate_series(1, 200000) as g (value)")
        reading.execute("begin")
        child = os.fork()
        if child == 0:
            uses = [
                lambda: beside.sql("select * from t").fetchall(),
                lambda: beside.execute("insert into t values (3)"),
                lambda: reading.sql("select * from t").fetchall(),
                lambda: con.execute("insert into t values (4)"),
                # What is computed while it is fetched: by threads, which the child does not have.
                lambda: half.fetchall(),
            ]
            for use in uses:
                try:
                    use()
                except hypostyle.Error as error:
                    print("fork" in str(error))
            try:
                con.execute("commit")
            except hypostyle.Error:
                print("not committed", flush=True)
            # As a child that ends in the ordinary way, with its objects.
            sys.exit()
        assert os.waitpid(child, 0)[1] == 0
        con.execute("insert into t values (5)")
        con.execute("commit")
        beside.execute("insert into t values (6)")
        print(con.sql("select x from t order by x").fetchall())
    """
    expected = ["True"] * 5 + ["not committed", "[(1,), (2,), (5,), (6,)]"]
    assert run(program, directory).splitlines() == expected
    with hypostyle.connect(directory) as con:
        # The child did not clean up after its parent.
        assert con.sql("select sum(value) as s from u").fetchone() == (200_000 * 200_001 // 2,)


def test_a_damaged_database_beside_a_sound_one(tmp_path):
    with hypostyle.connect(tmp_path / "sound") as sound, hypostyle.connect(tmp_path / "damaged") as damaged:
        for con in (sound, damaged):
            con.append("t", {"x": np.arange(200_000)}, create=True)
        for file in (tmp_path / "damaged" / "columns").glob("*/*.values"):
            with file.open("r+b") as values:
                values.seek(800_000)
                values.write(b"damage")
        with pytest.raises(hypostyle.CorruptionError, match='column "x"'):
            damaged.sql("select sum(x) as s from t where x >= 0").fetchall()
        assert sound.sql("select count(*) as n from t where x >= 0").fetchone() == (200_000,)
        sound.execute("insert into t values (-1)")
    for catalog in (tmp_path / "damaged").glob("catalog-*"):
        catalog.write_bytes(b"damage")
    with hypostyle.connect(tmp_path / "sound") as sound:
        with pytest.raises(hypostyle.CorruptionError):
            hypostyle.connect(tmp_path / "damaged")
        assert sound.sql("select min(x) as x from t").fetchone() == (-1,)


def test_a_child_of_fork_does_not_speak_for_a_client(tmp_path):
    """A connection to a server is one socket: two processes would take each other's answers."""
    program = """
        import os, sys, hypostyle
        con = hypostyle.connect(sys.argv[1])
        con.begin()
        # More than a server sends ahead: what has come already could be read.
        result = con.sql("select value from generate_series(1, 10000000) as g (value)")
        child = os.fork()
        if child == 0:
            for use in (lambda: con.sql("select 1"), lambda: con.tables(), lambda: result.arrow()):
                try:
                    use()
                except hypostyle.ClosedError as error:
                    print("fork" in str(error), flush=True)
            sys.exit()
        assert os.waitpid(child, 0)[1] == 0
        print(result.arrow().num_rows, con.sql("select 2 as x").fetchall(), con.in_transaction)
    """
    with hypostyle.connect() as own, own.serve(listen="127.0.0.1:0", unix=tmp_path / "socket") as server:
        for address in server.addresses:
            assert run(program, address).splitlines() == ["True"] * 3 + ["10000000 [(2,)] True"]


def test_a_directory_that_was_renamed_is_the_same_database(tmp_path):
    """Its process continues in it, and does nothing to another directory that has its name by
    then.
    """
    path, backup, aside = tmp_path / "db", tmp_path / "backup", tmp_path / "aside"
    with hypostyle.connect(path) as con:
        con.append("t", {"x": np.zeros(300_000, dtype="int64")}, create=True)
        con.execute(f"backup database to '{backup}'")
        path.rename(aside)
        backup.rename(path)
        with hypostyle.connect(path) as restored:
            restored.append("t", {"x": np.full(100_000, 5)})
            con.append("t", {"x": np.full(50_000, 7)})
            con.execute("insert into t values (1)")
            con.execute("checkpoint")
            restored.execute("insert into t values (2)")
            assert con.sql("select count(*), sum(x)::bigint from t").fetchone() == (350_001, 350_001)
            assert restored.sql("select count(*), sum(x)::bigint from t").fetchone() == (400_001, 500_002)
            for connection in (con, restored):
                assert connection.sql("check database").fetchall() == []
    for place, rows in ((aside, 350_001), (path, 400_001)):
        with hypostyle.connect(place) as con:
            assert con.sql("select count(*) from t").fetchone() == (rows,)


# It sorts more than it may keep in memory.
SPILLS = """
    import resource, sys, hypostyle, pyarrow
    con = hypostyle.connect(memory_limit="30MB", threads=1, temp_directory=sys.argv[1])
    con.execute("create table t as select n, md5(n::text) as text from generate_series(1, 600000) as g (n)")
    query = "select text, row_number() over (order by text) as place from t"
"""


def test_temporary_files_are_gone_with_a_killed_process(tmp_path):
    program = (
        SPILLS
        + """
    while True:
        pyarrow.table(con.sql(query))
    """
    )
    directory = tmp_path / "new"
    with start(program, directory) as child:
        opened = f"/proc/{child.pid}/fd"
        spilled: list[str] = []
        try:
            deadline = time.monotonic() + 30
            while not spilled and time.monotonic() < deadline and child.poll() is None:
                for number in os.listdir(opened):
                    try:
                        file = os.readlink(f"{opened}/{number}")
                    except FileNotFoundError:
                        continue
                    if file.startswith(str(directory)):
                        spilled.append(file)
        finally:
            child.kill()
        assert spilled, child.stderr.read()
    assert os.listdir(directory) == []


def test_temporary_files_that_find_no_room(tmp_path):
    program = (
        SPILLS
        + """
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
    try:
        print(pyarrow.table(con.sql(query)).num_rows)
    except hypostyle.Error as error:
        print(error.sqlstate, error)
    print(con.sql("select count(*) from t").fetchone())
    """
    )
    refused, after = run(program, tmp_path).splitlines()
    assert refused.startswith("53100 ") and "temporary file" in refused and str(tmp_path) in refused
    assert after == "(600000,)"
