"""A PostgreSQL server for the tests of several packages, by scripts/with_postgres.sh."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The script's exit status where there is no PostgreSQL.
NONE = 69
# How results come; "columns" needs the extension.
TRANSFERS = ["auto", "columns", "copy", "rows"]


@contextmanager
def postgres_addresses() -> Iterator[dict[str, str] | None]:
    """Run a server; yield an address for each way in which results come, or None without PostgreSQL.

    There is none for "columns" where the extension is not installed.
    """
    # It ends with its input, also when the tests are killed.
    tell = 'printf "%s\\n" "$HYPOSTYLE_POSTGRES" "${HYPOSTYLE_POSTGRES_COLUMNS:-}"; exec cat >/dev/null'
    server = subprocess.Popen(
        [ROOT / "scripts/with_postgres.sh", "sh", "-c", tell],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with server:
        plain, columns = (server.stdout.readline().strip() for _ in range(2))
        if not plain:
            status = server.wait()
            assert status == NONE, f"PostgreSQL does not start: {status}"
            yield None
            return
        addresses = {transfer: f"{plain}&transfer={transfer}" for transfer in TRANSFERS}
        del addresses["columns"]
        if columns:
            addresses["columns"] = f"{columns}&transfer=columns"
        yield addresses
        server.stdin.close()
