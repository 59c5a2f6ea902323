"""Fixtures: a database in memory, in this process and behind a server, and a directory for one
on disk.
"""

import signal

import hypostyle
import pytest


def pytest_configure() -> None:
    # A shell starts what runs behind it with Ctrl-C ignored, and tests wait for what it ends.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=["embedded", "unix", "tcp"])
def con(request, tmp_path):
    """A connection to a database in memory: embedded, or on a server over each kind of socket."""
    if request.param == "embedded":
        with hypostyle.connect() as connection:
            yield connection
        return
    places = {"unix": tmp_path / "socket"} if request.param == "unix" else {"listen": "127.0.0.1:0"}
    with (
        hypostyle.connect() as database,
        database.serve(**places) as server,
        hypostyle.connect(server.addresses[0] + "?variables=on") as connection,
    ):
        yield connection


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "test.hypo"
