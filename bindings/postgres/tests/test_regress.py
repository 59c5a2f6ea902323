"""What psql shows of the format, by PostgreSQL's own program for such tests: sql/ and expected/."""

import pathlib
import subprocess

import pytest

from cluster import HERE, pg_config


def test_psql_shows_what_is_expected(cluster, tmp_path):
    program = pathlib.Path(pg_config("--pgxs")).parents[1] / "test/regress/pg_regress"
    if not program.exists():
        pytest.skip("no pg_regress: install the headers of the server")
    places = [f"--inputdir={HERE.parent}", f"--outputdir={tmp_path}", f"--bindir={cluster.bin}"]
    server = [f"--host={cluster.folder}", f"--port={cluster.port}", "--user=postgres", "--dbname=regress"]
    done = subprocess.run([program, *places, *server, "hypostyle"], capture_output=True, text=True)
    differences = tmp_path / "regression.diffs"
    shown = differences.read_text() if differences.exists() else done.stdout + done.stderr
    assert done.returncode == 0, shown
