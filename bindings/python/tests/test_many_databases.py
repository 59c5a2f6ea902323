"""Several databases in one process: each has its own limits, and fails alone and in silence."""

import textwrap

import hypostyle
import pytest
from test_processes import start

# The query grows with the rows, and cannot spill.
HEAVY = "select count(*) as n from t a join t b on a.s = b.s and a.x <> b.x + 1 full join t c on c.s = a.s"
ROWS = 100_000
FILL = f"""
    create table t as select value as x, 'number ' || value as s from generate_series(1, {ROWS}) as g (value)
"""


# The signal handlers of the process, from the kernel, because a library need not ask Python.
SIGNALS = """
    import ctypes, pathlib, signal, threading

    def dispositions():
        libc = ctypes.CDLL(None)
        actions = {}
        for number in range(1, signal.NSIG):
            action = ctypes.create_string_buffer(256)
            if libc.sigaction(number, None, action) == 0:
                # Handler, mask and flags; nobody has written what is between them.
                actions[number] = action.raw[:16] + action.raw[136:140]
        handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
        status = pathlib.Path("/proc/self/status").read_text().splitlines()
        masks = [line for line in status if line.startswith(("SigBlk", "SigIgn", "SigCgt"))]
        assert len(actions) > 30 and len(masks) == 3
        return {"actions": actions, "handlers": handlers, "masks": masks}

    def check_dispositions():
        now = dispositions()
        for kind in before:
            assert now[kind] == before[kind], f"{kind} were {before[kind]} and are {now[kind]}"

    # With its first thread, the C library takes a signal for itself.
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    before = dispositions()
"""


def quietly(program: str, *arguments: object) -> None:
    """Run in another process to its end: nothing else is printed, and all signals are as before."""
    end = """
        check_dispositions()
        print("the end")
    """
    program = "".join(map(textwrap.dedent, (SIGNALS, program, end)))
    with start(program, *arguments) as child:
        output, errors = child.communicate(timeout=120)
    assert errors == ""
    assert (child.returncode, output) == (0, "the end\n")


def test_each_database_has_a_memory_limit_of_its_own(tmp_path):
    with (
        hypostyle.connect(tmp_path / "small", memory_limit="1MB") as small,
        hypostyle.connect(tmp_path / "large", memory_limit="1GB") as large,
        hypostyle.connect(memory_limit="2MB") as memory,
    ):
        limits = {small: "1MB", large: "1GB", memory: "2MB"}
        for con, limit in limits.items():
            assert con.sql("show memory_limit").fetchall() == [("memory_limit", limit)]
            con.execute(FILL)
        for _ in range(3):
            for con in (small, memory):
                with pytest.raises(hypostyle.OutOfMemoryError, match="raise memory_limit") as error:
                    con.sql(HEAVY).fetchall()
                assert error.value.sqlstate == "53200"
            assert large.sql(HEAVY).fetchone() == (ROWS,)
        for con in limits:
            assert con.sql("select count(*) as n, max(x) as x from t").fetchone() == (ROWS, ROWS)
        # It belongs to the database, not to the connection, nor to the process.
        small.execute("set memory_limit = '1GB'")
        assert small.sql(HEAVY).fetchone() == (ROWS,)
        with pytest.raises(hypostyle.OutOfMemoryError):
            memory.sql(HEAVY).fetchall()


def test_two_handles_of_one_database_have_limits_of_their_own(directory):
    with (
        hypostyle.connect(directory, memory_limit="1GB") as large,
        hypostyle.connect(directory, memory_limit="1MB") as small,
    ):
        large.execute(FILL)
        with small.duplicate() as other, pytest.raises(hypostyle.OutOfMemoryError):
            other.sql(HEAVY).fetchall()
        assert large.sql(HEAVY).fetchone() == (ROWS,)
        small.execute("insert into t values (0, 'none')")
        assert large.sql(HEAVY).fetchone() == (ROWS + 1,)


def test_a_process_keeps_its_signals_and_its_output(tmp_path):
    program = f"""
        import sys, hypostyle
        check_dispositions()
        place = pathlib.Path(sys.argv[1])

        def refused(kind, use):
            try:
                use()
            except kind:
                return
            raise AssertionError(f"no {{kind}}")

        small = hypostyle.connect(place / "small", memory_limit="1MB")
        large = hypostyle.connect(place / "large", threads=2)
        check_dispositions()
        for con in (small, large):
            con.execute({FILL!r})
        assert large.sql({HEAVY!r}).fetchall() == [({ROWS},)]
        refused(hypostyle.OutOfMemoryError, lambda: small.sql({HEAVY!r}).fetchall())
        refused(hypostyle.SqlSyntaxError, lambda: small.sql("selec"))
        refused(hypostyle.DataError, lambda: small.sql("select 1 / (x - 5) from t").fetchall())
        refused(hypostyle.UnknownNameError, lambda: small.table("nowhere"))
        (place / "file").write_text("no database")
        refused(hypostyle.Error, lambda: hypostyle.connect(place / "file"))
        with large.serve(unix=place / "socket") as server, hypostyle.connect(server.addresses[0]) as client:
            assert client.sql("select count(*) from t").fetchall() == [({ROWS},)]
            check_dispositions()
        thread = threading.Thread(target=lambda: large.sql({HEAVY!r}).fetchall())
        thread.start()
        thread.join()
        assert len(small.table("t").fetchnumpy()["x"]) == {ROWS}
        small.close()
        large.close()
    """
    quietly(program, tmp_path)


@pytest.mark.parametrize(
    ("files", "refusal"),
    [
        ("columns/1/*.values", None),
        ("columns/2/deleted-*", "CorruptionError"),
        ("catalog-*", "CorruptionError"),
        ("log-*", "CorruptionError"),
        ("shared", None),
        ("HYPOSTYLE", "DataError"),
        ("", "NotFoundError"),
    ],
    ids=["values", "deleted", "catalog", "log", "shared", "superblock", "directory"],
)
def test_a_database_breaks_alone(tmp_path, files, refusal):
    program = """
        import shutil, sys, hypostyle
        place, files, refusal = pathlib.Path(sys.argv[1]), *sys.argv[2:]

        broken = hypostyle.connect(place / "broken", memory_limit="100MB")
        sound = hypostyle.connect(place / "sound", memory_limit="200MB")
        for con in (broken, sound):
            con.execute("create table t as select value as x from generate_series(1, 200000) as g (value)")
            con.execute("create table u (a integer primary key, b varchar)")
            con.execute("insert into u values (1, 'one'), (2, 'two')")
            con.execute("delete from u where a = 2")
            con.execute("checkpoint")
            con.execute("insert into u values (3, 'three')")
            con.execute("insert into u values (4, 'four')")

        if files:
            found = list((place / "broken").glob(files))
            assert found
            for file in found:
                with file.open("r+b") as content:
                    content.write(b"?" * file.stat().st_size)
        else:
            shutil.rmtree(place / "broken")

        def opened():
            try:
                return hypostyle.connect(place / "broken", read_only=True)
            except hypostyle.Error as error:
                assert type(error).__name__ == refusal, error

        if con := opened():
            assert not refusal
            con.close()
        errors = []

        def attempt(statement, *answers):
            try:
                found = broken.sql(statement).fetchall()
            except hypostyle.Error as error:
                assert len(error.sqlstate) == 5, error
                errors.append(type(error).__name__)
            else:
                assert found in answers or not answers, (statement, found)

        for turn in range(3):
            attempt("select sum(x) from t", [(20000100000,)])
            attempt("select count(*) from t where x % 2 = 0", [(100000,)])
            attempt("select b from u where a < 10 order by a", [("one",), ("three",), ("four",)])
            attempt("select b from u where a = 2", [])
            attempt(f"insert into u values ({10 + turn}, 'more')")
            attempt(f"update u set b = 'most' where a = {10 + turn}")
            attempt(f"create table v{turn} as select 1 as a")
            attempt("check database")
            attempt("checkpoint")
            attempt("vacuum")
            sound.execute("insert into u values (?, 'more')", [10 + turn])
            assert sound.sql("select sum(x) from t").fetchall() == [(20000100000,)]
            assert sound.sql("select count(*) from u").fetchall() == [(4 + turn,)]
        if "values" in files:
            assert "CorruptionError" in errors
        broken.close()
        # Unless a checkpoint has made the file anew.
        if broken := opened():
            attempt("select sum(x) from t", [(20000100000,)])
            attempt("select b from u where a < 10 order by a", [("one",), ("three",), ("four",)])
            broken.close()
        damage = sound.sql("check database").fetchall()
        assert damage == [], damage
        sound.close()
        with hypostyle.connect(place / "sound") as sound:
            assert sound.sql("select a from u order by a").fetchall() == [(a,) for a in (1, 3, 4, 10, 11, 12)]
    """
    quietly(program, tmp_path, files, refusal or "")
