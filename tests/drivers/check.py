"""Common parts of the checks of Python's clients: the server's address, and the line of the
table.
"""

import os
import urllib.parse

HOST = os.environ.get("PGHOST", "127.0.0.1")
PORT = int(os.environ.get("PGPORT", "5433"))
USER = os.environ.get("PGUSER", "ada")
DATABASE = os.environ.get("PGDATABASE", "hypostyle")
URL = f"postgresql://{USER}@{HOST}:{PORT}/{urllib.parse.quote(DATABASE)}"


def same(what: str, found: object, expected: object) -> None:
    """End the check if a value is not the expected one."""
    if found != expected:
        raise SystemExit(f"{what}: {found!r} in place of {expected!r}")


def done(client: str, version: str, what: str) -> None:
    """Print the client's line of the table."""
    print(f"CLIENT\t{client}\t{version}\t{what}")
