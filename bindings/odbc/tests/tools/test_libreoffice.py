"""LibreOffice Base without a window: a database document over a data source of ODBC."""

import os
import subprocess
from pathlib import Path

import pyodbc
from conftest import passes

PROGRAM = Path(__file__).with_name("libreoffice_base.py")


def test_base(tmp_path, file_database):
    """The program makes, reads and changes a table; another driver manager's user finds what it has left."""
    place = tmp_path / "odbc.ini"
    place.write_text(f"[shop]\nDriver=Hypostyle\nDatabase={file_database}\nThreads=2\n")
    environment = {**os.environ, "ODBCINI": str(place), "HOME": str(tmp_path)}
    profile = (tmp_path / "profile").as_uri()
    listening = f"--accept=pipe,name=base{os.getpid()};urp;"
    office = subprocess.Popen(
        [
            *("soffice", "--headless", "--invisible", "--norestore", "--nologo", "--nofirststartwizard"),
            *(f"-env:UserInstallation={profile}", listening),
        ],
        env=environment,
        start_new_session=True,
    )
    try:
        document = (tmp_path / "shop.odb").as_uri()
        # python3-uno belongs to Debian's Python.
        told = passes(["/usr/bin/python3", PROGRAM, f"base{os.getpid()}", document], env=environment)
        assert told.endswith("all of it\n")
    finally:
        office.terminate()
        try:
            office.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(office.pid, 9)
            office.wait()
    connection = pyodbc.connect(f"Driver=Hypostyle;Database={file_database}", autocommit=True)
    rows = [tuple(row) for row in connection.execute("SELECT id, name, price FROM stock ORDER BY id")]
    connection.close()
    assert rows == [(1, "chair", 12.5), (2, "desk", 99.0), (4, "shelf", 8.0)]
