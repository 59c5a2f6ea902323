"""The bill of materials is complete, and packages that deny.toml does not allow are found."""

import dependencies
import pytest

ALLOWED = {"MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"}


@pytest.fixture(scope="module")
def bill():
    return dependencies.bill_of_materials()


def test_the_bill_of_materials_has_every_package_of_the_lock_file(bill):
    locked = dependencies.read_toml("Cargo.lock")["package"]
    listed = {(component["name"], component["version"]): component for component in bill["components"]}
    assert len(locked) == len(listed) == len(bill["components"])
    for package in locked:
        component = listed[package["name"], package["version"]]
        hashes = [found["content"] for found in component.get("hashes", [])]
        assert hashes == [package["checksum"]] if "source" in package else hashes == []
        assert component["licenses"][0]["expression"]


def test_the_dependencies_of_the_bill_are_those_of_the_lock_file(bill):
    known = {component["bom-ref"] for component in bill["components"]}
    entries = {entry["ref"]: entry["dependsOn"] for entry in bill["dependencies"]}
    assert entries.keys() == known
    assert all(known.issuperset(needed) for needed in entries.values())
    for package in dependencies.read_toml("Cargo.lock")["package"]:
        wanted = {dependency.split()[0] for dependency in package.get("dependencies", [])}
        listed = {needed.split("/")[1].split("@")[0] for needed in entries[dependencies.purl(package)]}
        # Cargo leaves out packages that only a disabled optional feature would need.
        assert listed <= wanted


def test_the_bill_of_materials_is_the_same_each_time(bill):
    assert dependencies.bill_of_materials() == bill


@pytest.mark.parametrize(
    ("licence", "is_allowed"),
    [
        ("MIT", True),
        ("GPL-3.0", False),
        ("GPL-3.0 OR MIT", True),
        ("GPL-3.0/MIT", True),
        ("MIT AND GPL-3.0", False),
        ("(MIT OR GPL-3.0) AND Unicode-3.0", True),
        ("MIT OR GPL-3.0 AND GPL-2.0", True),
        ("GPL-2.0 AND GPL-3.0 OR GPL-1.0 AND MIT", False),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("Apache-2.0 WITH Another-exception", False),
    ],
)
def test_a_licence_is_allowed_when_it_can_be_fulfilled(licence, is_allowed):
    assert dependencies.is_allowed(licence, ALLOWED) == is_allowed


def test_what_the_policy_does_not_allow_is_found():
    policy = dependencies.read_toml("deny.toml")
    ours = dependencies.read_metadata()["packages"]
    assert dependencies.problems(ours, policy) == []
    some = {"name": "a", "version": "1", "license": "MIT", "source": None}
    wrong = [
        some | {"license": "GPL-3.0"},
        some | {"license": None},
        some | {"source": "git+https://example.org/a"},
        some | {"source": "registry+https://example.org/index"},
    ]
    assert len(dependencies.problems([some, *wrong], policy)) == len(wrong)
