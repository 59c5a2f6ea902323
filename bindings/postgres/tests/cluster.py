"""A PostgreSQL cluster of its own for the tests, and COPY in the format hypostyle with what comes of it."""

import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

import psycopg
from psycopg import pq

HERE = pathlib.Path(__file__).resolve().parent
PG_CONFIG = os.environ.get("PG_CONFIG", "pg_config")
# In the list of columns the numbers come one by one.
ENDLESS = "SELECT n, md5(n::text) AS t FROM (SELECT generate_series(1, 1000000000) AS n) s"


def pg_config(option):
    return subprocess.run([PG_CONFIG, option], check=True, capture_output=True, text=True).stdout.strip()


def decoder():
    """The program that decodes frames, encoder/examples/frames.rs."""
    if "FRAMES" in os.environ:
        return os.environ["FRAMES"]
    target = os.environ.get("CARGO_TARGET_DIR", HERE.parents[2] / "target")
    profile = os.environ.get("CARGO_PROFILE", "release")
    return pathlib.Path(target) / ("debug" if profile == "dev" else profile) / "examples" / "frames"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Cluster:
    """A server that runs as a user without rights, until it is stopped."""

    def __init__(self, *more_settings):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hypopg"))
        self.bin = pathlib.Path(pg_config("--bindir"))
        self.port = free_port()
        # A server refuses to run as root.
        self.user = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
        if self.user:
            shutil.chown(self.folder, "nobody")
        self.run("initdb", "-D", "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        settings = ["fsync=off", "listen_addresses=127.0.0.1", f"port={self.port}", "max_connections=30"]
        settings += [f"unix_socket_directories={self.folder}", "log_min_messages=warning"]
        settings += more_settings
        options = " ".join(f"-c {setting}" for setting in settings)
        # What is run in place of the server may be a script that runs it under a tool.
        program = ["-p", os.environ["POSTGRES"]] if "POSTGRES" in os.environ else []
        self.run("pg_ctl", "-D", "data", "-w", "-t", "180", "-l", "log", *program, "-o", options, "start")

    def run(self, program, *arguments):
        subprocess.run(
            [self.bin / program, *arguments],
            cwd=self.folder,
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
            **self.user,
        )

    def stop(self):
        self.run("pg_ctl", "-D", "data", "-m", "immediate", "stop")
        shutil.rmtree(self.folder)

    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def connect(self, user="postgres", dbname="postgres", host=None, **settings):
        host = host or str(self.folder)
        return psycopg.connect(
            host=host,
            port=self.port,
            user=user,
            dbname=dbname,
            autocommit=True,
            # Tables change under the names of the tests.
            prepare_threshold=None,
            **settings,
        )


class Result:
    """What came: columns as (name, type), rows of values, and the end."""

    def __init__(self, frames):
        self.frames = frames
        done = subprocess.run([decoder()], input=b"".join(frames), capture_output=True)
        if done.returncode != 0:
            raise AssertionError(done.stderr.decode())
        lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
        self.columns = [tuple(column) for column in lines[0]]
        self.rows = lines[1:-1]
        self.end = lines[-1]

    @property
    def types(self):
        return [column[1] for column in self.columns]


class Failed(Exception):
    """An error of the server, with how many bytes had come before it."""

    def __init__(self, result, received):
        field = lambda code: (result.error_field(code) or b"").decode()  # noqa: E731
        self.sqlstate = field(pq.DiagnosticField.SQLSTATE)
        self.message = field(pq.DiagnosticField.MESSAGE_PRIMARY)
        self.hint = field(pq.DiagnosticField.MESSAGE_HINT)
        self.received = received
        super().__init__(f"{self.sqlstate}: {self.message} ({self.hint})")


def statement(query, **options):
    options = {"protocol": 1, **options}
    shown = {name: value if isinstance(value, int) else f"'{value}'" for name, value in options.items()}
    listed = ", ".join(f"{name} {value}" for name, value in shown.items())
    return f"COPY ({query}) TO STDOUT (FORMAT hypostyle, {listed})"


def receive(connection):
    """The CopyData messages of the statement that was sent, up to its end."""
    frames = []
    while True:
        length, data = connection.pgconn.get_copy_data(0)
        if length < 0:
            return frames
        frames.append(bytes(data))


def copy_bytes(connection, query, parameters=(), types=(), text=None, **options):
    load(connection)
    text = text or statement(query, **options)
    values = [None if value is None else str(value).encode() for value in parameters]
    if values:
        result = connection.pgconn.exec_params(text.encode(), values, list(types))
    else:
        result = connection.pgconn.exec_(text.encode())
    if result.status != pq.ExecStatus.COPY_OUT:
        raise Failed(result, 0)
    frames = receive(connection)
    result = connection.pgconn.get_result()
    while (more := connection.pgconn.get_result()) is not None:
        result = more
    if result.status != pq.ExecStatus.COMMAND_OK:
        raise Failed(result, sum(map(len, frames)))
    return frames, result.command_status.decode()


def copy(connection, query, parameters=(), types=(), **options):
    frames, status = copy_bytes(connection, query, parameters, types, **options)
    result = Result(frames)
    assert status == f"COPY {len(result.rows)}"
    return result


def load(connection):
    """Calling a function of the library makes the format known; each session does so once."""
    if connection.info.transaction_status != pq.TransactionStatus.INERROR:
        assert connection.execute("SELECT pg_catalog.hypostyle_protocol()").fetchone() == (1,)


@contextlib.contextmanager
def table(connection, name, columns):
    connection.execute(f"DROP TABLE IF EXISTS {name}")
    connection.execute(f"CREATE TABLE {name} ({columns})")
    try:
        yield name
    finally:
        connection.execute(f"DROP TABLE {name}")


def wait_until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.05)
