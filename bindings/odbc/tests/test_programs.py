"""Programs in C: through the driver manager with each kind of database, and linked with the driver alone
under AddressSanitizer and valgrind."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import DRIVER, PREFIX, SANITIZED, SOURCE, passes

sys.path.insert(0, str(SOURCE.parents[1] / "scripts"))
from postgres_fixture import postgres_addresses

PROGRAMS = [
    "fetching",
    "streaming",
    "conversions",
    "parameters",
    "connections",
    "catalog",
    "threads",
    "hostile",
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_through_the_driver_manager(compiled, program, database):
    passes([compiled(program, ["-lodbc"]), f"Driver=Hypostyle;Database={database}"])


def test_with_postgresql(compiled):
    program = compiled("postgres", ["-lodbc"])
    with postgres_addresses() as addresses:
        if addresses is None:
            pytest.skip("no PostgreSQL server: run scripts/setup_postgres.sh")
        for address in addresses.values():
            passes([program, f"Driver=Hypostyle;Database={{{address}}}"])


def test_misuse(compiled, database):
    program = compiled("misuse", [str(DRIVER), f"-Wl,-rpath,{PREFIX}/lib"])
    passes([program, f"Database={database}"])


@pytest.mark.parametrize("program", [*PROGRAMS, "misuse"])
def test_with_address_sanitizer(compiled, sanitized_driver, program):
    libraries = [str(sanitized_driver), f"-Wl,-rpath,{sanitized_driver.parent}"]
    built = compiled(program, libraries, tuple(SANITIZED))
    passes([built, "Driver=Hypostyle;Database=:memory:"])


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="there is no valgrind")
def test_misuse_reads_no_foreign_memory(compiled):
    program = compiled("misuse", [str(DRIVER), f"-Wl,-rpath,{PREFIX}/lib"])
    valgrind = ["valgrind", "--quiet", "--error-exitcode=9", "--leak-check=no", "--num-callers=30"]
    passes(
        [*valgrind, program, "Database=:memory:"], env={**os.environ, "HYPOSTYLE_TEST_UNDER_VALGRIND": "1"}
    )


def test_functions_of_odbc_alone_are_exported():
    listed = passes(["nm", "-D", "--defined-only", DRIVER])
    exported = {line.split()[-1].split("@")[0] for line in listed.splitlines()}
    assert exported
    assert all(re.fullmatch(r"SQL[A-Z]\w+", name) for name in exported)


def test_functions_that_are_told_are_there():
    """SQLGetFunctions names the functions that are exported."""
    told = set(re.findall(r"SQL_API_SQL(\w+)", (SOURCE / "src/info.c").read_text()))
    told -= {"GETFUNCTIONS_ALL"}
    listed = passes(["nm", "-D", "--defined-only", DRIVER])
    exported = {line.split()[-1].split("@")[0] for line in listed.splitlines()}
    names = {re.sub(r"W$", "", name)[3:].upper() for name in exported}
    # Always refuses, with what to do instead.
    assert told == names - {"BULKOPERATIONS"}


def test_it_is_installed_and_taken_away(tmp_path):
    """What others have registered stays."""
    home = tmp_path / "home"
    home.mkdir()
    registry = home / ".odbcinst.ini"
    registry.write_text("[Other]\nDriver=other.so\n")
    prefix = tmp_path / "prefix"
    shutil.copytree(PREFIX, prefix, symlinks=True)
    environment = {**os.environ, "HOME": str(home), "PREFIX": str(prefix), "CFLAGS": "-O0"}
    environment.pop("ODBCSYSINI")
    script = SOURCE.parents[1] / "scripts/install_odbc.sh"
    for _ in range(2):
        passes([script, "install"], env=environment)
    told = registry.read_text()
    assert told.count("[Hypostyle]") == 1
    assert told.startswith("[Other]\nDriver=other.so\n")
    listed = subprocess.run(
        ["odbcinst", "-q", "-d"], env=environment, capture_output=True, text=True, check=False
    )
    assert listed.returncode == 0
    passes([script, "uninstall"], env=environment)
    assert registry.read_text() == "[Other]\nDriver=other.so\n"
    assert not (prefix / "lib/libhypostyleodbc.so").exists()
