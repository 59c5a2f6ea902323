"""Children of fork() that open the database for themselves, whatever their parent does meanwhile."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

#: The forks of each case; each has one child or four.
ROUNDS = int(os.environ.get("HYPOSTYLE_TEST_FORKS", "4"))
DEADLINE = 240

PROGRAM = """
    import faulthandler, os, signal, sys, threading, time, warnings
    import hypostyle
    warnings.simplefilter("ignore", DeprecationWarning)
    faulthandler.enable()
    directory, parent, children, work, rounds = sys.argv[1:6]
    con = hypostyle.connect(directory, threads=4)
    con.execute("create table if not exists t as select value as x from range(1, 100001) as g (value)")
    con.execute("create table if not exists log (x bigint, name text)")
    query = "select x % 10 as k, count(*), sum(x) from t where x % 3 = 1 group by k order by k"
    expected = con.sql(query).fetchall()
    kept = con.sql(query)
    kept.fetchall()
    over = threading.Event()

    def again(do):
        own = con.duplicate()
        while not over.is_set():
            do(own)

    busy = []
    if parent == "busy":
        reads = lambda own: own.sql(query).fetchall()
        writes = lambda own: own.execute("insert into log values (0, 'parent')")
        busy = [threading.Thread(target=again, args=(do,)) for do in (reads, reads, writes, writes)]
        for thread in busy:
            thread.start()
        time.sleep(0.05)
    if parent == "transaction":
        con.begin()
        con.execute("insert into log values (1, 'parent')")

    def child():
        signal.alarm(60)
        own = hypostyle.connect(directory, threads=2)
        for number in range(3):
            if work == "insert":
                own.execute("insert into log values (?, 'child')", [number])
            elif work == "append":
                own.append("log", {"x": list(range(1000)), "name": ["child"] * 1000})
            else:
                assert own.sql(query).fetchall() == expected
        try:
            con.sql("select 1")
        except hypostyle.ClosedError as error:
            assert "fork" in str(error)
        else:
            raise AssertionError("the parent's connection works in its child")
        if work == "close":
            own.close()
            # Of the parent's nothing is closed.
            con.close()

    for _ in range(int(rounds)):
        pids = []
        for _ in range(int(children)):
            pid = os.fork()
            if pid == 0:
                child()
                if work == "exit":
                    # In the ordinary way, with all objects, those of the parent as well.
                    sys.exit()
                os._exit(0)
            pids.append(pid)
        for pid in pids:
            status = os.waitpid(pid, 0)[1]
            if status != 0:
                print("a child ended with", status, flush=True)
    over.set()
    for thread in busy:
        thread.join()
    if parent == "transaction":
        con.commit()
    assert con.sql(query).fetchall() == expected
    con.close()
    print("done")
"""


@pytest.mark.parametrize("work", ["query", "insert", "append", "close", "exit"])
@pytest.mark.parametrize("children", [1, 4])
@pytest.mark.parametrize("parent", ["idle", "busy", "transaction"])
def test_children_open_the_database_of_their_parent(tmp_path, parent, children, work):
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
    arguments = map(str, (tmp_path / "d", parent, children, work, ROUNDS))
    with subprocess.Popen(
        [*command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert (output, process.returncode) == ("done\n", 0), errors


def test_a_pool_of_forked_processes(tmp_path):
    program = """
        import multiprocessing, sys, warnings, hypostyle
        warnings.simplefilter("ignore", DeprecationWarning)
        directory = sys.argv[1]

        def total(number):
            with hypostyle.connect(directory) as own:
                return own.sql("select sum(x) from t where x <> ?", [number]).fetchone()[0]

        con = hypostyle.connect(directory)
        con.execute("create table t as select value as x from generate_series(1, 1000) as g (value)")
        with multiprocessing.get_context("fork").Pool(3) as pool:
            print(pool.map_async(total, range(30)).get(60) == [500500 - number for number in range(30)])
        print(con.sql("select count(*) from t").fetchall())
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "d")],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert ended.stdout == "True\n[(1000,)]\n", ended.stderr
