"""Fixtures: the installed library, programs in C and C++ that are compiled against it, and targets."""

import contextlib
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
HERE = Path(__file__).resolve().parent

WARNINGS = ["-pedantic", "-Wall", "-Wextra", "-Werror", "-g", "-O1"]
COMPILERS = {".c": ["cc", "-std=gnu99"], ".cpp": ["c++", "-std=c++17"]}


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    """Install the library as `make install` does; return where."""
    prefix = tmp_path_factory.mktemp("prefix")
    environment = {**os.environ, "PREFIX": str(prefix), "CARGO_TARGET_DIR": str(TARGET.parent)}
    environment.pop("DESTDIR", None)
    subprocess.run([ROOT / "scripts/install_library.sh", "install"], env=environment, check=True)
    return prefix


@pytest.fixture(scope="session")
def flags(prefix):
    """Return the flags that pkg-config gives, or the same ones where there is no pkg-config."""
    environment = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    command = ["pkg-config", "--cflags", "--libs", "hypostyle"]
    try:
        told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        told = f"-I{prefix}/include -L{prefix}/lib -lhypostyle"
    return [*shlex.split(told), f"-Wl,-rpath,{prefix}/lib"]


@pytest.fixture(scope="session")
def compiled(flags, tmp_path_factory):
    """Compile programs, each once; return where they are."""
    place = tmp_path_factory.mktemp("programs")

    def compiled(source):
        program = place / source.name.replace(".", "_")
        if not program.exists():
            command = [
                *COMPILERS[source.suffix],
                *WARNINGS,
                str(source),
                "-o",
                str(program),
                *flags,
                "-pthread",
                "-lm",
            ]
            subprocess.run(command, check=True)
        return program

    return compiled


@contextlib.contextmanager
def served(*options):
    """Start a server's process."""
    command = [str(TARGET / "hypostyle"), "serve", ":memory:", "--log-level", "info", *options]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield server
    finally:
        server.terminate()
        server.communicate(timeout=20)


def listening(server, pattern):
    """Wait for a line of the server's log."""
    for line in server.stderr:
        if found := re.search(pattern, line):
            return found[0]
    raise AssertionError("the server ended before it listened")


@pytest.fixture(params=["memory", "file", "unix", "tcp"])
def target(request, tmp_path):
    """Return the target of one database, of each kind."""
    if request.param == "memory":
        yield ":memory:"
    elif request.param == "file":
        yield str(tmp_path / "test.hypo")
    elif request.param == "unix":
        socket = tmp_path / "socket"
        with served("--unix", str(socket)) as server:
            listening(server, re.escape(str(socket)))
            yield f"hypostyle+unix://{socket}"
    else:
        with served("--listen", "127.0.0.1:0") as server:
            address = listening(server, r"127\.0\.0\.1:[1-9]\d*")
            # A server elsewhere is asked for tables of the program only if the address says so.
            yield f"hypostyle://{address}/?variables=on"
