"""The archive of a commit: what it keeps, that its sums hold, and what it refuses."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parent
GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
REPORT = """
import pathlib, sys
place = pathlib.Path(sys.argv[sys.argv.index("--output") + 1])
place.mkdir(exist_ok=True)
(place / "index.html").write_text("a page")
"""


def git(clone, *words):
    done = subprocess.run([*GIT, *words], cwd=clone, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path):
    """A small repository with the script, and a report that is written at once."""
    clone = tmp_path / "clone"
    for directory in ("scripts", "bench/report"):
        (clone / directory).mkdir(parents=True)
    for script in ("archive.sh", "install.sh"):
        shutil.copy(SCRIPTS / script, clone / "scripts")
    (clone / "bench" / "report" / "__main__.py").write_text(REPORT)
    (clone / ".gitignore").write_text("/archive/\n__pycache__/\n")
    git(clone, "init", "--quiet")
    for number in (1, 2):
        (clone / "a file").write_text(f"{number}\n")
        git(clone, "add", "--all")
        git(clone, "commit", "--quiet", "--message", f"commit {number}")
    return clone


def archive(clone, *words):
    command = ["scripts/archive.sh", *words]
    return subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)


def test_an_archive_has_the_commit_its_history_and_the_report(clone, tmp_path):
    for _ in range(2):  # a second one of the same commit takes the place of the first
        done = archive(clone)
        assert done.returncode == 0, done.stderr
    place = clone / "archive"
    name = f"hypostyle-{git(clone, 'rev-parse', 'HEAD')[:12]}"
    found = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
    wanted = {f"{name}.tar.gz", f"{name}.bundle", "README.txt", "SHA256SUMS", "report/index.html"}
    assert wanted <= found <= wanted | {"system-packages.txt"}
    checked = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=place, capture_output=True, text=True)
    assert checked.returncode == 0
    assert len(checked.stdout.splitlines()) == len(found) - 1
    with tarfile.open(place / f"{name}.tar.gz") as sources:
        assert f"{name}/scripts/archive.sh" in sources.getnames()
    again = tmp_path / "again"
    git(tmp_path, "clone", "--quiet", str(place / f"{name}.bundle"), str(again))
    assert git(again, "log", "--format=%s") == "commit 2\ncommit 1"
    assert git(again, "rev-parse", "HEAD") == git(clone, "rev-parse", "HEAD")
    assert name in (place / "README.txt").read_text()


def test_what_is_not_committed_is_refused(clone):
    (clone / "new").write_text("")
    done = archive(clone)
    assert done.returncode == 1
    assert "there are uncommitted changes" in done.stderr


def test_a_folder_of_another_commit_is_refused(clone, tmp_path):
    place = str(tmp_path / "kept")
    assert archive(clone, place).returncode == 0
    git(clone, "commit", "--quiet", "--allow-empty", "--message", "commit 3")
    done = archive(clone, place)
    assert done.returncode == 1
    assert "has another commit: hypostyle-" in done.stderr


def test_a_clone_without_earlier_commits_is_refused(clone, tmp_path):
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth=1", clone.as_uri(), str(shallow))
    done = archive(shallow)
    assert done.returncode == 1
    assert "git fetch --unshallow" in done.stderr
