"""Counts the habits that only may become fewer, and finds what must not be at all.

`tidy.py` prints both; `tidy.py --record` writes the counts to tidy.json, which `test_tidy.py` holds them to.
A count that has become smaller is recorded in the same change.
"""

import argparse
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = Path(__file__).with_name("tidy.json")

FUNCTION_LINES_MAX = 70
COMMENT_COLUMNS_MAX = 110

# A sentence has a subject: "Of a table" names none.
PREPOSITIONS = re.compile(
    "(?:about|above|after|against|among|around|as|at|before|behind|below|beside|between|beyond|by|for|from|in"
    "|into|of|on|onto|over|per|since|than|through|to|toward|under|until|upon|with|within|without)"
)

# Crates, and what none of their dependencies may be: the column "must not know" of ARCHITECTURE.md.
ENGINE = ("datafusion", "hypostyle-engine")
FORBIDDEN = {
    "hypostyle-types": (*ENGINE, "hypostyle-io", "hypostyle-storage", "sqlparser", "tokio", "pyo3"),
    "hypostyle-format": (
        *ENGINE,
        "hypostyle-io",
        "hypostyle-storage",
        "rustix",
        "sqlparser",
        "tokio",
        "pyo3",
    ),
    "hypostyle-memory": (*ENGINE, "hypostyle-types", "arrow-array", "tokio", "pyo3"),
    "hypostyle-position": (
        *ENGINE,
        "hypostyle-format",
        "hypostyle-io",
        "hypostyle-storage",
        "sqlparser",
        "tokio",
        "pyo3",
    ),
    "hypostyle-io": (*ENGINE, "hypostyle-format", "hypostyle-storage", "arrow-array", "sqlparser", "pyo3"),
    "hypostyle-storage": (*ENGINE, "sqlparser", "tokio", "pyo3"),
    "hypostyle-wire": (*ENGINE, "hypostyle-storage", "rustls", "tokio", "pyo3"),
    "hypostyle-transport": (*ENGINE, "hypostyle-storage", "sqlparser", "pyo3"),
    "hypostyle-client": (*ENGINE, "hypostyle-storage", "sqlparser", "pyo3"),
    "hypostyle-engine": ("hypostyle-client", "hypostyle-server", "hypostyle-transport", "rustls"),
    "hypostyle": ("hypostyle-server",),
    "hypostyle-adbc": ("hypostyle-server",),
}
# Crates that may link everything that is below them.
FREE = frozenset(
    {"hypostyle-server", "hypostyle-cli", "hypostyle-python", "hypostyle-bench", "hypostyle-tests"}
)


def sources() -> list[Path]:
    """The Rust files of the project that are under version control."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*.rs"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    return [ROOT / name for name in listed if name and (ROOT / name).is_file()]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def is_product(path: Path) -> bool:
    """Whether a file is part of what users run: no test, bench, fuzz target or example."""
    return not {"tests", "bench", "fuzz", "examples"} & set(path.relative_to(ROOT).parts)


def long_functions(lines: list[str]) -> Iterator[int]:
    """The lines at which functions begin that are too long: formatted code closes one at its own column."""
    begin = re.compile(r"(\s*)(?:pub(?:\([^)]*\))? )?(?:(?:const|async|unsafe|extern \"C\") )*fn \w")
    for first, line in enumerate(lines):
        found = begin.match(line)
        if found is None or line.rstrip().endswith((";", "}")):
            continue
        for last in range(first + 1, len(lines)):
            if lines[last] == found[1] + "}":
                if last - first + 1 > FUNCTION_LINES_MAX:
                    yield first + 1
                break
            if (
                lines[last].startswith(found[1])
                and lines[last].endswith(";")
                and not lines[last][len(found[1])].isspace()
            ):
                break


def wide_comments(lines: list[str]) -> Iterator[int]:
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("//") and len(line) > COMMENT_COLUMNS_MAX:
            yield number


def bare_prepositions(lines: list[str]) -> Iterator[int]:
    """The lines at which doc comments begin with a preposition."""
    previous = ""
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        is_first = stripped.startswith(("///", "//!")) and not previous.startswith(stripped[:3])
        previous = stripped
        word = re.match(r"//[/!]\s+([A-Z][a-z]*)\b", stripped)
        if is_first and word and PREPOSITIONS.fullmatch(word[1].lower()):
            yield number


def module_of(path: Path, source: Path) -> str:
    """The name of a file's module within its crate, with its folders: `statement::write`."""
    parts = list(path.relative_to(source).with_suffix("").parts)
    if parts[-1] in ("mod", "lib", "main"):
        parts.pop()
    return "::".join(parts)


def imports_of(text: str, module: str, modules: set[str]) -> set[str]:
    """The modules of its crate that a file names: by `crate::` or `super::`, or as its own children."""
    parent = module.rpartition("::")[0]
    found = set()
    for start, rest in re.findall(r"\b(crate|super)::((?:\w+::)*(?:\w+|\{[^;]*?\}))", text):
        base = "" if start == "crate" else parent
        head, _, group = rest.partition("{")
        names = re.findall(r"(?:^|[{,]\s*)((?:\w+::)*\w+)", group) if group else [""]
        for name in names:
            path = "::".join(part for part in (base, head.removesuffix("::"), name) if part)
            while path and path not in modules:
                path = path.rpartition("::")[0]
            if path and path != module:
                found.add(path)
    children = {f"{module}::{name}" for name in re.findall(r"(?<!:)\b(\w+)::", text)}
    return found | (children & modules)


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The strongly connected components of more than one module (Tarjan 1972), without recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []
    for root in graph:
        work = [(root, iter(sorted(graph[root])))] if root not in index else []
        if work:
            index[root] = low[root] = len(index)
            stack.append(root)
        while work:
            node, successors = work[-1]
            successor = next(successors, None)
            if successor is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    cut = stack.index(node)
                    component, stack[cut:] = set(stack[cut:]), []
                    if len(component) > 1:
                        found.append(component)
            elif successor not in index:
                index[successor] = low[successor] = len(index)
                stack.append(successor)
                work.append((successor, iter(sorted(graph.get(successor, ())))))
            elif successor in stack:
                low[node] = min(low[node], index[successor])
    return found


def largest_circle() -> int:
    """The files of the largest circle of imports within a crate."""
    largest = 0
    for source in sorted(ROOT.glob("crates/*/src")) + sorted(ROOT.glob("bindings/*/src")):
        files = {module_of(path, source): path for path in source.rglob("*.rs")}
        graph = {
            module: imports_of(path.read_text(), module, set(files)) - {""}
            for module, path in files.items()
            if module
        }
        largest = max([largest, *(len(circle) for circle in circles(graph))])
    return largest


def counts() -> dict[str, int]:
    """The habits that only may become fewer."""
    functions = comments = prepositions = 0
    for path in sources():
        lines = path.read_text().splitlines()
        functions += sum(1 for _ in long_functions(lines)) if is_product(path) else 0
        comments += sum(1 for _ in wide_comments(lines))
        prepositions += sum(1 for _ in bare_prepositions(lines))
    return {
        f"functions over {FUNCTION_LINES_MAX} lines": functions,
        f"comment lines over {COMMENT_COLUMNS_MAX} columns": comments,
        "doc comments that begin with a preposition": prepositions,
        "files in the largest circle of imports": largest_circle(),
    }


def sections(document: str) -> set[str]:
    """The numbers of a specification's sections."""
    text = (ROOT / "docs" / document).read_text()
    return set(re.findall(r"^#+ (\d+(?:\.\d+)*)", text, re.MULTILINE))


def missing_sections() -> list[str]:
    """The citations of sections that are not there; `§` alone is of the crate's own specification."""
    known = {document: sections(document) for document in ("format.md", "protocol.md")}
    found = []
    for path in sources():
        default = "format.md" if {"format", "io", "storage"} & set(path.parts) else "protocol.md"
        for document, number in re.findall(r"(?:(\w+\.md)[`,]* )?§(\d+(?:\.\d+)*)", path.read_text()):
            if number not in known.get(document or default, {number}):
                found.append(f"{name_of(path)}: {document or default} has no §{number}")
    return found


def missing_modules() -> list[str]:
    """The modules that ARCHITECTURE.md names and that are not there."""
    crates = {path.name: path / "src" for path in ROOT.glob("crates/*")}
    found = []
    for crate, rest in re.findall(r"`(\w+)::(\w+(?:::\w+)*)", (ROOT / "ARCHITECTURE.md").read_text()):
        source = crates.get(crate)
        if source is None:
            continue
        parts = rest.split("::")
        while parts and not re.match(r"[a-z]", parts[-1]):
            parts.pop()
        path = source.joinpath(*parts)
        is_module = path.is_dir() or path.with_suffix(".rs").is_file()
        named = re.compile(rf"\b(?:fn|struct|mod|macro_rules!) {parts[-1] if parts else ''}\b")
        if (
            parts
            and not is_module
            and not any(named.search(file.read_text()) for file in source.rglob("*.rs"))
        ):
            found.append(f"{crate}::{rest}")
    return found


def unsafe_places() -> set[str]:
    """The product's files that have unsafe code."""
    code = re.compile(r"^[^/\"]*\bunsafe\b\s*(?:\{|impl|fn|extern)", re.MULTILINE)
    product = (
        (path, path.read_text().partition("#[cfg(test)]\nmod ")[0]) for path in sources() if is_product(path)
    )
    return {name_of(path) for path, text in product if code.search(text)}


def stray_unsafe_code() -> list[str]:
    """The files with unsafe code that are in none of the places that ARCHITECTURE.md lists for it."""
    paragraph = re.search(r"`unsafe` is in (.+?)\n\n", (ROOT / "ARCHITECTURE.md").read_text(), re.DOTALL)
    allowed = re.findall(r"`([\w/.-]+)`", paragraph[1]) if paragraph else []
    return [
        place for place in sorted(unsafe_places()) if not any(place.startswith(prefix) for prefix in allowed)
    ]


def forbidden_dependencies() -> list[str]:
    """The crates that link what they must not know, by whatever way."""
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1"]
    metadata = json.loads(
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    )
    names = {package["id"]: package["name"] for package in metadata["packages"]}
    needs = {
        node["id"]: [
            dependency["pkg"]
            for dependency in node["deps"]
            if any(kind["kind"] is None for kind in dependency["dep_kinds"])
            # Keeps one set of features; it links nothing that is not used.
            and names[dependency["pkg"]] != "workspace-hack"
        ]
        for node in metadata["resolve"]["nodes"]
    }
    members = {names[member]: member for member in metadata["workspace_members"]}
    known = {*FORBIDDEN, *FREE, "workspace-hack"}
    found = [f"{name} has no row in FORBIDDEN" for name in sorted(members.keys() - known)]
    for crate, forbidden in FORBIDDEN.items():
        reached, work = set(), [members[crate]]
        while work:
            package = work.pop()
            if package not in reached:
                reached.add(package)
                work.extend(needs[package])
        linked = {names[package] for package in reached} & set(forbidden)
        found += [f"{crate} links {name}" for name in sorted(linked)]
    return found


# What must not be at all, by what it is called.
FAULTS = {
    "sections that are cited and not there": missing_sections,
    "modules that ARCHITECTURE.md names and that are not there": missing_modules,
    "unsafe code outside the places that ARCHITECTURE.md names": stray_unsafe_code,
    "crates that link what they must not know": forbidden_dependencies,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="write the counts to tidy.json")
    options = parser.parse_args()
    now = counts()
    for what, count in now.items():
        print(f"{count:6} {what}")
    for what, check in FAULTS.items():
        found = check()
        print(f"{len(found):6} {what}")
        for fault in found:
            print(f"       {fault}")
    if options.record:
        RECORD.write_text(json.dumps(now, indent=2) + "\n")


if __name__ == "__main__":
    main()
