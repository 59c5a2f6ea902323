"""What the build consists of: checks it against deny.toml, or lists it as a CycloneDX bill of materials.

`dependencies.py check` fails when a package of Cargo.lock has a licence or comes from a source that deny.toml
does not allow; `dependencies.py sbom FILE` writes the list, the same one for the same Cargo.lock.
"""

import argparse
import json
import re
import subprocess
import sys
import tomllib
import uuid
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The name in a bill of materials that has no other.
NAMESPACE = uuid.UUID("3d8f4c3e-5b0c-4c57-9d0e-0d8c5a0b6f11")


def read_metadata() -> dict:
    """Return cargo's data about all packages, also those for other systems."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


def read_toml(name: str) -> dict:
    return tomllib.loads((ROOT / name).read_text())


def spdx(licence: str) -> str:
    """Return a licence as SPDX writes it: older packages put a slash between alternatives."""
    return re.sub(r"\s*/\s*", " OR ", licence)


def is_allowed(licence: str, allowed: set[str]) -> bool:
    """Say whether allowed licences fulfil an SPDX expression."""
    tokens = re.findall(r"[()]|[^\s()]+(?:\s+WITH\s+[^\s()]+)?", spdx(licence))

    def alternatives() -> bool:
        found = conjunction()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            found = conjunction() or found
        return found

    def conjunction() -> bool:
        found = term()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            found = term() and found
        return found

    def term() -> bool:
        token = tokens.pop(0)
        if token != "(":
            return " ".join(token.split()) in allowed
        found = alternatives()
        assert tokens.pop(0) == ")", licence
        return found

    found = alternatives()
    assert not tokens, licence
    return found


def problems(packages: list[dict], policy: dict) -> list[str]:
    """Return what deny.toml does not allow; a package without a source is one of the workspace."""
    allowed = set(policy["licenses"]["allow"])
    registries = {f"registry+{registry}" for registry in policy["sources"]["allow-registry"]}
    found = []
    for package in packages:
        name = f"{package['name']} {package['version']}"
        if not package["license"]:
            found.append(f"{name} names no licence")
        elif not is_allowed(package["license"], allowed):
            found.append(f"{name} has the licence {package['license']}")
        if package["source"] not in {None, *registries}:
            found.append(f"{name} comes from {package['source']}")
    return found


def check() -> int:
    packages = read_metadata()["packages"]
    found = problems(packages, read_toml("deny.toml"))
    for problem in found:
        print(f"{problem}, which deny.toml does not allow", file=sys.stderr)
    versions = Counter(package["name"] for package in packages)
    several = sorted(name for name, count in versions.items() if count > 1)
    print(f"{len(packages)} packages; of several versions: {', '.join(several)}")
    return bool(found)


def purl(package: dict) -> str:
    return f"pkg:cargo/{package['name']}@{package['version']}"


def bill_of_materials() -> dict:
    """Return all packages of Cargo.lock with their licences, checksums and dependencies."""
    metadata, lock = read_metadata(), read_toml("Cargo.lock")
    checksums = {purl(package): package.get("checksum") for package in lock["package"]}
    packages = {package["id"]: package for package in metadata["packages"]}
    ordered = sorted(packages.values(), key=purl)
    product = next(package for package in ordered if package["name"] == "hypostyle")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": uuid.uuid5(NAMESPACE, (ROOT / "Cargo.lock").read_text()).urn,
        "version": 1,
        "metadata": {"component": {"type": "application", **_named(product), "bom-ref": "hypostyle"}},
        "components": [_component(package, checksums[purl(package)]) for package in ordered],
        "dependencies": [
            {
                "ref": purl(packages[node["id"]]),
                "dependsOn": sorted({purl(packages[needed]) for needed in node["dependencies"]}),
            }
            for node in sorted(metadata["resolve"]["nodes"], key=lambda node: purl(packages[node["id"]]))
        ],
    }


def _named(package: dict) -> dict:
    return {
        "name": package["name"],
        "version": package["version"],
        "licenses": [{"expression": spdx(package["license"])}],
        "purl": purl(package),
    }


def _component(package: dict, checksum: str | None) -> dict:
    component = {"type": "library", "bom-ref": purl(package), **_named(package)}
    if checksum:
        component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return component


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    commands = options.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="licences and sources against deny.toml")
    commands.add_parser("sbom", help="a bill of materials").add_argument("file", type=Path)
    chosen = options.parse_args()
    if chosen.command == "check":
        return check()
    chosen.file.parent.mkdir(parents=True, exist_ok=True)
    chosen.file.write_text(json.dumps(bill_of_materials(), indent=1) + "\n")
    print(chosen.file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
