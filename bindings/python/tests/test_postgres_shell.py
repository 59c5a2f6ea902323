"""The shell with a database of PostgreSQL: formats, commands, files, time zones, Ctrl-C and the bar."""

import json
import os
import pty
import signal
import subprocess
import time

import hypostyle
import pytest
from compared.peers import postgres_program, postgres_server
from served import PROGRAM, needs_program

pytestmark = [
    needs_program,
    pytest.mark.skipif(
        postgres_program() is None, reason="no program of a PostgreSQL server: install postgresql-15"
    ),
]

ROWS = (
    "select 1 as i, 1.50::numeric(5,2) as n, 'a,\"é' as t, '{1,null}'::int[] as l, '\\x00ff'::bytea as b, "
    "timestamptz '2024-01-01 00:00+02' as z, '{\"a\":1}'::json as j union all "
    "select 2, null::numeric(5,2), null, null, null, null, null order by 1"
)


@pytest.fixture(scope="module")
def address():
    with postgres_server() as keywords:
        given = dict(part.split("=", 1) for part in keywords.split())
        yield f"postgresql://{given['user']}@/postgres?host={given['host']}&options=-ctimezone%3DUTC"


@pytest.fixture(params=["auto", "copy", "rows"])
def shell(address, request):
    """Run the shell; return its exit status, its output and its errors."""

    def shell(*arguments, script=None, **environment):
        done = subprocess.run(
            [PROGRAM, f"{address}&transfer={request.param}", *arguments],
            input=script,
            stdin=None if script is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, **environment},
        )
        return done.returncode, done.stdout, done.stderr

    return shell


def test_machine_formats_are_exact(shell):
    assert shell("--csv", "-c", ROWS) == (
        0,
        'i,n,t,l,b,z,j\n1,1.50,"a,""é","[1,null]",\\x00ff,2023-12-31 22:00:00+00:00,"{""a"":1}"\n2,,,,,,\n',
        "",
    )
    status, out, _ = shell("--json", "-c", ROWS)
    assert status == 0
    first, second = json.loads(out)
    assert first == {
        "i": 1,
        "n": 1.5,
        "t": 'a,"é',
        "l": [1, None],
        "b": "\\x00ff",
        "z": "2023-12-31T22:00:00Z",
        "j": {"a": 1},
    }
    assert second == {"i": 2, **dict.fromkeys("ntlbzj")}


def test_commands_of_the_shell(shell):
    script = """
        drop table if exists t; drop schema if exists sales cascade;
        create table t (a int, b text); create view v as table t;
        create schema sales; create table sales.o (k int);
        .mode csv
        .tables
        .tables o
        .databases
        begin; insert into t values (1, 'x'); rollback;
        select count(*) from t;
        drop view v;
    """
    status, out, err = shell(script="\n".join(line.strip() for line in script.splitlines()))
    assert (status, err) == (0, "")
    assert "public,t,table,,2\npublic,v,view,,2\n" in out
    assert out.count("sales,o,table,,1") == 2
    assert "postgresql://test@/" in out and out.endswith("count\n0\n")


def test_what_there_is_not_says_what_to_do(shell):
    status, _, err = shell(script="create table if not exists t (a int);\n.schema t\n")
    assert status == 1 and "0A000" in err and "pg_dump" in err
    status, _, err = shell("-c", "copy (select 1) to stdout")
    assert status == 1 and "0A000" in err
    status, _, err = shell("-c", "select nosuch")
    assert status == 1 and "42703" in err and "LINE 1: select nosuch" in err


def test_errors_in_transactions(shell):
    status, out, err = shell(
        "--csv", script=".bail off\nbegin;\nselect 1 / 0;\nselect 2;\ncommit;\nselect 3;\n"
    )
    assert (status, out) == (1, "?column?\n3\n")
    assert [line.split("[")[1][:5] for line in err.splitlines() if "Error [" in line] == [
        "22012",
        "25P02",
        "25P02",
    ]


def test_files_of_this_machine(shell, tmp_path):
    source = tmp_path / "rows.csv"
    source.write_text("a,b\n1,x\n2,\n")
    script = f"drop table if exists made, other;\n.import {source} made\n.import {source} made\n"
    script += f"create table other (b text, a int);\n.import {source} other\n"
    script += "select * from made union all select a, b from other;"
    status, out, err = shell("--csv", script=script)
    assert (status, err) == (0, "")
    assert out == "a,b\n" + "1,x\n2,\n" * 3
    file = tmp_path / "it's.parquet"
    assert shell("--parquet", str(file), "-c", f"{ROWS} -- end")[0] == 0
    with hypostyle.connect() as con:
        kept = con.sql(
            f"select i, n, t, l from '{str(file).replace(chr(39), chr(39) * 2)}' order by i"
        ).fetchall()
    assert [(i, str(n), t, lists) for i, n, t, lists in kept] == [
        (1, "1.50", 'a,"é', [1, None]),
        (2, "None", None, None),
    ]


def test_points_in_time_are_those_of_the_session(shell, address):
    moment = "select timestamptz '2024-01-01 00:00+00' as z"
    zoned = {"PGOPTIONS": "", "PGTZ": "Asia/Kathmandu"}
    plain = address.split("&options")[0]
    done = subprocess.run(
        [PROGRAM, plain, "--csv", "-c", moment],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **zoned},
    )
    assert done.stdout == "z\n2024-01-01 05:45:00+05:45\n"
    assert shell("--csv", "-c", f"set timezone to 'Europe/Rome'; {moment}")[1].endswith(
        "2024-01-01 01:00:00+01:00\n"
    )
    # A zone that is not known here.
    status, out, _ = shell("--csv", "-c", f"set timezone to '<+03>-03'; {moment}")
    assert (status, out.splitlines()[-1]) == (0, "2024-01-01 00:00:00+00:00")


def test_ctrl_c_cancels_the_statement(address):
    shell = subprocess.Popen(
        [PROGRAM, address, "-c", "select pg_sleep(60)"], stderr=subprocess.PIPE, text=True
    )
    begin = time.monotonic()
    with hypostyle.connect(address) as con:
        running = "select count(*) from pg_stat_activity where query like '%pg_sleep(60)%'"
        running += " and state = 'active' and pid <> pg_backend_pid()"
        while con.sql(running).fetchone() == (0,):
            assert time.monotonic() - begin < 30
            time.sleep(0.05)
        shell.send_signal(signal.SIGINT)
        assert "57014" in shell.communicate(timeout=30)[1]
        assert shell.returncode == 130
        # The server has ended it, too.
        while con.sql(running).fetchone() != (0,):
            assert time.monotonic() - begin < 60
            time.sleep(0.05)


def test_a_bar_shows_the_progress(address):
    leader, follower = pty.openpty()
    shell = subprocess.Popen(
        [PROGRAM, address, "--csv", "-c", "select pg_sleep(1.5)"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=follower,
    )
    os.close(follower)
    shown = b""
    try:
        while part := os.read(leader, 4096):
            shown += part
    except OSError:
        # The terminal has no other end any more.
        pass
    finally:
        os.close(leader)
    assert shell.wait(30) == 0
    assert b"0 rows, 1 second" in shown
