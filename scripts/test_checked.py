"""scripts/checked.toml builds our crates otherwise and nothing else, so that DataFusion is built once."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
# It lists features only.
WITHOUT_CODE = {"workspace-hack"}


def profile(path):
    return tomllib.loads((ROOT / path).read_text())["profile"]["release"]


def names_of_crates():
    members = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]
    manifests = [path for member in members for path in ROOT.glob(f"{member}/Cargo.toml")]
    return {tomllib.loads(path.read_text())["package"]["name"] for path in manifests}


def test_each_crate_of_ours_has_a_level():
    packages = profile("scripts/checked.toml")["package"]
    assert set(packages) - {"*"} == names_of_crates() - WITHOUT_CODE
    ours = [settings for name, settings in packages.items() if name != "*"]
    assert all(settings["opt-level"] < 2 and settings["codegen-units"] == 1 for settings in ours)


def test_dependencies_are_built_as_for_use():
    """A level for all would be that of macros, too; what is built with another macro is another build."""
    checked, used = profile("scripts/checked.toml"), profile("Cargo.toml")
    assert "opt-level" not in checked and "build-override" not in checked
    # What the profile says of all crates, dependencies get as `cargo build --release` gives it.
    assert checked["package"]["*"] == {"debug-assertions": False, "overflow-checks": False}
    assert checked.keys() <= {"debug", "debug-assertions", "overflow-checks", "package"}
    assert used["package"]["*"]["debug"] is False
