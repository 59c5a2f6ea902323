"""One program serves its database, and another (here the same one) queries it over a socket."""

import tempfile
from pathlib import Path

import hypostyle

with tempfile.TemporaryDirectory() as directory:
    socket = Path(directory) / "socket"
    with hypostyle.connect() as con, con.serve(unix=socket):
        con.execute("create table t as select number from range(1000000) as r(number)")

        with hypostyle.connect(f"hypostyle+unix://{socket}") as remote:
            print(remote.sql("select count(*), sum(number) from t").fetchall())
