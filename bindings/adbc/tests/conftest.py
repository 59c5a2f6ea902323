"""Fixtures: databases in this process, in memory and on disk, and behind a server's two kinds of
socket.
"""

import contextlib
import os
import re
import subprocess
from pathlib import Path

import adbc_driver_manager
import pytest
from adbc_driver_manager import dbapi

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "release"
DRIVER = str(TARGET / "libhypostyle_c.so")


@contextlib.contextmanager
def served(database, *options):
    """Start a server's process; return the address that it prints."""
    server = subprocess.Popen(
        [str(TARGET / "hypostyle"), "serve", str(database), "--log-level", "info", *options],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield server
    finally:
        server.terminate()
        server.communicate(timeout=20)


def listening(server, pattern):
    """Wait for a line of the server's log."""
    for line in server.stderr:
        if found := re.search(pattern, line):
            return found
    raise AssertionError("the server ended before it listened")


@pytest.fixture(params=["memory", "file", "unix", "tcp"])
def options(request, tmp_path):
    """Return the options of one database, of each kind."""
    kind = request.param
    if kind == "memory":
        yield {"uri": ":memory:"}
    elif kind == "file":
        yield {"uri": str(tmp_path / "test.hypo")}
    elif kind == "unix":
        socket = tmp_path / "socket"
        with served(":memory:", "--unix", str(socket)) as server:
            listening(server, re.escape(str(socket)))
            yield {"uri": f"hypostyle+unix://{socket}"}
    else:
        with served(":memory:", "--listen", "127.0.0.1:0") as server:
            address = listening(server, r"127\.0\.0\.1:[1-9]\d*")[0]
            yield {"uri": f"hypostyle://{address}/"}


@pytest.fixture
def is_remote(options):
    return "://" in options["uri"]


@pytest.fixture
def database(options):
    with adbc_driver_manager.AdbcDatabase(driver=DRIVER, **options) as database:
        yield database


@pytest.fixture
def connect(options):
    """Make connections of the DB-API to one database; autocommit is on, as it is in C."""
    with contextlib.ExitStack() as opened:
        first = dbapi.connect(driver=DRIVER, db_kwargs=options, autocommit=True)
        opened.enter_context(first)

        def connect(autocommit=True, **conn_kwargs):
            connection = first.adbc_clone()
            opened.enter_context(connection)
            connection.adbc_connection.set_options(**conn_kwargs)
            connection.adbc_connection.set_autocommit(autocommit)
            return connection

        yield connect


@pytest.fixture
def con(connect):
    return connect()


@pytest.fixture
def run(con):
    """Run a statement and return its rows."""

    def run(sql, parameters=None, on=con):
        with on.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall()

    return run
