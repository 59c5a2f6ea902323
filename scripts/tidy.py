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
    "hypostyle-sync": (*ENGINE, "hypostyle-types", "arrow-array", "rustix", "tokio", "pyo3"),
    "hypostyle-auth": (*ENGINE, "hypostyle-storage", "arrow-array", "rustls", "sqlparser", "tokio", "pyo3"),
    "hypostyle-pgtypes": (*ENGINE, "hypostyle-storage", "ring", "rustls", "sqlparser", "tokio", "pyo3"),
    "hypostyle-position": (
        *ENGINE,
        "hypostyle-format",
        "hypostyle-io",
        "hypostyle-storage",
        "sqlparser",
        "tokio",
        "pyo3",
    ),
    "hypostyle-placement": (
        *ENGINE,
        "hypostyle-format",
        "hypostyle-io",
        "hypostyle-storage",
        "rustix",
        "sqlparser",
        "tokio",
        "pyo3",
    ),
    "hypostyle-io": (*ENGINE, "hypostyle-format", "hypostyle-storage", "arrow-array", "sqlparser", "pyo3"),
    "hypostyle-mapped": (*ENGINE, "hypostyle-format", "hypostyle-storage", "sqlparser", "tokio", "pyo3"),
    "hypostyle-index": (
        *ENGINE,
        "hypostyle-format",
        "hypostyle-io",
        "hypostyle-storage",
        "rustix",
        "sqlparser",
        "tokio",
        "pyo3",
    ),
    "hypostyle-storage": (*ENGINE, "sqlparser", "tokio", "pyo3"),
    "hypostyle-wire": (*ENGINE, "hypostyle-storage", "ring", "rustls", "tokio", "pyo3"),
    "hypostyle-transport": (*ENGINE, "hypostyle-storage", "sqlparser", "pyo3"),
    "hypostyle-client": (*ENGINE, "hypostyle-storage", "sqlparser", "pyo3"),
    "hypostyle-postgres": (*ENGINE, "hypostyle-storage", "sqlparser", "tokio", "pyo3"),
    "hypostyle-postgres-encoder": (*ENGINE, "hypostyle-storage", "sqlparser", "tokio", "pyo3"),
    "hypostyle-error": ("datafusion", "hypostyle-storage", "hypostyle-sql", "pyo3"),
    "hypostyle-sql": ("datafusion", "hypostyle-storage", "hypostyle-expr", "pyo3"),
    "hypostyle-expr": ("hypostyle-storage", "hypostyle-plan", "hypostyle-engine", "rustls"),
    "hypostyle-exec": ("hypostyle-plan", "hypostyle-catalog", "hypostyle-engine", "rustls"),
    "hypostyle-plan": ("hypostyle-storage", "hypostyle-exec", "hypostyle-engine", "rustls"),
    "hypostyle-bind": ("hypostyle-storage", "hypostyle-exec", "hypostyle-engine", "rustls"),
    "hypostyle-files": (
        "hypostyle-storage",
        "hypostyle-plan",
        "hypostyle-exec",
        "hypostyle-engine",
        "rustls",
    ),
    "hypostyle-foreign": (
        "hypostyle-storage",
        "hypostyle-plan",
        "hypostyle-exec",
        "hypostyle-engine",
        "rustls",
    ),
    "hypostyle-cluster": ("hypostyle-catalog", "hypostyle-client", "hypostyle-engine", "rustls"),
    "hypostyle-catalog": ("hypostyle-engine", "rustls"),
    "hypostyle-tpch": ("hypostyle-storage", "hypostyle-plan", "hypostyle-exec", "hypostyle-engine", "rustls"),
    "hypostyle-engine": ("hypostyle-client", "hypostyle-server", "hypostyle-transport", "rustls"),
    "hypostyle": ("hypostyle-server",),
    "hypostyle-node": ("hypostyle-server",),
    "hypostyle-adbc": ("hypostyle-server",),
    "hypostyle-c": ("hypostyle-server",),
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


def without_tests(text: str) -> str:
    """A file without the module of its tests, which ends it."""
    return re.split(r"^#\[cfg\(test\)\]\nmod \w+ \{", text, maxsplit=1, flags=re.MULTILINE)[0]


def imports_of(text: str, module: str, modules: set[str]) -> set[str]:
    """The modules of its crate that a file names: by `crate::` or `super::`, or as its own children."""
    parent = module.rpartition("::")[0]
    # Who may see something is no import.
    text = re.sub(r"\bpub\(in [\w:]+\)", "pub", without_tests(text))
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


def circles_of_files() -> Iterator[set[Path]]:
    """The files that import each other, crate by crate. The crate's root names all of its modules."""
    for source in sorted(ROOT.glob("crates/*/src")) + sorted(ROOT.glob("bindings/*/src")):
        files = {module_of(path, source): path for path in sorted(source.rglob("*.rs"))}
        graph = {
            module: imports_of(path.read_text(), module, set(files)) - {""}
            for module, path in files.items()
            if module
        }
        for circle in circles(graph):
            yield {files[module] for module in circle}


def largest_circle() -> int:
    """The files of the largest circle of imports within a crate."""
    return max((len(circle) for circle in circles_of_files()), default=0)


def folder_of(path: Path) -> Path:
    """The folder of a module: that of its submodules, if it has any."""
    own = path.with_suffix("")
    return own if own.is_dir() else path.parent


def circles_across_folders() -> list[str]:
    """The circles of imports whose files are in several folders: the folders have no order then."""
    return [
        ", ".join(sorted(name_of(path) for path in circle))
        for circle in circles_of_files()
        if len({folder_of(path) for path in circle}) > 1
    ]


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
        "circles of imports across folders": len(circles_across_folders()),
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
        places = set(path.relative_to(ROOT).parts)
        default = "format.md" if {"format", "index", "io", "storage"} & places else "protocol.md"
        for document, number in re.findall(r"(?:(\w+\.md)[`,]* )?§(\d+(?:\.\d+)*)", path.read_text()):
            if number not in known.get(document or default, {number}):
                found.append(f"{name_of(path)}: {document or default} has no §{number}")
    return found


def missing_modules() -> list[str]:
    """The modules that ARCHITECTURE.md or a decision names and that are not there."""
    crates = {path.name: path / "src" for path in ROOT.glob("crates/*")}
    documents = [ROOT / "ARCHITECTURE.md", *sorted(ROOT.glob("docs/decisions/*.md"))]
    text = "\n".join(document.read_text() for document in documents)
    found = []
    for crate, rest in re.findall(r"`(\w+)::(\w+(?:::\w+)*)", text):
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


def types_without_example(text: str) -> list[str]:
    """The public types of a file whose documentation has no code that `cargo test` runs."""
    item = re.compile(r"^((?:///.*\n|#\[.*\]\n)*)pub (?:struct|enum|union|trait|type) (\w+)", re.MULTILINE)
    return [name for documentation, name in item.findall(text) if "/// ```\n" not in documentation]


def api_without_example() -> list[str]:
    """The public types of the façade without an example."""
    return [
        f"{name_of(path)}: {name}"
        for path in sorted((ROOT / "crates/hypostyle/src").rglob("*.rs"))
        for name in types_without_example(path.read_text())
    ]


def unrun_examples() -> list[str]:
    """The examples of crates whose documentation `cargo test` does not look at, which takes time for each."""
    example = re.compile(r"^\s*//[/!] ```", re.MULTILINE)
    skipped = (path for path in ROOT.glob("*/**/Cargo.toml") if "doctest = false" in path.read_text())
    return [
        name_of(path)
        for manifest in sorted(skipped)
        for path in sorted((manifest.parent / "src").rglob("*.rs"))
        if example.search(path.read_text())
    ]


def unsafe_places() -> set[str]:
    """The product's files that have unsafe code."""
    code = re.compile(r"^[^/\"]*\bunsafe\b\s*(?:\{|impl|fn|extern)", re.MULTILINE)
    product = ((path, without_tests(path.read_text())) for path in sources() if is_product(path))
    return {name_of(path) for path, text in product if code.search(text)}


def allowed_unsafe_places() -> list[str]:
    """The files and folders that ARCHITECTURE.md lists for unsafe code."""
    paragraph = re.search(r"`unsafe` is in (.+?)\n\n", (ROOT / "ARCHITECTURE.md").read_text(), re.DOTALL)
    # The list ends with its sentence.
    return re.findall(r"`([\w/.-]+)`", paragraph[1].split(". ")[0]) if paragraph else []


def stray_unsafe_code() -> list[str]:
    """The files with unsafe code that ARCHITECTURE.md does not list, and what it lists without need."""
    allowed, found = allowed_unsafe_places(), sorted(unsafe_places())
    stray = [place for place in found if not any(place.startswith(prefix) for prefix in allowed)]
    idle = [prefix for prefix in allowed if not any(place.startswith(prefix) for place in found)]
    return stray + [f"{prefix} has none" for prefix in idle]


# Files that Cargo finds by their names.
ROOTS = ("src/lib.rs", "src/main.rs", "build.rs", "examples/*.rs", "tests/*.rs", "tests/*/main.rs")


def crate_folders() -> list[Path]:
    """The folders of crates, which are at most three levels deep."""
    return [found.parent for depth in (1, 2, 3) for found in ROOT.glob("*/" * depth + "Cargo.toml")]


def roots() -> list[Path]:
    """The files that Cargo compiles by themselves: each names its modules."""
    found = []
    for folder in crate_folders():
        for pattern in ROOTS:
            found += folder.glob(pattern)
        manifest = (folder / "Cargo.toml").read_text()
        paths = re.findall(r'^path = "(.+\.rs)"', manifest, re.MULTILINE)
        found += [(folder / path).resolve() for path in paths]
    return found


def modules_of(path: Path, is_root: bool) -> Iterator[Path]:
    """The files that may be the modules that a file declares."""
    folder = path.parent if is_root or path.stem == "mod" else path.with_suffix("")
    declared = r'^\s*(?:#\[path = "(.+)"\]\n)?\s*(?:pub(?:\([\w: ]+\))? )?mod (\w+);'
    for other, name in re.findall(declared, path.read_text(), re.MULTILINE):
        if other:
            yield (path.parent / other).resolve()
        else:
            yield from (folder / f"{name}.rs", folder / name / "mod.rs")


def forgotten_files() -> list[str]:
    """The files that no other one declares as its module: they are never compiled, nor run as tests."""
    first = set(roots())
    reached, work = set(), list(first)
    while work:
        path = work.pop()
        if path not in reached and path.is_file():
            reached.add(path)
            work.extend(modules_of(path, path in first))
    return [name_of(path) for path in sources() if path not in reached]


def unforbidden_unsafe_code() -> list[str]:
    """The crates without unsafe code that do not forbid it."""
    places = unsafe_places()
    found = []
    for source in (folder / "src" for folder in crate_folders()):
        root = next((source / name for name in ("lib.rs", "main.rs") if (source / name).is_file()), None)
        has_unsafe = any(place.startswith(name_of(source) + "/") for place in places)
        if root is not None and not has_unsafe and "#![forbid(unsafe_code)]" not in root.read_text():
            found.append(name_of(root))
    return found


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
    "modules that ARCHITECTURE.md or a decision names and that are not there": missing_modules,
    "unsafe code outside the places that ARCHITECTURE.md names": stray_unsafe_code,
    "crates without unsafe code that do not forbid it": unforbidden_unsafe_code,
    "files that are never compiled": forgotten_files,
    "public types of crates/hypostyle without an example": api_without_example,
    "examples that are never run": unrun_examples,
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
