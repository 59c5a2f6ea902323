"""Fixtures: the driver, programs in C that use it, and databases of each kind. scripts/test_odbc.sh says
where all of it is, by environment variables."""

import contextlib
import os
import re
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent
PREFIX = Path(os.environ["HYPOSTYLE_PREFIX"])
PROGRAM = os.environ["HYPOSTYLE_PROGRAM"]
DRIVER = PREFIX / "lib/libhypostyleodbc.so"
SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]


def passes(command, **options):
    """Run a program, which says on its standard error what was not so."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """Compile programs, each once for each way of linking; return where they are."""
    place = tmp_path_factory.mktemp("programs")

    def compiled(name, libraries, flags=()):
        program = place / f"{name}_{abs(hash((*libraries, *flags)))}"
        if not program.exists():
            warnings = ["-Wall", "-Wextra", "-Werror", "-g", "-O1"]
            source = HERE / f"{name}.c"
            passes(
                ["cc", "-std=gnu11", *warnings, *flags, source, "-o", program, *libraries, "-pthread", "-lm"]
            )
        return program

    return compiled


@pytest.fixture(scope="session")
def sanitized_driver(tmp_path_factory):
    """Build the driver with AddressSanitizer; return where it is."""
    build = tmp_path_factory.mktemp("sanitized")
    passes(
        [
            "make",
            "--quiet",
            "--jobs=2",
            "--directory",
            SOURCE,
            f"BUILD={build}",
            f"RPATH={PREFIX}/lib",
            f"CFLAGS=-O1 -g {' '.join(SANITIZED)}",
            f"LDFLAGS={' '.join(SANITIZED)}",
            f"HYPOSTYLE_CFLAGS=-I{PREFIX}/include",
            f"HYPOSTYLE_LIBS=-L{PREFIX}/lib -lhypostyle",
            "DEFS=",
        ]
    )
    return build / "libhypostyleodbc.so"


def listening(server, pattern):
    """Wait for a line of the server's log."""
    for line in server.stderr:
        if found := re.search(pattern, line):
            return found[0]
    raise AssertionError("the server ended before it listened")


@contextlib.contextmanager
def served(*options, pattern):
    """Start a server's process; give it and what it says that it listens at."""
    command = [PROGRAM, "serve", ":memory:", "--log-level", "info", *options]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield server, listening(server, pattern)
    finally:
        server.kill()
        server.communicate(timeout=20)


@pytest.fixture
def tcp_server():
    with served("--listen", "127.0.0.1:0", pattern=r"127\.0\.0\.1:[1-9]\d*") as (server, address):
        yield server, f"hypostyle://{address}/"


@pytest.fixture(params=["memory", "file", "unix", "tcp"])
def database(request, tmp_path):
    """Return the value of DATABASE of one database, of each kind."""
    if request.param == "memory":
        yield ":memory:"
    elif request.param == "file":
        yield str(tmp_path / "test.hypo")
    elif request.param == "unix":
        socket = tmp_path / "socket"
        with served("--unix", str(socket), pattern=re.escape(str(socket))):
            yield f"hypostyle+unix://{socket}"
    else:
        yield request.getfixturevalue("tcp_server")[1]


@pytest.fixture
def file_database(tmp_path):
    return str(tmp_path / "test.hypo")
