"""pgbouncer in front of a cluster of the tests."""

import os
import shutil
import subprocess

import psycopg

from cluster import free_port, wait_until

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
USERS = ["postgres", "reader"]


class Pooler:
    """A pooler that has so many connections to the server for each user and database, until it is stopped."""

    def __init__(self, cluster, mode, size=1):
        self.cluster = cluster
        self.folder = cluster.folder / f"pooler-{mode}"
        self.port = free_port()
        self.folder.mkdir()
        (self.folder / "users").write_text("".join(f'"{user}" ""\n' for user in USERS))
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "unix_socket_dir": self.folder,
            "auth_type": "trust",
            "auth_file": self.folder / "users",
            "pool_mode": mode,
            "default_pool_size": size,
            "logfile": self.folder / "log",
        }
        listed = "".join(f"{name} = {value}\n" for name, value in settings.items())
        database = f"* = host={cluster.folder} port={cluster.port}\n"
        (self.folder / "settings").write_text(f"[databases]\n{database}[pgbouncer]\n{listed}")
        if cluster.user:
            shutil.chown(self.folder, cluster.user["user"])
        self.process = subprocess.Popen(
            [PROGRAM, "-q", self.folder / "settings"], stderr=subprocess.DEVNULL, **cluster.user
        )
        wait_until(self.answers)

    def answers(self):
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def connect(self, user="postgres"):
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=user,
            dbname="postgres",
            autocommit=True,
            prepare_threshold=None,
        )

    def close(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder)
