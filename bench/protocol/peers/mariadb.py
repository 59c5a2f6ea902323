"""MariaDB: its text protocol, plain and compressed (zlib)."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from protocol.data import Data, Table
from protocol.networks import Path as NetworkPath
from protocol.peers.peer import Peer, Transfer, Way, transfer
from protocol.peers.sql import create_table
from protocol.processes import PeerError, accepts, free_port, run, running, unprivileged, wait_until

SERVER = Path("/usr/sbin/mariadbd")
DATABASE = "bench"
# This is enough to keep all data in memory; loading need not be safe.
SETTINGS = (
    "--bind-address=127.0.0.1",
    "--innodb-buffer-pool-size=2G",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=OFF",
    "--secure-file-priv=",
)


class MariaDB(Peer):
    name = "MariaDB"

    def start(self, data: Data) -> None:
        if not SERVER.exists() or shutil.which("mariadb") is None:
            raise PeerError("MariaDB is not installed; run scripts/setup_peers.sh")
        self.port, self.socket = free_port(), self.scratch / "mariadb.sock"
        database = data.database(f"mariadb-{self._version()}", lambda path: self._load(path, data))
        self.cleanup.enter_context(self._serving(database))
        self.asker = self.client("mariadb_client.py")

    def ways(self) -> list[Way]:
        return [
            Way("MariaDB", lambda path, table: self._fetch(path, table, False)),
            Way("MariaDB, compressed", lambda path, table: self._fetch(path, table, True)),
        ]

    def versions(self) -> dict[str, str]:
        return {"MariaDB": self._version()}

    def _version(self) -> str:
        return run([SERVER, "--no-defaults", "--version"]).split("Ver ")[1].split("-")[0]

    def _fetch(self, path: NetworkPath, table: Table, compressed: bool) -> Transfer:
        sql = f"SELECT * FROM {table.name}"
        return transfer(
            self.asker.ask(host=path.host, port=path.port, database=DATABASE, sql=sql, compressed=compressed)
        )

    @contextlib.contextmanager
    def _serving(self, directory: Path) -> Iterator[None]:
        command = [*unprivileged(), SERVER, "--no-defaults", f"--datadir={directory}", *SETTINGS]
        command += [
            f"--socket={self.socket}",
            f"--port={self.port}",
            f"--pid-file={self.scratch / 'mariadb.pid'}",
        ]
        with self.log.open("w") as log, running(command, stdout=log, stderr=log) as server:
            wait_until(lambda: accepts(self.port), server, self.log)
            yield

    def _load(self, directory: Path, data: Data) -> None:
        directory.mkdir()
        options = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        install = ["mariadb-install-db", "--no-defaults", f"--datadir={directory}", *options]
        run([*unprivileged(), *install])
        with self._serving(directory):
            # Clients come over TCP, as "root" of this machine without a password.
            self._execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
            for table in data.tables.values():
                self._execute(create_table(table), load_statement(table), database=DATABASE)

    def _execute(self, *statements: str, database: str = "mysql") -> None:
        command = ["mariadb", "--no-defaults", f"--socket={self.socket}", "--user=root", database]
        run(command, input=";\n".join(statements))


def load_statement(table: Table) -> str:
    """Return a LOAD DATA statement, with NULL for empty values of the CSV."""
    targets, settings = [], []
    for field in table.schema:
        targets.append(f"@{field.name}" if field.nullable else field.name)
        if field.nullable:
            settings.append(f"{field.name} = NULLIF(@{field.name}, '')")
    text = f"LOAD DATA INFILE '{table.csv}' INTO TABLE {table.name} CHARACTER SET utf8mb4"
    text += " FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' ESCAPED BY ''"
    text += f" ({', '.join(targets)})"
    return f"{text} SET {', '.join(settings)}" if settings else text
