"""The shared library as programs in C and C++ see it."""

import os
import re
import shutil
import subprocess

import pytest
from conftest import HERE, ROOT, WARNINGS

HEADER = ROOT / "bindings/c/include/hypostyle.h"
LAYOUT = ROOT / "bindings/c/src/layout.rs"

# The entry points of the ADBC driver, which is in the same library.
ADBC = {"AdbcDriverInit", "AdbcDriverHypostyleInit"}


def declarations():
    """The functions that the header declares, by their names."""
    text = re.sub(r"/\*.*?\*/|^#.*?$", "", HEADER.read_text(), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(
        r"^([a-z][\w ]*[\w*] ?\*?(hypostyle_\w+)\([^;{]*?\));", text, flags=re.MULTILINE | re.DOTALL
    )
    return {name: " ".join(declared.split()) for declared, name in found}


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, **options)


def passes(command, **options):
    """Run a program, which says on its standard error what was not so."""
    done = run(command, **options)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("program", ["statements.c", "columns.c", "append.c", "threads.c", "classes.cpp"])
def test_programs(compiled, program, target):
    passes([compiled(HERE / program), target])


def test_misuse(compiled, tmp_path):
    program = compiled(HERE / "misuse.c")
    passes([program])
    passes([program, str(tmp_path / "test.hypo")])


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="there is no valgrind")
def test_misuse_reads_no_foreign_memory(compiled):
    program = compiled(HERE / "misuse.c")
    valgrind = ["valgrind", "--quiet", "--error-exitcode=9", "--leak-check=no", "--num-callers=30"]
    passes([*valgrind, program], env={**os.environ, "HYPOSTYLE_TEST_NO_FORK": "1"})


@pytest.mark.parametrize("standard", ["c99", "c11", "c++17", "c++20"])
def test_headers_stand_alone(prefix, standard, tmp_path):
    is_c = not standard.startswith("c++")
    for header in ["hypostyle.h"] if is_c else ["hypostyle.h", "hypostyle.hpp"]:
        # Others declare Arrow's structs, too.
        source = tmp_path / f"one.{'c' if is_c else 'cpp'}"
        source.write_text(f"#include <{header}>\n#include <{header}>\nint main(void) {{ return 0; }}\n")
        compiler = "cc" if is_c else "c++"
        extra = ["-Wstrict-prototypes", "-Wc++-compat"] if is_c else ["-Wold-style-cast"]
        if header == "hypostyle.h" and not is_c:
            extra = []
        passes(
            [
                compiler,
                f"-std={standard}",
                *WARNINGS,
                *extra,
                f"-I{prefix}/include",
                "-c",
                source,
                "-o",
                tmp_path / "o",
            ]
        )


def test_structs_are_those_of_the_library(prefix, tmp_path):
    """The offsets are checked by the Rust compiler where they are written, and by the C compiler here."""
    structs = re.findall(r'layout!\(\w+ as "(\w+)", (\d+),(.*?)\);', LAYOUT.read_text(), flags=re.DOTALL)
    assert len(structs) == len(re.findall(r"^typedef struct \w+ \{", HEADER.read_text(), flags=re.MULTILINE))
    lines = ["#include <hypostyle.h>"]
    for name, size, fields in structs:
        lines.append(f'_Static_assert(sizeof({name}) == {size}, "{name}");')
        offsets = dict(re.findall(r'"(\w+)" (\d+)', fields))
        body = re.search(
            rf"^typedef struct {name} \{{(.*?)^\}}", HEADER.read_text(), flags=re.DOTALL | re.MULTILINE
        )[1]
        body = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
        assert list(offsets) == re.findall(r"(\w+);", body)
        lines += [
            f'_Static_assert(offsetof({name}, {field}) == {at}, "{field}");' for field, at in offsets.items()
        ]
    source = tmp_path / "layout.c"
    source.write_text("\n".join(lines) + "\n")
    passes(["cc", "-std=c11", f"-I{prefix}/include", "-c", source, "-o", tmp_path / "layout.o"])


def test_constants_are_those_of_the_library(prefix, tmp_path):
    numbers = re.findall(r"^pub const (\w+): (?:u32|i32) = (\d+);", LAYOUT.read_text(), flags=re.MULTILINE)
    types = {name: int(number) for name, number in numbers}
    names = {
        **{
            name: f"HYPOSTYLE_VALUES_{name}"
            for name in ["MAPPED", "PRIVATE", "MISSING", "DICTIONARY", "PLAIN"]
        },
        "CREATE": "HYPOSTYLE_APPEND_CREATE",
    }
    lines = ["#include <hypostyle.h>"]
    lines += [
        f'_Static_assert({names.get(name, f"HYPOSTYLE_{name}")} == {number}, "{name}");'
        for name, number in types.items()
    ]
    source = tmp_path / "constants.c"
    source.write_text("\n".join(lines) + "\n")
    passes(["cc", "-std=c11", f"-I{prefix}/include", "-c", source, "-o", tmp_path / "constants.o"])


def test_nothing_else_is_exported(prefix):
    listed = passes(["nm", "-D", "--defined-only", prefix / "lib/libhypostyle.so.1"])
    exported = {line.split()[-1].split("@")[0] for line in listed.splitlines()}
    assert exported == set(declarations()) | ADBC


def test_the_library_is_named_and_stays_loaded(prefix):
    told = passes(["readelf", "-d", prefix / "lib/libhypostyle.so.1"])
    assert "[libhypostyle.so.1]" in told
    assert "NODELETE" in told


def test_functions_do_not_change():
    """A program that was compiled with an older header runs with this library."""
    now = declarations()
    golden = (HERE / "abi-1.txt").read_text().splitlines()
    assert sorted(now.values()) == golden, "\n".join(sorted(now.values()))


def test_every_function_is_documented():
    text = HEADER.read_text()
    for name in declarations():
        before = text[: re.search(rf"^[a-z][^\n]*\b{name}\(", text, flags=re.MULTILINE).start()].rstrip()
        assert before.endswith("*/"), name


def test_every_function_is_tried():
    tried = "".join(path.read_text() for path in HERE.glob("*.c"))
    assert [name for name in declarations() if f"{name}(" not in tried] == []


EXAMPLES = {
    "first.c": "paper costs 3.00\nink costs 7.25\n",
    "columns.cpp": "1000000 rows\nthe sum is 2.5e+11\nthe last sensor is s0\n"
    "s0: 499999\ns1: 499998\ns2: 499999\n",
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples(compiled, example):
    told = passes([compiled(ROOT / "bindings/c/examples" / example)])
    if example == "columns.cpp":
        assert told.startswith("1000000 rows\nthe sum is 2.5e+11\nthe last sensor is s0\ns0: ")
        assert len(told.splitlines()) == 6
    else:
        assert told == EXAMPLES[example]


@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no CMake")
def test_cmake_finds_it(prefix, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\n"
        "project(first C CXX)\n"
        "find_package(hypostyle 0.1 REQUIRED)\n"
        f"add_executable(first {ROOT}/bindings/c/examples/first.c)\n"
        "target_link_libraries(first hypostyle::hypostyle)\n"
        f"add_executable(columns {ROOT}/bindings/c/examples/columns.cpp)\n"
        "target_compile_features(columns PRIVATE cxx_std_17)\n"
        "target_link_libraries(columns hypostyle::hypostyle)\n"
    )
    passes(["cmake", "-S", tmp_path, "-B", tmp_path / "built", f"-DCMAKE_PREFIX_PATH={prefix}"])
    passes(["cmake", "--build", tmp_path / "built"])
    assert passes([tmp_path / "built/first"]) == EXAMPLES["first.c"]


def test_it_is_taken_away_again(prefix, tmp_path):
    """The last test: nothing is left of what was installed."""
    environment = {
        **os.environ,
        "PREFIX": str(tmp_path),
        "CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR", ""),
    }
    for place in ["lib/pkgconfig", "lib/cmake/hypostyle", "include"]:
        (tmp_path / place).mkdir(parents=True)
    for name in [
        "lib/libhypostyle.so.1",
        "lib/pkgconfig/hypostyle.pc",
        "include/hypostyle.h",
        "include/hypostyle.hpp",
    ]:
        (tmp_path / name).touch()
    passes([ROOT / "scripts/install_library.sh", "uninstall"], env=environment)
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []
